"""Collapsed simulation of greedy policies under Gaussian contexts: draws a batch's sums directly.

Given theta_hat, the whitened context that a greedy policy chooses is Q v + G: v is the direction of
S theta_hat (S a root of the covariance), Q the largest of K standard normals, and G standard normal
orthogonal to v, independent of Q. The sums over a batch of n units can therefore be drawn directly,
exactly in distribution (proof of Theorem 3). The one exception: for more than a few thousand units,
the sum of squares below is matched in three moments:

- the whitened Gram matrix, in a frame with first axis v, is [[q^2, q g'], [q g, W + g g']], with
q^2 a
  sum of n independent Q^2, g ~ N(0, I) and W ~ Wishart(n - 1), both of dimension d - 1;
- the noise part of the moment is N(0, noise^2 gram);
- the expected regret given theta_hat is n C_K (|S theta| - <S theta, v>).

With theta_hat = 0, or a uniformly random first batch, the chosen context is simply N(0, Sigma). A
batch costs O(d^3) for any n. The policies' own code computes the estimates from the sums. The
recorded regret is the expected one, which has the same mean as the sampled one and far less
variance.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch import theory
from seqbatch.core import Contexts, Problem, Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.environments import Environment, Gaussian
from seqbatch.environments.base import branch, generator
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.policies import Policy, registry
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.rule import Ranking, Rule
from seqbatch.simulation.trajectory import Trajectory, diagnostics, problem_of

#: Up to this many units q^2 is summed term by term; beyond, three moments are matched.
EXACT = 4_096
#: The branch of these draws in an instance's seed tree.
COLLAPSED = 3


def collapses(policy: Policy, environment: Environment) -> bool:
    """Return whether this policy in this environment can be simulated this way.

    Subclasses are excluded, because they may change a rule, and a first batch by design, because
    its choice has another distribution.
    """
    greedy = registry.is_own(policy) and policy.greedy and getattr(policy, "design", None) is None
    return greedy and type(environment) is Gaussian and environment.layout == "shared"


def simulate_collapsed(
    policy: Policy,
    environment: Environment,
    grid: Grid,
    *,
    seed: SeedSequence,
    checkpoints: Integers,
    learn_last: bool = True,
) -> Trajectory:
    """Return a trajectory with the distribution of the direct one, but with expected regret."""
    if not collapses(policy, environment) or not isinstance(environment, Gaussian):
        raise InvalidArgumentError(
            "method",
            "'auto' or 'direct' unless the policy is SBPE, BPE, RBGL or LBGL and the environment "
            "Gaussian in the shared layout",
            f"'collapsed' with {type(policy).__name__} in {type(environment).__name__}",
        )
    greedy = cast(BasePolicy, policy)
    instance = environment.instance(seed)
    random = generator(branch(seed, COLLAPSED))
    problem = problem_of(environment, grid)
    law = _Law(environment.actions, environment.noise, instance.shape, instance.theta[0])
    state, rows, counts = greedy.begin(problem), [], []
    regret = reward = 0.0
    known = (float("nan"), float("nan"))
    for batch in range(1, grid.batches + 1):
        size = problem.size(batch)
        rule = greedy.rule(state)
        v = law.direction(rule, greedy.summary(state).theta[0])
        gained, lost = law.rates(v)
        counts.append(_counts(random, rule, problem, size, chosen=v is not None))
        if learn_last or batch < grid.batches:
            for group, start, stop in rule.parts(size):
                state = greedy.absorb(state, group, law.sums(random, stop - start, v))
            state = greedy.close(state)
            known = diagnostics(state, greedy, instance.theta)
        regret, reward = regret + size * lost, reward + size * gained
        rows.append((regret, reward, *known))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    ends = np.asarray(grid.ends, dtype=np.int64)
    marks = checkpoints[checkpoints <= grid.units]
    final = law.direction(greedy.final(state), greedy.summary(state).theta[0])
    return Trajectory(
        ends=ends,
        regret=columns[0],
        reward=columns[1],
        counts=np.array(counts),
        error=columns[2],
        eigenvalue=columns[3],
        checkpoints=marks,
        # Within a batch the expected regret grows by the same amount with every unit.
        checkpoint_regret=np.interp(marks, np.append(0, ends), np.append(0.0, columns[0])),
        units_read=grid.units,
        simple_regret=law.rates(final)[1] if learn_last else math.nan,
    )


@dataclass(frozen=True)
class _Law:
    """The distribution of the sums over a batch."""

    actions: int
    noise: float
    shape: Floats
    theta: Floats

    def direction(self, rule: Rule, theta: Floats) -> Floats | None:
        """Return v, or None where the choice does not depend on the contexts."""
        whitened = self.shape @ theta
        length = float(np.linalg.norm(whitened))
        if length == 0 or rule.kind != "highest":
            return None
        return whitened / length

    def rates(self, v: Floats | None) -> tuple[float, float]:
        """Return the expected reward and regret per unit."""
        height, truth = theory.expected_maximum(self.actions), self.shape @ self.theta
        gained = 0.0 if v is None else height * float(truth @ v)
        return gained, height * float(np.linalg.norm(truth)) - gained

    def sums(self, random: Generator, units: int, v: Floats | None) -> Statistics:
        """Draw the statistics of a part of a batch."""
        whitened = self._whitened_gram(random, units, v)
        gram = self.shape.T @ whitened @ self.shape
        # The noise component within the design is N(0, noise^2 gram); the rest is orthogonal to it.
        values, vectors = np.linalg.eigh(whitened)
        seen = random.standard_normal(len(values)) * (np.arange(len(values))[::-1] < units)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        blurred = self.noise * (self.shape.T @ (root @ seen))
        unseen = random.chisquare(units - len(values)) if units > len(values) else 0.0
        squares = self.theta @ gram @ self.theta + 2 * self.theta @ blurred
        squares += self.noise**2 * (float(seen @ seen) + unseen)
        return Statistics(
            gram=((gram + gram.T) / 2)[None],
            moment=(gram @ self.theta + blurred)[None],
            squares=np.array([squares]),
            count=np.array([units]),
        )

    def _whitened_gram(self, random: Generator, units: int, v: Floats | None) -> Floats:
        dim = len(self.theta)
        if v is None:
            return _wishart(random, dim, units)
        length = math.sqrt(_sum_of_squared_maxima(random, units, self.actions))
        g = random.standard_normal(dim - 1)
        framed = np.empty((dim, dim))
        framed[0, 0] = length**2
        framed[0, 1:] = framed[1:, 0] = length * g
        framed[1:, 1:] = _wishart(random, dim - 1, units - 1) + np.outer(g, g)
        # A reflection maps the first axis to v.
        axis = v - np.eye(dim)[0]
        size = float(axis @ axis)
        mirror = np.eye(dim) - (2 / size * np.outer(axis, axis) if size > 0 else 0.0)
        return mirror @ framed @ mirror


def _counts(
    random: Generator, rule: Rule, problem: Problem, units: int, *, chosen: bool
) -> Integers:
    """Draw how often each action was taken; where contexts decide, no action is preferred."""
    actions = problem.actions
    shares = np.full(actions, 1 / actions)
    if not chosen:
        nobody = Contexts(np.zeros((1, actions, problem.dim)), problem)
        tied = Ranking(scores=np.zeros((1, actions)), means=np.zeros((1, actions)))
        shares = rule.choose(nobody, tied, np.zeros(1))[1][0]
    if shares.max() == 1:
        # One action throughout: nothing to draw.
        return (units * shares).astype(np.int64)
    return random.multinomial(units, shares)


def _wishart(random: Generator, dim: int, freedom: int) -> Floats:
    """Draw the Gram matrix of `freedom` standard normal vectors."""
    if freedom < dim:
        rows = random.standard_normal((freedom, dim))
        return rows.T @ rows
    # Bartlett: the Cholesky factor has normals below a diagonal of chi variables.
    factor = np.tril(random.standard_normal((dim, dim)), -1)
    factor[np.diag_indices(dim)] = np.sqrt(random.chisquare(freedom - np.arange(dim)))
    return factor @ factor.T


def _sum_of_squared_maxima(random: Generator, units: int, actions: int) -> float:
    """Draw the sum of squares of `units` maxima of K standard normals."""
    from scipy.special import ndtri

    if units <= EXACT:
        maxima = ndtri(random.random(units) ** (1 / actions))
        return float(maxima @ maxima)
    mean, variance, third = squared_maximum_moments(actions)
    # A shifted gamma matches the mean, variance and skewness of the sum, which is nearly normal.
    shape = 4 * units * variance**3 / third**2
    scale = third / (2 * variance)
    return float(units * mean + scale * (random.standard_gamma(shape) - shape))


@cache
def squared_maximum_moments(actions: int) -> tuple[float, float, float]:
    """Return mean, variance and third central moment of the squared maximum of K normals."""
    second, fourth, sixth = (theory.maximum_moment(actions, power) for power in (2, 4, 6))
    variance = fourth - second**2
    return second, variance, sixth - 3 * second * fourth + 2 * second**3
