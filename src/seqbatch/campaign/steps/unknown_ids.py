"""Detect unknown ids that are changed known ids: lost zeros, added spaces, other case.

Spreadsheets drop leading zeros, data frames turn 121 into 121.0, and fixed-width exports add
spaces. The rows stay held; the user gets a message about the likely cause, and can ask to match
the ids.
"""

from collections import Counter

import numpy as np
import pyarrow as pa

from seqbatch.campaign.files.column_values import told_apart
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.store import Change
from seqbatch.core.arrays import Integers
from seqbatch.errors import Doubt, Remedy

#: How many unknown ids to examine, and how many lengths of ids to try.
LOOKED_AT, LENGTHS = 5_000, 8
#: Fewer ids than this are no evidence, unless they are most of an outcome file.
FEWEST = 20
#: How many new ids of a list of units to examine, and the share of matches that is reported.
SAMPLE, TOLD = 500, 0.01


class UnknownIds:
    """Collects the first unknown ids of a file."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        #: The number of rows whose unit is unknown.
        self.rows = 0

    def add(self, units: pa.Array) -> None:
        """Add the ids of rows that were held because their unit is unknown."""
        self.rows += len(units)
        room = max(LOOKED_AT - len(self._ids), 0)
        self._ids.update(dict.fromkeys(unit for unit in units[:room].to_pylist() if unit))

    def doubts(self, change: Change, rows: int) -> tuple[Doubt, ...]:
        """Return doubts about how the ids were changed; none if few rows are held."""
        ids = list(self._ids)
        if not ids or (self.rows <= rows / 2 and len(ids) < FEWEST):
            return ()
        found = _meant(change, ids, _lengths(change))
        if len(found) <= len(ids) / 2:
            return ()
        one, (meant, *_) = next(iter(found.items()))
        said = (
            f"{len(found):,} of {len(ids):,} unknown ids match units when leading zeros, spaces "
            f"around them, case and a final .0 are ignored ({told_apart(one)} may be "
            f"{told_apart(meant)}): the ids seem to have been changed. To record their rows for "
            "these units, match the ids"
        )
        parts = (said, Remedy("record", match_ids=True))
        return (Doubt("changed-ids", parts, rows=len(found), examples=(one, meant)),)


class MatchedIds:
    """Replaces unknown ids of a file by the ids of the units that they match.

    An id that matches several units stays unknown.

    Parameters
    ----------
    change
        The transaction.
    """

    def __init__(self, change: Change) -> None:
        self._change = change
        self._lengths: list[int] | None = None
        #: The number of rows whose id was replaced.
        self.rows = 0

    def matched(self, units: pa.Array, numbers: Integers) -> tuple[pa.Array, Integers]:
        """Return ids and the numbers of their units; a negative number marks an unknown id."""
        rows = np.flatnonzero(numbers < 0)
        ids = [unit for unit in units.take(rows).unique().to_pylist() if unit]
        if not ids:
            return units, numbers
        if self._lengths is None:
            self._lengths = _lengths(self._change)
        found = _meant(self._change, ids, self._lengths)
        clear = {one: meant[0] for one, meant in found.items() if len(meant) == 1}
        texts = units.to_pylist()
        changed = [row for row in rows.tolist() if texts[row] in clear]
        for row in changed:
            texts[row] = clear[texts[row]]
        self.rows += len(changed)
        units = pa.array(texts, type=units.type)
        return units, self._change.numbers(units)


class NewIds:
    """Collects the first new ids of a file of units, to compare them with earlier files."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def add(self, units: pa.Array) -> None:
        """Add ids of new units."""
        self._ids += units[: max(SAMPLE - len(self._ids), 0)].to_pylist()

    def doubts(self, change: Change, *, before: int) -> tuple[Doubt, ...]:
        """Return doubts about ids that may be changed ids of units numbered below `before`."""
        if not before or len(self._ids) < FEWEST:
            return ()
        found = _meant(change, self._ids, _lengths(change), before=before)
        if len(found) < TOLD * len(self._ids):
            return ()
        one, (meant, *_) = next(iter(found.items()))
        said = (
            f"{len(found):,} of the first {len(self._ids):,} new ids match units that were "
            "already assigned when leading zeros, spaces around them, case and a final .0 are "
            f"ignored ({told_apart(one)} may be {told_apart(meant)}); each of them counts as a "
            "new unit"
        )
        return (Doubt("known-ids", (said,), rows=len(found), examples=(one, meant)),)


def _meant(
    change: Change, ids: list[str], lengths: list[int], *, before: int | None = None
) -> dict[str, list[str]]:
    """Return ids that may be changed ids of known units (numbered below `before`), with these."""
    tried = [(each, form) for each in ids for form in forms(each, lengths)]
    numbers = change.numbers([form for _, form in tried])
    found: dict[str, list[str]] = {}
    for (each, form), number in zip(tried, numbers.tolist(), strict=True):
        if number >= 0 and (before is None or number < before):
            found.setdefault(each, []).append(form)
    return found


def forms(given: str, lengths: list[int]) -> list[str]:
    """Return the possible original forms of an id that a program changed.

    >>> forms(" 7.0", [3])
    ['7', '007', '7  ', '  7']
    """
    bare = given.strip().removesuffix(".0")
    fewer = bare.lstrip("0")
    spelled = [bare, fewer, bare.upper(), bare.lower()]
    spelled += [fewer.zfill(length) for length in lengths]
    # The units' own ids may have the spaces, if their list was a fixed-width export.
    for fill in (str.ljust, str.rjust):
        spelled += [fill(bare, length) for length in lengths]
    return [form for form in dict.fromkeys(spelled) if form and form != given]


def _lengths(change: Change) -> list[int]:
    """Return the most frequent lengths of ids among the first units."""
    first = [extent.chunk for extent in change.extents()[:1]]
    lengths: Counter[int] = Counter()
    for chunk in change.unit_chunks(given=True, chunks=first):
        lengths.update(map(len, unpack(chunk.given).column(0).to_pylist()))
    return [length for length, _ in lengths.most_common(LENGTHS)]
