"""The current state of a campaign, computed from its events."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.features.learned_scales import LearnedFeatures
from seqbatch.campaign.record.earlier_campaign import Document, learned_of, starting_point
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.masking import unmasked
from seqbatch.campaign.spec.spec import Action, Spec, rule_name
from seqbatch.campaign.spec.toml import check_spec
from seqbatch.core import Problem
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import (
    DAMAGED,
    CampaignStateError,
    InvalidArgumentError,
    InvalidSpecError,
    Remedy,
    StoreError,
)
from seqbatch.policies import registry
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.history import History

#: The verdicts that stop a campaign; the last one does not say why, and so reveals no action.
STOPS = SUCCESS, HARM, FUTILITY, STOP = (
    "stop for success", "stop for harm", "stop for futility", "stop",
)  # fmt: skip

#: How units that come one at a time are balanced, as the first event names it.
OVER_WAVES = "over waves"
#: Conditions whose code does not say enough.
CONDITIONS = {"stopped": "stopped by its rule"}


def condition_text(condition: str) -> str:
    """Return a campaign's condition in words.

    >>> condition_text("stopped"), condition_text("open")
    ('stopped by its rule', 'open')
    """
    return CONDITIONS.get(condition, condition)


#: What a campaign continues against if its key holder does not take a look.
LOOK_DUE = "a look is due"


@dataclass(frozen=True)
class Situation:
    """The state of a campaign after its events so far.

    Parameters
    ----------
    spec
        The spec at creation.
    actions
        All actions, including retired ones, in the order of their numbers.
    retired
        The numbers of the retired actions.
    sizes
        The sizes of the waves: planned, or expected for calendar waves.
    declared
        The sizes that determine the waves' shares of the variance: those declared at creation or
        in a user's amendment. Replanning does not change them.
    floor
        The minimum probability of an action.
    policy
        The policy's name and parameters.
    wave
        The number of the open wave; the number of waves plus one when all are closed.
    units
        Units assigned in each wave so far.
    learned
        The feature scales learned from the first wave, once it is closed.
    closes
        The number of the event that closed each wave.
    sequence, hash
        The number and hash of the newest event.
    aborted
        Whether someone ended the campaign early: against its plan, or because its rule said stop.
    skipped
        The waves excluded from learning.
    conflicts, quarantined
        The number of held rows of outcome files so far.
    unknown
        The number of rows so far whose unit is not in the campaign.
    logged, outside
        The number of logged rows so far; and of those that do not count for a metric because their
        date is outside its window, by the window's length.
    recombined
        The metrics whose settings on rows were amended: values recorded before may not come from
        logged rows.
    waiting
        Assignments in closed waves, as wave and event, whose waiting time was not over then.
    clipped
        How many values of each column were clipped to a bound so far.
    observed
        Units of the open wave that have a recorded outcome.
    listed
        The name of the file with further units: the file that the spec was proposed for, or the
        last one with more units than the wave had room for; "" if there is no such file.
    reading
        The options with which that file was read.
    stop
        The stopping rule's verdict at the last close, if it was to stop and the campaign was not
        continued since.
    in_wave, in_all
        How many units of the open wave, and of all waves, got each action so far.
    key, unmasked
        The fingerprint of a masked campaign's key ("" if it was never masked), and whether the
        campaign was unmasked.
    by_stratum
        What the next action of each stratum depends on, by the stratum's keyed hash, if units are
        balanced in order. For blocks: the number of the open block, and how many of its places are
        taken. For minimisation: how many units each action has, for each value of a stratum column.
    balanced_since
        The wave since which units are balanced in order without a break: since the first, or since
        actions were added or retired. 0 if every wave is balanced by itself.
    prices
        The shadow prices of limits in the open wave's newest assignment; empty without limits.
    proposal
        The sizes proposed at the last close, until units are assigned or an amendment relearns.
    explored
        The share of the open wave that an adopted proposal assigns at random, if it exceeds the
        share in the spec.
    history
        The sums of the earlier campaign from which it starts; None without one.
    marks
        The sums of the marks of all units of closed waves, if rows are kept elsewhere: four numbers
        that tell whether a table of assignments has exactly these units.
    summed
        Whether all sums that findings need were recorded, if rows are kept elsewhere.
    looked
        The waves after which a look was taken by itself: by the key holder of a masked campaign, or
        from sums over rows that are elsewhere; and those after which the campaign was continued
        without it.
    erasures, erased, erased_open, erased_learned
        The events that erased units, and how many units: in all, in the open wave, and in the sums
        that the policy learned from.
    """

    spec: Spec
    actions: tuple[Action, ...]
    retired: frozenset[int]
    sizes: tuple[int, ...]
    declared: tuple[int, ...]
    floor: float
    policy: dict[str, Any]
    wave: int = 1
    units: tuple[int, ...] = (0,)
    learned: LearnedFeatures | None = None
    closes: tuple[int, ...] = field(default=())
    sequence: int = 0
    hash: str = ""
    aborted: bool = False
    skipped: tuple[int, ...] = ()
    conflicts: int = 0
    quarantined: int = 0
    unknown: int = 0
    logged: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    recombined: tuple[str, ...] = ()
    waiting: tuple[tuple[int, int], ...] = ()
    clipped: dict[str, int] = field(default_factory=dict)
    observed: int = 0
    listed: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    stop: str = ""
    in_wave: dict[str, int] = field(default_factory=dict)
    in_all: dict[str, int] = field(default_factory=dict)
    by_stratum: dict[str, tuple[int, ...]] = field(default_factory=dict)
    balanced_since: int = 0
    prices: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    unmasked: bool = False
    proposal: dict[str, Any] | None = None
    explored: float = 0.0
    history: Document | None = None
    marks: tuple[int, ...] = (0, 0, 0, 0)
    summed: bool = False
    looked: tuple[int, ...] = ()
    erasures: tuple[int, ...] = ()
    erased: int = 0
    erased_open: int = 0
    erased_learned: int = 0

    @property
    def in_open_wave(self) -> int:
        """The number of units in the open wave, without erased ones."""
        return self.units[self.wave - 1] - self.erased_open

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.spec.name

    @property
    def masked(self) -> bool:
        """Whether codes replace the names of the actions."""
        return self.spec.masked and bool(self.key) and not self.unmasked

    @property
    def concealed(self) -> bool:
        """Whether answers leave out scores and probabilities, which could reveal the actions."""
        return self.masked or self.withheld

    @property
    def withheld(self) -> bool:
        """Whether only the committee may see results, because the campaign has not ended."""
        return self.spec.interim == "committee" and not self.ended

    @property
    def look_due(self) -> bool:
        """Whether the look after the last closed wave has not been taken."""
        return self.condition == "open" and self.unlooked

    @property
    def unlooked(self) -> bool:
        """Whether the look after the last closed wave can still be taken by itself.

        The key holder of a masked campaign takes it, or it follows from sums for findings.
        """
        last, rule = self.wave - 1, self.spec.stopping
        taken = last in self.looked or last in self.skipped
        by_sums = self.spec.rows == "elsewhere" and rule.rule != "none"
        by_key = self.masked and rule.looks is not None
        return (by_sums or by_key) and last > 0 and not taken

    @property
    def absent(self) -> float | None:
        """The outcome assumed for units without one when their wave is closed; None for none."""
        return self.spec.reward.absent

    @property
    def charges(self) -> Floats:
        """What each action costs in the objective."""
        return np.array([self.spec.charge(action) for action in self.actions])

    @property
    def active(self) -> tuple[int, ...]:
        """The numbers of the actions that are not retired."""
        return tuple(n for n in range(len(self.actions)) if n not in self.retired)

    @property
    def randomised(self) -> float:
        """The share of the open wave's units that get a random action."""
        return max(self.spec.randomised, self.explored)

    @property
    def fixed(self) -> int | None:
        """The number of the action that all units get; None if the policy is not FixedAction."""
        return int(self.policy["action"]) if self.policy["kind"] == "FixedAction" else None

    @property
    def finished(self) -> bool:
        """Whether all waves are closed."""
        return self.wave > len(self.sizes)

    @property
    def last_opened(self) -> int:
        """The number of the open wave, or of the last wave if all are closed."""
        return min(self.wave, len(self.sizes))

    @property
    def condition(self) -> str:
        """The campaign's status: open, finished, stopped (by its rule) or aborted."""
        if self.finished:
            return "finished"
        return "stopped" if self.stop else "aborted" if self.aborted else "open"

    @property
    def ended(self) -> bool:
        """Whether the campaign has ended for good; a stop by its rule must be confirmed first."""
        return self.finished or self.aborted

    @property
    def left(self) -> int | None:
        """How many more units fit in the open wave; None for calendar waves."""
        if self.spec.grid.calendar:
            return None
        return 0 if self.finished else self.sizes[self.wave - 1] - self.units[self.wave - 1]

    @property
    def assigned(self) -> int:
        """The number of units assigned in all waves."""
        return sum(self.units)

    def waves_of(self, numbers: Integers) -> Integers:
        """Return the wave of each unit number: units are numbered in the order of the waves."""
        return np.searchsorted(np.cumsum(self.units), numbers, side="right") + 1

    def plain(self) -> dict[str, Any]:
        """Return the state as plain values; :meth:`of` is the inverse.

        In place of a history it has its fingerprint: the history is in the first event, and this
        is stored with every event.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        own["spec"] = self.spec.model_dump(mode="json")
        own["actions"] = [action.model_dump(mode="json") for action in self.actions]
        own["retired"] = sorted(self.retired)
        own["learned"] = None if self.learned is None else self.learned.plain()
        own["history"] = None if self.history is None else self.history["fingerprint"]
        return own

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Situation":
        """Return a state from plain values."""
        learned = plain["learned"]
        return cls(
            **{
                **plain,
                "spec": check_spec(plain["spec"]),
                "actions": tuple(Action.model_validate(action) for action in plain["actions"]),
                "retired": frozenset(plain["retired"]),
                "sizes": tuple(plain["sizes"]),
                "declared": tuple(plain["declared"]),
                "units": tuple(plain["units"]),
                "closes": tuple(plain["closes"]),
                "skipped": tuple(plain["skipped"]),
                "recombined": tuple(plain["recombined"]),
                "looked": tuple(plain["looked"]),
                "erasures": tuple(plain.get("erasures", ())),
                "marks": tuple(plain.get("marks", (0, 0, 0, 0))),
                "waiting": _waiting(plain["waiting"]),
                "by_stratum": _strata(plain.get("by_stratum", {})),
                "learned": None if learned is None else LearnedFeatures.of(learned),
            }
        )

    def counted(self, values: Floats) -> Floats:
        """Return outcomes as they count: those above the declared cap count as the cap."""
        cap = self.spec.reward.cap
        return values if cap is None else np.minimum(values, cap)

    def rewards(self, values: Floats, actions: Integers) -> Floats:
        """Return outcomes as they count, after the costs of their actions."""
        return self.counted(values) - self.spec.reward.sign * self.charges[actions]

    def encoder(self, *, wave: int | None = None) -> Encoder:
        """Return the encoder for learning now, or the one used for decisions in a wave."""
        first = self.learned is None or (wave == 1 and self.history is None)
        return self._first_encoder if first else self._encoder

    @cached_property
    def _first_encoder(self) -> Encoder:
        """The encoder of the first wave, before anything was learned about the features."""
        return self._encoder_after(None)

    @cached_property
    def _encoder(self) -> Encoder:
        return self._encoder_after(self.learned)

    def _encoder_after(self, learned: LearnedFeatures | None) -> Encoder:
        given = [self.actions[number].name for number in self.active]
        return Encoder.of(self.spec, actions=self.actions, learned=learned, given=given)

    def problem(self) -> Problem:
        """Return the problem description for the policy."""
        return Problem(
            ends=tuple(accumulate(self.sizes)),
            actions=len(self.active),
            dim=self.encoder().dim,
            layout="shared" if self.spec.model == "shared" else "block",
        )

    def made_policy(self) -> BasePolicy:
        """Return the policy; a fixed action is numbered among the active actions."""
        if self.history is not None:
            return registry.make(**self.policy, history=self._history)
        if (fixed := self.fixed) is None:
            return registry.make(**self.policy)
        # Policies number the active actions only; the spec numbers all, including retired ones.
        place = sum(number < fixed for number in self.active)
        return registry.make(**{**self.policy, "action": place})

    @cached_property
    def _history(self) -> History | None:
        """The history for the active actions."""
        active = [self.actions[number] for number in self.active]
        return starting_point(self.history, self.spec, active)

    def require_open(self) -> None:
        """Raise an error unless the campaign is open."""
        if self.condition == "stopped":
            raise self.stopped()
        if self.aborted:
            raise CampaignStateError(
                f"campaign {self.name} was aborted: it accepts no more units, and its waves "
                "cannot be closed. Outcomes can still be recorded.",
                code="aborted",
            )
        if self.finished:
            count = len(self.sizes)
            every = "its only wave is" if count == 1 else f"all {count} waves are"
            raise CampaignStateError(
                f"campaign {self.name}: {every} closed. Amend it to add waves, or create a new "
                "campaign.",
                code="finished",
            )

    def require_rows(self, lacking: str = "Single rows are not available here.") -> None:
        """Raise an error if the campaign keeps its rows in a data warehouse.

        `lacking` says what is not available without them.
        """
        if self.spec.rows == "elsewhere":
            raise CampaignStateError(
                f'campaign {self.name} keeps its rows elsewhere (rows = "elsewhere"): SQL '
                "statements assign its units and compute the sums of a wave, and recording the "
                f"sums closes the wave. {lacking}",
                code="rows-elsewhere",
                remedies=[Remedy("sql", what="assign", units=..., assignments=..., write=True)]
                if self.condition == "open"
                else [],
            )

    def require_no_stop(self) -> None:
        """Raise an error if a look is due, or if the stopping rule's verdict is to stop."""
        if self.look_due and self.spec.rows == "elsewhere":
            raise self.look_from_sums()
        if self.look_due:
            raise CampaignStateError(
                f"campaign {self.name}: the look after wave {self.wave - 1} is due, so no unit of "
                f"wave {self.wave} gets an action yet. The holder of the key takes it",
                Remedy("look", key=..., out=...),
                ". If the look cannot be taken, continue without it",
                Remedy("continue", reason=...),
                ", with a reason.",
                code="look-due",
            )
        if self.stop:
            raise self.stopped()

    def look_from_sums(self) -> CampaignStateError:
        """Return the refusal of a campaign whose look waits for sums over rows elsewhere."""
        return CampaignStateError(
            f"campaign {self.name}: the look after wave {self.wave - 1} is due, and it needs the "
            "sums for findings. Write the statement",
            Remedy("sql", what="findings", assignments=..., outcomes=...),
            ", run it where the rows are, and record its result",
            Remedy("record-sums", sums=..., statement=...),
            ". If the look cannot be taken, continue without it",
            Remedy("continue", reason=...),
            ", with a reason.",
            code="look-due",
        )

    def stopped(self) -> CampaignStateError:
        """Return the refusal of a campaign that its rule has stopped."""
        rule = rule_name(self.spec.stopping.rule)
        said = (
            f"campaign {self.name} was stopped by its rule ({rule}) after wave "
            f"{self.wave - 1}: {self.stop}."
        )
        if self.aborted:
            return CampaignStateError(
                f"{said} It accepts no more units. Outcomes can still be recorded.", code="stopped"
            )
        return CampaignStateError(
            f"{said} Confirm the stop",
            Remedy("stop", reason=...),
            ", or continue it anyway",
            Remedy("continue", reason=...),
            ", with a reason.",
            code="stopped",
        )


