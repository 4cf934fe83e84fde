"""Thompson sampling's draws: centred on the posterior, and new ones in every batch."""

import numpy as np

from seqbatch.core import Problem
from seqbatch.policies import Feedback, ThompsonSampling


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
