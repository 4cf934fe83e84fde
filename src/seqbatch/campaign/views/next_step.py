"""What is to be done next with a campaign."""

import math
from typing import Literal

from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Store

Step = Literal["assign", "record", "close", "report", "sql", "status"]


def next_step(store: Store, name: str) -> Step:
    """Return which call comes next: assign, record, close, or report where no wave is open.

    Where the rows are kept elsewhere: sql, or status.
    """
    with store.read(name) as reader:
        return step_from(current(reader))


def step_from(now: Situation) -> Step:
    """Return which call comes next in a situation."""
    if now.spec.rows == "elsewhere":
        return "sql" if now.condition == "open" else "status"
    if now.condition != "open" or now.stop:
        return "report"
    units = now.units[now.wave - 1]
    # Calendar waves have no size: once there are units, their outcomes are awaited.
    if now.left or not units:
        return "assign"
    needed = math.ceil(now.spec.required_outcomes * units - 1e-9)
    return "close" if now.observed >= needed else "record"


def or_close(now: Situation) -> str:
    """Say that the wave can be closed although more outcomes are awaited; "" where it cannot.

    It can where absent units count as a number: nobody else knows whether more are to come.
    """
    if now.absent is None or not now.observed or step_from(now) != "record":
        return ""
    when = f", at the earliest {now.wait} after its assignment" if now.wait else ""
    return (
        f"Once no more outcomes are to come, close wave {now.wave}: a unit without one then counts "
        f"as {now.absent:g}{when}."
    )
