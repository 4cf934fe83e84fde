"""A wave's sums as SQL, and the reading and checking of the result."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.campaign.decide.action_counts import Allocation, Counts
from seqbatch.campaign.decide.draws import md5_key
from seqbatch.campaign.decide.learning import GroupSums, scale_of
from seqbatch.campaign.files.column_values import python_value
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.input_limits import MOST_UNITS
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.warehouse.assignments import (
    DRAWS,
    MARKS,
    AssignmentsTable,
    as_drawn,
    draws_in,
    mark_of,
    marks_in,
)
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item, SqlColumns, columns_of
from seqbatch.campaign.warehouse.stages import Stages, id_of, named, summed
from seqbatch.core.exact_sums import BITS, ExactSums
from seqbatch.errors import InvalidFileError, RowProblem

# ----------------------------------------------------------------------
# The wave's units, as the table of assignments holds them: decisions, and the model's numbers.


#: The most cells (combinations of some categories and booleans) over which sums come first: with
#: thousands of them, a database takes longer than to multiply for every unit.
MOST_CELLS = 128


@dataclass(frozen=True)
class BesideModel:
    """Columns that are passed on beside the model's, stage by stage: of segments, of eligibility.

    Parameters
    ----------
    read, known, drawn
        What is added to the first three stages.
    """

    read: Sequence[Item] = ()
    known: Sequence[Item] = ()
    drawn: Sequence[Item] = ()

    @property
    def names(self) -> list[str]:
        """The columns that later stages pass on."""
        return [name for _, name in self.drawn]


class StoredStages:
    """The stages that read a wave's decisions and compute the model's numbers again.

    Nothing is decided again: what the table holds is what the units had.

    Parameters
    ----------
    now
        The campaign's situation.
    table
        The table of assignments.
    cells
        Whether sums may be computed by cell first.
    beside
        Columns beside the model's.
    """

    def __init__(
        self,
        now: Situation,
        table: AssignmentsTable,
        *,
        cells: bool = True,
        beside: BesideModel | None = None,
    ) -> None:
        # Sums of the first wave have the scales that were learned from it; decisions had none.
        self.columns: SqlColumns = columns_of(now.encoder(), table.sql)
        #: The columns that define the cells; none if sums are not computed by cell first.
        self.keys = self.columns.cells(MOST_CELLS) if cells else []
        #: The model's numbers that are the same within a cell, each with its expression.
        self.steady = {
            name: expression
            for name, (expression, keys) in self.columns.steady.items()
            if self.keys and keys <= set(self.keys)
        }
        #: The columns that are passed on.
        self.kept = [*self.keys, *(x for x in self.columns.vector if x not in self.steady)]
        self.stages = Stages(table.sql)
        self._read(now, table, beside or BesideModel())

    def _read(self, now: Situation, table: AssignmentsTable, beside: BesideModel) -> None:
        sql, columns = table.sql, self.columns
        ids = [f"u{place}" for place in range(len(now.spec.unit))]
        chances = [f"p{action}" for action in range(len(now.active))]
        given = [(column, alias) for alias, (column, _) in table.features.items()]
        self.stages.add(
            "given",
            [*zip(table.ids(), ids, strict=True), *named("action", "randomised", *chances, "part"),
             *given, *beside.read],
            source=table.table, after=f"WHERE {table.here}",
        )  # fmt: skip
        names = [now.actions[number].name for number in now.active]
        spelled = " ".join(f"WHEN {sql.text(name)} THEN {a}" for a, name in enumerate(names))
        joined = id_of(sql, ids)
        own = named("randomised", *chances, "part")
        self.stages.add("known", [
            *named(*ids), (joined, "id"), (mark_of(now, sql, joined), "digest"),
            (sql.md5(f"{sql.text(md5_key(now.spec.seed, now.name))} || {joined}"), "draws"), *own,
            (f"CASE action {spelled} END", "picked"), *named(*table.features),
            *columns.levels, *beside.known,
        ])  # fmt: skip
        wrong = " OR ".join(f"({condition})" for condition, _ in columns.problems)
        fit = f"CASE WHEN {wrong} THEN NULL ELSE picked END" if wrong else "picked"
        passed = [*named(*ids, "id"), *own]
        keys = named(*self.keys)
        draws = draws_in(sql, "draws")[:2]
        self.stages.add("drawn", [*passed, (fit, "fit"), *draws, *marks_in(sql, "digest"), *keys,
                                  *columns.base, *beside.drawn])  # fmt: skip
        passed += named(*MARKS, *beside.names)
        if columns.crossed:
            more = named("fit", *DRAWS[:2], *(alias for _, alias in columns.base))
            self.stages.add("crossed", [*passed, *keys, *more, *columns.crossed])
        # A unit that was changed in the table has no action: such a wave is refused.
        chosen = f"CASE WHEN {as_drawn(now, sql, 'fit')} THEN fit END"
        self.stages.add("decided", [*passed, (chosen, "chosen"), *named(*self.kept)])


# ----------------------------------------------------------------------
# Sums by cell: all units of a cell have the same categories and booleans.
#
# Only the columns that vary within a cell are multiplied for every unit; all others need a few
# operations per cell. The numbers are integers, so the order of addition does not change the sums.


def whole_numbers(now: Situation, sql: SqlDialect, numbers: Sequence[str | None]) -> list[Item]:
    """Return the model's numbers, and optionally the reward, as integers; z0 is the first.

    None marks a number to leave out.
    """
    scale, half = scale_of(now), sql.number(0.5)
    pairs = enumerate(zip(numbers, (*scale.columns, scale.reward), strict=False))
    return [
        (sql.floor(f"{text} * {sql.number(2.0**power)} + {half}"), f"z{place}")
        for place, (text, power) in pairs
        if text is not None
    ]


def add_cells(
    now: Situation, made: StoredStages, sql: SqlDialect, sums: Sequence[Item]
) -> list[Item]:
    """Add the stages that sum by cell; return the same sums, now over cells.

    Parameters
    ----------
    now, made, sql
        The campaign's situation, the stages so far, and the dialect.
    sums
        The expressions summed over units, and their names.
    """
    columns = made.columns
    last = len(columns.vector)
    steady = {f"z{place}" for place, name in enumerate(columns.vector) if name in made.steady}
    moving = [f"z{place}" for place in range(last + 1) if f"z{place}" not in steady]
    inner, outer = [(f"CAST(1 AS {sql.whole})", "n")], list[Item]()
    inner += [(z, f"sum_{z}") for z in moving]
    for text, name in sums:
        marks = [z for z in text.split(" * ") if z in steady]
        rest = [z for z in text.split(" * ") if z not in steady]
        if len(rest) == 1 and rest[0] in moving:
            outer.append((" * ".join([f"sum_{rest[0]}", *marks]), name))
        elif marks:
            outer.append((" * ".join(["n", *marks]), name))
        else:
            inner.append((text, name))
            outer.append((name, name))
    keys = ["chosen", "part", "seen"]
    cells = [(sql.sum(text), name) for text, name in inner]
    groups = f"GROUP BY {', '.join([*keys, *made.keys])}"
    made.stages.add("cells", [*named(*keys, *made.keys), *cells], after=groups)
    constant = whole_numbers(now, sql, [made.steady.get(name) for name in columns.vector])
    made.stages.add("marked", [*named(*keys, *(name for _, name in inner)), *constant])
    return outer


# ----------------------------------------------------------------------
# The stages of a wave's sums: join outcomes to units, round to integers, sum products.
#
# The result has one row per action, part of the evidence, and known or unknown outcome.


#: Probabilities are rounded to multiples of 2^-CHANCES, which makes sums of products exact.
CHANCES = 30
#: The counts of units.
WAVE_COUNTS = ("absent", "conflicting", "outside", "randomised")


def summing(
    now: Situation, made: StoredStages, table: AssignmentsTable, outcomes: str
) -> tuple[list[Item], str]:
    """Add the stages that sum; return the final items to select, and the clauses that follow."""
    sql = table.sql
    add_outcomes(now, made, sql, outcomes, now.spec.reward)
    _rounded(now, made, sql)
    counts, sums = "COUNT(*)", [*_beside(len(now.active)), *_products(made)]
    if made.keys:
        counts, sums = f"CAST(SUM(n) AS {sql.whole})", add_cells(now, made, sql, sums)
    source = made.stages.last
    _counted(now, made, table)
    names = [now.actions[number].name for number in now.active]
    spelled = " ".join(f"WHEN {a} THEN {sql.text(name)}" for a, name in enumerate(names))
    items = [
        (f"CASE chosen {spelled} END", "action"), *named("part", "seen"),
        (counts, "units"), (f"{counts} - MAX(repeated)", "distinct_units"),
        *((f"MAX({name})", name) for name in ("earlier", "altered", "told")),
        *((sql.total(text), name) for text, name in sums),
    ]  # fmt: skip
    groups = "GROUP BY chosen, part, seen\nORDER BY chosen, part, seen"
    return items, f"CROSS JOIN {source}\n{groups}"


def _beside(options: int) -> list[Item]:
    """Return the sums besides those of the model's numbers."""
    pairs = [(a, b) for a in range(options) for b in range(a, options)]
    return [
        *named(*WAVE_COUNTS, *MARKS, *(f"e{a}" for a in range(options))),
        *((f"e{a} * e{b}", f"e{a}_{b}") for a, b in pairs),
    ]


