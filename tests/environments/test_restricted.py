"""Environments in which not every unit may get every action."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch import checks, grids
from seqbatch.checks import EnvironmentCheckError
from seqbatch.environments import ArrayEnvironment, Gaussian, Restricted
from seqbatch.policies import SBPE, SBUCB, FixedAction, Oracle, UniformRandom
from seqbatch.simulation import simulate
from tests.refusals import refused

GRID = grids.explicit([300, 1_000, 5_000])


def first_block(environment, seed=1):
    return environment.instance(SeedSequence(seed)).block(0)


def test_each_action_is_open_to_its_share_of_units_independently():
    shares = np.array([1.0, 0.6, 0.2])
    eligible = np.concatenate(
        [
            first_block(Restricted(Gaussian(dim=2, actions=3), shares=shares), seed).eligible
            for seed in range(10)
        ]
    )
    n = len(eligible)
    assert np.allclose(eligible.mean(axis=0), shares, atol=4 * 0.5 / np.sqrt(n))
    both = (eligible[:, 1] & eligible[:, 2]).mean()
    assert abs(both - 0.12) < 4 * np.sqrt(0.12 * 0.88 / n)


def test_a_unit_that_nothing_is_left_for_may_get_the_action_of_the_highest_share():
    eligible = first_block(Restricted(Gaussian(dim=2, actions=3), shares=[0.1, 0.3, 0.0])).eligible
    assert eligible.any(axis=1).all()
    assert not eligible[:, 2].any()
    # 0.3, and all who may get neither of the two.
    expected = 0.3 + 0.7 * 0.9
    assert abs(eligible[:, 1].mean() - expected) < 4 * 0.5 / np.sqrt(len(eligible))


def test_units_are_those_of_the_environment_inside():
    inside = Gaussian(dim=2, actions=3)
    plain, masked = first_block(inside), first_block(Restricted(inside, shares=[1.0, 0.5, 0.5]))
    for name in ("contexts", "means", "noise", "draws"):
        assert np.array_equal(getattr(plain, name), getattr(masked, name))
    expected = [max(means[may]) for means, may in zip(masked.means, masked.eligible, strict=True)]
    assert masked.best.tolist() == expected


def test_restrictions_add_up():
    inside = Restricted(Gaussian(dim=2, actions=3), shares=[0.5, 0.5, 0.1])
    outside = first_block(Restricted(inside, shares=[0.2, 0.9, 0.9]))
    within = first_block(inside).eligible
    assert not (outside.eligible & ~within).any()
    assert outside.eligible.any(axis=1).all()
    assert (outside.eligible != within).any()


def test_with_every_action_open_to_all_a_simulation_is_the_same_to_the_last_bit():
    inside = Gaussian(dim=3, actions=4, layout="disjoint")
    for policy in (SBPE(first="uniform"), SBUCB(gamma=0.5, ties="random")):
        plain = simulate(policy, inside, GRID, seed=3, method="direct")
        open_to_all = simulate(policy, Restricted(inside, shares=[1.0] * 4), GRID, seed=3)
        for name in ("regret", "reward", "counts", "error"):
            assert np.array_equal(getattr(plain, name), getattr(open_to_all, name))


def test_regret_is_against_the_best_eligible_action():
    inside = Gaussian(dim=3, actions=4)
    environment = Restricted(inside, shares=[0.3, 0.5, 0.9, 0.2])
    theta = environment.instance(SeedSequence(5)).theta[0]
    assert simulate(Oracle(theta=theta), environment, GRID, seed=5).regret[-1] == 0
    learned = simulate(SBPE(), environment, GRID, seed=5)
    assert (np.diff(learned.regret) >= 0).all()
    assert 0 < learned.regret[-1] < simulate(UniformRandom(), environment, GRID, seed=5).regret[-1]
    # What nobody may get is nobody's best: less is earned than where all is allowed.
    free = simulate(Oracle(theta=theta), inside, GRID, seed=5)
    bound = simulate(Oracle(theta=theta), environment, GRID, seed=5)
    assert bound.reward[-1] < free.reward[-1]


def test_sums_of_a_batch_are_not_drawn_where_actions_are_restricted():
    environment = Restricted(Gaussian(dim=3, actions=2), shares=[1.0, 0.5])
    auto, direct = (
        simulate(SBPE(), environment, GRID, seed=2, method=method) for method in ("auto", "direct")
    )
    assert np.array_equal(auto.regret, direct.regret)
    with refused("invalid-argument", field="method"):
        simulate(SBPE(), environment, GRID, method="collapsed")


def test_arrays_with_a_mask():
    random = np.random.default_rng(0)
    rewards = random.standard_normal((6_000, 3))
    eligible = random.random((6_000, 3)) < 0.5
    eligible[:, 1] |= ~eligible.any(axis=1)
    environment = ArrayEnvironment(random.standard_normal((6_000, 2)), rewards, eligible=eligible)
    checks.check_environment(environment)
    grid = grids.explicit([5_000])
    run = simulate(FixedAction(action=2), environment, grid)
    chosen = [2 if may[2] else int(np.flatnonzero(may)[0]) for may in eligible[:5_000]]
    gained = rewards[np.arange(5_000), chosen]
    best = np.where(eligible, rewards, -np.inf)[:5_000].max(axis=1)
    assert run.counts[0].tolist() == np.bincount(chosen).tolist()
    assert run.reward[-1] == pytest.approx(gained.sum())
    assert run.regret[-1] == pytest.approx((best - gained).sum())


def test_logged_units_are_replayed_among_what_they_may_get():
    random = np.random.default_rng(0)
    eligible = random.random((4_000, 3)) < 0.6
    eligible[:, 0] = True
    logged = np.array([random.choice(np.flatnonzero(may)) for may in eligible])
    environment = ArrayEnvironment(
        np.ones((4_000, 1)), np.tile([0.0, 1.0, 3.0], (4_000, 1)), logged=logged, eligible=eligible
    )
    run = simulate(SBPE(first="uniform"), environment, grids.explicit([200, 800]), seed=4)
    # Without noise the best action is known after one batch.
    used = np.flatnonzero(eligible[:, 2] & (logged == 2))
    assert run.counts[1, 2] > run.counts[1, 1] > 0
    assert run.counts[1, 2] < len(used)


@pytest.mark.parametrize(
    ("build", "field", "received"),
    [
        (lambda: Restricted(Gaussian(dim=2, actions=3), shares=[1.0, 0.5]), "shares", "(1.0, 0.5)"),
        (lambda: Restricted(Gaussian(dim=2, actions=2), shares=[1.5, 0.5]), "shares", "1.5"),
        (lambda: Restricted(Gaussian(dim=2, actions=2), shares=[0.0, 0.0]), "shares", "(0.0, 0.0)"),
        (
            lambda: ArrayEnvironment(np.ones((2, 1)), np.eye(2), eligible=np.eye(3, dtype=bool)),
            "eligible",
            "shape (3, 3)",
        ),
        (
            lambda: ArrayEnvironment(
                np.ones((2, 1)), np.eye(2), logged=[0, 0], eligible=np.eye(2, dtype=bool)
            ),
            "logged",
            "action 0 in row 1, which is not eligible",
        ),
    ],
)
def test_bad_restrictions_are_refused(build, field, received):
    with refused("invalid-argument", field=field, received=received):
        build()


def test_a_simulation_names_the_policy_that_ignores_the_mask():
    class Unaware(UniformRandom):
        def assign(self, state, contexts, draws, positions):
            return super().assign(state, replace(contexts, eligible=None), draws, positions)

    environment = Restricted(Gaussian(dim=2, actions=2), shares=[1.0, 0.5])
    with refused("invalid-argument", field="Unaware's actions"):
        simulate(Unaware(), environment, GRID)


def test_a_mask_that_leaves_a_unit_nothing_is_found_by_the_checks():
    @dataclass(frozen=True)
    class Nothing:
        inside: object

        @property
        def theta(self):
            return self.inside.theta

        def block(self, index):
            block = self.inside.block(index)
            return replace(block, eligible=np.zeros(block.means.shape, dtype=bool))

    class Closed(Gaussian):
        def instance(self, seed):
            return Nothing(super().instance(seed))

    with pytest.raises(EnvironmentCheckError, match="at least one action of every unit"):
        checks.check_environment(Closed(dim=2, actions=2))
