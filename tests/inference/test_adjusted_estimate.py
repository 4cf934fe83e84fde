"""Estimates after looks: the oracle, published boundaries, coverage and bias by simulation."""

from math import inf, sqrt

import numpy as np
import pytest

from seqbatch.inference import EarlierLook, adjusted_estimate, boundaries, futility_boundaries
from seqbatch.inference.adjusted_estimate import stage_wise
from seqbatch.inference.intervals import StudentShape, student
from tests.oracles import stage_wise as oracle
from tests.refusals import refused

#: Jennison and Turnbull (2000), tables 2.1 and 2.3: two-sided 5%, equal looks.
PUBLISHED = {
    ("pocock-classical", 2): 2.178, ("pocock-classical", 3): 2.289,
    ("pocock-classical", 4): 2.361, ("pocock-classical", 5): 2.413,
    ("obrien-fleming-classical", 2): 1.977, ("obrien-fleming-classical", 3): 2.004,
    ("obrien-fleming-classical", 4): 2.024, ("obrien-fleming-classical", 5): 2.040,
}  # fmt: skip


def equal(looks):
    return [place / looks for place in range(1, looks + 1)]


@pytest.mark.parametrize(("rule", "looks"), PUBLISHED)
def test_classical_boundaries_are_those_published(rule, looks):
    made = boundaries(equal(looks), rule=rule)
    assert made[-1] == pytest.approx(PUBLISHED[rule, looks], abs=6e-4)
    power = 0.0 if rule == "pocock-classical" else -0.5
    assert made == pytest.approx([made[-1] * time**power for time in equal(looks)])


def test_the_oracle_finds_the_published_constants_too():
    assert oracle.constant(5, 0.0) == pytest.approx(2.413, abs=1e-3)
    assert oracle.constant(5, -0.5) == pytest.approx(2.040, abs=1e-3)


def test_a_changed_plan_leaves_the_error_of_classical_boundaries():
    """Two looks as planned, then four instead of one: they share what is left."""
    times = [1 / 3, 2 / 3, 0.8, 0.9, 1.0]
    ahead = [[*times[1:2], 1.0], times[2:], times[3:], times[4:], []]
    made = boundaries(times, rule="pocock-classical", ahead=ahead)
    assert made[:1] == boundaries([1 / 3, 2 / 3, 1], rule="pocock-classical")[:1]
    assert made[1] == made[2] == made[3] == made[4] > made[0]
    draws = np.random.default_rng(3).standard_normal((400_000, 5))
    path = np.cumsum(draws * np.sqrt(np.diff([0.0, *times])), axis=1) / np.sqrt(times)
    assert (path >= made).any(axis=1).mean() == pytest.approx(0.025, abs=0.001)
    with refused("invalid-argument", field="ahead"):
        boundaries(times, rule="pocock-classical", ahead=[()])


def test_futility_beside_a_classical_boundary_spends_as_the_function_of_its_name():
    made = futility_boundaries(equal(3), rule="obrien-fleming-classical")
    spending = futility_boundaries(equal(3), rule="obrien-fleming-spending")
    assert made == pytest.approx(spending, abs=0.05)
    assert made[-1] == boundaries(equal(3), rule="obrien-fleming-classical")[-1] != spending[-1]


#: Looks before the last one with their boundaries, the last look's information and statistic.
ENDS = [
    ((0.5, 1.0), (2.2,), 2.6),
    ((1 / 3, 2 / 3, 1.0), (3.471, 2.454), 2.1),
    ((1 / 3, 2 / 3, 1.0), (2.289, 2.289), -0.4),
    ((0.2, 0.4, 0.6), (2.413, 2.413), 2.5),
]


