"""The recommendation: which action to give from now on, and whether to choose by features."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seqbatch.campaign.views.metrics import broken_names, guardrails_of
from seqbatch.campaign.views.selected_action import roll_out
from seqbatch.campaign.views.status import wave_list
from seqbatch.display import percent
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
    sign = 1 if found.measure.direction == "max" else -1
    given = _given(found, within=within)
    return max(given, key=lambda lift: sign * lift.interval.estimate, default=None)


def candidates(found: "Findings") -> int:
    """Return how many of the actions that can be recommended are better over the campaign."""
    better = found.measure.better
    around = [one.around for one in _given(found, within=True)]
    return sum(better(one.low) and better(one.high) for one in around)


def _given(found: "Findings", *, within: bool) -> "list[Answer]":
    out = {*found.retired, *(found.barred if within else ())}
    return [one for one in found.lifts if one.interval.known and one.action not in out]


# ----------------------------------------------------------------------
# The recommendation in words.


#: If a rule gives one action to at least this share of units, it counts as one action for all.
NEARLY_ALL = 0.95


def recommended(found: "Findings", *, ended: bool) -> list[str]:
    """Return which action to give from now on, and whether choosing by features is worth it."""
    made = found.recommendation
    if made is None:
        return []
    said = [*_barred(found), _words(found, made, ended=ended), *roll_out(found)]
    return [*said, *_guardrails(found, made), *_finer(found)]


#: Verdicts that speak for an action, or may soon; the others speak for the control.
HOPEFUL = (Verdict.GIVE, Verdict.GIVE_CHANGED, Verdict.UNCONFIRMED, Verdict.BETTER_NOW)


def _guardrails(found: "Findings", made: Recommendation) -> list[str]:
    """Say how the guardrails of the recommended action stand."""
    if made.action is not None and made.code in HOPEFUL:
        return guardrails_of(found, made.action)
    if found.control in found.barred:
        broken = broken_names(found, found.control)
        return [f"The control ({found.control}) breaks the guardrail on {broken}."]
    return guardrails_of(found, found.control)


def _words(found: "Findings", made: Recommendation, *, ended: bool) -> str:
    keep = f"Keep {found.control}" if ended else f"So far, keep {found.control}"
    if found.control in found.barred:
        keep = "No action can be recommended"
    if made.code is Verdict.BARRED:
        return f"{keep}: every other action breaks a guardrail."
    if made.action is None or made.lift is None or made.latest is None:
        return f"{keep}. {made.few}"
    name, who = made.action, _everyone(found, made.action)
    give = f"Give {name} to {who}." if ended else f"So far, give {name} to {who}."
    measure, lift = found.measure, made.lift
    overall, p = _brought(found, lift), f"p = {made.same_p:.1g}"
    in_latest = f"in {wave_list(made.latest_waves)} alone it brought {_brought(found, made.latest)}"
    match made.code:
        case Verdict.GIVE:
            agree = "; the latest waves agree" if len(made.by_wave) > 1 else ""
            return f"{give} Over the campaign it brought {overall}{agree}."
        case Verdict.GIVE_CHANGED:
            return (
                f"{give} Its lift changed between waves ({p}), but it was clearly better in the "
                f"latest, too: {in_latest}."
            )
        case Verdict.CHANGED:
            each = ", ".join(
                measure.number(one.estimate, one.error) for one in made.by_wave.values()
            )
            return (
                f"Do not give {name} to {who} on this evidence: its lift changed between waves "
                f"({p}): {each} {measure.column}. Averaged over all {measure.of}s it brought "
                f"{overall}; {in_latest}. Run another wave before you decide."
            )
        case Verdict.UNCONFIRMED:
            return (
                f"{name} was better over the campaign: it brought {overall}. Nothing shows that "
                f"this changed; but {in_latest}, which does not confirm it. {name} is the best "
                "choice so far; another wave would settle it."
            )
        case Verdict.BETTER_NOW:
            return (
                f"{name} was not clearly better over the whole campaign: it brought {overall}. But "
                f"it is in the latest waves: {in_latest}. Its lift changed ({p}). Run another wave "
                f"to confirm this before you give it to {who}."
            )
        case Verdict.WORSE:
            best = ", the best of the other actions," if len(found.lifts) > 1 else ""
            return f"{keep}: {name}{best} is clearly worse. It brought {overall}."
    return (
        f"{keep}: no action has been shown to be better. The best estimate is {name}, with "
        f"{overall}."
    )


def _brought(found: "Findings", lift: Interval) -> str:
    """Return a lift in words, with its interval."""
    measure = found.measure
    amount = measure.amount(lift.estimate, lift.error)
    return f"{amount} than {found.control} ({measure.between(lift)})"


def _everyone(found: "Findings", action: str) -> str:
    among = next(lift.among for lift in found.lifts if lift.action == action)
    return f"every {found.measure.of}{'' if among == 1 else ' who may get it'}"


def _barred(found: "Findings") -> list[str]:
    """Name the action that brings more than the recommended one, and the guardrail it breaks."""
    best = best_given(found)
    if best is None or best.action not in found.barred:
        return []
    if not found.measure.better(best.interval.estimate):
        return []
    return [
        f"Do not give {best.action} to every {found.measure.of} yet: it has the best estimate, but "
        f"breaks the guardrail on {broken_names(found, best.action)}."
    ]


def _finer(found: "Findings") -> list[str]:
    """Say whether it is worth giving different units different actions."""
    rule = found.rule
    if rule is None or not rule.gain.known or for_everybody(found) is not None:
        return []
    if found.barred & given_shares(found).keys():
        return []
    return [f"To choose by features: {by_features(found)}"]


def given_shares(found: "Findings") -> dict[str, float]:
    """Return the share of units per action under the rule to run next, the largest first."""
    shares = {} if found.rule is None else found.rule.shares
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    return {name: round(share, 2) for name, share in ordered if share >= 0.005}


def for_everybody(found: "Findings") -> str | None:
    """Return the action that the rule to run next gives to nearly all units, if there is one."""
    shares = given_shares(found)
    return next((name for name, share in shares.items() if share >= NEARLY_ALL), None)


def by_features(found: "Findings") -> str:
    """Say what choosing an action by features is expected to bring, and if it is worth it."""
    assert found.rule is not None
    gain, measure = found.rule.gain, found.measure
    given = ", ".join(f"{name} to {percent(share)}" for name, share in given_shares(found).items())
    each = f"each {measure.of} the action predicted to be best ({given})"
    if not measure.better(gain.estimate):
        return (
            f"not worth it. By its own estimate, giving {each} brings no more than "
            f"{found.control} for every {measure.of}."
        )
    best = best_given(found, within=True)
    single = None if best is None or best.among < 1 else best
    if single is not None and _at_least(found, single.interval, gain):
        return (
            f"not worth it. By their own estimates, {single.action} for every {measure.of} brings "
            f"at least as much as giving {each}."
        )
    lead = (
        f"giving {each} is expected to bring {measure.amount(gain.estimate, gain.error)} than "
        f"{found.control} for every {measure.of} ({measure.between(gain)}, approximate, from the "
        "last wave only)"
    )
    made = found.recommendation
    if single is None or made is None or not made.gives:
        sure = gain.low > 0 or gain.high < 0
        return f"{lead}.{'' if sure else f' {_not_shown(found, found.control)}'}"
    # The single action's lift is uncertain as well, so the intervals must not overlap.
    one = single.around
    beaten = gain.low > one.high if measure.direction == "max" else gain.high < one.low
    return f"{lead}: better than {single.action} for every {measure.of}." if beaten else (
        f"{lead}. {_not_shown(found, single.action)}")  # fmt: skip


def _at_least(found: "Findings", single: Interval, gain: Interval) -> bool:
    """Whether one action for every unit is at least as good, by the estimates."""
    return not found.measure.better(gain.estimate - single.estimate)


def _not_shown(found: "Findings", action: str) -> str:
    return f"It has not been shown that this beats {action} for every {found.measure.of}."
