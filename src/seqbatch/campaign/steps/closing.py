"""Close a wave: look at what came back, re-estimate, open the next."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqbatch.campaign.deciding.balance import Allocation, ChiSquare, missingness
from seqbatch.campaign.deciding.learning import News, aliasing, closed, notes, still_used
from seqbatch.campaign.record.codec import pack_state, unpack, unpack_state
from seqbatch.campaign.record.earlier_decisions import EarlierDecisions
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Change, Event, Reader, StateRecord, Store
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.campaign.tables.encoder import learn
from seqbatch.campaign.tables.features.frozen import Learned
from seqbatch.core.arrays import Integers
from seqbatch.errors import CampaignStateError, InvalidArgumentError

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
    assigned, observed
        Its units and their outcomes, by action.
    expected
        The units expected under the logged probabilities, by action.
    missingness, allocation
        Tests: are outcomes missing as often under every action, and were actions given as often
        as logged? A small p asks for a look before anything is believed.
    late
        Outcomes of earlier waves, new since the last closing, that enter this estimate; under
        sample splitting this one or one to come.
    corrected
        Outcomes that earlier estimates used, and that were corrected since.
    notes
        What there is to say about the estimate.
    event, hash
        The number and hash of the event: kept elsewhere, the hash shows later that nothing up to
        here was changed or cut off.
    """

    wave: int
    assigned: dict[str, int]
    observed: dict[str, int]
    expected: dict[str, float]
    missingness: ChiSquare
    allocation: ChiSquare
    late: int
    corrected: int
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
            expected=payload["expected"],
            missingness=ChiSquare(**payload["missingness"]),
            allocation=ChiSquare(**payload["allocation"]),
            late=payload["late"],
            corrected=payload["corrected"],
            notes=tuple(payload["notes"]),
            event=event.sequence,
            hash=event.hash,
        )


@dataclass(frozen=True)
class Tally:
    """Units of one wave with an outcome and without, by action."""

    seen: Allocation
    missing: Allocation

    @property
    def allocation(self) -> Allocation:
        """All units."""
        return self.seen + self.missing

    @property
    def assigned(self) -> Integers:
        """Units."""
        return self.seen.counts + self.missing.counts

    @property
    def observed(self) -> Integers:
        """Outcomes."""
        return self.seen.counts

    def tests(self) -> dict[str, ChiSquare]:
        """Return the two tests by name."""
        return {
            "missingness": missingness(self.seen, self.missing),
            "allocation": self.allocation.test(),
        }


