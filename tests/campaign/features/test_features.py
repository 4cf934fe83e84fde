"""Campaigns on files as people have them: what is declared, learned, counted, said and replayed."""

import contextlib
import re
import sqlite3
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.learning import aliasing
from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.errors import InvalidFileError
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, units
from tests.campaign.specs import about
from tests.oracles.fitting import expected
from tests.refusals import places, refused

MESSY = {
    "name": "messy", "seed": 4, "unit": "id", "actions": ["none", "mail", "call"],
    "start": "2026-03-01", **about("visit", range=[-10, 10]),
    "grid": {"sizes": [400, 200, 200]}, "policy": {"kind": "SBPE"}, "randomised": 0.3,
    "features": {
        "intercept": True,
        "numeric": {
            "spend": {"missing": "median", "indicator": 0.1, "clip": [0.01, 0.99],
                      "format": "1.234,56 EUR"},
            "share": {"scale": "raw", "format": "12,5 %", "missing": 0, "range": [0, 1]},
            "age": "learn",
        },
        "date": {"signup": {"format": "%d.%m.%Y", "parts": ["days", "weekday", "month"],
                            "missing": "mean"}},
        "boolean": {"member": "level", "mailed": False},
        "categorical": {
            "city": {"levels": ["Berlin", "Paris", "Rome"], "least": 30, "other": True,
                     "missing": "level"},
            "shop": {"hash": 3, "missing": "level"},
        },
        "interactions": [["spend", "member"]],
    },
}  # fmt: skip


def messy(count, *, start):
    """Return the text of a file as a shop exports it."""
    random = np.random.default_rng([5, start])
    lines = ["id;spend;share;age;signup;member;mailed;city;shop"]
    for number in range(start, start + count):
        spend = f"{random.exponential(900):,.2f}".translate(str.maketrans(",.", ".,")) + " EUR"
        cells = [
            f"u{number}",
            spend if random.random() > 0.2 else random.choice(["", "NA", "-"]),
            f"{random.integers(-5, 110)},5 %" if random.random() > 0.05 else "",
            f"{random.integers(18, 90)}",
            f"{random.integers(1, 29):02}.{random.integers(1, 13)}.2025"
            if random.random() > 0.1
            else "N/A",
            random.choice(["ja", "Nein", "JA", ""]),
            random.choice(["1", "0", "?"]),
            random.choice(["Berlin", "Paris", "Oslo", ""]) if random.random() > 0.02 else "Rome",
            random.choice(["a", "b", "c", ""]),
        ]
        lines.append(";".join(cells))
    return "\n".join(lines) + "\n"


def table_of(text):
    """Return a file's cells, all of them text."""
    return pl.read_csv(text.encode(), separator=";", infer_schema=False)


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def run_wave(campaign, frame, *, seed):
    result = campaign.assign(frame)
    campaign.record(outcomes(result.table, seed=seed))
    return result, campaign.close()


def test_a_messy_file_runs_and_is_replayed(store, tmp_path):
    campaign = Campaign.create(MESSY, store=store)
    first, closed = run_wave(campaign, table_of(messy(400, start=0)), seed=1)
    # What is declared bounds from the start.
    assert list(first.clipped) == ["share"]
    learned = campaign.situation().learned
    assert learned.rare == {"city": ("Rome",)}
    assert learned.numbers["spend"].indicator
    assert learned.numbers["spend"].clipped == 6
    assert campaign.events()[-1].counts["clipped"]["spend"] == 6
    second, _ = run_wave(campaign, table_of(messy(200, start=400)), seed=2)
    assert second.clipped.keys() <= {"spend", "share", "age", "signup"}
    assert campaign.events()[-3].counts["clipped"] == second.clipped
    assert campaign.situation().clipped["share"] == first.clipped["share"] + second.clipped["share"]
    assert campaign.verify().sound
    assert Campaign.open("messy", store=store).situation() == campaign.situation()
    campaign.export(tmp_path / "units.parquet")
    kept = pl.read_parquet(tmp_path / "units.parquet")
    assert kept["signup"].dtype == pl.Date
    assert kept["member"].dtype == pl.Boolean
    assert kept["spend"].null_count() > 0
    # Levels and months that no unit has are no lack.
    assert "determine the whole model" not in " ".join(closed.notes)


