"""Lookahead: the published check values, what it comes to at the edges, and what it is made of."""

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.core import Contexts, Problem, Statistics
from seqbatch.policies import RBGL, Feedback, Lookahead
from seqbatch.policies import lookahead as ahead
from tests.oracles import lookahead as oracle
from tests.refusals import refused


def learner_of(policy, sizes, *, actions, dim, layout="block", seed=3):
    grid = grids.explicit(np.cumsum(sizes).tolist())
    return Learner(policy, grid, actions=actions, dim=dim, layout=layout, seed=seed)


def played(policy, sizes, *, actions=3, features=3, noise=0.5, layout="block"):
    """Play all waves in a world with a constant and normal features; return the decisions."""
    random = np.random.default_rng(11)
    theta = random.normal(0, 0.3, (actions, 1 + features))
    learner = learner_of(policy, sizes, actions=actions, dim=1 + features, layout=layout)
    made = []
    for size in sizes:
        x = np.column_stack([np.ones(size), random.standard_normal((size, features))])
        rewards = x @ theta.T + noise * random.standard_normal((size, actions))
        given = x if layout == "block" else np.repeat(x[:, None, :], actions, axis=1)
        made.append(learner.assign(given))
        learner.observe(rewards[np.arange(size), made[-1].actions])
    return made, learner


# ----------------------------------------------------------------------
# Without features.


@pytest.mark.parametrize(
    ("mu", "var", "w", "share", "value", "greedy"),
    [
        ((0.1, 0.0), (0.02, 0.02), 400, 0.8908, 55.27363, 54.93471),
        ((0.1, 0.0), (0.01, 0.04), 100, 0.9138, 20.57148, 20.25127),
        ((0.3, 0.0), (0.01, 0.04), 400, 1.0, None, None),
    ],
)
def test_shares_of_two_actions_are_the_published_ones(mu, var, w, share, value, greedy):
    law = ahead._Plain(np.array(mu), np.array(var), 1.0, 100, w)
    known = ahead.Beliefs(np.array(mu)[:, None], np.array(var)[:, None, None], 1.0)
    q = ahead.best_chances(known, 100, w, "lowest")
    tried, best = oracle.best_share(mu, var, 100, w)
    assert abs(q[0] - share) < 5e-4
    assert abs(q[0] - tried) < 5e-4
    found = law.value_and_slope(q)[0]
    assert found >= best - 1e-9 * abs(best)
    if value is not None:
        assert abs(found - value) < 1e-5
        assert abs(law.value_and_slope(np.array([1.0, 0.0]))[0] - greedy) < 1e-5


def test_the_expected_maximum_and_its_slopes():
    random = np.random.default_rng(0)
    for K in (2, 3, 6):
        u, s = random.normal(0, 0.2, K), random.uniform(0.02, 0.4, K)
        value, slopes = ahead.expected_maximum(u, s)
        drawn = (u + s * random.standard_normal((400_000, K))).max(axis=1)
        assert abs(value - drawn.mean()) < 5 * drawn.std() / np.sqrt(len(drawn))
        for a in range(K):
            ends = []
            for sign in (-1, 1):
                moved = s.copy()
                moved[a] = np.sqrt(s[a] ** 2 + sign * 1e-6)
                ends.append(ahead.expected_maximum(u, moved)[0])
            assert abs((ends[1] - ends[0]) / 2e-6 - slopes[a]) < 1e-4 * max(slopes)
    still = ahead.expected_maximum(np.array([0.1, 0.3]), np.zeros(2))
    assert still[0] == 0.3


def test_units_without_features_have_the_same_exact_probabilities():
    learner = learner_of(Lookahead(after=5_000), [90, 90, 90], actions=3, dim=1)
    random = np.random.default_rng(2)
    first = learner.assign(np.ones((90, 1)))
    assert (first.probabilities == 1 / 3).all()
    learner.observe(np.array([0.0, 0.3, 0.35])[first.actions] + random.standard_normal(90))
    rule = learner.policy.rule(learner.state)
    chances = rule.constant(3)
    second = learner.assign(np.ones((90, 1)))
    assert (second.probabilities == chances).all()
    assert abs(sum(chances) - 1) < 1e-12
    assert sum(chance > 0 for chance in chances) >= 2
    # A unit that may not get an action gets the best of its own in its place.
    means = learner.state.estimates[0].theta[:, 0]
    eligible = np.array([[True, True, False], [False, False, True], [True, True, True]])
    problem = learner.problem
    contexts = Contexts.of(np.ones((3, 1)), problem, eligible=eligible)
    found = rule.decide(contexts, np.full(3, 0.5), np.arange(3)).probabilities
    wanted = np.array([chances[0], chances[1], 0.0])
    wanted[int(means[:2].argmax())] += chances[2]
    assert np.allclose(found, [wanted, [0, 0, 1], chances])


def test_more_units_afterwards_teach_more():
    """The more units get the final rule, the less the best action so far gets."""
    mean, spread = np.array([[0.2], [0.1], [0.0]]), np.full((3, 1, 1), 0.01)
    known = ahead.Beliefs(mean, spread, 1.0)
    shares = [
        ahead.best_chances(known, *ahead.horizon(PROBLEM, 2, after), "lowest")[0]
        for after in (0, 300, 3_000, 300_000)
    ]
    assert sorted(shares, reverse=True) == shares
    assert shares[0] > shares[-1] + 0.3


def test_the_horizon_counts_all_who_profit():
    for after in (0, 50, 100, 101, 9_000):
        assert ahead.horizon(PROBLEM, 2, after) == oracle.horizon(100, 100, after)
        assert ahead.horizon(PROBLEM, 3, after) == oracle.horizon(100, 0, after)


