"""One action for everybody at the end: plans by simple regret, with exploration sampling."""

import math

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch.core import Contexts, Problem, Statistics
from seqbatch.planning import plan, replan
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.planning.trials.draws import KeptDraws
from seqbatch.planning.trials.exploration_sampling import (
    ChoiceEnsemble,
    chances_of_best,
    exploring_shares,
)
from seqbatch.policies import ThompsonSampling
from tests.cases import thorough
from tests.refusals import refused

THETA = np.array([0.0, 0.05, 0.2, 0.3])
SMALL = {"units": 2_000, "actions": 3, "features": 0, "purpose": "choose"}


def ensemble(trials, theta=THETA, **changes):
    return ChoiceEnsemble(
        np.tile(theta, (trials, 1)), np.ones(trials), KeptDraws(SeedSequence(3)), **changes
    )


def test_the_published_probabilities_of_being_best():
    # Kasy and Sautmann's experiment, by a normal approximation of the beta posteriors.
    units = np.array([867, 3188, 1766, 334, 987, 1258])
    mean = (np.array([139, 624, 324, 48, 166, 222]) + 1) / (units + 2)
    found = chances_of_best(mean[None], np.sqrt(mean * (1 - mean) / (units + 3))[None])[0]
    np.testing.assert_allclose(found, [0.006, 0.777, 0.132, 0.009, 0.021, 0.056], atol=0.008)


@pytest.mark.parametrize("ratio", [1, 5, 15])
def test_chances_are_those_of_draws(ratio):
    random = np.random.default_rng(ratio)
    mean, spread = random.standard_normal((6, 4)), random.uniform(1, ratio, (6, 4))
    draws = (mean + spread * random.standard_normal((200_000, 6, 4))).argmax(axis=2)
    share = np.array([np.bincount(draws[:, trial], minlength=4) for trial in range(6)]) / 200_000
    np.testing.assert_allclose(chances_of_best(mean, spread), share, atol=0.01)


def test_shares_are_those_of_the_policy():
    problem = Problem(ends=(400, 500), actions=4, dim=1, layout="block")
    random = np.random.default_rng(1)
    actions = np.arange(400) % 4
    outcomes = 0.3 * THETA[actions] + random.standard_normal(400)
    policy = ThompsonSampling(objective="choose", samples=5_000, scale=0.9)
    sums = Statistics.zero(4, 1).add(np.ones((400, 1)), outcomes, actions)
    state = policy.close(policy.absorb(policy.begin(problem), 0, sums))
    unit = Contexts(np.ones((1, 1)), problem)
    found = policy.assign(state, unit, np.zeros(1), np.zeros(1, dtype=np.int64)).probabilities
    count = sums.count + 1
    best = chances_of_best((sums.moment[:, 0] / count)[None], 0.9 / np.sqrt(count)[None])
    np.testing.assert_allclose(found, exploring_shares(best), atol=0.02)


def test_equal_shares_lose_what_a_simulation_loses():
    found = ensemble(2).rates([600])
    random = np.random.default_rng(1)
    means = THETA + random.standard_normal((200_000, 4)) / np.sqrt(150)
    chosen = means.argmax(axis=1)
    assert found.regret[0].tolist() == pytest.approx([0, (0.3 - THETA[chosen]).mean()], rel=0.02)
    assert found.best[0, 1] == pytest.approx((chosen == 3).mean(), rel=0.01)
    assert found.uniform[0] == pytest.approx(0.3 - THETA.mean())
    # Units of the experiment count for nothing, and the choice for one.
    assert found.total([600])[0] == pytest.approx(found.regret[0, 1])


@pytest.mark.parametrize(
    "conduct",
    [Conduct(delay=1, missing=0.5, randomised=0.5, actions=4), *thorough(Conduct())],
)
def test_trials_lose_what_the_policys_own_code_loses(conduct):
    sizes, trials = (80, 80, 80), 1_500
    found, error = ensemble(6_000, conduct=conduct).rates(sizes).total(sizes)
    lost = np.empty(trials)
    for seed in range(trials):
        random = np.random.default_rng(seed)
        policy = ThompsonSampling(
            objective="choose", scale=1.0, samples=256, first="uniform", ties="random"
        )
        problem = Problem(ends=(80, 160, 240), actions=4, dim=1, layout="block")
        state, late = policy.begin(problem), []
        for wave in range(3):
            units = Contexts(np.ones((80, 1)), problem)
            actions = policy.assign(state, units, random.random(80), np.arange(80)).actions
            share = 1.0 if wave <= conduct.delay else conduct.randomised
            actions = np.where(random.random(80) < share, random.integers(0, 4, 80), actions)
            back = np.where(random.random(80) < conduct.returned, actions, -1)
            outcomes = THETA[actions] + random.standard_normal(80)
            late.append(Statistics.zero(4, 1).add(np.ones((80, 1)), outcomes, back))
            if wave >= conduct.delay:
                state = policy.absorb(state, 0, late.pop(0))
            state = policy.close(state) if wave < 2 else state
        for sums in late:
            state = policy.absorb(state, 0, sums)
        lost[seed] = 0.3 - THETA[policy.summary(policy.close(state)).theta[:, 0].argmax()]
    spread = np.hypot(error, lost.std() / np.sqrt(trials))
    assert spread < 0.06 * found
    assert abs(lost.mean() - found) < 3.5 * spread


def test_batches_help_and_late_outcomes_do_not():
    waves = [150] * 4
    one, four = (ensemble(4_000).rates(sizes).total(sizes)[0] for sizes in ([600], waves))
    assert four < 0.9 * one
    late = ensemble(200, conduct=Conduct(delay=3)).rates(waves).total(waves)[0]
    assert late == pytest.approx(one)


@pytest.mark.usefixtures("few_trials")
def test_a_plan_shows_simple_regret_and_the_right_choice():
    made = plan(**SMALL, effect=0.1, max_batches=3, batches=3)
    assert isinstance(made.policy, ThompsonSampling)
    assert made.policy.objective == "choose"
    row, [first, *_] = made.row, made.rows
    assert 0.5 < first.best_share < row.best_share < 1
    assert row.regret < first.regret < 0.1
    assert row.regret <= row.equal
    assert made.online.regret <= row.regret
    assert made.request.possible == pytest.approx(made.model.effect)
    assert all(math.isnan(each) for each in (row.median, row.final, row.lower_bound, row.rate))
    said = str(made)
    assert "Simple regret (what a unit is expected to lose afterwards" in said
    assert "one action is chosen for all" in said
    assert "over equal shares for all units" in said
    [costs, guesses, *_] = made.tables()
    assert {"simple regret", "right choice", "in equal batches"} <= set(costs.columns)
    assert "simple regret by grid" in guesses.title
    assert made.as_dict()["purpose"] == "choose"
    assert made.sensitivity[-1].best <= made.sensitivity[-1].regret
    # What a few features or many say of a unit does not matter.
    other = plan(**{**SMALL, "features": 200}, effect=0.1, max_batches=3, batches=3)
    assert other.rows == made.rows
    with refused("invalid-argument", field="before"):
        replan(made, seen=500, statistics=Statistics.zero(cells=3, dim=1))


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "learn"},
        {"features": None, "dim": 3},
        {"after": 100},
        {"eligible": [1, 0.5, 0.5]},
        {"batch_cost": 3.0},
    ],
)
def test_what_does_not_go_with_a_choice_is_refused(change):
    with refused("invalid-argument", field="purpose"):
        plan(**{**SMALL, **change})
