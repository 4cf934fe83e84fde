"""How many batches, how big, and what they cost: the question and its answer."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from seqbatch import grids, theory
from seqbatch.core import Statistics, arguments
from seqbatch.errors import InvalidArgumentError, InvalidGridError
from seqbatch.grids import Grid
from seqbatch.planning.candidates import candidates, preferred, ucb
from seqbatch.planning.costs import (
    GridKind,
    Request,
    best_grids,
    online_row,
    row,
    sensitivity,
)
from seqbatch.planning.model import Floats, Model
from seqbatch.planning.result import Plan, Row
from seqbatch.planning.sample import Sample
from seqbatch.planning.trials.draws import Past
from seqbatch.planning.tuning import Limits, feasible
from seqbatch.policies.base import LinearPolicy

ContextKind = Literal["stochastic", "adversarial"]

#: How far the table goes where nobody says; beyond, it has every doubling.
MAX_BATCHES = 8
#: More units than these are not counted exactly.
MOST_UNITS = 10**15


def plan(
    *,
    units: int,
    actions: int,
    features: int | Sample | None = None,
    dim: int | None = None,
    batches: int | None = None,
    contexts: ContextKind = "stochastic",
    effect: float | Sequence[float] | None = None,
    noise: float | Sequence[float] = 1.0,
    kappa: float | None = None,
    grid: GridKind = "tuned",
    max_batches: int | None = None,
    min_batch: int = 1,
    max_batch: int | None = None,
    first_batch: int | None = None,
    waves: Sequence[int] | None = None,
    batch_cost: float | None = None,
    within: float = 0.05,
    seed: int = 0,
) -> Plan:
    """Plan an experiment whose feedback comes in batches.

    Parameters
    ----------
    units, actions
        T and K: how many units there are, and between how many actions each is decided.
    features
        How many numbers describe a unit, with one model for each action (a constant is added); or
        a :class:`~seqbatch.planning.Sample` of units to take them from.
    dim
        Instead of `features`: each action shows a vector of so many numbers, with one model for
        all actions, as in the paper.
    batches
        M; None finds the smallest number that earns nearly as much as fully online (`within`).
    contexts
        ``"stochastic"``: units come from one population. ``"adversarial"``: they may be anything,
        in any order; then the answer is UCB in equal batches, and what it guarantees.
    effect
        How much the best action's mean reward exceeds a random one's (or a control's), on average
        over units: what a perfect assignment would gain a unit. Several numbers are equally
        plausible guesses. By default a fifth of the noise.
    noise
        The standard deviation of a reward given the unit and the action; several numbers are
        equally plausible guesses.
    kappa
        The smallest eigenvalue of the contexts' covariance over its largest; 1 by default, or the
        sample's.
    grid
        ``"tuned"`` to what was stated, or the ``"paper"``'s, which needs no guess of the effect.
    max_batches
        How far the table goes; 8 by default, or the number of waves.
    min_batch, max_batch, first_batch
        Sizes that batches must keep to.
    waves
        Sizes of calendar waves; batches end where waves end.
    batch_cost
        What one more batch costs, in units of reward; then the M of least total cost is chosen.
    within
        How much less than fully online is near enough: 0.05 asks for 95% of what fully online
        gains over a random assignment.
    seed
        The same seed gives the same plan.

    Examples
    --------
    >>> answer = plan(units=20_000, actions=3, features=4, batches=3, max_batches=3)
    >>> answer.grid.batches, answer.grid.units
    (3, 20000)
    """
    arguments.choice("contexts", contexts, get_args(ContextKind))
    arguments.choice("grid", grid, get_args(GridKind))
    model = _model(actions, features, dim, effect, noise, kappa)
    limits = _limits(units, min_batch, max_batch, first_batch, waves)
    if limits.units < model.dim**2:
        raise InvalidArgumentError(
            "units",
            f"at least {model.dim**2}, the square of the {model.dim} numbers that a model has",
            limits.units,
            "With fewer, nothing is learned in time: use fewer features.",
        )
    request = Request(
        model=model,
        limits=limits,
        numbers=_numbers(limits, batches, max_batches),
        batches=batches,
        kind=grid,
        batch_cost=_optional("batch_cost", batch_cost),
        within=arguments.number("within", within, at_least=0, at_most=1),
        seed=arguments.integer("seed", seed, at_least=0),
        sample=features if isinstance(features, Sample) else None,
    )
    return _adversarial(request) if contexts == "adversarial" else _stochastic(request)


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
    """Plan the rest of an experiment under way, from what its data say so far.

    The policy stays the one of the plan before.

    Parameters
    ----------
    before
        The plan that it was begun with.
    seen
        How many units have been assigned.
    statistics
        Of their outcomes: for `features` one cell an action, with the constant first in each row;
        for `dim` one cell. The true parameters are drawn from their posterior given these.
    covariance
        For `dim`: that of the contexts, shape (d, d). The statistics cannot tell it, because the
        vectors in them were chosen.
    batches
        How many batches are left; None finds a number as :func:`plan` does.
    max_batches, min_batch, max_batch, first_batch, waves
        As for :func:`plan`, for what is left.

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
            "Equal batches of what is left are the answer there.",
        )
    if not isinstance(statistics, Statistics):
        raise InvalidArgumentError("statistics", "Statistics of the outcomes", repr(statistics))
    total, model = before.seen + before.units, before.model
    if arguments.integer("seen", seen) >= total:
        raise InvalidArgumentError("seen", f"below units = {total}", seen)
    models = 1 if model.layout == "shared" else model.actions
    if (statistics.cells, statistics.dim) != (models, model.dim):
        raise InvalidArgumentError(
            "statistics",
            f"of {models} cells and dimension {model.dim}, as the plan's model",
            f"{statistics.cells} cells and dimension {statistics.dim}",
        )
    limits = _limits(total - seen, min_batch, max_batch, first_batch, waves)
    limits = replace(limits, seen=seen)
    request = Request(
        model=replace(
            model, past=_whitened(statistics, _context_root(statistics, covariance, model))
        ),
        limits=limits,
        numbers=_numbers(limits, batches, max_batches),
        batches=batches,
        kind="tuned",
        batch_cost=before.batch_cost,
        within=before.within,
        seed=before.seed,
        sample=before.sample,
    )
    return _stochastic(request, policy=before.policy)


