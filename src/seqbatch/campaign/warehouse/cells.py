"""A wave summed up by cells, in each of which categories and booleans are the same for all units.

Only what moves within a cell is multiplied for every unit. The rest are a few numbers for each
cell. Whole numbers can be added in any order: the sums are the same.
"""

from collections.abc import Sequence

from seqbatch.campaign.deciding.exact import scale_of
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.warehouse.columns import Item
from seqbatch.campaign.warehouse.deciding import Deciding
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.campaign.warehouse.stages import named


def whole_numbers(now: Situation, sql: Dialect, numbers: Sequence[str | None]) -> list[Item]:
    """Return the model's numbers, and maybe the reward after them, as whole ones: z0 is the first.

    None stands for one that is left out.
    """
    scale, half = scale_of(now), sql.number(0.5)
    pairs = enumerate(zip(numbers, (*scale.columns, scale.reward), strict=False))
    return [
        (sql.floor(f"{text} * {sql.number(2.0**power)} + {half}"), f"z{place}")
        for place, (text, power) in pairs
        if text is not None
    ]


def add_cells(now: Situation, made: Deciding, sql: Dialect, sums: Sequence[Item]) -> list[Item]:
    """Add the stages that sum up by cells; return the same sums, over cells.

    Parameters
    ----------
    now, made, sql
        Where the campaign stands, the stages so far, and the dialect.
    sums
        What is summed up over units, and its names.
    """
    columns = made.columns
    last = len(columns.vector)
    steady = {f"z{place}" for place, name in enumerate(columns.vector) if name in columns.steady}
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
    groups = f"GROUP BY {', '.join([*keys, *columns.keys])}"
    made.stages.add("cells", [*named(*keys, *columns.keys), *cells], after=groups)
    constant = whole_numbers(now, sql, [columns.steady.get(name) for name in columns.vector])
    made.stages.add("marked", [*named(*keys, *(name for _, name in inner)), *constant])
    return outer
