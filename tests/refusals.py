"""Refusals in tests: pinned by their code and field, not by their words."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from seqbatch.errors import SeqbatchError


@contextmanager
def refused(
    code: str, *, field: str | None = None, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[SeqbatchError]]:
    """Expect a refusal with a code.

    Parameters
    ----------
    code, field
        What kind of refusal it is, and the field that it is about, where that is of interest.
    match
        A part of its text, where a number or a name in it is of interest.
    """
    with pytest.raises(SeqbatchError, match=match) as caught:
        yield caught
    assert caught.value.code == code
    assert field is None or caught.value.field == field
