"""The open wave's decisions and sums on Arrow batches, for clusters such as Spark."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign.decide.decision import decide_by
from seqbatch.campaign.decide.draws import draws, lots, marks
from seqbatch.campaign.decide.learning import scale_of
from seqbatch.campaign.decide.row_verdicts import outside
from seqbatch.campaign.features.eligibility import BesideColumn
from seqbatch.campaign.files.column_values import Problems, reasoned
from seqbatch.campaign.files.ids import id_columns, read_ids
from seqbatch.campaign.files.number_format import read_numbers
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.outcomes import weighted
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.warehouse.assignments import MARKS
from seqbatch.campaign.warehouse.decisions import rule_of
from seqbatch.campaign.warehouse.features import beside, briefly
from seqbatch.campaign.warehouse.statement import marked, require_summable
from seqbatch.campaign.warehouse.sums import CHANCES, RESULT_COUNTS, names_of
from seqbatch.campaign.warehouse.wave_list import (
    NOBODY,
    WaveList,
    count_repeated,
    held,
    mark_sums,
    ordered,
)
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.core.exact_sums import products_of
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
# Sums over units and outcomes, computed by piece and merged.
#
# The sums are integers: they depend neither on the order of rows nor on how rows are split.


#: An action's index among the active ones, a part of the evidence, whether outcomes are known.
Key = tuple[int, int, int]
#: The columns of a result that are not sums.
APART = (
    "action", "part", "seen", "distinct_units", "earlier", "altered", "told", *MARKS, "statement",
)  # fmt: skip
#: The columns of a tally that is sent between processes.
SCHEMA = pa.schema(
    {
        "place": pa.int64(),
        "part": pa.int64(),
        "seen": pa.int64(),
        "sums": pa.list_(pa.string()),
        "ids": pa.binary(),
    }
)


@dataclass(frozen=True)
class GroupTally:
    """The sums of one group of units.

    Parameters
    ----------
    sums
        Python integers, in the order of a result's columns.
    ids
        128 bits of each unit's id, to find units that are repeated or had an earlier wave, (n, 2).
    """

    sums: NDArray[np.object_]
    ids: AnyArray

    @classmethod
    def of(
        cls, ids: AnyArray, counts: Integers, chances: Integers, whole: Integers
    ) -> "GroupTally":
        """Return the sums over rows.

        Parameters
        ----------
        ids
            The marks of the units.
        counts, chances, whole
            Counts, rounded probabilities, and the model's rounded columns followed by the reward;
            one row per unit.
        """
        parts = [
            counts.sum(axis=0).astype(object),
            chances.sum(axis=0).astype(object),
            _upper(products_of(chances)),
            np.array([int(whole[:, -1].sum())], dtype=object),
            _upper(products_of(whole)),
        ]
        return cls(np.concatenate(parts), ids)

    def merged(self, other: "GroupTally") -> "GroupTally":
        """Return the sums of both groups together."""
        return GroupTally(self.sums + other.sums, np.concatenate([self.ids, other.ids]))


@dataclass(frozen=True)
class WaveTally:
    """The sums over some units of a wave, by action, part of the evidence and known outcome."""

    groups: dict[Key, GroupTally]

    def merged(self, other: "WaveTally") -> "WaveTally":
        """Return the sums over both sets of units together."""
        both = dict(self.groups)
        for key, group in other.groups.items():
            both[key] = both[key].merged(group) if key in both else group
        return WaveTally(both)

    def packed(self) -> pa.RecordBatch:
        """Return the tally as an Arrow batch; :meth:`unpacked` reads it back."""
        rows = [
            (*key, [str(each) for each in group.sums], group.ids.tobytes())
            for key, group in self.groups.items()
        ]
        columns = zip(*rows, strict=True) if rows else [[]] * len(SCHEMA)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(list(column), type=field.type)
                for column, field in zip(columns, SCHEMA, strict=True)
            ],
            schema=SCHEMA,
        )

    @classmethod
    def unpacked(cls, batch: Any) -> "WaveTally":
        """Return the tally of an Arrow batch, or of several packed tallies in one batch."""
        tally = cls({})
        for row in batch.to_pylist():
            sums = np.array([int(each) for each in row["sums"]], dtype=object)
            group = GroupTally(sums, np.frombuffer(row["ids"], dtype="<u8").reshape(-1, 2))
            key = (row["place"], row["part"], row["seen"])
            tally = tally.merged(cls({key: group}))
        return tally

    def ids(self) -> AnyArray:
        """Return the marks of all units."""
        return np.concatenate([NOBODY, *(each.ids for each in self.groups.values())])

    def table(self, now: Situation, fingerprint: str, earlier: WaveList | None = None) -> pa.Table:
        """Return the result in the same form as the SQL statement of sums, for `record_sums`."""
        names = names_of(now)
        added = [name for name in names if name not in APART]
        actions = [now.actions[number].name for number in now.active]
        rows = []
        # As in SQL: a unit may be repeated with another action, or without its outcome.
        ids = self.ids()
        repeated = count_repeated(ids)
        before = WaveList.empty() if earlier is None else earlier
        apart = {"earlier": str(before.among(ids).sum()), "altered": str(int(before.altered(now)))}
        # Sums begin with the units, and those without an outcome.
        told = sum(int(group.sums[0]) - int(group.sums[1]) for group in self.groups.values())
        apart["told"] = str(told)
        for key in sorted(self.groups):
            group = self.groups[key]
            row: dict[str, str | None] = dict(zip(added, map(str, group.sums), strict=True))
            row |= {"action": actions[key[0]], "part": str(key[1]), "seen": str(key[2])}
            row["distinct_units"] = str(len(group.ids) - repeated)
            row |= apart | dict(zip(MARKS, map(str, mark_sums(group.ids)), strict=True))
            rows.append(row | {"statement": fingerprint} | _unknown(now, known=bool(key[2])))
        kinds = [(name, pa.int64() if name in RESULT_COUNTS else pa.string()) for name in names]
        columns = [
            pa.array([row[name] for row in rows], type=pa.string()).cast(kind)
            for name, kind in kinds
        ]
        return pa.table(columns, names=names)


def _repeated(ids: Sequence[str], name: str) -> dict[int, RowProblem]:
    """Return the problem of each row whose unit has an earlier row."""
    first: dict[str, int] = {}
    found = {}
    for row, each in enumerate(ids):
        if (earlier := first.setdefault(each, row)) != row:
            reason = f"{each!r} is in the batch twice: first in row {earlier + 1:,}"
            found[row] = RowProblem(row + 1, name, reason, "repeated")
    return found


def _upper(products: AnyArray) -> NDArray[np.object_]:
    """Return the products of all pairs of columns, each pair once, in the order of a result."""
    return np.asarray(products[np.triu_indices(len(products))], dtype=object)


def _unknown(now: Situation, *, known: bool) -> dict[str, str | None]:
    """Return nulls for sums over unknown rewards, as a database does."""
    last = now.encoder().dim
    names = ["rewards", *(f"z{place}_{last}" for place in range(last + 1))]
    return {} if known else dict.fromkeys(names)


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
        ids, wrong = read_ids(batch, self.now.spec.unit)
        if wrong:
            found = [RowProblem(row + 1, *told, reasoned(told[1]).code) for row, told in
                     sorted(wrong.items())]  # fmt: skip
            raise InvalidFileError("a batch of units", found, "no unit was listed")
        drawn = lots(seed, name, ids, before=sum(before), by="md5")
        return WaveList(marks(seed, name, ids), drawn)

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

    def assign(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return each unit's action, as the SQL statement does.

        A unit with a problem gets no action. Units that did not enter the wave are left out.
        """
        if self.members is not None:
            entered = held(self.members, self.listed(batch).marks)
            batch = batch.filter(pa.array(entered))
        elif self.now.spec.rows == "elsewhere":
            raise CampaignStateError(
                f"campaign {self.now.name} keeps its rows elsewhere: list the units that may enter "
                f"wave {self.now.wave}, and those of earlier waves, and use the rule of with_wave",
                code="no-wave-list",
            )
        given, problems = self._read(batch)
        kept = np.setdiff1d(np.arange(batch.num_rows), list(problems))
        if len(kept) < batch.num_rows:
            given, _ = self._read(batch.take(pa.array(kept)))
        return self._answers(batch, problems, kept, self._decided(given))

    def assign_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the decisions for batches; a function for Spark's mapInArrow."""
        for batch in batches:
            yield self.assign(batch)

    def sums(self, batch: pa.RecordBatch) -> WaveTally:
        """Return the sums over units and their outcomes.

        Parameters
        ----------
        batch
            Units of the open wave, with their columns and the reward's columns, which are null if
            the outcome is not known.
        """
        require_summable(self.now)
        now, (given, problems) = self.now, self._read(batch)
        ids = given.column(0).to_pylist()
        value, beyond, unread = self._outcomes(batch)
        for row, problem in (_repeated(ids, now.spec.id_name) | unread).items():
            problems.setdefault(row, problem)
        if problems:
            found = [problem for _, problem in sorted(problems.items())]
            raise InvalidFileError("a batch of units", found, "no sums were computed")
        decided = self._decided(given)
        absent = np.isnan(value)
        counted = np.nan if now.absent is None else now.absent
        value = np.where(absent, counted, np.where(beyond, np.nan, value))
        seen = ~np.isnan(value)
        rewards = now.spec.reward.sign * now.rewards(np.where(seen, value, 0.0), decided.actions)
        own = now.encoder(wave=now.wave).encode(given)
        whole = scale_of(now).rounded(own, rewards)
        scaled = decided.probabilities[:, list(now.active)] * 2.0**CHANCES
        chances = np.floor(scaled + 0.5).astype(np.int64)
        one, none = np.ones_like(absent), np.zeros_like(absent)
        counts = np.column_stack([one, absent, none, beyond, decided.randomised]).astype(np.int64)
        places = np.searchsorted(np.array(now.active), decided.actions)
        parts = int(decided.groups.max(initial=0)) + 2
        # One integer encodes action, part and seen: sorting rows of three takes ten times longer.
        keys = (places * parts + decided.groups + 1) * 2 + seen
        tally, marked_ids = WaveTally({}), marks(now.spec.seed, now.name, given.column(0))
        for key in np.unique(keys).tolist():
            mine = np.flatnonzero(keys == key)
            group = GroupTally.of(marked_ids[mine], counts[mine], chances[mine], whole[mine])
            place, part = divmod(key // 2, parts)
            tally.groups[place, part - 1, key % 2] = group
        return tally

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
        now, ids = self.now, given.column(0).to_pylist()
        drawn = draws(now.spec.seed, now.name, ids, by=now.spec.draws)
        return decide_by(now, self.rule, given, drawn)

    def _outcomes(self, batch: pa.RecordBatch) -> tuple[Floats, Bools, dict[int, RowProblem]]:
        """Return outcomes (NaN if missing), which are out of range, and unreadable ones."""
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
        return value, beyond & ~np.isnan(value), unread

    def _answers(
        self,
        batch: pa.RecordBatch,
        problems: dict[int, RowProblem],
        kept: Any,
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
    """Return the open wave's rule; refuse a campaign that SQL cannot express."""
    with store.read(name) as reader:
        now, record = current(reader), reader.last_state()
    assert record is not None
    now.require_no_stop()
    return FrozenRule(now, rule_of(now, unpack_state(record.content, now)))
