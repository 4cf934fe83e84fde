"""Outcomes with one row for each unit: verdicts, versions, metrics that come in several files."""

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.reading import Source
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, run_wave, units
from tests.campaign.specs import about
from tests.refusals import refused


def assigned(store, **changes):
    campaign = created(store, **changes)
    return campaign, outcomes(campaign.assign(units(300)).table)


def counts(result):
    assert result.accepted + result.duplicate + result.conflict + result.quarantined == result.rows
    return result.accepted, result.duplicate, result.conflict, result.quarantined


def test_every_row_ends_as_one_of_four(store, tmp_path):
    campaign, rows = assigned(store)
    first = rows["visit"].to_list()
    assert counts(campaign.record(rows[:3])) == (3, 0, 0, 0)
    path = tmp_path / "outcomes.csv"
    path.write_text(
        "id,visit\n"
        f"000000,{first[0]!r}\n"  # duplicate
        "000001,9.5\n"  # conflict
        "000005,1.25\n"  # accepted
        "000005,1.25\n"  # duplicate within the file
        "5,1\n"  # unknown: zeros count
        "000006,11\n"  # out of range
        "000007,nan\n"
        "000008,inf\n"
        "000009,\n"
        "000010,yes\n"
        ",1\n"
        "000011,1,2\n"  # too many cells
        "000012,1\n"
        "0000\00013,1\n",
        encoding="utf-8",
    )
    result = campaign.record(path)
    assert counts(result) == (2, 2, 1, 9)
    assert (result.repeated, result.unknown, result.units) == (1, 3, 2)
    held = {line: (verdict, reason) for line, _, verdict, reason in result.held}
    assert held[3] == ("conflict", f"the unit already has the outcome {first[1]:g}; received 9.5")
    assert held[6] == ("quarantined", "no such unit in this campaign")
    assert held[7] == ("quarantined", "visit must be between -10 and 10; received 11")
    assert held[8] == ("quarantined", "visit is missing")
    assert held[9][1].startswith("visit must be finite")
    assert held[10] == ("quarantined", "visit is missing")
    assert held[11] == ("quarantined", "visit must be a number; received 'yes'")
    assert held[12] == ("quarantined", "id is missing")
    assert held[13] == ("quarantined", "the row has 3 cells, the header 2")
    assert held[15] == ("quarantined", "id holds a NUL character")
    assert campaign.verify().sound
    campaign.export(tmp_path / "held.csv", what="held")
    assert len(pl.read_csv(tmp_path / "held.csv")) == 10


def test_a_range_holds_both_of_its_ends(store):
    campaign, rows = assigned(store)
    given = rows[:4].with_columns(visit=pl.Series([-10.0, 10.0, -10.001, 10.001]))
    assert counts(campaign.record(given)) == (2, 0, 0, 2)


def test_a_row_id_belongs_to_one_unit(store, tmp_path):
    campaign, rows = assigned(store, **about("visit", range=[-10, 10], row_id="order"))
    named = rows[:4].with_columns(order=pl.Series(["o1", "o2", "o2", ""]))
    result = campaign.record(named)
    assert counts(result) == (2, 0, 1, 1)
    assert {reason for _, _, _, reason in result.held} == {
        "order 'o2' is already recorded for another unit", "order is missing",
    }  # fmt: skip
    assert counts(campaign.record(named[:2])) == (0, 2, 0, 0)
    again = rows[5:6].with_columns(order=pl.Series(["o1"]))
    result = campaign.record(again)
    assert counts(result) == (0, 0, 1, 0)
    assert result.held[0][3] == "order 'o1' is already recorded for another unit"
    with refused("invalid-rows", column="order", problem="no-such-column"):
        campaign.record(rows)
    campaign.export(tmp_path / "o.csv", what="rows")
    assert pl.read_csv(tmp_path / "o.csv")["row id"].to_list() == ["o1", "o2"]
    assert campaign.verify().sound


