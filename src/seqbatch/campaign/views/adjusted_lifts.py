"""Lifts adjusted for the look that ended a campaign, for its findings."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from seqbatch.campaign.decide.logged_waves import shares_of
from seqbatch.campaign.decide.stopping import LookTaken
from seqbatch.campaign.record.current_situation import FUTILITY, HARM, SUCCESS
from seqbatch.inference import EarlierLook, Interval, Lift, adjusted_estimate, pool
from seqbatch.inference.intervals import Estimated

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Answer, Findings, StoppingAnswer
    from seqbatch.campaign.views.findings_estimates import Asking

# ----------------------------------------------------------------------
# The estimates.
#
# Every action is adjusted for its own looks alone, with the boundaries that it had: those of
# several actions share the error. If another action ended the campaign, the look counts as planned.


def adjusted_lifts(
    asking: "Asking", stopping: "StoppingAnswer", lifts: tuple["Answer", ...]
) -> tuple["Answer", ...]:
    """Return lifts with their adjusted estimates, if a look of the rule ended the campaign."""
    end = stopping.end
    if end is None or end.wave != asking.data.waves[-1]:
        return lifts
    return tuple(
        _adjusted(asking, stopping.looks[:-1], end, lift, place)
        for place, lift in enumerate(lifts, start=1)
    )


def _adjusted(
    asking: "Asking",
    earlier: Sequence[LookTaken],
    end: LookTaken,
    lift: "Answer",
    place: int,
) -> "Answer":
    last, whole = end.of_action(lift.action), _pooled(asking, place, end.wave)
    if last is None or last.statistic is None or not isinstance(whole, Estimated):
        return lift
    looks = [_earlier(asking, look, lift, place) for look in earlier]
    before = [look for look in looks if look is not None]
    others = len(asking.names) - 1
    made = adjusted_estimate(
        whole,
        information=last.information,
        before=before,
        tail=(1 - asking.level) / 2 / others,
        level=asking.level,
    )
    about = f"{asking.lift_name(place)}, adjusted for looks"
    return replace(lift, adjusted=asking.named(made, about), earlier_looks=len(before))


def _earlier(asking: "Asking", look: LookTaken, lift: "Answer", place: int) -> EarlierLook | None:
    """Return a look at which an action could have ended the campaign; None if it could not."""
    one, then = look.of_action(lift.action), _pooled(asking, place, look.wave)
    if one is None or one.boundary is None or not isinstance(then, Estimated):
        return None
    # The campaign ends for harm only if all actions are worse than the control.
    better, worse = one.boundary, one.boundary if len(asking.names) == 2 else inf
    low, high = (better, worse) if asking.less else (worse, better)
    return EarlierLook(information=one.information, error=then.error, low=-low, high=high)


def _pooled(asking: "Asking", place: int, wave: int) -> Interval:
    """Return the lift that the look after a wave tested, from the outcomes known today."""
    count = sum(one <= wave for one in asking.data.waves)
    lift, summaries = Lift(place), asking.summaries[:count]
    segment = asking.data.segment(lift)
    shares = shares_of(lift, summaries, asking.waves[:count], segment)
    return pool(summaries, lift, shares, level=asking.level, segment=segment)


# ----------------------------------------------------------------------
# Text.


#: How a plain estimate errs, by the verdict that ended the campaign.
ERRS = {
    SUCCESS: "too favourable on average",
    HARM: "too unfavourable on average",
    FUTILITY: "too unfavourable on average",
}


def adjusted_sentence(found: "Findings", lift: "Answer") -> str:
    """Say how a lift was adjusted, and what it would be otherwise; empty if it was not."""
    end, made, plain = found.stopping.end, lift.adjusted, lift.same
    if end is None or made is None or plain is None or not made.known:
        return ""
    errs = ERRS.get(end.verdict)
    if not lift.earlier_looks:
        often = f", although lifts of campaigns that end there are {errs}" if errs else ""
        return (
            " The campaign ended at its first look: ordered by stages, the estimate stays "
            f"unchanged{often}."
        )
    amount = found.measure.amount(plain.estimate, plain.error)
    return (
        " This lift is adjusted for the looks (median-unbiased, by stage-wise ordering). The plain "
        f"estimate is {amount}{f', which is {errs}' if errs else ''}."
    )
