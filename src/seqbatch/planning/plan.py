"""plan() and replan(): arguments to answers, by simulation or by the theorems."""

from __future__ import annotations

import math
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
from seqbatch.planning.best_grids import best_grids
from seqbatch.planning.candidate_policies import candidates, preferred, ucb, usual
from seqbatch.planning.detection import least_share, planned_lift, units_needed
from seqbatch.planning.guarantee import choose_guarantee, guarantee
from seqbatch.planning.history import features_of, model_from, usual_from
from seqbatch.planning.number_of_batches import choose
from seqbatch.planning.outcome_scale import share_of
from seqbatch.planning.regret import online_row, row, sensitivity
from seqbatch.planning.replanning import model_given, request_given
from seqbatch.planning.request import (
    GridKind,
    Request,
    Sizes,
    conduct_of,
    enough_events,
    law_of,
    limits_of,
    model_of,
    numbers_of,
    require_answerable,
    require_choice,
    require_possible,
    several,
)
from seqbatch.planning.result import Plan
from seqbatch.planning.trials.conditions import Conduct, Purpose
from seqbatch.planning.unit_sample import Sample
from seqbatch.policies import History
from seqbatch.policies.base import BasePolicy

# ----------------------------------------------------------------------
# Answers to a request: by simulation for stochastic contexts, otherwise by the theorems.


#: A function that is called with the share of work done.
Report = Callable[[float], None]


def silent(_: float) -> None:
    """Report nothing."""


def stochastic(
    request: Request, *, policy: BasePolicy | None = None, progress: Report = silent
) -> Plan:
    """Answer by simulation; policies are compared unless one is given or `quick` is set."""
    if request.quick or request.model.conduct.purpose == "choose":
        policy = policy or usual(request.model)
    # Besides the grids there are two steps: fully online, and the policies.
    steps = len(request.numbers) + 2
    found = best_grids(request, lambda grids: progress(grids / steps))
    online = online_row(request, found.values())
    progress(1 - 1 / steps)
    rows = [row(request, sizes, online.regret) for sizes in found.values()]
    choice = choose(request, rows, online)
    chosen = next(one for one in rows if one.batches == choice.batches)
    compared = candidates(request.model, chosen, seed=request.seed) if policy is None else ()
    progress(1.0)
    return Plan(
        request=request,
        contexts="stochastic",
        grid=_grid(chosen.sizes),
        policy=policy or preferred(compared),
        met=choice.met,
        rows=tuple(rows),
        online=online,
        candidates=compared,
        # An effect learned from outcomes is not a guess.
        wrong_guesses=tuple
        if request.model.past is not None
        else partial(sensitivity, request, chosen.sizes),
    )


def adversarial(request: Request) -> Plan:
    """Answer by the theorems alone, because nothing is known about the contexts.

    More batches are then always better, so the largest number is chosen unless batches have a cost.
    """
    rows = [guarantee(request, number) for number in request.numbers]
    choice = choose_guarantee(request, rows)
    chosen = next(one for one in rows if one.batches == choice.batches)
    return Plan(
        request=request,
        contexts="adversarial",
        grid=_grid(chosen.sizes),
        policy=ucb(request.model, request.limits.units),
        met=choice.met,
        rows=tuple(rows),
        online=guarantee(request, None),
        candidates=(),
        # The guarantee does not depend on the effect: there is nothing to guess wrong.
        wrong_guesses=tuple,
    )


def _grid(sizes: Sequence[int]) -> Grid:
    return grids.explicit(int(end) for end in np.cumsum(sizes))


# ----------------------------------------------------------------------
# The least randomised share that detects a lift.


def detecting(request: Request, lift: float, answer: Callable[[Request], Plan]) -> Plan:
    """Return the plan with the least randomised share that detects a lift.

    The more units are randomised, the smaller the first batches of the best grid. The share is
    therefore raised until the best grid for that share detects the lift.

    Parameters
    ----------
    request
        The request; its randomised share is the smallest one tried.
    lift
        The lift to detect, with the request's power.
    answer
        A function that makes a plan.
    """
    # No batches can detect more than randomising all units in a single one.
    _enough(request, (request.limits.units,), usual(request.model), lift)
    while True:
        answered = answer(request)
        share = _enough(request, answered.grid.sizes, answered.policy, lift)
        if share <= request.model.conduct.randomised:
            return answered
        request = _raised(request, share, answered, lift)


