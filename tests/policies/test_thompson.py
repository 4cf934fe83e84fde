"""Thompson sampling's draws, and exploration sampling: probabilities for a choice at the end."""

import numpy as np
import pytest

from seqbatch.core import Contexts, Problem, Statistics
from seqbatch.policies import Feedback, ThompsonSampling
from seqbatch.policies.choice import contested
from tests.instances import instance
from tests.oracles import exploration_sampling


def test_draws_are_centred_on_the_posterior_and_are_new_in_every_batch():
    policy = ThompsonSampling(samples=8, scale=0.5)
    state = policy.begin(Problem(ends=(20, 40, 60), actions=2, dim=3, layout="block"))
    random = np.random.default_rng(1)
    feedback = Feedback(
        vectors=random.standard_normal((20, 3)),
        actions=random.integers(0, 2, 20),
        groups=np.zeros(20, dtype=np.int64),
        rewards=random.standard_normal(20),
    )
    errors = []
    for _ in range(3):
        state = policy.close(policy.learn(state, feedback))
        posterior, drawn = state.estimates
        thetas = drawn.theta.reshape(8, 2, 3)
        np.testing.assert_allclose(thetas.mean(axis=0), posterior.theta, atol=1e-12)
        roots = np.linalg.inv(posterior.root)
        errors.append(np.einsum("sai,aij->saj", thetas - posterior.theta, roots))
        assert len(np.unique(thetas)) == thetas.size
    # In units of the posterior's own spread, no two batches share their errors.
    assert not np.isclose(errors[0], errors[1]).any()
    assert not np.isclose(errors[1], errors[2]).any()


def test_draws_have_the_posteriors_covariance():
    policy = ThompsonSampling(samples=40_000, scale=0.5, ridge=2.0)
    state = policy.begin(Problem(ends=(30, 60), actions=2, dim=2, layout="shared"))
    # The second number goes with the first, as it seldom does in simulations.
    x = np.random.default_rng(1).standard_normal((30, 2)) @ [[2.0, 1.5], [0.0, 0.5]]
    zeros = np.zeros(30, dtype=np.int64)
    state = policy.close(policy.learn(state, Feedback(x, zeros, zeros, np.zeros(30))))
    wanted = 0.5**2 * np.linalg.inv(2.0 * np.eye(2) + x.T @ x)
    sizes = np.sqrt(wanted.diagonal())
    made = np.cov(state.estimates[1].theta.T)
    assert np.abs((made - wanted) / np.outer(sizes, sizes)).max() < 0.05


@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_probabilities_do_not_depend_on_the_unit_of_outcomes(unit):
    """Before any outcome the noise is unknown, and its size changes no choice."""
    random = np.random.default_rng(5)
    x, actions = random.standard_normal((60, 2)), random.integers(0, 3, 60)
    rewards, none = random.standard_normal(60), np.zeros(60, dtype=np.int64)
    problem = Problem(ends=(60, 90), actions=3, dim=2, layout="block")
    new = Contexts.of(random.standard_normal((9, 2)), problem)

    def probabilities(policy, unit):
        state, told = policy.begin(problem), []
        told.append(policy.assign(state, new, np.zeros(9), np.arange(9)).probabilities)
        state = policy.close(policy.learn(state, Feedback(x, actions, none, unit * rewards)))
        return [*told, policy.assign(state, new, np.zeros(9), np.arange(9)).probabilities]

    usual = probabilities(ThompsonSampling(first="fixed"), 1.0)
    found = probabilities(ThompsonSampling(first="fixed"), unit)
    assert all(np.allclose(one, other) for one, other in zip(usual, found, strict=True))
    wide = probabilities(ThompsonSampling(first="fixed", scale=50.0), 1.0)
    assert np.allclose(usual[0], wide[0])
    assert not np.allclose(usual[1], wide[1])


# ----------------------------------------------------------------------
# Exploration sampling: objective = "choose".

#: The agricultural-extension experiment of Kasy and Sautmann (2021): calls, successes, and their
#: published means, standard deviations and probabilities of being best (Monte Carlo).
UNITS = np.array([867, 3188, 1766, 334, 987, 1258])
SUCCESSES = np.array([139, 624, 324, 48, 166, 222])
MEANS, SPREADS = (
    [0.161, 0.196, 0.184, 0.146, 0.169, 0.177],
    [0.012, 0.007, 0.009, 0.019, 0.012, 0.011],
)
BEST = [0.006, 0.777, 0.132, 0.009, 0.021, 0.056]


def test_the_oracle_agrees_with_the_published_table():
    chances = exploration_sampling.chances_of_being_best(UNITS, SUCCESSES)
    assert np.allclose(chances.round(4), [0.0059, 0.7776, 0.1321, 0.0083, 0.0195, 0.0566])
    assert np.abs(chances - BEST).max() < 0.0025


def test_shares_are_those_of_the_page():
    chances = exploration_sampling.chances_of_being_best(UNITS, SUCCESSES)
    sure = np.eye(6)[2]
    for p in (chances, sure, np.full(6, 1 / 6)):
        assert np.allclose(contested(p[None])[0], exploration_sampling.shares(p))
    assert contested(chances[None])[0, 1] < 0.5


def test_a_normal_posterior_on_the_published_counts_is_close_to_the_exact_one():
    rate = SUCCESSES.sum() / UNITS.sum()
    policy = ThompsonSampling(
        scale=float(np.sqrt(rate * (1 - rate))), samples=20_000, objective="choose"
    )
    problem = Problem(ends=(int(UNITS.sum()), 9_000), actions=6, dim=1, layout="block")
    sums = Statistics(
        gram=UNITS[:, None, None].astype(float),
        moment=SUCCESSES[:, None].astype(float),
        squares=SUCCESSES.astype(float),
        count=UNITS,
    )
    state = policy.close(policy.absorb(policy.begin(problem), 0, sums))
    posterior = state.estimates[0]
    assert np.abs(posterior.theta[:, 0] - MEANS).max() < 0.003
    assert np.abs(policy.scale * posterior.root[:, 0, 0] - SPREADS).max() < 0.0025
    one = Contexts.of(np.ones((1, 1)), problem)
    found = policy.assign(state, one, np.zeros(1), np.zeros(1, dtype=np.int64)).probabilities[0]
    chances = exploration_sampling.chances_of_being_best(UNITS, SUCCESSES)
    assert np.abs(found - exploration_sampling.shares(chances)).max() < 0.03


def test_units_with_features_have_shares_of_their_own():
    case = instance(4, "disjoint", units=200)
    policies = [ThompsonSampling(samples=64, objective=wanted) for wanted in ("earn", "choose")]
    learner, _ = case.run(policies[0])
    state = learner.state
    contexts = Contexts.of(case.contexts, learner.problem)
    args = (contexts, case.draws, np.arange(len(case.table)))
    shares, found = (policy.assign(state, *args).probabilities for policy in policies)
    for p, q in zip(shares, found, strict=True):
        assert np.allclose(q, exploration_sampling.shares(p))
