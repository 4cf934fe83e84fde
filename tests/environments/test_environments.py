"""Environments keep the common rules, and each has the law that it names."""

import math

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch import checks, grids, theory
from seqbatch.checks.environments import EnvironmentCheckError
from seqbatch.environments import (
    BLOCK,
    ArrayEnvironment,
    Ball,
    CorrelatedGaussian,
    FeaturePool,
    Gaussian,
    Restricted,
    Sphere,
    StudentT,
    Uniform,
    WorstCase,
    classification,
)
from seqbatch.environments.pool import distinct
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    EpsilonGreedy,
    LinUCB,
    SupSBUCB,
    ThompsonSampling,
    UniformRandom,
)
from seqbatch.simulation import simulate, simulate_together
from tests.refusals import refused

random = np.random.default_rng(0)
FAMILIES = [Gaussian, Uniform, Sphere, StudentT, Ball, CorrelatedGaussian]
OWN = [
    *(kind(dim=3, actions=4, noise=0.5, norm=2.0) for kind in FAMILIES),
    *(kind(dim=3, actions=4, layout="disjoint") for kind in FAMILIES),
    *(kind(dim=3, actions=4, layout="block") for kind in FAMILIES[:-1]),
    Gaussian(dim=1, actions=2),
    ArrayEnvironment(random.standard_normal((5_000, 2, 3)), np.ones((5_000, 2)), layout="shared"),
    classification(random.standard_normal((100, 3)), random.integers(0, 4, 100), classes=4),
    FeaturePool(rows=random.standard_normal((50, 3)), theta=[1.0, 2.0, 3.0], actions=3),
    WorstCase(ends=(10, 50, 6_000), dim=5),
    Restricted(Gaussian(dim=3, actions=3), shares=[0.9, 0.0, 0.2]),
    Restricted(Uniform(dim=3, actions=3, layout="block"), shares=[0.1, 0.4, 0.2]),
]


@pytest.mark.parametrize("environment", OWN, ids=lambda e: f"{type(e).__name__}-{e.layout}")
@pytest.mark.parametrize("check", checks.ENVIRONMENT_CHECKS, ids=lambda check: check.__name__)
def test_own_environments_pass_the_checks(environment, check):
    check(environment)


def units(environment, blocks=30, seed=1):
    instance = environment.instance(SeedSequence(seed))
    return instance, np.concatenate([instance.block(b).contexts for b in range(blocks)])


@pytest.mark.parametrize(
    ("environment", "covariance"),
    [
        (Uniform(dim=4, actions=3), np.eye(4) / 12),
        (Sphere(dim=4, actions=3), np.eye(4) / 4),
        (StudentT(dim=4, actions=3, freedom=8.0), np.eye(4) / 4),
        (Ball(dim=4, actions=3), np.eye(4) / 6),
    ],
    ids=lambda value: type(value).__name__,
)
def test_covariances(environment, covariance):
    _, x = units(environment)
    flat = x.reshape(-1, 4)
    np.testing.assert_allclose(flat.T @ flat / len(flat), covariance, atol=0.004)
    np.testing.assert_allclose(flat.mean(axis=0), 0, atol=0.004)
    # Actions are independent.
    np.testing.assert_allclose(x[:, 0].T @ x[:, 1] / len(x), 0, atol=0.006)


def test_gaussian_covariance_has_the_stated_spectrum():
    instance, x = units(Gaussian(dim=5, actions=2, kappa=0.2), blocks=100)
    flat = x.reshape(-1, 5)
    spectrum = np.linalg.eigvalsh(flat.T @ flat / len(flat))
    np.testing.assert_allclose(spectrum, np.linspace(0.04, 0.2, 5), rtol=0.02)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(instance.shape.T @ instance.shape), np.linspace(0.04, 0.2, 5)
    )
    other, _ = units(Gaussian(dim=5, actions=2, kappa=0.2), blocks=1, seed=2)
    assert not np.allclose(instance.shape, other.shape)


def test_correlated_gaussian_is_correlated_and_heterogeneous():
    instance, x = units(CorrelatedGaussian(dim=2, actions=3, kappa=0.1), blocks=60)
    joint = x.reshape(len(x), 6)
    covariance = joint.T @ joint / len(joint)
    np.testing.assert_allclose(covariance, instance.shape.T @ instance.shape, atol=0.01)
    assert np.abs(covariance[:2, 2:4]).max() > 0.02
    assert np.abs(covariance[:2, :2] - covariance[2:4, 2:4]).max() > 0.02


