"""What comes next, in words, and the page on which it is done."""

from dataclasses import dataclass

from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.next_step import or_close, step_from
from seqbatch.display import counted


@dataclass(frozen=True)
class Next:
    """What comes next.

    Parameters
    ----------
    words
        What is to be done.
    button, page
        What its button says, and the page of the campaign that it leads to; "" for the first.
    role
        Who may do it.
    """

    words: str
    button: str
    page: str
    role: str = "operator"


def next_of(now: Situation) -> Next:
    """Return what comes next in a situation."""
    if now.stop and now.condition == "open":
        said = f"The rule that was fixed beforehand says: {now.stop}."
        return Next(said, "Read the findings", "findings", "viewer")
    step = step_from(now)
    if step == "assign":
        return Next(_assign(now), "Upload units", "units")
    if step == "record":
        return Next(_record(now), "Upload outcomes", "outcomes")
    if step == "close":
        return Next(_close(now), f"Close wave {now.wave}", "close")
    if step == "report":
        return Next(f"The campaign is {now.condition}.", "Read the report", "report", "viewer")
    return Next(
        "Its rows are kept elsewhere: the statement of seqbatch campaign sql is run there.",
        "See what is on record", "history", "viewer",
    )  # fmt: skip


def _assign(now: Situation) -> str:
    if now.left is None:
        return f"Give the units of wave {now.wave} their actions."
    return f"Give {counted(now.left, 'more unit')} of wave {now.wave} their actions."


def _record(now: Situation) -> str:
    units = now.units[now.wave - 1]
    said = f"Record the outcomes of wave {now.wave}: {now.observed:,} of {units:,} are in"
    if now.absent is None:
        needed = percent(now.spec.required_outcomes)
        return f"{said}, and at least {needed} are needed to close it."
    if closing := or_close(now):
        return f"{said}. {closing}"
    when = f", at the earliest {now.wait} after its assignment" if now.wait else ""
    return f"{said}. At the closing a unit without one counts as {now.absent:g}{when}."


def _close(now: Situation) -> str:
    units = now.units[now.wave - 1]
    return f"Close wave {now.wave}: {now.observed:,} of its {units:,} outcomes are in."
