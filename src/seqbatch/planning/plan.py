"""A plan: how many batches, how big, and what they cost."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from seqbatch import grids
from seqbatch.core import Statistics, arguments
from seqbatch.display import counted, number, percent_cut
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.planning.choice import choose
from seqbatch.planning.costs import online_row, row, sensitivity
from seqbatch.planning.detection import least_share, planned_lift, units_needed
from seqbatch.planning.grids import best_grids
from seqbatch.planning.guarantee import choose_guarantee, guarantee
from seqbatch.planning.policies import GREEDY, candidates, preferred, ucb
from seqbatch.planning.replanning import model_given, request_given
from seqbatch.planning.request import (
    GridKind,
    Request,
    Sizes,
    conduct_of,
    law_of,
    limits_of,
    model_of,
    numbers_of,
    require_answerable,
    require_possible,
    several,
)
from seqbatch.planning.result import Plan
from seqbatch.planning.sample import Sample
from seqbatch.planning.trials.conduct import Conduct
from seqbatch.policies.base import LinearPolicy

# ----------------------------------------------------------------------
# The answers to a request: by simulation where contexts are stochastic, else by the theorems.


#: Is told which share of the work is done.
Report = Callable[[float], None]


def silent(_: float) -> None:
    """Tell nobody."""


def stochastic(
    request: Request, *, policy: LinearPolicy | None = None, progress: Report = silent
) -> Plan:
    """Answer by simulation; policies are compared unless one is given, or time is short."""
    if request.quick:
        policy = policy or GREEDY
    # Beside the grids, two steps: fully online, and the policies.
    steps = len(request.numbers) + 2
    found = best_grids(request, lambda grids: progress(grids / steps))
    online = online_row(request, found.values())
    progress(1 - 1 / steps)
    rows = [row(request, sizes, online.regret) for sizes in found.values()]
    choice = choose(request, rows, online)
    chosen = next(one for one in rows if one.batches == choice.batches)
    made = candidates(request.model, chosen, seed=request.seed) if policy is None else ()
    progress(1.0)
    return Plan(
        request=request,
        contexts="stochastic",
        grid=_grid(chosen.sizes),
        policy=policy or preferred(made),
        reason=choice.reason,
        met=choice.met,
        rows=tuple(rows),
        online=online,
        candidates=made,
        # What was learned from outcomes is no guess.
        wrong_guesses=tuple
        if request.model.past is not None
        else partial(sensitivity, request, chosen.sizes),
    )


def adversarial(request: Request) -> Plan:
    """Answer by the theorems alone: which contexts will come is not known.

    More batches are always better then, so the most are chosen unless batches have a cost.
    """
    rows = [guarantee(request, number) for number in request.numbers]
    choice = choose_guarantee(request, rows)
    chosen = next(one for one in rows if one.batches == choice.batches)
    return Plan(
        request=request,
        contexts="adversarial",
        grid=_grid(chosen.sizes),
        policy=ucb(request.model, request.limits.units),
        reason=choice.reason,
        met=choice.met,
        rows=tuple(rows),
        online=guarantee(request, None),
        candidates=(),
        # The guarantee does not depend on the effect, so that there is none to guess wrong.
        wrong_guesses=tuple,
    )


def _grid(sizes: Sequence[int]) -> Grid:
    return grids.explicit(int(end) for end in np.cumsum(sizes))


# ----------------------------------------------------------------------
# The least randomised share with which a plan detects a lift.


def detecting(request: Request, lift: float, answer: Callable[[Request], Plan]) -> Plan:
    """Return the plan with the least randomised share that detects a lift.

    The more units are randomised, the smaller are the first batches of the best grid: the share is
    raised until the grid that belongs to it detects the lift.

    Parameters
    ----------
    request
        What was asked for; its randomised share is the least that is tried.
    lift
        To be detected, with the request's power.
    answer
        Makes a plan.
    """
    # Whatever the batches, not more can be known than if all units were randomised in one.
    _enough(request, (request.limits.units,), GREEDY, lift)
    while True:
        made = answer(request)
        share = _enough(request, made.grid.sizes, made.policy, lift)
        if share <= request.model.conduct.randomised:
            return made
        request = _raised(request, share, made, lift)


def _raised(request: Request, share: float, made: Plan, lift: float) -> Request:
    """Return the request with a share whose own best grid, of as many batches, is enough."""
    fewer = [number for number in request.numbers if number <= made.batches]
    while share > request.model.conduct.randomised:
        conduct = replace(request.model.conduct, randomised=share)
        request = replace(request, model=replace(request.model, conduct=conduct))
        sizes = best_grids(replace(request, numbers=fewer))[made.batches]
        share = _enough(request, sizes, made.policy, lift)
    return request


def _enough(request: Request, sizes: Sizes, policy: LinearPolicy, lift: float) -> float:
    """Return the least share that is enough on these batches, or say that none is."""
    model, power = request.model, request.power
    share = least_share(model, sizes, policy, lift=lift, power=power)
    if share is not None:
        return share
    everyone = replace(model, conduct=replace(model.conduct, randomised=1.0))
    least = planned_lift(everyone, sizes, policy, power=power)
    needed = units_needed(model, policy, lift=lift, power=power)
    raise InvalidArgumentError(
        "detect",
        f"at least {number(least, 3)}, the lift that {counted(request.limits.units, 'unit')} show "
        f"with {percent_cut(power)} power if all of them are randomised",
        lift,
        f"No plan with these units can; about {counted(needed, 'unit')} would, all randomised.",
    )


# ----------------------------------------------------------------------
# How many batches, how big, and what they cost: the question and its answer.


ContextKind = Literal["stochastic", "adversarial"]
#: A quick answer's table goes so far.
FEW_BATCHES = 4


def plan(
    *,
    units: int,
    actions: int,
    features: int | Sample | None = None,
    dim: int | None = None,
    batches: int | None = None,
    contexts: ContextKind = "stochastic",
    effect: float | Sequence[float] | None = None,
    effect_spread: float | None = None,
    noise: float | Sequence[float] = 1.0,
    kappa: float | None = None,
    grid: GridKind = "tuned",
    max_batches: int | None = None,
    min_batch: int = 1,
    max_batch: int | None = None,
    first_batch: int | None = None,
    waves: Sequence[int] | None = None,
    randomised: float = 0.0,
    floor: float = 0.0,
    missing: float = 0.0,
    delay: int = 0,
    eligible: Sequence[float] | None = None,
    capacity: Sequence[float | None] | None = None,
    batch_cost: float | None = None,
    within: float = 0.05,
    detect: float | None = None,
    power: float = 0.8,
    seed: int = 0,
    quick: bool = False,
    compare: bool = True,
    progress: Report = silent,
) -> Plan:
    """Plan an experiment whose feedback comes in batches.

    Parameters
    ----------
    units, actions
        T and K: how many units there are, and how many actions to choose from.
    features
        How many numbers describe a unit, with one model per action (a constant is added); or a
        :class:`~seqbatch.planning.Sample` of units to read them from.
    dim
        Instead of `features`: each action has a vector of this length, with one model for all
        actions, as in the paper.
    batches
        M; None finds the smallest number that earns nearly as much as fully online (`within`).
    contexts
        ``"stochastic"``: units come from one population. ``"adversarial"``: they are arbitrary, in
        any order; then the answer is UCB in equal batches, and what it guarantees.
    effect
        How much the best action's mean reward exceeds a random one's (or a control's), on average
        over units: what a perfect assignment would gain per unit. One number is the middle of a
        log-normal law; several are equally plausible guesses. The default is a fifth of the noise.
    effect_spread
        The law's width, a factor: with 2, the effect is as likely above the guess as below it, and
        two times in three between half of it and twice it. 1 takes the guess for certain. The
        default is 2.5 around a stated effect, and 3 around the usual one.
    noise
        The standard deviation of a reward given the unit and the action; several numbers are
        equally plausible guesses.
    kappa
        The smallest eigenvalue of the contexts' covariance divided by its largest; the default is
        that of the sample, or 1.
    grid
        ``"tuned"`` to effect and noise, or the ``"paper"``'s, which needs no guess. A tuned grid's
        regret relative to that of the best grid for each effect is the least on average over the
        law.
    max_batches
        The largest number of batches in the table; the default is 8, or the number of waves.
    min_batch, max_batch, first_batch
        Limits on the sizes of batches, and the size of the first one.
    waves
        Sizes of calendar waves; batches end where waves end.
    randomised
        The share of units that will get a uniformly random action whatever the policy says.
    floor
        The least probability of every action, for all other units; at most 1/K.
    missing
        The share of outcomes that will never come; which ones is taken to be chance.
    delay
        How many batches late outcomes come: those of batch m are first used in batch m + 1 + delay,
        so that batches up to 1 + delay are assigned at random.
    eligible
        The share of units that may get each action, drawn independently of all else; a unit that
        may get none gets the action of the largest share. Regret is then against the best
        assignment that is possible, and `effect` is what units gain that may get every action.
    capacity
        The most units of each action, as a share of each batch; None or 1 where there is no limit.
        With `features` only.
    batch_cost
        What each batch costs, in units of reward; then the M of least total cost is chosen.
    within
        How far below fully online is close enough: 0.05 asks for 95% of what fully online gains
        over a random assignment.
    detect
        A lift over control, in units of reward, that must be detected (two-sided at 5%): the plan
        then has the least randomised share with which it is, from `randomised` up.
    power
        The probability with which it must be; also that of :attr:`Plan.trade`.
    seed
        The same seed gives the same plan.
    quick
        Answer soon rather than precisely: a quarter of the trials, four batches at most unless more
        are asked for, and pure exploitation without a comparison of policies.
    compare
        Whether to compare policies. Batches do not depend on it, and come sooner without: the plan
        then names pure exploitation.
    progress
        Called with the share of the work that is done, now and then.

    Examples
    --------
    >>> answer = plan(units=20_000, actions=3, features=4, batches=3, max_batches=3)
    >>> answer  # doctest: +ELLIPSIS
    <Plan: 20,000 units, 3 actions: 3 batches, with ...; batches of ... units; regret ... expected>
    >>> answer.grid.batches, answer.grid.units
    (3, 20000)
    """
    arguments.choice("contexts", contexts, get_args(ContextKind))
    arguments.choice("grid", grid, get_args(GridKind))
    if batch_cost is not None:
        batch_cost = arguments.number("batch_cost", batch_cost, at_least=0)
    noises = several("noise", noise)
    law = law_of(effect, effect_spread, noises)
    model = model_of(actions, features, dim, law, noises, kappa)
    conduct = conduct_of(model.actions, randomised, floor, missing, delay, eligible, capacity)
    told = conduct != Conduct(actions=model.actions) or detect is not None
    if contexts == "adversarial" and told:
        raise InvalidArgumentError(
            "randomised, floor, missing, delay, eligible, capacity and detect",
            "left out where contexts are adversarial",
            "at least one of them",
            "Theorem 1, which the answer rests on, knows none of them.",
        )
    require_possible(model.layout, conduct, detect)
    model = replace(model, conduct=conduct)
    limits = limits_of(units, min_batch, max_batch, first_batch, waves)
    if limits.units < model.dim**2:
        raise InvalidArgumentError(
            "units",
            f"at least {model.dim**2}, the square of the model's {model.dim} parameters",
            limits.units,
            "With fewer units, too little is learned in time: use fewer features.",
        )
    if quick and max_batches is None:
        max_batches = FEW_BATCHES
    request = Request(
        model=model,
        limits=limits,
        numbers=numbers_of(limits, batches, max_batches),
        batches=batches,
        kind=grid,
        batch_cost=batch_cost,
        within=arguments.number("within", within, at_least=0, at_most=1),
        seed=arguments.integer("seed", seed, at_least=0),
        sample=features if isinstance(features, Sample) else None,
        law=law,
        detect=None if detect is None else arguments.number("detect", detect, above=0),
        power=arguments.number("power", power, at_least=0.5, at_most=0.999),
        quick=quick,
    )
    if contexts == "adversarial":
        return adversarial(request)
    require_answerable(model)
    answer = partial(stochastic, policy=None if compare else GREEDY, progress=progress)
    if request.detect is not None:
        return detecting(request, request.detect, answer)
    return answer(request)


def replan(
    before: Plan,
    *,
    seen: int,
    statistics: Statistics,
    covariance: ArrayLike | None = None,
    batches: int | None = None,
    max_batches: int | None = None,
    min_batch: int = 1,
    max_batch: int | None = None,
    first_batch: int | None = None,
    waves: Sequence[int] | None = None,
) -> Plan:
    """Plan the rest of an experiment under way, given its data so far.

    The policy stays that of the earlier plan. What that assumed of effect and noise is a prior that
    the outcomes correct; what is minimised is the expected regret of the units to come.

    Parameters
    ----------
    before
        The plan that the experiment started with.
    seen
        How many units have been assigned.
    statistics
        Of their outcomes: for `features` one cell per action, with the constant first in each row;
        for `dim` one cell. The effect, the noise and the true parameters are drawn from their
        posterior given these.
    covariance
        For `dim`: that of the contexts, shape (d, d). The statistics do not show it, because they
        hold chosen vectors only.
    batches
        How many batches are left; None finds a number as :func:`plan` does.
    max_batches, min_batch, max_batch, first_batch, waves
        As for :func:`plan`, applied to what is left.

    Examples
    --------
    >>> import numpy as np
    >>> before = plan(units=9_000, actions=2, features=1, batches=3, max_batches=3)
    >>> rng = np.random.default_rng(1)
    >>> rows = np.column_stack([np.ones(900), rng.standard_normal(900)])
    >>> actions = rng.integers(0, 2, 900)
    >>> rewards = 0.3 * actions * rows[:, 1] + rng.standard_normal(900)
    >>> known = Statistics.zero(cells=2, dim=2).add(rows, rewards, actions)
    >>> replan(before, seen=900, statistics=known, batches=2).grid.units
    8100
    """
    if before.contexts == "adversarial":
        raise InvalidArgumentError(
            "before",
            "a plan for stochastic contexts",
            "one for adversarial contexts",
            "There, split what is left into equal batches.",
        )
    total = before.seen + before.units
    if arguments.integer("seen", seen) >= total:
        raise InvalidArgumentError("seen", f"below units = {total}", seen)
    model = model_given(before.model, before.request.law, statistics, covariance)
    limits = limits_of(total - seen, min_batch, max_batch, first_batch, waves)
    limits = replace(limits, seen=seen)
    numbers = numbers_of(limits, batches, max_batches)
    request = request_given(before, model, limits, numbers, batches)
    return stochastic(request, policy=before.policy)
