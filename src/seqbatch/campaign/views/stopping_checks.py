"""What a verification asks of looks: the same numbers again, from the stored rows."""

from math import isclose
from typing import Any

from seqbatch.campaign.deciding.kept_sums import KeptSums
from seqbatch.campaign.deciding.stopping import look
from seqbatch.campaign.record.codec import difference, unpack_kept
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event, Reader, StateRecord

#: Numbers that differ by less were rounded otherwise.
ROUNDING = 1e-9


def wrong_look(
    reader: Reader,
    now: Situation,
    before: list[Event],
    event: Event,
    states: tuple[StateRecord, StateRecord],
) -> str | None:
    """Say what is wrong with the look that a closing stored, None where nothing is.

    It is taken again as it was, from the wave's rows and the sums that the look before it kept. If
    those are right, and these come out the same, so are these: looks are checked in their order.

    Parameters
    ----------
    reader
        Where the rows are.
    now
        Where the campaign stood when the wave was closed, what it taught included.
    before, event
        All events before, and that of closing.
    states
        The state before, and the one that closing stored.
    """
    stored = event.payload.get("stopping")
    again, sums = look(reader, now, before, states[0])
    plain = None if again is None else again.plain()
    if not alike(stored, plain):
        return f"the rows give {plain}, not {stored}"
    if not _same_sums(sums, states[1]):
        return "the rows give other sums than those kept for the next look"
    return None


def _same_sums(sums: KeptSums | None, stored: StateRecord) -> bool:
    """Whether the sums kept beside a state are these, but for rounding."""
    arrays, kept = {} if sums is None else sums.arrays, unpack_kept(stored.content) or {}
    return arrays.keys() == kept.keys() and all(
        difference(arrays[name], kept[name]) <= ROUNDING for name in arrays
    )


def alike(one: Any, other: Any) -> bool:
    """Say whether plain values are the same, numbers but for rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(one == other)
