"""Plans with eligibility and capacities: predictions compared with simulations."""

import warnings
from functools import partial

import numpy as np
import pytest
from benchmarks.worlds import world

from seqbatch import grids
from seqbatch.core import kernels
from seqbatch.environments import Restricted
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning import plan as whole_plan
from seqbatch.planning.candidate_policies import candidates
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.trials.conditions import Conduct, choices, uniform_law
from seqbatch.simulation import simulate
from tests.cases import thorough
from tests.oracles.rationing import best_within, regret
from tests.planning.test_conduct import exploitation
from tests.planning.test_policy_candidates import costing
from tests.refusals import refused

#: Policies are compared where a test is about them.
plan = partial(whole_plan, compare=False)
SIZES = (150, 450, 1_400)
SHARES = (1.0, 0.6, 0.3)


def model_with(layout="block", **given):
    conduct = Conduct(actions=3, **given)
    return Model(layout=layout, actions=3, dim=4, scenarios=((0.4, 1.0),), conduct=conduct)


def predicted(model, sizes=SIZES):
    return model.ensemble(1_024, seed=1).rates(sizes).total(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["block", *thorough("shared")])
def test_eligibility_is_predicted(layout):
    model = model_with(layout, eligible=SHARES)
    limited = Restricted(world(model), shares=SHARES)
    grid = grids.explicit(np.cumsum(SIZES).tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        found = np.array([
            simulate(exploitation(model), limited, grid, seed=seed, method="direct").regret[-1]
            for seed in range(300)
        ])  # fmt: skip
    value, error = predicted(model)
    spread = np.hypot(error, found.std(ddof=1) / np.sqrt(len(found)))
    assert spread < 0.04 * value
    assert abs(found.mean() - value) < max(0.05 * value, 3 * spread)
    # Who may get less can lose less.
    assert value < 0.75 * predicted(model_with(layout))[0]


@pytest.mark.slow
def test_capacities_are_predicted():
    # The best assignment of a batch takes the cube of its size.
    sizes = (50, 120, 200)
    model = model_with(capacity=(1.0, 0.1, 0.25))
    found = np.array([regret(model, sizes, seed) for seed in range(400)])
    value, error = predicted(model, sizes)
    spread = np.hypot(error, found.std(ddof=1) / np.sqrt(len(found)))
    assert spread < 0.05 * value
    assert abs(found.mean() - value) < max(0.05 * value, 3 * spread)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"eligible": SHARES, "floor": 0.05, "missing": 0.3},
        *thorough(
            {"eligible": (1.0, 0.7, 0.5), "capacity": (1.0, 0.1, 0.2), "randomised": 0.2},
        ),
    ],
)
def test_policies_are_compared_under_the_same_restrictions(given):
    model = model_with(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        thinned = np.array([
            trial.regret(exploitation(model), SIZES, np.random.default_rng(seed), most=2_000)
            for seed, trial in enumerate(model.thinned(400, seed=9))
        ])  # fmt: skip
    value, error = predicted(model)
    spread = np.hypot(error, thinned.std(ddof=1) / np.sqrt(len(thinned)))
    assert spread < 0.04 * value
    assert abs(thinned.mean() - value) < max(0.05 * value, 3 * spread)
    assert len(candidates(model, costing(10.0, 1.0, SIZES), seed=0)) == 6


@pytest.mark.parametrize("room", [(1.0, 0.1, 0.3), (0.4, 0.4, 0.2), (1.0, 0.5, 0.02)])
def test_prices_find_the_best_assignment(room):
    scores = np.random.default_rng(3).normal([0.0, 1.0, 0.5], 1.0, (200, 3))
    chosen = np.empty(200, dtype=np.int64)
    kernels.assign_within(np.ascontiguousarray(scores.T), np.array(room), chosen)
    units, places = np.arange(200), np.array(np.array(room) * 200 + 1e-9, dtype=int)
    best = scores[units, best_within(scores, places)].sum()
    assert scores[units, chosen].sum() == pytest.approx(best, rel=1e-9)
    assert (np.bincount(chosen, minlength=3) <= places).all()


def test_who_may_get_nothing_else_gets_it():
    scores = np.array([[kernels.NEVER, 1.0, 2.0], [5.0, kernels.NEVER, 9.0]])
    chosen = np.empty(3, dtype=np.int64)
    kernels.assign_within(scores, np.array([1.0, 0.34]), chosen)
    assert chosen.tolist() == [1, 0, 0]


def test_chance_keeps_to_what_is_possible():
    # By hand: a unit may get the second action in half of the cases, and then half of these do.
    law = uniform_law((1.0, 0.5), (1.0, 1.0))
    assert law.shares == pytest.approx([0.75, 0.25], abs=0.01)
    short = uniform_law((1.0, 1.0, 1.0), (1.0, 0.1, 1.0))
    assert short.shares == pytest.approx([0.45, 0.1, 0.45], abs=1e-3)
    assert short.weights[0] / short.weights[1] == pytest.approx(4.5, rel=1e-3)
    assert choices((0.5, 0.5)) == ((1, 0.75), (2, 0.25))


def test_the_policy_has_what_chance_leaves():
    conduct = Conduct(actions=2, randomised=0.5, capacity=(1.0, 0.4))
    # Chance takes 0.4 of its half, so that 0.2 of all, 0.4 of the other half, is left.
    assert conduct.own_room == pytest.approx([1.0, 0.4], abs=1e-3)
    assert Conduct(actions=2, eligible=(1.0, 0.5), floor=0.1).chance == pytest.approx(0.15)


@pytest.mark.usefixtures("few_trials")
def test_a_plan_says_what_it_restricts():
    asked = {"units": 3_000, "actions": 2, "features": 1, "effect": 0.3, "max_batches": 2}
    made = plan(**asked, eligible=[1, 0.5], capacity=[None, 0.2], effect_spread=1)
    free = plan(**asked, effect_spread=1)
    text = str(made)
    assert "the shares of units that may get each action: 1, 0.5" in text
    assert "the largest shares of a batch that may get each action: 1, 0.2" in text
    assert made.rows[0].regret < 0.7 * free.rows[0].regret
    assert made.rows[0].lower_bound == pytest.approx(made.rows[0].regret)
    assert made.detection is None
    assert (made.as_dict()["eligible"], made.as_dict()["capacity"]) == ([1, 0.5], [1, 0.2])
    with refused("invalid-argument", field="trade", received="one with eligible or capacity"):
        _ = made.trade


@pytest.mark.parametrize(
    ("change", "field", "received"),
    [
        ({"eligible": [1.0]}, "eligible", "[1.0]"),
        ({"eligible": [1.0, 0.0]}, "eligible", "0.0"),
        ({"capacity": [1.0, 1.2]}, "capacity", "1.2"),
        ({"capacity": [0.3, 0.3]}, "capacity", "[0.3, 0.3] with eligible shares [1.0, 1.0]"),
        ({"capacity": [1.0, 0.3], "detect": 0.1}, "detect", "0.1"),
        ({"capacity": [1.0, 0.3], "features": None, "dim": 3}, "capacity", "[1.0, 0.3]"),
        (
            {"eligible": [1.0, 0.3], "contexts": "adversarial"},
            "randomised, floor, missing, delay, eligible, capacity, after, purpose and detect",
            "at least one of them",
        ),
    ],
)
def test_what_cannot_be_is_refused(change, field, received):
    with refused("invalid-argument", field=field, received=received):
        plan(**{"units": 5_000, "actions": 2, "features": 2, **change})
