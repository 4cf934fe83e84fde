"""Worlds beyond linear rewards: other outcomes, wrong models, drift, late outcomes, logs."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.random import SeedSequence
from scipy.special import expit, ndtr

from seqbatch import checks, grids
from seqbatch.checks import check_environment
from seqbatch.checks.environments import EnvironmentCheckError
from seqbatch.environments import (
    BLOCK,
    ArrayEnvironment,
    Delayed,
    Drifting,
    Gaussian,
    GeneralEnvironment,
    GeneralizedLinear,
    Misspecified,
    Restricted,
    Sphere,
    WorstCase,
    logged_table,
)
from seqbatch.policies import RBGL, FixedAction, UniformRandom
from seqbatch.simulation import simulate
from tests.refusals import refused

BLOCKS = Sphere(dim=2, actions=3, layout="block", norm=2.0)


@dataclass(frozen=True, kw_only=True)
class Clicks(GeneralEnvironment):
    """The best action changes after `change` units; yes/no outcomes, of which no is often lost."""

    change: int = 300

    def truth(self, random):
        return random.permutation(self.actions)

    def contexts(self, random, size):
        return random.random((size, self.dim))

    def means(self, contexts, times, truth):
        best = np.where(times < self.change, truth[0], truth[1])
        return np.where(np.arange(self.actions) == best[:, None], 0.8, 0.2) * contexts[:, :1]

    def delays(self, random, contexts):
        return np.where(random.random(len(contexts)) < 0.3, np.inf, 40.0)


WORLDS = [
    Clicks(dim=2, actions=3, family="bernoulli"),
    GeneralizedLinear(BLOCKS),
    GeneralizedLinear(Gaussian(dim=3, actions=2), link="probit", intercept=-1.0),
    GeneralizedLinear(Drifting(BLOCKS, period=500, season=0.5), link="log"),
    Misspecified(Gaussian(dim=3, actions=2, layout="disjoint"), size=0.5),
    Drifting(BLOCKS, period=1_000, drift=0.3),
    Delayed(Restricted(BLOCKS, shares=[0.5, 0.5, 1.0]), mean=100.0, missing=0.1),
    ArrayEnvironment(np.ones((5_000, 1)), means=np.full((5_000, 2), 1e-5), noise="bernoulli"),
    ArrayEnvironment(np.ones((50, 1)), means=np.ones((50, 2)), noise=np.ones((50, 2))),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_worlds_pass_the_checks_and_run(world):
    report = checks.check_environment(world)
    # A law that says nothing of a world is not among those that it keeps.
    assert ("means" in dict(report.rules)) == (world.instance(2).theta is not None)
    run = simulate(RBGL(), world, grids.explicit([20, 50]), seed=1)
    assert (np.diff(run.regret) >= 0).all()


@pytest.mark.parametrize(
    ("link", "inverse", "variance"),
    [
        ("logit", expit, lambda mean: mean * (1 - mean)),
        ("probit", ndtr, lambda mean: mean * (1 - mean)),
        ("log", np.exp, lambda mean: mean),
    ],
)
def test_outcomes_have_the_mean_and_variance_of_their_link(link, inverse, variance):
    inside = BLOCKS.instance(3).block(0)
    block = GeneralizedLinear(BLOCKS, link=link, intercept=-0.5).instance(3).block(0)
    means = inverse(inside.means - 0.5)
    np.testing.assert_allclose(block.means, means)
    outcomes = block.means + block.noise
    assert np.abs(outcomes - np.round(outcomes)).max() < 1e-12
    assert outcomes.min() > -1e-12
    for action in range(3):
        noise, wanted = block.noise[:, action], variance(means[:, action]).mean()
        assert abs(noise.mean()) < 5 * np.sqrt(wanted / BLOCK)
        assert (noise**2).mean() == pytest.approx(wanted, rel=0.15)


def test_the_policy_learns_the_outcome_of_its_action_and_regret_is_in_true_means():
    world = GeneralizedLinear(BLOCKS)
    block = world.instance(5).block(0)
    learned = []

    class Watching(UniformRandom):
        def learn(self, state, feedback):
            learned.append(feedback)
            return super().learn(state, feedback)

    run = simulate(Watching(), world, grids.explicit([500]), seed=5)
    [feedback] = learned
    taken = np.arange(500), feedback.actions
    assert np.array_equal(feedback.rewards, block.means[taken] + block.noise[taken])
    assert set(feedback.rewards.round(12)) == {0.0, 1.0}
    assert run.regret[0] == pytest.approx((block.best[:500] - block.means[taken]).sum())


def test_a_device_learns_the_same_outcomes():
    grid = grids.explicit([60, 3_000, 5_000])
    ours, wanted = (
        simulate(RBGL(), GeneralizedLinear(BLOCKS), grid, seed=2, **how)
        for how in ({"method": "device", "device": "numpy"}, {"method": "direct"})
    )
    assert np.array_equal(ours.counts, wanted.counts)
    np.testing.assert_allclose(ours.eigenvalue, wanted.eigenvalue)
    with refused("invalid-argument", field="method"):
        simulate(RBGL(), Delayed(BLOCKS, mean=9), grid, method="device", device="numpy")


def test_a_wave_is_as_large_as_stated_and_no_linear_model_follows_it():
    inside = Gaussian(dim=3, actions=2, kappa=1.0, noise=0.0)
    world = Misspecified(inside, size=0.7)
    added, kept = [], []
    for seed in range(40):
        block, plain = world.instance(seed).block(0), inside.instance(seed).block(0)
        gap = (block.means - plain.means)[:, 0]
        x = np.column_stack([np.ones(BLOCK), block.contexts[:, 0]])
        added.append(gap.var())
        kept.append((gap - x @ np.linalg.lstsq(x, gap, rcond=None)[0]).var())
    assert np.sqrt(np.mean(added)) == pytest.approx(0.7, abs=0.1)
    assert np.mean(kept) > 0.7 * np.mean(added)


def test_drift_is_a_line_and_a_season_returns():
    plain = np.concatenate([BLOCKS.instance(1).block(index).means for index in range(2)])

    def moved(**changes):
        instance = Drifting(BLOCKS, period=1_000, **changes).instance(1)
        return np.concatenate([instance.block(index).means for index in range(2)]) - plain

    line, wave = moved(drift=0.5), moved(season=0.5)
    # Across the boundary of blocks, too.
    np.testing.assert_allclose(np.diff(line, axis=0), line[1:2].repeat(len(line) - 1, 0), atol=1e-9)
    np.testing.assert_allclose(wave[1_000:], wave[:-1_000], atol=1e-9)
    assert np.abs(wave).max() == pytest.approx(0.5, abs=1e-3)
    slopes = np.array(
        [
            Drifting(BLOCKS, period=1_000, drift=0.5).instance(seed).block(0).means[1_000]
            - BLOCKS.instance(seed).block(0).means[1_000]
            for seed in range(60)
        ]
    )
    assert slopes.std() == pytest.approx(0.5, abs=0.1)


def test_outcomes_are_learned_at_the_end_of_the_first_batch_by_which_they_are_known():
    world, grid = Delayed(BLOCKS, mean=150.0, missing=0.2), grids.explicit([100, 250, 600])
    delay = world.instance(7).block(0).delay[:600]
    learned = []

    class Watching(UniformRandom):
        def learn(self, state, feedback):
            learned.extend((state.batch, vector[0]) for vector in feedback.vectors)
            return super().learn(state, feedback)

    late = simulate(Watching(), world, grid, seed=7)
    x = world.instance(7).block(0).contexts[:600, 0]
    # A unit is known by its vector, which no other one has.
    found = dict.fromkeys(range(600), 0) | {
        int(np.flatnonzero(x == value)[0]): batch for batch, value in learned
    }
    assert len(learned) == len({value for _, value in learned})
    for unit, batch in found.items():
        known = unit + 1 + delay[unit]
        wanted = next((m for m, end in enumerate(grid.ends, 1) if known <= end), 0)
        assert batch == wanted
    assert {0, 1, 2, 3} == set(found.values())
    # Without delays nothing changes; and regret is that of all units.
    plain, none = (simulate(RBGL(), kind, grid, seed=7) for kind in (BLOCKS, Delayed(BLOCKS)))
    assert plain.regret.tobytes() == none.regret.tobytes()
    assert late.counts.sum() == 600


def test_late_outcomes_cost_regret():
    grid = grids.explicit([100, 200, 3_000])
    lost = [
        np.mean([simulate(RBGL(), kind, grid, seed=seed).regret[-1] for seed in range(12)])
        for kind in (BLOCKS, Delayed(BLOCKS, mean=50_000.0))
    ]
    assert lost[1] > 1.5 * lost[0]


@pytest.mark.parametrize(
    "environment",
    [BLOCKS, WorstCase(ends=(10, 20), dim=4), *WORLDS],
    ids=lambda e: type(e).__name__,
)
def test_a_whole_number_is_a_seed(environment):
    one, other = (environment.instance(seed).block(0) for seed in (4, SeedSequence(4)))
    for name in ("contexts", "means", "noise", "draws"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    with refused("invalid-argument", field="seed"):
        environment.instance(-1)


def test_arrays_of_means_say_their_noise():
    contexts, means = np.ones((4_000, 1)), np.full((4_000, 2), 0.3)
    with refused("invalid-argument", field="noise"):
        ArrayEnvironment(contexts, means=means)
    for wrong in (-1.0, "binomial", np.ones((3, 2)), np.ones((4_000, 3))):
        with refused("invalid-argument", field="noise"):
            ArrayEnvironment(contexts, means=means, noise=wrong)
    with refused("invalid-argument", field="rewards"):
        ArrayEnvironment(contexts)
    with refused("invalid-argument", field="rewards"):
        ArrayEnvironment(contexts, means, means=means, noise=1.0)
    with refused("invalid-argument", field="noise"):
        ArrayEnvironment(contexts, means, noise=1.0)
    with refused("invalid-argument", field="means"):
        ArrayEnvironment(contexts, means=means + 1, noise="bernoulli")
    with refused("invalid-argument", field="means"):
        ArrayEnvironment(contexts, means=means, noise=0, logged=np.zeros(4_000, int))
    own = ArrayEnvironment(contexts, means=means, noise=0.5)
    noise = [own.instance(seed).block(0).noise for seed in (1, 1, 2)]
    assert np.array_equal(noise[0], noise[1])
    assert not np.array_equal(noise[0], noise[2])
    assert noise[0].std() == pytest.approx(0.5, abs=0.03)
    table = np.random.default_rng(1).standard_normal((4_000, 2))
    given = ArrayEnvironment(contexts, means=means, noise=table).instance(1).block(0)
    assert np.array_equal(given.noise, table)


def test_a_log_with_unequal_probabilities_values_actions_without_bias():
    """Units with high outcomes got action 1 more often: as they stand, its mean is too high."""
    random = np.random.default_rng(3)
    kind = random.random(60_000) < 0.5
    chance = np.where(kind, 0.8, 0.3)
    actions = (random.random(60_000) < chance).astype(int)
    outcomes = kind * 1.0 + 0.2 * actions
    taken = np.where(actions == 1, chance, 1 - chance)
    x = np.ones((60_000, 1))
    means = {}
    for name, probabilities in (("thinned", taken), ("plain", None)):
        log = logged_table(x, actions, outcomes, arms=2, probabilities=probabilities)
        run = simulate(FixedAction(action=1), log, grids.explicit([8_000]), seed=1)
        means[name] = run.reward[-1] / 8_000
    assert means["thinned"] == pytest.approx(0.7, abs=0.03)
    assert means["plain"] > 0.85
    with refused("invalid-argument", field="probabilities"):
        logged_table(x[:2], [0, 1], [0.0, 1.0], arms=2, probabilities=[0.0, 1.0])


def test_a_log_as_a_learner_writes_it_may_lack_outcomes():
    random = np.random.default_rng(5)
    p = np.tile([0.2, 0.8], (9_000, 1))
    actions = (random.random(9_000) < 0.8).astype(int)
    outcomes = np.where(np.arange(9_000) % 3 == 0, np.nan, actions + 1.0)
    x = np.ones((9_000, 1))
    full = logged_table(x, actions, outcomes, arms=2, probabilities=p)
    own = logged_table(x, actions, outcomes, arms=2, probabilities=p[np.arange(9_000), actions])
    assert np.array_equal(full.contexts, own.contexts)
    assert full.units == own.units < 5_000
    block = full.instance(1).block(0)
    assert np.array_equal(np.isinf(block.delay), np.isnan(full.rewards).any(axis=1)[: len(block)])
    run = simulate(RBGL(), full, grids.explicit([700, 1_400]), seed=1, keep_log=True)
    assert run.rows.returned.mean() == pytest.approx(2 / 3, abs=0.05)
    seen = run.rows.outcomes[run.rows.returned]
    assert np.array_equal(seen, run.rows.actions[run.rows.returned] + 1.0)
    with refused("invalid-argument", field="probabilities"):
        logged_table(x[:2], [0, 1], [0.0, 1.0], arms=2, probabilities=np.ones((2, 3)))


@dataclass(frozen=True, kw_only=True)
class Flat(GeneralEnvironment):
    """Means 0, 1, 2."""

    def contexts(self, random, size):
        return random.random((size, self.dim))

    def means(self, contexts, times, truth):  # noqa: ARG002
        return np.tile(np.arange(3.0), (len(times), 1))


def rising(means):
    return 0.1 + 2 * means


@pytest.mark.parametrize("noise", [(0.1, 1, 5), rising], ids=["by action", "by mean"])
def test_noise_depends_on_the_action_or_on_its_mean(noise):
    world = Flat(dim=1, actions=3, noise=noise)
    drawn = world.instance(1).block(0).noise
    wanted = [0.1, 1, 5] if isinstance(noise, tuple) else [0.1, 2.1, 4.1]
    assert drawn.std(axis=0) == pytest.approx(wanted, rel=0.05)
    check_environment(world)
    plain = Flat(dim=1, actions=3, noise=2.0).instance(1).block(0).noise
    np.testing.assert_allclose(drawn, np.outer(plain / 2, wanted))
    for wrong in ((1.0, 2.0), (1.0, 2.0, -1.0), -1.0):
        with refused("invalid-argument", field="noise"):
            Flat(dim=1, actions=3, noise=wrong)
    with refused("invalid-argument", field="noise"):
        Flat(dim=1, actions=3, noise=lambda means: means - 1).instance(1).block(0)


class Unlikely(GeneralEnvironment):
    """Probabilities of two."""

    def contexts(self, random, size):
        return random.random((size, 1))

    def means(self, contexts, times, truth):  # noqa: ARG002
        return np.full((len(times), 2), 2.0)


def test_worlds_without_sense_are_refused():
    with refused("invalid-argument", field="environment"):
        GeneralizedLinear(Gaussian)
    with refused("invalid-argument", field="link"):
        GeneralizedLinear(BLOCKS, link="cloglog")
    with refused("invalid-argument", field="missing"):
        Delayed(BLOCKS, missing=1.5)
    with refused("invalid-argument", field="period"):
        Drifting(BLOCKS, period=0)
    # Yes/no outcomes are drawn from the means: these cannot be changed afterwards.
    with refused("invalid-argument", field="environment"):
        Drifting(GeneralizedLinear(BLOCKS), period=9).instance(1).block(0)
    with refused("invalid-argument", field="means"):
        Unlikely(dim=1, actions=2, family="bernoulli").instance(1).block(0)


@dataclass(frozen=True, kw_only=True)
class Lying(Clicks):
    """States means that its outcomes do not have."""

    def instance(self, seed):
        return Shifted(super().instance(seed))


@dataclass(frozen=True)
class Shifted:
    inside: object
    theta: None = None

    def block(self, index):
        block = self.inside.block(index)
        return replace(block, noise=block.noise + np.array([0.0, 0.1, 0.0]))


def test_the_checks_find_means_that_outcomes_do_not_have():
    with pytest.raises(EnvironmentCheckError, match="under action 1 it averages to 0"):
        checks.check_environment(Lying(dim=2, actions=3, family="bernoulli"))


def test_a_world_may_show_all_units_the_same_contexts():
    class Arms(GeneralEnvironment):
        def contexts(self, random, size):  # noqa: ARG002
            return np.ones((size, 1))

        def means(self, contexts, times, truth):  # noqa: ARG002
            return np.tile([0.1, 0.2], (len(times), 1))

    checks.check_environment(Arms(dim=1, actions=2, family="bernoulli"))
