"""Close a wave: count what came back, learn from it, open the next; from rows or from sums."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from seqbatch.campaign.decide.counts import ChiSquare, MetricRow, WaveCounts, missingness
from seqbatch.campaign.decide.learning import aliasing, closed_and_counted, notes, still_used
from seqbatch.campaign.decide.replanning import proposed
from seqbatch.campaign.decide.stopping import LookTaken, inflated, look, unlooked
from seqbatch.campaign.features.encoder import learn
from seqbatch.campaign.features.learned import LearnedFeatures
from seqbatch.campaign.files.reading import source
from seqbatch.campaign.record.codec import pack_state, unpack, unpack_state
from seqbatch.campaign.record.decisions import EarlierDecisions
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.outcomes import Absentees, Ledger, News, absences, absentees
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Change, Event, OutcomeChunk, StateRecord, Store
from seqbatch.campaign.warehouse.statement import learned_elsewhere, marked, wrong_statement
from seqbatch.campaign.warehouse.sums import WaveSums, read_rows, wave_sums
from seqbatch.core.kernels.compiling import load_early
from seqbatch.errors import CampaignStateError, InvalidArgumentError, Remedy
from seqbatch.planning.replanning import Proposal

# ----------------------------------------------------------------------
# Close a wave: look at what came back, re-estimate, open the next.


#: Closes a wave that is not complete.
BY_FORCE = Remedy("close", force=True, reason=...)
#: Absent units that are kept together.
PIECE = 65_536
#: What is said of late outcomes that nothing is learned from.
UNUSED = (
    "{:,} late outcomes of earlier waves have no part in this estimate or a later one: their part "
    "of the evidence was fitted already or is not used, or their action is retired"
)


@dataclass(frozen=True)
class Closed:
    """What a call of close did.

    Parameters
    ----------
    wave
        The wave that was closed.
    assigned, observed, absent
        Its units, their recorded outcomes, and those without one that count as absent, by action.
    expected
        The units expected under the logged probabilities, by action.
    missingness, allocation
        Tests: are outcomes missing as often under every action, and were actions given as often
        as logged? A small p asks for a look before anything is believed.
    absent_earlier
        Units of earlier waves that count as absent from now on, their time being up.
    late
        Outcomes of earlier waves, new since the last closing, that enter this estimate; under
        sample splitting this one or one to come.
    replaced
        Late outcomes of units that earlier estimates counted as absent.
    corrected
        Outcomes that earlier estimates used, and that were corrected since.
    absent_value, unit
        What an absent unit counts as (None where none are counted), and the reward's unit.
    metrics
        The wave's metrics by action, with their guardrails.
    stopping
        What the declared rule says; None where none was declared, or all outcomes are equal.
    inflated
        The error of testing after every wave so far where nothing differs and no rule was declared,
        instead of 5% (or the declared alpha); None with a rule, and after the first wave. It counts
        the first 12 waves and is larger after more.
    proposal
        Sizes for the waves to come, where the spec is adaptive and two waves or more are to come.
    notes
        What there is to say about the estimate.
    event, hash
        The number and hash of the event: kept elsewhere, the hash shows later that nothing up to
        here was changed or cut off.
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
    unit: str | None
    metrics: tuple[MetricRow, ...]
    stopping: LookTaken | None
    inflated: float | None
    proposal: Proposal | None
    notes: tuple[str, ...]
    event: int
    hash: str

    @classmethod
    def of(cls, event: Event) -> "Closed":
        """Return what an event of closing says."""
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
            unit=payload["unit"],
            metrics=tuple(MetricRow(**row) for row in payload["metrics"]),
            stopping=LookTaken.of(said) if (said := payload.get("stopping")) else None,
            inflated=payload.get("inflated"),
            proposal=Proposal.of(found) if (found := payload.get("proposal")) else None,
            notes=tuple(payload["notes"]),
            event=event.sequence,
            hash=event.hash,
        )


