"""Uniform starts: counts as they are drawn, and failures that are drawn on purpose."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.random import SeedSequence
from scipy import integrate, stats

from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.trials.draws import (
    KeptDraws,
    binomials,
    block_start,
    shared_start,
    square_start,
    with_near_ties,
)

TRIALS = 200_000


@pytest.mark.parametrize(("number", "share"), [(1, 0.3), (12, 0.5), (300, 0.02), (5_000, 0.3)])
def test_binomials_are_quantiles(number, share):
    normals = np.linspace(-4, 4, 41)
    expected = stats.binom.ppf(stats.norm.cdf(normals), number, share)
    found = binomials(normals, np.full(41, float(number)), share)
    assert np.abs(found - expected).max() <= (1 if number * share * (1 - share) > 100 else 0)


def test_nothing_is_random_where_the_chance_is_one():
    normals = np.random.default_rng(1).standard_normal(10_000)
    assert (binomials(normals, np.full(10_000, 7.0), 1.0) == 7).all()
    assert (binomials(normals, np.full(10_000, 7.0), 0.0) == 0).all()


def check_mean(values, expected):
    """Check a mean at four and a half standard errors, and that these are small."""
    error = values.std() / math.sqrt(len(values))
    assert error < 0.2 * expected
    assert abs(values.mean() - expected) < 4.5 * error


@pytest.mark.parametrize(("actions", "returned", "size"), [(2, 1.0, 40), (3, 0.7, 70)])
def test_failures_are_common_in_the_trials_and_rare_by_their_weight(actions, returned, size):
    start = block_start(
        KeptDraws(SeedSequence(1)), TRIALS,
        size=size, later=10**6, shares=np.full(actions, returned / actions), dim=4,
    )  # fmt: skip
    assert start.weight.max() <= 4 / 3 + 1e-12
    share = returned / actions
    for count in (0, 2, 4, round(size * share)):
        for action in range(actions):
            chance = stats.binom.pmf(count, size, share)
            check_mean(start.weight * (start.count[:, action] == count), chance)
    assert stats.binom.cdf(2, size, share) < 1e-5
    assert ((start.count <= 2).any(axis=1)).mean() > 0.01
    both = start.weight * start.count[:, 0] * start.count[:, 1]
    check_mean(both, size * (size - 1) * share**2)


def test_large_first_batches_are_left_to_chance():
    start = block_start(
        KeptDraws(SeedSequence(1)), 100, size=500, later=10**6, shares=np.full(2, 0.5), dim=4
    )
    assert (start.weight == 1).all()
    assert (start.count.sum(axis=1) == 500).all()
    assert start.count[:, 0].std() == pytest.approx(math.sqrt(125), rel=0.3)


def test_nearly_singular_grams_count_as_often_as_they_happen():
    draws = KeptDraws(SeedSequence(1))
    diagonal = np.random.default_rng(2).standard_normal(TRIALS)
    squares, weight = shared_start(draws, diagonal, np.full(TRIALS, 3.0))
    for small in (1e-4, 1e-2, 1.0, 5.0):
        check_mean(weight * (squares < small), stats.chi2.cdf(small, 3))
    check_mean(weight * squares, 3.0)


def test_square_grams_that_are_nearly_singular_count_as_often_as_they_happen():
    normals = np.random.default_rng(2).standard_normal((TRIALS, 2))
    freedom = np.tile([1.0, 3.0], (TRIALS, 1))
    squares, weight = square_start(KeptDraws(SeedSequence(1)), normals, freedom)
    for small in (1e-6, 1e-2, 1.0):
        check_mean(weight * (squares[:, 0] < small), stats.chi2.cdf(small, 1))
    check_mean(weight * squares[:, 1], 3.0)
    _, alike = square_start(KeptDraws(SeedSequence(1)), normals, freedom + 1)
    np.testing.assert_allclose(alike, 1.0)


@pytest.mark.parametrize("models", [1, 2, 4])
def test_near_ties_count_as_often_as_they_happen(models):
    random = np.random.default_rng(3)
    drawn, weight = with_near_ties(random.standard_normal((TRIALS, models)), random)
    check_mean(weight * (drawn**2).sum(axis=1), models)
    gap = drawn[:, 0] if models == 1 else (drawn[:, 0] - drawn[:, 1]) / math.sqrt(2)
    for near in (0.001, 0.03, 1.0):
        check_mean(weight * (np.abs(gap) < near), 2 * stats.norm.cdf(near) - 1)


@pytest.mark.parametrize(("effect", "first"), [(50.0, 2), (1.0, 6), (0.05, 100)])
def test_one_number_for_all_has_a_formula(effect, first):
    """With d = 1 only the sign of theta matters; S is the chi-square of the first batch.

    P(wrong) is E Phi(-|theta| sqrt(S)), and what is lost then is 2 C_2 |theta| a unit.
    """
    model = Model(layout="shared", actions=2, dim=1, scenarios=((effect, 1.0),))
    spread, units = model.spread(effect), 3_000

    def wrong(theta):
        # By parts: the t law of `first` degrees of freedom.
        return stats.t.sf(theta * math.sqrt(first), first)

    def lost(theta):
        return theta * wrong(theta) * 2 * stats.norm.pdf(theta / spread) / spread

    edges = [0, 0.01 * spread, 0.1 * spread, spread, 8 * spread]
    mean = sum(integrate.quad(lost, *pair)[0] for pair in pairwise(edges))
    exact = first * effect + (units - first) * 2 / math.sqrt(math.pi) * mean
    sizes = (first, units - first)
    found, error = model.ensemble(60_000, seed=1).rates(sizes).total(sizes)
    assert error < 0.05 * exact
    assert abs(found - exact) < 4 * error


def test_unequal_shares_are_drawn_as_they_are():
    """With and without bad luck on purpose, counts have the shares' means and a binomial's law."""
    shares = np.array([0.7, 0.2, 0.1])
    for size, later in ((60, 10**6), (400, 10)):
        start = block_start(
            KeptDraws(SeedSequence(1)), 50_000, size=size, later=later, shares=shares, dim=4
        )
        weight = start.weight[:, None]
        assert (start.count.sum(axis=1) == size).all()
        mean = (weight * start.count).mean(axis=0)
        variance = (weight * (start.count - size * shares) ** 2).mean(axis=0)
        assert mean == pytest.approx(size * shares, rel=0.02)
        assert variance == pytest.approx(size * shares * (1 - shares), rel=0.05)