def test_student_tails_are_heavy():
    _, x = units(StudentT(dim=3, actions=2, freedom=5.0), blocks=60)
    standard = x[:, 0, 0] / x[:, 0, 0].std()
    assert (standard**4).mean() > 5  # 9 for five degrees of freedom, 3 for a normal


@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
def test_theta_has_the_stated_length_and_noise_its_size(layout):
    environment = Sphere(dim=4, actions=3, layout=layout, norm=0.7, noise=0.3)
    instance = environment.instance(SeedSequence(1))
    assert np.allclose(np.linalg.norm(instance.theta, axis=1), 0.7)
    assert instance.theta.shape == (1 if layout == "shared" else 3, 4)
    noise = np.concatenate([instance.block(b).noise for b in range(20)])
    assert noise.std() == pytest.approx(0.3, rel=0.02)


def test_pool_draws_distinct_rows_uniformly():
    sets = distinct(np.random.default_rng(0), 4, (60_000, 2))
    assert (sets[:, 0] != sets[:, 1]).all()
    counts = np.bincount(sets[:, 0] * 4 + sets[:, 1], minlength=16).reshape(4, 4)
    expected = 60_000 / 12
    off = counts[~np.eye(4, dtype=bool)]
    assert np.abs(off - expected).max() < 5 * math.sqrt(expected)


@pytest.mark.parametrize(("ends", "dim"), [((100, 200, 300), 20), ((30, 60, 200, 230), 4)])
def test_adversary_hides_the_payoff_until_each_batch_is_over(ends, dim):
    environment = WorstCase(ends=ends, dim=dim)
    instance = environment.instance(SeedSequence(1))
    assert np.linalg.norm(instance.theta) == pytest.approx(1)
    block = instance.block(0)
    starts = [0, *ends[:-1]]
    axes = []
    for start, end in zip(starts, ends, strict=True):
        shown = block.contexts[start:end].any(axis=(0, 1))
        axes.append(set(np.flatnonzero(shown)))
    for m in range(len(ends)):
        for earlier in range(m):
            assert not axes[m] & axes[earlier]
    # With every batch a coin, no policy expects less than the bound: here, exactly half.
    gap = np.abs(block.means[:, 0] - block.means[:, 1]).sum() / 2
    assert gap == pytest.approx(theory.adversarial_lower_bound_on(ends, dim=dim))


