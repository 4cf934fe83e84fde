"""Waves summed up by a database: the same evidence, and what can be proven of it."""

import re
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import agreement, unpack_state
from seqbatch.campaign.spec.input_limits import MOST_UNITS
from seqbatch.campaign.warehouse import sums as sums_module
from seqbatch.core.exact_sums import BITS, ExactSums, Scale
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.campaign.warehouses import (
    ELSEWHERE,
    customers,
    decided,
    first_wave,
    in_duckdb,
    in_postgres,
    visits,
)
from tests.refusals import refused


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def state_of(campaign):
    with campaign.store.read(campaign.name) as reader:
        return unpack_state(reader.last_state().content, campaign.situation())


#: The assignments of each store's campaigns, as last summed up: frames by campaign and wave.
STORED = WeakKeyDictionary()


def assigned(campaign, count, seed):
    """Assign units by the campaign's own statement; return them, and outcomes of most."""
    units = customers(count, seed=seed)
    found = decided(campaign, units)
    known = found.filter(pl.col("id").str.ends_with("7").not_())
    return units, visits(known["id"], known["action"], seed=seed)


def stored(campaign, units):
    """Return the table of assignments with these units as the open wave."""
    waves = STORED.setdefault(campaign.store, {}).setdefault(campaign.name, {})
    waves[campaign.situation().wave] = decided(campaign, units)
    return pl.concat(waves.values())


def summed(campaign, folder, units, outcomes, *, run=in_duckdb, dialect="duckdb"):
    """Return the result of the statement of sums, and the statement's file."""
    text = campaign.sql(
        what="sums", dialect=dialect, assignments="assignments", outcomes="outcomes"
    )
    path = folder / f"sums-{campaign.situation().wave}-{dialect}.sql"
    path.write_text(text, encoding="utf-8")
    return run(text, assignments=stored(campaign, units), outcomes=outcomes), path


def wave(campaign, folder, count, seed):
    sums, path = summed(campaign, folder, *assigned(campaign, count, seed))
    return campaign.record_sums(sums, statement=path).closed


def here(**changes):
    return {**ELSEWHERE, "rows": "here", **changes}


