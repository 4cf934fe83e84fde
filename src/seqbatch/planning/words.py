"""A plan in plain words."""

from itertools import accumulate
from typing import TYPE_CHECKING

from seqbatch import theory

if TYPE_CHECKING:
    from seqbatch.planning.answer import Plan


def describe(plan: "Plan") -> str:
    """Return the plan in plain words, for a person."""
    parts = [_heading(plan), _batches(plan), _cost(plan)]
    if plan.contexts == "stochastic":
        parts += [_policies(plan), _assumptions(plan)]
    return "\n".join(part for part in parts if part)


def _heading(plan: "Plan") -> str:
    batches = "batch" if plan.batches == 1 else "batches"
    after = f" after the {plan.seen:,} seen so far" if plan.seen else ""
    return (
        f"{plan.units:,} units{after}, {plan.model.actions} actions: "
        f"{plan.batches} {batches}, by {type(plan.policy).__name__}."
    )


def _batches(plan: "Plan") -> str:
    sizes = plan.grid.sizes
    width = len(f"{max(sizes):,}")
    lines = []
    for number, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True), start=1):
        known = plan.seen + end - size
        how = f"by what {known:,} outcomes say" if known else "every action as likely"
        lines.append(f"  batch {number}: {size:>{width},} units ({size / plan.units:.1%}), {how}")
    return "\n".join(lines)


def _cost(plan: "Plan") -> str:
    row = plan.row
    if plan.contexts == "adversarial":
        dim = plan.model.dim * (1 if plan.model.layout == "shared" else plan.model.actions)
        enough = theory.adversarial_batches_for_online(units=plan.units, dim=dim)
        return (
            "Contexts may be anything, so that the regret cannot be foretold: with these batches "
            f"no method can promise less than {row.lower_bound:,.0f}, and UCB promises at most "
            f"{row.rate:,.0f} (mean rewards in [-1, 1] times the noise; 2 a unit is the most there "
            f"is to lose). More batches are better up to about {enough:,}, which match fully "
            "online (Corollary 1)."
        )
    text = (
        f"Expected regret {row.regret:,.0f} ± {row.error:,.0f}, {row.of_online:.2f} times that of "
        f"fully online ({plan.online.regret:,.0f}); {row.best_share:.0%} of units get their best "
        "action."
    )
    if plan.seen:
        return text
    text += (
        f" That is {row.earned:.1%} of what a perfect assignment would gain over a random one "
        f"({plan.units * plan.model.effect:,.0f}); fully online earns {plan.online.earned:.1%}. No "
        f"method with these batches can expect a regret below {row.lower_bound:,.0f}."
    )
    near = plan.near_online(0.1)
    most = plan.rows[-1].batches
    return text + (
        f" Regret within 10% of fully online's takes {near} batches."
        if near
        else f" Regret within 10% of fully online's takes more than {most} batches."
    )


def _policies(plan: "Plan") -> str:
    if not plan.candidates:
        return ""
    shown = ", ".join(f"{one.name} {one.regret:,.0f} ± {one.error:,.0f}" for one in plan.candidates)
    return f"Policies simulated on this grid: {shown}."


def _assumptions(plan: "Plan") -> str:
    model = plan.model
    effects = sorted({effect for effect, _ in model.scenarios})
    noises = sorted({noise for _, noise in model.scenarios})
    shape = (
        f"{model.dim - 1} features and a constant for each unit, one model for each action"
        if model.layout == "block"
        else f"a vector of {model.dim} numbers for each action, one model for all"
    )
    text = (
        f"Assumed: {shape}; a perfect assignment gains {_numbers(effects)} a unit over a random "
        f"one; rewards scatter by {_numbers(noises)} around their mean."
    )
    if plan.sample is not None:
        text += "\n" + plan.sample.verdict()
    return text


def _numbers(values: list[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)
