"""Waves drawn from a list of all units: exact in size and fair, whatever the order of the list."""

import json
import sqlite3

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seqbatch.campaign.decide.draws import draws, lots
from seqbatch.campaign.files import reading
from seqbatch.campaign.record.events import canonical
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, small, units
from tests.refusals import refused


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def ids(result):
    return set(pl.from_arrow(result.table)["id"])


def finish(campaign, result):
    campaign.record(outcomes(result.table))
    campaign.close()


def test_the_same_list_serves_every_wave(store):
    campaign, everybody = created(store), units(1_000)
    first = campaign.assign(everybody, draw=True)
    assert (first.assigned, first.drawn_from, first.left_over) == (300, 1_000, 700)
    assert (first.earlier, first.left) == (0, 0)
    finish(campaign, first)
    second = campaign.assign(everybody, draw=True)
    assert (second.assigned, second.drawn_from, second.left_over) == (200, 700, 500)
    assert (second.earlier, second.repeated) == (300, 0)
    assert not ids(first) & ids(second)
    assert second.table.num_rows == 200
    assert campaign.verify().sound


def test_a_call_that_is_repeated_gets_its_answers_again(store):
    campaign, everybody = created(store), units(1_000)
    first = campaign.assign(everybody, draw=True)
    again = campaign.assign(everybody.reverse(), draw=True)
    assert again.event is None
    assert (again.assigned, again.repeated, again.left_over) == (0, 300, 700)
    assert pl.from_arrow(again.table).sort("id").equals(pl.from_arrow(first.table).sort("id"))


@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 90), people=st.integers(1, 90), seed=st.integers(0, 99))
def test_size_is_exact_and_order_is_nothing(tmp_path_factory, size, people, seed):
    folder = tmp_path_factory.mktemp("drawn")
    everybody = units(people)
    tables = []
    for name in ("one", "two"):
        store = open_store(folder / f"{name}.db")
        campaign = created(store, seed=seed, grid={"sizes": [size]})
        result = campaign.assign(everybody, draw=True)
        store.close()
        assert result.assigned == min(size, people)
        assert result.left_over == people - result.assigned
        assert result.left == size - result.assigned
        tables.append(pl.from_arrow(result.table).sort("id"))
        everybody = everybody.sample(fraction=1.0, shuffle=True, seed=seed)
    assert tables[0].equals(tables[1])


def test_pieces_of_any_size_draw_the_same(store, monkeypatch):
    everybody = units(700)
    whole = created(store, grid={"sizes": [123, 50]}).assign(everybody, draw=True)
    monkeypatch.setattr(reading, "CHUNK", 256)
    other = open_store(store.files[0].with_name("other.db"))
    cut = created(other, grid={"sizes": [123, 50]}).assign(everybody, draw=True)
    other.close()
    assert ids(whole) == ids(cut)


def test_everybody_is_drawn_alike():
    """Over many seeds each unit of a list is among the lowest as often as any other."""
    people, size, seeds = [f"{number:04d}" for number in range(200)], 50, 600
    counts = np.zeros(len(people))
    for seed in range(seeds):
        counts[np.argsort(lots(seed, "spring", people, before=0))[:size]] += 1
    # Draws without replacement vary less than independent ones, by the share that is left.
    expected = seeds * size / len(people)
    statistic = ((counts - expected) ** 2).sum() / expected / (1 - size / len(people))
    assert 0.001 < stats.chi2.sf(statistic, len(people) - 1) < 0.999


def test_lots_are_uniform_and_apart_from_the_draws_of_actions():
    people = [str(number) for number in range(20_000)]
    one, two = (lots(3, "spring", people, before=n).astype(float) / 2.0**64 for n in (0, 300))
    assert stats.chisquare(np.histogram(one, bins=20, range=(0, 1))[0]).pvalue > 0.001
    made = draws(3, "spring", people)
    columns = np.array([one, two, made.randomised, made.choice, made.place])
    assert np.abs(np.corrcoef(columns) - np.eye(5)).max() < 0.03


def test_those_who_join_later_are_drawn_like_the_others(store):
    """Were lots kept from wave to wave, half of those who join would be drawn, not a quarter."""
    campaign = small(store, grid={"sizes": [1_000, 500]}, features={})
    first = campaign.assign(units(2_000), draw=True)
    campaign.close(force=True, reason="no outcomes are needed")
    second = campaign.assign(units(3_000), draw=True)
    assert second.drawn_from == 2_000
    joined = sum(int(each) >= 2_000 for each in ids(second))
    assert stats.binomtest(joined, 500, 0.5).pvalue > 0.001
    assert not ids(first) & ids(second)


def test_refusals(store):
    campaign = created(store)
    with refused("invalid-argument", field="draw"):
        campaign.assign(units(9), draw=True, partial=True)
    with refused("invalid-argument", field="rest"):
        campaign.assign(units(9), draw=True, rest="rest.csv")
    calendar = created(store, name="calendar", grid={"calendar": True, "waves": 3, "units": 90})
    with refused("wave-without-size"):
        calendar.assign(units(9), draw=True)
    campaign.abort(reason="enough")
    with refused("aborted"):
        campaign.assign(units(9), draw=True)


def test_verify_draws_again(store):
    """Another highest lot, or a unit that was not drawn, is found even under a mended chain."""
    campaign = created(store)
    campaign.assign(units(1_000), draw=True)
    payload = campaign.events()[1].payload
    assert payload["draw"]["from"] == 1_000
    limit = int(payload["draw"]["highest_lot"], 16)
    for changed, said in ((limit - 1, "above the highest"), (limit + 1, "the record has")):
        payload["draw"]["highest_lot"] = f"{changed:016x}"
        damage(store, canonical(payload))
        findings = "; ".join(map(str, campaign.verify().findings))
        assert said in findings


def damage(store, payload):
    assert json.loads(payload)
    with sqlite3.connect(store.files[0]) as raw:
        raw.execute("DROP TRIGGER IF EXISTS events_no_UPDATE")
        raw.execute("UPDATE events SET payload = ? WHERE sequence = 2", (payload,))
    raw.close()