class Closing:
    """One call of close within its transaction."""

    def __init__(self, change: Change, logbook: Logbook) -> None:
        self._change = change
        self._logbook = logbook
        self.now = current(change)

    def run(self, *, wave: int | None, force: bool, skip: bool, why: str) -> Closed:
        """Close the open wave, or answer again for one that is closed."""
        now = self.now
        # A call that is repeated after its answer was lost gets that answer, and closes nothing.
        if wave is not None and 1 <= wave <= len(now.closes):
            return Closed.of(self._change.event(now.closes[wave - 1]))
        now.require_rows()
        self._refuse_wrong_wave(wave)
        now.require_open()
        record = self._change.last_state()
        assert record is not None
        load_early()
        # The wave's units were assigned after the last estimate, and so came all their outcomes.
        parts = len(now.spec.parts)
        news = News.since(self._change, now, record.event, parts=parts)
        at = self._logbook.now()
        gone = absentees(self._change, now, news.fresh, at=at, skip=skip)
        if not force:
            self._refuse_early(news.fresh, gone)
        told = {"forced": force, "skipped": skip}
        return Closed.of(self._close(record, news, gone, told, at=at, why=why))

    def _refuse_wrong_wave(self, wave: int | None) -> None:
        now = self.now
        if wave is not None and wave != now.wave:
            opened = "none is" if now.finished else f"the open one is {now.wave}"
            raise CampaignStateError(
                f"wave {wave} of campaign {now.name} is not open; {opened}.", code="not-open"
            )
        if not now.finished and not now.units[now.wave - 1] and not now.aborted:
            past = ""
            if now.closes:
                past = f" Wave {now.wave - 1} was closed by event {now.closes[-1]}."
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has no units yet; there is nothing to "
                f"close.{past}",
                code="no-units",
            )

    def _refuse_early(self, recorded: Ledger, gone: Absentees) -> None:
        now = self.now
        units = now.units[now.wave - 1]
        first = now.assigned - units
        outcomes = len(recorded.within(first, now.assigned)) + int((gone.numbers >= first).sum())
        if now.left:
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has room for {now.left:,} more units. "
                "Assign them. Or close it as it is",
                BY_FORCE,
                code="wave-has-room",
            )
        self._refuse_buyers(units, recorded)
        if outcomes < now.spec.outcomes_needed(units):
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has outcomes of {outcomes:,} of its "
                f"{units:,} units ({outcomes / units:.1%}); at least "
                f"{now.spec.required_outcomes:.1%} are needed. Record more. Or close it as it is",
                BY_FORCE,
                code="too-few-outcomes",
            )

    def _refuse_buyers(self, units: int, recorded: Ledger) -> None:
        """Refuse a wave whose missing outcomes are a question that only a person can answer."""
        now = self.now
        values = recorded.within(now.assigned - units, now.assigned).values
        if now.absent is not None and not len(values):
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has no recorded outcome; each of its "
                f"{units:,} units would count as {now.absent:g}. Record its outcomes. Or close it "
                "by force, with a reason.",
                code="no-outcomes",
                remedies=[BY_FORCE],
            )
        if now.absent is None and 0 < len(values) < units / 2 and (values > 0).all():
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has outcomes of {len(values):,} of its "
                f"{units:,} units ({len(values) / units:.1%}; at least "
                f"{now.spec.required_outcomes:.1%} are needed), and all of them are positive. Do "
                "the files hold buyers only? If a unit without a row has the outcome 0, declare "
                "it: amend the campaign with absent = 0, then close. If the others are not known "
                "yet, record them first, or close by force, with a reason.",
                code="buyers-only",
                remedies=[Remedy("amend", absent=0, reason="no row means no purchase"), BY_FORCE],
            )

    def _counted(self, counted: WaveCounts, news: News, gone: Absentees) -> dict[str, Any]:
        """Return what the event tells of the wave: counts by action, tests and metrics."""
        now = self.now
        names = [action.name for action in now.actions]
        by_action = {
            "assigned": counted.assigned,
            "observed": counted.observed,
            "absent": counted.absent,
            "expected": counted.allocation.expected,
        }
        return {
            "wave": now.wave,
            **{
                what: dict(zip(names, values.tolist(), strict=True))
                for what, values in by_action.items()
            },
            **{name: test.plain() for name, test in counted.tests().items()},
            "absent_earlier": len(gone.numbers) - int(counted.absent.sum()),
            "replaced": int(news.was_absent.sum()),
            "corrected": int((~news.was_absent).sum()),
            "absent_value": now.absent,
            "unit": now.spec.reward.unit,
            "waiting": [list(each) for each in gone.waiting],
            "metrics": [asdict(row) for row in counted.metrics.rows(names)],
        }

    def _close(
        self,
        record: StateRecord,
        news: News,
        gone: Absentees,
        told: dict[str, Any],
        *,
        at: datetime,
        why: str,
    ) -> Event:
        now, change = self.now, self._change
        learned = self._learned()
        # Learning uses what this very wave taught of the features; deciding in it did not know it.
        learner = replace(now, learned=learned) if learned is not None else now
        if told["skipped"]:
            learner = replace(learner, skipped=(*now.skipped, now.wave))
        before = unpack_state(record.content, now)
        late, unused = self._late(news.fresh, before)
        absent = self._keep_absent(gone)
        everyone = news.counting(gone.ledger(news.fresh.parts.shape[1]))
        state, counted = closed_and_counted(learner, before, change, everyone)
        told = told | self._counted(counted, news, gone)
        stopping, kept = look(change, learner, change.events(), record)
        ahead = proposed(learner, state)
        content = pack_state(state, None if kept is None else kept.arrays)
        saved = StateRecord(event=now.sequence + 1, wave=now.wave, content=content, hash="")
        saved = sealed(change.name, saved)
        change.add_state(saved)
        return self._logbook.write(
            change,
            now,
            kind="close",
            why=why,
            counts={
                "units": sum(told["assigned"].values()),
                "outcomes": sum(told["observed"].values()),
                "absent": len(gone.numbers),
                **_clipped(learned),
            },
            payload={
                **told,
                "late": late,
                "stopping": None if stopping is None else stopping.plain(),
                "inflated": inflated(now, waves=now.wave),
                **({} if ahead is None else {"proposal": ahead.plain()}),
                "learned": None if learned is None else learned.plain(),
                "notes": [
                    *unlooked(now),
                    *notes(learner, state),
                    *(aliasing(learner) if now.wave == 1 else []),
                    *([UNUSED.format(unused)] if unused else []),
                ],
            },
            rows=[*absent, saved.hash],
            at=at,
        )

    def _keep_absent(self, gone: Absentees) -> list[str]:
        """Keep what absent units count as, so that a later row is known to replace it."""
        now, hashes = self.now, list[str]()
        _, chunk = self._change.next_chunks()
        for start in range(0, len(gone.numbers), PIECE):
            numbers = gone.numbers[start : start + PIECE]
            rows = absences(numbers, gone.value)
            place = {"event": now.sequence + 1, "chunk": chunk + len(hashes)}
            kept = self._change.kept(rows, kind="outcomes", **place)
            made = OutcomeChunk(**place, count=len(numbers), rows=kept, hash="")
            made = sealed(self._change.name, made)
            values = rows["value"].to_numpy().reshape(-1, 1)
            self._change.add_outcomes(made)
            self._change.index_outcomes(made.event, numbers, np.zeros_like(numbers), values)
            hashes.append(made.hash)
        return hashes

    def _late(self, fresh: Ledger, state: Any) -> tuple[int, int]:
        """Count the new outcomes of earlier waves: those that are used, and those that are not."""
        now = self.now
        late = fresh.within(0, sum(now.units[: now.wave - 1]))
        if not len(late):
            return 0, 0
        _, decided = EarlierDecisions(self._change, now).decided(late.numbers)
        used = int(still_used(now, state, decided).sum())
        return used, len(late) - used

    def _learned(self) -> LearnedFeatures | None:
        """Return what the first wave teaches of the features, None in later ones."""
        if self.now.wave > 1:
            return None
        return learn(
            self.now.encoder(),
            lambda: (unpack(chunk.given) for chunk in self._change.unit_chunks(given=True)),
            units=self.now.units[0],
        )