def _products(made: StoredStages) -> list[Item]:
    """Return the reward, and the products of all pairs of the model's numbers and the reward."""
    last = len(made.columns.vector)
    pairs = [(i, j) for i in range(last + 1) for j in range(i, last + 1)]
    return [(f"z{last}", "rewards"), *((f"z{i} * z{j}", f"z{i}_{j}") for i, j in pairs)]


def _counted(now: Situation, made: StoredStages, table: AssignmentsTable) -> None:
    """Count repeated units, whatever their action, and units that an earlier wave had."""
    ids = [f"u{place}" for place in range(len(now.spec.unit))]
    before = f"WHERE {table.held(ids, '(' + table.other('held.') + ')')}"
    made.stages.add("had_before", [("COUNT(*)", "earlier")], source="given", after=before)
    table.add_others(made.stages)
    own = id_of(table.sql, table.ids())
    repeated = f"COUNT({own}) - COUNT(DISTINCT {own})"
    here = f"WHERE {table.here}"
    made.stages.add("entered", [(repeated, "repeated")], source=table.table, after=here)
    made.stages.add("told_of", [("COUNT(*)", "told")], source="told_once")
    crossed = "CROSS JOIN had_before CROSS JOIN recorded CROSS JOIN entered"
    made.stages.add("counted", named("repeated", "earlier", "altered", "told"), after=crossed)


