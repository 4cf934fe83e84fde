"""The open wave's decisions and sums on Arrow batches, for clusters such as Spark."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.decide.decision import decide_by
from seqbatch.campaign.decide.draws import draws, lots, marks
from seqbatch.campaign.decide.row_verdicts import outside
from seqbatch.campaign.features.eligibility import BesideColumn
from seqbatch.campaign.files.column_values import Problems, as_column, reasoned, undictionaried
from seqbatch.campaign.files.ids import id_columns, read_ids
from seqbatch.campaign.files.number_format import read_numbers
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.outcomes import weighted
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.warehouse.assignments import DECISION, label_of, stored_name
from seqbatch.campaign.warehouse.decisions import rule_of
from seqbatch.campaign.warehouse.features import beside, briefly
from seqbatch.campaign.warehouse.statement import marked, require_summable
from seqbatch.campaign.warehouse.wave_list import (
    WaveList,
    count_repeated,
    held,
    ordered,
)
from seqbatch.campaign.warehouse.wave_tally import Outcomes, WaveTally
from seqbatch.core.arrays import AnyArray
from seqbatch.engine import merge_tree
from seqbatch.errors import (
    CampaignStateError,
    InvalidArgumentError,
    InvalidFileError,
    Remedy,
    RowProblem,
)
from seqbatch.policies.rule import Rule

# ----------------------------------------------------------------------
# The rows that are summed up: the answers that `assign` returned, with outcomes beside them.


def _repeated(ids: pa.Array, marked: AnyArray, name: str) -> dict[int, RowProblem]:
    """Return the problem of each row whose unit has an earlier row."""
    first: dict[str, int] = {}
    found: dict[int, RowProblem] = {}
    if not count_repeated(marked):
        return found
    for row, each in enumerate(ids.to_pylist()):
        if (earlier := first.setdefault(each, row)) != row:
            reason = f"{each!r} is in the batch twice: first in row {earlier + 1:,}"
            found[row] = RowProblem(row + 1, name, reason, "repeated")
    return found


def _differing(now: Situation, batch: pa.RecordBatch, decided: Decided) -> dict[int, RowProblem]:
    """Return the problem of each row whose answer is not what the rule decides for its columns."""
    names = pa.array([action.name for action in now.actions])
    expected = {
        "action": names.take(pa.array(decided.actions)),
        "wave": pa.repeat(now.wave, batch.num_rows),
        "campaign": pa.repeat(label_of(now), batch.num_rows),
        "score": pa.array(decided.scores),
        "randomised": pa.array(decided.randomised.astype(np.int64)),
        "part": pa.array(decided.groups),
        **{
            f"p{place}": pa.array(np.ascontiguousarray(decided.probabilities[:, number]))
            for place, number in enumerate(now.active)
        },
    }
    found: dict[int, RowProblem] = {}
    for name, right in expected.items():
        given = undictionaried(batch.column(name))
        same = pc.equal(given.cast(right.type), right).fill_null(False)
        for row in np.flatnonzero(~np.asarray(same)).tolist():
            reason = (
                f"must be {right[row].as_py()!r}, which the rule gives to a unit with these "
                f"columns; received {given[row].as_py()!r}. Hand back the answers of assign"
            )
            found.setdefault(row, RowProblem(row + 1, name, reason, "altered"))
    return found


# ----------------------------------------------------------------------
# The open wave's rule for Arrow batches.
#
# A rule is plain data that can be sent to any process. Its decisions and sums equal those of the
# SQL statements bit for bit, wherever it runs and however the rows are split.


@dataclass(frozen=True)
class FrozenRule:
    """The open wave's rule with the campaign's settings, to run wherever the rows are.

    Parameters
    ----------
    now
        The campaign's situation.
    rule
        The policy's rule for the wave.
    members
        The marks of the units that entered the wave; see :meth:`with_wave`.
    """

    now: Situation
    rule: Rule
    members: AnyArray | None = None

    def listed(self, batch: pa.RecordBatch) -> WaveList:
        """Return the units of a batch as a list; only the columns of their ids are read."""
        name, seed, before = self.now.name, self.now.spec.seed, self.now.units[: self.now.wave - 1]
        ids = self._ids(batch, "no unit was listed")
        drawn = lots(seed, name, ids, before=sum(before), by="md5")
        return WaveList(marks(seed, name, ids), drawn)

    def _ids(self, batch: pa.RecordBatch, nothing: str) -> pa.Array:
        """Return the ids of a batch; refuse it if a unit has none."""
        ids, wrong = read_ids(batch, self.now.spec.unit)
        if wrong:
            found = [RowProblem(row + 1, *told, reasoned(told[1]).code) for row, told in
                     sorted(wrong.items())]  # fmt: skip
            raise InvalidFileError("a batch of units", found, nothing)
        return ids

    def with_wave(
        self, units: WaveList, earlier: WaveList | None = None, *, partial: bool = False
    ) -> "FrozenRule":
        """Return the rule for the units that enter the open wave: it decides for no others.

        It takes the units that the SQL statement takes, and refuses what that refuses.

        Parameters
        ----------
        units
            The units that may enter.
        earlier
            All units of the earlier waves.
        partial
            Whether the wave may have fewer units than planned.
        """
        now, before = self.now, WaveList.empty() if earlier is None else earlier
        if before.altered(now):
            count = sum(now.units[: now.wave - 1])
            raise InvalidArgumentError(
                "earlier", f"the {count:,} units of the earlier waves, as they were recorded",
                f"{len(before.marks):,} units",
            )  # fmt: skip
        left = ~before.among(units.marks)
        chosen, drawn = units.marks[left], units.lots[left]
        if count := count_repeated(chosen):
            raise InvalidArgumentError("units", "each unit once", f"{count:,} repeated units")
        size = len(chosen) if now.spec.grid.calendar else now.sizes[now.wave - 1]
        if len(chosen) < size and not partial:
            rule = f"at least the {size:,} units of wave {now.wave}, without those of earlier waves"
            raise InvalidArgumentError(
                "units", rule, f"{len(chosen):,} units", remedies=[Remedy("partial")]
            )
        first = np.argsort(drawn, kind="stable")[:size]
        return replace(self, members=ordered(chosen[first]))

    def of_shard(self, units: WaveList) -> "FrozenRule":
        """Return the rule of a wave for some units only: a process needs no list of the others.

        Parameters
        ----------
        units
            The units of the shard, whether or not they entered the wave.
        """
        if self.members is None:
            raise self._unlisted()
        return replace(self, members=ordered(units.marks[held(self.members, units.marks)]))

    def assign(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return each unit's action, as the SQL statement does.

        A unit with a problem gets no action. Units that did not enter the wave are left out.
        """
        if self.members is not None:
            ids = self._ids(batch, "no unit was given an action")
            entered = held(self.members, marks(self.now.spec.seed, self.now.name, ids))
            batch = batch.filter(pa.array(entered))
        elif self.now.spec.rows == "elsewhere":
            raise self._unlisted()
        given, problems = self._read(batch)
        kept = np.setdiff1d(np.arange(batch.num_rows), list(problems))
        if len(kept) < batch.num_rows:
            given, _ = self._read(batch.take(pa.array(kept)))
        return self._answers(batch, problems, kept, given, self._decided(given))

    def _unlisted(self) -> CampaignStateError:
        return CampaignStateError(
            f"the rule does not know which units wave {self.now.wave} of campaign {self.now.name} "
            "has: list the units that may enter it, and those of earlier waves, and use the rule "
            "of with_wave",
            code="no-wave-list",
        )

    def assign_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the decisions for batches; a function for Spark's mapInArrow."""
        for batch in batches:
            yield self.assign(batch)

    def sums(self, batch: pa.RecordBatch) -> WaveTally:
        """Return the sums over units and their outcomes.

        Nothing is taken from the units' table: the answers hold the columns as they were when the
        rule decided. A unit that is not in the wave is refused, and an answer that was changed.

        Parameters
        ----------
        batch
            Rows that :meth:`assign` returned, whole, with the reward's columns beside them, which
            are null if the outcome is not known.
        """
        require_summable(self.now)
        if self.members is None:
            raise self._unlisted()
        self._require_columns(batch)
        given, problems = self._read(self._columns_given(batch))
        ids, now = as_column(given.column(0)), self.now
        marked_ids = marks(now.spec.seed, now.name, ids)
        outcomes, unread = self._outcomes(batch)
        for found in (_repeated(ids, marked_ids, now.spec.id_name), unread):
            problems = found | problems
        for row in np.flatnonzero(~held(self.members, marked_ids)).tolist():
            reason = f"{ids[row].as_py()!r} is not a unit of wave {now.wave}"
            problems.setdefault(row, RowProblem(row + 1, now.spec.id_name, reason, "not-in-wave"))
        if not problems:
            decided = self._decided(given)
            problems = _differing(now, batch, decided)
        if problems:
            said = [problem for _, problem in sorted(problems.items())]
            raise InvalidFileError("a batch of answers", said, "no sums were computed")
        return WaveTally.of(now, given, decided, outcomes, marked_ids)

    def _require_columns(self, batch: pa.RecordBatch) -> None:
        """Refuse a batch that lacks a column of the answers or of the reward, or has it twice."""
        spec, chances = self.now.spec, [f"p{place}" for place in range(len(self.now.active))]
        wanted = [*spec.unit, *DECISION, *chances, "part", *map(stored_name, self._columns)]
        problems = []
        for name in dict.fromkeys([*wanted, *spec.reward.columns]):
            if count := len(batch.schema.get_all_field_indices(name)):
                said, code = f"is there {count} times", "repeated"
            else:
                said = "is missing; give the rows that assign returned, with the outcomes"
                code = "no-such-column"
            if count != 1:
                problems.append(RowProblem(0, name, said, code))
        if problems:
            raise InvalidFileError("a batch of answers", problems, "no sums were computed")

    @property
    def _columns(self) -> list[str]:
        """The columns on which decisions depend: those of the model, and of eligibility rules."""
        encoder = self.now.encoder(wave=self.now.wave)
        return [*encoder.parts, *beside(encoder)]

    def _columns_given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the units' own columns, by their own names, from the answers."""
        names = {name: name for name in self.now.spec.unit}
        names = {name: stored_name(name) for name in self._columns} | names
        columns = [batch.column(stored) for stored in names.values()]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def sums_of_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the sums of one partition's batches; a function for Spark's mapInArrow."""
        yield merge_tree(WaveTally.merged, (WaveTally({}), *map(self.sums, batches))).packed()

    def result(self, tally: WaveTally, statement: str, earlier: WaveList | None = None) -> pa.Table:
        """Return the result in the same form as the SQL statement of sums, for `record_sums`.

        Parameters
        ----------
        tally
            The sums over all units of the wave.
        statement
            The campaign's statement of sums.
        earlier
            All units of the earlier waves.
        """
        return tally.table(self.now, marked(statement), earlier)

    def _read(self, batch: pa.RecordBatch) -> tuple[pa.Table, dict[int, RowProblem]]:
        """Return the units' columns, ids first, and the problem of each invalid row."""
        # Keep all problems: a unit whose problem is dropped would get an action.
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
        found: dict[int, RowProblem] = {}
        for each in problems.found:
            found.setdefault(each.row - 1, each)
        return given, found

    def _decided(self, given: pa.Table) -> Decided:
        now, ids = self.now, as_column(given.column(0))
        drawn = draws(now.spec.seed, now.name, ids, by=now.spec.draws, lots=False)
        return decide_by(now, self.rule, given, drawn)

    def _outcomes(self, batch: pa.RecordBatch) -> tuple[Outcomes, dict[int, RowProblem]]:
        """Return the outcomes, and the problems of rows whose outcome cannot be read."""
        reward = self.now.spec.reward
        terms, unread = [], dict[int, RowProblem]()
        beyond = np.zeros(batch.num_rows, dtype=np.bool_)
        for metric in reward.terms:
            read = read_numbers(batch.column(metric.column))
            values, wrong = read.values_and_wrong()
            terms.append(np.where(read.missing, np.nan, values))
            beyond |= outside(metric, terms[-1])
            for row, reason in wrong.items():
                unread[row] = RowProblem(row + 1, metric.column, reason, reasoned(reason).code)
        value = weighted(reward, np.column_stack(terms))
        return Outcomes(value, beyond & ~np.isnan(value)), unread

    def _answers(
        self,
        batch: pa.RecordBatch,
        problems: dict[int, RowProblem],
        kept: Any,
        given: pa.Table,
        decided: Decided,
    ) -> pa.RecordBatch:
        now, K = self.now, len(self.now.active)
        place = np.full(batch.num_rows, -1)
        place[kept] = np.arange(len(kept))
        # Null for units without a decision.
        rows = pa.array(place, mask=place < 0)
        names = pa.array([action.name for action in now.actions])
        actions = pa.array(decided.actions)
        own = decided.probabilities[np.arange(len(kept)), decided.actions]
        said = {row: briefly(each.column, each.reason) for row, each in problems.items()}
        made: dict[str, Any] = {
            **id_columns(read_ids(batch, now.spec.unit)[0], now.spec.unit),
            "action": names.take(actions).take(rows),
            **({} if self.members is None else {"campaign": pa.repeat(label_of(now), len(place))}),
            "wave": pa.array(np.full(batch.num_rows, now.wave)),
            "score": pa.array(decided.scores).take(rows),
            "probability": pa.array(own).take(rows),
            "randomised": pa.array(decided.randomised.astype(np.int64)).take(rows),
            **{
                f"p{a}": pa.array(decided.probabilities[:, now.active[a]]).take(rows)
                for a in range(K)
            },
            "part": pa.array(decided.groups).take(rows),
            **self._stored(given, rows),
            "problem": pa.array(map(said.get, range(batch.num_rows)), type=pa.string()),
        }
        return pa.RecordBatch.from_pydict(made)

    def _stored(self, given: pa.Table, rows: pa.Array) -> dict[str, pa.Array]:
        """Return the columns on which decisions depend, as answers of a wave keep them."""
        columns = [] if self.members is None else self._columns
        return {
            stored_name(name): undictionaried(as_column(given.column(name))).take(rows)
            for name in columns
        }


def frozen_rule(store: Store, name: str) -> FrozenRule:
    """Return the open wave's rule; refuse a campaign that SQL cannot express."""
    with store.read(name) as reader:
        now, record = current(reader), reader.last_state()
    assert record is not None
    now.require_no_stop()
    return FrozenRule(now, rule_of(now, unpack_state(record.content, now)))
