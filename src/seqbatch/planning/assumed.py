"""What a plan assumed and was asked, in plain words."""

import math
from typing import TYPE_CHECKING

from seqbatch.display import counted, number

if TYPE_CHECKING:
    from seqbatch.planning.model import Model
    from seqbatch.planning.result import Plan


def percent(share: float) -> str:
    """Return a share in percent, cut rather than rounded: 94.96% is not 95%.

    >>> percent(0.95), percent(0.9496), percent(0.9999), percent(-0.2)
    ('95%', '94.9%', '99.9%', '0%')
    """
    tenths = math.floor(round(max(share, 0.0) * 1000, 6))
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10:.1f}%"


def assumptions(plan: "Plan") -> str:
    """Return what was assumed of units and rewards."""
    model = plan.model
    noises = sorted({noise for _, noise in model.scenarios})
    if plan.contexts == "adversarial":
        return (
            "Assumed: contexts may be anything, in any order; mean rewards lie in [-1, 1] times "
            f"the noise, whose standard deviation is {_numbers(noises[-1:])}."
        )
    shape = _shape(model)
    text = (
        f"Assumed: {shape}; a perfect assignment gains {_effects(plan)} per unit over a "
        f"random one; reward noise has standard deviation {_numbers(noises)}."
    )
    if model.past is not None:
        text = (
            f"Assumed: {shape}. Learned from the outcomes so far: a perfect assignment gains "
            f"{_around([effect for effect, _ in model.scenarios])} per unit over a random one, "
            f"in experiments like this one; reward noise has standard deviation "
            f"{_around([noise for _, noise in model.scenarios])}."
        )
    else:
        text += _uncertain(plan)
    text += _conduct(plan)
    if plan.sample is not None:
        text += "\n" + plan.sample.verdict()
    return text


def _shape(model: "Model") -> str:
    """Say what a unit is described by, and how many models there are."""
    if model.layout == "shared":
        return f"a vector of {model.dim} numbers for each action, one model for all"
    if model.dim == 1:
        return "no features, one mean per action"
    features = counted(model.dim - 1, "feature")
    return f"{features} and a constant for each unit, one model per action"


def _effects(plan: "Plan") -> str:
    law = plan.request.law
    around = "about " if law.spread > 1 else ""
    return f"{around}{_numbers(sorted(law.guesses))}"


def _uncertain(plan: "Plan") -> str:
    """Say how the effect may differ from the guess, and what that means for grid and regret."""
    law = plan.request.law
    if law.spread == 1 and len(law.guesses) == 1:
        return ""
    text = ""
    if law.spread > 1:
        low, high = law.guesses[0] / law.spread, law.guesses[0] * law.spread
        whose = "" if law.stated else ", a fifth of the noise as nothing was stated,"
        text = (
            f" That guess{whose} is the middle of a log-normal law: two effects in three lie "
            f"between {low:.3g} and {high:.3g} (effect_spread {law.spread:g}), and their mean is "
            f"{plan.model.effect:.3g}."
        )
    if plan.request.kind == "tuned":
        text += (
            " Of all grids these have the least regret relative to the best grid for each effect, "
            "on average over the effects."
        )
    return f"{text} Expected regret is the mean over the effects."


def _conduct(plan: "Plan") -> str:
    """Say what happens beside the policy's own choices, where anything does."""
    conduct, parts = plan.model.conduct, []
    if conduct.randomised:
        parts.append(f"{percent(conduct.randomised)} of units get a random action")
    if conduct.floor:
        parts.append(f"every action has at least the probability {conduct.floor:g}")
    if conduct.missing:
        parts.append(f"{percent(conduct.missing)} of outcomes never come")
    if conduct.delay:
        parts.append(
            f"outcomes come {counted(conduct.delay, 'batch')} late, so that those of batch 1 are "
            f"first used in batch {2 + conduct.delay}"
        )
    if conduct.eligible:
        parts.append(f"units may get the actions with shares {_listed(conduct.eligible)}")
    if conduct.capacity:
        parts.append(f"each batch has room for shares {_listed(conduct.capacity)} of its units")
    if conduct.restricted:
        gain = plan.request.possible / plan.request.limits.units
        parts.append(
            f"the best possible assignment then gains {number(gain, 3)} per unit over a random "
            "one, and regret is against it"
        )
    return "".join(f"; {part}" for part in parts).replace("; ", " Also: ", 1) + "." * bool(parts)


def _listed(shares: tuple[float, ...]) -> str:
    return ", ".join(f"{share:g}" for share in shares)


def settings(plan: "Plan") -> str:
    """Return what was asked for, defaults among it, so that the plan can be made again."""
    request, limits = plan.request, plan.request.limits
    rules = [f"batches of at least {limits.smallest:,}"]
    rules.append(f"at most {limits.largest:,} units" if limits.largest else "any number of units")
    if limits.first is not None:
        rules.append(f"the first of {limits.first:,}")
    if limits.waves is not None:
        rules = [f"batches end where waves of {', '.join(f'{w:,}' for w in limits.waves)} end"]
    asked = "none asked for" if request.batches is None else f"{request.batches} asked for"
    cost = "none" if request.batch_cost is None else number(request.batch_cost, 3)
    lines = [
        f"Limits: {' and '.join(rules)}.",
        f"Number of batches: {asked}; the table goes to {plan.rows[-1].batches}; close enough to "
        f"fully online: {percent(1 - request.within)} of its gain; cost of a batch: {cost}.",
        f"Grid: {request.kind}. Seed: {request.seed}.",
    ]
    if not request.law.stated:
        lines.append("The effect was not stated: a fifth of the noise is the default.")
    if request.law.spread > 1:
        lines.append(f"Spread of the effect around the guess: a factor of {request.law.spread:g}.")
    return "\n".join(lines)


def _around(values: list[float]) -> str:
    """Return the middle of equally plausible values, and what nine in ten are within."""
    tenths = sorted(values)
    low, middle, high = (tenths[int(share * len(tenths))] for share in (0.05, 0.5, 0.95))
    return f"{number(middle, 2)} ({number(low, 2)} to {number(high, 2)}, 90%)"


def _numbers(values: list[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)
