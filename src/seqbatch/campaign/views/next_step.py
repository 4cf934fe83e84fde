"""What is to be done next with a campaign."""

import math
from typing import Literal

from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader, Store

Step = Literal["assign", "record", "close", "report"]


def next_step(store: Store, name: str) -> Step:
    """Return which call comes next: assign, record, close, or report where no wave is open."""
    with store.read(name) as reader:
        return _next(reader, current(reader))


def _next(reader: Reader, now: Situation) -> Step:
    if now.condition != "open" or now.stop:
        return "report"
    units = now.units[now.wave - 1]
    # Calendar waves have no size: once there are units, their outcomes are awaited.
    if now.left or not units:
        return "assign"
    needed = math.ceil(now.spec.required_outcomes * units - 1e-9)
    return "close" if _observed(reader, now) >= needed else "record"


def _observed(reader: Reader, now: Situation) -> int:
    """Count the outcomes of the open wave, which all came since the last was closed."""
    since = now.closes[-1] if now.closes else 0
    known = Ledger.of(reader.outcome_chunks(after_event=since)).known()
    return len(known.within(sum(now.units[: now.wave - 1]), now.assigned))
