"""Ids that a file has twice, and those that may be meant for the same unit."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from seqbatch.campaign.design.spellings import told_apart
from seqbatch.campaign.tables.plain_ids import plain_ids, repeated_prints
from seqbatch.campaign.tables.reading import Problem
from seqbatch.core.arrays import AnyArray

#: Pairs of similar ids that are named.
NAMED = 5


class _Ids(Protocol):
    """Ids that can be read in pieces as often as needed."""

    def pieces(self) -> Iterator[tuple[pa.Array, Any]]:
        """Yield ids, and what is kept beside them."""

    def place(self, row: int) -> str:
        """Return where a row is in the file."""


def similar_ids(units: _Ids, alike: list[AnyArray], columns: int) -> tuple[str, ...]:
    """Return a warning where different ids of a file may be meant for the same unit.

    Parameters
    ----------
    units
        The ids.
    alike
        The hashes of their plain forms, piece by piece.
    columns
        How many columns ids are made of.
    """
    every = np.concatenate(alike)
    twins = repeated_prints(every)
    if not len(twins):
        return ()
    suspects = np.isin(every, twins)
    first: dict[str, str] = {}
    pairs, start = [], 0
    for ids, _ in units.pieces():
        rows = np.flatnonzero(suspects[start : start + len(ids)])
        chosen = ids.take(rows)
        forms = plain_ids(chosen, columns).to_pylist()
        for each, plain in zip(chosen.to_pylist(), forms, strict=True):
            if first.setdefault(plain, each) != each:
                pairs.append(f"{told_apart(first[plain])} and {told_apart(each)}")
        start += len(ids)
        if len(pairs) >= NAMED:
            break
    shown = "; ".join(pairs[:NAMED]) + ("; ..." if len(pairs) > NAMED else "")
    return (
        (
            f"some ids differ only by case, spaces around them, leading zeros or Unicode form, and "
            f"count as different units: {shown}",
        )
        if pairs
        else ()
    )


def repeated_ids(units: _Ids, prints: list[AnyArray], unit: str) -> list[Problem]:
    """Return the rows whose id stood in an earlier row, found by hash and then by text.

    Parameters
    ----------
    units
        The ids.
    prints
        Their hashes, piece by piece.
    unit
        What the ids are called.
    """
    every = np.concatenate(prints) if prints else np.zeros(0, dtype=np.uint64)
    twins = repeated_prints(every)
    if not len(twins):
        return []
    suspects = set(np.flatnonzero(np.isin(every, twins)).tolist())
    seen: dict[str, int] = {}
    found, row = [], 0
    for ids, _ in units.pieces():
        for each in ids.to_pylist():
            if row in suspects:
                if each in seen:
                    earlier = units.place(seen[each])
                    found.append((row + 1, unit, f"repeats the id {each!r} of {earlier}"))
                seen.setdefault(each, row + 1)
            row += 1
    return found
