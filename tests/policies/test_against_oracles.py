"""Every policy acts, unit by unit, as the literal version of its pseudocode."""

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.core import Problem
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    EpsilonGreedy,
    LinUCB,
    Lookahead,
    Oracle,
    SupSBUCB,
    ThompsonSampling,
)
from seqbatch.policies.lookahead import rows_of
from tests.cases import thorough
from tests.instances import actions_of, instance
from tests.oracles import greedy, lowest_best
from tests.oracles import lookahead as ahead
from tests.oracles.sbucb import sbucb
from tests.oracles.supsbucb import supsbucb

pytestmark = pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
layouts = pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
seeds = pytest.mark.parametrize("seed", [0, 1, 2, 3, *thorough(4, 5)])


def settings(seed):
    """Hyper-parameters away from their defaults, and both ways to start and to break ties."""
    random = np.random.default_rng(1_000 + seed)
    gamma, ridge = float(random.uniform(0.05, 3)), float(random.uniform(0.05, 5))
    first = ["fixed", "uniform"][seed % 2]
    ties = ["lowest", "random"][seed // 2 % 2]
    return gamma, ridge, first, ties


def assert_same(decisions, expected):
    actual = actions_of(decisions)
    differ = np.flatnonzero(actual != np.array(expected))
    assert not len(differ), f"{len(differ)} of {len(actual)} differ, first at {differ[:5]}"


@layouts
@seeds
def test_sbucb(seed, layout):
    case = instance(seed, layout)
    gamma, ridge, first, ties = settings(seed)
    expected = sbucb(
        case.long, case.table, case.ends,
        gamma=gamma, ridge=ridge, first=first, ties=ties, draws=case.draws,
    )  # fmt: skip
    policy = SBUCB(gamma=gamma, ridge=ridge, first=first, ties=ties)
    assert_same(case.run(policy)[1], expected)
    assert np.array_equal(case.learner(policy).replay(case.contexts, case.table), expected)


@layouts
def test_sbucb_default_multiplier(layout):
    case = instance(40, layout, units=400)
    expected = sbucb(case.long, case.table, case.ends, gamma=None, ridge=1.0, draws=case.draws)
    assert_same(case.run(SBUCB(first="fixed"))[1], expected)


@layouts
@seeds
def test_supsbucb(seed, layout):
    case = instance(seed, layout, units=1_200)
    gamma, ridge, first, ties = settings(seed)
    gamma /= 4  # small enough that units reach later stages
    explore = ["highest", "widest", "first"][seed % 3]
    actions, stages, rules = supsbucb(
        case.long, case.table, case.ends,
        gamma=gamma, ridge=ridge, explore=explore, first=first, ties=ties, draws=case.draws,
    )  # fmt: skip
    policy = SupSBUCB(gamma=gamma, ridge=ridge, explore=explore, first=first, ties=ties)
    _, decisions = case.run(policy)
    assert_same(decisions, actions)
    assert np.concatenate([decision.stages for decision in decisions]).tolist() == stages
    assert np.concatenate([decision.rules for decision in decisions]).tolist() == rules


def test_supsbucb_keeps_as_many_stages_apart_as_the_paper_says():
    for units, stages in ((1, 1), (20, 3), (1_000, 7), (1_100, 8), (581_012, 14)):
        state = SupSBUCB().begin(Problem(ends=(units,), actions=2, dim=1, layout="shared"))
        assert len(state.evidence) == len(state.estimates) == stages


def test_supsbucb_instances_reach_every_rule_and_several_stages():
    case = instance(2, "shared", units=1_200)
    gamma, ridge, _, _ = settings(2)
    _, stages, rules = supsbucb(
        case.long, case.table, case.ends,
        gamma=gamma / 4, ridge=ridge, explore="highest", draws=case.draws,
    )  # fmt: skip
    assert len(set(stages)) >= 3
    assert set(rules) == {"a", "c"}


@layouts
@seeds
def test_sbpe(seed, layout):
    case = instance(seed, layout)
    _, _, first, ties = settings(seed)
    expected, thetas = greedy.sbpe(
        case.long, case.table, case.ends, first=first, ties=ties, draws=case.draws
    )
    policy = SBPE(first=first, ties=ties)
    assert_same(case.run(policy)[1], expected)
    learner, start = case.learner(policy), 0
    for end, theta in zip(case.ends, thetas, strict=False):
        actions = learner.assign(case.contexts[start:end]).actions
        learner.observe(case.table[np.arange(start, end), actions])
        assert np.allclose(learner.estimate.theta.ravel(), theta, rtol=1e-6, atol=1e-8)
        start = end


@layouts
@seeds
@pytest.mark.parametrize("split", ["even", "needed"])
def test_bpe(seed, layout, split):
    case = instance(seed, layout)
    _, _, first, ties = settings(seed)
    expected, _ = greedy.bpe(
        case.long, case.table, case.ends, split=split, first=first, ties=ties, draws=case.draws
    )
    assert_same(case.run(BPE(split=split, first=first, ties=ties))[1], expected)


@layouts
@seeds
def test_rbgl(seed, layout):
    case = instance(seed, layout)
    _, ridge, first, ties = settings(seed)
    expected, _ = greedy.rbgl(
        case.long, case.table, case.ends, ridge=ridge, first=first, ties=ties, draws=case.draws
    )
    assert_same(case.run(RBGL(ridge=ridge, first=first, ties=ties))[1], expected)


@layouts
@seeds
def test_lbgl(seed, layout):
    case = instance(seed, layout, units=600, batches=3)
    _, _, first, ties = settings(seed)
    scale = [0.02, 0.05, 0.1, 0.15, 0.03, 0.2][seed]
    expected, _ = greedy.lbgl(
        case.long, case.table, case.ends, scale=scale, first=first, ties=ties, draws=case.draws
    )
    assert_same(case.run(LBGL(scale=scale, first=first, ties=ties))[1], expected)


@layouts
@seeds
def test_epsilon_greedy(seed, layout):
    case = instance(seed, layout)
    _, ridge, first, _ = settings(seed)
    expected = greedy.epsilon_greedy(
        case.long, case.table, case.ends, epsilon=0.3, ridge=ridge, first=first, draws=case.draws
    )
    assert_same(case.run(EpsilonGreedy(epsilon=0.3, ridge=ridge, first=first))[1], expected)


@pytest.mark.slow
@layouts
@pytest.mark.parametrize("seed", range(3))
def test_linucb_is_sbucb_with_one_unit_a_batch(seed, layout):
    case = instance(seed, layout, units=500)
    gamma, ridge, first, ties = settings(seed)
    ends = range(1, len(case.table) + 1)
    expected = sbucb(
        case.long, case.table, ends,
        gamma=gamma, ridge=ridge, first=first, ties=ties, draws=case.draws,
    )  # fmt: skip
    online = type(case)(
        case.layout, case.contexts, case.long, case.table,
        grids.online(units=len(case.table)), case.seed,
    )  # fmt: skip
    policy = LinUCB(gamma=gamma, ridge=ridge, first=first, ties=ties)
    assert_same(online.run(policy, cut=False)[1], expected)
    assert np.array_equal(online.learner(policy).replay(case.contexts, case.table), expected)
    batched = SBUCB(gamma=gamma, ridge=ridge, first=first, ties=ties)
    assert_same(online.run(batched, cut=False)[1], expected)


@layouts
def test_oracle_plays_the_best_action(layout):
    case = instance(3, layout, units=300)
    dim = case.contexts.shape[-1]
    theta = np.random.default_rng(0).standard_normal(case.long.shape[2])
    shape = (-1,) if layout == "shared" else (case.actions, dim)
    expected = [lowest_best((case.long[t] @ theta).tolist()) for t in range(len(case.table))]
    assert_same(case.run(Oracle(theta=theta.reshape(shape)))[1], expected)


@layouts
def test_thompson_probabilities_are_the_posterior_ones(layout):
    """Against a million independent draws from the posterior of the long form."""
    case = instance(5, layout, units=120, batches=2)
    policy = ThompsonSampling(scale=0.7, ridge=2.0, samples=40_000)
    learner = case.learner(policy)
    first = case.ends[0]
    actions = learner.assign(case.contexts[:first]).actions
    learner.observe(case.table[np.arange(first), actions])
    probabilities = learner.assign(case.contexts[first : first + 1]).probabilities[0]

    chosen = case.long[np.arange(first), actions]
    A = 2.0 * np.eye(chosen.shape[1]) + chosen.T @ chosen
    mean = np.linalg.solve(A, chosen.T @ case.table[np.arange(first), actions])
    draws = np.random.default_rng(1).multivariate_normal(
        mean, 0.7**2 * np.linalg.inv(A), size=1_000_000
    )
    best = (draws @ case.long[first].T).argmax(axis=1)
    shares = np.bincount(best, minlength=case.actions) / len(best)
    # Five standard errors of 40,000 draws.
    assert np.allclose(probabilities, shares, atol=5 * 0.5 / np.sqrt(40_000))


@pytest.mark.parametrize("after", [100, 4_000])
def test_lookahead(after):
    """The literal mixture on rows that its tests compare with the evidence."""
    random = np.random.default_rng(after)
    learner = Learner(
        Lookahead(after=after, ridge=2.0),
        grids.explicit([80, 140, 300]),
        actions=3,
        dim=3,
        layout="block",
        seed=4,
    )
    x = np.column_stack([np.ones(140), random.standard_normal((140, 2))])
    actions = learner.assign(x[:80]).actions
    rewards = (x[:80] @ [0.1, 0.2, 0.0]) * actions + 0.7 * random.standard_normal(80)
    learner.observe(rewards)
    rows = rows_of(learner.state.evidence[0])
    means, spreads, noise = ahead.posterior(x[:80], rewards, actions, 3, 2.0)
    rules = ahead.mixture(means, spreads, noise, rows, rows, 60, 160, after)
    found = learner.assign(x[80:]).probabilities
    wanted = np.array([ahead.chances(unit, means, rules) for unit in x[80:]])
    assert np.allclose(found, wanted)
    assert len(rules) > 1
    assert ((found > 0).sum() > len(found)) == (after > 100)