def tally(reader: Reader, now: Situation, known: Ledger, wave: int) -> Tally:
    """Count a wave's units and outcomes."""
    actions = len(now.actions)
    counted = Tally(seen=Allocation(actions), missing=Allocation(actions))
    chunks = [extent.chunk for extent in reader.extents(wave=wave)]
    for chunk in reader.unit_chunks(given=False, chunks=chunks):
        decided = Decided.of(unpack(chunk.decided))
        seen = np.zeros(chunk.count, dtype=np.bool_)
        seen[known.within(chunk.first, chunk.first + chunk.count).numbers - chunk.first] = True
        counted.seen.add(decided.actions[seen], decided.probabilities[seen])
        counted.missing.add(decided.actions[~seen], decided.probabilities[~seen])
    return counted


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
        self._refuse_wrong_wave(wave)
        now.require_open()
        record = self._change.last_state()
        assert record is not None
        # The wave's units were assigned after the last estimate, and so came all their outcomes.
        news = News.since(self._change, record.event, until=now.sequence)
        counted = tally(self._change, now, news.fresh, now.wave)
        if not force:
            self._refuse_early(counted)
        return Closed.of(self._close(counted, record, news, why=why, forced=force, skip=skip))

    def _refuse_wrong_wave(self, wave: int | None) -> None:
        now = self.now
        if wave is not None and wave != now.wave:
            opened = "none is" if now.finished else f"the open one is {now.wave}"
            raise CampaignStateError(f"wave {wave} of campaign {now.name} is not open; {opened}.")
        if not now.finished and not now.units[now.wave - 1] and not now.aborted:
            past = ""
            if now.closes:
                past = f" Wave {now.wave - 1} was closed by event {now.closes[-1]}."
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has no units yet; there is nothing to "
                f"close.{past}"
            )

    def _refuse_early(self, counted: Tally) -> None:
        now, advice = self.now, "Or close it as it is: force=True, with a reason=..."
        units, outcomes = int(counted.assigned.sum()), int(counted.observed.sum())
        if now.left:
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has room for {now.left:,} more units. "
                f"Assign them. {advice}"
            )
        # The product of a share and a count may miss the whole number that is meant.
        if outcomes < math.ceil(now.spec.required_outcomes * units - 1e-9):
            raise CampaignStateError(
                f"wave {now.wave} of campaign {now.name} has outcomes of {outcomes:,} of its "
                f"{units:,} units ({outcomes / units:.1%}); at least "
                f"{now.spec.required_outcomes:.1%} are needed. Record more. {advice}"
            )

    def _close(
        self,
        counted: Tally,
        record: StateRecord,
        news: News,
        *,
        why: str,
        forced: bool,
        skip: bool,
    ) -> Event:
        now, change = self.now, self._change
        learned = self._learned()
        # Learning uses what this very wave taught of the features; deciding in it did not know it.
        learner = replace(now, learned=learned) if learned is not None else now
        if skip:
            learner = replace(learner, skipped=(*now.skipped, now.wave))
        before = unpack_state(record.content, now)
        late, unused = self._late(news.fresh, before)
        state = closed(learner, before, change, news)
        saved = StateRecord(
            event=now.sequence + 1, wave=now.wave, content=pack_state(state), hash=""
        )
        saved = sealed(change.name, saved)
        change.add_state(saved)
        names = [action.name for action in now.actions]
        tests = counted.tests()
        by_action: dict[str, Any] = {
            "assigned": dict(zip(names, counted.assigned.tolist(), strict=True)),
            "observed": dict(zip(names, counted.observed.tolist(), strict=True)),
            "expected": dict(zip(names, counted.allocation.expected.tolist(), strict=True)),
        }
        return self._logbook.write(
            change,
            now,
            kind="close",
            why=why,
            counts={
                "units": int(counted.assigned.sum()),
                "outcomes": int(counted.observed.sum()),
                **_clipped(learned),
            },
            payload={
                "wave": now.wave,
                **by_action,
                **{name: test.plain() for name, test in tests.items()},
                "late": late,
                "corrected": len(news.corrected),
                "learned": None if learned is None else learned.plain(),
                "forced": forced,
                "skipped": skip,
                "notes": [
                    *notes(learner, state),
                    *(aliasing(learner) if now.wave == 1 else []),
                    *([UNUSED.format(unused)] if unused else []),
                ],
            },
            rows=[saved.hash],
        )

    def _late(self, fresh: Ledger, state: Any) -> tuple[int, int]:
        """Count the new outcomes of earlier waves: those that are used, and those that are not."""
        now = self.now
        late = fresh.within(0, sum(now.units[: now.wave - 1]))
        if not len(late):
            return 0, 0
        _, decided = EarlierDecisions(self._change, now).decided(late.numbers)
        used = int(still_used(now, state, decided).sum())
        return used, len(late) - used

    def _learned(self) -> Learned | None:
        """Return what the first wave teaches of the features, None in later ones."""
        if self.now.wave > 1:
            return None
        return learn(
            self.now.encoder(),
            lambda: (unpack(chunk.given) for chunk in self._change.unit_chunks(given=True)),
            units=self.now.units[0],
        )


def _clipped(learned: Learned | None) -> dict[str, Any]:
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