@pytest.mark.slow
@pytest.mark.parametrize("batches", [3, 20], ids=["M below d/2", "M above d/2"])
@pytest.mark.parametrize(
    "policy",
    [
        SBUCB(gamma=0.3),
        SBUCB(first="uniform", ties="random"),
        SupSBUCB(gamma=0.3, ties="random"),
        ThompsonSampling(samples=64),
        UniformRandom(),
        SBPE(ties="random"),
        BPE(first="uniform", ties="random"),
        RBGL(ties="random"),
        LBGL(scale=0.01, ties="random"),
        EpsilonGreedy(ties="random"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
def test_no_policy_beats_the_certified_bound_against_the_adversary(policy, batches):
    grid = grids.uniform(units=600, batches=batches)
    environment = WorstCase(ends=grid.ends, dim=10, noise=0.1)
    regret = [simulate(policy, environment, grid, seed=s).regret[-1] for s in range(60)]
    bound = theory.adversarial_lower_bound_on(grid, dim=10)
    assert bound >= theory.adversarial_lower_bound(units=600, dim=10, batches=batches) * (1 - 1e-9)
    error = np.std(regret) / math.sqrt(len(regret))
    assert np.mean(regret) >= bound - 3 * error - 1e-9


def test_a_learner_with_every_batch_its_own_beats_the_few_batches_bound():
    """The bound is about batches: LinUCB, which learns from every unit, goes below it."""
    few = grids.uniform(units=600, batches=3)
    environment = WorstCase(ends=few.ends, dim=10, noise=0.1)
    policy = LinUCB(gamma=0.3)
    regret = [
        simulate(policy, environment, grids.online(units=600), seed=s).regret[-1] for s in range(5)
    ]
    assert np.mean(regret) < 0.2 * theory.adversarial_lower_bound_on(few, dim=10)


def test_logged_data_count_only_where_the_action_matches():
    """Replaying a randomised log values a fixed action without bias."""
    n, K = 30_000, 3
    logged = random.integers(0, K, n)
    x = random.standard_normal((n, 2))
    truth = np.array([0.2, 0.5, 0.8])
    table = np.zeros((n, K))
    table[np.arange(n), logged] = truth[logged] + 0.1 * random.standard_normal(n)
    environment = ArrayEnvironment(x, table, layout="block", logged=logged)
    run = simulate(UniformRandom(), environment, grids.explicit([1_000, 6_000]), seed=1)
    assert run.counts.sum() == 6_000
    assert run.units_read == pytest.approx(3 * 6_000, rel=0.05)
    assert run.reward[-1] / 6_000 == pytest.approx(truth.mean(), abs=0.02)
    assert np.isnan(run.regret).all()
    with refused("invalid-argument", field="environment"):
        simulate(UniformRandom(), environment, grids.explicit([20_000]))


def test_bad_environments_are_refused():
    with refused("invalid-argument", field="kappa"):
        Gaussian(dim=2, actions=2, kappa=0)
    with refused("invalid-argument", field="freedom"):
        StudentT(dim=2, actions=2, freedom=2)
    with refused("invalid-argument", field="layout"):
        CorrelatedGaussian(dim=2, actions=2, layout="block")
    with refused("invalid-argument", field="rewards"):
        ArrayEnvironment(np.ones((3, 2)), np.ones((2, 2)))
    with refused("invalid-argument", field="labels"):
        classification(np.ones((2, 2)), [0, 2], classes=2)
    with refused("invalid-argument", field="grid"):
        simulate(SBUCB(), ArrayEnvironment(np.ones((3, 2)), np.ones((3, 2))), grids.explicit([4]))


class Repeating:
    """An environment whose blocks are all alike."""

    actions, dim, layout, units, theta = 2, 2, "block", None, None

    def instance(self, seed):
        self.inner = Gaussian(dim=2, actions=2, layout="block").instance(seed)
        return self

    def block(self, index):  # noqa: ARG002
        return self.inner.block(0)


class Wandering(Repeating):
    """An environment whose blocks depend on what was drawn before."""

    def instance(self, seed):
        super().instance(seed)
        self.count = 0
        return self

    def block(self, index):  # noqa: ARG002
        self.count += 1
        return self.inner.block(self.count)


def test_checks_catch_offenders():
    with pytest.raises(EnvironmentCheckError, match="two blocks must not hold the same units"):
        checks.check_environment(Repeating())
    with pytest.raises(EnvironmentCheckError, match="whichever blocks were drawn before"):
        checks.check_environment(Wandering())


def test_runs_together_are_the_runs_alone():
    environment = Uniform(dim=4, actions=3)
    runs = [
        (SBUCB(gamma=0.5), grids.explicit([10, 5_000])),
        (ThompsonSampling(samples=32), grids.explicit([100, 4_096, 9_000])),
        (SBUCB(gamma=0.5), grids.explicit([3_000, 9_000])),
    ]
    together = simulate_together(runs, environment, seed=4, checkpoints=[7, 100, 4_500])
    for (policy, grid), run in zip(runs, together, strict=True):
        alone = simulate(policy, environment, grid, seed=4, checkpoints=[7, 100, 4_500])
        for name in ("regret", "reward", "counts", "error", "eigenvalue", "checkpoint_regret"):
            assert getattr(alone, name).tobytes() == getattr(run, name).tobytes()
        assert run.counts.sum() == run.units_read == grid.units


def test_the_loop_agrees_with_the_learner():
    """The simulation calls the same functions as a learner does, to the same bits."""
    environment, grid = Sphere(dim=3, actions=3), grids.explicit([50, 700, 5_000])
    run = simulate(SBUCB(gamma=0.4), environment, grid, seed=9)
    instance = environment.instance(SeedSequence(9))
    blocks = [instance.block(b) for b in range(2)]
    x, means, noise = (
        np.concatenate([getattr(block, name) for block in blocks])[:5_000]
        for name in ("contexts", "means", "noise")
    )
    from seqbatch import Learner

    learner = Learner(SBUCB(gamma=0.4), grid, actions=3, dim=3)
    actions = learner.replay(x, means + noise[:, None])
    lost = means.max(axis=1) - means[np.arange(5_000), actions]
    assert run.regret[-1] == pytest.approx(lost.sum(), rel=1e-12)
    assert run.error[-1] == np.linalg.norm(learner.estimate.theta - instance.theta)


def test_checkpoints():
    environment, grid = Uniform(dim=2, actions=2), grids.explicit([100, BLOCK + 50])
    run = simulate(SBUCB(), environment, grid, checkpoints=[1, 100, BLOCK, BLOCK + 1, 10**9])
    assert run.checkpoints.tolist() == [1, 100, BLOCK, BLOCK + 1]
    assert run.checkpoint_regret[1] == pytest.approx(run.regret[0])
    assert (np.diff(run.checkpoint_regret) >= -1e-9).all()


def test_a_pool_may_keep_its_rows_in_another_form():
    class Halved:
        """Rows kept at half their size."""

        dim = 3

        def __init__(self, array):
            self.array = array / 2

        def __len__(self):
            return len(self.array)

        def dense(self, indices):
            return 2 * self.array[indices]

    rows = random.standard_normal((40, 3))
    plain, other = (FeaturePool(rows=r, theta=[1.0, 0.0, 2.0]) for r in (rows, Halved(rows)))
    blocks = [kind.instance(SeedSequence(1)).block(3) for kind in (plain, other)]
    assert np.array_equal(blocks[0].contexts, blocks[1].contexts)
    checks.check_environment(other)


@pytest.mark.parametrize("policy", [SBUCB(gamma=0.5), ThompsonSampling(samples=16)], ids=str)
def test_the_last_batch_need_not_be_learned_from(policy):
    environment, grid = Uniform(dim=3, actions=3), grids.explicit([100, 700, 9_000])
    whole, short = (
        simulate(policy, environment, grid, seed=2, learn_last=learn) for learn in (True, False)
    )
    assert np.array_equal(whole.regret, short.regret)
    assert np.array_equal(whole.counts, short.counts)
    assert short.error[2] == short.error[1] != whole.error[2]


def test_replayed_units_enter_bpes_intervals_by_their_place_among_those_that_count():
    n = 6_000
    logged = random.integers(0, 3, n)
    x, table = random.standard_normal((n, 2)), random.standard_normal((n, 3))
    environment = ArrayEnvironment(x, table, layout="block", logged=logged)
    seen = []

    class Watching(BPE):
        def learn(self, state, feedback):
            if state.batch == 1:
                seen.append(feedback.groups)
            return super().learn(state, feedback)

    with pytest.warns(RankDeficiencyWarning):
        simulate(Watching(first="fixed"), environment, grids.explicit([300, 500]), seed=1)
    groups = np.concatenate(seen)
    assert len(groups) == 300
    assert (groups == 0).sum() == 150


def test_seeds_of_spawned_children_are_kept_apart():
    root = SeedSequence(1)
    theta = Sphere(dim=3, actions=2).instance(root.spawn(2)[1]).theta[0]
    x = Gaussian(dim=3, actions=2, kappa=1.0).instance(root).block(0).contexts[0, 0]
    assert not np.allclose(np.abs(theta @ x), np.linalg.norm(x))


def test_checkpoints_start_at_one():
    with refused("invalid-argument", field="checkpoints"):
        simulate(SBUCB(), Uniform(dim=2, actions=2), grids.explicit([9]), checkpoints=[0])


@pytest.mark.parametrize(
    ("logged", "received"),
    [
        ([0.9, 1.2], "an array of dtype float64"),
        ([float("nan"), 1.0], "an array of dtype float64"),
        ([True, False], "an array of dtype bool"),
        ([0, 2], "2 in row 1"),
        ([-1, 1], "-1 in row 0"),
        ([0], "shape (1,)"),
    ],
)
def test_logged_actions_and_labels_are_never_rounded(logged, received):
    with refused("invalid-argument", field="logged", received=received):
        ArrayEnvironment(np.ones((2, 1)), np.ones((2, 2)), logged=logged)
    with refused("invalid-argument", field="labels", received=received):
        classification(np.ones((2, 1)), logged, classes=2)


def test_data_without_rows_hold_no_units():
    assert ArrayEnvironment(np.ones((0, 1)), np.ones((0, 2)), logged=[]).units == 0
    assert classification(np.ones((0, 1)), [], classes=2).units == 0