def test_the_wrong_wave_is_quarantined(store):
    campaign, rows = assigned(store)
    result = campaign.record(rows[:2].with_columns(wave=pl.Series([1, 2])))
    assert counts(result) == (1, 0, 0, 1)
    assert result.held[0][3] == "wrong wave: the unit was assigned in 1, the row says 2"


def test_same_file_twice_shuffled_and_overlapping(store):
    campaign, rows = assigned(store)
    campaign.record(rows)
    state, events = campaign.status().state, len(campaign.events())
    assert counts(campaign.record(rows)) == (0, 300, 0, 0)
    assert counts(campaign.record(rows.reverse())) == (0, 300, 0, 0)
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=4)
    assert counts(campaign.record(shuffled[:200])) == (0, 200, 0, 0)
    assert counts(campaign.record(pl.concat([rows[:50], rows[20:70]]))) == (0, 100, 0, 0)
    assert campaign.status().state == state
    assert len(campaign.events()) == events


def test_pieces_in_any_order_end_in_the_same_state(store):
    one, rows = assigned(store)
    one.record(rows)
    one.close()
    state = one.status()
    # The same campaign in another store: the name is part of the key, so it must be the same.
    two = created_elsewhere(rows, lake="lake:" in store.label)
    assert two.state == state.state


def created_elsewhere(rows, *, lake):
    import tempfile

    from seqbatch.storage import open_store

    with tempfile.TemporaryDirectory() as folder:
        other = open_store(f"lake:{folder}/c" if lake else f"{folder}/c.db")
        campaign = created(other)
        campaign.assign(units(300))
        shuffled = rows.sample(fraction=1.0, shuffle=True, seed=8)
        for start in (200, 0, 100, 50):
            campaign.record(shuffled[start : start + 150])
        campaign.close()
        status = campaign.status()
        other.close()
        return status


def test_corrections_append_a_version(store, tmp_path):
    campaign, rows = assigned(store)
    campaign.record(rows)
    other = rows[:3].with_columns(visit=pl.Series([5.0, 6.0, rows["visit"][2]]))
    assert counts(campaign.record(other)) == (0, 1, 2, 0)
    with refused("invalid-argument", field="reason"):
        campaign.record(other, correct=True)
    result = campaign.record(other, correct=True, reason="wrong system")
    assert counts(result) == (2, 1, 0, 0)
    assert result.corrected == 2
    campaign.export(tmp_path / "o.csv", what="outcomes")
    versions = pl.read_csv(tmp_path / "o.csv", schema_overrides={"id": pl.String})
    assert versions.filter(pl.col("id") == "000001")["version"].to_list() == [1, 2]
    again = pl.DataFrame({"id": ["000001"], "visit": [8.0]})
    assert campaign.record(again, correct=True, reason="again").corrected == 1
    campaign.export(tmp_path / "u.csv")
    units_now = pl.read_csv(tmp_path / "u.csv", schema_overrides={"id": pl.String})
    assert units_now.filter(pl.col("id") == "000001")["visit"].to_list() == [8.0]
    assert campaign.verify().sound


def test_a_correction_after_close_keeps_both_reports(store, tmp_path):
    """As closed and as corrected: both can be made again, now and later."""
    campaign = created(store)
    run_wave(campaign, 1, start=0, count=300)
    closed_at = len(campaign.events())
    as_closed = campaign.status()
    fixed = pl.DataFrame({"id": ["000004"], "visit": [9.75]})
    campaign.record(fixed, correct=True, reason="refund")
    as_corrected = campaign.status()
    assert campaign.status(at_event=closed_at) == as_closed
    assert as_corrected.actions != as_closed.actions
    _, _, closed = run_wave(campaign, 2, start=300, count=200)
    assert closed.corrected == 1
    assert campaign.status(at_event=closed_at) == as_closed
    assert campaign.status(at_event=closed_at + 1) == as_corrected
    campaign.export(tmp_path / "then.csv", at_event=closed_at)
    campaign.export(tmp_path / "now.csv")
    then, now = pl.read_csv(tmp_path / "then.csv"), pl.read_csv(tmp_path / "now.csv")
    assert len(then) == 300
    assert then["visit"][4] != 9.75
    assert now["visit"][4] == 9.75
    assert campaign.verify().sound


