"""Trials on a device: the array code on NumPy, and on PyTorch where it is installed.

Every test runs on NumPy. The ones that compare with `direct` give it the very units that the device
drew: the same contexts, rewards and draws must give the same actions and statistics.
"""

import math
import os
import sys
import threading
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch import grids
from seqbatch.core import Problem
from seqbatch.datasets.avazu import HashedRows
from seqbatch.environments import (
    BLOCK,
    ArrayEnvironment,
    Ball,
    Block,
    CorrelatedGaussian,
    FeaturePool,
    Gaussian,
    Restricted,
    Sphere,
    StudentT,
    Uniform,
    WorstCase,
)
from seqbatch.errors import DeviceMemoryWarning, InvalidArgumentError
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    EpsilonGreedy,
    FixedAction,
    Oracle,
    SupSBUCB,
    ThompsonSampling,
    UniformRandom,
)
from seqbatch.simulation import Line, simulate, simulate_together
from seqbatch.simulation.device import backend, random_numbers, simulate_trials, trials, units
from tests.refusals import refused
from tests.studies import runs_of

random = np.random.default_rng(0)
CODES = random.integers(0, 6, (300, 4)) + 128 * random.integers(0, 2, (300, 4))
CODED = HashedRows(CODES, np.zeros(300), dim=6)
GRID = grids.explicit([60, 400, 6_000])
#: Triton's interpreter makes numbers of arrays of one element; with NumPy 2.4 it cannot run at all.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
WARNINGS = "ignore::seqbatch.errors.RankDeficiencyWarning"
DEVICES = ["numpy"]
if find_spec("torch") and find_spec("array_api_compat"):
    DEVICES.append("cpu")

ENVIRONMENTS = {
    **{
        f"{kind.__name__}-{layout}": kind(dim=3, actions=4, layout=layout, noise=0.5)
        for kind in (Gaussian, Uniform, Sphere, StudentT, Ball, CorrelatedGaussian)
        for layout in ("shared", "disjoint", "block")
        if (kind, layout) != (CorrelatedGaussian, "block")
    },
    "pool": FeaturePool(
        rows=random.standard_normal((500, 3)), theta=[1.0, -2.0, 0.5], actions=3, noise=0.3
    ),
    "coded pool": FeaturePool(rows=CODED, theta=np.linspace(-1, 1, 6), actions=2),
    "worst case": WorstCase(ends=GRID.ends, dim=5),
    "arrays": ArrayEnvironment(
        random.standard_normal((6_000, 3)), random.standard_normal((6_000, 4)), layout="block"
    ),
}
POLICIES = [
    SBPE(),
    SBPE(first="uniform", ties="random"),
    SBPE(unknown="avoid"),
    BPE(),
    BPE(split="needed", first="uniform"),
    RBGL(ridge=0.5, ties="random"),
    LBGL(scale=0.01),
    SBUCB(gamma=0.7, ridge=0.5),
    SBUCB(first="uniform", ties="random"),
    ThompsonSampling(samples=16, scale=0.3),
    ThompsonSampling(samples=16, ties="random"),
    ThompsonSampling(samples=16, scale=0.3, objective="choose"),
    UniformRandom(),
    FixedAction(action=1),
]


@dataclass(frozen=True)
class Given:
    """An environment that hands out units which a device drew, for one trial."""

    of: object
    theta: np.ndarray | None
    block_of: tuple[Block, ...]

    @property
    def actions(self):
        return self.of.actions

    @property
    def dim(self):
        return self.of.dim

    @property
    def layout(self):
        return self.of.layout

    @property
    def units(self):
        return sum(map(len, self.block_of))

    def instance(self, seed):  # noqa: ARG002
        return self

    def block(self, index):
        return self.block_of[index]