def test_what_is_learned_is_replayed_from_the_rows(store, tmp_path):
    campaign = Campaign.create(MESSY, store=store)
    run_wave(campaign, table_of(messy(400, start=0)), seed=1)
    event = next(event for event in campaign.events() if event.kind == "close")
    event.payload["learned"]["numbers"]["age"]["high"] += 1
    with contextlib.closing(sqlite3.connect(tmp_path / "campaigns.db")) as raw, raw:
        raw.execute("DROP TRIGGER events_no_UPDATE")
        raw.execute(
            "UPDATE events SET payload = ? WHERE sequence = ?",
            (canonical(event.payload), event.sequence),
        )
    problems = [str(finding) for finding in campaign.verify().findings]
    assert any("learned: the rows give" in problem for problem in problems)


@pytest.mark.parametrize("traits", [None, {"none": 0.0, "mail": 1.0, "call": 2.5}])
def test_scores_are_those_of_a_fit_to_the_exported_units(store, tmp_path, traits):
    features = {**MESSY["features"], "interactions": [["spend", "member"], ["signup", "mailed"]]}
    shared = {}
    if traits:
        actions = [{"name": name, "features": {"price": price}} for name, price in traits.items()]
        shared = {"model": "shared", "actions": actions}
        traits = {name: {"price": price} for name, price in traits.items()}
    spec = {**MESSY, **about("y"), "features": features, **shared}
    campaign = Campaign.create(spec, store=store)
    table = campaign.assign(table_of(messy(400, start=0))).table
    campaign.record(outcomes(table, seed=1).rename({"visit": "y"}))
    campaign.close()
    campaign.assign(table_of(messy(200, start=400)))
    campaign.export(tmp_path / "units.parquet")
    rows = pl.read_parquet(tmp_path / "units.parquet").to_dicts()
    first, second = ([row for row in rows if row["wave"] == wave] for wave in (1, 2))
    wanted = expected(second, first, features, traits=traits, start=date(2026, 3, 1))
    assert [row["score"] for row in second] == pytest.approx(wanted, abs=1e-7)


def test_pieces_and_order_of_a_file_change_nothing_that_is_learned(tmp_path):
    frame = table_of(messy(400, start=0))
    found = []
    for name, pieces in {
        "whole": [frame],
        "cut": [frame[300:], frame[:150], frame[150:300]],
        "shuffled": [frame.sample(fraction=1.0, shuffle=True, seed=8)],
    }.items():
        store = open_store(tmp_path / f"{name}.db")
        campaign = Campaign.create(MESSY, store=store)
        for piece in pieces:
            campaign.record(outcomes(campaign.assign(piece).table, seed=1))
        campaign.close()
        found.append(campaign.situation().learned)
        store.close()
    assert found[0] == found[1] == found[2]


def three_waves(store, *, outlier, clip):
    """Run three waves, the second with an absurd age or without; return what they answered."""
    numeric = {"age": {"clip": clip}}
    campaign = created(
        store, grid={"sizes": [300, 200, 100]}, policy={"kind": "SBPE"},
        features={"numeric": numeric}, seed=1,
    )  # fmt: skip
    results = []
    for wave, (start, count) in enumerate([(0, 300), (300, 200), (500, 100)], start=1):
        frame = units(count, start=start)
        if wave == 2 and outlier:
            age = frame["age"].to_list()
            frame = frame.with_columns(age=pl.Series([1e9, *age[1:]]))
        results.append(campaign.assign(frame))
        table = pl.from_arrow(results[-1].table)
        # A call helps the old, a mail the young.
        gain = (frame["age"].clip(0, 100) - 40) / 12
        sign = table["action"].replace_strict({"none": 0.0, "mail": -1.0, "call": 1.0})
        visit = (sign * gain).round(6)
        campaign.record(pl.DataFrame({"id": table["id"], "visit": visit}))
        if wave < 3:
            campaign.close()
    return campaign, results


