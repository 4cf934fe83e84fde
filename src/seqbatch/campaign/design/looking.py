"""What the columns of a file look like: the values there are, how often, and in which rows.

Every row is looked at. A file of a million rows fits into memory because each column is kept as its
distinct values and, for each row, the place of its value among them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.limits import INFERRED
from seqbatch.campaign.tables.reading import Source
from seqbatch.campaign.tables.sizes import text_bytes
from seqbatch.core.arrays import Integers
from seqbatch.errors import InvalidFileError

#: What people and programs write where a value is missing, in lower case, spaces taken away.
MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "#n/a", "?")
#: What is not done with a file that cannot be looked at.
NOTHING = "nothing was made"


@dataclass(frozen=True, eq=False)
class Column:
    """What a column of a file of units looks like.

    Parameters
    ----------
    name
        What it is called.
    kind
        The type of its values; text in every CSV file.
    values
        The distinct ones, without those that mean that a value is missing; text as it stands.
    codes
        The place of each row's value among `values`; -1 where it is missing.
    words
        How often each text occurs that often means that a value is missing, such as NA.
    readable
        Whether values of this type can be looked at; lists and the like cannot.
    """

    name: str
    kind: pa.DataType
    values: pa.Array
    codes: Integers
    words: Mapping[str, int]
    readable: bool = True

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.codes)

    @cached_property
    def counts(self) -> Integers:
        """How many rows have each value."""
        return np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:]

    @property
    def present(self) -> int:
        """How many rows have a value."""
        return int(self.counts.sum())

    @property
    def missing(self) -> int:
        """How many rows have none."""
        return self.rows - self.present

    @property
    def empty(self) -> int:
        """How many rows have none and no word for that, such as NA, which may be an id or level."""
        return self.missing - sum(self.words.values())

    @property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.values)

    @property
    def is_text(self) -> bool:
        """Whether its values are text."""
        return bool(pa.types.is_string(self.values.type))

    @cached_property
    def texts(self) -> pa.Array:
        """The distinct values as text, spaces around them taken away."""
        spelled = self.values.cast(pa.string())
        trimmed = pc.utf8_trim_whitespace(spelled)
        # Where nothing was taken away, one copy is enough.
        return spelled if trimmed.equals(spelled) else trimmed

    @cached_property
    def by_count(self) -> Integers:
        """The places of the values, the most frequent first, equals in their own order."""
        return np.argsort(-self.counts, kind="stable")

    @property
    def example(self) -> str:
        """The most frequent value, as text."""
        return str(self.values[int(self.by_count[0])].as_py())


def columns_of(opened: Source) -> list[Column]:
    """Look at every column of a file; refuse one without rows, or too large to look at."""
    names = opened.columns()
    pieces: list[list[pa.DictionaryArray]] = [[] for _ in names]
    kinds: list[pa.DataType] = []
    held = rows = 0
    for batch in opened.batches(names, longest=None):
        kinds = [column.type for column in batch.columns]
        for column, own in zip(batch.columns, pieces, strict=True):
            own.append(opened.reading(partial(_encoded, column)))
            held += _bytes(own[-1])
        rows += batch.num_rows
        if held > INFERRED:
            opened.refuse(
                f"a spec is inferred from at most {INFERRED:,} bytes of cells; received more; hand "
                "over fewer rows or columns"
            )
    if not rows:
        raise InvalidFileError(opened.name, [(0, "", "the file has no rows")], NOTHING)
    return [_whole(*each) for each in _emptied(names, kinds, pieces)]


def _emptied(
    names: list[str], kinds: list[pa.DataType], pieces: list[list[pa.DictionaryArray]]
) -> Iterator[tuple[str, pa.DataType, list[pa.DictionaryArray]]]:
    """Yield the pieces of each column, and let go of them: the next ones need the room."""
    for place, name in enumerate(names):
        own, pieces[place] = pieces[place], []
        yield name, kinds[place], own


def _encoded(column: Any) -> pa.DictionaryArray:
    """Return a piece of a column as distinct values and places."""
    if not _readable(column.type):
        return pa.nulls(len(column), pa.string()).dictionary_encode()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.dictionary_encode()


def _readable(kind: pa.DataType) -> bool:
    """Say whether values of a type can be looked at."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    known = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_boolean,
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date,
        pa.types.is_timestamp,
    )  # fmt: skip
    return any(is_it(kind) for is_it in known)


def _bytes(piece: pa.DictionaryArray) -> int:
    return int(text_bytes(piece.dictionary).sum()) + 8 * len(piece.dictionary) + 4 * len(piece)


def _whole(name: str, kind: pa.DataType, pieces: list[pa.DictionaryArray]) -> Column:
    """Put the pieces of a column together."""
    every = pa.concat_arrays([piece.dictionary for piece in pieces]).dictionary_encode()
    values = every.dictionary
    places = every.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    kept = ~np.append(_means_missing(values), True)
    # Distinct values are numbered anew, without those that mean that a value is missing.
    anew = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    start, codes, counts = 0, [], np.zeros(len(kept), dtype=np.int64)
    for piece in pieces:
        end = start + len(piece.dictionary)
        table = np.append(places[start:end], np.int32(-1))
        own = table[piece.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        counts += np.bincount(own + 1, minlength=len(kept))
        codes.append(anew[own])
        start = end
    words = {
        str(values[place]): int(counts[place + 1])
        for place in np.flatnonzero(~kept[:-1]).tolist()
        if pa.types.is_string(values.type) and str(values[place]).strip()
    }
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return Column(
        name,
        kind,
        values.filter(pa.array(kept[:-1])),
        np.concatenate(codes),
        words,
        readable=_readable(kind) or pa.types.is_null(kind),
    )


def _means_missing(values: pa.Array) -> Any:
    """Say which distinct values mean that a value is missing."""
    found = values.is_null()
    if pa.types.is_string(values.type):
        plain = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        found = pc.or_(found, pc.is_in(plain, value_set=pa.array(MISSING)))
    elif pa.types.is_floating(values.type):
        found = pc.or_(found, pc.is_nan(values))
    return found.fill_null(True).to_numpy(zero_copy_only=False)