def test_files_of_outcomes_that_cannot_be(store, tmp_path):
    campaign, rows = assigned(store)
    with refused("invalid-rows", column="visit", problem="no-such-column"):
        campaign.record(rows.rename({"visit": "buy"}))
    (tmp_path / "none.csv").write_text("id,visit\n")
    with refused("invalid-rows", problem="no-rows"):
        campaign.record(tmp_path / "none.csv")
    assert len(campaign.events()) == 2


def test_outcomes_before_any_unit(store):
    campaign = created(store)
    result = campaign.record(pl.DataFrame({"id": ["a"], "visit": [1.0]}))
    assert counts(result) == (0, 0, 0, 1)


def test_a_held_value_that_cannot_be_read_is_none(store, tmp_path):
    campaign, _ = assigned(store)
    path = tmp_path / "o.csv"
    path.write_text("id,visit\n000001,\n000002,yes\n000003,1,2\n000004,inf\n000005,11\n")
    assert counts(campaign.record(path)) == (0, 0, 0, 5)
    campaign.export(tmp_path / "held.csv", what="held")
    held = pl.read_csv(tmp_path / "held.csv")
    assert sorted(held["visit"].to_list(), key=str) == [11.0, None, None, None, None]
    assert campaign.verify().sound


def test_a_wave_that_cannot_be_read_is_quarantined(store):
    campaign, rows = assigned(store)
    result = campaign.record(rows[:4].with_columns(wave=pl.Series(["1", "two", "", None])))
    assert counts(result) == (3, 0, 0, 1)
    assert result.held[0][3] == "wave must be a wave's number; received 'two'"


@pytest.mark.parametrize("column", ["visit", "wave"])
@pytest.mark.parametrize("kind", ["date32", "duration"])
def test_a_column_of_times_is_no_column_of_numbers(store, column, kind):
    campaign, rows = assigned(store)
    times = {"date32": pl.date(2024, 1, 2), "duration": pl.duration(days=1)}
    with refused("invalid-rows", problem="wrong-type"):
        campaign.record(rows[:3].with_columns(times[kind].alias(column)))
    assert len(campaign.events()) == 2


def test_a_held_row_claims_no_id(store):
    campaign, rows = assigned(store, **about("visit", range=[-10, 10], row_id="order"))
    campaign.record(rows[:1].with_columns(order=pl.lit("o1")))
    mixed = pl.DataFrame({
        "id": ["000000", "000001", "000002", "000003"],
        "visit": [9.0, 1.0, 2.0, 11.0],
        "order": ["o2", "o3", "o3", "o5"],
    })  # fmt: skip
    result = campaign.record(mixed)
    # The first unit has another value; the second row keeps its id; the last is out of range.
    assert counts(result) == (1, 0, 2, 1)
    assert [unit for _, unit, _, _ in result.held] == ["000000", "000002", "000003"]
    later = rows[4:6].with_columns(order=pl.Series(["o2", "o5"]))
    assert counts(campaign.record(later)) == (2, 0, 0, 0)
    fixed = pl.DataFrame({"id": ["000001"], "visit": [5.0], "order": ["o3"]})
    assert campaign.record(fixed, correct=True, reason="wrong").corrected == 1
    assert campaign.verify().sound


def test_columns_called_as_those_of_an_export(store, tmp_path):
    campaign, rows = assigned(store, **about("reason", row_id="wave"))
    frame = rows[:2].rename({"visit": "reason"}).with_columns(wave=pl.Series(["x1", "x2"]))
    assert counts(campaign.record(frame)) == (2, 0, 0, 0)
    campaign.export(tmp_path / "o.parquet", what="outcomes")
    shown = pl.read_parquet(tmp_path / "o.parquet")
    assert shown["outcome reason"].to_list() == rows["visit"][:2].to_list()
    campaign.export(tmp_path / "r.parquet", what="rows")
    assert pl.read_parquet(tmp_path / "r.parquet")["row id"].to_list() == ["x1", "x2"]


