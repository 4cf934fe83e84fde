"""Plans that start from the sums of an earlier experiment."""

import json

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.core import Statistics
from seqbatch.planning import plan
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.history import drifted, model_from
from seqbatch.planning.replanning import model_given
from seqbatch.planning.request import law_of
from seqbatch.policies import History, JointRidge
from tests.refusals import refused

K = 3


def sums(count=900, *, features=2, seed=0, parts=1, level=0.0):
    """Return the statistics of an earlier experiment, batch by batch."""
    random = np.random.default_rng(seed)
    x = np.column_stack([np.ones(count), random.normal(1.0, 2.0, (count, features))])
    theta = np.zeros((K, features + 1))
    theta[np.arange(1, K), np.arange(1, K)] = 0.2
    actions = random.integers(0, K, count)
    y = np.einsum("ij,ij->i", x, theta[actions]) + random.standard_normal(count)
    made = []
    for number, part in enumerate(np.array_split(np.arange(count), parts)):
        made.append(
            Statistics.zero(K, features + 1).add(x[part], y[part] + number * level, actions[part])
        )
    return made


def earlier(count=900, *, drift="learn", places=None, **more):
    return History.of(sums(count, **more), constant=0, places=places, drift=drift)


def small(history, **more):
    return plan(units=1_000, actions=len(history.places), history=history, batches=2,
                max_batches=2, quick=True, **more)  # fmt: skip


def test_drifted_sums_are_those_of_the_posterior_plus_the_drift():
    """Literally: the inverse of a covariance to which the drift's is added."""
    [known] = sums(60)
    root = np.random.default_rng(1).standard_normal((3, 3))
    drift = 0.3 * root @ root.T
    gram, moment = drifted(known, drift)
    for action in range(K):
        covariance = np.linalg.inv(known.gram[action]) + drift
        mean = np.linalg.solve(known.gram[action], known.moment[action])
        assert np.allclose(gram[action], np.linalg.inv(covariance), rtol=1e-9)
        assert np.allclose(moment[action], np.linalg.inv(covariance) @ mean, rtol=1e-8)


def test_without_drift_it_is_an_experiment_under_way():
    [known] = sums()
    model = Model(layout="block", actions=K, dim=3, scenarios=((0.2, 1.0),))
    law = law_of(0.2, None, [1.0], None)
    under_way = model_given(model, law, known, None)
    started = model_from(model, law, earlier(drift=0.0))
    assert started.scenarios == under_way.scenarios
    assert np.allclose(started.past.gram, under_way.past.gram, rtol=1e-9)
    assert np.allclose(started.past.moment, under_way.past.moment, rtol=1e-9)


def test_the_less_has_drifted_the_more_a_history_saves():
    lost = [small(earlier(drift=drift)).row.regret for drift in (0.0, 0.1, 0.3)]
    without = plan(units=1_000, actions=K, features=2, batches=2, max_batches=2, quick=True)
    assert lost[0] < 0.6 * lost[1] < 0.6 * 0.8 * lost[2]
    assert lost[1] < without.row.regret
    assert small(earlier(8_000, drift=0.0)).row.regret < 0.5 * lost[0]


def test_levels_of_earlier_batches_do_not_matter():
    found = [small(earlier(parts=2, level=level)) for level in (0.0, 5.0)]
    assert found[0].grid == found[1].grid
    assert found[0].row.regret == pytest.approx(found[1].row.regret, rel=1e-6)


def test_the_first_batch_follows_from_the_history():
    made = small(earlier(drift=0.1))
    first, second = str(made).splitlines()[1:3]
    assert first.endswith("using the history")
    assert second.endswith(f"using the history and {made.grid.sizes[0]} outcomes")
    assert "Estimated from the history of 900 units, from which" in str(made)
    assert "drifted by 0.1 standard deviations" in str(made)
    assert "No method with these batches" not in str(made)
    assert made.policy == JointRidge(
        first="fixed", ties="random", constant=0, waves="own level", history=earlier(drift=0.1)
    )
    said = json.loads(json.dumps(made.as_dict()))
    assert (said["history"]["units"], said["history"]["drift"]) == (900, 0.1)
    assert "history" not in said["policy"]
    # No lift without a share of random units; with one, every batch counts.
    assert made.detection is None
    assert small(earlier(), randomised=0.1).detection.counting == 2


def test_a_new_action_is_tried_in_the_first_batch():
    made = small(earlier(places=(0, 1, 2, -1)))
    assert str(made).splitlines()[1].endswith("uniformly at random")
    assert made.model.actions == 4
    assert made.policy.first == "uniform"


def test_columns_that_others_determine_are_left_out():
    random = np.random.default_rng(3)
    level = random.integers(0, 3, 600)
    x = np.column_stack([np.ones(600), np.eye(3)[level]])
    actions = random.integers(0, K, 600)
    known = Statistics.zero(K, 4).add(x, random.standard_normal(600), actions)
    assert small(History.of([known], constant=0)).model.dim == 3


def test_refusals():
    history = earlier()
    asked = {"units": 1_000, "actions": K, "history": history}
    with refused("invalid-argument", field="features"):
        plan(**asked, features=3)
    with refused("invalid-argument", field="dim"):
        plan(**asked, dim=3)
    with refused("invalid-argument", field="history"):
        plan(**{**asked, "actions": 2})
    with refused("invalid-argument", field="history"):
        plan(**{**asked, "history": sums()})
    for more in ({"after": 10_000}, {"purpose": "choose"}, {"contexts": "adversarial"}):
        with refused("invalid-argument", field="history"):
            plan(**asked, **more)


@pytest.mark.slow
def test_campaigns_with_a_history_lose_what_the_plan_says():
    """Worlds from the prior, their past from the drift; the plan's policy runs unit by unit."""
    random, drift, lost, said = np.random.default_rng(7), 0.15, [], []
    for seed in range(30):
        theta = 0.15 * random.standard_normal((K, 3))
        x, table = units(random, theta + drift * random.standard_normal((K, 3)), 900)
        actions = random.integers(0, K, 900)
        known = Statistics.zero(K, 3).add(x, table[np.arange(900), actions], actions)
        history = History.of([known], constant=0, drift=drift)
        made = plan(units=1_000, actions=K, history=history, waves=(300, 700), batches=2,
                    max_batches=2, quick=True)  # fmt: skip
        x, table = units(random, theta, 1_000)
        learner = Learner(made.policy, grids.explicit(made.grid.ends), actions=K, dim=3,
                          layout="block", seed=seed)  # fmt: skip
        means = x @ theta.T
        given = means[np.arange(1_000), learner.replay(x, table)]
        lost.append(means.max(axis=1).sum() - given.sum())
        said.append(made.row.regret)
    # Policies lose a little more than the benchmark, which knows how large effects are.
    assert 0.8 < np.mean(lost) / np.mean(said) < 1.5


def units(random, theta, count):
    x = np.column_stack([np.ones(count), random.standard_normal((count, 2))])
    return x, x @ theta.T + random.standard_normal((count, 1))
