"""A plan in sentences and tables, with its assumptions and settings."""

import math
from typing import TYPE_CHECKING

from seqbatch.core.history import GUESS
from seqbatch.display import counted, number, percent, percent_cut, plural
from seqbatch.document import Items, Part, Table
from seqbatch.planning.detection import describe_detection, detection_table
from seqbatch.planning.guarantee import choose_guarantee
from seqbatch.planning.number_of_batches import Noun, choose
from seqbatch.planning.trials.greedy_runs import ROUNDING
from seqbatch.policies.history import LEARN

if TYPE_CHECKING:
    from seqbatch.planning.gaussian_model import Model
    from seqbatch.planning.result import Plan
    from seqbatch.planning.result_rows import Candidate, Row


# ----------------------------------------------------------------------
# Assumptions and settings.


def assumptions(plan: "Plan", *, noun: Noun = "batch") -> list[str]:
    """Return the assumptions about units and rewards, and how well a sample supports them."""
    said = [_assumed(plan, noun)]
    if plan.sample is not None and plan.contexts == "stochastic":
        said.append(plan.sample.verdict())
    return said


def _assumed(plan: "Plan", noun: Noun) -> str:
    model = plan.model
    noises = sorted({noise for _, noise in model.scenarios})
    if plan.contexts == "adversarial":
        return (
            "Assumed: contexts may be anything and come in any order; mean rewards lie between -1 "
            f"and 1 times the noise, whose standard deviation is {_numbers(noises[-1:])}."
        )
    shape = _shape(model)
    text = (
        f"Assumed: {shape}; a perfect assignment gains {_effects(plan)} per unit over a "
        f"random one; {_noise(plan, noises, noun)}."
    )
    if model.past is not None:
        text = (
            f"Assumed: {shape}. {_learned_from(plan)}: a perfect assignment gains "
            f"{_around([effect for effect, _ in model.scenarios])} per unit over a random one, "
            f"in experiments like this one; reward noise has standard deviation "
            f"{_around([noise for _, noise in model.scenarios])}."
        )
    else:
        text += _uncertain(plan)
    return text + _conduct(plan, noun)


def _learned_from(plan: "Plan") -> str:
    """Say which outcomes effect and noise were estimated from."""
    if plan.request.history is None:
        return "Estimated from the outcomes so far"
    about = plan.request.history.about()
    drift = GUESS if about["drift"] == LEARN else about["drift"]
    return (
        f"Estimated from the history of {counted(round(about['units']), 'unit')}, from which "
        f"coefficients have drifted by {drift:g} standard deviations of the noise"
    )


def _noise(plan: "Plan", noises: list[float], noun: Noun) -> str:
    """State how much outcomes vary."""
    rate = plan.request.base_rate
    if rate is None:
        return f"reward noise has standard deviation {_numbers(noises)}"
    opening = plan.request.limits.opening
    text = f"outcomes are yes or no, yes for {percent(rate)} of units without any action"
    return text if opening == 1 else f"{text}, so the first {noun} has at least {opening:,} units"


def _shape(model: "Model") -> str:
    """Describe a unit's features, and say how many models there are."""
    if model.layout == "shared":
        return f"a vector of {model.dim} numbers for each action, one model for all actions"
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
        whose = "" if law.stated else f" ({_usual_effect(plan)}, because none was given)"
        text = (
            f" That effect is a guess{whose}: two thirds of plausible effects lie between "
            f"{low:.3g} and {high:.3g} (log-normal, effect_spread {law.spread:g}), and their mean "
            f"is {plan.model.effect:.3g}."
        )
    if plan.choosing:
        text += " The grids minimise simple regret."
    elif plan.request.kind == "tuned":
        text += (
            " The grids minimise regret relative to the best grid found for each effect, averaged "
            "over the effects."
        )
    if plan.choosing:
        return f"{text} Simple regret is the average over the effects."
    return f"{text} Expected regret is the average over the effects."


def _usual_effect(plan: "Plan") -> str:
    """Describe the default effect."""
    rate = plan.request.base_rate
    if rate is None:
        return "a fifth of the noise"
    return f"a fifth of the share of {'yes' if rate <= 0.5 else 'no'}"