def test_a_reward_column_without_a_value_is_held_whole(store):
    campaign, rows = assigned(store, **about("visit"))
    nothing = pl.Series([None] * 300, dtype=pl.Null)
    result = campaign.record(pl.DataFrame({"id": rows["id"], "visit": nothing}))
    assert counts(result) == (0, 0, 0, 300)
    assert result.held[-1][3] == "visit is missing"


def test_row_ids_of_the_wrong_type_are_held_whole(store):
    campaign, rows = assigned(store, **about("visit", row_id="order"))
    result = campaign.record(rows.with_columns(order=pl.lit(1.5)))
    assert counts(result) == (0, 0, 0, 300)
    assert result.held[-1][3].startswith("order must be text, whole numbers or dates; received")


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("known", [None, 20.0, 5.0])
@pytest.mark.parametrize("correct", [False, True])
def test_two_values_of_a_unit_in_one_file_are_refused(
    store, tmp_path, monkeypatch, block, known, correct
):
    """Whether they are in one piece of the file or in two, and whatever is known of the unit."""
    monkeypatch.setattr("seqbatch.campaign.files.csv.BLOCK", block)
    campaign, _ = assigned(store, **about("visit"))
    if known is not None:
        campaign.record(pl.DataFrame({"id": ["000001"], "visit": [known]}))
    before = len(campaign.events())
    path = tmp_path / "orders.csv"
    others = "".join(f"{row:06},1\n" for row in range(10, 40))
    path.write_text(f"id,visit\n000001,20\n{others}000001,7\n000001,20\n", encoding="utf-8")
    with refused("several-rows", field="visit", row=33, problem="several-rows") as caught:
        campaign.record(path, correct=correct, reason="new export")
    ways = [remedy.options["metrics"]["visit"]["rows"] for remedy in caught.value.remedies]
    assert ways == ["sum", "first", "last", "max"]
    assert '"count" or "any"' in str(caught.value)
    assert len(campaign.events()) == before
    campaign.amend(metrics={"visit": {"rows": "sum"}}, reason="orders")
    if known is None:
        # Without ids, the equal rows of the file are asked about.
        with refused("equal-rows"):
            campaign.record(path)
    else:
        # Nobody knows whether these rows are in the value that was recorded before.
        assert counts(campaign.record(path)) == (30, 0, 3, 0)


def test_equal_rows_of_a_unit_are_told(store):
    campaign, rows = assigned(store)
    result = campaign.record(pl.concat([rows[:50], rows[:20]]))
    assert counts(result) == (50, 20, 0, 0)
    assert (result.repeated, result.units) == (20, 50)
    assert any(
        text.startswith("20 rows repeat another row of this file") for text in result.remarks
    )


TWO = {
    **about("visit", range=[-10, 10], absent=0, metrics={
        "clicks": {"kind": "count"}, "unsubscribed": {"kind": "yes/no"},
    }),
}  # fmt: skip


def metrics_of(campaign, tmp_path, *names):
    campaign.export(tmp_path / "u.parquet", force=True)
    return pl.read_parquet(tmp_path / "u.parquet").select("id", *names, "observed")


