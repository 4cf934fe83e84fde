"""Choices, draws and probabilities use only the actions that a unit may get.

Every policy acts, unit by unit, as the literal version of its pseudocode with a smaller set of
actions for each unit.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from seqbatch import Contexts, grids
from seqbatch.checks.policies import own_policies
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    EpsilonGreedy,
    FixedAction,
    LinUCB,
    Lookahead,
    Oracle,
    SupSBUCB,
    ThompsonSampling,
    UniformRandom,
)
from seqbatch.policies.choice import highest, uniformly
from tests.instances import actions_of, instance
from tests.oracles import allowed, best, greedy, uniform_action
from tests.oracles.sbucb import sbucb
from tests.oracles.supsbucb import supsbucb
from tests.policies.test_against_oracles import assert_same, layouts, seeds, settings

pytestmark = pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")


def restricted(seed, layout, **options):
    """An instance whose units may get each action with a probability of the action's own."""
    case = instance(seed, layout, **options)
    random = np.random.default_rng(500 + seed)
    eligible = random.random(case.table.shape) < random.uniform(0.1, 1, case.actions)
    # One action whatever the rest, not always the same.
    sure = random.integers(0, case.actions, len(eligible))
    eligible[np.arange(len(eligible)), sure] |= ~eligible.any(axis=1)
    return replace(case, eligible=eligible)


def arguments(case):
    return {"draws": case.draws, "eligible": case.eligible}


def assert_allowed(case, decisions):
    """Probabilities are a distribution over what each unit may get, and nothing else."""
    chances = np.concatenate([decision.probabilities for decision in decisions])
    assert (chances[~case.eligible] == 0).all()
    assert np.allclose(chances.sum(axis=1), 1)
    actions = actions_of(decisions)
    assert case.eligible[np.arange(len(actions)), actions].all()
    assert (chances[np.arange(len(actions)), actions] > 0).all()


def check(case, policy, expected, *, cut=True, replayed=False):
    _, decisions = case.run(policy, cut=cut)
    assert_same(decisions, expected)
    assert_allowed(case, decisions)
    if replayed:
        again = case.learner(policy).replay(case.contexts, case.table, eligible=case.eligible)
        assert np.array_equal(again, expected)


@layouts
@seeds
def test_sbucb(seed, layout):
    case = restricted(seed, layout, units=800)
    gamma, ridge, first, ties = settings(seed)
    chosen = {"gamma": gamma, "ridge": ridge, "first": first, "ties": ties}
    expected = sbucb(case.long, case.table, case.ends, **chosen, **arguments(case))
    check(case, SBUCB(**chosen), expected, replayed=True)


@layouts
@seeds
def test_supsbucb(seed, layout):
    case = restricted(seed, layout, units=900)
    gamma, ridge, first, ties = settings(seed)
    chosen = {
        "gamma": gamma / 4, "ridge": ridge, "first": first, "ties": ties,
        "explore": ["highest", "widest", "first"][seed % 3],
    }  # fmt: skip
    actions, stages, rules = supsbucb(case.long, case.table, case.ends, **chosen, **arguments(case))
    policy = SupSBUCB(**chosen)
    check(case, policy, actions, replayed=True)
    _, decisions = case.run(policy)
    assert np.concatenate([decision.stages for decision in decisions]).tolist() == stages
    assert np.concatenate([decision.rules for decision in decisions]).tolist() == rules


@layouts
@pytest.mark.parametrize("seed", range(3))
def test_linucb(seed, layout):
    case = restricted(seed, layout, units=200)
    gamma, ridge, first, ties = settings(seed)
    chosen = {"gamma": gamma, "ridge": ridge, "first": first, "ties": ties}
    online = replace(case, grid=grids.online(units=len(case.table)))
    expected = sbucb(case.long, case.table, online.ends, **chosen, **arguments(case))
    check(online, LinUCB(**chosen), expected, cut=False, replayed=True)


@layouts
@seeds
def test_sbpe(seed, layout):
    case = restricted(seed, layout)
    _, _, first, ties = settings(seed)
    expected, _ = greedy.sbpe(
        case.long, case.table, case.ends, first=first, ties=ties, **arguments(case)
    )
    check(case, SBPE(first=first, ties=ties), expected, replayed=True)


@layouts
@seeds
@pytest.mark.parametrize("split", ["even", "needed"])
def test_bpe(seed, layout, split):
    case = restricted(seed, layout)
    _, _, first, ties = settings(seed)
    chosen = {"split": split, "first": first, "ties": ties}
    expected, _ = greedy.bpe(case.long, case.table, case.ends, **chosen, **arguments(case))
    check(case, BPE(**chosen), expected)


@layouts
@seeds
def test_rbgl(seed, layout):
    case = restricted(seed, layout)
    _, ridge, first, ties = settings(seed)
    chosen = {"ridge": ridge, "first": first, "ties": ties}
    expected, _ = greedy.rbgl(case.long, case.table, case.ends, **chosen, **arguments(case))
    check(case, RBGL(**chosen), expected)


@pytest.mark.parametrize("layout", ["disjoint", "block"])
@pytest.mark.parametrize("seed", [0, 2, 4, 5, 6, 7])
def test_unknown_actions_are_avoided_unless_a_unit_may_get_no_other(seed, layout):
    case = restricted(seed, layout)
    _, ridge, _, ties = settings(seed)
    # Two actions alone in the first batch, so that others are unknown in the second.
    first, second = case.ends[:2]
    known = (seed + np.arange(first) % 2) % case.actions
    case.eligible[:first] = False
    case.eligible[np.arange(first), known] = True
    case.table[:] -= 5.0
    chosen = {"ridge": ridge, "ties": ties, "unknown": "avoid"}
    expected, _ = greedy.rbgl(case.long, case.table, case.ends, **chosen, **arguments(case))
    check(case, RBGL(**chosen), expected)
    # Some may get none of the known ones, and some just one.
    assert set(case.eligible[first:second][:, np.unique(known)].sum(axis=1)) >= {0, 1}