@pytest.mark.parametrize("clip", [[0.001, 0.999], False])
def test_one_absurd_age_does_not_destroy_the_feature(store, tmp_path, clip):
    other = open_store(tmp_path / "without.db")
    _, without = three_waves(other, outlier=False, clip=clip)
    other.close()
    campaign, results = three_waves(store, outlier=True, clip=clip)
    scores = [pl.from_arrow(run[2].table)["score"].to_numpy() for run in (without, results)]
    apart = np.abs(scores[0] - scores[1]).max()
    if clip is False:
        # What this is all about: unbounded, the one row flattens the slopes of its action.
        assert apart > 0.5
        return
    assert results[1].clipped["age"] >= 1
    assert apart < 0.1
    assert campaign.status().clipped["age"] >= 1
    assert "Clipped to the bounds of the first wave" in campaign.status()._repr_html_()
    assert campaign.verify().sound


def test_harmless_aliasing_is_said_once_and_too_little_data_each_time(store):
    campaign = created(store, policy={"kind": "SBPE"})
    notes = []
    for wave, (start, count) in enumerate([(0, 300), (300, 200)], start=1):
        frame = units(count, start=start)
        notes.append(run_wave(campaign, frame, seed=wave)[1].notes)
    [note] = notes[0]
    # An intercept, two levels and four cells; age, spend, and age by level: two sums and a third.
    assert note.startswith("3 of 11 model columns are redundant")
    assert notes[1] == ()
    assert campaign.status().notes == ()
    campaign = created(store, name="few", grid={"sizes": [12, 200]}, features={
        "numeric": {"age": "learn", "spend": "learn"}, "categorical": {"zip": ["urban", "moon"]},
    }, on_unseen_category="other", required_outcomes=0.0, policy={"kind": "SBPE"})  # fmt: skip
    _, closed = run_wave(campaign, units(12), seed=1)
    assert any(
        "do not determine the whole model" in note and "too few outcomes" in note
        for note in closed.notes
    )
    assert any("do not determine the whole model" in note for note in campaign.status().notes)


def test_a_level_without_units_is_not_spoken_of(store):
    # As init writes it: every value that is not listed counts as other, but there is none.
    kinds = {"zip": {"levels": ["urban", "rural"], "other": True, "missing": "level"}}
    features = {"numeric": {"age": {"missing": "mean"}}, "categorical": kinds}
    campaign = created(store, features={**features, "interactions": [["age", "zip"]]})
    _, closed = run_wave(campaign, units(300), seed=1)
    assert [note for note in closed.notes if "do not determine" in note] == []
    assert campaign.status().notes == ()


def test_columns_that_cannot_be_told_apart_are_named(store):
    zips = {"levels": ["urban", "rural", "moon"], "other": True}
    features = {"numeric": {"age": "learn", "half": "learn", "spend": "learn"},
                "categorical": {"zip": zips}}  # fmt: skip
    least_squares = {"kind": "SBPE"}
    rule = {"call": "zip != 'rural'"}
    campaign = created(store, features=features, eligible=rule, policy=least_squares)
    frame = units(300).with_columns(half=pl.col("age") / 2 + 1)
    _, closed = run_wave(campaign, frame, seed=1)
    notes = [note for note in closed.notes if "do not determine" in note]
    [call] = [note for note in notes if "model of call" in note]
    [others] = [note for note in notes if note is not call]
    assert "half cannot be distinguished from age." in others
    assert "none, mail" in others
    assert "no outcome with zip=rural; half cannot be distinguished from age." in call
    # Nobody lives on the moon, or elsewhere.
    assert not any("moon" in note or "other" in note for note in notes)


def test_columns_that_nothing_can_fill_are_not_spoken_of(store):
    features = {"numeric": {"age": {"missing": "mean"}, "spend": "learn"}}
    campaign = created(store, features=features)
    _, closed = run_wave(campaign, units(300), seed=1)
    # Nothing was missing: the column of the indicator stays 0, and is no direction left open.
    assert "age missing" in campaign.situation().encoder().names
    assert closed.notes == ()
    assert aliasing(campaign.situation()) == []


