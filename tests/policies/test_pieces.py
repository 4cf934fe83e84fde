"""Feedback of a batch may come in any pieces, one action after another among them."""

import numpy as np
import pytest

from seqbatch.core import Problem
from seqbatch.policies import RBGL, SBPE, SBUCB, Feedback, ThompsonSampling

POLICIES = [SBPE(), RBGL(ridge=2.0), SBUCB(gamma=0.5), ThompsonSampling(samples=8)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_outcomes_may_come_one_action_after_another(policy):
    random = np.random.default_rng(2)
    vectors, rewards = random.standard_normal((30, 2)), random.standard_normal(30)
    actions = np.repeat([0, 1, 2], 10)

    def feedback(rows):
        groups = np.zeros(len(rows), dtype=np.int64)
        return Feedback(vectors[rows], actions[rows], groups, rewards[rows])

    start = policy.begin(Problem(ends=(30, 60), actions=3, dim=2, layout="block"))
    at_once = policy.close(policy.learn(start, feedback(np.arange(30))))
    state = start
    for action in range(3):
        state = policy.learn(state, feedback(np.flatnonzero(actions == action)))
    in_pieces = policy.close(state)
    for one, other in zip(at_once.estimates, in_pieces.estimates, strict=True):
        assert np.array_equal(one.theta, other.theta)
    assert np.abs(at_once.estimates[0].theta).min() > 0