CASES = {
    "SBPE": {},
    "BPE": {"policy": {"kind": "BPE"}},
    "joint ridge": {"policy": {"kind": "JointRidge", "waves": "own level"}},
    "SBUCB": {"policy": {"kind": "SBUCB"}},
    "costs": {
        "actions": ["none", {"name": "it's mail", "cost": 0.3}, {"name": "call", "cost": 1.7}],
        "currency": "EUR",
        "metrics": {
            "visit": {"unit": "EUR", "range": [-10, 10], "absent": 0.5},
            "bonus": {"unit": "EUR", "range": [0, 9], "absent": 1.0},
        },
        "objective": {"minimise": {"visit": 1.1, "bonus": -0.3}, "less_costs": True},
    },
    "cap": about("visit", direction="min", range=[-10, 10], absent=0.25, cap=1.5),
    "yes/no": about("bought", kind="yes/no", absent=0),
    "hashed": {
        "features": {"categorical": {"branch": {"hash": 5, "by": "md5", "missing": "level"}}}
    },
    "no features": {"features": {}, "policy": {"kind": "ThompsonSampling", "samples": 100}},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_evidence_is_that_of_a_campaign_with_its_rows(store, folder, case):
    changes = CASES[case]
    afar = Campaign.create({**ELSEWHERE, **changes}, store=store)
    other = open_store(folder / "other.db")
    near = Campaign.create(here(**changes), store=other)
    for count, seed in ((600, 1), (400, 2)):
        units, outcomes = assigned(afar, count, seed)
        sums, path = summed(afar, folder, units, outcomes)
        closed = afar.record_sums(sums, statement=path).closed
        near.assign(units)
        near.record(outcomes)
        wanted = near.close()
        assert agreement(state_of(afar), state_of(near)) == 0
        assert (closed.assigned, closed.observed) == (wanted.assigned, wanted.observed)
        assert closed.missingness.statistic == pytest.approx(wanted.missingness.statistic)
        assert closed.allocation.statistic == pytest.approx(wanted.allocation.statistic)
    left, right = afar.status(), near.status()
    assert left.waves == right.waves
    for one, two in zip(left.actions, right.actions, strict=True):
        assert (one.units, one.randomised, one.outcomes) == (
            two.units, two.randomised, two.outcomes,
        )  # fmt: skip
        assert one.mean == pytest.approx(two.mean)
    other.close()


@pytest.mark.slow
def test_postgres_sums_up_to_the_same_numbers(store, folder, postgres):
    campaign = Campaign.create(
        {
            **ELSEWHERE, "grid": {"sizes": [20_000, 100]},
            **about("visit", direction="min", range=[-10, 10], absent=0.5),
        },
        store=store,
    )  # fmt: skip
    units, outcomes = assigned(campaign, 20_000, 4)
    one, _ = summed(campaign, folder, units, outcomes)

    def run(text, **tables):
        return in_postgres(postgres.get_uri(), text, **tables)

    two, _ = summed(campaign, folder, units, outcomes, run=run, dialect="postgres")
    keys = ["action", "part", "seen"]
    one, two = (frame.drop("statement").sort(keys).cast(pl.String) for frame in (one, two))
    assert one.rows() == two.select(one.columns).rows()


def test_sums_by_cells_are_those_of_all_rows(store, folder, monkeypatch):
    crossed = [["vip", "zip"], ["age", "zip"], ["age", "spend"]]
    features = {**ELSEWHERE["features"], "interactions": crossed}
    campaign = Campaign.create({**ELSEWHERE, "features": features}, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    found = {}
    # Three values of vip, four of zip, seven weekdays and one for none.
    for most in (1, 3, 95, 96):
        monkeypatch.setattr(sums_module, "MOST_CELLS", most)
        sums, path = summed(campaign, folder, units, outcomes)
        grouped = re.search("GROUP BY chosen, part, seen, (.*)\n\\)", path.read_text())
        found[grouped.group(1).count(",") + 1 if grouped else 0] = sums.drop("statement")
    assert list(found) == [0, 1, 2, 3]
    for sums in found.values():
        assert sums.schema == found[0].schema
        assert sums.equals(found[0], null_equal=True)


def test_a_unit_that_comes_twice_with_different_columns_is_found(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    other = units.head(1).with_columns(vip=pl.col("vip").fill_null(False).not_(), zip=pl.lit("x"))
    sums, path = summed(campaign, folder, pl.concat([units, other]), outcomes)
    with refused("invalid-rows", row=1, column="distinct_units", problem="repeated-units"):
        campaign.record_sums(sums, statement=path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_sums_come_back_through_files_that_a_database_writes(store, folder, ending):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    file = folder / f"sums.{ending}"

    def copied(text, **tables):
        in_duckdb(text, into=file, **tables)

    _, path = summed(campaign, folder, units, outcomes, run=copied)
    closed = campaign.record_sums(str(file), statement=path).closed
    assert sum(closed.assigned.values()) == 600
    assert campaign.verify().sound


def test_verify_says_what_it_can_and_cannot_prove(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    wave(campaign, folder, 600, 1)
    wave(campaign, folder, 400, 2)
    found = campaign.verify()
    assert found.sound
    assert ["wave 1" in found.notes[0], "wave 2" in found.notes[1]] == [True, True]
    assert "run the statement again" in found.notes[0]
    event = campaign.events()[-1]
    assert event.payload["elsewhere"]["statement"].startswith("-- {")
    assert campaign.status().waves[0].assigned == 600


def test_what_was_summed_up_is_not_deleted_afterwards(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    wave(campaign, folder, 600, 1)
    with refused("has-outcomes"):
        campaign.delete(reason="x", force=True)
    page = campaign.protocol(folder / "protocol.md").read_text()
    assert "keyed hash (md5)" in page
    assert "no row is kept here" in page


def test_a_changed_sum_is_found(store, folder, monkeypatch):
    campaign = Campaign.create({**ELSEWHERE, "policy": {"kind": "SBPE"}}, store=store)
    wave(campaign, folder, 600, 1)
    from seqbatch.campaign.views import verify_checks

    def changed(now, state, rows):
        rows = [{**row, "z0_0": str(int(row["z0_0"]) + 1)} for row in rows]
        return learned(now, state, rows)

    learned = verify_checks.learned_elsewhere
    monkeypatch.setattr(verify_checks, "learned_elsewhere", changed)
    assert "different numbers" in str(campaign.verify().findings[0])


def made_in_another_store(folder):
    """Return the statement of a campaign of the same name that somebody else runs."""
    other = open_store(folder / "other.db")
    campaign = Campaign.create({**ELSEWHERE, "seed": 6}, store=other)
    text = campaign.sql(what="sums", assignments="assignments", outcomes="outcomes")
    other.close()
    return text


def test_a_statement_that_is_not_the_campaigns_own_is_refused(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    sums, path = summed(campaign, folder, *assigned(campaign, 600, 1))
    other = folder / "other.sql"
    for text, reason in (
        ("SELECT 1", "not a statement"),
        (path.read_text().replace("LEFT JOIN", "JOIN"), "was changed"),
        (path.read_text().replace('"event": 1', '"event": 9'), "after event 9, not for wave 1 of"),
        (made_in_another_store(folder), "for another campaign called 'afar': the hash of its"),
    ):
        other.write_text(text)
        with refused("invalid-argument", field="statement", match=reason):
            campaign.record_sums(sums, statement=other)
    assert campaign.situation().wave == 1


def beyond_the_calendar(sums):
    """Sums whose numbers of units are dates that Python does not have."""
    table = sums.to_arrow()
    days = pa.array([2**31 - 1] * len(table), pa.int32()).view(pa.date32())
    return table.set_column(table.column_names.index("units"), "units", days)


def test_a_result_that_cannot_be_is_refused(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    sums, path = summed(campaign, folder, units, outcomes)
    twice, _ = summed(campaign, folder, pl.concat([units, units[:3]]), outcomes)
    apart = outcomes[:1].with_columns(visit=pl.lit(3.25))
    conflicting, _ = summed(campaign, folder, units, pl.concat([outcomes, apart]))
    beyond, _ = summed(campaign, folder, units, outcomes.with_columns(visit=pl.lit(11.0)))
    unfit = units.with_columns(spend=pl.lit(None, dtype=pl.Float64))
    without, _ = summed(campaign, folder, unfit, outcomes)
    for frame, column, problem in (
        (sums.drop("z1_1"), "z1_1", "no-such-column"),
        (sums.with_columns(z1_1=pl.lit("1.5")), "z1_1", "not-a-number"),
        (sums.with_columns(statement=pl.lit("0")), "statement", "wrong-statement"),
        (pl.concat([sums, sums[:1]]), "action", "repeated"),
        (sums.clear(), "", "no-rows"),
        (beyond_the_calendar(sums), "units", "not-a-number"),
        (twice, "distinct_units", "repeated-units"),
        (conflicting, "conflicting", "conflicting"),
        (beyond, "conflicting", "conflicting"),
        (without, "action", "no-action"),
        (sums.with_columns(z1_1=pl.lit(str(600 << 62 | 1))), "z1_1", "impossible"),
        (sums.with_columns(e0_1=pl.lit(f"-{600 << 60 | 1}")), "e0_1", "impossible"),
        (sums.with_columns(mark3=pl.lit(str(600 << 32 | 1))), "mark3", "impossible"),
    ):
        with refused("invalid-rows", column=column, problem=problem):
            campaign.record_sums(frame, statement=path)
    assert campaign.situation().wave == 1


def test_the_sums_of_the_largest_campaign_fit():
    """Half of its units on each side, each with the largest numbers there are."""
    half, scale = MOST_UNITS // 2, Scale((0,), 0)
    for sign in (1, -1):
        products = np.full((1, 2, 2), sign * (half << 2 * BITS), dtype=object)
        made = ExactSums.of(scale, products, np.array([half]))
        both = made.merged(made)
        assert both.products[0, 0, 0] == sign * (MOST_UNITS << 2 * BITS)
        assert both.statistics().gram[0, 0, 0] == sign * MOST_UNITS * 2.0**62
        assert sums_module.WHOLE.fullmatch(str(both.products[0, 0, 0]))
    whole = ExactSums.of(scale, both.products, np.array([MOST_UNITS]))
    assert (whole.products == both.products).all()
    # NumPy sums the four parts of marks, of 32 bits each, as 64 bits.
    assert MOST_UNITS * (2**32 - 1) < 2**64


def test_waves_that_are_not_complete_are_closed_by_force_alone(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    sums, path = summed(campaign, folder, units[:500], outcomes)
    with refused("not-as-planned", match="500"):
        campaign.record_sums(sums, statement=path)
    few, _ = summed(campaign, folder, units, outcomes[:100])
    with refused("too-few-outcomes", match=r"600.*16\.7%"):
        campaign.record_sums(few, statement=path)
    with refused("invalid-argument", field="reason"):
        campaign.record_sums(sums, statement=path, force=True)
    closed = campaign.record_sums(sums, statement=path, force=True, reason="a late list").closed
    assert sum(closed.assigned.values()) == 500


def test_what_needs_rows_is_refused(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    for call in (
        lambda: campaign.assign(units),
        lambda: campaign.record(outcomes),
        lambda: campaign.close(),
        lambda: campaign.amend(reason="x", metrics={"visit": {"absent": 0}}),
        lambda: campaign.findings(boosted_trees=True),
        lambda: campaign.export(folder / "units.csv"),
    ):
        with refused("rows-elsewhere"):
            call()
    with refused("rows-here"):
        first_wave(store).record_sums(units, statement=__file__)


def test_after_the_last_wave_nothing_is_suggested_that_is_refused(store, folder):
    campaign = Campaign.create({**ELSEWHERE, "grid": {"sizes": [600]}}, store=store)
    with refused("rows-elsewhere") as caught:
        campaign.close()
    assert [one.action for one in caught.value.remedies] == ["sql"]
    wave(campaign, folder, 600, 1)
    with refused("rows-elsewhere") as caught:
        campaign.close()
    assert caught.value.remedies == ()
    with refused("finished", match=r"closed\. Amend it"):
        campaign.sql(units="units", assignments="roster", write=True)


def test_neither_draws_nor_sums_need_be_declared(store):
    spec = {name: value for name, value in ELSEWHERE.items() if name not in ("draws", "sums")}
    stored = Campaign.create(spec, store=store).events()[0].payload["spec"]
    assert (stored["draws"], stored["sums"]) == ("md5", "exact")
    near = {**spec, "rows": "here", "name": "near"}
    stored = Campaign.create(near, store=store).events()[0].payload["spec"]
    assert (stored["draws"], stored["sums"]) == ("md5", "floating")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"draws": "blake2"}, "draws"),
        ({"sums": "floating"}, "sums"),
        (about("visit", range=[0, 9], metrics={"calls": {}}), "metrics.calls"),
        (about("visit", range=[0, 9], row_id="order"), "row_id"),
        (about("visit", range=[0, 9], rows="sum"), "row_id"),
        (about("visit", range=[0, 9], absent=0, after="3 days"), "waited"),
        (about("visit", range=[0, 9], date="day", within="3 days"), "waited"),
        ({"policy": {"kind": "ThompsonSampling"}}, "ThompsonSampling"),
    ],
)
def test_a_spec_that_needs_rows_is_refused(store, changes, name):
    with refused("invalid-spec", field="rows", match=name):
        Campaign.create({**ELSEWHERE, **changes}, store=store)


def test_a_statement_that_is_not_utf8_is_refused(store, folder):
    campaign = Campaign.create(ELSEWHERE, store=store)
    path = folder / "sums.sql"
    path.write_bytes(b"-- caf\xe9\nSELECT 1")
    with refused("invalid-argument", field="statement", match="UTF-8: byte 6"):
        campaign.record_sums(pl.DataFrame({"a": [1]}), statement=path)
    with refused("invalid-argument", field="statement", match="File name too long"):
        campaign.record_sums(pl.DataFrame({"a": [1]}), statement="x" * 300)


@pytest.mark.parametrize(("column", "value"), [
    ("units", "²"), ("units", "1" + "0" * 30), ("units", ""), ("part", "-5"), ("part", "99"),
    ("seen", "2"), ("absent", "-70"), ("absent", ""), ("randomised", "9999"), ("e0", "1"),
])  # fmt: skip
def test_a_number_that_no_statement_returns_is_refused(store, folder, column, value):
    campaign = Campaign.create(ELSEWHERE, store=store)
    sums, path = summed(campaign, folder, *assigned(campaign, 600, 1))
    texts = sums.cast(pl.String)
    dirty = texts.with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(value)).otherwise(column).alias(column)
    )
    with refused("invalid-rows", row=1, column=None if column == "seen" else column):
        campaign.record_sums(dirty, statement=path)
    counts = ["units", "distinct_units", "absent", "randomised"]
    floats = texts.with_columns(pl.col(name) + ".0" for name in counts)
    assert sum(campaign.record_sums(floats, statement=path).closed.assigned.values()) == 600


def test_a_wave_elsewhere_that_starts_from_a_history(store, folder):
    """A database decides the first wave, too, and nothing is learned but sums."""
    base = {**ELSEWHERE, "policy": {"kind": "JointRidge", "waves": "own level"}}
    old = Campaign.create({**base, "rows": "here", "name": "old"}, store=store)
    table = pl.from_arrow(old.assign(customers(600, seed=1)).table)
    old.record(visits(table["id"], table["action"], seed=1))
    old.close()
    old.abort(reason="enough")
    later = {**base, "history": {"campaign": "old"}}
    here = Campaign.create({**later, "rows": "here", "name": "here"}, store=store)
    units = customers(600, seed=2)
    found = in_duckdb(here.sql(units="units"), units=units)
    same = pl.from_arrow(here.assign(units).table).join(found, on="id", suffix=" in SQL")
    assert (same["action"] == same["action in SQL"]).all()
    assert same["action"].value_counts()["count"].max() > 300
    afar = Campaign.create(later, store=store)
    closed = wave(afar, folder, 600, 3)
    assert any("campaign old, 600 units" in note for note in closed.notes)
    assert afar.verify().sound
