"""Batches that overlap: outcomes are known so many batches later, and used then."""

from dataclasses import replace

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.environments import ArrayEnvironment, Delayed, Gaussian
from seqbatch.grids import GridRule
from seqbatch.policies import BPE, RBGL, SBUCB, SupSBUCB, ThompsonSampling
from seqbatch.simulation import simulate
from tests.instances import instance
from tests.oracles import greedy
from tests.refusals import refused

LATER = pytest.mark.parametrize("delay", [0, 1, 2, 9])


def overlapping(case, delay):
    return replace(case, grid=grids.explicit(case.ends, delay=delay))


def played(case, policy, delay):
    """Play a grid, each outcome told when the grid says that it is known; return all actions."""
    learner, actions = overlapping(case, delay).learner(policy), []
    starts = [0, *case.ends]
    for batch, end in enumerate(case.ends, start=1):
        assert learner.batch == batch
        actions += learner.assign(case.contexts[starts[batch - 1] : end]).actions.tolist()
        for known in range(1, batch + 1):
            if learner.grid.known(known) == batch:
                rows = np.arange(starts[known - 1], starts[known])
                learner.observe(case.table[rows, np.array(actions)[rows]])
    assert learner.finished
    return learner, actions


@LATER
@pytest.mark.parametrize("layout", ["shared", "block"])
def test_against_a_literal_version(delay, layout):
    case = instance(5, layout, units=300, batches=6)
    chosen = {"ridge": 0.7, "first": "uniform"}
    expected, _ = greedy.rbgl(
        case.long, case.table, case.ends, **chosen, delay=delay, draws=case.draws
    )
    learner, actions = played(case, RBGL(**chosen), delay)
    assert actions == expected
    assigned = np.repeat(np.arange(1, 7), case.grid.sizes)
    assert learner.record.assigned.tolist() == assigned.tolist()
    assert learner.record.used.tolist() == np.minimum(assigned + delay, 6).tolist()


@LATER
@pytest.mark.parametrize(
    "policy",
    [RBGL(), SBUCB(gamma=0.5), SupSBUCB(gamma=0.5), ThompsonSampling(samples=8), BPE()],
    ids=lambda policy: type(policy).__name__,
)
@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
def test_a_replay_and_a_simulation_use_the_same_outcomes(delay, policy):
    case = instance(5, "block", units=300, batches=6)
    _, actions = played(case, policy, delay)
    grid = grids.explicit(case.ends, delay=delay)
    learner = overlapping(case, delay).learner(policy)
    assert learner.replay(case.contexts, case.table).tolist() == actions
    world = ArrayEnvironment(case.contexts, case.table)
    run = simulate(policy, world, grid, seed=3, keep_log=True)
    draws = iter(np.split(world.instance(3).block(0).draws[: len(case.table)], case.ends[:-1]))
    learner = overlapping(case, delay).learner(policy)
    learner._with_draws = lambda _, call: call(next(draws))
    for batch, end in enumerate(case.ends, start=1):
        rows = slice(end - case.grid.sizes[batch - 1], end)
        decision = learner.assign(case.contexts[rows])
        assert np.array_equal(decision.actions, run.rows.actions[rows])
        assert np.array_equal(decision.probabilities, run.rows.probabilities[rows])
        for known in [one for one in range(1, batch + 1) if grid.known(one) == batch]:
            learner.observe(run.rows.outcomes[run.rows.waves == known])


def test_outcomes_that_come_early_wait_for_the_end_of_the_open_batch(tmp_path):
    case = instance(5, "block", units=300, batches=6)
    learner = overlapping(case, 1).learner(RBGL())
    first, second = (slice(0, case.ends[0]), slice(case.ends[0], case.ends[1]))
    got = learner.assign(case.contexts[first]).actions
    assert learner.batch == 2
    with refused("invalid-argument", field="rewards"):
        learner.observe(np.zeros(3))
    half = case.ends[0] + (case.ends[1] - case.ends[0]) // 2
    learner.assign(case.contexts[case.ends[0] : half])
    learner.save(tmp_path / "learner")
    for made in (learner, Learner.load(tmp_path / "learner")):
        rewards = case.table[first][np.arange(case.ends[0]), got]
        missing = np.where(np.arange(case.ends[0]) == 2, np.nan, rewards)
        made.observe(missing)
        made.observe(late={2: rewards[2]})
        # The open batch is decided as before, and nothing of it may be observed yet.
        decision = made.assign(case.contexts[half : case.ends[1]])
        assert (decision.probabilities == 1 / case.actions).all()
        assert made.batch == 3
        assert made.record.used[first].tolist() == [2] * case.ends[0]
        assert set(made.record.awaited) == set(range(case.ends[1])[second])
        assert "awaiting outcomes" in made._repr_html_()
    assert np.array_equal(learner.estimate.theta, made.estimate.theta)


def test_what_cannot_wait_is_refused():
    case = instance(5, "block", units=300, batches=6)
    learner = overlapping(case, 2).learner(RBGL())
    with refused("no-units"):
        learner.observe([])
    with refused("not-whole-batches"):
        learner.replay(case.contexts[: case.ends[2]], case.table[: case.ends[2]])
    learner.assign(case.contexts[: case.ends[0]])
    with refused("awaiting-outcomes"):
        learner.replay(case.contexts[case.ends[0] :], case.table[case.ends[0] :])
    with refused("invalid-argument", field="delay"):
        grids.explicit([3, 6], delay=-1)
    world, grid = Gaussian(dim=2, actions=2), grids.explicit([30, 60], delay=1)
    for method in ("collapsed", "device"):
        with refused("invalid-argument", field="method"):
            simulate(RBGL(), world, grid, method=method)
    assert repr(grid) == "Grid(units=60, batches=2, ends=[30, 60], delay=1)"
    assert GridRule(kind="uniform", batches=3, delay=1).grid(30, 2).delay == 1


def test_late_outcomes_of_overlapping_batches_are_later_still():
    world = Delayed(Gaussian(dim=2, actions=2, layout="block"), mean=40.0, missing=0.2)
    grid = grids.explicit([100, 200, 300])
    plain = simulate(RBGL(), world, grid, seed=2, keep_log=True)
    later = simulate(RBGL(), world, grids.explicit(grid.ends, delay=1), seed=2, keep_log=True)
    assert np.array_equal(plain.rows.actions[:100], later.rows.actions[:100])
    # Nothing is known when the second batch begins.
    assert (later.rows.probabilities[100:200] == 0.5).all()
    lost = np.isnan(plain.rows.outcomes)
    assert 0.2 < lost.mean() < 0.6
    assert np.array_equal(lost, np.isnan(later.rows.outcomes))
