"""The precision predicted before a campaign, compared with simulated campaigns."""

import numpy as np
import pytest
from benchmarks.coverage.cells import Cell
from benchmarks.coverage.worlds import simulate_campaign
from scipy.stats import norm

from seqbatch.inference import Lift, pool, summarise
from seqbatch.inference.planned_precision import detectable_lift, planned_error

FIVE = (0.1, 0.15, 0.2, 0.25, 0.3)


@pytest.mark.parametrize("cell", [Cell(), Cell(units=6_000, sizes=FIVE), Cell(randomised=0.3)])
def test_planned_errors_are_those_of_campaigns(cell):
    """Where nothing differs, preferences are by chance: a third of units prefer each action."""
    estimates = []
    for seed in range(60):
        run = simulate_campaign(cell, np.random.default_rng(seed))
        summaries = summarise(run.waves, contrasts=[Lift(1), Lift(2)])
        estimates += [pool(summaries, Lift(a), cell.plan.shares).error for a in (1, 2)]
    planned = planned_error(
        cell.counts,
        actions=3,
        randomised=cell.randomised,
        floor=cell.floor,
        columns=3,
        noise=1.0,
    )
    assert planned == pytest.approx(np.mean(estimates), rel=0.12)


def test_by_hand():
    """One wave of 100, two actions, all back: sigma^2 2K (1 + d)/n + V/n."""
    price = 2 / (50 - 3)
    expected = (9 * 4 * (1 + price) + 5) / 100
    made = planned_error(
        [100], actions=2, randomised=0, floor=0, columns=2, noise=3.0, lift_variance=5.0
    )
    assert made**2 == pytest.approx(expected)


def test_a_detectable_lift_is_found_as_often_as_it_says():
    lift = detectable_lift(0.1, power=0.9)
    assert norm.sf(1.959964 - lift / 0.1) == pytest.approx(0.9, abs=1e-6)
