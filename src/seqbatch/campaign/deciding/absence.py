"""Which units count as absent when a wave is closed: those without an outcome whose time is up.

The same at a close and in a replay: it depends on the recorded rows, and on the times that the
events of assignment and of the closing carry.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from seqbatch.campaign.design.reward import waiting
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader
from seqbatch.core.arrays import Integers


@dataclass(frozen=True)
class Absentees:
    """Units that count as absent from a closing on.

    Parameters
    ----------
    numbers
        The units, in order.
    value
        What they count as.
    waiting
        The assignments, as wave and event, whose units had more time left: they are looked at again
        when the next wave is closed.
    """

    numbers: Integers
    value: float
    waiting: tuple[tuple[int, int], ...]

    def ledger(self, parts: int) -> Ledger:
        """Return them as outcomes, which they are until another is recorded."""
        count = len(self.numbers)
        return Ledger(
            self.numbers,
            np.zeros(count, dtype=np.int64),
            np.full(count, self.value),
            np.full((count, parts), np.nan),
        )


def absentees(
    reader: Reader, now: Situation, recorded: Ledger, *, at: datetime, skip: bool
) -> Absentees:
    """Return who counts as absent when the open wave is closed.

    Parameters
    ----------
    reader
        Where units and outcomes are.
    now
        Where the campaign stood before the closing.
    recorded
        Outcomes of the open wave's units; others may be among them.
    at
        The time of the closing.
    skip
        Whether nothing is learned from the wave; then nobody of it is counted.
    """
    none = np.zeros(0, dtype=np.int64)
    if now.absent is None:
        return Absentees(none, 0.0, ())
    assigned = {wave: _assigned(reader, wave) for wave in {now.wave, *dict(now.waiting)}}
    own = [] if skip else [(now.wave, event) for event in assigned[now.wave]]
    found, left = [none], []
    for wave, event in dict.fromkeys([*now.waiting, *own]):
        if not _due(reader, now, event, at):
            left.append((wave, event))
            continue
        numbers = assigned[wave].get(event, none)
        known = recorded.numbers if wave == now.wave else _recorded(reader, now, numbers)
        found.append(np.setdiff1d(numbers, known))
    return Absentees(np.concatenate(found), now.absent, tuple(left))


def _due(reader: Reader, now: Situation, event: int, at: datetime) -> bool:
    """Say whether the units of an assignment had all the time that was declared."""
    if now.wait is None:
        return True
    wait: timedelta = waiting(now.wait)
    return at - datetime.fromisoformat(reader.event(event).at) >= wait


def _assigned(reader: Reader, wave: int) -> dict[int, Integers]:
    """Return the numbers of a wave's units by the event that assigned them."""
    pieces: dict[int, list[Integers]] = {}
    for extent in reader.extents(wave=wave):
        numbers = np.arange(extent.first, extent.first + extent.count)
        pieces.setdefault(extent.event, []).append(numbers)
    return {event: np.concatenate(found) for event, found in pieces.items()}


def _recorded(reader: Reader, now: Situation, numbers: Integers) -> Integers:
    """Return those of earlier waves' units that have an outcome by now."""
    found = {
        number
        for number, version, _, event in reader.outcome_versions(numbers)
        if version > 0 and event <= now.sequence
    }
    return np.array(sorted(found), dtype=np.int64)