def test_a_feature_may_be_called_like_a_column_of_the_answers(store, tmp_path):
    campaign = created(
        store, grid={"sizes": [30, 30]}, features={"numeric": {"wave": "learn", "score": "raw"}}
    )
    frame = units(30).with_columns(wave=pl.col("age"), score=pl.col("spend"))
    table = campaign.assign(frame).table
    # The file of outcomes still has the unit's own `wave`, which is not the campaign's.
    result = campaign.record(outcomes(table).with_columns(wave=frame["wave"]))
    assert result.accepted == 30
    campaign.close()
    campaign.export(tmp_path / "units.parquet")
    kept = pl.read_parquet(tmp_path / "units.parquet")
    assert kept["feature wave"].to_list() == frame["age"].to_list()
    assert kept["wave"].unique().to_list() == [1]
    assert campaign.verify().sound


@pytest.mark.parametrize(("features", "field"), [
    ({"numeric": {"intercept": "raw"}}, "features"),
    ({"numeric": {"a": "raw", "b": "raw"}, "interactions": [["a", "b"], ["a", "b"]]},
     "features"),
    ({"numeric": {"a": {"clip": [0.9, 0.1]}}}, "features.numeric.a.clip"),
    ({"numeric": {"a": {"clip": [0.1, 0.9], "range": [0, 1]}}}, "features.numeric.a.clip"),
    ({"numeric": {"a": {"clip": True}}}, "features.numeric.a.clip"),
    ({"numeric": {"a": {"missing": "mode"}}}, "features.numeric.a.missing"),
    ({"numeric": {"a": {"missing": True}}}, "features.numeric.a.missing"),
    ({"numeric": {"a": {"format": "1.234"}}}, "features.numeric.a.format"),
    ({"numeric": {"a": {"scale": 3}}}, "features.numeric.a.scale"),
    ({"numeric": {"a": "raw"}, "boolean": {"a": True}}, "features.numeric"),
    ({"boolean": {"a": 3}}, "features.boolean.a"),
    ({"date": {"a": "%H"}}, "features.date.a.format"),
    ({"date": {"a": 3}}, "features.date.a"),
    ({"date": {"a": "iso"}}, "start"),
    ({"categorical": {"a": {"levels": ["x"], "missing": "mean"}}},
     "features.categorical.a.missing"),
    ({"categorical": {"a": {"levels": ["x"], "least": -1}}}, "features.categorical.a.least"),
])  # fmt: skip
def test_rules_that_cannot_be_are_refused(store, features, field):
    with refused("invalid-spec", field=field) as raised:
        created(store, features=features)
    assert "1 problem;" in str(raised.value)
    assert store.names() == []


def test_the_file_is_refused_with_the_row_the_value_and_the_setting(store):
    campaign = Campaign.create(MESSY, store=store)
    frame = table_of(messy(3, start=0)).with_columns(
        spend=pl.Series(["1.234,56 EUR", "1,234.56", "12 USD"]),
        age=pl.Series(["1.234,5", "30", "31"]),
        signup=pl.Series(["2025-01-01", "01.01.2025", "31.02.2025"]),
        member=pl.Series(["ja", "vielleicht", "nein"]),
    )
    with pytest.raises(InvalidFileError) as raised:
        campaign.assign(frame)
    assert places(raised.value) == [
        (1, "age", "not-a-number"), (1, "signup", "not-a-date"), (2, "member", "not-a-boolean"),
        (2, "spend", "not-a-number"), (3, "signup", "not-a-date"), (3, "spend", "not-a-number"),
    ]  # fmt: skip
    assert 'format = "1.234,56"' in raised.value.problems[0].reason


def test_the_documented_specs_can_be_read():
    pages = Path(__file__).parents[3] / "docs" / "how-to"
    whole, rules = (
        re.findall(r"```toml\n(.*?)```", (pages / page).read_text(encoding="utf-8"), re.DOTALL)[0]
        for page in ("spec.md", "features.md")
    )
    assert parse_spec(whole).features.columns == (
        "age", "spend", "opened", "signup", "member", "region", "city",
    )  # fmt: skip
    frame = 'name = "x"\nactions = ["a", "b"]\ngrid = {sizes = [5]}\n'
    frame += 'metrics = {y = {}}\nobjective = {maximise = "y"}\n'
    features = parse_spec(frame + rules).features
    assert features.columns == ("spend", "rate", "age", "signup", "opt_in", "city", "shop")
    assert features.learning == ("spend", "age", "signup", "city")
