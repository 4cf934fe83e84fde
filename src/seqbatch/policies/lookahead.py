"""Lookahead: each wave is worth what its units earn and what it teaches about those to come.

Before a wave the parameters of action a have the posterior N(m_a, S_a). The wave gives a unit with
vector x action a with probability q_a(x), which is chosen to maximise

    N mean(q(x)' m(x)) + w mean(E max_a (u_a + s_a z_a)).

The first term is what the units earn. In the second, u_a is an action's mean for a unit to come, z
is standard normal, and s_a says how far the posterior mean will move: s_a^2 = x'(S_a - C_a) x with
C_a^-1 = S_a^-1 + N mean(q_a(x) x x') / s2. Of n units in the wave, `rest` after it, and `after`
units that will get the final rule, the wave stands for all that teach that rule: N = n and
w = rest + after if after <= rest; else N = n + rest and w = after.

Frank-Wolfe starts from equal shares. Each step adds a rule of the form: the action of highest
<x, m_a> + x' H_a x. What the wave gets is the mixture of these rules, each with a fixed weight, or
the highest mean where that is worth more. In the last wave of a campaign with ``after = 0`` it is
the highest mean.

*Rows.* The expectations need vectors of units. Evidence holds sums only, wherever these come from
(learners, exact sums of campaigns, statements of databases), so 256 rows are made from the sums:
normal, with the mean and the second moments of all units with outcomes, and the same in every
replay. The mean is read off the first column whose square is 1 for every unit, which is taken to
be the constant 1; without one the mean is taken to be 0. In the disjoint layout every row is the
vector of all actions. Rows decide how well a wave explores, not how it is drawn: logged
probabilities are exact.

*Without features*, with x = 1 for every unit, nothing is sampled: q is a point of the simplex,
found by exponentiated gradient, and the expected maximum is an integral in one dimension.

*Guarantee.* Not in the paper. With three waves, the first uniform and the last greedy, and the
normal model, the optimum over q without features is the best second wave. Beyond that it looks one
wave ahead. It starts with a uniform wave, because nothing distinguishes actions before.

*Noise.* s2 is the residual variance of the outcomes, from least squares for each action.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from seqbatch.core import Estimate, Problem, Statistics, arguments, least_squares, ridge
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import BasePolicy, State
from seqbatch.policies.choice import Ties
from seqbatch.policies.estimation import covariance_root
from seqbatch.policies.rule import Rule

#: Steps of Frank-Wolfe with features, and of exponentiated gradient without.
RULES, STEPS = 16, 60
#: Rows that stand for units, and normal vectors behind an expected maximum.
ROWS, DRAWS = 256, 48
#: Rules and actions with a smaller weight are dropped.
LEAST = 1e-4
#: A climb ends where a step changes no probability by more than this.
STILL = 1e-7


@dataclass(frozen=True, kw_only=True)
class LookaheadState(State):
    """The state of a linear policy, and the mixture of the open wave.

    Parameters
    ----------
    quadratic
        H of each rule and action, shape (rules, K, dim, dim).
    weights
        The weight of each rule, shape (rules,); 0 everywhere before any outcome, and where units
        have no features.
    chances
        The probability of each action where units have no features, shape (K,); 0 elsewhere.
    """

    quadratic: Floats
    weights: Floats
    chances: Floats


@dataclass(frozen=True, kw_only=True)
class Lookahead(BasePolicy):
    """The wave that earns and teaches most, for those to come and for `after` units more.

    Parameters
    ----------
    after
        How many units will get the final rule after the last wave; 0 by default.
    ridge
        lambda, the prior precision of each parameter divided by the noise's variance.
    ties
        ``"lowest"``: among equal scores the lowest action wins. ``"random"``: all are equally
        likely.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(
    ...     Lookahead(after=1_000), grids.explicit([60, 120, 180]), actions=2, dim=1,
    ...     layout="block", seed=1,
    ... )
    >>> decision = learner.assign(np.ones((60, 1)))
    >>> noise = np.random.default_rng(1).standard_normal(60)
    >>> learner.observe(0.2 * decision.actions + noise)
    >>> learner.assign(np.ones((1, 1))).probabilities.round(2)
    array([[0.44, 0.56]])
    """

    after: int = 0
    ridge: float = 1.0
    ties: Ties = "lowest"

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"after": 500, "ridge": 2.0},
        {"after": 20, "ties": "random"},
    )
    sharing: ClassVar[Literal["greedy", "thompson"]] = "thompson"

    def __post_init__(self) -> None:
        after = arguments.integer("after", self.after, at_least=0)
        object.__setattr__(self, "after", after)
        self._plain("ridge", above=0)
        arguments.choice("ties", self.ties, ("lowest", "random"))

    @property
    def ends_greedily(self) -> bool:
        """Whether nothing counts after the last batch, which then takes the best action."""
        return self.after == 0

    def numbers_kept(self, problem: Problem) -> int:
        """Return roughly how many numbers a state holds, including the rules of the mixture."""
        return super().numbers_kept(problem) + RULES * problem.models * problem.dim**2

    def begin(self, problem: Problem) -> LookaheadState:
        """Refuse actions that share a model, and return the state before the first unit."""
        if problem.layout == "shared":
            raise InvalidArgumentError(
                "layout",
                "'block' or 'disjoint' for Lookahead, which weighs each action's own posterior",
                "'shared'",
                "Use SBPE, SBUCB or ThompsonSampling where all actions share one model.",
            )
        state = super().begin(problem)
        return LookaheadState(
            **{name: getattr(state, name) for name in state.__dataclass_fields__},
            quadratic=np.zeros((RULES, problem.actions, problem.dim, problem.dim)),
            weights=np.zeros(RULES),
            chances=np.zeros(problem.actions),
        )

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return theta = 0 and A = ridge I."""
        return (ridge(Statistics.zero(problem.models, problem.dim), self.ridge),)

    def refit(self, state: State) -> State:
        """Update the posterior, and look ahead from the next wave."""
        assert isinstance(state, LookaheadState)
        evidence, problem = state.evidence[0], state.problem
        estimate, known = posterior(evidence, self.ridge)
        if not evidence.count.any():
            return replace(state, estimates=(estimate,))
        units, worth = horizon(problem, state.batch + 1, self.after)
        made = replace(state, estimates=(estimate,))
        # In units of the noise, so that the outcomes' unit of measurement does not matter.
        noise, known = np.sqrt(known.variance), known.standardised()
        if without_features(evidence):
            chances = best_chances(known, units, worth, self.ties)
            return replace(made, chances=chances, weights=np.zeros(RULES))
        quadratic, weights = best_mixture(known, rows_of(evidence), units, worth)
        return replace(
            made, quadratic=noise * quadratic, weights=weights, chances=np.zeros(problem.actions)
        )

    def rule(self, state: State) -> Rule:
        """Return the uniform rule before any outcome, and the mixture afterwards."""
        assert isinstance(state, LookaheadState)
        preferred = self.preference(state)
        if state.weights.any() or state.chances.any():
            return preferred
        return replace(preferred, kind="uniform", quadratic=None, weights=None)

    def preference(self, state: State) -> Rule:
        """Return the mixture of the open wave."""
        assert isinstance(state, LookaheadState)
        alike = state.chances.any()
        return Rule(
            kind="mixture",
            theta=state.estimates[0].theta,
            quadratic=None if alike else state.quadratic,
            weights=state.chances if alike else state.weights,
            ties=self.ties,
        )