@layouts
@seeds
def test_lbgl(seed, layout):
    case = restricted(seed, layout, units=500, batches=3)
    _, _, first, ties = settings(seed)
    chosen = {"scale": [0.02, 0.05, 0.1, 0.15, 0.03, 0.2][seed], "first": first, "ties": ties}
    expected, _ = greedy.lbgl(case.long, case.table, case.ends, **chosen, **arguments(case))
    check(case, LBGL(**chosen), expected)


@layouts
@seeds
def test_epsilon_greedy(seed, layout):
    case = restricted(seed, layout)
    _, ridge, first, _ = settings(seed)
    chosen = {"epsilon": 0.3, "ridge": ridge, "first": first}
    expected = greedy.epsilon_greedy(case.long, case.table, case.ends, **chosen, **arguments(case))
    check(case, EpsilonGreedy(**chosen), expected)


@layouts
@seeds
def test_baselines(seed, layout):
    case = restricted(seed, layout, units=300)
    options = [allowed(case.eligible, t, case.actions) for t in range(len(case.table))]
    check(case, UniformRandom(), list(map(uniform_action, options, case.draws)))
    favourite = case.actions - 1
    fixed = [favourite if favourite in mine else mine[0] for mine in options]
    check(case, FixedAction(action=favourite), fixed)
    theta = np.random.default_rng(seed).standard_normal(case.long.shape[2])
    shape = (-1,) if layout == "shared" else (case.actions, -1)
    scores = case.long @ theta
    expected = [
        mine[best(scores[t, mine].tolist(), "lowest", None)] for t, mine in enumerate(options)
    ]
    check(case, Oracle(theta=theta.reshape(shape)), expected)


@layouts
@seeds
def test_thompson_gives_each_action_the_share_of_draws_under_which_it_is_best(seed, layout):
    """A unit's shares are those of a unit for whom the other actions do not exist."""
    case = restricted(seed, layout, units=200)
    _, ridge, first, ties = settings(seed)
    policy = ThompsonSampling(ridge=ridge, samples=64, first=first, ties=ties)
    learner, decisions = case.run(policy)
    assert_allowed(case, decisions)
    state = learner.state
    means = Contexts.of(case.contexts, learner.problem)
    thetas = state.estimates[1].theta.reshape(policy.samples, -1, learner.problem.dim)
    scores = np.stack([means.means(theta) for theta in thetas])
    decision = policy.assign(
        state,
        Contexts.of(case.contexts, learner.problem, eligible=case.eligible),
        case.draws,
        np.arange(len(case.table)),
    )
    for t in range(len(case.table)):
        mine = allowed(case.eligible, t, case.actions)
        wins = np.bincount(scores[:, t, mine].argmax(axis=1), minlength=len(mine))
        assert np.allclose(decision.probabilities[t, mine], wins / policy.samples)


def settled():
    """Every policy, with its name and whether it was made for single units."""
    return [(str(number), policy) for number, policy in enumerate(own_policies())]


@layouts
@pytest.mark.parametrize(("name", "policy"), settled())
def test_with_every_action_eligible_the_bits_are_those_without_a_mask(name, policy, layout):
    case = instance(int(name), layout, units=200)
    # The column that wave levels need.
    case.contexts[..., 0] = 1.0
    if isinstance(policy, LinUCB):
        case = replace(case, grid=grids.online(units=len(case.table)))
    problem = case.learner(UniformRandom()).problem
    policy = policy(problem) if not hasattr(policy, "begin") else policy
    if isinstance(policy, Lookahead) and layout == "shared":
        return
    masked = replace(case, eligible=np.ones(case.table.shape, dtype=bool))
    (learner, plain), (again, same) = (one.run(policy, cut=False) for one in (case, masked))
    for one, other in zip(plain, same, strict=True):
        for field in fields(one):
            left, right = (getattr(decision, field.name) for decision in (one, other))
            assert np.array_equal(left, right), field.name
    for one, other in zip(learner.state.estimates, again.state.estimates, strict=True):
        assert np.array_equal(one.theta, other.theta)
    left, right = (
        one.learner(policy).replay(one.contexts, one.table, eligible=one.eligible)
        for one in (case, masked)
    )
    assert np.array_equal(left, right)


def test_choosing_among_eligible_actions():
    scores = np.array([[3.0, 2.0, 2.0, 1.0], [-9.0, -1.0, -2.0, -1.0]])
    eligible = np.array([[False, True, True, True], [True, False, True, False]])
    actions, chances = highest(scores, "lowest", np.zeros(2), eligible)
    assert actions.tolist() == [1, 2]
    assert chances.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    actions, chances = highest(scores, "random", np.full(2, 0.5), eligible)
    assert actions.tolist() == [2, 2]
    assert chances.tolist() == [[0, 0.5, 0.5, 0], [0, 0, 1, 0]]
    actions, chances = uniformly(2, 4, np.array([0.7, 0.49]), eligible)
    assert actions.tolist() == [3, 0]
    assert chances.tolist() == [[0, 1 / 3, 1 / 3, 1 / 3], [0.5, 0, 0.5, 0]]
