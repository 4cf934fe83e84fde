"""Learners that hold to how many units may get each action."""

import numpy as np
import pytest
from scipy.optimize import linprog

from seqbatch import Learner, grids
from seqbatch.allocation import Limits
from seqbatch.checks.policies import own_policies
from seqbatch.policies import (
    BPE,
    RBGL,
    SBPE,
    SBUCB,
    FixedAction,
    LinUCB,
    Oracle,
    SupSBUCB,
    ThompsonSampling,
    UniformRandom,
)
from seqbatch.policies.capacity import preferred
from tests.policies.test_eligible import restricted
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
OWN = [
    (str(n), policy) for n, policy in enumerate(own_policies()) if not isinstance(policy, LinUCB)
]


def learner(policy, units=40, actions=3, **options):
    grid = grids.explicit([units, 2 * units])
    return Learner(policy, grid, actions=actions, dim=2, layout="block", **options)


def contexts(units=40, seed=0):
    return np.random.default_rng(seed).standard_normal((units, 2))


@pytest.mark.parametrize(("name", "policy"), OWN)
def test_limits_hold_surely_and_probabilities_are_those_of_eligible_actions(name, policy):
    case = restricted(int(name), "block", units=240)
    case.eligible[:, 0] = True
    # The column that wave levels need.
    case.contexts[:, 0] = 1.0
    made = case.learner(UniformRandom())
    made = case.learner(policy if hasattr(policy, "begin") else policy(made.problem))
    random, start = np.random.default_rng(int(name)), 0
    for end in case.ends:
        rows = slice(start, end)
        most = random.integers(0, end - start + 1, case.actions)
        most[0] = end - start
        decision = made.assign(
            case.contexts[rows],
            eligible=case.eligible[rows],
            capacity={action: int(units) for action, units in enumerate(most)},
        )
        counts = np.bincount(decision.actions, minlength=case.actions)
        assert (counts <= most).all()
        expected = decision.probabilities.sum(axis=0)
        assert (np.abs(counts - expected) < 1).all()
        assert (decision.probabilities.sum(axis=1) == 1).all()
        assert (decision.probabilities[~case.eligible[rows]] == 0).all()
        assert (decision.probabilities[np.arange(len(decision)), decision.actions] > 0).all()
        made.observe(case.table[np.arange(start, end), decision.actions])
        start = end