def situation(events: Sequence[Event]) -> Situation:
    """Return the campaign's state after these events, given in order."""
    return deque(history(events), maxlen=1)[0]


def events_until(events: list[Event], at_event: int | None) -> list[Event]:
    """Return the events up to number `at_event`, or all events if it is None."""
    if at_event is None:
        return events
    if not 1 <= at_event <= len(events):
        rule = f"the number of an event, 1 to {len(events)}"
        raise InvalidArgumentError("at_event", rule, at_event)
    return events[:at_event]


def history(events: Iterable[Event]) -> Iterator[Situation]:
    """Yield the campaign's state after each event."""
    now: Situation | None = None
    for event in events:
        now = after(now, event)
        yield now


def after(now: Situation | None, event: Event) -> Situation:
    """Return the campaign's state after one more event; `now` is None for the first event."""
    if "damaged" in event.payload or "damaged" in event.counts:
        raise StoreError(
            f"event {event.sequence} is damaged and cannot be read. Verify the campaign to see "
            "what else is.",
            code=DAMAGED,
        )
    try:
        now = _created(event.payload) if now is None else _after(now, event)
    except InvalidSpecError:
        # Say nothing of the values: the seed is among them.
        raise StoreError(
            f"event {event.sequence} has a spec that breaks rules. Verify the campaign to see what "
            "is damaged.",
            code=DAMAGED,
        ) from None
    return replace(now, sequence=event.sequence, hash=event.hash)


