"""What all pictures share: colours, axes, files."""

import altair as alt
import pytest

from seqbatch import pictures, policies
from seqbatch.policies.base import BasePolicy


@pytest.fixture
def chart():
    return alt.Chart({"values": [{"x": 1, "y": 2}]}).mark_point().encode(x="x:Q", y="y:Q")


def test_every_policy_has_a_colour_of_its_own():
    named = {
        name
        for name in policies.__all__
        if isinstance(kind := getattr(policies, name), type) and issubclass(kind, BasePolicy)
    }
    assert named == set(pictures.POLICIES)
    assert len({*pictures.POLICIES.values(), pictures.OTHER}) == len(named) + 1


def test_a_chart_is_saved_by_its_ending(chart, tmp_path):
    assert pictures.save(chart, tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")
    assert pictures.save(chart, tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    page = pictures.save(chart, tmp_path / "a.html").read_text(encoding="utf-8")
    assert 'src="http' not in page


def test_a_logarithmic_axis_fits_what_it_shows():
    made = pictures.fitted([90.0, 1_500.0, None, -3.0])
    low, high = made["scale"].domain
    assert 80 < low < 90
    assert 1_500 < high < 1_700
    assert made["axis"].values == [100, 200, 500, 1_000]
