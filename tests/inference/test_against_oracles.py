"""Every formula against the same, computed literally and row by row."""

import numpy as np
import pytest

from seqbatch.inference import (
    AsRun,
    Declared,
    Gain,
    GainOverRandom,
    Lift,
    Mean,
    anytime,
    estimate_wave,
    judge_next_rule,
    lift_coefficients,
    plan_of_shares,
    pool,
    pool_by_size,
    summarise,
)
from seqbatch.inference.doubly_robust_scores import (
    OutcomeModel,
    ReturnedByAction,
    ReturnedByFeatures,
    score,
)
from seqbatch.inference.summary import gathered
from tests.inference.campaigns import campaign, literal
from tests.oracles import inference as oracle

SIZES = (60, 50, 70)
H, F, K = 0.1, 0.02, 3
CONTRASTS = [
    (Mean(2), "mean", 2),
    (Lift(1), "lift", 1),
    (AsRun(), "as run", None),
    (Gain(1), "gain", 1),
    (GainOverRandom(), "gain over random", None),
]


@pytest.fixture(scope="module", params=[0, 1])
def waves(request):
    return campaign(seed=request.param, sizes=SIZES)


@pytest.fixture(scope="module")
def summaries(waves):
    return summarise(waves, partitions=[Declared("half")])


@pytest.fixture(scope="module")
def plan():
    return plan_of_shares(SIZES, actions=K, randomised=H, floor=F)


def test_probabilities_correlate_with_outcomes(waves):
    rows = waves[-1]
    back = rows.returned
    assert abs(np.corrcoef(rows.probabilities[back, 2], rows.outcomes[back])[0, 1]) > 0.3


def test_scores(waves):
    evidence = gathered(waves[1], gathered(waves[0]))
    made = score(waves[1], OutcomeModel.fitted(evidence), ReturnedByAction.fitted(evidence))
    first, second = literal(waves[:2])
    expected = oracle.scores(first + second, second)
    np.testing.assert_allclose(made.values, expected, rtol=1e-10)
    for row, residual in zip(second, made.residuals, strict=True):
        if row["y"] is None:
            assert np.isnan(residual)
        else:
            assert residual == pytest.approx(oracle.residual(first + second, row), rel=1e-10)


@pytest.mark.parametrize(("contrast", "kind", "action"), CONTRASTS)
@pytest.mark.parametrize("wave", [0, 2])
def test_a_wave(waves, summaries, contrast, kind, action, wave):
    made = estimate_wave(summaries[wave], contrast)
    expected = oracle.wave_estimate(literal(waves[: wave + 1]), kind, action)
    assert made.units == expected["n"]
    assert made.estimate == pytest.approx(expected["theta"], rel=1e-9)
    assert made.raw_variance == pytest.approx(expected["v"], rel=1e-9)
    assert made.variance == pytest.approx(expected["moderated"], rel=1e-9)
    assert made.cost == pytest.approx(expected["C"], rel=1e-9)
    assert made.df == pytest.approx(expected["df"], rel=1e-9)


@pytest.mark.parametrize(("contrast", "kind", "action"), CONTRASTS[:2])
def test_pooled(waves, summaries, plan, contrast, kind, action):
    D = oracle.planned_costs(SIZES, K, H, F, contrast.arms)
    expected = oracle.pooled(literal(waves), kind, action, D)
    compare(pool(summaries, contrast, plan.shares), expected)


@pytest.mark.parametrize(("contrast", "kind", "action"), CONTRASTS[2:])
def test_as_run(waves, summaries, contrast, kind, action):
    compare(pool_by_size(summaries, contrast), oracle.by_size(literal(waves), kind, action))


def test_a_segment(waves, summaries, plan):
    # The plan's shares stay, n_m and C_m are the segment's: sqrt(share n/C) = n/sqrt(D C).
    D = [
        sum(row["half"] == "left" for row in wave) / share
        for wave, share in zip(literal(waves), plan.shares, strict=True)
    ]
    expected = oracle.pooled(literal(waves), "lift", 1, D, keep=lambda row: row["half"] == "left")
    compare(pool(summaries, Lift(1), plan.shares, segment=(Declared("half"), "left")), expected)


def compare(made, expected):
    assert made.estimate == pytest.approx(expected["theta"], rel=1e-9)
    assert made.error == pytest.approx(expected["se"], rel=1e-9)
    assert made.df == pytest.approx(expected["df"], rel=1e-9)
    assert made.low == pytest.approx(expected["low"], rel=1e-8)
    assert made.high == pytest.approx(expected["high"], rel=1e-8)
    assert made.heterogeneity == pytest.approx(expected["Q"], rel=1e-8)


def test_the_next_rule(waves, summaries):
    made = judge_next_rule(waves[-1], summaries[-1]).gain
    expected = oracle.next_rule(literal(waves))
    assert made.estimate == pytest.approx(expected["theta"], rel=1e-9)
    assert made.error**2 == pytest.approx(expected["moderated"], rel=1e-9)
    assert made.df == pytest.approx(expected["df"], rel=1e-9)


def test_coefficients(waves, plan):
    made = lift_coefficients(waves, 2, plan.shares)
    D = oracle.planned_costs(SIZES, K, H, F, 2)
    estimates, variances, df = oracle.lift_coefficients(literal(waves), 2, D)
    assert [one.estimate for one in made.intervals] == pytest.approx(estimates, rel=1e-9)
    assert [one.error**2 for one in made.intervals] == pytest.approx(variances, rel=1e-9)
    assert made.intervals[0].df == pytest.approx(df)


def test_anytime(waves, summaries, plan):
    D = oracle.planned_costs(SIZES, K, H, F, 2)
    theta, half = oracle.anytime(literal(waves), "lift", 1, D)
    made = anytime(summaries, Lift(1), plan)
    assert made.estimate == pytest.approx(theta, rel=1e-9)
    assert made.high - made.estimate == pytest.approx(half, rel=1e-9)


def test_logistic_shares_are_where_the_penalised_likelihood_is_flat(waves):
    evidence = gathered(waves[0])
    made = ReturnedByFeatures.fitted([waves[0]], evidence)
    for action in range(K):
        b = made.coefficients[action]
        slope = -np.array([0.001, 1.0, 1.0]) * b
        for row in literal(waves[:1])[0]:
            if row["a"] == action:
                x = np.array(row["x"])
                slope += ((row["y"] is not None) - 1 / (1 + np.exp(-x @ b))) * x
        assert np.abs(slope).max() < 1e-8
