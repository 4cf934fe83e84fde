"""Why no column of a file tells its units apart: what is wrong with those whose names say id."""

import numpy as np

from seqbatch.campaign.design.looking import Column
from seqbatch.campaign.design.misfits import repeated_id, repeats
from seqbatch.campaign.design.names import unlikely_id
from seqbatch.campaign.tables.reading import Problem, Source

#: Columns that are spoken of.
FEW = 3
#: What is said of a first column without a name.
NAMELESS = "the first column has no name, as a frame's index; to use it as the id, name it"
REASON = (
    "no column of text or whole numbers has a different value in every row, nor has an id together "
    "with another column. Add one to tell units apart"
)


def no_ids(opened: Source, columns: list[Column]) -> list[Problem]:
    """Return what is wrong with a file in which nothing tells units apart."""
    found: list[Problem] = [(0, "", REASON)]
    if opened.has_index:
        found.append((0, "", NAMELESS))
    for column in [each for each in columns if unlikely_id(each.name) < 2][:FEW]:
        found.extend(_faults(opened, column))
    return found


def _faults(opened: Source, column: Column) -> list[Problem]:
    """Return the first missing and the first repeated value of a column, and how many there are."""
    faults = []
    gone, again = np.flatnonzero(column.codes < 0).tolist(), repeats(column)
    if gone:
        faults.append((gone[0], f"the id is missing, here first of {len(gone):,} rows"))
    if again:
        reason = repeated_id(opened, column, again[0])
        faults.append((again[0], f"{reason} (the first of {len(again):,} repeated)"))
    rows = np.array([row + 1 for row, _ in faults], dtype=np.int64)
    lines = opened.lines(rows).tolist()
    return [(line, column.name, why) for line, (_, why) in zip(lines, faults, strict=True)]
