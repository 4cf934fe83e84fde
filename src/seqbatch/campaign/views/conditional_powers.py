"""Conditional power in findings: what the looks to come may show, if it is asked for."""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from seqbatch.campaign.decide.stopping import POWER, boundaries_to_come
from seqbatch.display import percent
from seqbatch.document import Table
from seqbatch.inference import conditional_power, detectable_drift

if TYPE_CHECKING:
    from seqbatch.campaign.record.current_situation import Situation
    from seqbatch.campaign.views.findings import Findings, StoppingAnswer


@dataclass(frozen=True, kw_only=True)
class ConditionalPower:
    """The probability that a look to come shows an action to be better than the control.

    Parameters
    ----------
    action, information
        The action, and its information fraction at the last look.
    trend
        If its lift is the one estimated so far.
    planned
        If its lift is the one that the looks were planned to find with a power of 90%.
    none
        If it has no lift.
    """

    action: str
    information: float
    trend: float
    planned: float
    none: float


def conditional_powers(
    now: "Situation", stopping: "StoppingAnswer"
) -> tuple[ConditionalPower, ...]:
    """Return the conditional power of each action not shown to be better yet, after the last look.

    None without a rule or a look, after the last wave, and for actions that were not judged.
    """
    if not stopping.looks or now.wave > len(now.sizes):
        return ()
    found = []
    for one in stopping.looks[-1].actions:
        if one.statistic is None or one.shown is not None:
            continue
        times, bounds, alpha = boundaries_to_come(now, stopping.looks, one.action)
        if not times:
            continue
        drift = detectable_drift([one.information, *times], rule=now.spec.stopping.rule,
                                 alpha=alpha, power=POWER)  # fmt: skip
        trend = one.statistic / sqrt(one.information)
        powers = [
            conditional_power(one.statistic, information=one.information, ahead=times,
                              bounds=bounds, drift=lift)
            for lift in (trend, drift, 0.0)
        ]  # fmt: skip
        found.append(
            ConditionalPower(action=one.action, information=one.information, trend=powers[0],
                             planned=powers[1], none=powers[2])
        )  # fmt: skip
    return tuple(found)


def conditional_table(found: "Findings") -> Table:
    """Return the conditional powers as a table, without rows if they were not asked for."""
    rows = [
        [one.action, percent(round(one.information, 3)),
         *(f"{power:.1%}" for power in (one.trend, one.planned, one.none))]
        for one in found.conditional
    ]  # fmt: skip
    columns = ("action", "information", "if the lift is the estimate",
               f"if it is as planned ({percent(POWER)} power)", "if there is none")  # fmt: skip
    title = f"Conditional power: how likely looks to come show a lift over {found.control}"
    return Table(title, columns, rows, words=("action",))