def _raised(request: Request, share: float, answered: Plan, lift: float) -> Request:
    """Return the request with a share for which its best grid, with as many batches, suffices."""
    fewer = [number for number in request.numbers if number <= answered.batches]
    while share > request.model.conduct.randomised:
        conduct = replace(request.model.conduct, randomised=share)
        request = replace(request, model=replace(request.model, conduct=conduct))
        sizes = best_grids(replace(request, numbers=fewer))[answered.batches]
        share = _enough(request, sizes, answered.policy, lift)
    return request


def _enough(request: Request, sizes: Sizes, policy: BasePolicy, lift: float) -> float:
    """Return the least sufficient share for these batches, or raise an error if there is none."""
    model, power = request.model, request.power
    share = least_share(model, sizes, policy, lift=lift, power=power)
    if share is not None:
        return share
    all_random = replace(model, conduct=replace(model.conduct, randomised=1.0))
    least = planned_lift(all_random, sizes, policy, power=power)
    needed = units_needed(model, policy, lift=lift, power=power)
    raise InvalidArgumentError(
        "detect",
        f"at least {number(least, 3)}, the lift that {counted(request.limits.units, 'unit')} "
        f"detect with {percent_cut(power)} power if all of them are randomised",
        lift,
        f"To detect it, plan for about {counted(needed, 'unit')}, all randomised.",
    )


# ----------------------------------------------------------------------
# The public functions.


ContextKind = Literal["stochastic", "adversarial"]
#: The largest number of batches in a quick plan's table.
FEW_BATCHES = 4


