"""Boundaries: published values, brute force, and what must hold for any looks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from seqbatch.inference import (
    boundaries,
    dunnett_critical,
    futility_boundaries,
    holm,
    spent,
)
from tests.oracles.inference import crossing
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
