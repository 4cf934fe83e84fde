"""With a sample the units are its rows: predictions against the policy's own code on them."""

import warnings

import numpy as np
import pytest

from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning import Sample, plan
from seqbatch.planning.trials.thinned_units import ThinnedTrial
from tests.cases import thorough
from tests.planning.test_conduct import exploitation

TRIALS = 300


def rows_of(kind):
    random = np.random.default_rng(1)
    if kind == "yes or no":
        return (random.random((2_000, 4)) < [0.5, 0.3, 0.1, 0.05]).astype(float)
    return random.standard_t(3, (2_000, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "effect"),
    [("heavy", 0.2), *thorough(("yes or no", 0.2), ("yes or no", 3.0), ("heavy", 3.0))],
)
def test_predictions_are_for_the_samples_rows(kind, effect):
    sample = Sample(rows_of(kind))
    made = plan(
        units=3_000, actions=3, features=sample, effect=effect, effect_spread=1, batches=3,
        max_batches=3, compare=False,
    )  # fmt: skip
    model, spread = made.model, made.request.judging.scale[0] * made.model.spread(effect)
    found, gains = [], []
    for seed in range(TRIALS):
        random = np.random.default_rng(20_000 + seed)
        theta = spread * random.standard_normal((3, model.dim))
        trial = ThinnedTrial(theta, 1.0, 3, "block", drawing(sample.whitened))
        means = np.column_stack([np.ones(2_000), sample.whitened]) @ theta.T
        gains.append((means.max(axis=1) - means.mean(axis=1)).mean())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankDeficiencyWarning)
            # As many as there are: no unit stands for another.
            found.append(trial.regret(exploitation(model), made.grid.sizes, random, most=3_000))
    error = np.hypot(made.row.error, np.std(found) / np.sqrt(TRIALS))
    assert error < 0.08 * made.row.regret
    assert abs(made.row.regret - np.mean(found)) < 3.5 * error
    # The stated effect is what there is to gain on these rows.
    assert np.mean(gains) == pytest.approx(effect, rel=4 * np.std(gains) / effect / TRIALS**0.5)


def drawing(rows):
    """Return a function that draws units from the rows, behind a constant."""

    def contexts(random, units):
        taken = rows[random.integers(0, len(rows), units)]
        return np.column_stack([np.ones(units), taken])

    return contexts