def plan(
    *,
    units: int,
    actions: int,
    features: int | Sample | None = None,
    dim: int | None = None,
    history: History | None = None,
    batches: int | None = None,
    contexts: ContextKind = "stochastic",
    effect: float | Sequence[float] | None = None,
    effect_spread: float | None = None,
    noise: float | Sequence[float] | None = None,
    base_rate: float | str | None = None,
    kappa: float | None = None,
    grid: GridKind = "tuned",
    max_batches: int | None = None,
    min_batch: int | None = None,
    max_batch: int | None = None,
    first_batch: int | None = None,
    waves: Sequence[int] | None = None,
    randomised: float = 0.0,
    floor: float = 0.0,
    missing: float = 0.0,
    delay: int = 0,
    eligible: Sequence[float] | None = None,
    capacity: Sequence[float | None] | None = None,
    after: int = 0,
    purpose: Purpose = "earn",
    batch_cost: float | None = None,
    within: float = 0.05,
    detect: float | None = None,
    power: float = 0.8,
    seed: int = 0,
    quick: bool = False,
    compare: bool = True,
    progress: Report | None = None,
) -> Plan:
    """Plan an experiment whose feedback comes in batches.

    Parameters
    ----------
    units, actions
        T and K: the number of units, and the number of actions to choose from.
    features
        The number of features per unit, with one model per action (a constant is added); or a
        :class:`~seqbatch.planning.Sample` of units from which to read them.
    dim
        Instead of `features`: the length of each action's vector, with one model for all actions,
        as in the paper.
    history
        The sums of an earlier experiment with the same features, from which this one starts; its
        rows begin with the constant 1. The first batch is then not random. Effect and noise are
        learned from it, and `features` may be left out. A drift that is to be learned is the one
        that policies assume before any outcome.
    batches
        M; None finds the smallest number that earns nearly as much as fully online (`within`).
    contexts
        ``"stochastic"``: units come from one population. ``"adversarial"``: units are arbitrary, in
        any order; the answer is then UCB in equal batches, and its guarantee.
    effect
        By how much the best action's mean reward exceeds a random one's (or a control's), averaged
        over units: the gain of a perfect assignment per unit. One number is the median of a
        log-normal prior; several are equally plausible guesses. The default is a fifth of the
        noise.
    effect_spread
        Uncertainty of the guess, as a factor F: two thirds of plausible effects lie between guess/F
        and guess x F (1 = certain). The default is 2.5 around a stated effect, and 3 around the
        default effect.
    noise
        The standard deviation of a reward given unit and action, 1 by default; several numbers are
        equally plausible guesses.
    base_rate
        For a yes/no outcome, instead of `noise`: the share of yes without any action, such as 0.04
        or "4%". The default effect is then a fifth of the rarer answer's share, and the first batch
        is large enough for ten events of each action.
    kappa
        The smallest eigenvalue of the contexts' covariance divided by its largest; the default is
        that of the sample, or 1.
    grid
        ``"tuned"`` to effect and noise, or the ``"paper"``'s, which needs no guess. A tuned grid
        minimises regret relative to the best grid found for each effect, averaged over the prior.
    max_batches
        The largest number of batches in the table; the default is 8, or the number of waves.
    min_batch, max_batch, first_batch
        Limits on the sizes of batches, and the size of the first one. The default minimum is 1;
        with a delay, a hundredth of the units, and at least the number of parameters per action.
    waves
        The sizes of calendar waves; batches end where waves end.
    randomised
        The share of units that get a uniformly random action, whatever the policy says.
    floor
        The minimum probability of every action, for all other units; at most 1/K.
    missing
        The share of outcomes that never arrive, assumed to be random.
    delay
        By how many batches outcomes are late: those of batch m are first used in batch
        m + 1 + delay. Batches up to 1 + delay are therefore assigned at random. The delay does not
        depend on the sizes of batches: a tuned grid waits for outcomes in batches as small as
        `min_batch` allows.
    eligible
        The share of units that may get each action, drawn independently of all else; a unit that
        may get none gets the action with the largest share. Regret is then relative to the best
        possible assignment, and `effect` is the gain of units that may get every action.
    capacity
        The maximum share of each batch that may get each action; None or 1 for no limit. Only with
        `features`.
    after
        The number of units that will get the final rule afterwards. The plan then weighs what the
        experiment itself earns against what it teaches for the roll-out: regret is over both.
    purpose
        ``"earn"``: what the experiment earns counts, and what the roll-out earns.
        ``"choose"``: only the choice of one action for all units afterwards counts. Sizes are then
        planned for the least simple regret with exploration sampling, and `effect` is by how much
        the best action's mean exceeds that of a random one. Features of units are left out.
    batch_cost
        The cost of each batch, in units of reward; then the M with the least total cost is chosen.
    within
        How far below fully online is close enough: 0.05 requires 95% of fully online's gain over a
        random assignment.
    detect
        A lift over control, in units of reward, that must be detected (two-sided at 5% for all
        lifts together): the plan then has the least sufficient randomised share, from `randomised`
        up.
    power
        The required probability of detecting it; also the power in :attr:`Plan.trade`.
    seed
        The same seed gives the same plan.
    quick
        Whether to answer fast rather than precisely: a quarter of the trials, at most four batches
        unless you request more, and no comparison of policies.
    compare
        Whether to compare policies. Batches do not depend on it and are found sooner without; the
        plan then names the policy that campaigns use.
    progress
        A function that is called now and then with the share of work done.

    Examples
    --------
    >>> answer = plan(units=20_000, actions=3, features=4, batches=3, max_batches=3)
    >>> answer  # doctest: +ELLIPSIS
    <Plan: 20,000 units, 3 actions: 3 batches, with ...; batches of ... units; expected regret ...>
    >>> answer.grid.batches, answer.grid.units
    (3, 20000)
    """
    arguments.choice("contexts", contexts, get_args(ContextKind))
    arguments.choice("grid", grid, get_args(GridKind))
    if history is not None:
        features = features_of(history, actions=actions, features=features, dim=dim)
    if batch_cost is not None:
        batch_cost = arguments.number("batch_cost", batch_cost, at_least=0)
    rate = None if base_rate is None else share_of("base_rate", base_rate)
    noises = _noises(noise, rate)
    law = law_of(effect, effect_spread, noises, rate)
    model = model_of(actions, features, dim, law, noises, kappa)
    conduct = conduct_of(
        model.actions, randomised, floor, missing, delay, eligible, capacity, after,
        purpose,
    )  # fmt: skip
    extended = conduct != Conduct(actions=model.actions) or detect is not None
    if history is not None and (contexts == "adversarial" or conduct.looks_beyond):
        raise InvalidArgumentError(
            "history", 'left out if contexts are adversarial, with after or purpose = "choose"',
            repr(history), "The policies for these start without one.",
        )  # fmt: skip
    if contexts == "adversarial" and extended:
        raise InvalidArgumentError(
            "randomised, floor, missing, delay, eligible, capacity, after, purpose and detect",
            "left out if contexts are adversarial",
            "at least one of them",
            "The answer rests on Theorem 1, which covers none of them.",
        )
    require_possible(model.layout, conduct, detect)
    if conduct.purpose == "choose":
        require_choice(model.layout, conduct, batch_cost)
        # Actions are compared by their means.
        model, features = replace(model, dim=1, rows=None), 0
    model = replace(model, conduct=conduct)
    if history is not None:
        model = model_from(model, law, history)
    limits = limits_of(units, min_batch, max_batch, first_batch, waves)
    if quick and max_batches is None:
        max_batches = FEW_BATCHES
    numbers = numbers_of(limits, batches, max_batches)
    if conduct.delay and min_batch is None:
        limits = limits.waiting(model.dim, numbers[-1])
    if rate is not None and history is None and limits.waves is None and limits.first is None:
        limits = replace(limits, opening=enough_events(rate, conduct, limits.units))
    request = Request(
        model=model,
        limits=limits,
        numbers=numbers,
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
        base_rate=rate,
        history=history,
    )
    if contexts == "adversarial":
        return adversarial(request)
    require_answerable(model)
    policy = None if compare else usual(model)
    if history is not None:
        # Policies are compared as they start without one.
        policy = usual_from(model, history)
    answer = partial(stochastic, policy=policy, progress=progress or silent)
    if request.detect is not None:
        return detecting(request, request.detect, answer)
    return answer(request)


