"""Amend a campaign: sizes, actions, how metrics are read; continue, stop or abort it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from seqbatch.campaign.decide.amended_error import amended_error
from seqbatch.campaign.decide.capacity_and_budget import require_possible
from seqbatch.campaign.decide.learning import relearned
from seqbatch.campaign.decide.replanning import adopted_text, why_none
from seqbatch.campaign.record.codec import pack_state
from seqbatch.campaign.record.current_situation import (
    COMBINING,
    LOOK_DUE,
    Situation,
    amended,
    condition_text,
    relearns,
    with_metrics,
)
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.store import Change, Event, StateRecord, Store
from seqbatch.campaign.spec.input_limits import MOST_ACTIONS, MOST_UNITS, MOST_WAVES
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.spec.spec import Action, Spec
from seqbatch.campaign.spec.toml import reason
from seqbatch.campaign.steps.create import (
    keeps_control,
    lacks_comparison,
    lacks_mixing,
    require_room,
)
from seqbatch.campaign.warehouse.statement import relearned_elsewhere
from seqbatch.core import arguments
from seqbatch.display import counted
from seqbatch.errors import CampaignStateError, InvalidArgumentError, InvalidSpecError, Remedy
from seqbatch.planning.proposal import Proposal

# ----------------------------------------------------------------------
# Amend how metrics are read from files, even while a wave is open.


#: The settings of a metric that can be amended: how files are read, not what is measured.
AMENDABLE = (
    "column", "format", "absent", "after", "rows", "row_id", "date", "date_format", "within",
)  # fmt: skip


def metric_changes(spec: Spec, given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the event's entry on amended metrics: the old and new value of each setting.

    Recorded values do not change: the settings apply to files recorded later, and to units that
    count as absent from now on.
    """
    made: dict[str, Any] = {}
    for name, settings in given.items():
        if name not in spec.metrics:
            raise InvalidArgumentError("metrics", f"one of {', '.join(spec.metrics)}", repr(name))
        if not isinstance(settings, Mapping):
            rule = "settings with their new values, such as {'absent': 0}"
            raise InvalidArgumentError(f"metrics.{name}", rule, repr(settings))
        for setting, to in settings.items():
            if setting not in AMENDABLE:
                rule = f"one of the settings {', '.join(AMENDABLE)}"
                raise InvalidArgumentError(f"metrics.{name}", rule, repr(setting))
            before = getattr(spec.metrics[name], setting)
            if to == before:
                rule = "different from the current one"
                raise InvalidArgumentError(f"metrics.{name}.{setting}", rule, repr(to))
            made.setdefault(name, {})[setting] = {"from": before, "to": to}
    try:
        with_metrics(spec, made)
    except InvalidSpecError as error:
        place, said = error.places[0] if error.places else (("metrics",), str(error))
        _, name, setting, *_ = (*place, "", "")
        received = given.get(name, {}).get(setting, dict(given))
        rule = "a setting that the spec allows"
        raise InvalidArgumentError(".".join(place), rule, repr(received), f"{said}.") from None
    return made


