"""Charts as SVG: axes, marks, layout, files."""

import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch.chart import Axis, BarMark, Chart, Entry, LineMark, Panel, PointMark, TextMark, ring
from tests.hostile import EVERY
from tests.refusals import refused

NAME = "{http://www.w3.org/2000/svg}"
FINITE = st.floats(min_value=-1e9, max_value=1e9, allow_subnormal=False)


def elements(chart, tag):
    return list(ElementTree.fromstring(chart.svg()).iter(f"{NAME}{tag}"))


def texts(chart):
    return [element.text for element in elements(chart, "text")]


def one_panel(*marks, x=None, y=None, **more):
    usual = Axis.numbers([0.0, 10.0], padding=0.0)
    panel = Panel(x=x or usual, y=y or usual, marks=marks, width=100, height=50, **more)
    return Chart(rows=[[panel]])


@given(st.lists(FINITE, min_size=1, max_size=6), st.booleans(), st.integers(2, 9))
def test_an_axis_of_numbers_holds_them_with_round_ticks(values, zero, count):
    axis = Axis.numbers(values, zero=zero, count=count)
    wide = axis.high - axis.low
    assert wide > 0
    for value in [*values, *[0.0] * zero]:
        assert -1e-9 <= axis.share(value) <= 1 + 1e-9
    places = [tick for tick, _ in axis.ticks]
    assert 1 <= len(places) <= 2 * count + 1
    assert all(axis.low - 1e-6 * wide <= tick <= axis.high + 1e-6 * wide for tick in places)
    assert len({label for _, label in axis.ticks}) == len(places)


def test_numbers_that_are_not_finite_have_no_place_on_an_axis():
    axis = Axis.numbers([1.0, float("nan"), float("inf"), 3.0], padding=0.0)
    assert (axis.low, axis.high) == (1.0, 3.0)


def test_ticks_have_equal_decimals_and_no_negative_zero():
    assert [label for _, label in Axis.numbers([-0.2, 0.3], padding=0.0).ticks] == [
        "-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3",
    ]  # fmt: skip
    shares = Axis.numbers([0.0, 1.0], padding=0.0, percent=True, count=2)
    assert [label for _, label in shares.ticks] == ["0%", "50%", "100%"]
    thousands = Axis.numbers([0.0, 40_000.0], padding=0.0, count=2)
    assert [label for _, label in thousands.ticks] == ["0", "20,000", "40,000"]


def test_equal_ratios_have_equal_lengths_on_a_logarithmic_axis():
    axis = Axis.logarithmic([1.0, 100.0], margin=1.0)
    assert axis.share(10.0) == pytest.approx(0.5)
    assert [label for _, label in axis.ticks] == ["1", "2", "5", "10", "20", "50", "100"]
    small = Axis.logarithmic([0.003, 0.02])
    assert [label for _, label in small.ticks] == ["0.005", "0.01", "0.02"]


def test_marks_stand_where_their_values_are():
    chart = one_panel(
        BarMark(x=(0, 5), y=(0, 10), colour="#123456"), PointMark(x=10, y=10, dx=3),
        LineMark(points=[(0, 0), (10, 5)], colour="#abcdef", dash="5 4"),
    )  # fmt: skip
    bar = next(one for one in elements(chart, "rect") if one.get("fill") == "#123456")
    assert (float(bar.get("width")), float(bar.get("height"))) == (50, 50)
    left, top = float(bar.get("x")), float(bar.get("y"))
    [point] = elements(chart, "circle")
    assert (float(point.get("cx")), float(point.get("cy"))) == (left + 103, top)
    line = next(one for one in elements(chart, "polyline") if one.get("stroke") == "#abcdef")
    ends = [[float(each) for each in pair.split(",")] for pair in line.get("points").split()]
    assert ends == [[left, top + 50], [left + 100, top + 25]]
    assert line.get("stroke-dasharray") == "5 4"


def test_names_on_a_vertical_axis_begin_at_the_top():
    chart = one_panel(
        PointMark(x=0, y=0.5),
        PointMark(x=0, y=1.5),
        y=Axis.categories(["first", "second"], down=True),
    )
    heights = [float(one.get("cy")) for one in elements(chart, "circle")]
    assert heights == sorted(heights)
    named = {one.text: float(one.get("y")) for one in elements(chart, "text")}
    assert named["first"] < named["second"]


def test_every_word_is_inside_the_picture():
    panel = Panel(
        x=Axis.numbers([0, 1e6], title="across", padding=0.0), y=Axis.numbers([0, 1e6], title="up"),
        marks=[], width=120, height=80, title="A panel with a title",
    )  # fmt: skip
    chart = Chart(
        rows=[[panel, panel], [panel]], title="A title much wider than one of the two panels below",
        subtitle=["and a subtitle"], legend=[Entry(f"action {n}", "#000000") for n in range(9)],
    )  # fmt: skip
    root = ElementTree.fromstring(chart.svg())
    wide, high = float(root.get("width")), float(root.get("height"))
    for one in root.iter(f"{NAME}text"):
        size, x, y = (float(one.get(name)) for name in ("font-size", "x", "y"))
        half = 0.5 * size * len(one.text)
        if one.get("transform"):  # turned
            assert y - half / 2 > 0
            assert y + half / 2 < high
            continue
        start = {"start": x, "middle": x - half / 2, "end": x - half}[one.get("text-anchor")]
        assert start >= 0, one.text
        assert start + half <= wide, one.text
        assert y - 0.7 * size > 0
        assert y < high
    lines = {one.get("y") for one in root.iter(f"{NAME}text") if one.text.startswith("action")}
    assert len(lines) > 1


def test_a_word_at_the_last_point_widens_the_picture():
    plain = one_panel(PointMark(x=10.0, y=5.0))
    labelled = one_panel(TextMark(x=10.0, y=5.0, text="474 +- 6.26", dx=9))
    assert wide(labelled) > wide(plain) + 40
    before = TextMark(x=10.0, y=5.0, text="474 +- 6.26", anchor="end")
    assert wide(one_panel(before)) == wide(plain)


def wide(chart):
    return float(ElementTree.fromstring(chart.svg()).get("width"))


def test_hostile_words_stay_words():
    chart = one_panel(
        *(TextMark(x=1, y=1, text=text) for text in EVERY), title=EVERY[0],
        x=Axis.categories(EVERY, title=EVERY[1]),
    )  # fmt: skip
    chart = Chart(
        rows=chart.rows, title=EVERY[-1], legend=[Entry(text, "#000000") for text in EVERY]
    )
    tags = {
        element.tag.removeprefix(NAME) for element in ElementTree.fromstring(chart.svg()).iter()
    }
    assert tags <= {"svg", "rect", "line", "text", "polygon"}


def test_a_ring_goes_around_its_point():
    chart = one_panel(PointMark(x=5, y=5), ring(5, 5))
    point, around = elements(chart, "circle")
    assert (point.get("cx"), point.get("cy")) == (around.get("cx"), around.get("cy"))
    assert float(around.get("r")) > float(point.get("r"))
    assert around.get("fill") == "none"


def test_a_chart_is_saved_by_its_ending(tmp_path):
    chart = one_panel(PointMark(x=1, y=1))
    assert chart.save(tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")
    assert chart.save(tmp_path / "a.svg").read_text(encoding="utf-8") == chart.svg()
    with refused("invalid-argument", field="path"):
        chart.save(tmp_path / "a.pdf")


def test_without_the_converter_a_bitmap_is_refused_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with refused("invalid-argument", field="path", match=r"seqbatch\[lab\]"):
        one_panel(PointMark(x=1, y=1)).save(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