def test_metrics_come_in_several_files(store, tmp_path):
    campaign, rows = assigned(store, **TWO)
    first = campaign.record(rows[:100])
    assert first.metrics == ("visit",)
    assert first.remarks[-1] == "Not in this file, and unchanged: clicks, unsubscribed."
    ids = [f"{row:06}" for row in range(50, 150)]
    beside = pl.DataFrame({"id": ids, "unsubscribed": [row % 3 == 0 for row in range(100)]})
    assert counts(campaign.record(beside)) == (100, 0, 0, 0)
    clicks = pl.DataFrame(
        {"id": ids[:60], "clicks": [None, 2] * 30, "unsubscribed": [None, None] * 30}
    )
    result = campaign.record(clicks)
    # A row without a value says nothing, and is held: it may be a mistake.
    assert counts(result) == (30, 0, 0, 30)
    assert result.held[0][3] == "all of clicks, unsubscribed are missing"
    assert counts(campaign.record(rows[:100])) == (0, 100, 0, 0)
    assert counts(campaign.record(beside)) == (0, 100, 0, 0)
    other = beside.with_columns(unsubscribed=~pl.col("unsubscribed"), clicks=pl.lit(2))
    result = campaign.record(other[:4])
    assert counts(result) == (0, 0, 4, 0)
    assert result.held[0][3] == "the unit already has unsubscribed 1; received 0"
    result = campaign.record(other[:4], correct=True, reason="the other way round")
    assert (result.accepted, result.corrected) == (4, 4)
    frame = metrics_of(campaign, tmp_path, "visit", "clicks", "unsubscribed")
    assert frame.row(52) == ("000052", rows["visit"][52], 2.0, 1.0, "recorded")
    assert frame.row(120) == ("000120", None, None, 0.0, "none")
    assert campaign.situation().observed == 100
    assert campaign.verify().sound


def test_a_unit_with_a_metric_and_no_outcome_counts_as_absent(store, tmp_path):
    """At the close, in the counts of metrics, and after a late row."""
    campaign, rows = assigned(store, **TWO, required_outcomes=0.0)
    campaign.record(rows[:100])
    campaign.record(pl.DataFrame({"id": ["000150"], "unsubscribed": ["yes"]}))
    closed = campaign.close()
    assert sum(closed.observed.values()) == 100
    assert sum(closed.absent.values()) == 200
    frame = metrics_of(campaign, tmp_path, "visit", "unsubscribed", "reward")
    assert frame.row(150) == ("000150", None, 1.0, 0.0, "absent")
    late = campaign.record(pl.DataFrame({"id": ["000151", "000150"], "unsubscribed": [1, 1]}))
    assert (late.accepted, late.duplicate, late.late) == (1, 1, 1)
    campaign.record(pl.DataFrame({"id": ["000150"], "visit": [3.5]}))
    frame = metrics_of(campaign, tmp_path, "visit", "unsubscribed", "reward")
    assert frame.row(150) == ("000150", 3.5, 1.0, 3.5, "recorded")
    assert frame.row(151) == ("000151", None, 1.0, 0.0, "absent")
    _, _, second = run_wave(campaign, 2, start=300, count=200)
    assert (second.replaced, second.late, second.corrected) == (1, 0, 0)
    found = campaign.verify()
    assert found.sound, found.findings


def test_a_reward_of_two_metrics_waits_for_both(store, tmp_path):
    """A missing term of a unit that counts as absent has its declared value."""
    spec = {
        "metrics": {
            "spent": {"absent": 0, "range": [0, 100]}, "returned": {"absent": 1, "range": [0, 100]},
        },
        "objective": {"maximise": {"spent": 1, "returned": -2}},
    }  # fmt: skip
    campaign, rows = assigned(store, **spec, required_outcomes=0.0)
    campaign.record(pl.DataFrame({"id": rows["id"][:10], "spent": 10.0, "returned": 2.0}))
    campaign.record(pl.DataFrame({"id": rows["id"][10:20], "spent": 30.0}))
    assert campaign.situation().observed == 10
    closed = campaign.close()
    assert (sum(closed.observed.values()), sum(closed.absent.values())) == (10, 290)
    frame = metrics_of(campaign, tmp_path, "spent", "returned", "reward")
    assert frame["reward"].to_list() == [6.0] * 10 + [28.0] * 10 + [-2.0] * 280
    # Late rows: the other term, a term of one that has none, a correction of the known one.
    campaign.record(pl.DataFrame({"id": [rows["id"][10]], "returned": [5.0]}))
    campaign.record(pl.DataFrame({"id": [rows["id"][30]], "spent": [50.0]}))
    fixed = pl.DataFrame({"id": [rows["id"][11]], "spent": [40.0]})
    campaign.record(fixed, correct=True, reason="a refund")
    frame = metrics_of(campaign, tmp_path, "spent", "returned", "reward")
    assert frame["reward"][10] == 20.0
    assert frame["reward"][11] == 38.0
    assert frame["reward"][30] == 48.0
    found = campaign.verify()
    assert found.sound, found.findings


