"""The call centre example: limits hold in every week, and prices earn the most."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.charts import marked, spec

EXAMPLE = Path(__file__).parents[1] / "examples" / "call_centre.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def test_every_rule_keeps_the_limits_and_prices_earn_the_most(example):
    scores = example["World"](7).means[0]
    rows = np.arange(len(scores))
    earned = []
    for rule in ("by_prices", "truncated", "first_come"):
        actions = example[rule](scores)
        assert (np.bincount(actions, minlength=4) <= example["AT_MOST"]).all()
        earned.append(scores[rows, actions].sum())
    assert earned[0] > max(earned[1:])


def test_random_weeks_call_as_often_as_they_may(example):
    counts = np.bincount(example["at_random"](1), minlength=4)
    assert counts.tolist() == [1_400, 1_400, 800, 400]


def test_the_picture_shows_sums_over_weeks(example):
    curves = {name: np.full(12, 1_000.0 * place) for place, name in enumerate("abcd")}
    [lines] = marked(spec(example["picture"](curves)), "line")
    values = [row["earned"] for row in lines["data"]["values"] if row["rule"] == "c"]
    assert values == pytest.approx(2 * np.arange(1, 13))
