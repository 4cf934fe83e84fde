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
