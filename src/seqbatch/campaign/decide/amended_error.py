"""What an amendment after a look does to the error rate of the stopping rule, and its text."""

from collections.abc import Mapping, Sequence
from typing import Any

from seqbatch.campaign.decide.logged_waves import information, planned
from seqbatch.campaign.decide.stopping import looks_taken
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.display import number
from seqbatch.inference import boundaries, error_of_looks

# With h actions the looks so far tested each of them at alpha/h. With more actions the rest is
# shared anew: an action so far has used U(alpha/h), may still use alpha/(h+1) - U(alpha/(h+1)), and
# the new one alpha/(h+1). All together may therefore err more often than alpha.


def amended_error(
    now: Situation, after: Situation, events: Sequence[Event], payload: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return what happens to the rule's two-sided error; None without a rule or a look.

    Parameters
    ----------
    now, after
        The campaign before and after the amendment.
    events
        All events before it.
    payload
        The amendment.

    Returns
    -------
    dict
        ``declared``; ``used``, the most that the looks so far have used; ``at_most``, the error of
        all looks after the amendment; and ``changed``, which of the sizes and actions change.
    """
    rule = now.spec.stopping
    changed = [what for what in ("sizes", "add", "retire") if what in payload]
    times = _times(now, events)
    if not times or not changed:
        return None

    def used(actions: int) -> float:
        bounds = boundaries(times, rule=rule.rule, alpha=rule.alpha / 2 / actions, ahead=ahead)
        return error_of_looks(times, bound=bounds)

    rest = [time for time in information(planned(now).shares) if time > times[-1]]
    ahead = [[*times[place:], *rest] for place in range(1, len(times) + 1)]
    before, later = len(now.actions) - 1, len(after.actions) - 1
    more = before * (used(before) - used(later)) if later > before else 0.0
    return {
        "declared": rule.alpha,
        "used": before * used(before),
        "at_most": rule.alpha + more,
        "changed": changed,
    }


def _times(now: Situation, events: Sequence[Event]) -> list[float]:
    """Return the information at the looks so far; those of a key holder are taken as planned."""
    if now.looked and now.key:
        plan = information(planned(now).shares)
        return sorted({plan[wave - 1] for wave in now.looked})
    looks = [look.actions for look in looks_taken(events)]
    return sorted({max(one.information for one in actions) for actions in looks if actions})


def amended_error_text(told: Mapping[str, Any]) -> str:
    """Say what an amendment does to the error rate, as a clause.

    >>> told = {"declared": 0.05, "used": 0.031, "at_most": 0.0655, "changed": ["add"]}
    >>> for said in amended_error_text(told).split("; "):
    ...     print(said)
    the looks so far have used at most 3.1% of the error of 5%
    with more actions the error of all looks is at most 6.55%
    """
    said = [
        f"the looks so far have used at most {_percent(told['used'])} of the error of "
        f"{_percent(told['declared'])}"
    ]
    if "sizes" in told["changed"]:
        said.append(
            "the looks to come share the rest, which holds if the new sizes do not follow from "
            "results seen so far"
        )
    if "add" in told["changed"]:
        said.append(
            f"with more actions the error of all looks is at most {_percent(told['at_most'])}"
        )
    if "retire" in told["changed"]:
        said.append("the part of a retired action is not given to the others")
    return "; ".join(said)


def _percent(share: float) -> str:
    return f"{number(100 * share, 3)}%"
