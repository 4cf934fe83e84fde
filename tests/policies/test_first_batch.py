"""The first batch: uniform where each action has a model of its own, unless stated."""

from dataclasses import replace

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.core import Statistics
from seqbatch.environments import ArrayEnvironment, Gaussian
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    EpsilonGreedy,
    JointRidge,
    LinUCB,
    SupSBUCB,
    ThompsonSampling,
)
from seqbatch.policies.history import History
from seqbatch.simulation import simulate
from tests.instances import actions_of, instance
from tests.oracles import greedy
from tests.oracles.sbucb import sbucb

POLICIES = (SBUCB, SupSBUCB, SBPE, BPE, RBGL, LBGL, ThompsonSampling, EpsilonGreedy, JointRidge)
OWN_MODELS = pytest.mark.parametrize("layout", ["block", "disjoint"])


def played(policy, layout, *, means=(1.0, 2.0, 3.0), sizes=(200, 200, 1_600)):
    """Play a campaign in which the last action is best; return each batch's decision."""
    random = np.random.default_rng(1)
    grid = grids.explicit(np.cumsum(sizes).tolist())
    learner = Learner(policy, grid, actions=3, dim=3, layout=layout)
    decisions = []
    for size in sizes:
        units = np.column_stack([np.ones(size), random.standard_normal((size, 2))])
        contexts = units if layout == "block" else np.repeat(units[:, None], 3, axis=1)
        decision = learner.assign(contexts)
        learner.observe(np.array(means)[decision.actions] + random.standard_normal(size))
        decisions.append(decision)
    return decisions


@OWN_MODELS
@pytest.mark.parametrize("policy", [RBGL(), SBUCB(gamma=0.5)], ids=["RBGL", "SBUCB"])
def test_defaults_find_the_best_action(policy, layout):
    last = played(policy, layout)[-1].actions
    assert (last == 2).mean() > 0.99


@OWN_MODELS
@pytest.mark.parametrize("kind", POLICIES)
def test_every_action_is_equally_likely(kind, layout):
    assert (played(kind(), layout)[0].probabilities == 1 / 3).all()


def test_the_published_start_has_a_name():
    actions = [decision.actions for decision in played(RBGL(first="fixed"), "block")]
    assert not np.concatenate(actions).any()
    assert not played(SBUCB(gamma=0.5, first="fixed"), "block")[0].actions.any()


@pytest.mark.parametrize("kind", [SBUCB, SBPE, BPE, RBGL])
def test_the_shared_layout_starts_as_published(kind):
    contexts = np.random.default_rng(2).standard_normal((50, 3, 4))
    grid = grids.explicit([50, 100])
    decisions = [
        Learner(policy, grid, actions=3, dim=4).assign(contexts)
        for policy in (kind(), kind(first="fixed"))
    ]
    assert np.array_equal(decisions[0].actions, decisions[1].actions)
    assert set(np.unique(decisions[0].probabilities)) == {0.0, 1.0}


@pytest.mark.parametrize("method", ["direct", "device"])
def test_simulations_start_the_same_way(method):
    world = Gaussian(dim=2, actions=3, layout="block", norm=3.0)
    device = {"device": "numpy"} if method == "device" else {}
    run = simulate(RBGL(), world, grids.explicit([300, 600]), seed=1, method=method, **device)
    assert (run.counts[0] > 70).all()
    fixed = RBGL(first="fixed")
    run = simulate(fixed, world, grids.explicit([300, 600]), seed=1, method=method, **device)
    assert run.counts[0].tolist() == [300, 0, 0]


def test_a_history_leads_the_first_batch():
    units, actions = np.ones((300, 1)), np.arange(300) % 2
    rewards = actions + np.random.default_rng(3).standard_normal(300)
    before = History.of([Statistics.zero(2, 1).add(units, rewards, actions)])
    policy = RBGL(estimate="pooled", constant=0, history=before)
    learner = Learner(policy, grids.explicit([50, 100]), actions=2, dim=1, layout="block")
    assert (learner.assign(np.ones((50, 1))).actions == 1).all()


def small_first(seed, layout, *, masked, online):
    """A problem whose first batches hold fewer units than there are actions."""
    case = instance(seed, layout, units=240)
    units = len(case.table)
    grid = grids.online(units) if online else grids.explicit([2, 4, 12, 40, units])
    eligible = None
    if masked:
        # Nobody may get action 1: the others are not random for ever on its account.
        eligible = np.random.default_rng(seed).random((units, case.actions)) < 0.6
        eligible[:, 0], eligible[:, 1] = True, False
    return replace(case, grid=grid, eligible=eligible)