PROBLEM = Problem(ends=(100, 200, 300), actions=3, dim=1, layout="block")


# ----------------------------------------------------------------------
# The edges: the last wave, two waves, no outcomes.


@pytest.mark.parametrize("features", [0, 3])
def test_the_last_wave_is_greedy_and_two_waves_are_those_of_ridge_regression(features):
    kinds = (Lookahead(ridge=2.0), RBGL(ridge=2.0, first="uniform"))
    for sizes in ([60, 300], [60]):
        runs = [played(policy, sizes, features=features)[0] for policy in kinds]
        for one, other in zip(*runs, strict=True):
            assert np.array_equal(one.actions, other.actions)
            assert np.allclose(one.probabilities, other.probabilities)
    made, learner = played(Lookahead(), [60, 90, 90], features=features)
    assert set(made[-1].probabilities.ravel()) == {0.0, 1.0}
    assert np.array_equal(made[-1].actions, made[-1].means.argmax(axis=1))
    assert learner.finished


def test_without_outcomes_the_next_wave_is_uniform_too():
    policy = Lookahead(after=100)
    problem = Problem(ends=(20, 40, 60), actions=3, dim=2, layout="block")
    state = policy.close(policy.begin(problem))
    assert policy.rule(state).kind == "uniform"


def test_actions_that_share_a_model_are_refused():
    problem = Problem(ends=(20, 40), actions=3, dim=2, layout="shared")
    with refused("invalid-argument", field="layout", match="block"):
        Lookahead().begin(problem)


# ----------------------------------------------------------------------
# With features: rows, sums, and both layouts.


def sums(count, dim, *, constant=True, seed=5):
    random = np.random.default_rng(seed)
    x = random.gamma(1.0, 2.0, (count, dim))
    if constant:
        x[:, 0] = 1.0
    cells, rewards = random.integers(0, 2, count), random.standard_normal(count)
    return x, Statistics.zero(2, dim).add(x, rewards, cells)


@pytest.mark.parametrize("constant", [True, False])
def test_rows_have_the_moments_of_the_evidence(constant):
    x, evidence = sums(400, 4, constant=constant)
    rows = ahead.rows_of(evidence)
    assert rows.shape == (256, 4)
    assert np.allclose(rows.T @ rows / 256, x.T @ x / 400)
    assert (rows[:, 0] == 1).all() == constant
    wanted = x.mean(axis=0) if constant else 0
    assert np.allclose(rows.mean(axis=0), wanted)
    assert ahead.rows_of(evidence).tobytes() == rows.tobytes()


def test_sums_that_were_computed_elsewhere_lead_to_the_same_mixture():
    policy = Lookahead(after=2_000)
    problem = Problem(ends=(200, 400, 600), actions=3, dim=4, layout="block")
    random = np.random.default_rng(8)
    x, actions = random.standard_normal((200, 4)), random.integers(0, 3, 200)
    rewards, groups = random.standard_normal(200), np.zeros(200, dtype=np.int64)
    start = policy.begin(problem)
    by_units = policy.close(policy.learn(start, Feedback(x, actions, groups, rewards)))
    elsewhere = Statistics.zero(3, 4).add(x, rewards, actions)
    by_sums = policy.close(policy.absorb(start, 0, elsewhere))
    assert np.array_equal(by_units.quadratic, by_sums.quadratic)
    assert np.array_equal(by_units.weights, by_sums.weights)
    assert (by_units.weights > 0).sum() > 1


def test_block_and_disjoint_layouts_agree():
    runs = [
        played(Lookahead(after=100_000), [60, 90, 90], layout=layout)[0]
        for layout in ("block", "disjoint")
    ]
    for one, other in zip(*runs, strict=True):
        assert np.allclose(one.probabilities, other.probabilities)
    assert ((runs[0][1].probabilities > 0.01).sum(axis=1) > 1).any()


def test_outcomes_without_noise_or_without_any_reward_leave_finite_numbers():
    for noise, scale in ((0.0, 1.0), (0.5, 0.0)):
        random = np.random.default_rng(1)
        learner = learner_of(Lookahead(after=500), [30, 30, 30], actions=2, dim=2)
        for _ in range(3):
            x = np.column_stack([np.ones(30), random.standard_normal(30)])
            decision = learner.assign(x)
            assert np.isfinite(decision.probabilities).all()
            learner.observe(scale * (x[:, 1] + noise * random.standard_normal(30)))


@pytest.mark.parametrize("features", [1, 3])
def test_the_unit_of_outcomes_does_not_matter(features):
    """Outcomes of any size give the same mixture, and features of any size give one."""
    random = np.random.default_rng(4)
    x, noise = np.ones((100, features)), random.standard_normal(100)
    x[:, 1:] = random.standard_normal((100, features - 1))

    def shares(size, wide=1.0):
        made = Learner(
            Lookahead(), grids.explicit([100, 200, 300]), actions=3, dim=features, layout="block",
            seed=2,
        )  # fmt: skip
        scaled = np.concatenate([x[:, :1], wide * x[:, 1:]], axis=1)
        actions = made.assign(scaled).actions
        made.observe(size * (0.2 * actions + noise))
        return made.assign(scaled).probabilities

    assert np.allclose(shares(1e-140), shares(1.0), atol=1e-6)
    assert np.isfinite(shares(1e-140, 1e29)).all()
    assert np.isfinite(shares(1e29, 1e29)).all()
