"""One action a unit, among equals."""

import numpy as np

from seqbatch.policies.choice import highest


def test_a_criterion_that_is_no_number_is_never_passed_over():
    """Wherever it stands: probabilities that look sound would hide that nothing is known."""
    for place in range(3):
        criterion = np.array([[1.0, 3.0, 2.0]])
        criterion[0, place] = np.nan
        _, probabilities = highest(criterion, "random", np.array([0.5]))
        assert np.isnan(probabilities).all()


def test_equals_are_the_highest_alone():
    criterion = np.array([[-np.inf, 2.0, 2.0], [np.inf, 0.0, np.inf], [-0.0, 0.0, -1.0]])
    actions, probabilities = highest(criterion, "random", np.array([0.6, 0.4, 0.5]))
    assert actions.tolist() == [2, 0, 1]
    assert probabilities.tolist() == [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
