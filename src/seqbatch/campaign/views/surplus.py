"""Rows of the indexes that no record knows: what a verification of the records cannot meet."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import Ledger, counting
from seqbatch.campaign.record.store import Reader
from seqbatch.errors import StoreError

#: Rows of one index that are named one by one.
NAMED = 20


def surplus(reader: Reader, *, units: int, outcomes: int) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of rows that only an index has.

    Parameters
    ----------
    reader
        The campaign.
    units, outcomes
        How many units and outcomes that count its records have. Where an index has no more, every
        one of its rows was compared with a record already, and nothing is read here.
    """
    numbers, values, ids = reader.index_sizes()
    if numbers != units:
        yield from islice(_units(reader, units), NAMED)
    if values != outcomes:
        yield "outcomes", f"{values:,} are indexed, {outcomes:,} were recorded"
        yield from islice(_outcomes(reader), NAMED)
    if ids > outcomes:
        yield "outcome ids", f"{ids:,} are indexed, {outcomes:,} were recorded"
        yield from islice(_ids(reader), NAMED)


def _units(reader: Reader, units: int) -> Iterator[tuple[str, str]]:
    # The whole index first: some databases answer one question at a time.
    for unit, number in list(reader.number_index()):
        if not (0 <= number < units and _assigned(reader, unit, number)):
            yield f"unit {unit!r}", "is in the index but was never assigned"


def _assigned(reader: Reader, unit: str, number: int) -> bool:
    extent = reader.extent_of(number)
    [chunk] = reader.unit_chunks(given=True, chunks=[extent.chunk])
    try:
        given = unpack(chunk.given)
    except StoreError:
        # The chunk is damaged, which was found before.
        return False
    place = number - extent.first
    return place < given.num_rows and bool(given.column(0)[place].as_py() == unit)


def _outcomes(reader: Reader) -> Iterator[tuple[str, str]]:
    recorded = Ledger.of(reader.outcome_chunks())
    versions = int(recorded.versions.max(initial=0)) + 1
    keys = np.sort(recorded.numbers * versions + recorded.versions)
    for number, version, value, event in reader.outcome_index():
        key = number * versions + version
        place = int(np.searchsorted(keys, key))
        if not 0 <= version < versions or place == len(keys) or keys[place] != key:
            problem = f"{value!r} of event {event} is in the index but was never recorded"
            yield f"outcome of unit number {number}, version {version}", problem


def _ids(reader: Reader) -> Iterator[tuple[str, str]]:
    recorded: set[str] = set()
    for chunk in reader.outcome_chunks():
        rows = counting(unpack(chunk.rows))
        if "outcome" in rows.column_names:
            recorded.update(rows["outcome"].to_pylist())
    for text, number in reader.owner_index():
        if text not in recorded:
            problem = f"of unit number {number} is in the index but was never recorded"
            yield f"outcome id {text!r}", problem