def test_a_file_needs_a_metric(store):
    campaign, rows = assigned(store, **TWO)
    for name in ("visit", "clicks", "unsubscribed"):
        with refused("invalid-rows", column=name, problem="no-such-column"):
            campaign.record(rows.rename({"visit": "bought"}))
    result = campaign.record(rows.rename({"visit": "visits"}).with_columns(clicks=pl.lit(1)))
    # The misspelled column is told, and the other metric is recorded.
    assert result.metrics == ("clicks",)
    assert [doubt.examples for doubt in result.doubts] == [("visits",)]


@pytest.mark.parametrize("value", ["0.5", "2", "maybe", "-1"])
def test_a_yes_or_no_is_nothing_else(store, tmp_path, value):
    campaign, _ = assigned(store, **TWO)
    path = tmp_path / "o.csv"
    yes = ["yes", "True", "1", "y", "ja"]
    no = ["no", "FALSE", "0", "n", "Nein"]
    cells = [*yes, *no, value]
    path.write_text("id,unsubscribed\n" + "".join(f"{n:06},{c}\n" for n, c in enumerate(cells)))
    result = campaign.record(path)
    assert counts(result) == (10, 0, 0, 1)
    assert result.held[0][0] == 12
    assert result.held[0][3].endswith(f"received {value!r}")
    frame = metrics_of(campaign, tmp_path, "unsubscribed")
    assert frame["unsubscribed"].to_list()[:11] == [1.0] * 5 + [0.0] * 5 + [None]


def test_a_file_of_assignments_is_no_file_of_outcomes(store):
    campaign = created(store, **about("score"))
    answers = pl.from_arrow(campaign.assign(units(300)).table)
    with refused("invalid-rows", column="score", problem="not-an-outcome"):
        campaign.record(answers)
    assert campaign.record(answers.select("id", "wave", "score")).accepted == 300


def meanwhile(monkeypatch, act):
    """Do something once, while the rows of a file are read."""
    batches, todo = Source.batches, [act]

    def acting(self, *args, **options):
        yield from batches(self, *args, **options)
        if self.file and todo:
            todo.pop()()

    monkeypatch.setattr(Source, "batches", acting)


def test_a_file_is_read_before_others_must_wait(store, store_url, tmp_path, monkeypatch):
    campaign, rows = assigned(store)
    rows.write_csv(tmp_path / "outcomes.csv")
    again = Campaign(open_store(store_url), campaign.name)
    meanwhile(monkeypatch, lambda: again.record(rows[:10]))
    assert counts(campaign.record(tmp_path / "outcomes.csv")) == (290, 10, 0, 0)
    again.store.close()
    assert campaign.verify().sound


def test_an_amendment_while_a_file_is_read_is_noticed(store, store_url, tmp_path, monkeypatch):
    campaign, rows = assigned(store)
    campaign.record(rows)
    campaign.close()
    rows.write_csv(tmp_path / "outcomes.csv")
    again = Campaign(open_store(store_url), campaign.name)
    amended = {"visit": {"format": "1.234,56"}}
    meanwhile(monkeypatch, lambda: again.amend(metrics=amended, reason="other"))
    with refused("amended-meanwhile"):
        campaign.record(tmp_path / "outcomes.csv")
    again.store.close()
    assert campaign.events()[-1].kind == "amend"