def add_outcomes(
    now: Situation, made: StoredStages, sql: SqlDialect, outcomes: str, reward: Reward
) -> None:
    """Join each unit's outcome to it: one value, within the declared range."""
    units, columns = made.stages.last, list(now.spec.unit)
    terms = [sql.as_number(sql.name_of(column)) for column in reward.columns]
    value = terms[0]
    if not reward.plain:
        weights = [sql.number(weight) for weight in reward.weights]
        weighed = [f"{weight} * {term}" for weight, term in zip(weights, terms, strict=True)]
        value = summed([sql.number(0.0), *weighed])
    ids = [(sql.as_text(sql.name_of(name)), f"u{place}") for place, name in enumerate(columns)]
    pairs = zip(reward.terms, terms, strict=True)
    fits = " AND ".join(_fits(metric, term, sql) for metric, term in pairs)
    told = [*ids, (value, "value"), (f"CASE WHEN {fits} THEN 1 ELSE 0 END", "fits")]
    made.stages.add("told", told, source=sql.table(outcomes))
    joined = id_of(sql, [alias for _, alias in ids])
    made.stages.add(
        "told_once",
        [
            (joined, "told_id"),
            ("MIN(value)", "lowest"),
            ("MAX(value)", "highest"),
            ("MIN(fits)", "fits"),
        ],
        after=f"WHERE value IS NOT NULL GROUP BY {joined}",
    )
    one, within = "lowest = highest", "fits = 1"
    absent = "NULL" if reward.absent is None else sql.number(reward.absent)
    K = len(now.active)
    made.stages.add(
        "judged",
        [
            *named("chosen", "part", "randomised", *MARKS, *made.kept),
            *named(*(f"p{action}" for action in range(K))),
            (f"CASE WHEN {one} AND {within} THEN lowest "
             f"WHEN lowest IS NULL THEN {absent} END", "value"),
            ("CASE WHEN lowest IS NULL THEN 1 ELSE 0 END", "absent"),
            ("CASE WHEN lowest < highest THEN 1 ELSE 0 END", "conflicting"),
            (f"CASE WHEN {one} AND NOT {within} THEN 1 ELSE 0 END", "outside"),
        ],
        source=units,
        after="LEFT JOIN told_once ON id = told_id",
    )  # fmt: skip