def _refuse_recombining(now: Situation, changed: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse to change how rows are combined once rows were combined.

    The outcomes before and after would mean different things.
    """
    for name, settings in changed.items() if now.logged else ():
        metric = now.spec.metrics[name]
        said = [each for each in COMBINING if each in settings and metric.logged]
        # A metric without `rows` had one row for each unit, which any combination leaves as it is.
        if said and not (said == ["rows"] and metric.rows is None):
            raise CampaignStateError(
                f"campaign {now.name} has combined {counted(now.logged, 'row')} of outcome files: "
                f"{' and '.join(said)} of {name} can no longer be changed, because the outcomes "
                "before and after would mean different things. Create a new campaign.",
                code="rows-combined",
                field=f"metrics.{name}.{said[0]}",
            )


# ----------------------------------------------------------------------
# Amend a campaign's sizes, actions and outcomes; continue or abort it.


class Amending:
    """One call of amend, or of abort, within its transaction."""

    def __init__(self, change: Change, logbook: Logbook) -> None:
        self._change = change
        self._logbook = logbook
        self.now = current(change)

    def run(
        self,
        *,
        why: str,
        sizes: list[int] | None,
        units: int | None,
        add: list[Action],
        retire: list[str],
        floor: float | None,
        force: bool,
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Event:
        """Apply the amendment, and learn from the closed waves again under the new terms."""
        now = self.now
        if now.spec.rows == "elsewhere":
            self._refuse_rows(retire=retire, metrics=bool(metrics))
        payload: dict[str, Any] = {}
        if metrics:
            payload["metrics"] = metric_changes(now.spec, metrics)
            _refuse_recombining(now, payload["metrics"])
        if sizes is not None or units is not None:
            payload["sizes"] = self._sizes(sizes, units)
        if add:
            payload["add"] = [action.model_dump(mode="json") for action in add]
        if retire:
            payload["retire"] = retire
        if floor is not None:
            payload["floor"] = floor
        if not payload:
            raise InvalidArgumentError("amendment", "at least one change", "none")
        if not relearns(payload):
            # Of other metrics, findings ask when they are read: closed waves follow, too.
            terms = {metric.name for metric in now.spec.reward.terms}
            if any("absent" in payload["metrics"].get(name, ()) for name in terms):
                now.require_open()
            told = changes(now, amended(now, payload))
            if not told:
                raise InvalidArgumentError(
                    "amendment", "at least one change", "the current settings"
                )
            return self._write("amend", why, {**payload, "changes": told, "wave": now.wave}, [])
        self._require_boundary()
        self._check_actions(add, retire)
        after = amended(now, payload)
        payload["changes"] = changes(now, after)
        if not payload["changes"]:
            raise InvalidArgumentError("amendment", "at least one change", "the current settings")
        if (error := amended_error(now, after, self._change.events(), payload)) is not None:
            payload["error"] = error
        self._check_after(after, bool(add))
        if not force:
            self._protect_control(after)
        return self._learn_again(after, payload, why)

    def _refuse_rows(self, *, retire: list[str], metrics: bool) -> None:
        """Refuse what takes the rows; and a change before the look that closed waves give."""
        now = self.now
        if metrics:
            now.require_rows("How metrics are read cannot be amended: closed waves were summed up.")
        if retire and now.spec.eligible:
            now.require_rows(
                "An action cannot be retired where units are eligible by rules: the table of "
                "assignments would lose the columns of its rule."
            )
        if now.look_due:
            raise now.look_from_sums()

    def adopt(self, *, why: str) -> Proposal:
        """Adopt the sizes proposed at the last close; if already adopted, repeat the answer."""
        now = self.now
        if now.proposal is None and self._adopted():
            return Proposal.of(self._change.event(now.closes[-1]).payload["proposal"])
        if now.proposal is None or not (wanted := Proposal.of(now.proposal)).changes:
            raise CampaignStateError(
                f"campaign {now.name}: there is no proposal to adopt. {why_none(now)}",
                code="no-proposal",
            )
        payload = {
            "sizes": [*now.sizes[: now.wave - 1], *wanted.sizes],
            "explored": wanted.explored,
            "adopted": now.closes[-1],
        }
        after = amended(now, payload)
        payload["changes"] = changes(now, after)
        said = adopted_text(wanted, Measure.of_objective(now.spec))
        self._learn_again(after, payload, why or said)
        return wanted

    def _adopted(self) -> bool:
        """Return whether the sizes proposed at the last close were already adopted.

        If the first answer was lost, a repeated call returns it again and changes nothing.
        """
        now, found = self.now, False
        for sequence in range(now.closes[-1] + 1 if now.closes else 1, now.sequence + 1):
            event = self._change.event(sequence)
            # Sizes can be amended only between waves, by a proposal or by a user.
            if event.kind == "assign":
                break
            if "sizes" in event.payload:
                found = "adopted" in event.payload
        return found

    def _learn_again(self, after: Situation, payload: dict[str, Any], why: str) -> Event:
        """Write an amendment, with the state learned from the closed waves under the new terms."""
        now = self.now
        # With a different number of actions, the old sums no longer fit the problem.
        if now.spec.rows == "elsewhere":
            state = relearned_elsewhere(after, self._change.events())
        else:
            known = Ledger.of(self._change.outcome_chunks()).known()
            state = relearned(after, self._change, known, waves=now.wave - 1)
        saved = StateRecord(
            event=now.sequence + 1, wave=now.wave - 1, content=pack_state(state), hash=""
        )
        saved = sealed(self._change.name, saved)
        self._change.add_state(saved)
        return self._write("amend", why, {**payload, "wave": now.wave}, [saved.hash])

    def abort(self, *, why: str) -> Event:
        """End the campaign; outcomes may still be recorded."""
        if self.now.condition == "stopped":
            raise self.now.stopped()
        if self.now.aborted:
            raise CampaignStateError(
                f"campaign {self.now.name} is already aborted.", code="aborted"
            )
        if self.now.finished:
            raise CampaignStateError(
                f"campaign {self.now.name} is finished: all of its waves "
                f"({len(self.now.sizes)}) are closed, so there is nothing to end early.",
                code="finished",
            )
        return self._write("abort", why, {"wave": self.now.wave}, [])

    def stop(self, *, why: str) -> Event:
        """Confirm that the campaign stops as its rule says; it cannot continue afterwards."""
        if self.now.condition != "stopped":
            raise CampaignStateError(
                f"campaign {self.now.name}: no declared rule says to stop, so there is no stop to "
                "confirm.",
                code="not-stopped",
            )
        if self.now.aborted:
            raise self.now.stopped()
        payload = {"wave": self.now.wave - 1, "verdict": self.now.stop}
        return self._write("stop", why, payload, [])

    def go_on(self, *, why: str) -> Event:
        """Continue the campaign despite its stopping rule, or without a look that is due."""
        if self.now.stop and self.now.aborted:
            raise self.now.stopped()
        against = LOOK_DUE if self.now.look_due else self.now.stop
        if not against:
            raise CampaignStateError(
                f"campaign {self.now.name}: no declared rule says to stop, so there is nothing "
                "to override.",
                code="not-stopped",
            )
        payload = {"wave": self.now.wave - 1, "against": against}
        return self._write("continue", why, payload, [])

    def _write(self, kind: str, why: str, payload: dict[str, Any], rows: list[str]) -> Event:
        return self._logbook.write(
            self._change,
            self.now,
            kind=kind,
            why=why,
            payload=payload,
            rows=rows,
        )

    def _require_boundary(self) -> None:
        now = self.now
        if now.aborted:
            ended = f"was {condition_text(now.condition)}"
            raise CampaignStateError(
                f"campaign {now.name} {ended}; it cannot be amended.", code=now.condition
            )
        if not now.finished and now.units[now.wave - 1]:
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} already has "
                f"{now.units[now.wave - 1]:,} units, but amendments are possible only between "
                "waves. Close it first.",
                code="wave-open",
            )

    def _sizes(self, sizes: list[int] | None, units: int | None) -> list[int]:
        """Return the sizes of all waves; closed waves keep their planned sizes."""
        now = self.now
        past, ahead = list(now.sizes[: now.wave - 1]), list(now.sizes[now.wave - 1 :])
        assigned = sum(now.units[: now.wave - 1])
        if sizes is not None and not len(sizes):
            raise InvalidArgumentError(
                "sizes", "the size of at least one remaining wave", "none",
                "To end the campaign early, abort it; outcomes may still be recorded.",
            )  # fmt: skip
        if sizes is not None:
            ahead = [arguments.integer("sizes", size) for size in sizes]
        if units is not None:
            left = arguments.integer("units", units) - assigned
            if not ahead or left < len(ahead):
                raise InvalidArgumentError(
                    "units", f"at least {assigned + max(len(ahead), 1):,} with "
                    f"{counted(len(ahead), 'wave')} remaining", units,
                )  # fmt: skip
            total, ends = sum(ahead), [0]
            for place, size in enumerate(ahead, start=1):
                share = sum(ahead[: place - 1]) + size
                # Every later wave needs at least one unit.
                latest = left - (len(ahead) - place)
                ends.append(min(max(round(left * share / total), ends[-1] + 1), latest))
            ahead = [high - low for low, high in pairwise(ends)]
        return past + ahead

    def _check_actions(self, add: list[Action], retire: list[str]) -> None:
        now = self.now
        names = [action.name for action in now.actions]
        for action in add:
            if action.name in names:
                raise InvalidArgumentError(
                    "add", f"a name not among {', '.join(names)}", action.name
                )
            if (taken := f"p({action.name})") in (*now.spec.unit, now.spec.cluster):
                what = "unit" if taken in now.spec.unit else "cluster"
                rule = f"a name whose probability column, {taken}, is not already the {what} column"
                raise InvalidArgumentError("add", rule, repr(action.name))
            names.append(action.name)
            if tuple(action.features) != tuple(now.actions[0].features):
                wanted = ", ".join(now.actions[0].features) or "none"
                raise InvalidArgumentError(
                    f"add {action.name}", f"an action with the features: {wanted}",
                    ", ".join(action.features) or "none",
                )  # fmt: skip
        given = [names[number] for number in now.active]
        for name in retire:
            if now.fixed is not None and name == names[now.fixed]:
                raise InvalidArgumentError(
                    "retire", "an action other than the one that the policy gives to every unit",
                    repr(name),
                )  # fmt: skip
            if name not in given:
                raise InvalidArgumentError("retire", f"one of {', '.join(given)}", repr(name))

    def _protect_control(self, after: Situation) -> None:
        """Refuse to retire the control."""
        control = self.now.spec.control
        names = [action.name for action in after.actions]
        if control is not None and names.index(control) in after.retired - self.now.retired:
            raise InvalidArgumentError(
                "retire", "an action other than the control", repr(control),
                "No unit in later waves would get the control, so these waves could not be "
                "compared with it.",
                remedies=[Remedy("force")],
            )  # fmt: skip
        if keeps_control(self.now) and not keeps_control(after):
            raise InvalidArgumentError(
                "floor", f"above 0, because nothing else gives units the control {control!r}",
                after.floor, remedies=[Remedy("force")],
            )  # fmt: skip

    def _check_after(self, after: Situation, added: bool) -> None:
        count = len(after.active)
        for name, received, most in (
            ("sizes", len(after.sizes), MOST_WAVES),
            ("units", sum(after.sizes), MOST_UNITS),
            ("add", len(after.actions), MOST_ACTIONS),
        ):
            if received > most:
                rule = f"such that there are at most {most:,} in total"
                raise InvalidArgumentError(name, rule, f"{received:,}")
        if count < 2:
            raise InvalidArgumentError(
                "retire", "such that at least two actions remain", f"{count} left"
            )
        require_room(after)
        require_possible(after)
        if not 0 <= after.floor * count <= 1:
            raise InvalidArgumentError("floor", f"between 0 and 1 / {count}", after.floor)
        if lacks_mixing(after):
            raise InvalidArgumentError(
                "floor", "above 0, because the policy compares actions within waves, and nothing "
                "else ensures that a wave has several", after.floor,
            )  # fmt: skip
        if after.wave == 1 and lacks_comparison(after):
            raise InvalidArgumentError(
                "floor", "above 0, because the first wave is by design, and nothing else gives "
                "every action a chance", after.floor,
            )  # fmt: skip
        # A policy without exploration might never try a new action.
        tried = after.wave == 1 and after.made_policy().starts_blind
        if added and not tried and not (after.floor or after.spec.randomised):
            raise InvalidArgumentError(
                "floor", "above 0 to add an action if no units are randomised", after.floor,
                "Otherwise the new action might never be tried.",
            )  # fmt: skip


def amend(
    store: Store,
    name: str,
    logbook: Logbook,
    *,
    why: str,
    sizes: list[int] | None,
    units: int | None,
    add: Sequence[str | Mapping[str, Any]],
    retire: list[str],
    floor: float | None,
    force: bool,
    metrics: Mapping[str, Mapping[str, Any]] | None = None,
) -> Event:
    """Amend a campaign in one transaction."""
    require_reason(why)
    actions = [_action(action) for action in add]
    with store.change(name) as change:
        if actions and current(change).masked:
            raise InvalidArgumentError(
                "add", "left out while the campaign is masked", ", ".join(a.name for a in actions),
                "A new action would be known by its name. Unmask the campaign first.",
            )  # fmt: skip
        return Amending(change, logbook).run(
            why=why, sizes=sizes, units=units, add=actions, retire=retire, floor=floor,
            force=force, metrics=metrics,
        )  # fmt: skip


def changes(before: Situation, after: Situation) -> list[dict[str, Any]]:
    """Return the changes of an amendment, with the old and new values."""
    told = [
        ("sizes", list(before.sizes), list(after.sizes)),
        ("actions", _given(before), _given(after)),
        ("floor", before.floor, after.floor),
        ("share of the next wave at random", before.randomised, after.randomised),
        *(
            (f"{setting} of {name}", getattr(old, setting), getattr(new, setting))
            for (name, old), new in zip(
                before.spec.metrics.items(), after.spec.metrics.values(), strict=True
            )
            for setting in AMENDABLE
        ),
    ]
    return [{"what": what, "from": old, "to": new} for what, old, new in told if old != new]


def _given(now: Situation) -> list[str]:
    return [now.actions[number].name for number in now.active]


def abort(store: Store, name: str, logbook: Logbook, *, why: str) -> Event:
    """End a campaign early, in one transaction."""
    require_reason(why)
    with store.change(name) as change:
        return Amending(change, logbook).abort(why=why)


def stop(store: Store, name: str, logbook: Logbook, *, why: str) -> Event:
    """Confirm the stop of a campaign by its rule, in one transaction."""
    require_reason(why)
    with store.change(name) as change:
        return Amending(change, logbook).stop(why=why)


def go_on(store: Store, name: str, logbook: Logbook, *, why: str) -> Event:
    """Continue a campaign despite its stopping rule, in one transaction."""
    require_reason(why)
    with store.change(name) as change:
        return Amending(change, logbook).go_on(why=why)


def require_reason(why: str) -> None:
    """Raise an error if no reason is given."""
    if not why.strip():
        raise InvalidArgumentError("reason", "given", repr(why))


def _action(given: str | Mapping[str, Any]) -> Action:
    try:
        return Action.model_validate({"name": given} if isinstance(given, str) else given)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"])
        rule = "an action with a name and, under a shared model, finite features"
        raise InvalidArgumentError("add", rule, repr(given), f"{place} {reason(found)}.") from None


def adopt(store: Store, name: str, logbook: Logbook, *, why: str) -> Proposal:
    """Adopt the proposed sizes, in one transaction; return the proposal."""
    with store.change(name) as change:
        return Amending(change, logbook).adopt(why=why)
