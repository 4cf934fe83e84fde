"""A first declaration to edit: a commented example, or one inferred from a file of units."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.columns import numbers
from seqbatch.campaign.files import Source, source
from seqbatch.errors import InvalidFileError

#: A text column with more levels than this is hashed into `CELLS` cells.
MOST_LEVELS, CELLS = 20, 16

TEMPLATE = """\
# A campaign in waves. Lines that start with # are comments; delete what is not needed.
name = {name}
seed = 1                      # where the random draws start
unit = {unit}                 # the column that tells units apart; ids are text, zeros are kept

actions = ["nothing", "offer A", "offer B"]
control = "nothing"           # optional: the action that the others are compared with

holdout = 0.1                 # this share of units gets a random action, for honest measurement
floor = 0.01                  # the least probability of each action for everybody else
missing = 0.9                 # a wave closes when this share of its outcomes is in
on_unseen_category = "error"  # or "other": a level of its own for what was never seen

[reward]
column = "outcome"            # the column of the outcome file that is learned from
direction = "max"             # or "min"
# range = [0, 1]              # values outside are quarantined

[features]
intercept = true
# interactions = [["age", "region"]]

# Numbers: "learn" scales by the first wave and then never again; "raw" takes them as they are;
# {{mean = 40, sd = 12}} fixes the scaling now.
[features.numeric]
{numeric}
# Categories: the levels there are, or {{hash = 16}} for a column with many.
[features.categorical]
{categorical}
[grid]
sizes = {sizes}        # units in each wave; or calendar = true with waves = 3, units = 10000

# Left out, the recommended policy is used.
# [policy]
# kind = "ThompsonSampling"
"""


def starting_spec(units: Any = None, *, name: str = "my-campaign", kind: str | None = None) -> str:
    """Return a declaration as text, inferred from a file of units where one is given."""
    if units is None:
        return _filled(name, "unit", {"age": '"learn"'}, {"region": '["north", "south"]'}, 10_000)
    with source(units, kind=kind) as opened:
        return _inferred(opened, name)


def _inferred(opened: Source, name: str) -> str:
    columns = opened.columns()
    batches = list(opened.batches(columns))
    count = sum(batch.num_rows for batch in batches)
    if not count:
        raise InvalidFileError(opened.name, [(0, "", "the file has no rows")], "nothing was made")
    table = pa.Table.from_batches(batches)
    unit, numeric, categorical = "", {}, {}
    for column in columns:
        values = table[column].combine_chunks()
        levels = values.unique()
        parsed, wrong = numbers(values)
        if not unit and len(levels) == count:
            unit = column
        elif not wrong and len(np.unique(parsed)) > 2:
            numeric[column] = '"learn"'
        elif not wrong:
            numeric[column] = '"raw"'
        elif len(levels) <= MOST_LEVELS:
            shown = sorted(str(level) for level in levels.to_pylist() if level not in (None, ""))
            categorical[column] = json.dumps(shown, ensure_ascii=False)
        else:
            categorical[column] = f"{{hash = {CELLS}}}"
    if not unit:
        reason = "no column has another value in every row; one must tell units apart"
        raise InvalidFileError(opened.name, [(0, "", reason)], "nothing was made")
    return _filled(name, unit, numeric, categorical, count)


def _filled(
    name: str, unit: str, numeric: dict[str, str], categorical: dict[str, str], count: int
) -> str:
    third = max(count // 3, 1)
    return TEMPLATE.format(
        name=json.dumps(name),
        unit=json.dumps(unit, ensure_ascii=False),
        numeric=_lines(numeric),
        categorical=_lines(categorical),
        sizes=[third, third, max(count - 2 * third, 1)],
    )


def _lines(settings: dict[str, str]) -> str:
    return "".join(
        f"{json.dumps(key, ensure_ascii=False)} = {value}\n" for key, value in settings.items()
    )


def write_spec(path: str | Path, text: str) -> None:
    """Write a declaration where there is none yet."""
    with Path(path).open("x", encoding="utf-8") as file:
        file.write(text)
