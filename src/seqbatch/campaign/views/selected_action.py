"""The selected action in findings: what to expect of the best of several in a roll-out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqbatch.inference import Interval
from seqbatch.inference.multiplicity import control_loadings
from seqbatch.inference.selected_action import selected_action

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Findings
    from seqbatch.campaign.views.findings_estimates import Asking


@dataclass(frozen=True, kw_only=True)
class SelectedAnswer:
    """What to expect of the action with the best lift, if it is given to every unit.

    Parameters
    ----------
    action, competing
        The action, and how many competed.
    raw
        Its lift as estimated, which is too good on average.
    expected
        The lift drawn towards that of all actions, with an interval that covers the lift of
        whichever action is selected.
    common, spread
        The common part of all lifts, and the standard deviation of true lifts around it.
    """

    action: str
    competing: int
    raw: float
    expected: Interval
    common: float
    spread: float


def selected_answer(asking: "Asking", found: "Findings") -> SelectedAnswer | None:
    """Return what to expect of the action that looks best; None if it had no competitor.

    Actions compete if they are still given and break no guardrail. Lifts over different units or
    waves cannot be compared, so all must have been open to every unit in every wave.
    """
    waves = {wave.active for wave in asking.waves}
    if len(waves) > 1 or asking.data.restricted:
        return None
    out = {*found.retired, *found.barred}
    made = selected_action(
        asking.together,
        control_loadings(asking.summaries),
        among=[name not in out for name in asking.names[1:]],
        tail=asking.looks,
        less=asking.less,
    )
    if made is None:
        return None
    place = 1 + made.place
    about = f"{asking.lift_name(place)}, as the best of several"
    return SelectedAnswer(
        action=asking.names[place],
        competing=made.competing,
        raw=asking.scale * made.raw,
        expected=asking.named(made.interval, about),
        common=asking.scale * made.common,
        spread=asking.scale * made.spread,
    )


def selected_sentence(found: "Findings") -> list[str]:
    """Return what to expect of the action that looks best beside its estimate; [] without one."""
    one, best = found.selected, found.best
    if one is not None:
        best = next(lift for lift in found.lifts if lift.action == one.action)
    if best is None or not best.interval.known:
        return []
    adjusted = best.adjusted is not None and best.adjusted.known
    if one is None and not adjusted and len(found.lifts) < 2:
        return []
    measure, raw = found.measure, best.interval
    said = f"{best.action} looks best: {measure.amount(raw.estimate, raw.error)} as estimated."
    if adjusted and best.adjusted is not None:
        expected, why = best.adjusted, "adjusted for the looks"
    elif one is not None:
        expected, why = one.expected, f"as the best of {one.competing}"
    else:
        return [f"{said} In a roll-out expect rather less: not all lifts can be compared."]
    return [
        f"{said} In a roll-out expect, {why}: "
        f"{measure.amount(expected.estimate, expected.error)} ({measure.between(expected)})."
    ]
