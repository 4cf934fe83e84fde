"""What the numbers speak for: which action to give from now on, and whether a finer rule pays."""

from typing import TYPE_CHECKING

from seqbatch.campaign.deciding.stopping import FUTILITY
from seqbatch.campaign.views.measure import percent
from seqbatch.inference import Interval

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Answer, Findings

#: A rule that gives one action to this share of units is that action for everybody.
NEARLY_ALL = 0.95


def clear(interval: Interval) -> bool:
    """Whether an interval lies on one side of 0."""
    return interval.known and (interval.low > 0 or interval.high < 0)


def around(lift: "Answer") -> Interval:
    """Return the interval that is shown first: right together with all others, where there are."""
    together = lift.together
    return together if together is not None and together.known else lift.interval


def says(found: "Findings", interval: Interval) -> str:
    """Return what an interval of a difference says: better, worse or not clear."""
    if not clear(interval):
        return "not clear"
    return "better" if found.measure.better(interval.estimate) else "worse"


def best_given(found: "Findings", *, within: bool = False) -> "Answer | None":
    """Return the best lift among actions that are still given: no other can be recommended.

    With `within`, among those alone that keep within their guardrails.
    """
    sign = 1 if found.measure.direction == "max" else -1
    out = {*found.retired, *(found.barred if within else ())}
    given = [one for one in found.lifts if one.interval.known and one.action not in out]
    return max(given, key=lambda lift: sign * lift.interval.estimate, default=None)


def recommended(found: "Findings", *, ended: bool) -> list[str]:
    """Return which action to give from now on, and whether a finer rule is worth the trouble."""
    best = best_given(found)
    if best is None:
        return []
    sure = says(found, around(best))
    keep = f"Keep {found.control}" if ended else f"So far {found.control} is to be kept"
    if sure == "worse":
        return [f"{keep}: every other action is clearly worse."]
    if sure == "not clear":
        looks = found.stopping.looks
        more = "" if looks and looks[-1].verdict == FUTILITY else " More outcomes would tell more."
        return [
            f"{keep} unless something else speaks for another action: nothing has been shown to be "
            f"better.{more}"
        ]
    if best.action in found.barred:
        return _barred(found, best, keep)
    who = f"every {found.measure.of}{'' if best.among == 1 else ' who may get it'}"
    single = f"Give {best.action} to {who}." if ended else (
        f"So far {best.action} for {who} looks best.")  # fmt: skip
    return [single, *_finer(found)]


def _barred(found: "Findings", best: "Answer", keep: str) -> list[str]:
    """Say what is left where the best action breaks a guardrail."""
    said = [
        f"{best.action} brings most, but violates a guardrail: do not give it to every "
        f"{found.measure.of} before that is settled."
    ]
    other = best_given(found, within=True)
    if other is not None and says(found, around(other)) == "better":
        return [*said, f"Among the actions within their guardrails {other.action} is best."]
    if found.control in found.barred:
        return [*said, f"{found.control} violates one, too."]
    return [*said, f"{keep}: no action within its guardrails has been shown to be better."]


def _finer(found: "Findings") -> list[str]:
    """Say whether giving different units different actions is worth it."""
    shares = given_shares(found)
    if found.rule is None or not found.rule.gain.known or for_everybody(found) is not None:
        return []
    if found.barred & shares.keys():
        return []
    given = ", ".join(f"{name} to {percent(share)}" for name, share in shares.items())
    return [f"Giving each {found.measure.of} what fits best ({given}) {expected(found)}"]


def given_shares(found: "Findings") -> dict[str, float]:
    """Return what the rule to run next gives to how many, the most first, in whole percent."""
    shares = {} if found.rule is None else found.rule.shares
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    return {name: round(share, 2) for name, share in ordered if share >= 0.005}


def for_everybody(found: "Findings") -> str | None:
    """Return the action that the rule to run next gives to nearly everybody, if there is one."""
    shares = given_shares(found)
    return next((name for name, share in shares.items() if share >= NEARLY_ALL), None)


def expected(found: "Findings") -> str:
    """Say what the rule to run next is expected to bring, and whether it beats simpler ones."""
    assert found.rule is not None
    gain, measure = found.rule.gain, found.measure
    lead = (
        f"is expected to bring {measure.amount(gain.estimate, gain.error)} than {found.control} "
        f"for everybody ({measure.between(gain)}, approximate, by the last wave alone)"
    )
    best = best_given(found)
    if best is not None and best.among < 1:
        # It is nobody's choice to give it to everybody.
        return f"{lead}."
    if best is None or says(found, around(best)) != "better":
        return f"{lead}.{'' if clear(gain) else f' {_not_shown(found.control)}'}"
    # The single action is uncertain, too: its interval must be left behind as well.
    one = around(best)
    beaten = gain.low > one.high if measure.direction == "max" else gain.high < one.low
    return f"{lead}: more than {best.action} for everybody." if beaten else (
        f"{lead}. {_not_shown(best.action)}")  # fmt: skip


def _not_shown(action: str) -> str:
    return f"That this beats {action} for everybody has not been shown."