def _created(payload: dict[str, Any]) -> Situation:
    spec = check_spec(payload["spec"])
    history = payload.get("history")
    return Situation(
        spec=spec,
        actions=spec.actions,
        retired=frozenset(),
        sizes=tuple(payload["sizes"]),
        declared=tuple(payload["sizes"]),
        floor=spec.floor,
        policy=payload["policy"],
        listed=payload.get("file", ""),
        reading=payload.get("reading", {}),
        key=payload.get("key", ""),
        balanced_since=1 if payload.get("balance") == OVER_WAVES else 0,
        history=history,
        learned=None if history is None else learned_of(history),
    )


def _after(now: Situation, event: Event) -> Situation:
    payload = event.payload
    match event.kind:
        case "assign":
            units = list(now.units)
            units[now.wave - 1] += event.counts["assigned"]
            listed = payload.get("file", "") if event.counts["left_over"] else ""
            more = event.counts["actions"]
            return replace(
                now,
                units=tuple(units),
                clipped=_clipped(now, event),
                listed=listed,
                reading=payload.get("reading", {}),
                in_wave=_more(now.in_wave, more),
                in_all=_more(now.in_all, more),
                by_stratum=now.by_stratum | _strata(payload.get("strata", {})),
                prices=payload.get("limits", {}),
                proposal=None,
            )
        case "record":
            return replace(
                now,
                conflicts=now.conflicts + event.counts["conflict"],
                quarantined=now.quarantined + event.counts["quarantined"],
                logged=now.logged + payload.get("logged", 0),
                unknown=now.unknown + payload.get("unknown", 0),
                outside=_more(
                    now.outside,
                    {within: sum(counts) for within, counts in payload.get("windows", {}).items()},
                ),
                observed=now.observed + payload.get("observed", 0),
            )
        case "close":
            learned = payload.get("learned")
            past, marks = now.units, now.marks
            if "elsewhere" in payload:
                past = (*past[:-1], event.counts["units"])
                marks = _marked(marks, payload["elsewhere"]["sums"])
            return replace(
                now,
                erased_open=0,
                wave=now.wave + 1,
                units=(*past, 0),
                marks=marks,
                closes=(*now.closes, event.sequence),
                skipped=(*now.skipped, now.wave) if payload.get("skipped") else now.skipped,
                learned=now.learned if learned is None else LearnedFeatures.of(learned),
                clipped=_clipped(now, event),
                observed=0,
                in_wave={},
                by_stratum=now.by_stratum if now.balanced_since else {},
                prices={},
                waiting=_waiting(payload.get("waiting", ())),
                stop=_stop(now, payload.get("stopping")),
                proposal=payload.get("proposal"),
                explored=0.0,
                summed=False,
            )
        case "sums":
            if payload["pass"] == "scaling":
                return replace(now, learned=LearnedFeatures.of(payload["learned"]))
            made = replace(now, summed=payload["complete"])
            if not (payload["complete"] and now.unlooked):
                return made
            looked = (*now.looked, now.wave - 1)
            return replace(made, looked=looked, stop=_stop(now, payload.get("stopping")))
        case "look":
            looked, verdict = (*now.looked, payload["wave"]), payload["verdict"]
            return replace(now, looked=looked, stop=STOP if verdict == STOP else "")
        case "unmask":
            return _unmasked(now, payload)
        case "continue":
            # Without the key, nobody else could take the look that was left out.
            looked = (*now.looked, now.wave - 1) if now.look_due else now.looked
            return replace(now, looked=looked, stop="")
        case "erase":
            return _erased(now, event)
        case "amend":
            return amended(now, payload)
        case "abort" | "stop":
            return replace(now, aborted=True)
    return now