@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
@OWN_MODELS
@pytest.mark.parametrize("masked", [False, True], ids=["everything", "eligible"])
@pytest.mark.parametrize("online", [False, True], ids=["batches", "online"])
def test_units_are_random_until_each_action_has_an_outcome(layout, masked, online):
    for seed in (3, 8):
        case = small_first(seed, layout, masked=masked, online=online)
        chosen = {"gamma": 0.3, "ridge": 0.7, "first": None}
        own = {"draws": case.draws, "eligible": case.eligible}
        expected = sbucb(case.long, case.table, case.ends, **chosen, **own)
        for policy in (SBUCB(**chosen), *([LinUCB(**chosen)] if online else [])):
            learner = case.learner(policy)
            replayed = learner.replay(case.contexts, case.table, eligible=case.eligible)
            assert np.array_equal(replayed, expected)
            assert np.array_equal(actions_of(case.run(policy, cut=not online)[1]), expected)
        expected, _ = greedy.rbgl(case.long, case.table, case.ends, ridge=0.7, first=None, **own)
        decisions = case.run(RBGL(ridge=0.7), cut=False)[1]
        assert np.array_equal(actions_of(decisions), expected)
        tried = np.concatenate([decision.probabilities for decision in decisions])[:4]
        shares = np.ones((4, case.actions)) if not masked else case.eligible[:4].astype(float)
        assert tried[:2] == pytest.approx(shares[:2] / shares[:2].sum(axis=1, keepdims=True))


def test_units_stay_with_what_they_know_where_stated():
    # Action 2 has no outcome after the first batch of 2.
    for policy in (RBGL(first="uniform"), RBGL(unknown="avoid")):
        shares = played(policy, "block", sizes=(2, 50))[1].probabilities
        assert (shares.max(axis=1) == 1).all()
    assert (played(RBGL(), "block", sizes=(2, 50))[1].probabilities == 1 / 3).all()


def test_devices_try_every_action():
    world = Gaussian(dim=2, actions=3, layout="block", norm=3.0)
    grid = grids.explicit([2, 302, 900])
    for policy in (RBGL(), SBUCB(gamma=0.5), ThompsonSampling(samples=8)):
        run = simulate(policy, world, grid, seed=1, method="device", device="numpy")
        assert (run.counts[1] > 70).all()
        assert run.counts[2].max() > 250 or isinstance(policy, ThompsonSampling)


def test_what_is_learned_while_a_batch_is_open_changes_no_choice():
    # Batches longer than a block of units: a simulation learns one before it assigns the next.
    world = Gaussian(dim=2, actions=3, layout="block", norm=3.0)
    run = simulate(RBGL(), world, grids.explicit([2, 9_002, 9_100]), seed=1)
    assert (run.counts[1] > 2_700).all()


def test_what_is_learned_while_a_batch_is_open_makes_no_action_familiar():
    # Only the eighth unit may get action 1 alone. Unit 4,097 is assigned after that is learned.
    units = 9_002
    eligible = np.tile([True, True], (units, 1))
    eligible[:2], eligible[7] = [True, False], [False, True]
    means = np.tile([-1.0, 1.0], (units, 1))
    world = ArrayEnvironment(np.ones((units, 1)), means=means, noise=0.1, eligible=eligible)
    run = simulate(RBGL(unknown="avoid"), world, grids.explicit([2, units]), seed=1)
    assert run.counts[1].tolist() == [units - 3, 1]


def test_late_outcomes_make_no_action_familiar_before_the_batch_ends():
    grid = grids.explicit([2, 6, 8])
    learner = Learner(RBGL(unknown="avoid"), grid, actions=2, dim=1, layout="block")
    learner.assign(np.ones((2, 1)), eligible=np.eye(2, dtype=bool))
    learner.observe([-1.0, np.nan])
    first = learner.assign(np.ones((2, 1))).actions.tolist()
    learner.observe(late={1: 1.0})
    second = learner.assign(np.ones((2, 1))).actions.tolist()
    learner.observe([-1.0] * 4)
    assert (first, second) == ([0, 0], [0, 0])
    assert learner.assign(np.ones((2, 1))).actions.tolist() == [1, 1]
