"""Refusals in tests: pinned by their code and field, not by their words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from seqbatch.errors import InvalidFileError, SeqbatchError


@contextmanager
def refused(
    code: str,
    *,
    field: str | None = None,
    received: object = ...,
    row: int | None = None,
    column: str | None = None,
    problem: str | None = None,
    match: str | None = None,
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect a refusal with a code.

    Parameters
    ----------
    code, field
        The kind of refusal, and the field that it is about.
    received
        The value that an argument's refusal names, or its text.
    row, column, problem
        The row, the column and the code of one problem of a file.
    match
        A part of its text, where a number or a name in it is of interest.
    """
    with pytest.raises(SeqbatchError, match=match) as caught:
        yield caught
    error = caught.value
    assert error.code == code
    assert field is None or error.field == field
    assert received is ... or str(error.refusal.received) == str(received)
    if (row, column, problem) != (None, None, None):
        found = places(error)
        assert any(_fits(place, (row, column, problem)) for place in found), found


def places(error: BaseException) -> list[tuple[int, str, str]]:
    """Return the row, the column and the code of each problem of a file."""
    assert isinstance(error, InvalidFileError)
    return [(each.row, each.column, each.code) for each in error.problems]


def _fits(place: tuple[object, ...], wanted: tuple[object, ...]) -> bool:
    return all(want is None or own == want for own, want in zip(place, wanted, strict=True))