# ----------------------------------------------------------------------
# What is known, and for how many units.


@dataclass(frozen=True)
class Beliefs:
    """What is known before a wave: N(means_a, covariances_a) for each action, and the noise.

    Parameters
    ----------
    means
        Shape (K, dim).
    covariances
        Shape (K, dim, dim).
    variance
        s2, the variance of an outcome given its unit's vector and action.
    """

    means: Floats
    covariances: Floats
    variance: float

    @cached_property
    def roots(self) -> Floats:
        """R of each action, with R' R equal to its covariance."""
        return covariance_root(self.covariances)

    def standardised(self) -> "Beliefs":
        """Return the same in units of the noise."""
        scale = np.sqrt(self.variance)
        return Beliefs(self.means / scale, self.covariances / self.variance, 1.0)


def posterior(evidence: Statistics, penalty: float) -> tuple[Estimate, Beliefs]:
    """Return the ridge regression of each action, as an estimate and as a posterior."""
    estimate, variance = ridge(evidence, penalty), residual_variance(evidence)
    covariances = variance * np.einsum("aji,ajk->aik", estimate.root, estimate.root)
    return estimate, Beliefs(estimate.theta, covariances, variance)


def residual_variance(evidence: Statistics) -> float:
    """Return the variance of outcomes around least squares for each action, all together.

    Where outcomes leave no residuals it is their mean square, and 1 where all of them are 0: with
    means of 0 the mixture does not depend on it.
    """
    total, units = float(evidence.squares.sum()), int(evidence.count.sum())
    if total <= 0:
        return 1.0
    fitted = least_squares(evidence)
    spare = int((evidence.count - fitted.rank).sum())
    rest = total - float(np.einsum("ap,ap->", fitted.theta, evidence.moment))
    # Outcomes without noise leave residuals of rounding errors: a floor keeps divisions safe.
    floor = max(1e-9 * total / units, np.finfo(np.float64).tiny)
    return max(rest / spare if spare > 0 else total / units, floor)


