"""One unit, several draws: each for one purpose, and what is logged is what happens."""

from hashlib import md5, sha256

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch.campaign.decide.draws import draws
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.decisions import Decided
from seqbatch.storage import open_store
from tests.campaign.instances import small, small_wave, units


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.mark.parametrize("by", ["blake2", "md5"])
def test_draws_are_uniform_and_have_nothing_to_do_with_each_other(by):
    made = draws(3, "spring", [str(number) for number in range(5_000)], by=by)
    columns = np.array([made.randomised, made.choice, made.place, made.lot / 2.0**64])
    for column in columns:
        shares = np.histogram(column, bins=10, range=(0, 1))[0] / 5_000
        assert np.abs(shares - 0.1).max() < 0.02
    assert np.abs(np.corrcoef(columns) - np.eye(4)).max() < 0.06


@given(st.integers(0, 2**63 - 1), st.text(), st.lists(st.text(), max_size=5))
def test_md5_draws_are_the_digits_of_one_hash(seed, campaign, ids):
    key = sha256(f"{seed}\n{campaign}".encode()).hexdigest()
    made = draws(seed, campaign, ids, by="md5")
    for place, each in enumerate(ids):
        digits = md5((key + each).encode()).hexdigest()
        assert made.randomised[place] == int(digits[:13], 16) / 2**52
        assert made.choice[place] == int(digits[13:26], 16) / 2**52
        assert made.place[place] == int(digits[26:], 16) / 2**24


def test_a_campaign_is_replayed_with_the_hash_that_it_declares(store):
    campaign = small(store, draws="md5", randomised=0.3, policy={"kind": "BPE"})
    small_wave(campaign, 1)
    table = campaign.assign(units(300, start=9_000)).table
    drawn = draws(3, "small", table["id"].to_pylist(), by="md5")
    assert table["randomised"].to_pylist() == (drawn.randomised < 0.3).tolist()
    assert campaign.verify().sound


def test_randomised_units_get_every_action_alike(store):
    campaign = small(store, randomised=0.4, floor=0.05, grid={"sizes": [300, 900]})
    small_wave(campaign, 1)
    table = pl.from_arrow(campaign.assign(units(900, start=5_000)).table)
    randomised = table.filter("randomised")
    assert len(randomised) / 900 == pytest.approx(0.4, abs=0.06)
    for action in "abc":
        assert (randomised["action"] == action).mean() == pytest.approx(1 / 3, abs=0.09)


def test_parts_of_the_evidence_hold_every_action(store):
    campaign = small(store, policy={"kind": "BPE"})
    campaign.assign(units(300))
    with store.read("small") as reader:
        decided = Decided.of(unpack(next(iter(reader.unit_chunks(given=False))).decided))
    for group in (0, 1, -1):
        counts = np.bincount(decided.actions[decided.groups == group], minlength=3)
        assert counts.min() > 15


def test_probabilities_sum_to_one_after_an_amendment(store):
    campaign = small(store, randomised=0.3, floor=0.02)
    small_wave(campaign, 1)
    campaign.amend(reason="too dear", retire=["b"])
    table = pl.from_arrow(campaign.assign(units(300, start=2_000)).table)
    assert table.select("p(a)", "p(b)", "p(c)").to_numpy().sum(axis=1) == pytest.approx(1.0)
    assert table["p(b)"].max() == 0
    assert table["p(a)"].min() == pytest.approx(0.3 / 2 + 0.7 * 0.02)
