"""Bounds as numbers: known constants, order between them, and simulation below none of them."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from seqbatch import Learner, grids, theory
from seqbatch.planning.trials.draws import KeptDraws
from seqbatch.planning.trials.greedy_shared_model import SharedEnsemble
from seqbatch.policies import SBPE, ThompsonSampling
from tests.refusals import refused

SWEEP = [
    (T, d, K, M)
    for T, d, K, M in product(
        (100, 10_000, 10**7, 10**12), (2, 3, 10, 40), (2, 10, 1_000), (1, 2, 3, 7, 50)
    )
    if d**2 <= T and M <= T
]


def test_expected_maximum_of_normals():
    assert theory.expected_maximum(1) == pytest.approx(0, abs=1e-12)
    assert theory.expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-12)
    assert theory.expected_maximum(3) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-12)
    fifth = 5 / (4 * math.sqrt(math.pi)) + 15 / (2 * math.pi**1.5) * math.asin(1 / 3)
    assert theory.expected_maximum(5) == pytest.approx(fifth, rel=1e-12)
    # Large K against the expansion of extreme-value theory, which is good to a few per cent.
    a = math.sqrt(2 * math.log(10**9))
    expansion = a - (math.log(math.log(10**9)) + math.log(4 * math.pi)) / (2 * a) + 0.5772 / a
    assert theory.expected_maximum(10**9) == pytest.approx(expansion, rel=0.01)


def test_maximum_moments():
    assert theory.maximum_moment(1, 2) == pytest.approx(1, rel=1e-12)
    assert theory.maximum_moment(2, 2) == pytest.approx(1, rel=1e-12)
    third = 1 + math.sqrt(3) / (2 * math.pi)
    assert theory.maximum_moment(3, 2) == pytest.approx(third, rel=1e-10)
    assert theory.maximum_moment(1, 6) == pytest.approx(15, rel=1e-10)


def test_expected_largest_norm():
    assert theory.expected_largest_norm(1, 5) == pytest.approx(1, rel=1e-10)
    # Squared norms in two dimensions are exponential: the maximum's mean is a harmonic number.
    harmonic = sum(1 / k for k in range(1, 11))
    assert theory.expected_largest_norm(10, 2) == pytest.approx(harmonic, rel=1e-10)
    random = np.random.default_rng(0)
    sample = (random.standard_normal((200_000, 3, 4)) ** 2).mean(axis=2).max(axis=1)
    error = sample.std() / math.sqrt(len(sample))
    assert theory.expected_largest_norm(3, 4) == pytest.approx(sample.mean(), abs=4 * error)


@pytest.mark.parametrize(("T", "d", "K", "M"), SWEEP)
def test_lower_bounds_stay_below_upper_bounds(T, d, K, M):
    sizes = {"units": T, "dim": d, "batches": M}
    lower = theory.adversarial_lower_bound(**sizes)
    assert lower <= theory.sbucb_upper_bound(actions=K, **sizes)
    assert theory.adversarial_lower_bound_on(
        grids.uniform(units=T, batches=M).ends, dim=d
    ) >= lower * (1 - 1e-9)
    assert theory.stochastic_lower_bound(actions=K, **sizes) <= theory.stochastic_upper_rate(
        actions=K, **sizes
    )
    assert theory.problem_dependent_lower_bound(
        actions=K, **sizes
    ) <= theory.problem_dependent_upper_rate(actions=K, **sizes)


@pytest.mark.parametrize(("T", "d", "K", "M"), [case for case in SWEEP if case[3] <= 7])
def test_bounds_on_a_grid(T, d, K, M):
    for grid in (
        grids.minimax(units=T, dim=d, batches=M),
        grids.geometric(units=T, dim=d, batches=M),
        grids.uniform(units=T, batches=M),
    ):
        free = theory.stochastic_lower_bound(units=T, dim=d, actions=K, batches=M)
        given = theory.stochastic_lower_bound_on(grid.ends, dim=d, actions=K)
        certified = theory.certified_lower_bound_on(grid.ends, dim=d, actions=K)
        # One fixed action costs C_K / sqrt(d) a unit at most: nothing can be certified above it.
        trivial = T * theory.expected_maximum(K) / math.sqrt(d)
        assert free * (1 - 1e-9) <= given <= certified <= trivial
        assert theory.certified_lower_bound_on(grid, dim=d, actions=K) == certified
        scaled = theory.problem_dependent_lower_bound(units=T, dim=d, actions=K, batches=M)
        on_grid = theory.problem_dependent_lower_bound_on(grid.ends, dim=d, actions=K)
        assert scaled * (1 - 1e-9) <= on_grid


@pytest.mark.parametrize(("T", "d", "K"), [(10**6, 10, 5), (10**9, 40, 2), (400, 20, 3)])
def test_bounds_fall_as_batches_grow(T, d, K):
    for bound in (
        lambda M: theory.sbucb_upper_bound(units=T, dim=d, actions=K, batches=M),
        lambda M: theory.adversarial_lower_bound(units=T, dim=d, batches=M),
        lambda M: theory.stochastic_lower_bound(units=T, dim=d, actions=K, batches=M),
        lambda M: theory.stochastic_upper_rate(units=T, dim=d, actions=K, batches=M),
        lambda M: theory.problem_dependent_lower_bound(units=T, dim=d, actions=K, batches=M),
        lambda M: theory.problem_dependent_upper_rate(units=T, dim=d, actions=K, batches=M),
    ):
        values = [bound(M) for M in (1, 2, 3, 5, 8, 13, 50, 200)]
        assert all(after <= before for before, after in pairwise(values))
        assert values[-1] < values[0] or d**2 == T


def test_adversarial_lower_bound_has_the_papers_two_cases():
    T, d = 10_000, 20
    few, many = 4, 50
    assert theory.adversarial_lower_bound(units=T, dim=d, batches=few) == T / (2 * math.sqrt(few))
    assert theory.adversarial_lower_bound(units=T, dim=d, batches=many) == pytest.approx(
        T * math.sqrt(d) / (2 * math.sqrt(2) * many)
    )
    assert theory.adversarial_lower_bound(units=T, dim=1, batches=3) == 0


def test_explicit_upper_bound():
    T, d, K, M = 1_000, 3, 4, 10
    expected = (
        2 * (1 + math.sqrt(math.log(2 * K * T**2) / 2)) * math.log(T + 1)
        * math.sqrt(T / M) * (math.sqrt(M * d) + d * math.sqrt(T / M))
    )  # fmt: skip
    assert theory.sbucb_upper_bound(units=T, dim=d, actions=K, batches=M) == pytest.approx(expected)


def test_explicit_upper_rate():
    T, d, K, M, kappa = 10_000, 3, 4, 2, 0.25
    expected = math.sqrt(d * T * math.log(K) / kappa) * (T / d**2) ** (1 / 6)
    made = theory.stochastic_upper_rate(units=T, dim=d, actions=K, batches=M, kappa=kappa)
    assert made == pytest.approx(expected)


def test_batch_counts_that_match_online():
    for T, d in ((10**4, 5), (10**6, 10), (10**12, 40)):
        sizes = {"units": T, "dim": d}
        M = theory.adversarial_batches_for_online(**sizes)
        assert d * T / M <= math.sqrt(d * T) < d * T / (M - 1)
        M = theory.stochastic_batches_for_online(**sizes)
        assert (T / d**2) ** (1 / (2 * (2**M - 1))) <= 2
        assert M == 1 or (T / d**2) ** (1 / (2 * (2 ** (M - 1) - 1))) > 2
        M = theory.problem_dependent_batches_for_online(**sizes)
        assert (T / d**2) ** (1 / M) <= math.e < (T / d**2) ** (1 / (M - 1))


def test_exponents_are_the_slopes_of_the_rates():
    for M in (1, 2, 3, 6):
        sizes = {"dim": 5, "actions": 4, "batches": M}
        rise = [theory.stochastic_upper_rate(units=T, **sizes) for T in (10**6, 10**9)]
        slope = math.log(rise[1] / rise[0]) / math.log(10**3)
        assert theory.stochastic_exponent(M) == pytest.approx(slope)
        rise = [theory.problem_dependent_upper_rate(units=T, **sizes) for T in (10**6, 10**9)]
        slope = math.log(rise[1] / rise[0]) / math.log(10**3)
        assert theory.problem_dependent_exponent(M) == pytest.approx(slope)
    assert theory.adversarial_exponent(online=True) == 0.5
    assert theory.adversarial_exponent(online=False) == 1.0


def test_the_mesh_alone_beats_the_papers_constant(monkeypatch):
    """The numeric bound does not lean on the analytic one from which it starts."""
    grid = grids.minimax(units=10**6, dim=10, batches=3)
    given = theory.stochastic_lower_bound_on(grid, dim=10, actions=5)
    monkeypatch.setattr(theory, "stochastic_lower_bound_on", lambda *_, **__: 0.0)
    assert theory.certified_lower_bound_on(grid, dim=10, actions=5) > 3 * given


def test_bounds_that_need_two_dimensions_say_so():
    for bound in (theory.stochastic_lower_bound, theory.problem_dependent_lower_bound):
        with refused("invalid-argument", field="dim"):
            bound(units=10_000, dim=1, actions=2, batches=3)
    for ends in ([], [5, 3], "abc", [1.5]):
        with refused("invalid-argument", field="ends"):
            theory.certified_lower_bound_on(ends, dim=2, actions=2)


def test_nonsense_is_refused():
    with refused("invalid-argument", field="batches"):
        theory.adversarial_lower_bound(units=5, dim=2, batches=6)
    with refused("invalid-argument", field="units"):
        theory.stochastic_lower_bound(units=99, dim=10, actions=2, batches=2)
    with refused("invalid-argument", field="kappa"):
        theory.stochastic_upper_rate(units=99, dim=2, actions=2, batches=2, kappa=0)


@pytest.mark.parametrize("make", [SBPE, lambda: ThompsonSampling(samples=64)])
def test_no_policy_beats_the_certified_bound_under_its_prior(make):
    """Bayesian regret under the bound's own priors, worst over them, against the bound."""
    d, K, ends, trials = 4, 3, (64, 2_000), 60
    bound = theory.certified_lower_bound_on(ends, dim=d, actions=K)
    random = np.random.default_rng(0)
    worst = 0.0
    for nu in (0.05, 0.2, 0.5):
        regret = []
        for trial in range(trials):
            theta = nu / math.sqrt(d) * random.standard_normal(d)
            if np.linalg.norm(theta) > 1:
                continue
            learner = Learner(make(), grids.explicit(ends), actions=K, dim=d, seed=trial)
            x = random.standard_normal((ends[-1], K, d)) / math.sqrt(d)
            means = x @ theta
            actions = learner.replay(x, means + random.standard_normal((ends[-1], K)))
            best = means.max(axis=1)
            regret.append((best - means[np.arange(len(actions)), actions]).sum())
        worst = max(worst, float(np.mean(regret)))
    assert bound > 0
    assert worst >= bound


def test_the_bound_for_a_prior_is_the_proofs_and_holds():
    d, K, nu, ends = 4, 3, 0.6, (300, 2_000, 9_000)
    best = 0.0
    for cut in (1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0):
        total, start = 0.0, 0
        for end in ends:
            spread = (d - 1) ** 2 / (d**2 / nu**2 + theory.expected_largest_norm(K, d) * start)
            margin = spread - nu**2 * stats.chi2.sf(cut**2 * d, d + 2)
            height = theory.expected_maximum(K) / (2 * cut * nu * np.sqrt(d))
            total += (end - start) * height * max(margin, 0.0)
            start = end
        best = max(best, total)
    bound = theory.prior_lower_bound_on(ends, dim=d, actions=K, spread=nu)
    assert bound == pytest.approx(best)
    theta = nu / d * np.random.default_rng(1).standard_normal((2_000, d))
    trials = SharedEnsemble(theta, K, np.ones(2_000), KeptDraws(np.random.SeedSequence(1)))
    sizes = np.diff((0, *ends))
    assert 0 < bound < float(trials.rates(sizes.tolist()).regret.mean(axis=0) @ sizes)