def _conduct(plan: "Plan", noun: Noun) -> str:
    """Describe random assignment, missing or late outcomes, and restrictions, if there are any."""
    conduct, parts = plan.model.conduct, []
    if conduct.randomised:
        parts.append(f"{percent_cut(conduct.randomised)} of units get a random action")
    if conduct.floor:
        parts.append(f"every action has a probability of at least {conduct.floor:g}")
    if conduct.missing:
        parts.append(f"{percent_cut(conduct.missing)} of outcomes never arrive")
    if plan.choosing:
        parts.append(
            "one action is chosen for all at the end, the one with the highest estimated mean, "
            "and only that choice counts; features of units are left out"
        )
    if conduct.after:
        parts.append(
            f"{counted(conduct.after, 'unit')} get the final rule afterwards, and regret and gain "
            "are over these as well"
        )
    if conduct.delay:
        parts.append(
            f"outcomes arrive {counted(conduct.delay, noun)} late (those of {noun} 1 are first "
            f"used in {noun} {2 + conduct.delay})"
        )
    if plan.request.limits.assumed:
        parts.append(_least(plan, noun))
    if conduct.eligible:
        parts.append(f"the shares of units that may get each action: {_listed(conduct.eligible)}")
    if conduct.capacity:
        parts.append(
            f"the largest shares of a {noun} that may get each action: {_listed(conduct.capacity)}"
        )
    if conduct.restricted:
        gain = plan.request.possible / plan.request.limits.units
        parts.append(
            f"the best possible assignment then gains {number(gain, 3)} per unit over a random "
            "one, and regret is measured against it"
        )
    return f" Also: {'; '.join(parts)}." if parts else ""


def _least(plan: "Plan", noun: Noun) -> str:
    """State the default minimum of a batch, and when to set another."""
    smallest = plan.request.limits.smallest
    return (
        f"every {noun} has at least {counted(smallest, 'unit')}, the default if outcomes are late "
        f"({smallest / plan.units:.1%} of all; if more units come while you wait, or fewer may, "
        "set min_batch)"
    )


def _listed(shares: tuple[float, ...]) -> str:
    return ", ".join(f"{share:g}" for share in shares)


def settings(plan: "Plan") -> list[str]:
    """Return every setting, defaults included, that is needed to reproduce the plan."""
    request, limits = plan.request, plan.request.limits
    most = f"at most {limits.largest:,}" if limits.largest else "no maximum"
    rules = f"batches of at least {counted(limits.smallest, 'unit')}, {most}"
    if limits.first is not None:
        rules += f"; first batch of {limits.first:,}"
    if limits.waves is not None:
        rules = f"batches end where waves of {', '.join(f'{w:,}' for w in limits.waves)} units end"
    asked = "chosen by the planner" if request.batches is None else f"{request.batches}, requested"
    cost = "none" if request.batch_cost is None else number(request.batch_cost, 3)
    lines = [
        f"Limits: {rules}.",
        f"Number of batches: {asked}; the table ends at {plan.rows[-1].batches}; target: "
        f"{percent_cut(1 - request.within)} of the gain of fully online; cost of a batch: {cost}.",
        f"Grid: {request.kind}. Seed: {request.seed}.",
    ]
    if not request.law.stated:
        lines.append(f"No effect was given: the default is {_usual_effect(plan)}.")
    if request.law.spread > 1:
        lines.append(f"Uncertainty of the effect: a factor of {request.law.spread:g}.")
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


def reasons(plan: "Plan", *, noun: Noun = "batch") -> list[str]:
    """Return the reasons for this number of batches, its cost, other policies, detectable lifts."""
    said = [reason(plan, noun=noun), _unknown(plan, noun), _cost(plan, noun)]
    if plan.contexts == "stochastic":
        said += [_policies(plan), _detection(plan, noun)]
    return [each for each in said if each]


def reason(plan: "Plan", *, noun: Noun = "batch") -> str:
    """Return why the plan has this number of batches."""
    if plan.contexts == "adversarial":
        return choose_guarantee(plan.request, plan.rows, noun=noun).reason
    return choose(plan.request, plan.rows, plan.online, noun=noun).reason


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
    what = "simple regret" if plan.choosing else "expected regret"
    cost = f"{what} {with_error(row.regret, row.error)}"
    if plan.contexts == "adversarial":
        promised = not math.isnan(row.rate)
        cost = f"regret of at most {rounded(row.rate)} guaranteed" if promised else "no guarantee"
    return f"{title(plan)}; batches of {', '.join(sizes)} units; {cost}"


def tables(plan: "Plan", *, noun: Noun = "batch") -> list[Table]:
    """Return tables of the costs of other numbers of batches and wrong guesses, and of looks."""
    looks = [] if plan.detection is None else [detection_table(plan.detection, noun=noun)]
    return [costs_table(plan, noun=noun), *_wrong_guesses(plan), *looks]


