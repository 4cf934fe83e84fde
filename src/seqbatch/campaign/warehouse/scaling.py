"""What is learned about columns from the first wave, in a database: bounds, scales, rare levels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqbatch.campaign.features.categorical import LevelsFeature
from seqbatch.campaign.features.date import DateFeature
from seqbatch.campaign.features.learned_scales import (
    FrozenNumber,
    LearnedFeatures,
    frozen_number,
)
from seqbatch.campaign.features.numeric import NumericFeature
from seqbatch.campaign.files.column_values import python_value
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.features import NumberRules
from seqbatch.campaign.warehouse.assignments import AssignmentsTable
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item, columns_of
from seqbatch.campaign.warehouse.stages import Stages, named
from seqbatch.errors import InvalidFileError, RowProblem

#: What is summed up of a column of numbers: how many there are; its bounds; the two values in the
#: middle and the extremes, clipped; how many are outside the bounds; the mean, and squares around.
OF_NUMBERS = (
    "count", "low", "high", "lower", "upper", "smallest", "largest", "clipped", "mean", "squares",
)  # fmt: skip


def learning(now: Situation) -> dict[int, NumericFeature | DateFeature | LevelsFeature]:
    """Return the columns of which something is learned, by their place among all columns."""
    encoder = now.encoder(wave=1)
    made: dict[int, NumericFeature | DateFeature | LevelsFeature] = {}
    for place, (name, part) in enumerate(encoder.parts.items()):
        if name in encoder.features.learning:
            assert isinstance(part, NumericFeature | DateFeature | LevelsFeature)
            made[place] = part
    return made


def is_unscaled(now: Situation) -> bool:
    """Return whether the columns of the open wave, the first, are still to be learned about."""
    return now.wave == 1 and now.learned is None and bool(learning(now))


# ----------------------------------------------------------------------
# The statement: one row, with some columns for each column that is learned about.


def scaling_body(now: Situation, table: AssignmentsTable) -> tuple[Stages, list[Item]]:
    """Return the stages of the statement, and the items of its one row."""
    sql, columns = table.sql, columns_of(now.encoder(wave=1), table.sql)
    stages = Stages(sql)
    given = [(column, alias) for alias, (column, _) in table.features.items()]
    here = f"WHERE {table.here}"
    stages.add("given", given or [("1", "one")], source=table.table, after=here)
    stages.add("known", [*named(*table.features), *columns.levels])
    items: list[Item] = [("units", "units")]
    counted: list[Item] = [(f"CAST(COUNT(*) AS {sql.whole})", "units")]
    for place, part in learning(now).items():
        if isinstance(part, LevelsFeature):
            names = [f"c{place}_{level}" for level in range(len(part.levels))]
            counted += [
                (f"COALESCE(SUM(CASE WHEN c{place} = {level} THEN 1 ELSE 0 END), 0)", name)
                for level, name in enumerate(names)
            ]
            items += named(*names)
            continue
        value = f"g{place}" if isinstance(part, NumericFeature) else f"c{place}_days"
        _add_numbers(stages, sql, part.rules, value, place)
        items += [(sql.as_text(f"{name}{place}"), f"{name}{place}") for name in OF_NUMBERS]
    stages.add("counted", counted, source="known")
    return stages, items


def joined(now: Situation) -> str:
    """Return the clause that puts the results of all columns into one row."""
    numbers = [at for at, part in learning(now).items() if not isinstance(part, LevelsFeature)]
    return " ".join(f"CROSS JOIN moments{at}" for at in numbers)


def _add_numbers(
    stages: Stages, sql: SqlDialect, rules: NumberRules, value: str, place: int
) -> None:
    """Add the stages of one column of numbers: ranks, bounds, mean, and squares around it."""
    zero, n = sql.number(0.0), "n"
    stages.add(
        f"ranked{place}",
        [(value, "v"), (f"ROW_NUMBER() OVER (ORDER BY {value})", "spot"),
         ("COUNT(*) OVER ()", n)],
        source="known", after=f"WHERE {value} IS NOT NULL",
    )  # fmt: skip

    def at(rank: str) -> str:
        return f"MIN(CASE WHEN spot = {rank} THEN v END)"

    low, high = (sql.number(each) for each in rules.range or (0.0, 0.0))
    if rules.range is None:
        assert rules.quantiles is not None
        below, above = (
            sql.floor(f"{sql.number(share)} * n + {sql.number(1e-9)}")
            for share in (rules.quantiles[0], 1 - rules.quantiles[1])
        )
        first = f"LEAST({below}, n - 1) + 1"
        low, high = at(first), at(f"GREATEST(n - {above}, {first})")
    half = sql.floor("n / 2.0")
    stages.add(f"bounds{place}", [
        (low, "low"), (high, "high"), (at(f"{sql.floor('(n - 1) / 2.0')} + 1"), "lower"),
        (at(f"{half} + 1"), "upper"), ("MIN(v)", "smallest"), ("MAX(v)", "largest"),
    ])  # fmt: skip
    bounds = ("low", "high", "lower", "upper", "smallest", "largest")
    counts = "SUM(CASE WHEN v < low OR v > high THEN 1 ELSE 0 END)"
    stages.add(
        f"means{place}",
        [*((f"MIN({name})", name) for name in bounds), (f"COALESCE({counts}, 0)", "clipped"),
         ("COUNT(v)", "count"), (f"SUM({_clipped('v')}) / NULLIF(COUNT(v), 0)", "mean")],
        source=f"ranked{place} CROSS JOIN bounds{place}",
    )  # fmt: skip
    away = f"({_clipped('v')} - mean)"
    stages.add(
        f"moments{place}",
        [*((f"MIN({name})" if name in ("low", "high", "clipped", "count", "mean")
            else f"MIN({_clipped(name)})", f"{name}{place}") for name in OF_NUMBERS[:-1]),
         (f"COALESCE(SUM({away} * {away}), {zero})", f"squares{place}")],
        source=f"means{place} LEFT JOIN ranked{place} ON 1 = 1",
    )  # fmt: skip


def _clipped(value: str) -> str:
    return f"LEAST(GREATEST({value}, low), high)"


# ----------------------------------------------------------------------
# The result.


def read_scaling(source: Source, now: Situation, mark: str) -> LearnedFeatures:
    """Return what a result says about the columns; refuse a file that is not the result."""
    found = {name.lower(): name for name in source.columns()}
    wanted = ["units", "statement"]
    for place, part in learning(now).items():
        if isinstance(part, LevelsFeature):
            wanted += [f"c{place}_{level}" for level in range(len(part.levels))]
        else:
            wanted += [f"{name}{place}" for name in OF_NUMBERS]
    if missing := [name for name in wanted if name not in found]:
        said = "is missing; give the whole result of the statement"
        raise InvalidFileError(
            source.name, [RowProblem(0, name, said, "no-such-column") for name in missing]
        )
    rows = [
        {name: python_value(batch.column(found[name])[row]) for name in wanted}
        for batch in source.batches([found[name] for name in wanted])
        for row in range(batch.num_rows)
    ]
    if len(rows) != 1 or str(rows[0]["statement"]) != mark or not _number(rows[0]["units"]):
        said = "must be the one row of this statement's result, with its fingerprint"
        raise InvalidFileError(
            source.name,
            [RowProblem(1, "statement", said, "wrong-statement")],
            "nothing was recorded",
        )
    return _learned(now, rows[0])


def _learned(now: Situation, row: Mapping[str, Any]) -> LearnedFeatures:
    units, numbers, rare = _number(row["units"]), dict[str, FrozenNumber](), {}
    for place, part in learning(now).items():
        if isinstance(part, LevelsFeature):
            own = [int(_number(row[f"c{place}_{level}"])) for level in range(len(part.levels))]
            rare[part.name] = part.too_rare(np.array(own))
        else:
            own_row = {name: _number(row[f"{name}{place}"]) for name in OF_NUMBERS}
            numbers[part.name] = _frozen(part.rules, own_row, units)
    return LearnedFeatures(numbers, rare)


def _frozen(rules: NumberRules, found: Mapping[str, float], units: float) -> FrozenNumber:
    count = int(found["count"])
    mean, sd = found["mean"], float(np.sqrt(found["squares"] / max(count, 1)))
    median = found["lower"] / 2 + found["upper"] / 2
    if found["smallest"] == found["largest"]:
        # The mean of equal numbers may differ from them by rounding, which scaling would magnify.
        mean, sd, median = found["smallest"], 0.0, found["smallest"]
    bounds = (found["low"], found["high"]) if count else (None, None)
    return frozen_number(
        rules,
        bounds=rules.range or bounds,
        clipped=0 if rules.range else int(found["clipped"]),
        moments=(mean, sd, median),
        missing=(units - count) / max(units, 1),
    )


def _number(value: Any) -> float:
    text = "" if value is None else str(value).strip()
    return float(text or 0)
