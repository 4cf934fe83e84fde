"""A plan in sentences and tables, with its assumptions and settings."""

import math
from typing import TYPE_CHECKING

from seqbatch.display import counted, number, percent_cut
from seqbatch.document import Items, Part, Table
from seqbatch.planning.detection import describe_detection, detection_table
from seqbatch.planning.trials.greedy_runs import ROUNDING

if TYPE_CHECKING:
    from seqbatch.planning.model import Model
    from seqbatch.planning.result import Plan
    from seqbatch.planning.result_rows import Candidate, Row


# ----------------------------------------------------------------------
# Assumptions and settings.


def assumptions(plan: "Plan") -> list[str]:
    """Return the assumptions about units and rewards, and how well a sample supports them."""
    said = [_assumed(plan)]
    if plan.sample is not None and plan.contexts == "stochastic":
        said.append(plan.sample.verdict())
    return said


def _assumed(plan: "Plan") -> str:
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
    return text + _conduct(plan)


def _shape(model: "Model") -> str:
    """Describe a unit's features, and say how many models there are."""
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
    """Say how far the effect may be from the guess, and what that means for grid and regret."""
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
    """Describe random assignment, missing or late outcomes, and restrictions, if there are any."""
    conduct, parts = plan.model.conduct, []
    if conduct.randomised:
        parts.append(f"{percent_cut(conduct.randomised)} of units get a random action")
    if conduct.floor:
        parts.append(f"every action has at least the probability {conduct.floor:g}")
    if conduct.missing:
        parts.append(f"{percent_cut(conduct.missing)} of outcomes never come")
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


def settings(plan: "Plan") -> list[str]:
    """Return every setting, defaults included, that is needed to reproduce the plan."""
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
        f"fully online: {percent_cut(1 - request.within)} of its gain; cost of a batch: {cost}.",
        f"Grid: {request.kind}. Seed: {request.seed}.",
    ]
    if not request.law.stated:
        lines.append("The effect was not stated: a fifth of the noise is the default.")
    if request.law.spread > 1:
        lines.append(f"Spread of the effect around the guess: a factor of {request.law.spread:g}.")
    return lines


def _around(values: list[float]) -> str:
    """Return the median of equally plausible values, and the range of the middle 90%."""
    tenths = sorted(values)
    low, middle, high = (tenths[int(share * len(tenths))] for share in (0.05, 0.5, 0.95))
    return f"{number(middle, 2)} ({number(low, 2)} to {number(high, 2)}, 90%)"


