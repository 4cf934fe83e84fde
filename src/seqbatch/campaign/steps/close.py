"""Close a wave: check its outcomes (rows or sums), learn from them, and open the next wave."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from seqbatch.campaign.decide.action_counts import ChiSquare, Counts
from seqbatch.campaign.decide.learning import aliasing, closed_and_counted, notes, still_used
from seqbatch.campaign.decide.replanning import proposed
from seqbatch.campaign.decide.stopping import KeptSums, LookTaken, inflated, look, unlooked
from seqbatch.campaign.decide.wave_doubts import UNRECORDED, mostly_missing, unrecorded, waited_for
from seqbatch.campaign.features.encoder import learn
from seqbatch.campaign.features.learned_scales import LearnedFeatures
from seqbatch.campaign.record.codec import pack_state, unpack_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import EarlierDecisions
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.outcomes import Absentees, Ledger, News, absences, absentees
from seqbatch.campaign.record.store import Change, Event, OutcomeChunk, StateRecord, Store
from seqbatch.campaign.record.stored_units import walk
from seqbatch.campaign.spec.measure import Measure
from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray
from seqbatch.display import sentence
from seqbatch.errors import CampaignStateError, Doubt, InvalidArgumentError, Remedy
from seqbatch.planning.proposal import Proposal
from seqbatch.timed_steps import timed

# ----------------------------------------------------------------------
# Close a wave; checks, event and answer are the same for rows and for sums.


#: What closes an incomplete wave.
BY_FORCE = Remedy("close", force=True, reason=...)
#: The fields that count units by action, and the name of their sums.
COUNTED = ("assigned", "observed", "absent", "expected")
ALL = "all actions"
#: The number of absent units stored in one chunk.
PIECE = 65_536
#: The note about late outcomes that the policy does not learn from.
UNUSED = (
    "{:,} late outcomes of earlier waves are not used in this estimate or a later one: either "
    "the policy has already fitted or does not use that part of the data, or their action is "
    "retired"
)


@dataclass(frozen=True)
class Closed:
    """The result of a call of close.

    Parameters
    ----------
    wave
        The wave that was closed.
    assigned, observed, absent
        Its units, their recorded outcomes, and the units counted as absent, by action.
    expected
        The units expected under the logged probabilities, by action.
    missingness, allocation
        Tests of whether outcomes are missing equally often under every action, and whether actions
        were given as often as the logged probabilities imply. If p is small, investigate before
        you trust the results.
    absent_earlier
        Units of earlier waves that count as absent from now on, because their waiting time ended.
    late
        Outcomes of earlier waves, new since the last close, that enter this estimate (or, under
        sample splitting, this one or a later one).
    replaced
        Late outcomes of units that earlier estimates counted as absent.
    corrected
        Outcomes used by earlier estimates and corrected since.
    absent_value
        The outcome assumed for absent units (None if no units count as absent).
    measure
        The objective: what outcomes are.
    metrics
        How many values of each metric were recorded in the wave, by metric and action. They are
        counts: findings have the means and the guardrails.
    stopping
        The look of the declared rule; None if no rule was declared or all outcomes are equal.
    inflated
        The false-positive rate of testing after every wave so far without a rule, instead of 5%
        (or the declared alpha); None with a rule, and after the first wave. It counts only the
        first 12 waves; with more waves the true rate is larger.
    proposal
        Proposed sizes of later waves, if the spec is adaptive and at least two waves remain.
    held, unknown
        Rows of outcome files so far that are held, and those of them whose unit is not in the
        campaign; None if the rows are kept elsewhere.
    outside
        Rows so far that do not count for a metric because of their date, by its window's length.
    notes
        Notes about the estimate.
    doubts
        Metrics without any value in the wave, and units that do not count as absent yet.
    event, hash
        The number and hash of the event. If you keep the hash elsewhere, it proves later that no
        event up to this one was changed or removed.
    """

    wave: int
    assigned: dict[str, int]
    observed: dict[str, int]
    absent: dict[str, int]
    expected: dict[str, float]
    missingness: ChiSquare
    allocation: ChiSquare
    absent_earlier: int
    late: int
    replaced: int
    corrected: int
    absent_value: float | None
    measure: Measure
    metrics: dict[str, dict[str, int]]
    stopping: LookTaken | None
    inflated: float | None
    proposal: Proposal | None
    held: int | None
    unknown: int | None
    outside: dict[str, int]
    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    event: int
    hash: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """The doubts in words."""
        return tuple(each.text() for each in self.doubts)

    def without_results(self) -> "Closed":
        """Return the result with sums over all actions only."""
        untold = ChiSquare(0.0, 0, None)
        sums: dict[str, Any] = {what: {ALL: sum(getattr(self, what).values())} for what in COUNTED}
        return replace(
            self,
            **sums,
            missingness=untold,
            allocation=untold,
            metrics={name: {ALL: sum(own.values())} for name, own in self.metrics.items()},
            stopping=None,
            inflated=None,
            proposal=None,
            notes=(),
        )

    @classmethod
    def of(cls, event: Event, now: Situation) -> "Closed":
        """Return the result from a close event."""
        payload = event.payload
        return cls(
            wave=payload["wave"],
            assigned=payload["assigned"],
            observed=payload["observed"],
            absent=payload["absent"],
            expected=payload["expected"],
            missingness=ChiSquare(**payload["missingness"]),
            allocation=ChiSquare(**payload["allocation"]),
            absent_earlier=payload["absent_earlier"],
            late=payload["late"],
            replaced=payload["replaced"],
            corrected=payload["corrected"],
            absent_value=payload["absent_value"],
            measure=Measure.of_objective(now.spec),
            metrics=payload["metrics"],
            stopping=LookTaken.of(said) if (said := payload.get("stopping")) else None,
            inflated=payload.get("inflated"),
            proposal=Proposal.of(found) if (found := payload.get("proposal")) else None,
            held=payload.get("held"),
            unknown=payload.get("unknown"),
            outside=payload.get("outside", {}),
            notes=tuple(payload["notes"]),
            doubts=_doubts(payload, now),
            event=event.sequence,
            hash=event.hash,
        )


def _doubts(payload: dict[str, Any], now: Situation) -> tuple[Doubt, ...]:
    """Return the doubts about a closed wave; a skipped one counts for nothing."""
    if payload["skipped"] or now.spec.rows == "elsewhere":
        return ()
    wave, units = payload["wave"], sum(payload["assigned"].values())
    known = sum(sum(payload[what].values()) for what in ("observed", "absent"))
    waiting = any(own == wave for own, _ in payload["waiting"])
    recorded = {name: sum(counts.values()) for name, counts in payload["metrics"].items()}
    return (
        *waited_for(now, wave, units, units - known if waiting else 0),
        *unrecorded(now, wave, units, recorded),
        *mostly_missing(now, wave, units, recorded),
    )


class WaveEvidence(Protocol):
    """The evidence for closing the open wave: its rows, or a warehouse's sums over them."""

    @property
    def units(self) -> int:
        """The number of units in the wave."""

    @property
    def outcomes(self) -> int:
        """The number of units with an outcome, including units counted as absent."""

    @property
    def by_force(self) -> Remedy:
        """The remedy that closes the wave although it is incomplete."""

    @property
    def more_outcomes(self) -> str:
        """What to do about too few outcomes, in a sentence."""

    def size_problem(self, size: int) -> tuple[str, str]:
        """Return the error code and message for a wave without its planned number of units."""

    def refuse_doubtful(self) -> None:
        """Refuse a wave if only the user can say what its missing outcomes mean."""

    def lesson(self) -> "Lesson":
        """Learn from the wave, and store the records that closing adds."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What was learned from a wave, and the content of its close event.

    Parameters
    ----------
    learner, state, counts
        The campaign's state with the learned feature scales, the policy's state after the wave,
        and the wave's units and outcomes by action.
    records
        The hashes of the added records.
    kept, stopping
        The sums for the stopping rule's next look, and the current look.
    proposal, learned, waiting
        See the fields of the event.
    absent_earlier, late, unused, replaced, corrected
        Counts of outcomes from earlier waves; `unused` counts late outcomes that no estimate uses.
    beside
        Additional fields of the event.
    """

    learner: Situation
    state: Any
    counts: Counts
    records: tuple[str, ...] = ()
    kept: KeptSums | None = None
    stopping: LookTaken | None = None
    proposal: Proposal | None = None
    learned: LearnedFeatures | None = None
    waiting: tuple[tuple[int, int], ...] = ()
    absent_earlier: int = 0
    late: int = 0
    unused: int = 0
    replaced: int = 0
    corrected: int = 0
    beside: dict[str, Any] = field(default_factory=dict)

    def by_action(self, **counts: AnyArray) -> dict[str, dict[str, Any]]:
        """Return counts by action name, in the form used by the event."""
        names = [action.name for action in self.learner.actions]
        return {
            what: dict(zip(names, values.tolist(), strict=True)) for what, values in counts.items()
        }

    def told(self) -> dict[str, Any]:
        """Return the event's payload about the wave."""
        now, counts = self.learner, self.counts
        return {
            "wave": now.wave,
            **self.by_action(
                assigned=counts.assigned,
                observed=counts.observed,
                absent=counts.absent,
                expected=counts.allocation.expected,
            ),
            **{name: test.plain() for name, test in counts.tests().items()},
            "absent_earlier": self.absent_earlier,
            "replaced": self.replaced,
            "corrected": self.corrected,
            "absent_value": now.absent,
            "waiting": [list(each) for each in self.waiting],
            "metrics": counts.recorded(now),
            "late": self.late,
            "stopping": None if self.stopping is None else self.stopping.plain(),
            "inflated": inflated(now, waves=now.wave),
            **({} if self.proposal is None else {"proposal": self.proposal.plain()}),
            "learned": None if self.learned is None else self.learned.plain(),
            **self.beside,
            "notes": self._notes(),
        }

    def _notes(self) -> list[str]:
        now = self.learner
        return [
            *unlooked(now),
            *notes(now, self.state),
            *(aliasing(now) if now.wave == 1 else []),
            *([UNUSED.format(self.unused)] if self.unused else []),
        ]

    def event_counts(self) -> dict[str, Any]:
        """Return the event's counts."""
        clipped = _clipped(self.learned)
        return {
            "units": int(self.counts.assigned.sum()),
            "outcomes": int(self.counts.observed.sum()),
            "absent": int(self.counts.absent.sum()) + self.absent_earlier,
            **({"clipped": clipped} if clipped else {}),
        }