def _fits(metric: Metric, value: str, sql: SqlDialect) -> str:
    """Return the condition that a metric can have this value."""
    assert metric.limits is not None
    low, high = (sql.number(end) for end in metric.limits)
    if metric.kind == YES_NO:
        return f"({value} = {low} OR {value} = {high})"
    return f"({value} >= {low} AND {value} <= {high})"


def _rounded(now: Situation, made: StoredStages, sql: SqlDialect) -> None:
    """Round vectors, rewards and probabilities to integers."""
    half = sql.number(0.5)
    chances = [
        (sql.floor(f"p{action} * {sql.number(2.0**CHANCES)} + {half}"), f"e{action}")
        for action in range(len(now.active))
    ]
    numbers = [name if name in made.kept else None for name in made.columns.vector]
    seen = ("CASE WHEN value IS NULL THEN 0 ELSE 1 END", "seen")
    own = named("chosen", "part", *made.keys)
    whole = whole_numbers(now, sql, [*numbers, net_of_costs(now, sql)])
    made.stages.add("rounded", [*own, seen, *named(*WAVE_COUNTS, *MARKS), *chances, *whole])


def counted_value(reward: Reward, sql: SqlDialect) -> str:
    """Return a value as it counts: at most the cap."""
    if (cap := reward.cap) is None:
        return "value"
    return f"CASE WHEN value > {sql.number(cap)} THEN {sql.number(cap)} ELSE value END"


def net_of_costs(now: Situation, sql: SqlDialect) -> str:
    """Return a unit's reward, from which the policy learns."""
    sign, value = now.spec.reward.sign, counted_value(now.spec.reward, sql)
    costs = " ".join(
        f"WHEN {place} THEN {sql.number(sign * float(now.charges[number]))}"
        for place, number in enumerate(now.active)
    )
    return f"{sql.number(sign)} * ({value} - CASE chosen {costs} END)"


# ----------------------------------------------------------------------
# The result of a statement of sums: checked, and turned into evidence.


#: A row of the result: texts and integers; None for a sum over no rows.
Row = dict[str, Any]
#: The text columns; all others are integers.
TEXTS = ("action", "statement")
RESULT_COUNTS = (
    "part", "seen", "units", "distinct_units", "earlier", "altered", "told", "absent",
    "conflicting", "outside", "randomised",
)  # fmt: skip
#: A sum as text: products over `MOST_UNITS` units have no more digits than this.
WHOLE = re.compile("-?[0-9]{1,29}")
#: Sums of probabilities, of rewards, and of products.
SUMMED = re.compile("e[0-9]+|[ez][0-9]+_[0-9]+|rewards")
COUNT = re.compile(r"(-?[0-9]{1,15})(?:\.0*)?")


def names_of(now: Situation) -> list[str]:
    """Return the columns that a result must have."""
    K, wide = len(now.active), now.encoder().dim + 1
    return [
        "action", *RESULT_COUNTS, *MARKS,
        *(f"e{a}" for a in range(K)), *(f"e{a}_{b}" for a in range(K) for b in range(a, K)),
        "rewards", *(f"z{i}_{j}" for i in range(wide) for j in range(i, wide)), "statement",
    ]  # fmt: skip


def read_rows(source: Source, now: Situation, state: Any, fingerprint: str) -> list[Row]:
    """Return the rows of a result as stored; refuse a file that is not the statement's result."""
    wanted, found = names_of(now), source.columns()
    spelled = {name.lower(): name for name in found}
    if missing := [name for name in wanted if name not in spelled]:
        said = "is missing; give the whole result of the statement"
        gone = [RowProblem(0, name, said, "no-such-column") for name in missing]
        raise InvalidFileError(source.name, gone)
    columns = [spelled[name] for name in wanted]
    rows: list[Row] = []
    for batch in source.batches(columns):
        for row in range(batch.num_rows):
            cells = (python_value(batch.column(column)[row]) for column in columns)
            pairs = zip(wanted, cells, strict=True)
            rows.append({name: _cell(name, value) for name, value in pairs})
    parts = len(GroupSums(now, state).groups)
    if problems := list(_problems(rows, now, fingerprint, parts=parts)):
        raise InvalidFileError(source.name, problems, "nothing was recorded")
    return rows


