"""What a verification asks of looks: the same numbers again, from the stored rows."""

from math import isclose
from typing import Any

from seqbatch.campaign.deciding.logged import logged
from seqbatch.campaign.deciding.stopping import look
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event, Reader

#: Numbers that differ by less were rounded otherwise.
ROUNDING = 1e-9


def wrong_look(reader: Reader, now: Situation, before: list[Event], event: Event) -> str | None:
    """Say what is wrong with the look that a closing stored, None where nothing is.

    Parameters
    ----------
    reader
        Where the rows are.
    now
        Where the campaign stood when the wave was closed, what it taught included.
    before, event
        All events before, and that of closing.
    """
    stored = event.payload.get("stopping")
    if stored is None and now.spec.stopping.rule == "none":
        return None
    again = look(logged(reader, now, closing=True), before)
    plain = None if again is None else again.plain()
    return None if alike(stored, plain) else f"the rows give {plain}, not {stored}"


def alike(one: Any, other: Any) -> bool:
    """Say whether plain values are the same, numbers but for rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(one == other)