def _clipped(learned: LearnedFeatures | None) -> dict[str, int]:
    """Return how many values of the first wave were outside the learned bounds, by column."""
    numbers = {} if learned is None else learned.numbers
    return {name: number.clipped for name, number in numbers.items() if number.clipped}


def require_reason(needed: bool, why: str) -> None:
    """Refuse a close that needs a reason and has none."""
    if needed and not why.strip():
        rule = "given when a wave is closed by force or without learning from it"
        raise InvalidArgumentError("reason", rule, repr(why))


def _refuse_early(now: Situation, evidence: WaveEvidence) -> None:
    """Refuse to close an incomplete wave."""
    units, outcomes = evidence.units, evidence.outcomes
    wave = f"wave {now.wave} of campaign {now.name}"
    size = None if now.spec.grid.calendar else now.sizes[now.wave - 1] - now.erased_open
    if size is not None and units != size:
        code, said = evidence.size_problem(size)
        raise CampaignStateError(f"{wave} {said} Or close it anyway", evidence.by_force, code=code)
    evidence.refuse_doubtful()
    if outcomes < now.spec.outcomes_needed(units):
        raise CampaignStateError(
            f"{wave} has outcomes for {outcomes:,} of its {units:,} units "
            f"({outcomes / units:.1%}); at least {now.spec.required_outcomes:.1%} are needed. "
            f"{evidence.more_outcomes} Or close it anyway",
            evidence.by_force,
            code="too-few-outcomes",
        )


