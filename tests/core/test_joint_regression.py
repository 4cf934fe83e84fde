"""Joint regressions from sums equal dense systems over rows, in every quantity."""

import numpy as np
import pytest
from scipy.optimize import minimize

from seqbatch.core import Statistics, joint_regression
from seqbatch.core import pooled_regression as pooled_module
from seqbatch.core.averaged_regression import averaged_regression
from seqbatch.core.cross_validation import cross_validated
from seqbatch.core.joint_regression import (
    JointSums,
    joint_fit,
    joint_fits,
    open_penalty,
    require_constant,
)
from seqbatch.core.pooled_regression import CONSTANT, FEATURES, pooled_regression
from seqbatch.core.regression import least_squares
from tests.oracles import pooling
from tests.refusals import refused

K, P = 3, 4


def rows(seed, n=90, spread=0.4):
    """Return vectors with a constant in column 1, actions, outcomes and waves."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((n, P))
    vectors[:, 1] = 1.0
    actions, waves = random.integers(0, K, n), random.integers(0, 3, n)
    theta = random.standard_normal(P) + spread * random.standard_normal((K, P))
    means = np.sum(vectors * theta[actions], axis=1)
    return vectors, actions, means + 0.7 * random.standard_normal(n), waves


def sums_of(vectors, actions, outcomes, kept=slice(None)):
    return Statistics.zero(K, P).add(vectors[kept], outcomes[kept], actions[kept])


def of_waves(vectors, actions, outcomes, waves):
    parts = [sums_of(vectors, actions, outcomes, waves == wave) for wave in range(3)]
    return JointSums.of(parts, constant=1, levels=[1, 2])


@pytest.mark.parametrize("together", [100, 100_000])
def test_fits_that_are_found_together_are_those_found_alone(together, monkeypatch):
    monkeypatch.setattr(joint_regression, "AT_ONCE", together)
    sums = of_waves(*rows(5))
    deviations, common = np.random.default_rng(0).uniform(0.1, 50, (2, 7, P))
    fits = list(joint_fits(sums, deviations=deviations, common=common))
    assert len(fits) == 7
    for place, fit in enumerate(fits):
        alone = joint_fit(sums, deviations=deviations[place], common=common[place])
        assert all(np.array_equal(mine, vars(alone)[name]) for name, mine in vars(fit).items())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("leveled", [False, True])
def test_dense_system(seed, leveled):
    vectors, actions, outcomes, waves = rows(seed)
    common, deviations = np.array([0.3, 0.0, 2.0, 0.1]), np.array([5.0, 0.7, 1.3, 40.0])
    sums = JointSums.of([sums_of(vectors, actions, outcomes)])
    levels = ()
    if leveled:
        sums, levels = of_waves(vectors, actions, outcomes, waves), pooling.dummies(waves)
    fit = joint_fit(sums, deviations=deviations, common=common)
    theta, found = pooling.joint_ridge(
        vectors, actions, outcomes, K, common=common, deviations=deviations, levels=levels
    )
    assert np.allclose(fit.theta, theta, atol=1e-11)
    assert np.allclose(fit.levels, found, atol=1e-11)
    fitted = np.sum(vectors * theta[actions], axis=1) + (levels @ found if leveled else 0.0)
    assert np.isclose(sums.error(fit.theta, fit.levels), np.sum((outcomes - fitted) ** 2))


def test_evidence_and_covariances():
    vectors, actions, outcomes, _ = rows(5, n=60)
    sums = JointSums.of([sums_of(vectors, actions, outcomes)])
    variance, settings = 0.6, [np.array([0.2, 0.9, 0.05, 0.4]), np.array([0.5, 0.1, 0.3, 0.02])]
    fits = [joint_fit(sums, deviations=variance / v**2, common=np.full(P, 1e-4)) for v in settings]
    dense = [
        pooling.log_density(
            vectors, actions, outcomes, K,
            variance=variance, deviations=v**2, open_sd=100 * np.sqrt(variance),
        )
        for v in settings
    ]  # fmt: skip
    logs = [fit.log_evidence(variance) for fit in fits]
    assert np.isclose(logs[0] - logs[1], dense[0] - dense[1], atol=1e-8)
    exact = pooling.posterior(
        vectors, actions, K,
        variance=variance, deviations=settings[0] ** 2, open_sd=100 * np.sqrt(variance),
    )  # fmt: skip
    blocks = [exact[a * P : (a + 1) * P, a * P : (a + 1) * P] for a in range(K)]
    assert np.allclose(variance * fits[0].covariances(), blocks, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_pooled_by_rows(seed):
    vectors, actions, outcomes, _ = rows(seed, spread=0.1)
    pairs = [(a, b) for a in CONSTANT for b in FEATURES if b <= 3 * a]
    theta, scales = pooling.pooled(vectors, actions, outcomes, K, constant=1, pairs=pairs)
    found = pooled_regression(JointSums.of([sums_of(vectors, actions, outcomes)]), constant=1)
    assert np.allclose(found.scales, scales, rtol=1e-5)
    assert np.allclose(found.fit.theta, theta, atol=1e-6)
    assert np.isclose(sum(one.weight for one in found.grid), 1.0)


@pytest.mark.parametrize("seed", [2, 3])
def test_without_its_prior_pooling_is_a_mixed_model_by_reml(seed, monkeypatch):
    """The EM steps then end where restricted likelihood is highest, found by rows."""
    random, actions_number = np.random.default_rng(seed), 8
    actions = random.integers(0, actions_number, 240)
    vectors = np.column_stack([random.standard_normal(240), np.ones(240)])
    theta = 1.0 + [0.3, 0.5] * random.standard_normal((actions_number, 2))
    outcomes = np.sum(vectors * theta[actions], axis=1) + 0.7 * random.standard_normal(240)
    sums = JointSums.of([Statistics.zero(actions_number, 2).add(vectors, outcomes, actions)])
    monkeypatch.setattr(pooled_module, "PRIOR_OBSERVATIONS", 0.0)
    monkeypatch.setattr(pooled_module, "STEPS", 600)
    found = pooled_regression(sums, constant=1)

    def criterion(logs):
        return -pooling.restricted_log_likelihood(
            vectors, actions, outcomes, actions_number,
            variance=found.variance, deviations=np.exp(2 * logs),
        )  # fmt: skip

    best = minimize(criterion, np.log([0.3, 0.5]), method="Nelder-Mead", options={"xatol": 1e-6})
    assert np.allclose(found.scales, np.exp(best.x), rtol=1e-3)
    assert found.scales.min() > 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("leveled", [False, True])
def test_averaged_by_rows(seed, leveled):
    """Weights are those of dense densities with the noise integrated out."""
    vectors, actions, outcomes, waves = rows(seed, n=50, spread=0.1)
    vectors[:, [0, 2, 3]] *= 5.0
    sums, levels = JointSums.of([sums_of(vectors, actions, outcomes)]), ()
    if leveled:
        sums, levels = of_waves(vectors, actions, outcomes, waves), pooling.dummies(waves)
    found = averaged_regression(sums, constant=1)
    theta, weights = pooling.averaged(
        vectors, actions, outcomes, K, constant=1, grid=found.scales, levels=levels
    )
    assert np.allclose(found.weights, weights, atol=1e-9)
    assert np.allclose(found.theta, theta, atol=1e-9)
    # No scale is nearly certain, so that a wrong weight would be noticed.
    assert found.weights.max() < 0.9


def test_averaged_towards_the_best_single_action():
    """Deviations of features shrink if they do not tell actions apart, and else hardly."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((3_000, P))
    vectors[:, 1], actions, features = 1.0, random.integers(0, K, 3_000), [0, 2, 3]

    def spread(theta):
        return np.linalg.norm((theta - theta.mean(axis=0))[:, features])

    for apart, least, most in ((0.0, 0.0, 0.6), (0.3, 0.8, 1.0)):
        means = 0.2 * actions + apart * vectors[:, 0] * (actions == 1)
        statistics = sums_of(vectors, actions, means + random.standard_normal(3_000))
        theta = averaged_regression(JointSums.of([statistics]), constant=1).theta
        assert least <= spread(theta) / spread(least_squares(statistics).theta) <= most
        assert np.isclose(theta[2, 1] - theta[0, 1], 0.4, atol=0.15)