def horizon(problem: Problem, batch: int, after: int) -> tuple[int, int]:
    """Return N and w: the units that teach the final rule, and those that will profit.

    >>> problem = Problem(ends=(100, 200, 400), actions=2, dim=1, layout="block")
    >>> horizon(problem, 2, 50), horizon(problem, 2, 1_000), horizon(problem, 3, 0)
    ((100, 250), (300, 1000), (200, 0))
    """
    if batch > problem.batches:
        return 0, 0
    size, rest = problem.size(batch), problem.units - problem.ends[batch - 1]
    return (size, rest + after) if after <= rest else (size + rest, after)


def ones(second: Floats) -> Floats:
    """Return which columns have the square 1 for every unit, given the second moments."""
    return np.asarray(np.abs(np.diagonal(second) - 1) < 1e-9)


def without_features(evidence: Statistics) -> bool:
    """Return whether every unit's vector is the number 1."""
    return evidence.dim == 1 and bool(ones(second_moments(evidence)).all())


def second_moments(evidence: Statistics) -> Floats:
    """Return the mean of x x' over all units."""
    moments: Floats = evidence.gram.sum(axis=0) / evidence.count.sum()
    return moments


def rows_of(evidence: Statistics) -> Floats:
    """Return rows that stand for units, shape (ROWS, dim): normal, with the units' moments."""
    second = second_moments(evidence)
    constant = np.flatnonzero(ones(second))[:1]
    mean = second[constant].sum(axis=0)
    spread = second - np.outer(mean, mean)
    spread[constant], spread[:, constant] = 0.0, 0.0
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    rows: Floats = mean + normal_rows(evidence.dim) @ root
    rows[:, constant] = 1.0
    return rows