def _clipped(learned: LearnedFeatures | None) -> dict[str, Any]:
    """Return the counts of the first wave's values beyond its own bounds, where there are any."""
    numbers = {} if learned is None else learned.numbers
    found = {name: number.clipped for name, number in numbers.items() if number.clipped}
    return {"clipped": found} if found else {}


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
    """Close the open wave in one transaction."""
    if (force or skip) and not why.strip():
        rule = "given when a wave is closed by force or without learning from it"
        raise InvalidArgumentError("reason", rule, repr(why))
    with store.change(name) as change:
        return Closing(change, logbook).run(wave=wave, force=force, skip=skip, why=why)


# ----------------------------------------------------------------------
# Close a wave whose rows are kept elsewhere, by what they sum up to.


#: Bytes of a statement: those of the widest model have a few million.
LONGEST = 1 << 26


def record_sums(
    store: Store,
    name: str,
    logbook: Logbook,
    sums: Any,
    *,
    statement: str | Path,
    force: bool,
    why: str,
) -> Closed:
    """Take the result of a statement of sums as the open wave's evidence, and close the wave."""
    if force and not why.strip():
        raise InvalidArgumentError("reason", "given when a wave is closed by force", repr(why))
    text = _read(Path(statement))
    with source(sums) as opened, store.change(name) as change:
        now, record = current(change), change.last_state()
        assert record is not None
        _require_elsewhere(now)
        state = unpack_state(record.content, now)
        if problem := wrong_statement(now, state, text):
            raise InvalidArgumentError(
                "statement",
                f"the one of wave {now.wave} of campaign {now.name} that was run",
                f"a file that {problem}",
                "Look for the right file, store and campaign; or write this wave's statement "
                "anew, run it, and hand over its result.",
                remedies=[Remedy("sql", what="sums", units=..., outcomes=...)],
            )
        mark = marked(text)
        rows = read_rows(opened, now, mark)
        found = wave_sums(rows, now, state)
        if not force:
            _refuse_early(now, found)
        told = {**_told(now, found), "forced": force, "skipped": False}
        told["elsewhere"] = {"statement": text, "fingerprint": mark, "sums": rows}
        return _close(change, logbook, now, learned_elsewhere(now, state, rows), told, why=why)


