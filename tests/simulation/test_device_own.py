"""Environments of a user's own on a device: their units are made on the host, as for `direct`."""

from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch import grids
from seqbatch.environments import BLOCK, Block, FeaturePool, Gaussian, Restricted, Uniform
from seqbatch.environments.linear import LinearInstance
from seqbatch.environments.pool import PoolInstance
from seqbatch.policies import RBGL, SBPE, SBUCB
from seqbatch.simulation import simulate, simulate_together
from seqbatch.simulation.device import simulate_trials
from tests.refusals import refused

GRID = grids.explicit([60, 400, 6_000])
RUNS = [
    (SBPE(first="uniform"), GRID),
    (RBGL(), GRID),
    (SBUCB(gamma=0.5), grids.uniform(units=5_000, batches=9)),
]
POOL = FeaturePool(rows=np.random.default_rng(0).standard_normal((90, 3)), theta=[1.0, -2.0, 0.5])
DEVICES = ["numpy"]
if find_spec("torch") and find_spec("array_api_compat"):
    DEVICES.append("cpu")


@dataclass(frozen=True)
class Own:
    """An environment of which only `instance` differs between the tests."""

    instance: object
    actions: int = 2
    dim: int = 3
    layout: str = "shared"
    units: int | None = None


@dataclass(frozen=True)
class Changed:
    """An instance whose blocks are changed on their way out."""

    of: object
    change: object

    @property
    def theta(self):
        return self.of.theta

    def block(self, index):
        return self.change(self.of.block(index), index)


def changed(change, **described):
    of = Gaussian(
        dim=3, actions=described.get("actions", 2), layout=described.get("layout", "shared")
    )
    return Own(lambda seed: Changed(of.instance(seed), change), **described)


def generator(seed):
    return np.random.default_rng(seed)


def another_pool(seed):
    rows, theta = generator(seed).standard_normal((90, 3)), generator(seed).standard_normal(3)
    return FeaturePool(rows=rows, theta=theta).instance(seed)


def another_parameter(seed):
    return PoolInstance(POOL, seed, generator(seed).standard_normal((1, 3)))


def another_noise(seed):
    return Uniform(dim=3, actions=2, noise=generator(seed).choice([0.1, 9.0])).instance(seed)


def another_kind(seed):
    return (Uniform if seed.entropy % 2 else Gaussian)(dim=3, actions=2).instance(seed)


class ShiftedPool(PoolInstance):
    def block(self, index):
        block = super().block(index)
        return replace(block, means=block.means + 7)


class ShiftedLaw(LinearInstance):
    def block(self, index):
        block = super().block(index)
        return replace(block, means=block.means + 7)


def shifted_pool(seed):
    return ShiftedPool(POOL, seed, POOL.instance(seed).theta)


def shifted_law(seed):
    return ShiftedLaw(**vars(Uniform(dim=3, actions=2).instance(seed)))


def same(environment, device, trials=3):
    """Say that every trial on a device is that of `direct`, up to rounding."""
    seeds = [SeedSequence(seed) for seed in range(trials)]
    found = simulate_trials(
        RUNS, environment, seeds=seeds, checkpoints=np.array([100, 4_500]), device=device
    )
    for seed, runs in zip(seeds, found, strict=True):
        settings = {"seed": seed, "checkpoints": (100, 4_500), "method": "direct"}
        wanted = simulate_together(RUNS, environment, **settings)
        for one, other in zip(runs, wanted, strict=True):
            assert np.array_equal(one.counts, other.counts)
            for name in ("regret", "reward", "checkpoint_regret", "error", "eigenvalue"):
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "instance",
    [another_pool, another_parameter, another_noise, another_kind, shifted_pool, shifted_law],
)
def test_every_trial_has_the_instance_that_its_seed_makes(instance, device):
    same(Own(instance), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
def test_contexts_of_any_numbers_are_taken(dtype, layout, device):
    def change(block, _index):
        numbers = block.contexts > 0 if dtype is bool else 9 * block.contexts
        return replace(block, contexts=numbers.astype(dtype))

    same(changed(change, actions=4, layout=layout), device)


@pytest.mark.parametrize("device", DEVICES)
def test_units_that_end_before_the_grid_are_an_error(device):
    def change(block, index):
        left = max(5_000 - index * BLOCK, 0)
        return Block(
            block.contexts[:left], block.means[:left], block.noise[:left], block.draws[:left]
        )

    with refused("invalid-argument", field="environment", received="5000 usable units among 5000"):
        simulate(SBPE(), changed(change), GRID, method="device", device=device)


def test_trials_may_have_different_numbers_of_units():
    def instance(seed):
        def change(block, index):
            left = 6_000 + 50 * seed.entropy - index * BLOCK
            parts = (block.contexts, block.means, block.noise, block.draws)
            return Block(*(part[:left] for part in parts))

        return Changed(Gaussian(dim=3, actions=2).instance(seed), change)

    same(Own(instance), "numpy")


@pytest.mark.parametrize("name", ["contexts", "means", "noise"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_is_refused(name, value):
    def change(block, index):
        getattr(block, name)[70 if index else 60] = value
        return block

    with refused("invalid-argument", field=name):
        simulate(SBPE(), changed(change), GRID, method="device", device="numpy")


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_of_ones_own_pool_that_is_not_a_number_is_refused(device):
    class Rows:
        dim = 3

        def __len__(self):
            return 9

        def dense(self, indices):
            return np.where(indices == 4, np.nan, 1.0)[..., None] * np.ones(3)

    with refused("invalid-argument", field="rows"):
        simulate(
            SBPE(), FeaturePool(rows=Rows(), theta=[1, 2, 3]), GRID, method="device", device=device
        )


@pytest.mark.parametrize("name", ["contexts", "means"])
def test_blocks_of_another_shape_are_refused(name):
    def change(block, _index):
        return replace(block, **{name: getattr(block, name)[:, :1]})

    with refused("invalid-argument", field=name):
        simulate(SBPE(), changed(change), GRID, method="device", device="numpy")


def test_one_trial_in_which_units_may_not_get_every_action_is_enough_to_refuse():
    law = Gaussian(dim=3, actions=2)
    some = Restricted(law, shares=[1.0, 0.5])
    environment = Own(lambda seed: (some if seed.entropy else law).instance(seed))
    with refused("invalid-argument", field="method"):
        simulate_trials(
            RUNS,
            environment,
            seeds=[SeedSequence(0), SeedSequence(1)],
            checkpoints=np.zeros(0, np.int64),
            device="numpy",
        )