def normal_rows(dim: int) -> Floats:
    """Return the same ROWS normal rows at every call, in pairs x and -x around 0.

    Their second moments are exactly the identity where rows are many enough for that.
    """
    half = np.random.Generator(np.random.Philox(key=ROWS)).standard_normal((ROWS // 2, dim))
    if dim <= ROWS // 4:
        values, vectors = np.linalg.eigh(half.T @ half / len(half))
        half = half @ (vectors / np.sqrt(values)) @ vectors.T
    return np.concatenate([half, -half])


# ----------------------------------------------------------------------
# With features: a mixture of rules.


def best_mixture(known: Beliefs, rows: Floats, units: float, worth: float) -> tuple[Floats, Floats]:
    """Return H of each rule and action, and the weights of the rules."""
    K, dim = known.means.shape
    quadratic, weights = np.zeros((RULES, K, dim, dim)), np.zeros(RULES)
    means = rows @ known.means.T
    greedy = _taken(means)
    if worth > 0 and units > 0:
        z, q = quasi_normal(DRAWS, K), np.full((len(rows), K), 1 / K)
        for step in range(RULES):
            quadratic[step] = _worth_of_knowing(known, rows, q, units, worth, z)
            scores = means + np.einsum("ji,aik,jk->ja", rows, quadratic[step], rows)
            share = 2 / (step + 2)
            q = (1 - share) * q + share * _taken(scores)
            weights *= 1 - share
            weights[step] = share
        values = [_value(known, rows, each, units, worth, z) for each in (q, greedy)]
        if values[0] > values[1]:
            return quadratic, _kept(weights)
    return np.zeros_like(quadratic), np.eye(RULES)[0]


def _taken(scores: Floats) -> Floats:
    """Return 1 for each row's action of highest score, the lowest one of equals."""
    return np.asarray(np.eye(scores.shape[1])[scores.argmax(axis=1)])


def _kept(weights: Floats) -> Floats:
    """Return weights without the least, with a sum of 1."""
    kept = np.where(weights < LEAST, 0.0, weights)
    return np.asarray(kept / kept.sum())


def _spreads(
    known: Beliefs, rows: Floats, q: Floats, units: float
) -> tuple[Floats, Floats, Floats]:
    """Return C, and for each row and action u and s."""
    information = np.einsum("ja,ji,jk->aik", q, rows, rows) * (units / len(rows) / known.variance)
    before = known.roots
    # C = R' (1 + R (information) R')^-1 R by eigenvalues, which rounding cannot make singular: the
    # units of measurement of features may differ by many orders of magnitude.
    values, vectors = np.linalg.eigh(before @ information @ before.transpose(0, 2, 1))
    values = np.maximum(values, 0.0)[:, :, None]
    turned = vectors.transpose(0, 2, 1) @ before
    after = turned.transpose(0, 2, 1) @ (turned / (1 + values))
    moved = np.sqrt(values / (1 + values)) * turned @ rows.T
    return after, rows @ known.means.T, np.sqrt((moved**2).sum(axis=1).T)


def _worth_of_knowing(
    known: Beliefs, rows: Floats, q: Floats, units: float, worth: float, z: Floats
) -> Floats:
    """Return H: by how much one more unit with vector x and action a raises the value, x' H_a x."""
    after, u, s = _spreads(known, rows, q, units)
    rise = _rises(u, s, z) * (worth / len(rows) / known.variance)
    spread = np.einsum("ja,ji,jk->aik", rise, rows, rows)
    quadratic: Floats = after @ spread @ after
    return (quadratic + np.swapaxes(quadratic, 1, 2)) / 2


def _rises(u: Floats, s: Floats, z: Floats) -> Floats:
    """Return d E max / d s^2 for each row and action, from the density at the best other."""
    drawn = u[:, None, :] + s[:, None, :] * z
    places = np.arange(u.shape[1])
    order = np.partition(drawn, -2, axis=2)
    first, second, best = order[..., -1], order[..., -2], drawn.argmax(axis=2)
    others = np.where(best[..., None] == places, second[..., None], first[..., None])
    safe = np.where(s > 0, s, 1.0)
    away = (others - u[:, None, :]) / safe[:, None, :]
    density = (np.exp(-(away**2) / 2) / np.sqrt(2 * np.pi)).mean(axis=1)
    return np.where(s > 0, density / (2 * safe), 0.0)


def _value(known: Beliefs, rows: Floats, q: Floats, units: float, worth: float, z: Floats) -> float:
    """Return the objective at q."""
    _, u, s = _spreads(known, rows, q, units)
    earned = float((q * u).sum(axis=1).mean())
    later = float((u[:, None, :] + s[:, None, :] * z).max(axis=2).mean())
    return units * earned + worth * later


def quasi_normal(count: int, columns: int) -> Floats:
    """Return fixed normal vectors: Halton points in the bases 2, 3, 5, ..., shape (count, columns).

    In a base above 7, digits are multiplied by about 0.6 of it: few points would else rise
    together in all such columns.

    >>> quasi_normal(3, 2).round(3)
    array([[ 0.   , -0.431],
           [-0.674,  0.431],
           [ 0.674, -1.221]])
    """
    # Imported here, so that importing the package stays fast.
    from scipy.special import ndtri

    points = np.empty((count, columns))
    for column, base in enumerate(_primes(columns)):
        turn = 1 if base <= 7 else round(0.618 * base)
        left, scale, total = np.arange(1, count + 1), 1.0, np.zeros(count)
        while left.any():
            scale /= base
            total += scale * (left % base * turn % base)
            left = left // base
        points[:, column] = total
    return np.asarray(ndtri(points))


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


# ----------------------------------------------------------------------
# Without features: one probability for each action.


def best_chances(known: Beliefs, units: float, worth: float, ties: Ties) -> Floats:
    """Return the probability of each action."""
    means = known.means[:, 0]
    best = means == means.max()
    greedy = best / best.sum() if ties == "random" else np.eye(len(means))[means.argmax()]
    if worth <= 0 or units <= 0:
        return np.asarray(greedy)
    law = _Plain(means, known.covariances[:, 0, 0], known.variance, units, worth)
    q = _climbed(law.value_and_slope, len(means))
    return _kept(q) if law.value_and_slope(q)[0] > law.value_and_slope(greedy)[0] else greedy


def _climbed(value_and_slope: Callable[[Floats], tuple[float, Floats]], actions: int) -> Floats:
    """Climb from equal shares by exponentiated gradient; a step that loses is taken back.

    It ends after STEPS, or where a step hardly changes anything.
    """
    logs, value, pace = np.full(actions, -np.log(actions)), -np.inf, 1.0
    ahead = slope = np.zeros(actions)
    for _ in range(STEPS):
        tried = np.maximum(logs + ahead, -100.0)
        tried -= np.logaddexp.reduce(tried)
        found, slope_there = value_and_slope(np.exp(tried))
        if found >= value:
            if value > -np.inf and np.abs(np.exp(tried) - np.exp(logs)).max() < STILL:
                break
            logs, value, slope, pace = tried, found, slope_there, 1.5 * pace
        else:
            pace /= 4
        spread = float(np.ptp(slope))
        ahead = pace * (slope - slope.max()) / spread if spread > 0 else np.zeros(actions)
    return np.asarray(np.exp(logs))


@dataclass(frozen=True)
class _Plain:
    """The objective over the simplex, where every unit's vector is 1."""

    means: Floats
    variances: Floats
    noise: float
    units: float
    worth: float

    def value_and_slope(self, q: Floats) -> tuple[float, Floats]:
        """Return the objective at q, and its slope divided by N."""
        information = self.units * q / self.noise
        after = self.variances / (1 + self.variances * information)
        s = np.sqrt(after * information * self.variances)
        expected, rises = expected_maximum(self.means, s)
        value = self.units * float(q @ self.means) + self.worth * expected
        return value, self.means + self.worth * rises * after**2 / self.noise


#: Between these multiples of every s, integrals are sums over the points of Gauss and Legendre.
CUTS = np.arange(-8.0, 9.0)
POINTS, POINT_WEIGHTS = np.polynomial.legendre.leggauss(6)


def expected_maximum(u: Floats, s: Floats) -> tuple[float, Floats]:
    """Return E max (u_a + s_a z_a) and its derivatives by s_a^2, as integrals over the maximum.

    >>> value, slopes = expected_maximum(np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    >>> round(float(value * np.sqrt(np.pi)), 9), (slopes * np.sqrt(np.pi)).round(9)
    (1.0, array([0.25, 0.25]))
    """
    from scipy.special import log_ndtr

    if not s.any():
        return float(u.max()), np.zeros_like(u)
    s = np.maximum(s, 1e-9 * s.max())
    cuts = np.unique((u[:, None] + s[:, None] * CUTS).ravel())
    half = np.diff(cuts)[:, None] / 2
    t = (cuts[:-1, None] + half * (1 + POINTS)).ravel()
    length = (half * POINT_WEIGHTS).ravel()
    away = (t[:, None] - u) / s
    below = log_ndtr(away)
    all_below = below.sum(axis=1)
    value = float(cuts[0] + length @ -np.expm1(all_below))
    # f_a times the density of the best other: logs, as both may be tiny.
    ratio = -(away**2) / 2 - np.log(np.sqrt(2 * np.pi) * s) - below
    top = ratio.max(axis=1, keepdims=True)
    own = np.exp(ratio - top)
    others = np.maximum(own.sum(axis=1, keepdims=True) - own, 0.0)
    joint = own * others * np.exp(all_below[:, None] + 2 * top)
    return value, (length @ joint) / 2
