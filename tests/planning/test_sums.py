"""Sums that are drawn for whole batches have the moments of sums over drawn units."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch.planning.trials.draws import KeptDraws
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.planning.trials.greedy_runs import Batch
from seqbatch.planning.trials.greedy_shared_model import SharedEnsemble
from seqbatch.planning.trials.thinned_units import ThinnedTrial
from seqbatch.policies import UniformRandom

TRIALS = 20_000


def assert_alike(grams, drawn):
    """Compare first and second moments, entry by entry, at four and a half standard errors."""
    for power in (1, 2):
        one, other = grams**power, drawn**power
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(grams))
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * error + 1e-9).all()


def test_chosen_vectors_of_the_shared_model():
    """Of 12 units, each with 4 vectors of which the one furthest along a direction is taken."""
    direction = np.array([0.6, 0.0, 0.8])
    trials = SharedEnsemble(np.ones((TRIALS, 3)), 4, np.ones(TRIALS), KeptDraws(SeedSequence(1)))
    factors = trials._factors(1, 12, np.broadcast_to(direction, (TRIALS, 3)))
    x = np.random.default_rng(2).standard_normal((TRIALS, 12, 4, 3))
    best = (x @ direction).argmax(axis=2)
    chosen = np.take_along_axis(x, best[..., None, None], axis=2)[:, :, 0]
    assert_alike(factors @ np.swapaxes(factors, 1, 2), np.swapaxes(chosen, 1, 2) @ chosen)


def test_rows_of_the_block_model_by_action():
    """Of 12 units, each given to the action of higher score."""
    estimate = np.array([[0.1, 0.4, 0.0, 0.0, 0.2], [0.0, -0.2, 0.3, 0.0, 0.0]])
    every = np.broadcast_to(estimate, (TRIALS, 2, 5))
    trials = BlockEnsemble(every, np.ones(TRIALS), KeptDraws(SeedSequence(1)), points=12)
    batch = Batch(number=1, size=12, blind=0.0, own=12, later=0)
    factors = trials._chosen_factors(batch, trials._choose(1, every, 12))
    z = np.random.default_rng(2).standard_normal((TRIALS, 12, 4))
    rows = np.concatenate([np.ones((TRIALS, 12, 1)), z], axis=2)
    first = (rows @ estimate[0] >= rows @ estimate[1])[..., None]
    mine = np.stack([rows * first, rows * ~first], axis=1)
    assert_alike(factors @ np.swapaxes(factors, -1, -2), np.swapaxes(mine, -1, -2) @ mine)


@dataclass(frozen=True, kw_only=True)
class Listening(UniformRandom):
    """Keeps the sums that it is taught, in a list."""

    heard: list

    def absorb(self, state, group, statistics):
        self.heard.append(statistics)
        return super().absorb(state, group, statistics)


def test_few_units_are_as_noisy_as_the_batch_that_they_stand_for():
    policy = Listening(heard=[])
    trial = ThinnedTrial(np.zeros((2, 1)), 3.0, 2, "block", lambda _, units: np.ones((units, 1)))
    for seed in range(400):
        trial.regret(policy, [1_000, 1], np.random.default_rng(seed), most=10)
    assert {int(sums.count.sum()) for sums in policy.heard} == {1_000}
    # The sum of 1,000 rewards that are nothing but noise of standard deviation 3.
    totals = np.array([sums.moment.sum() for sums in policy.heard])
    assert totals.std() == pytest.approx(3 * np.sqrt(1_000), rel=4 / np.sqrt(2 * 400))
