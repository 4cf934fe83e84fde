"""The numbers that people read: in `status`, in its picture and in the report."""

import html
import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.campaign.views.status_picture import picture
from seqbatch.cli.app import app
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, run_wave, units
from tests.campaign.specs import about
from tests.oracles.weighting import action_row, difference

SPEC = {
    "draws": "blake2",
    "name": "ages", "unit": "id", "actions": ["a", "b"], "control": "b", "floor": 0.1,
    **about("y"), "grid": {"sizes": [40, 200]},
    "features": {"numeric": {"old": "raw"}}, "required_outcomes": 0.0,
}  # fmt: skip
#: Outcomes of wave 2 by action and probability: of a unit that mostly gets the other action, 0.1.
SEEN = {("a", 0.9): [1.0, 2.0], ("a", 0.1): [10.0], ("b", 0.9): [4.0], ("b", 0.1): [3.0, 7.0]}
#: Weights of 1 / 0.9 and 1 / 0.1 are as 1 and 9. The mean of action a is (1 + 2 + 9 * 10) / 11.
A_MEAN = 93 / 11
#: The mean of action b is (4 + 9 * 3 + 9 * 7) / 19.
B_MEAN = 94 / 19


@pytest.fixture(scope="module")
def ages(tmp_path_factory):
    """A campaign in whose second wave the old get a with probability 0.9, the young with 0.1."""
    path = tmp_path_factory.mktemp("ages") / "campaigns.db"
    store = open_store(path)
    campaign = Campaign.create(SPEC, store=store)
    old = np.arange(40) % 2
    first = pl.DataFrame({"id": [f"first{n}" for n in range(40)], "old": old})
    table = pl.from_arrow(campaign.assign(first).table)
    y = np.where((table["action"] == "a").to_numpy() == (old == 1), 1.0, 0.0)
    campaign.record(pl.DataFrame({"id": table["id"], "y": y}))
    campaign.close()
    second = pl.DataFrame({"id": [f"second{n}" for n in range(200)], "old": np.arange(200) % 2})
    table = pl.from_arrow(campaign.assign(second).table).with_columns(
        p=pl.col("probability").round(9)
    )
    for (action, p), values in SEEN.items():
        ids = table.filter((pl.col("action") == action) & (pl.col("p") == p))["id"]
        campaign.record(pl.DataFrame({"id": ids[: len(values)], "y": values}))
    yield campaign, path, table
    store.close()


def second_wave(rows):
    return {row["action"]: row for row in rows if row["wave"] == 2}


def test_a_weighted_mean_by_hand(ages):
    campaign, _, table = ages
    rows = second_wave([vars(row) for row in campaign.status().actions])
    assert (rows["a"]["outcomes"], rows["a"]["mean"]) == (3, pytest.approx(13 / 3))
    assert (rows["b"]["outcomes"], rows["b"]["mean"]) == (3, pytest.approx(14 / 3))
    assert rows["a"]["units"] == (table["action"] == "a").sum()
    assert rows["a"]["least"] == pytest.approx(0.1)
    assert rows["a"]["weighted"] == pytest.approx(A_MEAN)
    assert rows["b"]["weighted"] == pytest.approx(B_MEAN)
    assert rows["a"]["difference"] == pytest.approx(A_MEAN - B_MEAN)
    assert rows["b"]["difference"] is None


def test_status_as_json_says_the_same(ages):
    path = ages[1]
    words = ["campaign", "status", "ages", "--store", str(path), "--json"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    rows = second_wave(json.loads(result.stdout)["actions"])
    assert rows["a"]["weighted"] == pytest.approx(A_MEAN)
    assert rows["b"]["weighted"] == pytest.approx(B_MEAN)
    assert rows["a"]["difference"] == pytest.approx(A_MEAN - B_MEAN)


def test_status_in_words_says_the_same(ages):
    words = ["campaign", "status", "ages", "--store", str(ages[1])]
    result = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "200"})
    lines = [re.split(r"[│┃|\s]{2,}", line.strip("│ ")) for line in result.stdout.splitlines()]
    observed = {line[1]: line[2:] for line in lines if line[0] == "2" and "4." in line[2][:2]}
    assert observed["a"] == ["4.3333", "8.4545", "3.5072"]
    assert observed["b (control)"][:2] == ["4.6667", "4.9474"]


