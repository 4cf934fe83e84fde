"""The recommendation: which action the evidence speaks for, and how far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seqbatch.inference import FewEvents, Guarded, Interval, Verdict

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Answer, Findings


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What the evidence about the best action allows to say.

    Parameters
    ----------
    code
        The verdict; it is the same in every view, and programs should read it.
    action
        The action with the best lift that is still given and breaks no guardrail; None if events
        are too few to judge any, or all break one.
    lift
        Its lift over all units of the campaign, corrected for several actions and looks.
    latest, latest_waves
        Its lift in the latest waves alone, and which waves these are.
    same_p
        The p-value of one lift in all waves.
    by_wave
        Its lift in each wave.
    second, over_second
        The next best of these actions, and the lift of the best over it; None if there is none, or
        if they concern different units.
    few
        The events, if they are too few.
    guardrails
        What is known about the action's guardrails, by metric.
    """

    code: Verdict
    action: str | None = None
    lift: Interval | None = None
    latest: Interval | None = None
    latest_waves: tuple[int, ...] = ()
    same_p: float = 1.0
    by_wave: Mapping[int, Interval] = field(default_factory=dict)
    second: str | None = None
    over_second: Interval | None = None
    few: FewEvents | None = None
    guardrails: Mapping[str, Guarded] = field(default_factory=dict)

    @property
    def gives(self) -> bool:
        """Whether the action may be given to every unit."""
        return self.code in (Verdict.GIVE, Verdict.GIVE_CHANGED)


def best_given(found: "Findings", *, within: bool = False) -> "Answer | None":
    """Return the best lift among the actions that are still given; only these can be recommended.

    With `within`, leave out the actions that break a guardrail.
    """
    return next(iter(ranked(found, within=within)), None)


def ranked(found: "Findings", *, within: bool = False) -> "list[Answer]":
    """Return the lifts of the actions that are still given, the best first; see `best_given`."""
    sign = 1 if found.measure.direction == "max" else -1
    given = _given(found, within=within)
    return sorted(given, key=lambda lift: -sign * lift.interval.estimate)


def candidates(found: "Findings") -> int:
    """Return how many of the actions that can be recommended are better over the campaign."""
    better = found.measure.better
    around = [one.around for one in _given(found, within=True)]
    return sum(better(one.low) and better(one.high) for one in around)


def _given(found: "Findings", *, within: bool) -> "list[Answer]":
    out = {*found.retired, *(found.barred if within else ())}
    return [one for one in found.lifts if one.interval.known and one.action not in out]


#: If a rule gives one action to at least this share of units, it counts as one action for all.
NEARLY_ALL = 0.95


def given_shares(found: "Findings") -> dict[str, float]:
    """Return the share of units per action under the rule to run next, the largest first."""
    shares = {} if found.rule is None else found.rule.shares
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    return {name: round(share, 2) for name, share in ordered if share >= 0.005}


def for_everybody(found: "Findings") -> str | None:
    """Return the action that the rule to run next gives to nearly all units, if there is one."""
    shares = given_shares(found)
    return next((name for name, share in shares.items() if share >= NEARLY_ALL), None)
