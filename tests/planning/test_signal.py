"""Headlines at every signal, against plain least squares in very many trials."""

import numpy as np
import pytest

from seqbatch.planning import plan
from tests.cases import thorough

ALIKE = 16


def losses(model, first, later, trials, random):
    """Return what two batches lose, trial by trial, by nothing but NumPy."""
    [(effect, noise)] = model.scenarios
    block = model.layout == "block"
    models, shape = model.actions if block else 1, (trials, first, model.actions, model.dim)
    theta = model.spread(effect) * random.standard_normal((trials, models, model.dim))
    actions = random.integers(0, model.actions, (trials, first))
    if block:
        rows = random.standard_normal((trials, first, model.dim))
        rows[..., 0] = 1.0
        own = np.take_along_axis(theta, actions[..., None], axis=1)
    else:
        vectors = random.standard_normal(shape)
        rows = np.take_along_axis(vectors, actions[..., None, None], axis=2)[:, :, 0]
        own = theta
    rewards = (rows * own).sum(axis=2) + noise * random.standard_normal((trials, first))
    fits = np.empty_like(theta)
    for each in range(models):
        mine = (actions == each) if block else np.ones_like(actions)
        inverse = np.linalg.pinv(rows * mine[..., None], rcond=1e-9)
        fits[:, each] = (inverse @ (rewards * mine)[..., None])[..., 0]
    return first * effect + later * missed(model, theta, fits, random)


def missed(model, theta, fits, random):
    """Return what a unit loses by choosing after the fits."""
    if model.layout == "block":
        units = random.standard_normal((len(theta), ALIKE, model.dim))
        units[..., 0] = 1.0
        means, scores = (units @ np.swapaxes(each, 1, 2) for each in (theta, fits))
    else:
        units = random.standard_normal((len(theta), ALIKE, model.actions, model.dim))
        means, scores = (np.einsum("tnad,td->tna", units, each[:, 0]) for each in (theta, fits))
    chosen = np.take_along_axis(means, scores.argmax(axis=2)[..., None], axis=2)[..., 0]
    return (means.max(axis=2) - chosen).mean(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "effect"),
    [
        ({"features": 3}, 0.3),
        ({"features": 3}, 100.0),
        ({"dim": 4}, 0.01),
        ({"dim": 4}, 10.0),
        *thorough(
            ({"features": 3}, 0.01),
            ({"features": 3}, 3.0),
            ({"features": 3}, 10.0),
            ({"dim": 4}, 0.3),
            ({"dim": 4}, 3.0),
            ({"dim": 4}, 100.0),
        ),
    ],
)
def test_headlines_agree_with_least_squares_at_every_signal(kind, effect):
    made = plan(
        units=3_000, actions=2, effect=effect, effect_spread=1, batches=2, max_batches=2,
        compare=False, **kind,
    )  # fmt: skip
    first, later = made.grid.sizes
    # Failures are rare, and trials cheap, where the first batch is small.
    trials = 20_000 if first < 100 else 700_000 // first
    found = losses(made.model, first, later, trials, np.random.default_rng(1))
    error = np.hypot(made.row.error, found.std() / np.sqrt(trials))
    assert error < 0.12 * made.row.regret
    assert abs(made.row.regret - found.mean()) < 3.5 * error