def _stochastic(request: Request, *, policy: LinearPolicy | None = None) -> Plan:
    """Answer by simulation; policies are compared unless one is settled."""
    found = best_grids(request)
    online = online_row(request, found.values())
    rows = [row(request, sizes, online.regret) for sizes in found.values()]
    sizes = found[_recommended(request, rows, online)]
    made = candidates(request.model, sizes, seed=request.seed) if policy is None else ()
    return Plan(
        model=request.model,
        contexts="stochastic",
        grid=_grid(sizes),
        policy=policy or preferred(made),
        rows=tuple(rows),
        online=online,
        candidates=made,
        wrong_guesses=partial(sensitivity, request, sizes),
        sample=request.sample,
        seen=request.limits.seen,
        batch_cost=request.batch_cost,
        within=request.within,
        seed=request.seed,
    )


def _recommended(request: Request, rows: Sequence[Row], online: Row) -> int:
    """Return M: the one asked for, the cheapest, or the smallest near enough to online."""
    if request.batches is not None:
        return request.batches
    if request.batch_cost is not None:
        return len(min(rows, key=lambda one: one.total_cost).sizes)
    enough = (1 - request.within) * (request.possible - online.regret)
    near = [one for one in rows if request.possible - one.regret >= enough]
    return len((near or [min(rows, key=lambda one: one.regret)])[0].sizes)


def _adversarial(request: Request) -> Plan:
    """Answer by the theorems alone: what contexts will come is not known.

    More batches are always better then, so that the most are chosen unless each has its cost.
    """
    rows = [_guarantee(request, number) for number in request.numbers]
    chosen = rows[-1]
    if request.batch_cost is not None:
        chosen = min(rows, key=lambda one: one.total_cost)
    if request.batches is not None:
        chosen = next(one for one in rows if one.batches == request.batches)
    return Plan(
        model=request.model,
        contexts="adversarial",
        grid=_grid(chosen.sizes),
        policy=ucb(request.model, request.limits.units),
        rows=tuple(rows),
        online=_guarantee(request, None),
        candidates=(),
        wrong_guesses=tuple,
        sample=request.sample,
        seen=0,
        batch_cost=request.batch_cost,
        within=request.within,
        seed=request.seed,
    )


