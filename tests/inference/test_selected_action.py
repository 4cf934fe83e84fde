"""What to expect of the best of several: published values, the literal oracle, and coverage."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from benchmarks.selected_action import drawn, truths
from scipy import stats

from seqbatch.inference import (
    Lift,
    control_loadings,
    pool_by_size,
    selected_action,
    simultaneous_lifts,
    summarise,
)
from seqbatch.inference.intervals import student, unknown
from seqbatch.inference.selected_action import shrink
from tests.inference.campaigns import logged
from tests.oracles import selected_action as oracle
from tests.oracles.campaigns import waves_of
from tests.refusals import refused


def test_a_balanced_layout_by_hand():
    """tau^2 = (MSB - MSW)/n, from six published shares with 1,000 units each."""
    means = np.array([0.161, 0.196, 0.184, 0.146, 0.169, 0.177])
    made = shrink(means, 0.14 / 1_000 * np.eye(6))
    assert made.spread**2 == pytest.approx(0.000170167, abs=1e-9)
    assert made.spread**2 == pytest.approx(means.var(ddof=1) - 0.14 / 1_000, rel=1e-6)
    expected = [0.1660, 0.1852, 0.1787, 0.1578, 0.1704, 0.1748]
    assert made.values == pytest.approx(expected, abs=5e-5)
    # Estimates that differ less than their errors are all alike.
    alike = shrink(np.array([0.1, 0.11, 0.12]), 0.01 * np.eye(3))
    assert (alike.spread, alike.values) == (0.0, pytest.approx([0.11] * 3))


@pytest.mark.parametrize("seed", range(8))
def test_shrinking_agrees_with_the_literal_oracle(seed):
    random = np.random.default_rng(seed)
    K = int(random.integers(2, 7))
    errors, control = random.uniform(0.5, 2.0, K), 0.4
    covariance = np.diag(errors**2) + control**2
    estimates = random.normal(3.0, [0.0, 1.0, 4.0][seed % 3], K) + errors * random.normal(size=K)
    made = shrink(estimates, covariance)
    tau = oracle.spread(estimates, covariance)
    assert made.spread == pytest.approx(tau, rel=1e-4, abs=1e-4)
    assert made.values == pytest.approx(
        oracle.shrunken(estimates, covariance, made.spread), rel=1e-8
    )
    # A constant, or another unit of measure, changes nothing else.
    moved = shrink(2.5 * estimates + 7.0, 2.5**2 * covariance)
    assert moved.values == pytest.approx(2.5 * made.values + 7.0, rel=1e-5)


@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize("tail", [None, 0.01])
def test_the_selected_action_of_a_campaign(less, tail):
    summaries = summarise(logged(waves_of(seed=6)))
    joint, loadings = simultaneous_lifts(summaries), control_loadings(summaries)
    made = selected_action(joint, loadings, less=less, tail=tail)
    lifts = [pool_by_size(summaries, Lift(a)) for a in range(1, len(joint) + 1)]
    estimates = np.array([one.estimate for one in lifts])
    errors = np.array([one.error for one in lifts])
    assert len(lifts) > 1
    assert made.place == (estimates.argmin() if less else estimates.argmax())
    assert made.raw == estimates[made.place]
    shared = np.outer(loadings, loadings) * np.outer(errors, errors)
    covariance = shared + np.diag(errors**2 - np.diag(shared))
    values = oracle.shrunken(estimates, covariance, made.spread)
    bound = joint[made.place].high if less else joint[made.place].low
    low, high = oracle.limits(
        estimates, errors, [one.df for one in lifts], made.place, bound, less=less,
        tail=tail or 0.025,
    )  # fmt: skip
    assert (made.interval.low, made.interval.high) == pytest.approx((low, high), rel=1e-9)
    assert made.interval.estimate == pytest.approx(min(max(values[made.place], low), high))


def test_the_better_limit_is_that_of_the_action_that_may_be_best():
    one = student("lift", 0.5, 0.01, inf, level=0.95)
    reach = stats.norm.isf(0.8 * 0.025)
    for other, error, bound in [
        (0.3, 0.1, 0.5 + 0.1 * reach),
        (0.45, 0.15, 0.45 + 0.15 * reach),
        # Of an action that is measured much less precisely, the selected one's own limit is lower.
        (0.45, 0.5, 0.5 + 0.1 * stats.norm.isf(0.005 / 2)),
    ]:
        two = student("lift", other, error**2, inf, level=0.95)
        made = selected_action([one, two], [0.5, 0.05])
        assert made.place == 0
        assert made.interval.high == pytest.approx(bound)
        turned = [student("lift", -lift.estimate, lift.error**2, inf, level=0.95)
                  for lift in (one, two)]  # fmt: skip
        assert selected_action(turned, [0.5, 0.05], less=True).interval.low == pytest.approx(-bound)


def test_only_actions_that_compete_are_selected():
    lifts = [student("lift", one, 0.01, inf, level=0.95) for one in (0.5, 0.2, 0.3)]
    loadings = [sqrt(0.5)] * 3
    assert selected_action(lifts, loadings).place == 0
    made = selected_action(lifts, loadings, among=[False, True, True])
    assert (made.place, made.competing) == (2, 2)
    # Its limits hold for every way to select: those of the action that does not compete count.
    assert made.interval.high == pytest.approx(0.3 + 0.1 * stats.norm.isf(0.005 / 3))
    few = [replace(lifts[0]), unknown("lift", level=0.95, note="Too few."), lifts[2]]
    assert selected_action(few, loadings).competing == 2
    assert selected_action(few, loadings, among=[True, True, False]) is None
    with refused("invalid-argument", field="loadings"):
        selected_action(lifts, loadings[:2])


@pytest.mark.parametrize(("count", "raw"), [(3, 0.945), (10, 0.87)])
def test_the_interval_covers_what_was_selected_and_the_raw_one_does_not(count, raw):
    """700 draws: 95% less three standard errors is 92.5%; docs/selected-action.md has more."""
    truth, errors = truths(count)["all equal"]
    made = list(drawn(truth, errors, 700))
    covered = np.mean([one.made.interval.low <= one.truth <= one.made.interval.high
                       for one in made])  # fmt: skip
    alone = np.mean([one.raw.low <= one.truth <= one.raw.high for one in made])
    assert covered > 0.95
    assert alone < raw
    biases = [np.mean([value - one.truth for one, value in zip(made, values, strict=True)])
              for values in ([one.raw.estimate for one in made],
                             [one.made.interval.estimate for one in made])]  # fmt: skip
    # Three standard errors of a mean are 0.11.
    assert biases[0] > 0.45
    assert biases[1] < biases[0] / 2
