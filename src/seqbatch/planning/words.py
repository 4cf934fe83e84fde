"""A plan in plain words."""

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from seqbatch import display, theory
from seqbatch.display import Table
from seqbatch.display import counted as counted

if TYPE_CHECKING:
    from seqbatch.planning.result import Plan, Row


def describe(plan: "Plan") -> str:
    """Return the plan in plain words, for a person."""
    parts = [_heading(plan), _batches(plan), _cost(plan)]
    if plan.contexts == "stochastic":
        parts += [_policies(plan), assumptions(plan)]
    return "\n".join(part for part in parts if part)


def number(value: float) -> str:
    """Return a number as a person would write it: whole where that is enough, else three digits.

    >>> number(12345.6), number(0.01234)
    ('12,346', '0.0123')
    """
    return display.number(value, 3)


def short(plan: "Plan") -> str:
    """Return the plan in one line."""
    sizes = [f"{size:,}" for size in plan.grid.sizes]
    if len(sizes) > 6:
        sizes = [*sizes[:3], "...", *sizes[-2:]]
    row = plan.row
    cost = f"regret {number(row.regret)} ± {number(row.error)} expected"
    if plan.contexts == "adversarial":
        cost = f"regret of at most {number(row.rate)} promised"
    return f"{_heading(plan)[:-1]}; batches of {', '.join(sizes)} units; {cost}"


def tables(plan: "Plan") -> list[Table]:
    """Return what other numbers of batches cost, and what a wrong guess of the effect costs."""
    names = {
        "regret": "regret",
        "error": "±",
        "of_online": "times online",
        "earned": "gain earned",
        "best_share": "best action",
        "lower_bound": "lower bound",
        "rate": "guarantee" if plan.contexts == "adversarial" else "theorem's rate",
        "total_cost": "total cost",
    }
    shown = (*plan.rows, plan.online)
    known = [name for name in names if not all(math.isnan(getattr(row, name)) for row in shown)]
    costs = Table(
        "What other numbers of batches cost (* recommended)",
        ("M", *(names[name] for name in known)),
        [
            (_count(plan, row), *(_cell(name, getattr(row, name)) for name in known))
            for row in shown
        ],
    )
    return [costs, *_wrong_guesses(plan)]


def _count(plan: "Plan", row: "Row") -> str:
    if row.batches is None:
        return "online"
    return f"{row.batches} *" if row.batches == plan.batches else str(row.batches)


def _cell(name: str, value: float) -> str:
    if math.isnan(value):
        return ""
    if name in ("earned", "best_share"):
        return f"{value:.1%}"
    return f"{value:.2f}" if name == "of_online" else number(value)


def _wrong_guesses(plan: "Plan") -> list[Table]:
    if not plan.sensitivity:
        return []
    return [
        Table(
            "If the true effect differs from the assumed one: regret by grid",
            ("true / assumed", "this grid", "paper's grid", "best grid"),
            [
                (f"{one.factor:g}", number(one.regret), number(one.paper), number(one.best))
                for one in plan.sensitivity
            ],
        )
    ]


def _heading(plan: "Plan") -> str:
    after = f" after the {plan.seen:,} seen so far" if plan.seen else ""
    return (
        f"{counted(plan.units, 'unit')}{after}, {plan.model.actions} actions: "
        f"{counted(plan.batches, 'batch')}, with {type(plan.policy).__name__}."
    )


def _batches(plan: "Plan") -> str:
    sizes = plan.grid.sizes
    width = len(f"{max(sizes):,}")
    lines = []
    for place, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True), start=1):
        known = plan.seen + end - size
        how = f"using {counted(known, 'outcome')}" if known else "uniformly at random"
        share = f"({size / plan.units:.1%})"
        lines.append(f"  batch {place}: {size:>{width},} units {share}, {how}")
    return "\n".join(lines)


def _cost(plan: "Plan") -> str:
    return _promise(plan) if plan.contexts == "adversarial" else _expectation(plan)


def _promise(plan: "Plan") -> str:
    row = plan.row
    dim = plan.model.dim * (1 if plan.model.layout == "shared" else plan.model.actions)
    enough = theory.adversarial_batches_for_online(units=plan.units, dim=dim)
    least = (
        ""
        if math.isnan(row.lower_bound)
        else f"no method can guarantee less than {number(row.lower_bound)} with these batches, and "
    )
    return (
        f"With arbitrary contexts the regret cannot be predicted, only bounded: {least}Theorem 1 "
        f"bounds that of UCB by {number(row.rate)} (for mean rewards between -1 and 1 times the "
        "noise, so that a unit loses at most twice the noise; proved for rewards that do not "
        "depend on earlier choices, which SupSBUCB ensures). More batches help up to about "
        f"{enough:,}, which match fully online (Corollary 1)."
    )


def _expectation(plan: "Plan") -> str:
    row, text = plan.row, ""
    for one in plan.candidates:
        if one.policy == plan.policy and one is not plan.candidates[0]:
            text = (
                f"Expected regret {number(one.regret)} ± {number(one.error)} with {one.name}. "
                "What follows, and the table, is for pure exploitation. "
            )
    text += (
        f"Expected regret {number(row.regret)} ± {number(row.error)}, {row.of_online:.2f} times "
        f"that of fully online ({number(plan.online.regret)}); {row.best_share:.0%} of units get "
        f"their best action. This earns {row.earned:.1%} of what a perfect assignment would gain "
        f"over a random one; fully online earns {plan.online.earned:.1%}."
    )
    if row.lower_bound > 0:
        text += (
            f" No method with these batches can expect a regret below {number(row.lower_bound)}."
        )
    near = plan.near_online(0.1)
    most = plan.rows[-1].batches
    takes = counted(near, "batch") if near else f"more than {most} batches"
    return f"{text} Coming within 10% of the fully online regret takes {takes}."


def _policies(plan: "Plan") -> str:
    if not plan.candidates:
        return ""
    shown = ", ".join(f"{one.name} {one.regret:,.0f} ± {one.error:,.0f}" for one in plan.candidates)
    return f"Policies simulated on this grid: {shown}."


def assumptions(plan: "Plan") -> str:
    """Return what was assumed of units and rewards."""
    model = plan.model
    effects = sorted({effect for effect, _ in model.scenarios})
    noises = sorted({noise for _, noise in model.scenarios})
    if plan.contexts == "adversarial":
        return (
            "Assumed: contexts may be anything, in any order; mean rewards lie in [-1, 1] times "
            f"the noise, whose standard deviation is {_numbers(noises[-1:])}."
        )
    shape = (
        f"{model.dim - 1} features and a constant for each unit, one model per action"
        if model.layout == "block"
        else f"a vector of {model.dim} numbers for each action, one model for all"
    )
    text = (
        f"Assumed: {shape}; a perfect assignment gains {_numbers(effects)} per unit over a "
        f"random one; reward noise has standard deviation {_numbers(noises)}."
    )
    if plan.sample is not None:
        text += "\n" + plan.sample.verdict()
    return text


def _numbers(values: list[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)