def test_the_picture_is_drawn_from_the_same_numbers(ages):
    campaign, _, table = ages
    [[bars, points]] = picture(campaign.status()).rows
    colours = {entry.label: entry.colour for entry in picture(campaign.status()).legend}
    second = {mark.colour: mark for mark in bars.marks if mark.x[0] > 1}
    heights = {name: second[colour].y[1] - second[colour].y[0] for name, colour in colours.items()}
    assert heights["a"] == pytest.approx((table["action"] == "a").sum() / table.height)
    means = {mark.colour: mark.y for mark in points.marks if mark.x > 1}
    for action, mean in (("a", A_MEAN), ("b", B_MEAN)):
        assert means[colours[action]] == pytest.approx(mean)
    assert (bars.y.title, points.y.title) == ("share of units", "y per unit")


def cells(page, title):
    """Return the rows of the table of a title on the page, as the texts of their cells."""
    table = page.partition(f">{title}</caption>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    return [
        [html.unescape(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)]
        for row in rows
    ]


def test_the_page_shows_the_same_numbers(ages, tmp_path):
    campaign, _, table = ages
    page = campaign.report(tmp_path / "page.html").read_text(encoding="utf-8")
    count = str((table["action"] == "a").sum())
    given = {row[1]: row[2:] for row in cells(page, "Who got which action")[1:] if row[0] == "2"}
    assert given["a"][0] == count
    assert given["a"][1] == f"{100 * int(count) / 200:.4g}%"
    assert given["a"][2] == "0"
    assert cells(page, "Wave by wave: planned and done")[2][:5] == ["2", "200", "200", "6", "open"]


def mixed_campaign(store):
    """Run three waves whose probabilities differ from unit to unit and go with the outcomes."""
    thompson = {"kind": "ThompsonSampling", "samples": 32, "scale": 1.0}
    campaign = created(store, control="none", floor=0.01, policy=thompson, required_outcomes=0.5)
    run_wave(campaign, 1, start=0, count=300)
    frame = units(200, start=300)
    table = campaign.assign(frame).table
    known = outcomes(table, seed=2).with_columns(pl.col("visit") + (frame["age"] - 40) / 20)
    campaign.record(known.filter(frame["spend"] > 3))
    campaign.close()
    campaign.amend(reason="an idea", add=["visit"])
    table = campaign.assign(units(100, start=500)).table
    campaign.record(outcomes(table, seed=3).filter(pl.Series(table["action"]) != "mail"))
    return campaign


def test_every_row_of_status_follows_from_the_exported_units(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = mixed_campaign(store)
    campaign.export(tmp_path / "units.parquet")
    exported = pl.read_parquet(tmp_path / "units.parquet").to_dicts()
    status = campaign.status()
    assert len(status.actions) == 12
    for row in status.actions:
        wanted = action_row(exported, row.wave, row.action, reward="visit")
        found = {name: getattr(row, name) for name in wanted}
        assert found == pytest.approx(wanted), (row.wave, row.action)
        if row.action != "none":
            control = action_row(exported, row.wave, "none", reward="visit")
            assert row.difference == pytest.approx(difference(wanted, control))
    # Weights matter here: without them the second wave would be judged otherwise.
    assert any(
        row.weighted is not None and abs(row.weighted - row.mean) > 0.05 for row in status.actions
    )
    store.close()


def test_what_was_known_at_an_event_stays_what_it_was(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = created(store, control="none", grid={"sizes": [60, 60]}, required_outcomes=0.5)
    then = {}
    frame = outcomes(campaign.assign(units(60)).table)
    mended = frame[:9].with_columns(visit=pl.lit(0.0))
    for rows, reason in ((frame[:40], ""), (frame[40:], ""), (mended, "a mistake")):
        campaign.record(rows, correct=bool(reason), reason=reason)
        then[len(campaign.events())] = campaign.status()
    for event, status in then.items():
        assert campaign.status(at_event=event) == status
    means = [status.actions[0].mean for status in then.values()]
    assert len(set(means)) == 3
    store.close()