def _guarantee(request: Request, batches: int | None) -> Row:
    """Return what Theorem 1 says of equal batches, for mean rewards in [-1, 1] times the noise."""
    model, units = request.model, request.limits.units
    dim = model.dim * (1 if model.layout == "shared" else model.actions)
    level = max(noise for _, noise in model.scenarios)

    def promise(largest: int) -> float:
        # Proved for equal batches: as many of the largest size as hold all units, and some more.
        number = -(-units // largest)
        bound = theory.sbucb_upper_bound(
            units=number * largest, dim=dim, actions=model.actions, batches=number
        )
        # No unit can lose more than the range of the means.
        return level * min(bound, 2.0 * units)

    largest = 1
    sizes: tuple[int, ...] = ()
    bound = cost = math.nan
    if batches is not None:
        sizes = request.limits.fit(_equal(units, batches))
        largest = max(sizes)
        if dim > 1:
            ends = np.cumsum(sizes).tolist()
            bound = level * theory.adversarial_lower_bound_on(ends, dim=dim)
        if request.batch_cost is not None:
            cost = promise(largest) + request.batch_cost * batches
    return Row(
        batches=batches,
        sizes=sizes,
        regret=math.nan,
        error=math.nan,
        of_online=promise(largest) / promise(1),
        earned=math.nan,
        best_share=math.nan,
        lower_bound=bound,
        rate=promise(largest),
        total_cost=cost,
    )


def _equal(units: int, batches: int) -> list[float]:
    return [float(end) for end in grids.uniform(units=units, batches=batches).ends]


def _grid(sizes: Sequence[int]) -> Grid:
    return grids.explicit(int(end) for end in np.cumsum(sizes))


def _model(
    actions: int,
    features: int | Sample | None,
    dim: int | None,
    effect: float | Sequence[float] | None,
    noise: float | Sequence[float],
    kappa: float | None,
) -> Model:
    if (features is None) == (dim is None):
        raise InvalidArgumentError(
            "features or dim",
            "given, one of the two",
            "neither" if dim is None else "both",
            "features: numbers that describe a unit, one model an action; dim: the length of each "
            "action's vector, one model for all.",
        )
    noises = _several("noise", noise)
    effects = [0.2 * float(np.mean(noises))] if effect is None else _several("effect", effect)
    sample = features if isinstance(features, Sample) else None
    if dim is not None:
        length = arguments.integer("dim", dim)
    elif sample is not None:
        length = 1 + sample.dim
    else:
        length = 1 + arguments.integer("features", features, at_least=0)  # type: ignore[arg-type]
    known = 1.0 if sample is None else sample.kappa
    return Model(
        layout="shared" if dim is not None else "block",
        actions=arguments.integer("actions", actions, at_least=2),
        dim=length,
        scenarios=tuple((e, n) for e in effects for n in noises),
        kappa=known if kappa is None else arguments.number("kappa", kappa, above=0, at_most=1),
        rows=None if sample is None else sample.whitened,
    )


def _several(name: str, value: float | Sequence[float]) -> list[float]:
    """Return one or more numbers above 0."""
    values: Sequence[float] = list(value) if np.ndim(value) else [value]  # type: ignore[arg-type, list-item]
    if not len(values) or isinstance(value, str):
        raise InvalidArgumentError(name, "a number above 0, or several", repr(value))
    return [arguments.number(name, one, above=0) for one in values]


def _optional(name: str, value: float | None) -> float | None:
    return None if value is None else arguments.number(name, value, at_least=0)


def _limits(
    units: int,
    min_batch: int,
    max_batch: int | None,
    first_batch: int | None,
    waves: Sequence[int] | None,
) -> Limits:
    T = arguments.integer("units", units)
    if T > MOST_UNITS:
        raise InvalidArgumentError("units", f"at most {MOST_UNITS:.0e}", units)
    smallest = arguments.integer("min_batch", min_batch)
    for name, value in (("max_batch", max_batch), ("first_batch", first_batch)):
        if value is not None:
            arguments.integer(name, value)
    if smallest > T:
        raise InvalidGridError("min_batch", f"at most units = {T}", smallest)
    largest = T if max_batch is None else max_batch
    if first_batch is not None and not smallest <= first_batch <= largest:
        raise InvalidGridError(
            "first_batch", f"between {smallest} and {largest}, as every batch", first_batch
        )
    if waves is not None:
        if min_batch != 1 or max_batch is not None or first_batch is not None:
            raise InvalidArgumentError(
                "waves", "given without min_batch, max_batch and first_batch", "both"
            )
        if not isinstance(waves, Sequence | np.ndarray) or not len(waves):
            raise InvalidArgumentError("waves", "a list of sizes", repr(waves))
        sizes = tuple(arguments.integer("waves", wave) for wave in waves)
        if sum(sizes) != T:
            raise InvalidGridError("waves", f"sizes that add up to units = {T}", sum(sizes))
        return Limits(units=T, waves=sizes)
    return Limits(units=T, smallest=smallest, largest=max_batch, first=first_batch)


def _numbers(limits: Limits, batches: int | None, max_batches: int | None) -> list[int]:
    """Return the table's numbers of batches, with the one asked for among them."""
    if batches is not None and arguments.integer("batches", batches) > limits.units:
        raise InvalidGridError("batches", f"at most units = {limits.units}", batches)
    usual = MAX_BATCHES if limits.waves is None else len(limits.waves)
    if limits.largest is not None:
        usual = max(usual, limits.fewest)
    most = usual if max_batches is None else arguments.integer("max_batches", max_batches)
    most = min(max(most, batches or 1), limits.units)
    numbers = {*range(1, min(most, MAX_BATCHES) + 1), most, limits.fewest}
    doubled = MAX_BATCHES
    while (doubled := 2 * doubled) < most:
        numbers.add(doubled)
    if batches is not None:
        feasible(limits, [batches])
        numbers.add(batches)
    return feasible(limits, sorted(number for number in numbers if number <= most))


def _whitened(statistics: Statistics, root: Floats) -> Past:
    """Return statistics in coordinates in which contexts are standard normal."""
    inverse = np.linalg.inv(root)
    return Past(inverse @ statistics.gram @ inverse.T, statistics.moment @ inverse.T)


def _context_root(statistics: Statistics, covariance: ArrayLike | None, model: Model) -> Floats:
    """Return the matrix that turns whitened contexts into those of the statistics.

    With features every unit's row is among the statistics, whichever action it got, so that mean
    and covariance can be read off them.
    """
    count, dim = int(statistics.count.sum()), statistics.dim
    if count <= dim:
        raise InvalidArgumentError("statistics", f"of more than {dim} units", f"{count} units")
    if model.layout == "shared":
        if covariance is None:
            raise InvalidArgumentError("covariance", "given with a plan for dim", "none")
        return _root(arguments.floats("covariance", covariance, (dim, dim)))
    if covariance is not None:
        raise InvalidArgumentError("covariance", "given with a plan for dim alone", "one")
    second = statistics.gram.sum(axis=0) / count
    if not math.isclose(second[0, 0], 1.0, rel_tol=1e-9):
        raise InvalidArgumentError(
            "statistics",
            "of rows that begin with the constant 1",
            f"mean square {second[0, 0]}",
        )
    mean = second[1:, 0]
    root = np.zeros((dim, dim))
    root[0, 0], root[1:, 0] = 1.0, mean
    if dim > 1:
        root[1:, 1:] = _root(second[1:, 1:] - np.outer(mean, mean))
    return root


def _root(covariance: Floats) -> Floats:
    """Return a root, judged free of the columns' units of measure."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if (scale > 0).all():
        correlation = covariance / np.outer(scale, scale)
        if np.linalg.eigvalsh(correlation).min() > 1e-8:
            return scale[:, None] * np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)
    raise InvalidArgumentError(
        "statistics",
        "of features that vary, none of them a combination of others",
        "some that do not",
        "Leave constant and redundant columns out, one level of each category among them.",
    )
