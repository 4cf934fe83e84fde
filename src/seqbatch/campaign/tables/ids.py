r"""Ids of units: the text of one column, or of several that are joined into one.

What is joined can be parted again, whatever the columns hold: a bar within a column is marked by a
backslash, and so is a backslash.

>>> joined([["7", "a|b"], ["w1", ""]])
['7|w1', 'a\\|b|']
>>> parted(["7|w1", "a\\|b|", ""], 2)
[['7', 'a|b', ''], ['w1', '', '']]
"""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from seqbatch.campaign.tables.columns import texts
from seqbatch.campaign.tables.texts import Texts, as_column, as_list, buffers

BAR = "|"
_PART = re.compile(r"((?:[^\\|]|\\.)*)(?:\||$)", re.DOTALL)


def joined(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return one id for each row: the same only where all columns are the same."""
    if len(columns) == 1:
        return list(columns[0])
    return [BAR.join(map(_marked, parts)) for parts in zip(*columns, strict=True)]


def parted(ids: Sequence[str], columns: int) -> list[list[str]]:
    """Return the columns that ids were joined of."""
    if columns == 1:
        return [list(ids)]
    rows = [_parts(each, columns) for each in ids]
    return [[row[place] for row in rows] for place in range(columns)]


def _marked(text: str) -> str:
    if BAR in text or "\\" in text:
        return text.replace("\\", "\\\\").replace(BAR, "\\" + BAR)
    return text


def _parts(text: str, columns: int) -> list[str]:
    parts = text.split(BAR)
    if "\\" in text:
        parts = [re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in _PART.findall(text)]
    # An id that could not be read is empty.
    return (parts + [""] * columns)[:columns]


def read_ids(batch: Any, columns: Sequence[str]) -> tuple[pa.Array, dict[int, tuple[str, str]]]:
    """Return the ids of a piece of a file, and what is wrong: by row, the column and the reason."""
    read: list[pa.Array] = []
    wrong: dict[int, tuple[str, str]] = {}
    for column in reversed(columns):
        values, reasons = texts(batch.column(column))
        read.insert(0, values)
        wrong |= {row: (column, reason) for row, reason in reasons.items()}
    if len(read) == 1:
        return read[0], wrong
    return pa.array(joined([each.to_pylist() for each in read]), type=pa.string()), wrong


def with_nul(ids: pa.Array) -> list[int]:
    """Return the rows whose text holds a NUL character, which not every database could keep."""
    data, places = buffers(ids)
    if not (data[places[0] : places[-1]] == 0).any():
        return []
    return [row for row, each in enumerate(ids.to_pylist()) if "\0" in each]


def id_columns(ids: Texts, columns: Sequence[str]) -> dict[str, pa.Array]:
    """Return ids as the columns that people know them by."""
    if len(columns) == 1:
        return {columns[0]: as_column(ids)}
    parts = parted(as_list(ids), len(columns))
    return {
        name: pa.array(part, type=pa.string()) for name, part in zip(columns, parts, strict=True)
    }
