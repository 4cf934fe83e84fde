"""What a plan must know about outcomes, as people write it."""

from math import sqrt

import pytest

from seqbatch.planning.outcome_scale import OutcomeScale
from tests.refusals import refused


@pytest.mark.parametrize("rate", ["4%", "4 %", "0.04", 0.04, "4,0 %", "4 percent"])
@pytest.mark.parametrize("lift", ["0.5pp", "0.5 pp", "0.5 points", "0.005", 0.005, "0,5pp"])
def test_rates_and_lifts_as_people_write_them(rate, lift):
    made = OutcomeScale.of(base_rate=rate, smallest_lift=lift)
    assert (made.base_rate, made.lift) == pytest.approx((0.04, 0.005))
    assert made.noise == pytest.approx(sqrt(0.04 * 0.96))
    assert made.text().endswith("lifted by 0.5 points to 4.5%")


def test_amounts_have_a_standard_deviation():
    made = OutcomeScale.of(noise=35, smallest_lift="0.4")
    assert (made.noise, made.lift, made.base_rate) == (35, 0.4, None)
    assert OutcomeScale.of(noise=35).lift is None


@pytest.mark.parametrize(("given", "field"), [
    ({}, "base_rate"),
    ({"smallest_lift": "0.5pp"}, "base_rate"),
    ({"base_rate": "4%"}, "smallest_lift"),
    ({"base_rate": "4%", "noise": 1.0, "smallest_lift": "1pp"}, "noise"),
    ({"base_rate": "4", "smallest_lift": "1pp"}, "base_rate"),
    ({"base_rate": "0%", "smallest_lift": "1pp"}, "base_rate"),
    ({"base_rate": "four", "smallest_lift": "1pp"}, "base_rate"),
    # Of what? Five points, or five percent of the rate?
    ({"base_rate": "4%", "smallest_lift": "5%"}, "smallest_lift"),
    ({"base_rate": "4%", "smallest_lift": "-1pp"}, "smallest_lift"),
    ({"base_rate": "40%", "smallest_lift": "61pp"}, "smallest_lift"),
    ({"noise": -1.0}, "noise"),
    ({"noise": 35.0, "smallest_lift": "0.5pp"}, "smallest_lift"),
])  # fmt: skip
def test_what_is_missing_or_wrong_is_named(given, field):
    with refused("invalid-argument", field=field):
        OutcomeScale.of(**given)


def test_less_may_be_better():
    made = OutcomeScale.of(base_rate="4%", smallest_lift="1pp", less=True)
    assert made.text().endswith("of units without any action, lowered by 1 point to 3%")
    assert OutcomeScale.of(noise=2, smallest_lift=1, less=True).text().endswith("lowered by 1")
    assert OutcomeScale.of(base_rate=0.9, smallest_lift=0.1).text().endswith("to 100%")
    with refused("invalid-argument", field="smallest_lift", match="4 points below"):
        OutcomeScale.of(base_rate="4%", smallest_lift="5pp", less=True)