def _cell(name: str, value: Any) -> Any:
    """Return a cell as stored: integers as text, because JSON readers may round them."""
    text = "" if value is None else str(value).strip()
    if name in RESULT_COUNTS:
        # Some programs write whole numbers as 100.0.
        found = COUNT.fullmatch(text)
        return int(found[1]) if found else text
    return text


def _problems(
    rows: Sequence[Row], now: Situation, fingerprint: str, *, parts: int
) -> Iterator[RowProblem]:
    """Yield the problems of a result's rows; one of the whole table only once."""
    names = {now.actions[number].name for number in now.active}
    keys = [(row["action"], row["part"], row["seen"]) for row in rows]
    if not rows:
        said = "the result has no rows: the table of assignments has no unit of this wave"
        yield RowProblem(0, "", said, "no-rows")
    matched = sum(_counted_in(row, "units") - _counted_in(row, "absent") for row in rows)
    for place, row in enumerate(rows, start=1):
        if row["statement"] != fingerprint:
            said = "is not the fingerprint of this statement"
            yield RowProblem(place, "statement", said, "wrong-statement")
        elif not row["action"]:
            said = (
                f"{row['units']} units have no action, or the table of assignments was changed and "
                "the campaign would now refuse them"
            )
            yield RowProblem(place, "action", said, "no-action")
        elif row["action"] not in names:
            said = f"must be one of {', '.join(names)}; received {row['action']!r}"
            yield RowProblem(place, "action", said, "unknown-action")
        elif keys.count(keys[place - 1]) > 1:
            said = "has two rows with the same part and seen"
            yield RowProblem(place, "action", said, "repeated")
        elif bad := [name for name in row if name not in TEXTS and not _whole(name, row)]:
            said = f"must be a whole number; received {row[bad[0]]!r}"
            yield RowProblem(place, bad[0], said, "not-a-number")
        elif impossible := _impossible(row, parts=parts, actions=len(now.active)):
            yield RowProblem(place, *impossible, "impossible")
        elif row["units"] != row["distinct_units"]:
            said = f"{row['units']} units have {row['distinct_units']} different ids"
            said = f"{said}: a unit is in the table more than once"
            yield RowProblem(place, "distinct_units", said, "repeated-units")
        elif row["altered"]:
            said = (
                "the table of assignments does not hold the earlier waves as they were recorded: "
                "use the campaign's own table, unchanged"
            )
            yield RowProblem(place, "altered", said, "altered")
            return
        elif row["earlier"]:
            said = f"{row['earlier']} units of the wave were in an earlier wave"
            yield RowProblem(place, "earlier", said, "earlier-units")
            return
        elif row["told"] and not matched:
            said = (
                f"{row['told']} units have outcomes, but none of them is of this wave: write their "
                "ids as the table of assignments does, or use the table with this wave's outcomes"
            )
            yield RowProblem(place, "told", said, "no-unit-matches")
            return
        elif row["conflicting"] or row["outside"]:
            said = (
                f"{row['conflicting']} units have several different outcomes, and "
                f"{row['outside']} an outcome outside the declared range; correct them before "
                "you compute the sums"
            )
            yield RowProblem(place, "conflicting", said, "conflicting")


def _counted_in(row: Row, name: str) -> int:
    """Return a count, or 0 if it is no number."""
    return row[name] if isinstance(row[name], int) else 0