def _read(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > LONGEST:
        raise InvalidArgumentError("statement", "the file of the statement that was run", path)
    return path.read_text(encoding="utf-8")


def _require_elsewhere(now: Situation) -> None:
    if now.spec.rows != "elsewhere":
        raise CampaignStateError(
            f"campaign {now.name} keeps its rows here: record its outcomes, and close its wave. "
            'Sums are for campaigns that declare rows = "elsewhere".',
            code="rows-here",
        )
    now.require_open()


def _refuse_early(now: Situation, found: WaveSums) -> None:
    """Refuse a wave that is not complete."""
    units, outcomes = int(found.assigned.sum()), int(found.seen.counts.sum())
    by_force = Remedy("record-sums", sums=..., force=True, reason=...)
    size = None if now.spec.grid.calendar else now.sizes[now.wave - 1]
    if size is not None and units != size:
        raise CampaignStateError(
            f"wave {now.wave} of campaign {now.name} has {size:,} units by its plan; the sums are "
            f"of {units:,}. Or close it as it is",
            by_force,
            code="not-as-planned",
        )
    if outcomes < now.spec.outcomes_needed(units):
        raise CampaignStateError(
            f"wave {now.wave} of campaign {now.name} has outcomes of {outcomes:,} of its {units:,} "
            f"units ({outcomes / units:.1%}); at least {now.spec.required_outcomes:.1%} are "
            "needed. Or close it as it is",
            by_force,
            code="too-few-outcomes",
        )


def _told(now: Situation, found: WaveSums) -> dict[str, Any]:
    """Return what the event tells of the wave, as that of any other does."""
    names = [action.name for action in now.actions]
    by_action = {
        "assigned": found.assigned,
        "observed": found.seen.counts - found.absent,
        "absent": found.absent,
        "expected": (found.seen + found.missing).expected,
        "randomised": found.randomised,
        "rewards": found.rewards,
    }
    return {
        "wave": now.wave,
        **{
            what: dict(zip(names, values.tolist(), strict=True))
            for what, values in by_action.items()
        },
        "missingness": missingness(found.seen, found.missing).plain(),
        "allocation": (found.seen + found.missing).test().plain(),
        "absent_earlier": 0, "replaced": 0, "corrected": 0, "late": 0,
        "absent_value": now.absent, "unit": now.spec.reward.unit, "waiting": [], "metrics": [],
        "stopping": None, "learned": None, "inflated": inflated(now, waves=now.wave),
    }  # fmt: skip


def _close(
    change: Change, logbook: Logbook, now: Situation, state: Any, told: dict[str, Any], *, why: str
) -> Closed:
    content = pack_state(state)
    saved = StateRecord(event=now.sequence + 1, wave=now.wave, content=content, hash="")
    saved = sealed(change.name, saved)
    change.add_state(saved)
    event = logbook.write(
        change,
        now,
        kind="close",
        why=why,
        counts={
            "units": sum(told["assigned"].values()),
            "outcomes": sum(told["observed"].values()),
            "absent": sum(told["absent"].values()),
        },
        payload={
            **told,
            "notes": [*notes(now, state), *(aliasing(now) if now.wave == 1 else [])],
        },
        rows=[saved.hash],
    )
    return Closed.of(event)