def _erased(now: Situation, event: Event) -> Situation:
    """Return the state after an erasure; a closed wave without a unit left counts as skipped."""
    payload = event.payload
    return replace(
        now,
        erasures=(*now.erasures, event.sequence),
        erased=now.erased + event.counts["units"],
        erased_open=now.erased_open + payload["open"],
        erased_learned=now.erased_learned + payload["learned"],
        observed=now.observed - payload["observed"],
        skipped=tuple(sorted({*now.skipped, *payload["emptied"]})),
    )


def _unmasked(now: Situation, payload: dict[str, Any]) -> Situation:
    """Return the state after unmasking, which takes a look that is still due."""
    made = with_names(now, payload["codes"], payload["control"])
    last = [look for look in payload.get("looks", ()) if look["wave"] == now.wave - 1]
    return replace(made, stop=_stop(now, last[0])) if now.look_due and last else made


def with_names(now: Situation, codes: dict[str, str], control: str | None) -> Situation:
    """Return the state with the actions' names in place of their codes."""
    spec = unmasked(now.spec, codes, control)
    return replace(
        now,
        spec=spec,
        actions=spec.actions,
        in_wave={codes[code]: count for code, count in now.in_wave.items()},
        in_all={codes[code]: count for code, count in now.in_all.items()},
        unmasked=True,
    )


