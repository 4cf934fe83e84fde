"""The open wave's rule for Arrow batches: what a statement does in SQL, done by our own kernels.

A rule is plain data that any process can be handed. What it decides and sums up is what the
statements of the campaign give, bit for bit, wherever it runs and however the rows are cut.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.decisions import decide
from seqbatch.campaign.deciding.draws import draws
from seqbatch.campaign.deciding.exact import scale_of
from seqbatch.campaign.deciding.judging import weighted
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.campaign.tables.beside import BesideColumn
from seqbatch.campaign.tables.columns import Problems, read_numbers
from seqbatch.campaign.tables.ids import id_columns, read_ids
from seqbatch.campaign.warehouse.allowed import beside
from seqbatch.campaign.warehouse.problems import briefly
from seqbatch.campaign.warehouse.rule import require_expressible
from seqbatch.campaign.warehouse.statement import marked, require_summable
from seqbatch.campaign.warehouse.summing import CHANCES
from seqbatch.campaign.warehouse.wave_tally import GroupTally, WaveTally
from seqbatch.core.arrays import Bools, Floats
from seqbatch.engine import merge_tree
from seqbatch.errors import InvalidFileError


@dataclass(frozen=True)
class FrozenRule:
    """How the open wave decides and learns, fit to be carried to where the rows are.

    Parameters
    ----------
    now
        Where the campaign stands.
    state
        What the policy knew when the wave opened.
    """

    now: Situation
    state: Any

    def assign(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return each unit's action, as the statement to assign does.

        A unit with a problem gets no action.
        """
        given, problems = self._read(batch)
        kept = np.setdiff1d(np.arange(batch.num_rows), list(problems))
        if len(kept) < batch.num_rows:
            given, _ = self._read(batch.take(pa.array(kept)))
        return self._answers(batch, problems, kept, self._decided(given))

    def assign_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers for batches: what Spark's mapInArrow takes."""
        for batch in batches:
            yield self.assign(batch)

    def sums(self, batch: pa.RecordBatch) -> WaveTally:
        """Return what units with their outcomes sum up to.

        Parameters
        ----------
        batch
            Units of the open wave with the columns of the reward beside their own; null where no
            outcome is known.
        """
        require_summable(self.now)
        now, (given, problems) = self.now, self._read(batch)
        if wrong := {f"{column} {why}".strip(): row for row, (column, why) in problems.items()}:
            found = [(row + 1, "", problem) for problem, row in wrong.items()]
            raise InvalidFileError("a batch of units", found, "nothing was summed up")
        ids, decided = given.column(0).to_pylist(), self._decided(given)
        value, absent, outside = self._judged(batch)
        seen = ~np.isnan(value)
        rewards = now.spec.reward.sign * now.rewards(np.where(seen, value, 0.0), decided.actions)
        own = now.encoder(wave=now.wave).encode(given)
        whole = scale_of(now).rounded(own, rewards)
        scaled = decided.probabilities[:, list(now.active)] * 2.0**CHANCES
        chances = np.floor(scaled + 0.5).astype(np.int64)
        one, none = np.ones_like(absent), np.zeros_like(absent)
        counts = np.column_stack([one, absent, none, outside, decided.randomised]).astype(np.int64)
        places = np.searchsorted(np.array(now.active), decided.actions)
        parts = int(decided.groups.max(initial=0)) + 2
        # One number for action, part and seen: sorting rows of three takes ten times as long.
        keys = (places * parts + decided.groups + 1) * 2 + seen
        tally = WaveTally({})
        for key in np.unique(keys).tolist():
            mine = np.flatnonzero(keys == key)
            named = [ids[row] for row in mine]
            group = GroupTally.of(named, counts[mine], chances[mine], whole[mine])
            place, part = divmod(key // 2, parts)
            tally.groups[place, part - 1, key % 2] = group
        return tally

    def sums_of_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the batches of one partition sum up to: what Spark's mapInArrow takes."""
        yield merge_tree(WaveTally.merged, (WaveTally({}), *map(self.sums, batches))).packed()

    def result(self, tally: WaveTally, statement: str) -> pa.Table:
        """Return the result that a statement of sums has, to be handed to `record_sums`.

        Parameters
        ----------
        tally
            What all units of the wave sum up to.
        statement
            The campaign's own statement of sums, whose result it is.
        """
        return tally.table(self.now, marked(statement))

    def _read(self, batch: pa.RecordBatch) -> tuple[pa.Table, dict[int, tuple[str, str]]]:
        """Return the columns of units, ids first, and what is wrong: by row, column and reason."""
        # All of them: a unit that none is kept of would be given an action.
        encoder, problems = self.now.encoder(wave=self.now.wave), Problems(most=None)
        ids, wrong = read_ids(batch, encoder.unit_columns)
        for row, (column, reason) in wrong.items():
            problems.add(0, column, {row: reason})
        names = [name for name in batch.schema.names if name != encoder.unit]
        columns = [batch.column(name) for name in names]
        whole = pa.RecordBatch.from_arrays(
            [*columns, pa.array(ids, type=pa.string())], names=[*names, encoder.unit]
        )
        given = encoder.prepared(whole, 0, problems)[1]
        for name, kind in beside(encoder).items():
            kept, unfit = BesideColumn(name, kind).read(batch.column(name))
            problems.add(0, name, unfit)
            given = given.append_column(name, kept)
        if encoder.eligibility is not None:
            problems.add(0, "", encoder.eligibility.nothing(given))
        found: dict[int, tuple[str, str]] = {}
        for row, column, reason in problems.found:
            found.setdefault(row - 1, (column, reason))
        return given, found

    def _decided(self, given: pa.Table) -> Decided:
        now, ids = self.now, given.column(0).to_pylist()
        drawn = draws(now.spec.seed, now.name, ids, by=now.spec.draws)
        return decide(now, now.made_policy(), self.state, given, drawn)

    def _judged(self, batch: pa.RecordBatch) -> tuple[Floats, Bools, Bools]:
        """Return outcomes, NaN for none, who has none, and who has one beyond the range."""
        reward = self.now.spec.reward
        assert reward.range is not None
        terms = []
        for column in reward.columns:
            read = read_numbers(batch.column(column))
            terms.append(np.where(read.missing, np.nan, read.values))
        value = weighted(reward, np.column_stack(terms))
        absent = np.isnan(value)
        outside = ~absent & ~((value >= reward.range[0]) & (value <= reward.range[1]))
        counted = np.nan if self.now.absent is None else self.now.absent
        return np.where(absent, counted, np.where(outside, np.nan, value)), absent, outside

    def _answers(
        self,
        batch: pa.RecordBatch,
        problems: dict[int, tuple[str, str]],
        kept: Any,
        decided: Decided,
    ) -> pa.RecordBatch:
        now, K = self.now, len(self.now.active)
        place = np.full(batch.num_rows, -1)
        place[kept] = np.arange(len(kept))
        # Nulls where nothing was decided.
        rows = pa.array(place, mask=place < 0)
        names = pa.array([action.name for action in now.actions])
        actions = pa.array(decided.actions)
        own = decided.probabilities[np.arange(len(kept)), decided.actions]
        said = {row: briefly(*problem) for row, problem in problems.items()}
        made: dict[str, Any] = {
            **id_columns(read_ids(batch, now.spec.unit)[0], now.spec.unit),
            "action": names.take(actions).take(rows),
            "wave": pa.array(np.full(batch.num_rows, now.wave)),
            "score": pa.array(decided.scores).take(rows),
            "probability": pa.array(own).take(rows),
            "randomised": pa.array(decided.randomised.astype(np.int64)).take(rows),
            **{
                f"p{a}": pa.array(decided.probabilities[:, now.active[a]]).take(rows)
                for a in range(K)
            },
            "part": pa.array(decided.groups).take(rows),
            "problem": pa.array(map(said.get, range(batch.num_rows)), type=pa.string()),
        }
        return pa.RecordBatch.from_pydict(made)


def frozen_rule(store: Store, name: str) -> FrozenRule:
    """Return the open wave's rule; refuse what no statement can say."""
    with store.read(name) as reader:
        now, record = current(reader), reader.last_state()
    assert record is not None
    now.require_no_stop()
    require_expressible(now)
    return FrozenRule(now, unpack_state(record.content, now))