def closed_with(
    change: Change,
    logbook: Logbook,
    now: Situation,
    evidence: WaveEvidence,
    *,
    force: bool,
    skip: bool,
    at: datetime,
    why: str,
) -> Closed:
    """Close the open wave: check the evidence, learn from it, add one state and one event."""
    if not force:
        _refuse_early(now, evidence)
    lesson = evidence.lesson()
    content = pack_state(lesson.state, None if lesson.kept is None else lesson.kept.arrays)
    saved = StateRecord(event=now.sequence + 1, wave=now.wave, content=content, hash="")
    saved = sealed(change.name, saved)
    change.add_state(saved)
    event = logbook.write(
        change,
        now,
        kind="close",
        why=why,
        counts=lesson.event_counts(),
        payload={"forced": force, "skipped": skip, **lesson.told()},
        rows=[*lesson.records, saved.hash],
        at=at,
    )
    return Closed.of(event, now)


# ----------------------------------------------------------------------
# Evidence from the wave's rows.


def close(
    store: Store,
    name: str,
    logbook: Logbook,
    *,
    wave: int | None,
    force: bool,
    skip: bool,
    why: str,
) -> Closed:
    """Close the open wave from its rows, in one transaction; repeat the answer if it is closed."""
    require_reason(force or skip, why)
    with store.change(name) as change:
        now = current(change)
        # If the first answer was lost, a repeated call returns it again and closes nothing.
        if wave is not None and 1 <= wave <= len(now.closes):
            return Closed.of(change.event(now.closes[wave - 1]), now)
        now.require_rows()
        _refuse_wrong_wave(now, wave)
        now.require_open()
        kernels.compiling.load_early()
        at = logbook.now()
        evidence = RowEvidence.of(change, now, at=at, skip=skip)
        return closed_with(change, logbook, now, evidence, force=force, skip=skip, at=at, why=why)