def _clipped(now: Situation, event: Event) -> dict[str, int]:
    """Return how many values of each column were clipped, including those of this event."""
    return _more(now.clipped, event.counts.get("clipped", {}))


def _more(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    """Return the sums of two sets of counts."""
    return counts | {name: counts.get(name, 0) + count for name, count in more.items()}


def _marked(marks: tuple[int, ...], sums: list[dict[str, Any]]) -> tuple[int, ...]:
    """Return the sums of marks after a wave, from the rows of its sums."""
    every = ((place, row.get(f"mark{place}", 0)) for row in sums for place in range(len(marks)))
    totals = list(marks)
    for place, more in every:
        totals[place] += int(more)
    return tuple(totals)


def _stop(now: Situation, look: dict[str, Any] | None) -> str:
    """Return the verdict of a look if it is to stop, otherwise ""; withheld results have no why."""
    verdict = "" if look is None else str(look["verdict"])
    if verdict not in STOPS:
        return ""
    return verdict if now.spec.interim == "open" else STOP


def _strata(plain: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    return {stratum: tuple(numbers) for stratum, numbers in plain.items()}


def _waiting(plain: Iterable[Any]) -> tuple[tuple[int, int], ...]:
    return tuple((wave, event) for wave, event in plain)


def relearns(payload: dict[str, Any]) -> bool:
    """Return whether an amendment requires learning again, and so adds a new policy state."""
    lasting = {"metrics", "changes", "wave"}
    return not payload.keys() <= lasting


def amended(now: Situation, payload: dict[str, Any]) -> Situation:
    """Return the state after an amendment of sizes, actions, floor or metrics."""
    added = tuple(Action.model_validate(action) for action in payload.get("add", ()))
    names = [action.name for action in now.actions]
    retired = now.retired | {names.index(name) for name in payload.get("retire", ())}
    sizes = tuple(payload.get("sizes", now.sizes))
    if now.balanced_since and (added or retired != now.retired):
        # What was counted is about other actions.
        now = replace(now, by_stratum={}, balanced_since=now.wave)
    return replace(
        now,
        spec=with_metrics(now.spec, payload.get("metrics", {})),
        recombined=_recombined(now, payload.get("metrics", {})),
        actions=(*now.actions, *added),
        retired=frozenset(retired),
        sizes=sizes,
        # Adopted sizes depend on outcomes, so they do not change the waves' fixed shares.
        declared=now.declared if "adopted" in payload or "sizes" not in payload else sizes,
        explored=float(payload.get("explored", now.explored)),
        summed=False,
        proposal=None if relearns(payload) else now.proposal,
        # Learning again is from the rows, which the erased units no longer have.
        erased_learned=0 if relearns(payload) else now.erased_learned,
        floor=float(payload.get("floor", now.floor)),
    )


#: The settings of a metric that say how rows are combined.
COMBINING = ("rows", "row_id", "date", "within")


def _recombined(now: Situation, changed: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the metrics whose settings on rows were amended, including this amendment."""
    names = [name for name, settings in changed.items() if set(settings) & set(COMBINING)]
    return tuple(dict.fromkeys([*now.recombined, *names]))


def with_metrics(spec: Spec, changed: Mapping[str, Mapping[str, Any]]) -> Spec:
    """Return the spec with amended settings of metrics, by metric and setting."""
    if not changed:
        return spec
    metrics = {
        name: {
            **metric.model_dump(mode="json"),
            **{setting: change["to"] for setting, change in changed.get(name, {}).items()},
        }
        for name, metric in spec.metrics.items()
    }
    return check_spec({**spec.model_dump(mode="json"), "metrics": metrics})