def _numbers(values: list[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)


# ----------------------------------------------------------------------
# The plan in sentences.


def words(plan: "Plan") -> list[Part]:
    """Return the plan in sentences: its batches, the reasons for them, and the assumptions."""
    return [heading(plan), Items(batches(plan)), *reasons(plan), *assumptions(plan)]


def reasons(plan: "Plan") -> list[str]:
    """Return the reasons for this number of batches, its cost, other policies, detectable lifts."""
    said = [plan.reason, _cost(plan)]
    if plan.contexts == "stochastic":
        said += [_policies(plan), _detection(plan)]
    return [each for each in said if each]


def rounded(value: float) -> str:
    """Return a number with three significant digits; larger numbers are rounded to integers.

    >>> rounded(12345.6), rounded(0.01234)
    ('12,346', '0.0123')
    """
    return number(value, 3)


def with_error(value: float, error: float) -> str:
    """Return a number with its standard error, which is left out if it is 0.

    >>> with_error(12.3, 0.456), with_error(30_000.0, 0.0)
    ('12.3 ± 0.456', '30,000')
    """
    return f"{rounded(value)} ± {rounded(error)}" if error else rounded(value)


def short(plan: "Plan") -> str:
    """Return the plan in one line."""
    sizes = [f"{size:,}" for size in plan.grid.sizes]
    if len(sizes) > 6:
        sizes = [*sizes[:3], "...", *sizes[-2:]]
    row = plan.row
    cost = f"regret {with_error(row.regret, row.error)} expected"
    if plan.contexts == "adversarial":
        promised = not math.isnan(row.rate)
        cost = f"regret of at most {rounded(row.rate)} promised" if promised else "nothing promised"
    return f"{title(plan)}; batches of {', '.join(sizes)} units; {cost}"


def tables(plan: "Plan") -> list[Table]:
    """Return tables of the costs of other numbers of batches and wrong guesses, and of looks."""
    looks = [] if plan.detection is None else [detection_table(plan.detection)]
    return [costs_table(plan), *_wrong_guesses(plan), *looks]


def costs_table(plan: "Plan") -> Table:
    """Return a table of the costs of other numbers of batches."""
    names = {
        "regret": "regret",
        "error": "±",
        "median": "median",
        "of_online": "times online",
        "earned": "gain earned",
        "best_share": "best action",
        "lower_bound": "lower bound",
        "rate": "guarantee" if plan.contexts == "adversarial" else "theorem's rate",
        "total_cost": "total cost",
    }
    shown = (*plan.rows, plan.online)
    known = [name for name in names if not all(math.isnan(getattr(row, name)) for row in shown)]
    if plan.contexts == "adversarial" and "rate" not in known:
        known.append("rate")
    return Table(
        f"What other numbers of batches cost (* {chosen(plan)})",
        ("M", *(names[name] for name in known)),
        [
            (_count(plan, row), *(_shown(plan, name, getattr(row, name)) for name in known))
            for row in shown
        ],
    )


def chosen(plan: "Plan") -> str:
    """Return how the plan's number of batches was chosen, in a word or two."""
    if plan.request.batches is not None:
        return "asked for"
    if plan.met is False:
        return "recommended; the rule is not met"
    return "the most here" if _most_here(plan) else "recommended"


def _most_here(plan: "Plan") -> bool:
    return plan.contexts == "adversarial" and plan.batch_cost is None


def _count(plan: "Plan", row: "Row") -> str:
    if row.batches is None:
        return "online"
    return f"{row.batches} *" if row.batches == plan.batches else str(row.batches)


def _shown(plan: "Plan", name: str, value: float) -> str:
    if plan.contexts == "adversarial" and name == "rate" and math.isnan(value):
        return "none"
    return _cell(name, value)


def _cell(name: str, value: float) -> str:
    # An error of 0 is not shown: the value is exact.
    if math.isnan(value) or (name == "error" and not value):
        return ""
    if name in ("earned", "best_share"):
        return f"{value:.1%}"
    return times(value) if name == "of_online" else rounded(value)


def times(value: float) -> str:
    """Return a ratio as text.

    >>> times(1.234), times(4_807_478_533.56)
    ('1.23', '4,807,478,534')
    """
    return f"{value:.2f}" if value < 1_000 else rounded(value)


def _wrong_guesses(plan: "Plan") -> list[Table]:
    if not plan.sensitivity:
        return []
    return [
        Table(
            "If the true effect differs from the guess: regret by grid",
            ("true / guess", "this grid", "paper's grid", "best grid", "this / best"),
            [
                (
                    f"{one.factor:g}",
                    *(rounded(value) for value in (one.regret, one.paper, one.best)),
                    times(one.regret / one.best) if one.best else "",
                )
                for one in plan.sensitivity
            ],
        )
    ]


def heading(plan: "Plan") -> str:
    """Return the plan in one sentence."""
    return f"{title(plan)}."


def title(plan: "Plan") -> str:
    """Return the number of units, actions and batches, and the policy."""
    after = f" after the {plan.seen:,} seen so far" if plan.seen else ""
    return f"{counted(plan.units, 'unit')}{after}, {plan.model.actions} actions: {answer(plan)}"


def answer(plan: "Plan") -> str:
    """Return the number of batches and the policy."""
    return f"{counted(plan.batches, 'batch')}, with {type(plan.policy).__name__}"


def batches(plan: "Plan") -> list[str]:
    """Return a line for each batch: its size, its share of all units, and its assignment."""
    sizes = plan.grid.sizes
    width = len(f"{max(sizes):,}")
    return [
        f"batch {place}: {size:>{width},} units ({size / plan.units:.1%}), {how}"
        for place, (size, how) in enumerate(zip(sizes, assigned_by(plan), strict=True), start=1)
    ]


def assigned_by(plan: "Plan") -> list[str]:
    """Return how each batch is assigned: at random, or based on how many outcomes."""
    conduct = plan.model.conduct
    about = "about " if conduct.missing else ""
    made = []
    for outcomes in conduct.known(plan.grid.sizes):
        known = plan.seen + outcomes
        if not known or conduct.chance == 1:
            made.append("uniformly at random")
            continue
        how = f"using {about}{counted(round(known), 'outcome')}"
        some = f", {percent_cut(conduct.chance)} of it at random" if conduct.chance > 0 else ""
        made.append(how + some)
    return made


def _cost(plan: "Plan") -> str:
    return _promise(plan) if plan.contexts == "adversarial" else _expectation(plan)


def _promise(plan: "Plan") -> str:
    row = plan.row
    text = "With arbitrary contexts the regret cannot be predicted, only bounded: "
    if not math.isnan(row.lower_bound):
        text += (
            f"no method can guarantee less than {rounded(row.lower_bound)} with these batches, and "
        )
    if math.isnan(row.rate):
        return f"{text}{_vacuous(plan)}"
    return (
        f"{text}Theorem 1 bounds that of UCB by {rounded(row.rate)} (for mean rewards between -1 "
        "and 1 times the noise, so that a unit loses at most twice the noise; proved for rewards "
        "that do not depend on earlier choices, which SupSBUCB ensures). More batches help up to "
        f"about {plan.request.promises.enough:,}, which match fully online (Corollary 1)."
    )


def _vacuous(plan: "Plan") -> str:
    """Say that there is no guarantee, and when there would be one."""
    promises = plan.request.promises
    needed = promises.fewest
    when = (
        "not even new estimates after every unit would change that; more units would"
        if needed is None
        else f"it says something from about {counted(needed, 'batch')} on"
    )
    return (
        "Theorem 1 guarantees nothing here: its bound exceeds "
        f"{rounded(promises.most_lost)}, the most that can be lost by any assignment (twice "
        f"the noise a unit), and {when}. Equal batches and UCB are the theorem's advice all the "
        "same; if units come from one population, plan with contexts = stochastic."
    )


def _expectation(plan: "Plan") -> str:
    row, text = plan.row, ""
    for one in plan.candidates:
        if one.policy == plan.policy and one is not plan.candidates[0]:
            text = (
                f"Expected regret {with_error(one.regret, one.error)} with {one.name}. "
                "What follows, and the table, is for pure exploitation. "
            )
    text += (
        f"Expected regret {with_error(row.regret, row.error)}{_median(row)}, "
        f"{times(row.of_online)} times "
        f"that of fully online ({rounded(plan.online.regret)}); {row.best_share:.0%} of units get "
        f"their best action. This earns {row.earned:.1%} of what a perfect assignment would gain "
        f"over a random one; fully online earns {plan.online.earned:.1%}."
    )
    if row.lower_bound > 0 and row.error:
        text += (
            f" No method with these batches can expect a regret below {rounded(row.lower_bound)}."
        )
    elif row.lower_bound > 0:
        text += f" {_why_by_chance(plan)}: every method loses exactly that."
    near = plan.near_online(0.1)
    most = plan.rows[-1].batches
    takes = counted(near, "batch") if near else f"more than {most} batches"
    return f"{text} Coming within 10% of the fully online regret takes {takes}."


def _why_by_chance(plan: "Plan") -> str:
    """Say why every unit's action is drawn at random."""
    if plan.model.conduct.chance == 1:
        return "All units are randomised"
    return "Nothing is known in time to do better"


def _median(row: "Row") -> str:
    """State the median regret if it differs much from the mean."""
    if abs(row.median - row.regret) <= 0.1 * row.regret:
        return ""
    return f" (half of the cases stay below {rounded(row.median)})"


def _policies(plan: "Plan") -> str:
    """Say how much more or less other policies lose, and why one may seem to beat the bound."""
    others = plan.candidates[1:]
    if not others:
        return ""
    if not any(one.excess or one.excess_error for one in others):
        return f"All policies are alike here. {_why_by_chance(plan)}."
    shown = ", ".join(f"{one.name} {_more(one)}" for one in others)
    text = f"Other policies on this grid, in the same trials, lose: {shown}."
    below = [one.name for one in others if one.regret < plan.row.lower_bound]
    if below:
        text += (
            f" That {' and '.join(below)} would come out below the lower bound is the chance of "
            "few trials."
        )
    return text


def _detection(plan: "Plan") -> str:
    if plan.model.conduct.restricted and not plan.seen:
        return (
            "What will be detected is not predicted: the formulas for the standard errors of lifts "
            "take every unit to be eligible for every action, without capacities."
        )
    if plan.detection is None:
        return ""
    request = plan.request
    return describe_detection(plan.detection, asked=request.detect, power=request.power)


def _more(one: "Candidate") -> str:
    # A difference within rounding counts as none.
    if abs(one.excess) <= ROUNDING * one.regret:
        return "as much"
    amount = with_error(abs(one.excess), one.excess_error)
    return f"{amount} {'less' if one.excess < 0 else 'more'}"