def _impossible(row: Row, *, parts: int, actions: int) -> tuple[str, str] | None:
    """Return the column and the problem of a number that no statement returns; None if none is."""
    units, chances = row["units"], sum(int(row[f"e{a}"]) for a in range(actions))
    bounds = {
        "part": (-1, parts - 1), "seen": (0, 1), "units": (0, MOST_UNITS),
        **dict.fromkeys(RESULT_COUNTS[3:], (0, units)), "earlier": (0, MOST_UNITS),
        "altered": (0, 1), "told": (0, MOST_UNITS),
    }  # fmt: skip
    for name, (low, high) in bounds.items():
        if not low <= row[name] <= high:
            return name, f"must be between {low:,} and {high:,}; received {row[name]:,}"
    for name in MARKS + tuple(name for name in row if SUMMED.fullmatch(name)):
        if abs(int(row[name] or 0)) > units << bits_of(name):
            return name, f"is too large for {units:,} units; received {row[name]}"
    # Every probability was rounded to a multiple of 2^-CHANCES.
    if abs(chances - (units << CHANCES)) > units * actions:
        expected = float(np.ldexp(float(chances), -CHANCES))
        return "e0", f"the probabilities of {units:,} units must sum to it; received {expected:g}"
    return None


def bits_of(name: str) -> int:
    """Return the bits of the largest number that one unit adds to a sum."""
    if name in MARKS:
        return 32
    return (CHANCES if name.startswith("e") else BITS) * (2 if "_" in name else 1)


def _whole(name: str, row: Row) -> bool:
    value = row[name]
    if name in RESULT_COUNTS:
        return isinstance(value, int)
    # Where no outcome is known, there is no reward to sum.
    nothing = not row["seen"] and (name == "rewards" or name.startswith("z")) and value == ""
    return nothing or WHOLE.fullmatch(value) is not None


def wave_counts(rows: Sequence[Row], now: Situation) -> Counts:
    """Return the counts in a result's rows."""
    places = {now.actions[number].name: place for place, number in enumerate(now.active)}
    sign, power = now.spec.reward.sign, scale_of(now).reward
    counts = Counts.zero(now)
    for row in rows:
        place = places[row["action"]]
        number = now.active[place]
        _allocate(counts.seen if row["seen"] else counts.missing, now.active, place, row)
        counts.randomised[number] += row["randomised"]
        if row["seen"]:
            counts.absent[number] += row["absent"]
            counts.rewards[number] += sign * np.ldexp(float(int(row["rewards"])), -power)
    return counts


def learned_sums(rows: Sequence[Row], now: Situation, then: Situation, state: Any) -> GroupSums:
    """Return the sums of products of each part of the evidence, from a result's rows.

    Parameters
    ----------
    rows
        The rows.
    now
        The situation that learns; its active actions are those of the sums.
    then
        The situation when the wave was open, in which its numbers were rounded.
    state
        The policy's state before the wave.
    """
    places = {now.actions[number].name: place for place, number in enumerate(now.active)}
    made, policy = GroupSums(then, state), now.made_policy()
    groups = made.groups
    for row in rows:
        part, place = row["part"], places.get(row["action"])
        # After an amendment, actions may be retired, and parts of the evidence may be fewer.
        if place is None or not row["seen"]:
            continue
        if policy.still_used(state, np.array([part]))[0]:
            groups[part] = _with(groups[part], place, row)
    made.groups = groups
    return made


def _allocate(allocation: Allocation, active: tuple[int, ...], place: int, row: Row) -> None:
    """Add a row's units to the counts."""
    size, every = len(allocation.counts), range(len(active))
    counts, expected = np.zeros(size, dtype=np.int64), np.zeros(size)
    products = np.zeros((size, size))
    counts[active[place]] = row["units"]
    for a in every:
        expected[active[a]] = _chance(row[f"e{a}"], 1)
        for b in every:
            chance = _chance(row[f"e{min(a, b)}_{max(a, b)}"], 2)
            products[active[a], active[b]] = chance
    allocation.add_sums(counts, expected, products)


def _chance(text: str, factors: int) -> float:
    """Return a sum of products of probabilities, converted back from integers."""
    return float(np.ldexp(float(int(text)), -CHANCES * factors))


def _with(sums: ExactSums, cell: int, row: Row) -> ExactSums:
    products, count = np.zeros_like(sums.products), np.zeros_like(sums.count)
    for i in range(products.shape[1]):
        for j in range(products.shape[1]):
            products[cell, i, j] = int(row[f"z{min(i, j)}_{max(i, j)}"])
    count[cell] = row["units"]
    return sums.merged(ExactSums.of(sums.scale, products, count))
