"""Run one campaign on simulated outcomes, through the code of real campaigns."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.random import Generator, SeedSequence

from seqbatch.campaign.campaign import Campaign
from seqbatch.campaign.files.ids import id_columns
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided
from seqbatch.campaign.record.events import Logbook
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.record.stored_units import walk
from seqbatch.campaign.rehearsal.population import Population, World, ids_of
from seqbatch.campaign.spec.metrics import COUNT, Metric
from seqbatch.campaign.steps.assign import assign_checked
from seqbatch.campaign.steps.create import Prepared, begun, keep
from seqbatch.campaign.views.findings import Findings
from seqbatch.core.arrays import Bools, Floats, Places
from seqbatch.errors import CampaignStateError

#: When rehearsed campaigns start, and the time between an assignment and its first outcomes.
START, SOON = datetime(2030, 1, 1, tzinfo=UTC), timedelta(minutes=1)
#: The reason with which a wave is closed that a user would have to close by force.
WHY = "rehearsal"


@dataclass
class Clock:
    """The time of a rehearsed campaign."""

    now: datetime = START

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


@dataclass(frozen=True, eq=False)
class RehearsedWave:
    """A wave of a rehearsed campaign.

    Parameters
    ----------
    rows
        Its units' rows in the population.
    decided
        The decisions.
    forced
        Why it could not be closed but by force, as a code; "" if it could.
    """

    rows: Places
    decided: Decided
    forced: str = ""


@dataclass(frozen=True, eq=False)
class RehearsedCampaign:
    """A campaign that was rehearsed.

    Parameters
    ----------
    world
        What was true.
    waves
        Its waves.
    found
        Its findings.
    now
        Its last situation.
    """

    world: World
    waves: list[RehearsedWave]
    found: Findings
    now: Situation


@dataclass(frozen=True, eq=False)
class Rehearsing:
    """What all campaigns of a rehearsal share.

    Parameters
    ----------
    prepared
        The checked spec, without masks.
    units
        The population.
    seed
        The rehearsal's seed.
    """

    prepared: Prepared
    units: Population
    seed: int

    def run(self, world: World, number: int, store: Store) -> RehearsedCampaign:
        """Run the campaign with this number; the number decides everything that is random."""
        running = Running(self, world, np.random.default_rng(self._seeds(number)), store)
        return running.run(self._numbered(number))

    def _seeds(self, number: int) -> SeedSequence:
        # The same units, and outcomes from the same random numbers, under every truth.
        return SeedSequence(self.seed, spawn_key=(number,))

    def _numbered(self, number: int) -> Prepared:
        """Return the spec with its own seed for the draws of actions."""
        [seed] = SeedSequence(self.seed, spawn_key=(number, 0)).generate_state(1, np.uint64)
        spec = {**self.prepared.payload["spec"], "seed": int(seed) >> 11}
        payload = {**self.prepared.payload, "spec": spec}
        return replace(self.prepared, payload=payload, now=begun(payload))


@dataclass(eq=False)
class Running:
    """One campaign while it runs."""

    rehearsing: Rehearsing
    world: World
    random: Generator
    store: Store
    clock: Clock = field(default_factory=Clock)

    def run(self, prepared: Prepared) -> RehearsedCampaign:
        """Create the campaign, run its waves until it ends, and read its findings."""
        name = prepared.now.name
        self.logbook = Logbook(who=WHY, clock=self.clock)
        keep(self.store, self.logbook, prepared)
        self.campaign = Campaign(self.store, name, who=WHY, clock=self.clock)
        planned = sum(prepared.now.sizes)
        self.order = self.rehearsing.units.draw(self.random, planned)
        waves = []
        while not (now := self.campaign.situation()).finished and not now.stop:
            waves.append(self._wave(now))
        now = self.campaign.situation()
        return RehearsedCampaign(self.world, waves, self.campaign.findings(), now)

    def _wave(self, now: Situation) -> RehearsedWave:
        """Assign a wave, record its outcomes, close it, and adopt the sizes that it proposes."""
        rows = self._rows(now.assigned, now.sizes[now.wave - 1])
        ids = ids_of(now.assigned, len(rows), len(now.spec.unit))
        units = self.rehearsing.units.wave(rows, ids)
        assign_checked(self.store, now.name, self.logbook, units, Source(_ID_SOURCE))
        decided = self._decided(now.wave)
        self.clock.now += SOON
        intime, late = self._outcomes(now, rows, decided, ids)
        self._record(intime)
        self.clock.now += max(
            (one.wait for one in now.spec.metrics.values() if one.wait is not None), default=SOON
        )
        forced = self._close()
        self.clock.now += SOON
        self._record(late)
        if self.campaign.situation().proposal is not None and self._proposes():
            self.campaign.replan(adopt=True, reason=WHY)
        return RehearsedWave(rows, decided, forced)

    def _rows(self, first: int, count: int) -> Places:
        """Return the population's rows of the next units."""
        missing = first + count - len(self.order)
        if missing > 0:
            more = self.random.integers(self.rehearsing.units.units, size=missing)
            self.order = np.concatenate([self.order, more])
        return self.order[first : first + count]

    def _decided(self, wave: int) -> Decided:
        """Return the stored decisions for a wave."""
        with self.store.read(self.campaign.name) as reader:
            [piece] = list(walk(reader, wave=wave))
            return Decided.of(piece.decisions())

    def _proposes(self) -> bool:
        made = self.campaign.replan()
        return made is not None and made.changes

    def _close(self) -> str:
        """Close the wave, by force if it cannot be closed otherwise; return why."""
        try:
            self.campaign.close()
        except CampaignStateError as error:
            self.campaign.close(force=True, reason=WHY)
            return error.code
        return ""

    # ------------------------------------------------------------------
    # Outcomes, as files of them would arrive.

    def _outcomes(
        self, now: Situation, rows: Places, decided: Decided, ids: pa.Array
    ) -> tuple[list[pa.Table], list[pa.Table]]:
        """Draw the outcomes; return the tables to record in time, and late ones."""
        truth, within = self.world.truth, self.world.within[rows]
        places = np.arange(len(rows))
        values = {}
        for name, metric in now.spec.metrics.items():
            means = truth.rates(name, now.wave, within)[places, decided.actions]
            values[name] = truth.draw(self.random, means, metric)
        intime, late = truth.arrivals(self.random, decided.actions)
        return (
            list(self._tables(now, ids, values, intime)),
            list(self._tables(now, ids, values, late)),
        )

    def _tables(
        self, now: Situation, ids: pa.Array, values: dict[str, Floats], there: Bools
    ) -> Iterator[pa.Table]:
        """Yield the outcomes of some units: one table of plain metrics, one for each logged one."""
        if not there.any():
            return
        plain = {n: m for n, m in now.spec.metrics.items() if not m.logged}
        columns = {m.column: values[n].copy() for n, m in plain.items()}
        if columns:
            # A unit without a row counts as absent, if that is declared: the file has the others.
            said = np.zeros(len(there), dtype=np.bool_)
            for name, metric in plain.items():
                said |= values[name] != (nan if metric.absent is None else metric.absent)
            chosen = np.flatnonzero(there & said)
            if len(chosen):
                units = id_columns(ids.take(chosen).to_pylist(), now.spec.unit)
                yield pa.table({**units, **{n: own[chosen] for n, own in columns.items()}})
        for name, metric in now.spec.metrics.items():
            if metric.logged:
                made = self._logged(now, ids, values[name], there, metric)
                if made is not None:
                    yield made

    def _logged(
        self, now: Situation, ids: pa.Array, values: Floats, there: Bools, metric: Metric
    ) -> pa.Table | None:
        """Return the rows of a metric that is combined from rows."""
        absent = 0.0 if metric.absent is None and metric.counts_rows else metric.absent
        repeats = np.zeros(len(there), dtype=np.int64)
        chosen = there if absent is None else there & (values != absent)
        repeats[chosen] = values[chosen] if metric.counts_rows and metric.kind == COUNT else 1
        rows = np.repeat(np.arange(len(there)), repeats)
        if not len(rows):
            return None
        numbers = [f"{now.wave}-{place}" for place in range(len(rows))]
        made: dict[str, Any] = id_columns(ids.take(rows).to_pylist(), now.spec.unit)
        made[metric.column] = numbers if metric.row_id == metric.column else values[rows]
        if metric.row_id is not None:
            made[metric.row_id] = numbers
        if metric.date is not None:
            made[metric.date] = [self.clock.now] * len(rows)
        return pa.table(made)

    def _record(self, tables: list[pa.Table]) -> None:
        """Record outcomes; equal rows are separate rows."""
        logged = any(metric.logged for metric in self.world.now.spec.metrics.values())
        for table in tables:
            self.campaign.record(table, equal_rows="keep" if logged else None)


#: A source of units that were checked before.
_ID_SOURCE = pa.table({"unit": pa.array([], pa.string())})