def test_averaged_without_a_constant():
    """Then one scale is that of all columns."""
    vectors, actions, outcomes, _ = rows(4)
    found = averaged_regression(JointSums.of([sums_of(vectors, actions, outcomes)]))
    assert np.array_equal(found.scales[:, 0], found.scales[:, 1])
    alone = [least_squares(sums_of(vectors, actions, outcomes)).theta, np.zeros((K, P))]
    assert np.abs(found.theta - alone[0]).max() < np.abs(found.theta - alone[1]).max()


def test_no_pooling_and_full_pooling():
    vectors, actions, outcomes, _ = rows(8)
    statistics = sums_of(vectors, actions, outcomes)
    sums, common = JointSums.of([statistics]), open_penalty(P, 1)
    apart = joint_fit(sums, deviations=np.full(P, 1e-12), common=common)
    assert np.allclose(apart.theta, least_squares(statistics).theta, atol=1e-10)
    alike = joint_fit(sums, deviations=np.full(P, 1e12), common=np.zeros(P))
    together = np.linalg.lstsq(vectors, outcomes, rcond=None)[0]
    assert np.allclose(alike.theta, together, atol=1e-8)


def test_balanced_one_way_layout():
    """With the published means of six treatments, the scale is that of restricted likelihood.

    tau^2 = (MSB - MSW) / n for a balanced layout.
    """
    means, n, variance = np.array([0.161, 0.196, 0.184, 0.146, 0.169, 0.177]), 1_000, 0.14
    count = np.full(6, n)
    statistics = Statistics(
        np.full((6, 1, 1), float(n)),
        (n * means)[:, None],
        n * means**2 + (n - 1) * variance,
        count,
    )
    sums = JointSums.of([statistics])
    between = n * means.var(ddof=1)
    best = (between - variance) / n
    assert np.isclose(best, 0.000170167, atol=1e-9)

    def evidence(tau):
        fit = joint_fit(sums, deviations=np.array([variance / tau**2]), common=np.zeros(1))
        return fit.log_evidence(variance)

    tau = np.sqrt(best)
    assert evidence(tau) > max(evidence(0.99 * tau), evidence(1.01 * tau))
    fit = joint_fit(sums, deviations=np.array([variance / best]), common=np.zeros(1))
    published = [0.1660, 0.1852, 0.1787, 0.1578, 0.1704, 0.1748]
    assert np.allclose(fit.theta[:, 0], published, atol=5e-5)
    factor = (fit.theta[:, 0] - fit.common) / (means - means.mean())
    assert np.allclose(factor, 0.548630, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_cross_validation_by_refitting(seed):
    vectors, actions, outcomes, _ = rows(seed, n=80, spread=0.2)
    folds = np.arange(80) % 5
    parts = [JointSums.of([sums_of(vectors, actions, outcomes, folds == f)]) for f in range(5)]
    found = cross_validated(parts, constant=1)
    penalty, theta = pooling.cross_validated(
        vectors, actions, outcomes, folds, K, constant=1, penalties=found.penalties
    )
    assert np.isclose(found.penalty, penalty)
    assert np.allclose(found.fit.theta, theta, atol=1e-10)
    assert found.errors.shape == (5, len(found.penalties))
    # The choice is one within the range, so that errors at its ends would be noticed.
    assert found.penalties[0] < penalty < found.penalties[-1]


def test_few_outcomes():
    """One fold alone, and no outcomes at all, still give an estimate."""
    vectors, actions, outcomes, _ = rows(1, n=4)
    empty = JointSums.of([Statistics.zero(K, P)])
    one = JointSums.of([sums_of(vectors, actions, outcomes)])
    for folds in ([empty] * 5, [one, *[empty] * 4]):
        assert np.isfinite(cross_validated(folds, constant=1).fit.theta).all()
        assert np.isfinite(pooled_regression(folds[0], constant=1).fit.theta).all()
        assert np.isfinite(averaged_regression(folds[0], constant=1).theta).all()


def test_a_wave_that_a_fold_lacks():
    """A level that a part of the folds cannot determine is 0 there, not an error."""
    vectors, actions, outcomes, waves = rows(2, n=60)
    folds = np.where(waves == 2, 0, np.arange(60) % 5)
    parts = []
    for fold in range(5):
        kept = [
            sums_of(vectors, actions, outcomes, (waves == wave) & (folds == fold))
            for wave in range(3)
        ]
        parts.append(JointSums.of(kept, constant=1, levels=[1, 2]))
    assert np.isfinite(cross_validated(parts, constant=1).fit.theta).all()


def test_the_first_wave_in_one_fold():
    """Without it the constant is open: levels take its place, and errors stay of usual size."""
    for seed in range(30):
        vectors, actions, outcomes, _ = rows(seed, n=8)
        waves, folds = np.array([0, 1, 1, 2, 2, 2, 2, 2]), np.array([0, 1, 2, 0, 1, 2, 3, 4])
        parts = []
        for fold in range(5):
            own = [
                sums_of(vectors, actions, outcomes, (waves == wave) & (folds == fold))
                for wave in range(3)
            ]
            parts.append(JointSums.of(own, constant=1, levels=[1, 2]))
        errors = cross_validated(parts, constant=1).errors
        assert errors.max() < 100 * np.sum(outcomes**2), seed


def test_a_constant_that_is_none():
    vectors, actions, outcomes, _ = rows(3)
    with refused("invalid-argument", field="constant"):
        require_constant([sums_of(vectors, actions, outcomes)], 0)
    require_constant([sums_of(vectors, actions, outcomes)], 1)