@pytest.mark.parametrize("seed", range(8))
def test_the_sum_of_scores_is_the_best_that_limits_allow(seed):
    """Against the linear programme, in the second batch of a policy that chooses by scores."""
    case = restricted(seed, "block", units=120)
    case.eligible[:, 0] = True
    made = learner(SBUCB(gamma=0.3, first="uniform"), units=30, actions=case.actions, seed=seed)
    eligible, random = case.eligible[:30], np.random.default_rng(seed)
    first = made.assign(contexts(30, seed), eligible=eligible)
    made.observe(random.standard_normal(30) + first.actions)
    most = random.integers(1, 12, case.actions).astype(float)
    most[0] = 30
    decision = made.assign(
        contexts(30, seed + 100), eligible=eligible, capacity=Limits(at_most=most)
    )
    rows = np.kron(np.eye(30), np.ones(case.actions))
    columns = np.kron(np.ones(30), np.eye(case.actions))
    best = linprog(
        -decision.scores.ravel(), A_ub=columns, b_ub=most, A_eq=rows, b_eq=np.ones(30),
        bounds=[(0, float(may)) for may in eligible.ravel()],
    )  # fmt: skip
    value = (decision.probabilities * decision.scores).sum()
    assert value == pytest.approx(-best.fun, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("policy", [RBGL(first="uniform"), SupSBUCB(gamma=0.2), FixedAction()])
def test_room_for_everybody_changes_no_sure_choice(policy):
    free, roomy = (learner(policy, seed=4) for _ in range(2))
    for made, capacity in ((free, None), (roomy, {0: 40, 1: 40, 2: 40})):
        made.assign(contexts())
        made.observe(np.ones(40))
        made.decision = made.assign(contexts(seed=1), capacity=capacity)
    assert np.array_equal(free.decision.actions, roomy.decision.actions)
    assert np.array_equal(free.decision.probabilities, roomy.decision.probabilities)
    assert free.decision.prices is None
    assert roomy.decision.prices.tolist() == [0, 0, 0]


def test_a_fixed_action_keeps_as_many_units_as_it_may():
    made = learner(FixedAction(action=1))
    counts = np.bincount(made.assign(contexts(), capacity={1: 25, 2: 0}).actions, minlength=3)
    assert counts.tolist() == [15, 25, 0]
    made = learner(FixedAction(action=1))
    at_least = Limits(at_least=[0, 0, 10])
    counts = np.bincount(made.assign(contexts(), capacity=at_least).actions, minlength=3)
    assert counts.tolist() == [0, 30, 10]


@pytest.mark.parametrize("kind", [RBGL, SBPE, BPE])
def test_what_nobody_knows_is_taken_only_as_far_as_limits_demand(kind):
    """Where rewards are negative, an unknown action's estimate of 0 is above all others."""
    made = learner(kind(unknown="avoid"))
    made.assign(np.ones((40, 2)), eligible=np.tile([True, True, False], (40, 1)), capacity={0: 20})
    made.observe(np.full(40, -5.0))
    assert np.bincount(made.assign(np.ones((10, 2)), capacity={2: 9}).actions, minlength=3)[2] == 0
    decision = made.assign(np.ones((30, 2)), capacity={0: 10, 1: 15})
    assert (decision.scores[:, 2] > decision.scores[:, :2].max(axis=1)).all()
    assert np.bincount(decision.actions).tolist() == [10, 15, 5]


def test_rows_of_worth_depend_on_their_own_unit_alone():
    random = np.random.default_rng(0)
    scores, actions = random.standard_normal((9, 3)), random.integers(0, 3, 9)
    candidates = random.random((9, 3)) < 0.5
    candidates[np.arange(9), actions] = True
    together = preferred(scores, actions, candidates)
    alone = [preferred(scores[[t]], actions[[t]], candidates[[t]])[0] for t in range(9)]
    assert np.array_equal(together, alone)
    assert (together.argmax(axis=1) == actions).all()
    for row, mine in zip(together, candidates, strict=True):
        assert mine.all() or row[~mine].max() < row[mine].min()


def test_the_uniform_policy_stays_as_even_as_limits_allow():
    made = learner(UniformRandom())
    decision = made.assign(contexts(), capacity={2: 4})
    assert np.bincount(decision.actions).tolist() == [18, 18, 4]
    assert np.allclose(decision.probabilities, [0.45, 0.45, 0.1])
    assert decision.prices is None


def test_prices_are_what_one_more_unit_is_worth():
    values = np.array([[1.0], [5.0], [2.0], [4.0]])
    for capacity, low, high in ((1, 4, 5), (2, 2, 4), (3, 1, 2)):
        made = Learner(
            Oracle(theta=[[0.0], [1.0]]), grids.explicit([4]), actions=2, dim=1, layout="block"
        )
        decision = made.assign(values, capacity={1: capacity})
        assert low <= decision.prices[1] <= high
        assert values[decision.actions == 1].sum() == sum(sorted([1, 5, 2, 4])[-capacity:])


def test_the_same_seed_gives_the_same_decisions_and_later_draws_are_untouched():
    decisions = []
    for capacity in ({1: 7}, {1: 7}, None):
        made = learner(UniformRandom(), seed=9)
        first = made.assign(contexts(), capacity=capacity)
        made.observe(np.zeros(40))
        decisions.append((first.actions, made.assign(contexts()).actions))
    assert np.array_equal(decisions[0][0], decisions[1][0])
    assert not np.array_equal(decisions[0][0], decisions[2][0])
    assert np.array_equal(decisions[0][1], decisions[2][1])
    other = learner(UniformRandom(), seed=10).assign(contexts(), capacity={1: 7})
    assert not np.array_equal(other.actions, decisions[0][0])


def test_a_learner_is_saved_between_two_calls_with_limits(tmp_path):
    made = learner(ThompsonSampling(samples=16), seed=3)
    made.assign(contexts(20), capacity={0: 5})
    made.save(tmp_path / "learner")
    results = []
    for one in (made, Learner.load(tmp_path / "learner")):
        one.assign(contexts(20, 1), capacity={0: 5}, eligible=np.ones((20, 3), dtype=bool))
        one.observe(np.arange(40.0))
        results.append(one.assign(contexts(), capacity={2: 3}))
    assert np.array_equal(results[0].actions, results[1].actions)
    assert np.array_equal(results[0].probabilities, results[1].probabilities)


def test_limits_that_are_not_whole_are_kept_all_the_same():
    for seed in range(30):
        limits = Limits(at_most=[np.inf, 3.7, np.inf], at_least=[0, 0, 5.2])
        made = learner(UniformRandom(), seed=seed)
        counts = np.bincount(made.assign(contexts(), capacity=limits).actions)
        assert counts[1] <= 3
        assert counts[2] >= 6


def test_nobody_needs_no_room():
    decision = learner(UniformRandom()).assign(np.empty((0, 2)), capacity={0: 0})
    assert len(decision) == 0


@pytest.mark.parametrize(
    ("capacity", "field", "received"),
    [
        ({3: 5}, "an action of capacity", "3"),
        ({"call": 5}, "an action of capacity", "'call'"),
        ({0: 2.5}, "capacity[0]", "2.5"),
        ({0: -1}, "capacity[0]", "-1"),
        (5, "capacity", "5"),
        (Limits(at_most=[1, 2]), "at_most", "2 numbers"),
        ({0: 10, 1: 10, 2: 10}, "at_most", "30"),
    ],
)
def test_bad_limits_are_refused_and_change_nothing(capacity, field, received):
    made, same = learner(UniformRandom()), learner(UniformRandom())
    with refused("invalid-argument", field=field, received=received):
        made.assign(contexts(), capacity=capacity)
    assert made.units_left == 40
    assert np.array_equal(made.assign(contexts()).actions, same.assign(contexts()).actions)
