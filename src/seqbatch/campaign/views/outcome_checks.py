"""What a verification asks of recorded outcomes: the indexes, the sums, and who was absent."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.absence import Absentees
from seqbatch.campaign.deciding.judging import weighted
from seqbatch.campaign.design.spec import Spec
from seqbatch.campaign.record.outcomes import ABSENT, parts_of
from seqbatch.campaign.record.store import Reader


def differences(
    reader: Reader, rows: pa.Table, event: int, spec: Spec | None
) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of every outcome that the index has otherwise.

    Parameters
    ----------
    reader
        Where the index is.
    rows, event
        The rows of a recorded chunk that count, and its event.
    spec
        The campaign's spec; where it cannot be read, the parts of outcomes are not compared.
    """
    parts = 0 if spec is None else len(spec.parts)
    numbers, versions = rows["number"].to_numpy(), rows["version"].to_pylist()
    columns = [rows["value"].to_numpy(), *parts_of(rows, parts).T]
    # Flat tuples of numbers: Python need not look through them again and again.
    indexed = {
        (number, version): (*found, when)
        for number, version, found, when in reader.outcome_versions(np.unique(numbers))
    }
    cells = zip(*(column.tolist() for column in columns), strict=True)
    for number, version, row in zip(numbers.tolist(), versions, cells, strict=True):
        found = indexed.get((number, version))
        # What an absent unit counts as is a number alone.
        expected = (*(row if version else row[:1]), event)
        if found != expected and not (found is not None and _alike(found, expected)):
            said = "nothing" if found is None else f"{_told(found[:-1])} of event {found[-1]}"
            place = f"outcome of unit number {number}, version {version}"
            yield place, f"the index says {said}, the record {_told(expected[:-1])}"


def wrong_sums(rows: pa.Table, spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of every reward that is not the sum of its columns."""
    reward = spec.reward
    if reward.sum is None:
        return
    recorded = rows.filter(pa.array(rows["verdict"].to_numpy() != ABSENT))
    sums = weighted(reward, parts_of(recorded, len(reward.columns)))
    values = recorded["value"].to_numpy()
    for row in np.flatnonzero(sums != values).tolist():
        place = f"outcome of unit number {recorded['number'][row].as_py()}"
        yield place, f"the reward is {values[row]!r}, its columns sum to {sums[row]!r}"


def _alike(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    # NaN, which stands for a metric that is missing, is not equal to itself.
    if len(left) != len(right):
        return False
    return all(a == b or (a != a and b != b) for a, b in zip(left, right, strict=True))


def _told(cells: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, cells))


class StoredAbsences:
    """Who counts as absent by which event, kept as a count and a hash: memory stays flat."""

    def __init__(self) -> None:
        self._hashes: dict[int, Any] = {}
        self._counts: dict[int, int] = {}

    def note(self, event: int, rows: pa.Table) -> None:
        """Take in the absent units of a recorded chunk."""
        absent = rows.filter(pa.array(rows["verdict"].to_numpy() == ABSENT))
        self._add(event, absent["number"].to_numpy(), absent["value"].to_numpy())

    def _add(self, event: int, numbers: Any, values: Any) -> None:
        if len(numbers):
            pairs = np.rec.fromarrays([numbers.astype("<i8"), values.astype("<f8")])
            self._hashes.setdefault(event, blake2b()).update(pairs.tobytes())
            self._counts[event] = self._counts.get(event, 0) + len(numbers)

    def problem(self, event: int, gone: Absentees) -> str | None:
        """Say how those stored with an event differ from those that should be; None if not."""
        expected = StoredAbsences()
        expected._add(event, gone.numbers, np.full(len(gone.numbers), gone.value))
        if expected._digest(event) == self._digest(event):
            return None
        stored = self._counts.get(event, 0)
        return (
            f"the rows make {len(gone.numbers):,} units count as {gone.value:g}, stored are "
            f"{stored:,}, or others"
        )

    def _digest(self, event: int) -> str:
        found = self._hashes.get(event)
        return "" if found is None else str(found.hexdigest())
