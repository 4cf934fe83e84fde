"""Find rows of an outcome file that were recorded before, by their ids or by their content.

A row with a known id and the same content is a duplicate. With another content it is a conflict,
or replaces the old row if it is a correction. Without ids, only the user knows whether a row that
equals another one is a repeat of it: equal rows are kept, dropped, or asked about.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.decide.row_verdicts import (
    COUNTS,
    OTHER,
    SAME,
    Judged,
    clashes,
    first_places,
    merged,
)
from seqbatch.campaign.files.column_values import as_column
from seqbatch.campaign.record.logged_rows import BAR
from seqbatch.campaign.record.store import KnownRows
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers

# ----------------------------------------------------------------------
# The keys of rows.


#: The hash of a row's content is part of the record: this key never changes.
_KEY = np.zeros(2, dtype=np.uint64)
#: The characters of a key made of a content.
_LENGTH = 25


def id_keys(row_id: str, ids: pa.Array) -> pa.Array:
    """Return the keys of rows with ids; ids of different columns never have the same key.

    >>> id_keys("order", pa.array(["7", "8"])).to_pylist()
    ['order|7', 'order|8']
    """
    name = row_id.replace("\\", "\\\\").replace(BAR, f"\\{BAR}")
    return as_column(pc.binary_join_element_wise(name, ids, BAR))


def id_of(key: str) -> str:
    r"""Return the id in a key; "" if the key was made of a content.

    >>> id_of("order|7"), id_of(r"order\|id|7|8"), id_of("|1f")
    ('7', '7|8', '')
    """
    if key.startswith(BAR):
        return ""
    place = key.index(BAR)
    while (len(key[:place]) - len(key[:place].rstrip("\\"))) % 2:
        place = key.index(BAR, place + 1)
    return key[place + 1 :]


def content_keys(numbers: Integers, contents: Floats) -> pa.Array:
    """Return the keys of rows without ids: a bar, and a hash of 96 bits of unit and content."""
    # Floating point has two zeros and many NaNs; normalise them to one of each.
    plain = np.where(np.isnan(contents), np.nan, contents + 0.0).astype("<f8")
    rows = np.column_stack([numbers.astype("<i8").view("<f8"), plain])
    count, width = rows.shape
    hashes = np.empty((count, 2), dtype=np.uint64)
    data = np.frombuffer(rows.tobytes() or b"\0", dtype=np.uint8)
    kernels.texts.hash_texts(data, 8 * width * np.arange(count + 1), _KEY, hashes)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    words = [hashes[:, 0] >> half, hashes[:, 0] & low, hashes[:, 1] >> half]
    digits = np.full((count, _LENGTH), ord(BAR), dtype=np.uint8)
    spelled = np.column_stack(words).astype(">u4").tobytes().hex().encode()
    digits[:, 1:] = np.frombuffer(spelled, dtype=np.uint8).reshape(count, _LENGTH - 1)
    offsets = pa.py_buffer(_LENGTH * np.arange(count + 1, dtype=np.int32))
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(digits.tobytes()))


# ----------------------------------------------------------------------
# Rows with ids.


#: Why a row is held whose id has another content, or belongs to another unit.
TWICE = "is twice in this file with different values"
RECORDED = "is already recorded with other values"
OWNED = "is already recorded for another unit"


def compared_by_id(
    spec: Spec, judged: Judged, contents: Floats, known: KnownRows, *, name: str, event: int,
    correct: bool,
) -> Floats:  # fmt: skip
    """Compare candidate rows that have ids with logged rows, and with earlier rows of the file.

    Return the contents to log: an empty cell keeps what is known of the row.

    Parameters
    ----------
    spec, judged
        The campaign's spec, and the rows.
    contents, known
        The content of each candidate, and the newest logged row with the same id.
    name
        The column of the ids.
    event
        The number of this file's event: a logged row may be an earlier row of this file.
    correct
        Whether a different content replaces the logged one.
    """
    assert judged.ids is not None
    rows, there = judged.candidates, known.versions > 0
    first = first_places(judged.ids.take(rows).dictionary_encode().indices.to_numpy())
    alone = first == np.arange(len(rows))
    owned = there & (known.numbers != judged.numbers[rows])
    clash = clashes(known.contents, contents).any(axis=1)
    new = (np.isnan(known.contents) & ~np.isnan(contents)).any(axis=1)
    here = there & (known.events == event)
    held = owned | (here & (clash | new)) | (there & clash & (not correct))
    found = _Found(
        verdicts=np.where(held, OTHER, np.where(~there | clash | new, COUNTS, SAME)),
        versions=known.versions + 1,
        contents=merged(known.contents, contents),
        whys=[""] * len(rows),
        details=[""] * len(rows),
    )
    for row in np.flatnonzero(held & alone).tolist():
        why = OWNED if owned[row] else TWICE if here[row] else RECORDED
        found.whys[row] = why
        found.details[row] = _details(spec, why, known.contents[row], contents[row])
    _compare_later(spec, judged, contents, known, first, found, here=here, correct=correct)
    for row in np.flatnonzero(found.verdicts == OTHER).tolist():
        why = found.whys[row]
        reason = f"{name} {judged.ids[int(rows[row])].as_py()!r} {why}{found.details[row]}"
        judged.hold(int(rows[row]), OTHER, reason, kind=f"{name} {why}")
    judged.repeated = int(((found.verdicts == SAME) & (~alone | here)).sum())
    judged.verdicts[rows] = found.verdicts
    judged.versions[rows] = np.where(found.verdicts == COUNTS, found.versions, 0)
    return found.contents


@dataclass(frozen=True)
class _Found:
    """The verdicts on candidates, the versions and contents to log, and why rows are held."""

    verdicts: Integers
    versions: Integers
    contents: Floats
    whys: list[str]
    details: list[str]


def _compare_later(
    spec: Spec, judged: Judged, contents: Floats, known: KnownRows, first: Integers, found: _Found,
    *, here: Bools, correct: bool,
) -> None:  # fmt: skip
    """Compare the later rows of an id that is several times in one piece of the file."""
    rows = judged.candidates
    later = np.flatnonzero(first != np.arange(len(rows)))
    places, numbers = first[later], judged.numbers[rows]
    same = equal(contents[later], contents[places]) & (numbers[later] == numbers[places])
    if (same & (found.verdicts[places] != OTHER)).all():
        found.verdicts[later] = SAME
        return
    # What stands of an id so far: its content, unit and version, and whether it is of this file.
    so_far: dict[int, tuple[Floats, int, int, bool]] = {}
    for row, place in zip(later.tolist(), places.tolist(), strict=True):
        if place not in so_far and found.verdicts[place] == COUNTS:
            stood = found.contents[place], int(numbers[place]), int(found.versions[place]), True
        else:
            stood = (known.contents[place], int(known.numbers[place]), int(known.versions[place]),
                     bool(here[place]))  # fmt: skip
        content, number, version, own = so_far.get(place, stood)
        differs = bool(clashes(content, contents[row]).any())
        more = bool((np.isnan(content) & ~np.isnan(contents[row])).any())
        why = _against(numbers[row] != number, differs, more, own=own, correct=correct)
        found.verdicts[row] = OTHER if why else COUNTS if differs or more else SAME
        found.whys[row] = why
        found.details[row] = _details(spec, why, content, contents[row])
        if found.verdicts[row] == COUNTS:
            found.contents[row], found.versions[row] = merged(content, contents[row]), version + 1
            so_far[place] = found.contents[row], int(numbers[row]), version + 1, True


def _against(owned: bool, differs: bool, more: bool, *, own: bool, correct: bool) -> str:
    """Return why a row is held whose id is known; "" if it is not."""
    if owned:
        return OWNED
    if own and (differs or more):
        return TWICE
    return RECORDED if differs and not correct else ""


def _details(spec: Spec, why: str, known: Floats, received: Floats) -> str:
    """Return the details of a row whose id is recorded with other values."""
    return f" ({_difference(spec, known, received)})" if why == RECORDED else ""


def _difference(spec: Spec, known: Floats, received: Floats) -> str:
    """Return the first difference of two contents in words."""
    place = int(np.argmax(clashes(known, received)))
    if place >= len(known) - 2:
        was, got = _date(known), _date(received)
        return f"dated {was}; received {got}"
    name = (spec.reward.label, *spec.parts)[place]
    return f"{name} {known[place]:g}; received {received[place]:g}"


def _date(content: Floats) -> str:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(content[-2]))
    return time.date().isoformat() if content[-1] else time.isoformat()


def equal(one: Floats, other: Floats) -> Bools:
    """Return for each row whether two contents are equal; missing values equal each other."""
    found: Bools = ((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=-1)
    return found


# ----------------------------------------------------------------------
# Rows without ids.


#: What it means if a row without an id equals another one.
EqualRows = Literal["keep", "drop"]


@dataclass(frozen=True)
class Equal:
    """Which rows equal an earlier row of the file, and which one that was recorded before."""

    in_file: Bools
    in_record: Bools


def compared_by_content(
    judged: Judged, keys: pa.Array, known: KnownRows, *, event: int, equal_rows: EqualRows | None
) -> Equal:
    """Compare candidate rows without ids with logged rows, and with earlier rows of the file.

    Parameters
    ----------
    judged
        The rows.
    keys, known
        The key of each candidate, and the newest logged row with the same content.
    event
        The number of this file's event.
    equal_rows
        What equal rows mean: "keep" counts all of them, "drop" only the first.
    """
    rows, there = judged.candidates, known.versions > 0
    codes = keys.dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    # How many equal rows are before each row in this piece.
    rank = np.empty(len(rows), dtype=np.int64)
    starts = np.searchsorted(codes[order], codes[order])
    rank[order] = np.arange(len(rows)) - starts
    found = Equal((rank > 0) | (there & (known.events == event)), there & (known.events < event))
    again = (found.in_file | found.in_record) & (equal_rows != "keep")
    judged.repeated = int((again & found.in_file).sum())
    judged.verdicts[rows] = np.where(again, SAME, COUNTS)
    judged.versions[rows] = np.where(again, 0, known.versions + rank + 1)
    return found