@pytest.mark.parametrize(("times", "highs", "z"), ENDS)
def test_estimate_and_limits_by_the_oracle(times, highs, z):
    error = 1 / sqrt(times[-1])
    before = [EarlierLook(information=time, error=1 / sqrt(time), low=-high, high=high)
              for time, high in zip(times, highs, strict=False)]  # fmt: skip
    plain = student("lift", z * error, error**2, inf, level=0.95)
    made = adjusted_estimate(plain, information=times[-1], before=before, tail=0.025)
    found = [oracle.drift_with(chance, times, highs, z) for chance in (0.025, 0.5, 0.975)]
    assert (made.low, made.estimate, made.high) == pytest.approx(found, abs=2e-3)
    tail = oracle.at_least_as_high(times, highs, z, 0.0)
    assert made.p_value == pytest.approx(2 * min(tail, 1 - tail), abs=2e-4)


def test_without_earlier_looks_nothing_changes():
    plain = student("lift", 1.0, 0.2, 12.0, level=0.9)
    made = adjusted_estimate(plain, information=0.4, before=[], tail=0.05, level=0.9)
    wanted = plain.estimate, plain.low, plain.high
    assert (made.estimate, made.low, made.high) == pytest.approx(wanted)
    assert made.statistic == pytest.approx(plain.statistic)


def test_an_estimate_without_error_is_refused():
    plain = student("lift", 1.0, 0.0, inf, level=0.95)
    with refused("invalid-argument", field="error"):
        adjusted_estimate(plain, information=1.0, before=[], tail=0.025)


def ended(times, bounds, truth, campaigns, seed):
    """Yield the shape, the information and the earlier looks of simulated campaigns."""
    draws = np.random.default_rng(seed).standard_normal((campaigns, len(times)))
    paths = np.cumsum(draws * np.sqrt(np.diff([0.0, *times])), axis=1)
    for path in paths:
        before = []
        for time, bound, value in zip(times, bounds, path, strict=True):
            z, error = value / sqrt(time) + truth * sqrt(time), 1 / sqrt(time)
            if abs(z) >= bound or time == times[-1]:
                yield StudentShape(z * error, error, inf), time, tuple(before)
                break
            before.append(EarlierLook(information=time, error=error, low=-bound, high=bound))


@pytest.mark.parametrize("rule", ["pocock-classical", "obrien-fleming"])
def test_half_of_estimates_are_too_high_and_intervals_cover(rule):
    """The probability of results as high is uniform at the true lift; the plain one's is not."""
    times, truth = equal(3), 2.8
    found, plain = [], []
    for shape, time, before in ended(times, boundaries(times, rule=rule), truth, 3_000, 5):
        found.append(stage_wise(shape, truth, information=time, before=before))
        plain.append(shape.estimate > truth)
    found = np.array(found)
    assert np.mean(found < 0.5) == pytest.approx(0.5, abs=0.025)
    assert np.mean((found > 0.025) & (found < 0.975)) == pytest.approx(0.95, abs=0.012)
    assert np.mean(found < 0.025) == pytest.approx(0.025, abs=0.009)
    # Plain estimates are too high in more than half of the campaigns.
    assert np.mean(plain) > 0.55


def test_plain_estimates_of_campaigns_that_stopped_are_half_again_the_truth():
    """True lift 20: early stops show 31; the adjusted median over all campaigns is 20.

    Among early stops alone the adjusted estimate is still too high: it is unbiased over all ways
    to end, which those alone are not.
    """
    times, truth = equal(3), 2.8
    bounds = boundaries(times, rule="pocock-classical")
    plain, adjusted, early = [], [], []
    for shape, time, before in ended(times, bounds, truth, 800, 6):
        estimate = student("lift", shape.estimate, shape.error**2, inf, level=0.95)
        made = adjusted_estimate(estimate, information=time, before=before, tail=0.025)
        plain.append(20 / truth * shape.estimate)
        adjusted.append(20 / truth * made.estimate)
        early.append(time < 1)
    plain, adjusted, early = map(np.array, (plain, adjusted, early))
    assert np.mean(plain[early]) == pytest.approx(30.5, abs=1.5)
    assert np.median(adjusted) == pytest.approx(20, abs=1.0)
    assert np.median(plain) > 21.2
    assert 1 < np.mean(plain[early]) - np.mean(adjusted[early]) < 3
