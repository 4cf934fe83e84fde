"""Boundaries: published values, brute force, and what must hold for any looks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t, norm, t

from seqbatch.inference import (
    boundaries,
    dunnett_critical,
    futility_boundaries,
    holm,
    spent,
)
from seqbatch.inference.stopping_boundaries import Density, error_of_looks
from tests.oracles.inference import boundaries_on_a_grid, crossing, outside_dunnett
from tests.refusals import refused

#: Lan and DeMets, one-sided 0.025, equal looks.
PUBLISHED = {
    ("obrien-fleming", 3): (3.710, 2.511, 1.993),
    ("pocock", 3): (2.279, 2.295, 2.296),
    ("obrien-fleming", 5): (4.877, 3.357, 2.680, 2.290, 2.031),
    ("pocock", 5): (2.438, 2.427, 2.410, 2.397, 2.386),
    ("obrien-fleming", 1): (1.960,),
}


@pytest.mark.parametrize("rule", ["obrien-fleming", "pocock"])
def test_all_is_spent_in_the_end(rule):
    assert spent(1.0, rule=rule, alpha=0.025) == 0.025
    assert spent(0.999999, rule=rule, alpha=0.025) == pytest.approx(0.025, rel=1e-4)


@pytest.mark.parametrize(("rule", "looks"), PUBLISHED)
def test_published_boundaries(rule, looks):
    times = [(place + 1) / looks for place in range(looks)]
    made = boundaries(times, rule=rule)
    assert [round(one, 3) for one in made] == [*PUBLISHED[rule, looks]]


@pytest.mark.parametrize("rule", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("times", [(0.69, 0.845, 1.0), (0.3, 0.31, 0.8, 1.0), (0.5, 1.0)])
def test_brute_force_spends_as_the_rule_says(rule, times):
    draws = np.random.default_rng(1).standard_normal((400_000, len(times)))
    made = boundaries(times, rule=rule, alpha=0.05)
    spending = np.diff([0.0, *(spent(time, rule=rule, alpha=0.05) for time in times)])
    for share, wanted in zip(crossing(made, times, draws), spending, strict=True):
        assert share == pytest.approx(wanted, abs=4 * np.sqrt(wanted / 400_000) + 1e-6)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5, unique_by=lambda t: round(t, 2)),
    st.sampled_from(["obrien-fleming", "pocock"]),
)
def test_earlier_boundaries_do_not_depend_on_later_looks(times, rule):
    times = sorted(times)
    made = boundaries(times, rule=rule)
    assert boundaries(times[:-1], rule=rule) == pytest.approx(made[:-1])
    assert all(one > 1.9 for one in made)


#: Looks of all sizes, with gaps that a path hardly moves in.
CLOSE = [
    (0.5, 0.500001, 1.0),
    (0.5, 0.5000001, 0.5000002, 1.0),
    (0.2, 0.2001, 0.6, 0.60001, 1.0),
    (0.0001, 0.5, 0.500001, 1.0),
    (0.5, 0.999999, 1.0),
    (0.3, 0.3000001, 0.31, 0.7, 0.70001, 0.700012, 0.9, 0.91, 0.99999, 1.0),
]


@pytest.mark.parametrize("rule", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("times", CLOSE)
def test_looks_however_close_by_a_fine_grid(rule, times):
    spending = np.diff([0.0, *(spent(time, rule=rule) for time in times)])
    made = boundaries(times, rule=rule)
    assert made == pytest.approx(boundaries_on_a_grid(times, spending), abs=1e-5)


#: Information that waves add, from one unit among ten million to all of it, in any order.
GAINS = st.lists(st.floats(-7.0, 0.0).map(lambda power: 10.0**power), min_size=2, max_size=10)


def looks_after(gains):
    total = sum(gains)
    return [min(time / total, 1.0) for time in np.cumsum(gains)]


@settings(max_examples=40)
@given(GAINS, st.sampled_from(["obrien-fleming", "pocock"]), st.sampled_from([0.025, 0.005, 0.2]))
def test_boundaries_for_every_gap(gains, rule, alpha):
    """A look errs at most as often as it may, and at least as often as a boundary in addition."""
    times = looks_after(gains)
    totals = [spent(time, rule=rule, alpha=alpha) for time in times]
    made = boundaries(times, rule=rule, alpha=alpha)
    for bound, before, total in zip(made, [0.0, *totals], totals, strict=False):
        if bound == np.inf:
            assert total - before < 1e-15
        else:
            assert norm.isf(total) - 1e-6 <= bound <= norm.isf(total - before) + 1e-6


@given(GAINS, st.floats(0.5, 3.0))
def test_nodes_do_not_grow_with_the_smallness_of_a_gap(gains, bound):
    state = None
    for look, time in enumerate(looks_after(gains), start=1):
        state = Density.first(time) if state is None else state.carried(time)
        # Nine panels for the whole, and as many around each earlier boundary.
        panels = 10 + 2 * (look - 1) * 12
        assert len(state.centres) + 20 * len(state.panels.low) <= 20 * panels
        state = state.kept(-bound, bound)


@settings(max_examples=30)
@given(GAINS)
def test_a_look_that_adds_nothing_changes_no_error(gains):
    times = looks_after(gains)
    close = [each for time in times for each in (time * (1 - 1e-12), time)]
    apart = error_of_looks(times, bound=1.96)
    assert error_of_looks(close, bound=1.96) == pytest.approx(apart, abs=1e-5)


def test_fractions_must_grow():
    with refused("invalid-argument", field="information"):
        boundaries([0.5, 0.5], rule="pocock")
    with refused("invalid-argument", field="rule"):
        boundaries([0.5, 1.0], rule="bonferroni")


def test_published_futility_bounds():
    """The common design: three looks, O'Brien-Fleming type spending of 0.025 and of 0.1."""
    made = futility_boundaries([1 / 3, 2 / 3, 1], rule="obrien-fleming", power=0.9)
    assert made == pytest.approx((-0.6945, 1.0025, 1.9930), abs=2e-4)


