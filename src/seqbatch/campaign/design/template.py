"""A first spec to edit: a commented example, or one inferred from a file of units."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.atomic import atomically
from seqbatch.campaign.design.limits import INFERRED
from seqbatch.campaign.design.spec import RESERVED
from seqbatch.campaign.tables.columns import numbers
from seqbatch.campaign.tables.reading import Source, source
from seqbatch.campaign.tables.sizes import text_bytes
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidFileError
from seqbatch.targets import require_target

#: A text column with more levels than this is hashed into `CELLS` cells.
MOST_LEVELS, CELLS = 20, 16
NOTHING = "nothing was made"
#: Names that columns of ids have.
LIKE_AN_ID = re.compile(
    r"(^|[^a-z])(id|uuid|key)($|[^a-z])|account|client|customer|member|patient|subject|unit|user"
)

TEMPLATE = """\
# A campaign in waves. Lines that start with # are comments; delete what is not needed.
name = {name}
seed = 1                      # where the random draws start
unit = {unit}                 # the column that tells units apart; ids are text, zeros are kept

actions = ["nothing", "offer A", "offer B"]
control = "nothing"           # optional: the action that the others are compared with

randomised = 0.1              # this share of units gets a random action, for honest measurement
floor = 0.01                  # the least probability of each action for everybody else
required_outcomes = 0.9       # a wave closes when this share of its outcomes is in
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


def starting_spec(
    units: Any = None, *, name: str = "my-campaign", file_format: str | None = None
) -> str:
    """Return a spec as text, inferred from a file of units where one is given."""
    if units is None:
        return _filled(name, "unit", {"age": '"learn"'}, {"region": '["north", "south"]'}, 10_000)
    with source(units, file_format=file_format) as opened:
        return _inferred(opened, name)


def _inferred(opened: Source, name: str) -> str:
    columns = opened.columns()
    batches = _held(opened, columns)
    count = sum(batch.num_rows for batch in batches)
    if not count:
        raise InvalidFileError(opened.name, [(0, "", "the file has no rows")], NOTHING)
    table = pa.Table.from_batches(batches)
    seen = opened.reading(
        lambda: [_Column.of(column, table[column].combine_chunks()) for column in columns]
    )
    candidates = [column for column in seen if column.is_unit]
    if not candidates:
        reason = "no column of text or whole numbers has a different value in every row. Add one to"
        raise InvalidFileError(opened.name, [(0, "", f"{reason} tell units apart")], NOTHING)
    unit = min(candidates, key=lambda column: column.unlikely)
    numeric, categorical, notes = {}, {}, ""
    for column in seen:
        if column is unit:
            continue
        after = "  # has missing values" if column.missing else ""
        if column.reason:
            notes += f"# {json.dumps(column.name, ensure_ascii=False)}: {column.reason}\n"
        elif column.numbers is not None:
            word = "learn" if len(np.unique(column.numbers)) > 2 else "raw"
            numeric[column.name] = f'"{word}"{after}'
        else:
            categorical[column.name] = column.levels() + after
    return _filled(name, unit.name, numeric, categorical, count, notes)


def _held(opened: Source, columns: list[str]) -> list[pa.RecordBatch]:
    """Return all rows of a file, if they fit into memory."""
    batches, total = [], 0
    for batch in opened.batches(columns, longest=None):
        spelled = sum(int(text_bytes(column).sum()) for column in batch.columns)
        total += spelled + 8 * batch.num_rows * len(columns)
        if total > INFERRED:
            opened.refuse(
                f"a spec is inferred from at most {INFERRED:,} bytes of cells; received more; hand "
                "over fewer rows or columns"
            )
        batches.append(batch)
    return batches


@dataclass(frozen=True)
class _Column:
    """What a column of a file of units looks like.

    Parameters
    ----------
    name
        What it is called.
    values
        Those that are there.
    missing
        Whether some are not.
    numbers
        The values as numbers, None where they are text.
    reason
        Why it cannot be a feature as it is; empty where it can.
    """

    name: str
    values: Any
    missing: bool
    numbers: Floats | None
    reason: str = ""

    @classmethod
    def of(cls, name: str, values: Any) -> "_Column":
        """Look at a column."""
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        count, kind = len(values), values.type
        values = values.drop_null()
        if pa.types.is_floating(kind):
            values = values.filter(pc.invert(pc.is_nan(values)))
        texty = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if texty or pa.types.is_string_view(kind):
            values, texty = values.cast(pa.string()), True
            values = values.filter(pc.not_equal(pc.utf8_trim_whitespace(values), ""))
        missing = len(values) < count
        if not len(values):
            return cls(name, values, missing, None, "has no values")
        found, wrong = numbers(values)
        if wrong and not texty:
            return cls(name, values, missing, None, f"{wrong[min(wrong)]}; it is left out")
        return cls(name, values, missing, None if wrong else found)

    @property
    def is_unit(self) -> bool:
        """Whether it may tell units apart: every row has another value, no fractions."""
        if self.missing or self.reason or self.name in RESERVED:
            return False
        kind = self.values.type
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
            return False
        whole = self.numbers is None or bool((self.numbers == np.round(self.numbers)).all())
        return whole and len(self.values.unique()) == len(self.values)

    @property
    def unlikely(self) -> int:
        """How unlikely the ids are to be in it: 0 where its name says so, 1 for other text."""
        if LIKE_AN_ID.search(self.name.lower()):
            return 0
        return 1 if self.numbers is None else 2

    def levels(self) -> str:
        """Return the levels that it has, or cells for those of a column with many."""
        levels = sorted(self.values.unique().to_pylist())
        if len(levels) > MOST_LEVELS:
            return f"{{hash = {CELLS}}}"
        return json.dumps(levels, ensure_ascii=False)


def _filled(
    name: str,
    unit: str,
    numeric: dict[str, str],
    categorical: dict[str, str],
    count: int,
    notes: str = "",
) -> str:
    third = max(count // 3, 1)
    return TEMPLATE.format(
        name=json.dumps(name),
        unit=json.dumps(unit, ensure_ascii=False),
        numeric=_lines(numeric),
        categorical=_lines(categorical) + notes,
        sizes=[third, third, max(count - 2 * third, 1)],
    )


def _lines(settings: dict[str, str]) -> str:
    return "".join(
        f"{json.dumps(key, ensure_ascii=False)} = {value}\n" for key, value in settings.items()
    )


def write_spec(
    path: str | Path,
    units: Any = None,
    *,
    name: str = "my-campaign",
    file_format: str | None = None,
    force: bool = False,
) -> None:
    """Write a spec, .toml, as :func:`starting_spec` makes it; over another only by force."""
    given = [units] if isinstance(units, str | Path) else []
    require_target(path, force=force, endings=(".toml",), apart_from={"units": given})
    text = starting_spec(units, name=name, file_format=file_format)
    with atomically(path) as partial:
        partial.write_text(text, encoding="utf-8")
