"""Boosted trees in findings: whether a rule by trees would have done better than the linear one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqbatch.campaign.decide.logged_waves import Logged
from seqbatch.inference import Interval
from seqbatch.inference.boosted_trees import sample, trees_beside

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Findings
    from seqbatch.campaign.views.findings_estimates import Asking


@dataclass(frozen=True, kw_only=True)
class TreesAnswer:
    """What a rule by boosted trees would have brought beside the rule to run next.

    Parameters
    ----------
    gain
        The gain over the linear rule, or why it is unknown.
    units
        The number of units used, of all waves.
    differ
        The share of the last wave's units to which the two rules give different actions.
    """

    gain: Interval
    units: int
    differ: float


def trees_answer(asking: "Asking") -> TreesAnswer:
    """Compare both rules, each fitted to four fifths of the units, on the others."""
    data, last = asking.data, asking.summaries[-1]
    assert isinstance(data, Logged)
    units = sum(one.overall.units for one in asking.summaries)
    made = trees_beside(
        [sample(data.hashed(wave), units) for wave in data.waves],
        last,
        level=asking.level,
        less=asking.less,
        among=data.given,
        design=asking.waves[-1].design,
    )
    about = "gain of a rule by boosted trees over the rule to run next"
    return TreesAnswer(gain=asking.named(made.gain, about), units=made.units, differ=made.differ)


def trees_sentences(found: "Findings") -> list[str]:
    """Say whether trees would have done better; nothing if they were not asked for."""
    if found.trees is None:
        return []
    gain, measure = found.trees.gain, found.measure
    if not gain.known:
        return [f"Whether a rule by trees would have done better is not known. {gain.note}"]
    size = f"{measure.amount(gain.estimate, gain.error)} than the rule to run next"
    if measure.better(gain.low) and measure.better(gain.high):
        return [
            f"A rule by trees would have brought {size} ({measure.between(gain)}): the features "
            "act in steps or together."
        ]
    return [
        "It has not been shown that a rule by trees would have done better: it brought "
        f"{size} ({measure.between(gain)})."
    ]