def costs_table(plan: "Plan", *, noun: Noun = "batch") -> Table:
    """Return a table of the costs of other numbers of batches."""
    names = {
        "regret": "simple regret" if plan.choosing else "regret",
        "error": "±",
        "median": "median",
        "equal": "in equal batches",
        "of_online": "times online",
        "earned": "gain earned",
        "best_share": "right choice" if plan.choosing else "best action",
        "final": "lost per unit afterwards",
        "lower_bound": "lower bound",
        "rate": "guarantee" if plan.contexts == "adversarial" else "theorem's rate",
        "total_cost": "total cost",
    }
    shown = (*plan.rows, plan.online)
    known = [name for name in names if not all(math.isnan(getattr(row, name)) for row in shown)]
    if plan.contexts == "adversarial" and "rate" not in known:
        known.append("rate")
    return Table(
        f"What other numbers of {plural(noun)} cost (* {chosen(plan)})",
        (plural(noun), *(names[name] for name in known)),
        [
            (_count(plan, row), *(_shown(plan, name, getattr(row, name)) for name in known))
            for row in shown
        ],
    )


def chosen(plan: "Plan") -> str:
    """Return how the plan's number of batches was chosen, in a word or two."""
    if plan.request.batches is not None:
        return "requested"
    if plan.met is False:
        return "recommended; below the target"
    return "the largest here" if _most_here(plan) else "recommended"


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
            f"If the true effect differs from the guess: {'simple ' * plan.choosing}regret by grid",
            ("true / guess", "this grid", "paper's grid", "best grid", "this / best"),
            [
                (
                    f"{one.factor:g}",
                    *(
                        "" if math.isnan(value) else rounded(value)
                        for value in (one.regret, one.paper, one.best)
                    ),
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


def answer(plan: "Plan", *, noun: Noun = "batch") -> str:
    """Return the number of batches and the policy."""
    return f"{counted(plan.batches, noun)}, with {type(plan.policy).__name__}"


def batches(plan: "Plan") -> list[str]:
    """Return a line for each batch: its size, its share of all units, and its assignment."""
    sizes = plan.grid.sizes
    width = len(f"{max(sizes):,}")
    return [
        f"batch {place}: {size:>{width},} unit{'s' * (size != 1)} ({size / plan.units:.1%}), {how}"
        for place, (size, how) in enumerate(zip(sizes, assigned_by(plan), strict=True), start=1)
    ]


def assigned_by(plan: "Plan") -> list[str]:
    """Return how each batch is assigned: at random, or based on how many outcomes."""
    conduct = plan.model.conduct
    about = "about " if conduct.missing else ""
    made = []
    past, history = plan.model.past, plan.request.history
    by_chance = conduct.blind(plan.batches, informed=past is not None) >= 1
    late = [] if past is None else [units for units, _ in past.outstanding]
    for place, outcomes in enumerate(conduct.known(plan.grid.sizes)):
        # Of the units seen, the outcomes of the newest batches are still to come.
        known = plan.seen - sum(late[max(place - conduct.delay + len(late), 0) :]) + outcomes
        if by_chance[place] or not (known or history):
            made.append("uniformly at random")
            continue
        used = [] if history is None else ["the history"]
        used += [f"{about}{counted(round(known), 'outcome')}"] if known else []
        how = f"using {' and '.join(used)}"
        some = f", {percent_cut(conduct.chance)} of it at random" if conduct.chance > 0 else ""
        made.append(how + some)
    return made


def _unknown(plan: "Plan", noun: Noun) -> str:
    """Say what few units leave open."""
    if plan.contexts == "adversarial" or not plan.request.too_short:
        return ""
    model, units = plan.model, plan.request.limits.units
    whose = " of each action" if model.layout == "block" else ""
    return (
        f"Not known: with {counted(units, 'unit')}, fewer than the square of the {model.dim} "
        f"parameters{whose}, no theorem promises anything, and the outcomes alone do not settle "
        "the parameters. Estimates lean on the assumption that effects are spread over all "
        f"features and as large as stated, so the sizes of {plural(noun)} and the expected regret "
        "depend on it more than usual. Fewer features would make the plan more certain."
    )


def _cost(plan: "Plan", noun: Noun) -> str:
    if plan.contexts == "adversarial":
        return _promise(plan, noun)
    return _choice(plan, noun) if plan.choosing else _expectation(plan, noun)


def _promise(plan: "Plan", noun: Noun) -> str:
    row = plan.row
    text = "With arbitrary contexts the regret can be bounded, but not predicted. "
    if not math.isnan(row.lower_bound):
        text += (
            f"No method can guarantee less than {rounded(row.lower_bound)} with these "
            f"{plural(noun)}. "
        )
    if math.isnan(row.rate):
        return f"{text}{_vacuous(plan, noun)}"
    return (
        f"{text}Theorem 1 bounds the regret of UCB by {rounded(row.rate)}. It assumes mean rewards "
        "between -1 and 1 times the noise, which limits the loss of a unit to twice the noise; and "
        "it is proved for rewards that do not depend on earlier choices, which SupSBUCB ensures. "
        f"More {plural(noun)} help up to about {plan.request.promises.enough:,}, which match fully "
        "online (Corollary 1)."
    )


def _vacuous(plan: "Plan", noun: Noun) -> str:
    """Say that there is no guarantee, and when there would be one."""
    promises = plan.request.promises
    needed = promises.fewest
    when = (
        "Even new estimates after every unit would not change that; more units would"
        if needed is None
        else f"With about {counted(needed, noun)} or more it guarantees something"
    )
    return (
        "Theorem 1 guarantees nothing here: its bound exceeds "
        f"{rounded(promises.most_lost)}, the most that any assignment can lose (twice the noise "
        f"per unit). {when}. The theorem still recommends equal {plural(noun)} and UCB. If units "
        "come from one population, plan with contexts = stochastic."
    )


def _expectation(plan: "Plan", noun: Noun) -> str:
    row, text = plan.row, ""
    for one in plan.candidates:
        if one.policy == plan.policy and one is not plan.candidates[0]:
            text = (
                f"Expected regret with {one.name}: {with_error(one.regret, one.error)}. The next "
                "numbers and the table are for pure exploitation (each unit gets the action that "
                "looks best) by estimates that know how large effects are. "
            )
    text += (
        "Expected regret (the reward lost against a perfect assignment): "
        f"{with_error(row.regret, row.error)}{_median(row)}, {times(row.of_online)} times "
        f"that of fully online ({rounded(plan.online.regret)}); {row.best_share:.0%} of units get "
        f"their best action. This earns {row.earned:.1%} of what a perfect assignment would gain "
        f"over a random one; fully online earns {plan.online.earned:.1%}."
    )
    if plan.model.conduct.after:
        text += (
            f" All of this is over the {plural(noun)} and the roll-out to "
            f"{counted(plan.model.conduct.after, 'unit')}, each of which loses "
            f"{rounded(row.final)} under the final rule."
        )
    if row.lower_bound > 0 and row.error:
        text += (
            f" No method with these {plural(noun)} has an expected regret below "
            f"{rounded(row.lower_bound)}."
        )
    elif row.lower_bound > 0:
        text += f" Every method loses exactly that: {_why_by_chance(plan)}."
    near = plan.near_online(0.1)
    most = plan.rows[-1].batches
    takes = counted(near, noun) if near else f"more than {most} {plural(noun)}"
    return f"{text} Coming within 10% of the fully online regret takes {takes}."


def _choice(plan: "Plan", noun: Noun) -> str:
    row = plan.row
    text = (
        "Simple regret (what a unit is expected to lose afterwards, because the chosen action may "
        f"not be the best one): {with_error(row.regret, row.error)}; the chosen action is the best "
        f"one with a probability of {row.best_share:.0%}. Learning after every outcome would lose "
        f"{rounded(plan.online.regret)} and find it with {plan.online.best_share:.0%}."
    )
    if plan.batches > 1:
        text += f" {counted(plan.batches, noun).capitalize()} of equal size lose "
        text += f"{rounded(row.equal)}"
        if plan.rows[0].batches == 1:
            text += f", and equal shares for all units {rounded(plan.rows[0].regret)}"
        text += "."
    return text


def _why_by_chance(plan: "Plan") -> str:
    """Say why every unit's action is drawn at random."""
    if plan.model.conduct.chance == 1:
        return "all units are randomised"
    return "nothing is known in time to do better"


def _median(row: "Row") -> str:
    """State the median regret if it differs much from the mean."""
    if abs(row.median - row.regret) <= 0.1 * row.regret:
        return ""
    return f" (below {rounded(row.median)} in half of the cases)"


def _policies(plan: "Plan") -> str:
    """Say how much more or less other policies lose, and why one may seem to beat the bound."""
    others = plan.candidates[1:]
    if not others:
        return ""
    if not any(one.excess or one.excess_error for one in others):
        return f"All policies lose the same here: {_why_by_chance(plan)}."
    shown = ", ".join(f"{one.name} {_more(one)}" for one in others)
    text = f"Other policies on this grid, in the same trials, lose: {shown}."
    below = [one.name for one in others if one.regret < plan.row.lower_bound]
    if below:
        text += (
            f" By chance, because the trials are few, {' and '.join(below)} came out below the "
            "lower bound."
        )
    return text


def _detection(plan: "Plan", noun: Noun) -> str:
    if plan.model.conduct.restricted and not plan.seen:
        return (
            "What will be detected is not predicted: the formulas for the standard errors of lifts "
            "assume that every unit may get every action, without capacities."
        )
    if plan.detection is None:
        return ""
    request = plan.request
    return describe_detection(plan.detection, asked=request.detect, power=request.power, noun=noun)


def _more(one: "Candidate") -> str:
    # A difference within rounding counts as none.
    if abs(one.excess) <= ROUNDING * one.regret:
        return "as much"
    amount = with_error(abs(one.excess), one.excess_error)
    return f"{amount} {'less' if one.excess < 0 else 'more'}"