def _refuse_wrong_wave(now: Situation, wave: int | None) -> None:
    if wave is not None and wave != now.wave:
        opened = "none is" if now.finished else f"the open one is {now.wave}"
        raise CampaignStateError(
            f"wave {wave} of campaign {now.name} is not open; {opened}.", code="not-open"
        )
    if not now.finished and not now.in_open_wave and not now.aborted:
        past = ""
        if now.closes:
            past = f" Wave {now.wave - 1} was closed by event {now.closes[-1]}."
        raise CampaignStateError(
            f"wave {now.wave} of campaign {now.name} has no units yet; there is nothing to "
            f"close.{past}",
            code="no-units",
        )


@dataclass(frozen=True)
class RowEvidence:
    """The rows of the open wave, and new outcomes of earlier waves.

    Parameters
    ----------
    change, now
        The transaction, and the campaign's state before it.
    record
        The newest policy state.
    news, gone
        The outcomes recorded since then, and the units that count as absent from now on.
    skip
        Whether to close the wave without learning from it.
    at
        The time of the close.
    """

    change: Change
    now: Situation
    record: StateRecord
    news: News
    gone: Absentees
    skip: bool
    at: datetime

    @classmethod
    def of(cls, change: Change, now: Situation, *, at: datetime, skip: bool) -> "RowEvidence":
        """Read the outcomes recorded since the last estimate."""
        record = change.last_state()
        assert record is not None
        # The wave's units were assigned after the last estimate, so all their outcomes are new.
        news = News.since(change, now, record.event, parts=len(now.spec.parts))
        gone = absentees(change, now, news, at=at, skip=skip)
        return cls(change, now, record, news, gone, skip, at)

    @property
    def units(self) -> int:
        """Units of the wave."""
        return self.now.in_open_wave

    @property
    def outcomes(self) -> int:
        """Those of them with an outcome, absent ones included."""
        return len(self._recorded) + int((self.gone.numbers >= self._first).sum())

    @property
    def by_force(self) -> Remedy:
        """What closes the wave as it is."""
        return BY_FORCE

    @property
    def more_outcomes(self) -> str:
        """Record more; or wait until the units without a row count as absent."""
        events = [event for wave, event in self.gone.waiting if wave == self.now.wave]
        wait = self.now.spec.reward.wait
        if not events or wait is None:
            return "Record more."
        assigned = max(datetime.fromisoformat(self.change.event(event).at) for event in events)
        over = (assigned + wait).astimezone(UTC)
        return (
            f"Units without a row count as {self.now.absent:g} from {over:%Y-%m-%d %H:%M} UTC on, "
            "when the wait after the last assignment is over: close it then."
        )

    @property
    def _first(self) -> int:
        """The number of the wave's first unit."""
        return self.now.assigned - self.now.units[self.now.wave - 1]

    @property
    def _recorded(self) -> Ledger:
        """The recorded outcomes of the wave."""
        return self.news.fresh.within(self._first, self.now.assigned)

    def size_problem(self, size: int) -> tuple[str, str]:
        """Return the error code and message for a wave with room for more units."""
        return "wave-has-room", f"has room for {size - self.units:,} more units. Assign them."

    def refuse_doubtful(self) -> None:
        """Refuse a wave whose missing outcomes raise a question that only a person can answer."""
        now, units, values = self.now, self.units, self._recorded.values
        recorded = self._values_of_metrics()
        if now.absent is not None and not any(recorded[one.name] for one in now.spec.reward.terms):
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has no recorded outcome; each of its "
                f"{units:,} units would count as {now.absent:g}. Record its outcomes. Or close it "
                "by force, with a reason.",
                code="no-outcomes",
                remedies=[BY_FORCE],
            )
        if now.absent is None and 0 < len(values) < units / 2 and (values > 0).all():
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has outcomes for {len(values):,} of "
                f"its {units:,} units ({len(values) / units:.1%}; at least "
                f"{now.spec.required_outcomes:.1%} are needed), and all of them are positive. "
                "Do the files hold buyers only? If a unit without a row has the outcome 0, "
                "declare it: amend the metric with absent = 0, then close. If the others are "
                "not known yet, record them first, or close by force, with a reason.",
                code="buyers-only",
                remedies=[self._none_means_zero(), BY_FORCE],
            )
        if not self.skip:
            self._refuse_unrecorded(recorded)

    def _refuse_unrecorded(self, recorded: dict[str, int]) -> None:
        """Refuse a wave in which a metric that counts as absent from now on has no value."""
        counting = {n: count for n, count in recorded.items() if count or self._counts_absent(n)}
        doubts = unrecorded(self.now, self.now.wave, self.units, counting)
        if doubts:
            raise CampaignStateError(
                f"{' '.join(sentence(each.text()) for each in doubts)} If there is nothing to "
                "record, close the wave by force, with a reason.",
                code=UNRECORDED,
                field=doubts[0].column,
                remedies=[BY_FORCE],
            )

    def _counts_absent(self, name: str) -> bool:
        """Return whether a unit of the wave without a value of a metric counts as absent."""
        wait = self.now.spec.metrics[name].wait
        if wait is None:
            return True
        events = {extent.event for extent in self.change.extents(wave=self.now.wave)}
        first = min(datetime.fromisoformat(self.change.event(event).at) for event in events)
        return self.at - first >= wait

    def _values_of_metrics(self) -> dict[str, int]:
        """Return how many values of each metric were recorded in the wave."""
        now, known = self.now, self._recorded
        partly = self.news.unrewarded.within(self._first, now.assigned)
        parts = np.concatenate([known.parts, partly.parts])
        counts = dict(zip(now.spec.parts, (~np.isnan(parts)).sum(axis=0).tolist(), strict=True))
        return {name: counts.get(name, len(known)) for name in now.spec.metrics}

    def _none_means_zero(self) -> Remedy:
        """Return the amendment by which a unit without a row has the outcome 0."""
        metrics = {metric.name: {"absent": 0} for metric in self.now.spec.reward.terms}
        return Remedy("amend", metrics=metrics, reason="no row means no purchase")

    def lesson(self) -> Lesson:
        """Learn from the wave and from late outcomes, and store which units count as absent."""
        now, news, gone = self.now, self.news, self.gone
        learned = self._learned()
        # Learning uses the feature scales learned from this wave; the wave's decisions did not.
        learner = replace(now, learned=learned) if learned is not None else now
        if self.skip:
            learner = replace(learner, skipped=(*now.skipped, now.wave))
        before = unpack_state(self.record.content, now)
        late, unused = self._late(before)
        records = self._keep_absent()
        everyone = news.counting(gone.ledger(news.fresh.parts.shape[1]))
        with timed("learn"):
            state, counts = closed_and_counted(learner, before, self.change, everyone)
        with timed("look"):
            stopping, kept = look(self.change, learner, self.change.events(), self.record)
        return Lesson(
            learner=learner,
            state=state,
            counts=counts,
            records=tuple(records),
            kept=kept,
            stopping=stopping,
            proposal=proposed(learner, state),
            learned=learned,
            waiting=gone.waiting,
            absent_earlier=len(gone.numbers) - int(counts.absent.sum()),
            late=late,
            unused=unused,
            replaced=int(news.was_absent.sum()),
            corrected=int((~news.was_absent).sum()),
            beside={
                "held": now.conflicts + now.quarantined,
                "unknown": now.unknown,
                "outside": now.outside,
            },
        )

    def _learned(self) -> LearnedFeatures | None:
        """Return the feature scales learned from the first wave; None for later waves.

        With a history they are those of the earlier campaign.
        """
        if self.now.wave > 1 or self.now.history is not None:
            return None
        return learn(
            self.now.encoder(),
            lambda: (piece.given() for piece in walk(self.change, given=True)),
            units=self.now.in_open_wave,
        )

    def _late(self, state: Any) -> tuple[int, int]:
        """Count the new outcomes of earlier waves: used ones, and unused ones."""
        late = self.news.fresh.within(0, self._first)
        if not len(late):
            return 0, 0
        _, decided = EarlierDecisions(self.change, self.now).decided(late.numbers)
        used = int(still_used(self.now, state, decided).sum())
        return used, len(late) - used

    def _keep_absent(self) -> list[str]:
        """Store the assumed outcomes of absent units, which later rows may replace."""
        change, gone, hashes = self.change, self.gone, list[str]()
        _, chunk = change.next_chunks()
        for start in range(0, len(gone.numbers), PIECE):
            numbers = gone.numbers[start : start + PIECE]
            rows = absences(numbers, gone.values[start : start + PIECE])
            place = {"event": self.now.sequence + 1, "chunk": chunk + len(hashes)}
            kept = change.kept(rows, kind="outcomes", **place)
            made = OutcomeChunk(**place, count=len(numbers), rows=kept, hash="")
            made = sealed(change.name, made)
            values = rows["value"].to_numpy().reshape(-1, 1)
            change.add_outcomes(made)
            change.index_outcomes(made.event, numbers, np.zeros_like(numbers), values)
            hashes.append(made.hash)
        return hashes