def given(environment, seed, count, device="numpy"):
    """Return what the device draws for a seed, as an environment of its own."""
    place = backend.backend(device)
    instance = environment.instance(seed)
    [(make, part)] = units.sources([instance], environment, place)
    source = make(part)
    parts = [source.block(index) for index in range(math.ceil(count / source.size))]

    def joined(name):
        return np.concatenate([place.host(getattr(part, name))[0] for part in parts])

    x = joined("contexts") @ source.shape[0]
    x = x[:, 0] if environment.layout == "block" else x
    blocks = [
        Block(
            contexts=np.ascontiguousarray(x[rows]),
            means=joined("means")[rows],
            noise=joined("noise")[rows],
            draws=joined("draws")[rows],
        )
        for rows in (slice(start, start + BLOCK) for start in range(0, len(x), BLOCK))
    ]
    return Given(environment, instance.theta, tuple(blocks))


def alike(one, other):
    """Say that two trajectories are the same up to rounding."""
    assert np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.ends, other.ends)
    for name in ("regret", "reward", "checkpoint_regret"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
    for name in ("error", "eigenvalue"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings(WARNINGS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_same_units_give_the_same_actions_and_statistics_as_direct(name, device):
    environment, seed = ENVIRONMENTS[name], SeedSequence(4)
    runs = [(policy, GRID) for policy in POLICIES]
    settings = {"seed": seed, "checkpoints": (1, 60, 61, 3_000)}
    found = simulate_together(runs, environment, **settings, method="device", device=device)
    units = given(environment, seed, GRID.units, device)
    wanted = simulate_together(runs, units, **settings, method="direct")
    for one, other in zip(found, wanted, strict=True):
        alike(one, other)


@pytest.mark.parametrize("learn_last", [True, False])
def test_the_last_batch_teaches_only_if_asked(learn_last):
    environment, seed = Gaussian(dim=3, actions=4), SeedSequence(9)
    found = simulate(
        SBPE(), environment, GRID, seed=seed, method="device", device="numpy",
        learn_last=learn_last,
    )  # fmt: skip
    units = given(environment, seed, GRID.units)
    alike(found, simulate(SBPE(), units, GRID, seed=seed, method="direct", learn_last=learn_last))
    assert (found.error[-1] == found.error[-2]) is not learn_last


def test_a_trial_does_not_depend_on_those_beside_it():
    environment = StudentT(dim=3, actions=4)
    seeds = [SeedSequence(trial) for trial in range(3)]
    runs, marks = [(SBPE(), GRID), (SBUCB(), GRID)], np.array([100])
    settings = {"checkpoints": marks, "device": "numpy"}
    together = simulate_trials(runs, environment, seeds=seeds, **settings)
    alone = simulate_trials(runs, environment, seeds=seeds[2:], **settings)
    for one, other in zip(together[2], alone[0], strict=True):
        assert np.array_equal(one.regret, other.regret)
        assert np.array_equal(one.checkpoint_regret, other.checkpoint_regret)
    assert together[0][0].regret[-1] != together[1][0].regret[-1]


@pytest.mark.filterwarnings(WARNINGS)
@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_another_size_give_the_same_bits_in_a_coded_pool(device, monkeypatch):
    environment, grid = ENVIRONMENTS["coded pool"], grids.explicit([500, 9_000])
    runs = [(policy, grid) for policy in (BPE(), RBGL(), SBUCB(), LBGL(scale=0.01))]

    def played(most):
        monkeypatch.setattr(units, "MOST_UNITS", most)
        return simulate_together(runs, environment, seed=3, method="device", device=device)

    for one, other in zip(played(2**12), played(2**14), strict=True):
        for name in ("regret", "reward", "counts", "error", "eigenvalue"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1" or not find_spec("triton"),
    reason="needs Triton, with TRITON_INTERPRET=1 set before the start",
)
def test_the_fused_kernel_does_what_the_array_operations_do(monkeypatch):
    environment, grid = ENVIRONMENTS["coded pool"], grids.explicit([50, 200, 400])
    policies = [SBPE(first="uniform"), BPE(), RBGL(), LBGL(scale=0.01), SBUCB()]
    runs = [(policy, grid) for policy in policies]
    settings = {"seed": 3, "checkpoints": (20, 250), "method": "device", "device": "cpu"}
    units.device_pool.cache_clear()
    kernels = simulate_together(runs, environment, **settings)
    greedy = simulate_together(runs[:-1], environment, **settings)  # in large blocks
    monkeypatch.setattr(units, "pool_kernel", lambda *_: None)
    units.device_pool.cache_clear()
    plain = simulate_together(runs, environment, **settings)
    units.device_pool.cache_clear()
    for one, other in zip([*kernels, *greedy], [*plain, *plain[:-1]], strict=True):
        alike(one, other)


@pytest.mark.parametrize(("noise", "kernel"), [(30.0, "the kernel"), (40.0, None)])
def test_the_fused_kernel_is_left_alone_where_a_reward_may_not_fit_its_digits(
    monkeypatch, noise, kernel
):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(units, "find_spec", lambda _: True)
    made = SimpleNamespace(PoolKernel=SimpleNamespace(of=lambda *_, noise: "the kernel"))  # noqa: ARG005
    monkeypatch.setitem(sys.modules, "seqbatch.simulation.device.triton_kernels", made)
    pool = FeaturePool(rows=CODED, theta=np.linspace(-1, 1, 6), actions=2, noise=noise)
    place = backend.Backend(name="cpu")
    assert units.DevicePool(pool, place).kernel == kernel


def test_pools_on_numpy_and_on_torch_are_the_same_units():
    if "cpu" not in DEVICES:
        pytest.skip("PyTorch is not installed")
    environment, seed = ENVIRONMENTS["coded pool"], SeedSequence(2)
    one, other = (given(environment, seed, 5_000, device) for device in ("numpy", "cpu"))
    for block, twin in zip(one.block_of, other.block_of, strict=True):
        assert np.array_equal(block.contexts, twin.contexts)
        assert np.array_equal(block.draws, twin.draws)
        np.testing.assert_allclose(block.noise, twin.noise, atol=units.STEP)


def test_a_device_with_little_memory_runs_fewer_trials_at_a_time_and_says_so(monkeypatch):
    environment = Gaussian(dim=3, actions=4)
    seeds = [SeedSequence(trial) for trial in range(5)]
    settings = {"seeds": seeds, "checkpoints": np.zeros(0, np.int64), "device": "numpy"}
    whole = simulate_trials([(SBPE(), GRID)], environment, **settings)
    monkeypatch.setattr(backend.Backend, "memory", lambda _: backend.DeviceMemory(2**26, 2**27))
    with pytest.warns(DeviceMemoryWarning, match=r"0\.06 GiB free, too little for 5 trials"):
        parts = simulate_trials([(SBPE(), GRID)], environment, **settings)
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one[0].regret, other[0].regret)


def test_where_memory_runs_out_half_of_the_trials_are_run_again_at_a_time(monkeypatch):
    environment = Gaussian(dim=3, actions=4)
    seeds = [SeedSequence(trial) for trial in range(5)]
    settings = {"seeds": seeds, "checkpoints": np.zeros(0, np.int64), "device": "numpy"}
    whole = simulate_trials([(SBPE(), GRID)], environment, **settings)
    tried, block = [], units.LinearSource.block

    def scarce(source, index):
        tried.append(len(source.keys))
        if len(source.keys) > 2:
            raise MemoryError
        return block(source, index)

    monkeypatch.setattr(units.LinearSource, "block", scarce)
    with pytest.warns(DeviceMemoryWarning, match="ran out of memory") as said:
        parts = simulate_trials([(SBPE(), GRID)], environment, **settings)
    assert "with 5 trials at once; running them again, 3 at a time" in str(said[0].message)
    assert tried == [5, 3, 2, 1, 2]
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one[0].regret, other[0].regret)


def test_memory_that_does_not_hold_one_trial_is_an_error(monkeypatch):
    def nothing(_source, _index):
        raise MemoryError("nothing left")

    monkeypatch.setattr(units.LinearSource, "block", nothing)
    with (
        pytest.warns(DeviceMemoryWarning, match="with 2 trials at once"),
        pytest.raises(MemoryError, match="nothing left"),
    ):
        simulate_trials(
            [(SBPE(), GRID)],
            Gaussian(dim=3, actions=4),
            seeds=[SeedSequence(0), SeedSequence(1)],
            checkpoints=np.zeros(0, np.int64),
            device="numpy",
        )


def test_runs_whose_batches_end_at_different_units_are_what_they_are_alone(monkeypatch):
    environment = Gaussian(dim=3, actions=4)
    ends = [(60, 400, 6_000), (60, 90, 5_000), (400, 500, 6_000), (7, 8, 9, 40_000)]
    runs = [(SBPE(), grids.explicit(some)) for some in ends] + [(SBUCB(gamma=0.5), GRID)]
    settings = {"seed": 4, "checkpoints": (70, 4_000), "method": "device", "device": "numpy"}
    alone = [simulate_together([run], environment, **settings)[0] for run in runs]
    scored, score = [], trials.greedy_actions

    def counted(x, rules):
        scored.append((len(rules), x.shape[1]))
        return score(x, rules)

    monkeypatch.setattr(trials, "greedy_actions", counted)
    for one, other in zip(simulate_together(runs, environment, **settings), alone, strict=True):
        alike(one, other)
    # All first batches, up to the last end, and all third ones. The second ones lie apart, and the
    # fourth batch of the last run begins alone.
    assert scored == [(4, 400), (4, 6_000 - 8)]


def test_short_batches_are_scored_as_far_as_they_reach(monkeypatch):
    grid, scored, score = grids.uniform(units=2_000, batches=50), [], trials.greedy_actions

    def counted(x, rules):
        scored.append(x.shape[1])
        return score(x, rules)

    monkeypatch.setattr(trials, "greedy_actions", counted)
    runs = [(SBPE(first="uniform"), grid), (RBGL(first="uniform"), grid)]
    simulate_together(runs, Gaussian(dim=3, actions=4), method="device", device="numpy")
    assert scored == [40] * 49


def test_a_pool_that_does_not_fit_is_read_on_the_host(monkeypatch):
    environment = ENVIRONMENTS["pool"]
    wanted = simulate(SBPE(), environment, GRID, seed=1, method="direct")
    monkeypatch.setattr(backend.Backend, "memory", lambda _: backend.DeviceMemory(10_000, 10_000))
    with pytest.warns(DeviceMemoryWarning, match="rows are drawn on the host"):
        found = simulate(SBPE(), environment, GRID, seed=1, method="device", device="numpy")
    alike(found, wanted)


def test_the_laws_of_the_draws():
    draws = units.TrialDraws(backend.Backend(), np.array([5, 6]))
    for values, mean, variance in (
        (draws.standard_normal((200_000,)), 0, 1),
        (draws.random((200_000,)), 1 / 2, 1 / 12),
        (draws.uniform(-1.0, 2.0, (200_000,)), 1 / 2, 9 / 12),
        (draws.chisquare(5.0, (200_000,)), 5, 10),
        (draws.chisquare(2.5, (200_000,)), 2.5, 5),
    ):
        assert values.shape == (2, 200_000)
        error = math.sqrt(variance / 200_000)
        assert np.abs(values.mean(axis=1) - mean).max() < 5 * error
        assert np.abs(values.var(axis=1) / variance - 1).max() < 0.05
        assert abs(np.corrcoef(values)[0, 1]) < 0.02


def test_counters_are_splitmix64_and_make_uniform_and_normal_numbers():
    state, wanted = 12345, []
    for _ in range(4):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        wanted.append(z ^ (z >> 31))
    found = random_numbers.bits(np.array([12345]), np.arange(1, 5))
    assert [int(number) % 2**64 for number in found] == wanted
    many = random_numbers.bits(np.array([7]), np.arange(400_000))
    uniform, normal = random_numbers.uniforms(many), random_numbers.normals(many)
    assert 0 <= uniform.min() < 1e-5
    assert 1 - 1e-5 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * math.sqrt(1 / 12 / 400_000)
    assert abs(normal.mean()) < 5 / math.sqrt(400_000)
    assert abs(normal.var() - 1) < 5 * math.sqrt(2 / 400_000)
    assert abs((normal**4).mean() - 3) < 5 * math.sqrt(96 / 400_000)


def test_rows_of_a_pool_are_distinct_and_equally_likely():
    pool = FeaturePool(rows=np.eye(5), theta=np.arange(5.0), actions=3)
    block = given(pool, SeedSequence(1), 60_000).block_of
    rows = np.concatenate([part.contexts for part in block]).argmax(axis=2)
    assert (np.sort(rows, axis=1)[:, 1:] != np.sort(rows, axis=1)[:, :-1]).all()
    kinds, counts = np.unique(rows @ [25, 5, 1], return_counts=True)
    assert len(kinds) == 60
    assert ((counts - len(rows) / 60) ** 2).sum() / (len(rows) / 60) < 110  # chi-square of 59


@pytest.mark.parametrize("dim", [1, 6, 8, 17, 127])
def test_signed_counts_are_those_of_the_dataset(dim):
    codes = np.random.default_rng(dim).choice(
        [*range(dim), *range(128, 128 + dim), 255], size=(300, 127)
    )
    # The largest numbers there can be, and the smallest.
    codes[:2] = [[dim - 1], [127 + dim]]
    rows = HashedRows(codes.astype(np.uint8), np.zeros(300), dim=dim)
    counts = units.signed_counts(list(rows.codes.T), dim, np)
    assert np.array_equal(counts, rows.sums(slice(None)))
    assert counts[:2, dim - 1].tolist() == [127, -127]


def test_an_oracle_has_no_regret_on_a_device():
    environment = Sphere(dim=3, actions=4)
    truth = environment.instance(SeedSequence(1)).theta[0]
    run = simulate(Oracle(theta=truth), environment, GRID, seed=1, method="device", device="numpy")
    assert np.abs(run.regret).max() < 1e-9


def test_what_a_device_cannot_do_is_refused():
    environment = Gaussian(dim=3, actions=4)
    for policy in (EpsilonGreedy(), SupSBUCB()):
        with refused("invalid-argument", field="method", match=type(policy).__name__):
            simulate(policy, environment, GRID, method="device", device="numpy")
    logged = replace_logged()
    restricted = Restricted(environment, shares=[1.0, 0.5, 0.5, 0.5])
    for world in (logged, restricted):
        with refused("invalid-argument", field="method", received="'device'"):
            simulate(SBPE(), world, GRID, method="device", device="numpy")
    with refused("invalid-argument", field="device", received="'numpy'"):
        simulate(SBPE(), environment, GRID, device="numpy")
    with refused("invalid-argument", field="device", received="'tpu'"):
        simulate(SBPE(), environment, GRID, method="device", device="tpu")


def replace_logged():
    table = random.standard_normal((6_000, 2))
    return ArrayEnvironment(table, table, layout="block", logged=np.zeros(6_000, np.int64))


def test_a_missing_library_or_gpu_is_named(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "torch", None)
        with refused("invalid-argument", field="device"):
            backend.backend("cuda")
    if "cpu" in DEVICES:
        import torch

        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with refused("invalid-argument", field="device"):
            backend.backend("cuda")


def test_an_unknown_device_is_refused_before_any_trial(tmp_path):
    with refused("invalid-argument", field="device") as caught:
        runs_of(
            environments={"u": Uniform(dim=2, actions=2)}, horizons=[100], trials=1, device="tpu",
            policies={"a": Line(SBPE(), grids.GridRule(kind="uniform"))}, out=tmp_path / "run",
        )  # fmt: skip
    assert not hasattr(caught.value, "__notes__")
    assert not (tmp_path / "run").exists()


def test_auto_never_picks_a_device(monkeypatch):
    def forbidden(device):
        raise AssertionError(device)

    monkeypatch.setattr("seqbatch.simulation.device.trials.backend", forbidden)
    simulate(SBUCB(), Gaussian(dim=3, actions=4), GRID, seed=1)


def test_a_sweep_on_a_device_can_be_extended_and_is_kept_apart(tmp_path):
    settings = {
        "environments": {"uniform": Uniform(dim=3, actions=4)},
        "policies": {"SBPE": Line(SBPE(), grids.GridRule(kind="minimax", batches=2))},
        "horizons": (500, 1_000),
        "seed": 1,
    }
    table = runs_of(**settings, trials=3, out=tmp_path / "one", device="numpy")
    longer = runs_of(**settings, trials=5, out=tmp_path / "two", device="numpy")
    assert table.equals(longer.head(6))
    again = runs_of(**settings, trials=3, out=tmp_path / "one", device="numpy")
    assert again.equals(table)
    with pytest.raises(InvalidArgumentError):
        runs_of(**settings, trials=3, out=tmp_path / "one", method="direct")


def test_a_run_through_several_blocks_and_batches_within_one_block():
    environment, seed = Gaussian(dim=10, actions=10), SeedSequence(1)
    grid = grids.explicit([100, 200, 20_000, 60_000, 70_000])
    assert units.block_size(100) == 2**15
    found = simulate(BPE(), environment, grid, seed=seed, method="device", device="numpy")
    alike(found, simulate(BPE(), given(environment, seed, 70_000), grid, method="direct"))


@pytest.mark.parametrize("name", ["Gaussian-shared", "StudentT-block", "pool", "worst case"])
def test_blocks_differ_and_each_is_the_same_again(name):
    environment = ENVIRONMENTS[name]
    instance = environment.instance(SeedSequence(1))
    [(make, part)] = units.sources([instance], environment, backend.Backend())
    source = make(part)
    for what in ("noise", "draws"):
        first, second, again = (getattr(source.block(index), what) for index in (0, 1, 0))
        assert np.array_equal(first, again)
        assert abs(np.corrcoef(first[0, :1_900], second[0, :1_900])[0, 1]) < 0.15


def test_many_numbers_a_unit_make_smaller_blocks():
    assert units.block_size(1) == units.block_size(128) == 2**15
    assert units.block_size(129) == 2**14
    assert units.block_size(10**9) == 1
    assert units.pool_block(10**9) == units.MOST_TRIALS
    assert units.pool_block(0) == units.FEWEST


@pytest.mark.filterwarnings(WARNINGS)
def test_rules_say_what_the_policies_do():
    problem = Problem(ends=(10, 20), actions=3, dim=2, layout="block")
    avoiding = SBPE(unknown="avoid", first="fixed")
    state = avoiding.close(avoiding.begin(problem))
    assert avoiding.rule(state).kind == "uniform"  # no evidence of any action
    assert avoiding.rule(replace(state, batch=1)).kind == "highest"
    assert BPE(first="fixed").rule(BPE().begin(problem)).kind == "fixed"
    assert BPE().rule(BPE().begin(problem)).kind == "uniform"


def test_long_runs_beside_short_ones_are_the_same_runs(monkeypatch):
    """Where runs share no units, the longest have a thread of their own."""
    runs = [(SBPE(), grids.explicit([50, units])) for units in (400, 900, 400, 900)]
    threads = set()
    play = trials._play

    def noted(*given):
        threads.add(threading.get_ident())
        play(*given)

    monkeypatch.setattr(trials, "_play", noted)
    settings = {
        "seeds": [SeedSequence(1), SeedSequence(2)],
        "checkpoints": np.zeros(0, np.int64),
        "device": "numpy",
    }
    together = simulate_trials(runs, Gaussian(dim=3, actions=2), **settings)
    assert len(threads) == 1
    monkeypatch.setattr(units.LinearSource, "shared", False)
    apart = simulate_trials(runs, Gaussian(dim=3, actions=2), **settings)
    assert len(threads) == 2
    for one, other in zip(together, apart, strict=True):
        for run, twin in zip(one, other, strict=True):
            assert np.array_equal(run.regret, twin.regret)
            assert np.array_equal(run.ends, twin.ends)
