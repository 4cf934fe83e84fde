"""Findings are the same however rows were handed over: in any cuts, any order, any store."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.inference.value_counts import ValueCounts
from seqbatch.storage import open_store
from tests.campaign.specs import about

SPEC = {
    "name": "same", "seed": 3, "unit": "customer", "actions": ["none", "mail", "call"],
    "randomised": 0.3, "floor": 0.05, "draws": "md5", "sums": "exact", "cluster": "house",
    **about("visit", kind="yes/no", absent=0,
            metrics={"spend": {"unit": "EUR", "absent": 0, "guardrail": {"at_least": 0.1}}}),
    "features": {"numeric": {"age": {}, "spent": {}},
                 "categorical": {"region": ["north", "south", "west"]}},
    "grid": {"sizes": [400, 300, 300]}, "report": {"segments": ["region"]},
}  # fmt: skip


def people(wave, count):
    random = np.random.default_rng([9, wave])
    return pl.DataFrame(
        {
            "customer": [f"c{wave}-{number}" for number in range(count)],
            "house": [f"h{number // 2 % 190}" for number in range(count)],
            "age": random.normal(40, 10, count),
            "spent": random.exponential(20, count).round(2),
            "region": random.choice(["north", "south", "west"], count),
        }
    )


def outcomes(frame, wave):
    """Return what follows from a unit's id, columns and action alone."""
    known = people(wave, 2_000)
    luck = dict(zip(known["customer"], np.random.default_rng(wave).random(2_000), strict=True))
    effect = {"none": 0.3, "mail": 0.4, "call": 0.35}
    older = {"none": 0.0, "mail": 0.3, "call": -0.1}
    rows = [
        (
            one["customer"],
            float(luck[one["customer"]] < effect[one["action"]] + older[one["action"]]
                  * (one["age"] > 45)),
        )
        for one in frame.iter_rows(named=True)
    ]  # fmt: skip
    return pl.DataFrame(
        {
            "customer": [each for each, _ in rows],
            "visit": [value for _, value in rows],
            "spend": [round(30 * luck[each] * value, 2) for each, value in rows],
        }
    )


def found(store, *, cuts, order, **changes):
    """Run the campaign with the units of a wave in some cuts and order; return its findings."""
    campaign = Campaign.create({**SPEC, **changes}, store=store)
    for wave, size in enumerate([400, 300, 300]):
        units = people(wave, size)
        if order is not None:
            units = units.sample(fraction=1, shuffle=True, seed=order + wave)
        ends = [0, *(cut for cut in cuts if cut < size), size]
        answers = [pl.from_arrow(campaign.assign(units[a:b]).table) for a, b in pairwise(ends)]
        rows = outcomes(pl.concat(answers).join(units, on="customer"), wave)
        for a, b in pairwise(ends[::-1]):
            campaign.record(rows[b:a])
        campaign.close()
    return campaign.findings(tree=True, boosted_trees=True).plain()


def close(one, other, where=""):
    """Compare two plain values: numbers may differ by rounding alone."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            close(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            close(a, b, f"{where}[{place}]")
    elif isinstance(one, float):
        # Scales of actions are iterated until they are known to three digits.
        few = where.startswith(".differences")
        assert one == pytest.approx(other, rel=1e-2 if few else 1e-8, abs=1e-10), where
    else:
        assert one == other, where


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Return the findings of waves that are handed over whole and in order."""
    made = found(open_store(tmp_path_factory.mktemp("straight") / "one.db"), cuts=[], order=None)
    assert made["splits"]
    assert made["rule"]["gain"]["estimate"] is not None
    return lambda: made


def test_findings_do_not_depend_on_the_store(straight, store):
    # Once, a unit that was handed over alone made splits disappear.
    close(straight(), found(store, cuts=[1, 200], order=1))


@settings(max_examples=4, derandomize=True, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 399), max_size=4, unique=True).map(sorted),
    order=st.integers(0, 1_000),
    lake=st.booleans(),
)
def test_findings_do_not_depend_on_cuts_and_order(straight, tmp_path_factory, cuts, order, lake):
    """Texts, verdicts and counts are equal; numbers to rounding."""
    folder = tmp_path_factory.mktemp("same")
    store = open_store(f"lake:{folder}" if lake else folder / "one.db")
    close(straight(), found(store, cuts=cuts, order=order))
    store.close()


def test_quartiles_are_those_of_all_pieces():
    random = np.random.default_rng(0)
    table = np.column_stack([np.ones(5_000), random.normal(size=5_000), random.random(5_000) < 0.3])
    exact = np.quantile(table[:, 1], [0.25, 0.5, 0.75], method="lower")
    for cuts in ([], [1], [1_000, 1_001]):
        counted = ValueCounts.of_columns(np.split(table, cuts))
        assert [counted[1].quantile(q) for q in (0.25, 0.5, 0.75)] == exact.tolist()
        assert counted[2].quantile(0.5) == 0
        assert counted[2].share_above(0.0) == table[:, 2].mean()


def test_many_values_are_counted_in_ranges_that_do_not_depend_on_order(monkeypatch):
    monkeypatch.setattr("seqbatch.inference.value_counts.GATHERED", 700)
    random = np.random.default_rng(1)
    values = random.normal(size=20_000)
    made = []
    for own in (values, random.permutation(values)):
        counts = ValueCounts(most=500)
        for piece in np.array_split(own, 37):
            counts.add(piece)
        quartiles = [counts.quantile(q) for q in (0.25, 0.5, 0.75)]
        made.append((quartiles, [counts.share_above(q) for q in quartiles]))
    assert made[0] == made[1]
    assert made[0][0] == pytest.approx(np.quantile(values, [0.25, 0.5, 0.75]), abs=0.05)
    assert made[0][1] == [float((values > q).mean()) for q in made[0][0]]
