"""A learner takes outcomes as they come: missing, late, and never."""

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.environments import Delayed, Gaussian
from seqbatch.policies import BPE, RBGL, SBUCB, ThompsonSampling
from seqbatch.simulation import simulate
from tests.refusals import refused

GRID = grids.explicit([40, 100, 200])
X = np.random.default_rng(1).standard_normal((200, 3, 2))
Y = np.random.default_rng(2).standard_normal(200)
LOST = [3, 7, 39]


def learner(policy=None):
    return Learner(policy or RBGL(), GRID, actions=3, dim=2, seed=4)


def known(batch):
    values = Y[:40].copy() if batch == 1 else Y[40:100].copy()
    if batch == 1:
        values[LOST] = np.nan
    return values


def test_missing_outcomes_are_left_out_and_late_ones_learned_later():
    made = learner()
    first = made.assign(X[:40])
    made.observe(known(1))
    kept = np.setdiff1d(np.arange(40), LOST)
    vectors = X[:40][np.arange(40), first.actions]
    np.testing.assert_allclose(made.state.evidence[0].moment[0], Y[kept] @ vectors[kept])
    assert made.state.evidence[0].count.tolist() == [37]
    second = made.assign(X[40:100])
    made.observe(known(2), late={39: Y[39], 3: Y[3]})
    chosen = X[40:100][np.arange(60), second.actions]
    every = np.concatenate([vectors[[*kept, 3, 39]], chosen])
    outcomes = np.concatenate([Y[[*kept, 3, 39]], Y[40:100]])
    theta = np.linalg.solve(every.T @ every + np.eye(2), outcomes @ every)
    np.testing.assert_allclose(made.estimate.theta[0], theta)


def test_the_record_says_what_was_used_when():
    made = learner()
    made.assign(X[:40])
    made.observe(known(1))
    made.assign(X[40:50])
    made.observe(late={7: 1.0})
    record = made.record
    assert record.assigned.tolist() == [1] * 40 + [2] * 10
    used = np.ones(50, dtype=int)
    used[40:], used[LOST] = 0, [0, 2, 0]
    assert record.used.tolist() == used.tolist()
    assert record.awaited.tolist() == [3, 39, *range(40, 50)]
    assert record.tables()[0].rows == [(1, 40, 37, 1, 2), (2, 10, 0, 0, 10)]
    assert repr(record) == "<OutcomeRecord: 50 units; 1 used late, 12 not known yet>"
    made.assign(X[50:100])
    made.observe(known(2), late={3: 1.0})
    assert made.record.used[[3, 7, 39, 99]].tolist() == [2, 2, 0, 2]


@pytest.mark.parametrize("policy", [RBGL(), ThompsonSampling(samples=8), SBUCB()], ids=str)
def test_late_outcomes_change_no_decision_of_the_open_batch(policy):
    decisions = []
    for late in (None, {3: 1e6}):
        made = learner(policy)
        made.assign(X[:40])
        made.observe(known(1))
        made.assign(X[40:50])
        if late:
            made.observe(late=late)
        decisions.append(made.assign(X[50:100]))
        made.observe(Y[40:100])
        decisions.append(made.assign(X[100:]))
    same = [np.array_equal(decisions[k].scores, decisions[k + 2].scores) for k in range(2)]
    assert same == [True, False]


def test_a_late_outcome_enters_the_part_of_the_evidence_that_its_batch_gave_it():
    counts = []
    for when in ("in time", "late"):
        made = learner(BPE(first="uniform"))
        made.assign(X[:40])
        made.observe(Y[:40] if when == "in time" else known(1))
        if when == "late":
            made.observe(late={unit: Y[unit] for unit in LOST})
        counts.append([int(part.count.sum()) for part in made.state.evidence])
    assert counts[0] == counts[1]


def test_a_learner_with_late_outcomes_is_saved_and_continues(tmp_path):
    made = learner()
    made.assign(X[:40])
    made.observe([None if np.isnan(value) else value for value in known(1)], late={})
    made.observe(late={7: 1.0})
    made.assign(X[40:60])
    made.save(tmp_path / "learner")
    loaded = Learner.load(tmp_path / "learner")
    for one in (made, loaded):
        one.observe(late={39: 2.0})
        one.assign(X[60:100])
        one.observe(known(2))
    assert made.estimate.theta.tobytes() == loaded.estimate.theta.tobytes()
    assert made.record.used.tolist() == loaded.record.used.tolist()


def test_outcomes_without_sense_are_refused_and_nothing_changes():
    made = learner()
    made.assign(X[:40])
    made.observe(known(1))
    made.observe(late={7: 1.0})
    made.assign(X[40:100])
    before = made.record.used.tolist(), made.state
    for late in ({7: 1.0}, {3: 1.0, 0: 1.0}, {40: 1.0}, {-1: 1.0}, {3: np.nan}, {3.0: 1.0}):
        with refused("invalid-argument", field="late"):
            made.observe(late=late)
        with refused("invalid-argument", field="late"):
            made.observe(Y[40:100], late=late)
    with refused("invalid-argument", field="rewards"):
        made.observe()
    with refused("invalid-argument", field="rewards"):
        made.observe(Y[:3], late={3: 1.0})
    assert made.record.used.tolist() == before[0]
    assert made.state is before[1]
    made.observe(np.full(60, np.nan))
    made.assign(X[100:])
    made.observe(np.full(100, np.nan), late={3: 1.0})
    with refused("finished", field="late"):
        made.observe(late={39: 1.0})


def test_a_simulation_with_late_outcomes_does_what_the_learner_does():
    world = Delayed(Gaussian(dim=2, actions=3), mean=60.0, missing=0.1)
    run = simulate(RBGL(), world, GRID, seed=3, method="direct")
    instance = world.instance(3)
    block, made, counts = instance.block(0), learner(), []
    due = np.searchsorted(GRID.ends, np.arange(1, 4097) + block.delay) + 1
    outcomes = np.empty(200)
    for batch, end in enumerate(GRID.ends, start=1):
        rows = np.arange(made.grid.ends[batch - 2] if batch > 1 else 0, end)
        actions = made.assign(block.contexts[rows]).actions
        counts.append(np.bincount(actions, minlength=3).tolist())
        outcomes[rows] = block.means[rows, actions] + block.noise[rows]
        late = [unit for unit in range(rows[0]) if due[unit] == batch]
        in_time = np.where(due[rows] == batch, outcomes[rows], np.nan)
        made.observe(in_time, late={unit: outcomes[unit] for unit in late})
    assert run.counts.tolist() == counts
    theta = made.estimate.theta
    assert run.error[-1] == pytest.approx(np.linalg.norm(theta - instance.theta), rel=1e-9)