def test_obeying_futility_spends_the_chance_to_miss_an_effect():
    """At the effect where the bounds meet, each look gives up as often as the rule says."""
    times = (0.4, 0.7, 1.0)
    success = boundaries(times, rule="pocock")
    low = futility_boundaries(times, rule="pocock", power=0.8)
    assert low[-1] == success[-1]
    draws = np.random.default_rng(2).standard_normal((200_000, 3))
    # The drift follows from the first bound: P(Z_1 < low) is what may be spent by then.
    first = spent(0.4, rule="pocock", alpha=0.2)
    drift = (low[0] - norm.ppf(first)) / np.sqrt(0.4)
    path, before = np.zeros(len(draws)), 0.0
    alive, given_up = np.ones(len(draws), dtype=bool), 0.0
    for time, up, down, draw in zip(times, success, low, draws.T, strict=True):
        path = path + np.sqrt(time - before) * draw + drift * (time - before)
        z = path / np.sqrt(time)
        given_up += (alive & (z < down)).mean()
        alive &= (z < up) & (z >= down)
        assert given_up == pytest.approx(spent(time, rule="pocock", alpha=0.2), abs=0.004)
        before = time


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()


#: Dunnett 1955 and 1964, 5%: comparisons with control, by degrees of freedom.
DUNNETT = {
    (True, np.inf): (1.96, 2.21, 2.35, 2.44, 2.51),
    (True, 20): (2.09, 2.38, 2.54, 2.65, 2.73),
    (True, 5): (2.57, 3.03, 3.29, 3.48, 3.62),
    (False, np.inf): (1.64, 1.92, 2.06, 2.16, 2.23),
    (False, 10): (1.81, 2.15, 2.34, 2.47, 2.56),
}


@pytest.mark.parametrize(("two_sided", "df"), DUNNETT)
def test_dunnetts_tables(two_sided, df):
    made = [
        dunnett_critical([0.5**0.5] * count, df=df, two_sided=two_sided) for count in range(1, 6)
    ]
    assert made == pytest.approx(DUNNETT[two_sided, df], abs=0.0051)


@pytest.mark.parametrize("df", [1, 1.5, 2, 7.3, 1e3, 1e7, np.inf])
def test_one_comparison_is_students_t(df):
    for level in (0.5, 0.95, 0.999):
        expected = t.isf((1 - level) / 2, df)
        assert dunnett_critical([0.6], df=df, level=level) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("df", [1, 1.3, 2, 5, 40, 1e4, 999_999, np.inf])
@pytest.mark.parametrize("loadings", [[0.5**0.5] * 2, [0.3, 0.9], [0.9987, 0.99, 0.1]])
def test_dunnett_for_any_degrees_of_freedom(loadings, df):
    bound = dunnett_critical(loadings, df=df)
    # At df = 1, 0.1% of the bound is 0.1% of the error; for other df it is more.
    assert outside_dunnett(bound, tuple(loadings), df) == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize("df", [1, 4, 30])
def test_dunnett_is_the_multivariate_t(df):
    bound = dunnett_critical([0.5**0.5] * 2, df=df, two_sided=False)
    shape = [[1.0, 0.5], [0.5, 1.0]]
    inside = multivariate_t([0, 0], shape, df=df).cdf([bound, bound], random_state=1)
    assert inside == pytest.approx(0.95, abs=1e-4)


@settings(max_examples=40)
@given(
    st.lists(st.floats(0.0, 0.9999), min_size=2, max_size=6),
    st.floats(0.0, 7.0).map(lambda power: 10.0**power),
    st.sampled_from([0.5, 0.9, 0.95, 0.999]),
    st.booleans(),
)
def test_dunnett_lies_between_one_comparison_and_bonferroni(loadings, df, level, two_sided):
    made = dunnett_critical(loadings, df=df, level=level, two_sided=two_sided)
    tail = (1 - level) / (2 if two_sided else 1)
    low, high = t.isf(tail, df), t.isf(tail / len(loadings), df)
    assert low * (1 - 1e-4) - 1e-4 <= made <= high * (1 + 1e-4)


@pytest.mark.parametrize("df", [0.5, 0, -3, np.nan])
def test_dunnett_needs_a_degree_of_freedom(df):
    with refused("invalid-argument", field="df"):
        dunnett_critical([0.5, 0.5], df=df)


def test_dunnett_with_unequal_loadings_by_brute_force():
    loadings = np.array([0.3, 0.7, 0.9])
    random = np.random.default_rng(4)
    z = loadings * random.standard_normal((400_000, 1))
    z = z + np.sqrt(1 - loadings**2) * random.standard_normal((400_000, 3))
    inside = (np.abs(z) <= dunnett_critical(loadings.tolist())).all(axis=1).mean()
    assert inside == pytest.approx(0.95, abs=0.0012)


def test_loadings_must_be_below_one():
    with refused("invalid-argument", field="loadings"):
        dunnett_critical([1.0])
