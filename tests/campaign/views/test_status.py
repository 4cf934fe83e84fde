"""Weighted means: right where they can be known, silent where they cannot; and the control."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.views.status import UNKNOWN, ActionRow, Status, rows_so_far
from seqbatch.storage import open_store
from tests.campaign.instances import small, small_wave, units


@pytest.fixture
def base(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def rows_of(campaign, wave):
    return {row.action: row for row in campaign.status().actions if row.wave == wave}


def test_what_some_units_could_not_get_is_not_known(base, tmp_path):
    campaign = small(base)
    for number in (1, 2):
        given = units(300, start=1_000 * number)
        table = pl.from_arrow(campaign.assign(given).table)
        # The old do better with a, the young with b; c is no good to anybody.
        signs = np.array([{"a": 1, "b": -1, "c": 0}[action] for action in table["action"]])
        y = signs * (given["age"].to_numpy() - 40) - 5.0 * (signs == 0)
        campaign.record(pl.DataFrame({"id": table["id"], "y": y}))
        assert (UNKNOWN in campaign.status().notes) == (number == 2)
        campaign.close()
    assert rows_of(campaign, 1)["c"].weighted == pytest.approx(-5)
    # Greedy without randomised or floor: every probability is 0 or 1.
    for name in "ab":
        row = rows_of(campaign, 2)[name]
        assert row.outcomes > 90
        assert row.mean > 5
        assert (row.least, row.weighted) == (0.0, None)
    campaign.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Control: none was declared." in page


def test_actions_that_were_added_later_had_no_chance(base):
    campaign = small(base, floor=0.02)
    small_wave(campaign, 1)
    campaign.amend(reason="an idea", add=["new"])
    small_wave(campaign, 2)
    assert rows_of(campaign, 1)["new"].least == 0
    assert rows_of(campaign, 2)["new"].least == pytest.approx(0.02)
    assert UNKNOWN not in campaign.status().notes


def test_held_rows_may_have_been_recorded_since(base):
    campaign = small(base)
    table = campaign.assign(units(300)).table
    rows = pl.DataFrame({"id": table["id"], "y": ["1,5"] * 300})
    assert campaign.record(rows).quarantined == 300
    campaign.amend(reason="a decimal comma", metrics={"y": {"format": "1234,56"}})
    assert campaign.record(rows).accepted == 300
    [held] = rows_so_far(campaign.status())
    assert held.startswith("300 rows were held so far")
    assert "unless you recorded them again" in held


def test_one_outcome_is_a_mean(base, tmp_path):
    campaign = small(base, control="a", floor=0.01)
    table = campaign.assign(units(300)).table
    first = {action: unit for unit, action in zip(*(table[c].to_pylist() for c in ("id", "action")),
                                                  strict=True)}  # fmt: skip
    campaign.record(pl.DataFrame({"id": [first["a"], first["b"]], "y": [1.0, 3.0]}))
    row = rows_of(campaign, 1)["b"]
    assert (row.weighted, row.difference) == (3.0, 2.0)
    campaign.report(tmp_path / "page.html")


def test_the_control_is_what_others_are_compared_with(base, tmp_path):
    campaign = small(base, control="b", randomised=0.3)
    small_wave(campaign, 1)
    small_wave(campaign, 2)
    assert campaign.status().control == "b"
    for wave in (1, 2):
        rows = rows_of(campaign, wave)
        assert rows["b"].difference is None
        for name, gap in (("a", -1.0), ("c", 1.0)):
            row = rows[name]
            assert row.difference == row.weighted - rows["b"].weighted
            assert row.difference == pytest.approx(gap, abs=0.1)
    campaign.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Control: b." in page
    assert "compared with b" in page


def test_means_of_a_column_have_as_many_decimals():
    rows = tuple(
        ActionRow(1, name, 9, 1, 9, mean, mean, 0.5, 0.1)
        for name, mean in (("none", 9.5), ("mail", 15.625), ("call", None))
    )
    status = Status(
        name="spring", condition="open", wave=1, left=0, policy={"kind": "SBPE"}, control=None,
        waves=(), actions=rows, conflicts=0, quarantined=0, notes=(), events=2, hash="", state="",
        measure=Measure(name="visit", kind="amount", direction="max", of="customer"),
    )  # fmt: skip
    observed = next(table for table in status.tables() if table.title.startswith("Observed"))
    assert [row[2] for row in observed.rows] == ["9.500", "15.625", ""]