def _noises(noise: float | Sequence[float] | None, rate: float | None) -> list[float]:
    """Return the standard deviations of a reward: as stated, or those of a yes/no outcome."""
    if rate is None:
        return several("noise", 1.0 if noise is None else noise)
    if noise is not None:
        raise InvalidArgumentError("noise", "left out with base_rate, which gives it", repr(noise))
    return [math.sqrt(rate * (1 - rate))]


def replan(
    before: Plan,
    *,
    seen: int,
    statistics: Statistics,
    outstanding: Sequence[tuple[int, float]] = (),
    covariance: ArrayLike | None = None,
    batches: int | None = None,
    max_batches: int | None = None,
    min_batch: int | None = None,
    max_batch: int | None = None,
    first_batch: int | None = None,
    waves: Sequence[int] | None = None,
) -> Plan:
    """Plan the rest of a running experiment, given its data so far.

    The policy remains that of the earlier plan. Its assumptions on effect and noise become a prior
    that the outcomes update; the expected regret of the remaining units is minimised.

    Parameters
    ----------
    before
        The plan with which the experiment started.
    seen
        The number of units assigned so far.
    statistics
        The statistics of their outcomes: for `features` one cell per action, with the constant
        first in each row; for `dim` one cell. Effect, noise and true parameters are drawn from
        their posterior given these.
    outstanding
        With a delay: the last batches whose outcomes are not in the statistics yet, oldest first;
        for each, the number of units, and the share of them that was assigned at random. Their
        outcomes arrive when the plan's delay has passed.
    covariance
        For `dim`: the covariance of the contexts, shape (d, d). It cannot be derived from the
        statistics, which contain only chosen vectors.
    batches
        The number of remaining batches; None finds a number as :func:`plan` does.
    max_batches, min_batch, max_batch, first_batch, waves
        As for :func:`plan`, applied to the remaining units.

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
            "For adversarial contexts, split the remaining units into equal batches.",
        )
    if before.request.history is not None:
        raise InvalidArgumentError("before", "a plan without history", "one with a history")
    total = before.seen + before.units
    if arguments.integer("seen", seen) >= total:
        raise InvalidArgumentError("seen", f"below units = {total}", seen)
    if before.choosing:
        raise InvalidArgumentError(
            "before", 'a plan with purpose = "earn"', 'one with purpose = "choose"'
        )
    model = model_given(before.model, before.request.law, statistics, covariance, outstanding)
    limits = limits_of(total - seen, min_batch, max_batch, first_batch, waves)
    limits = replace(limits, seen=seen)
    numbers = numbers_of(limits, batches, max_batches)
    if model.conduct.delay and min_batch is None:
        limits = limits.waiting(model.dim, numbers[-1])
    request = request_given(before, model, limits, numbers, batches)
    return stochastic(request, policy=before.policy)
