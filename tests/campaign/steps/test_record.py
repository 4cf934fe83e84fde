"""Outcomes: four verdicts, versions, and a state that does not depend on how files come."""

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
        "000005,1.5\n"  # conflict within the file
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
    assert counts(result) == (2, 2, 2, 9)
    held = {line: (verdict, reason) for line, _, verdict, reason in result.held}
    assert held[3] == ("conflict", f"the unit already has the outcome {first[1]:g}; received 9.5")
    assert held[6][1].startswith("is twice in this file (lines 4 and 6) with different values")
    assert held[7] == ("quarantined", "no such unit in this campaign")
    assert held[8] == ("quarantined", "visit must be between -10 and 10; received 11")
    assert held[9] == ("quarantined", "visit is missing")
    assert held[10][1].startswith("visit must be finite")
    assert held[11] == ("quarantined", "visit is missing")
    assert held[12] == ("quarantined", "visit must be a number; received 'yes'")
    assert held[13] == ("quarantined", "id is missing")
    assert held[14] == ("quarantined", "the row has 3 cells, the header 2")
    assert held[16] == ("quarantined", "id holds a NUL character")
    assert campaign.verify().sound
    campaign.export(tmp_path / "held.csv", what="held")
    assert len(pl.read_csv(tmp_path / "held.csv")) == 11


def test_a_range_holds_both_of_its_ends(store):
    campaign, rows = assigned(store)
    given = rows[:4].with_columns(visit=pl.Series([-10.0, 10.0, -10.001, 10.001]))
    assert counts(campaign.record(given)) == (2, 0, 0, 2)


def test_an_outcome_id_belongs_to_one_unit(store, tmp_path):
    campaign, rows = assigned(store, outcome="order")
    named = rows[:4].with_columns(order=pl.Series(["o1", "o2", "o2", ""]))
    result = campaign.record(named)
    assert counts(result) == (2, 0, 1, 1)
    assert {reason for _, _, _, reason in result.held} == {
        "order 'o2' is already recorded for another unit", "order is missing",
    }  # fmt: skip
    assert counts(campaign.record(named[:2])) == (0, 2, 0, 0)
    again = rows[5:6].with_columns(order=pl.Series(["o1"]))
    assert counts(campaign.record(again)) == (0, 0, 1, 0)
    with refused("invalid-rows", column="order", problem="no-such-column"):
        campaign.record(rows)
    campaign.export(tmp_path / "o.csv", what="outcomes")
    assert pl.read_csv(tmp_path / "o.csv")["order"].to_list() == ["o1", "o2"]
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


def test_a_held_row_claims_no_outcome_id(store):
    campaign, rows = assigned(store, outcome="order")
    campaign.record(rows[:1].with_columns(order=pl.lit("o1")))
    mixed = pl.DataFrame({
        "id": ["000000", "000001", "000002", "000002", "000002", "000003"],
        "visit": [9.0, 1.0, 2.0, 3.0, 3.0, 11.0],
        "order": ["o2", "o2", "o2", "o3", "o4", "o5"],
    })  # fmt: skip
    result = campaign.record(mixed)
    # The first is held, so that its id is free; the third is held for its id, the fourth is first.
    assert counts(result) == (2, 1, 2, 1)
    assert [unit for _, unit, _, _ in result.held] == ["000000", "000002", "000003"]
    later = rows[4:6].with_columns(order=pl.Series(["o4", "o5"]))
    assert counts(campaign.record(later)) == (2, 0, 0, 0)
    fixed = pl.DataFrame({"id": ["000001"] * 2, "visit": [5.0, 6.0], "order": ["o2", "o6"]})
    assert campaign.record(fixed, correct=True, reason="wrong").corrected == 2
    assert campaign.verify().sound


def test_columns_called_as_those_of_an_export(store, tmp_path):
    campaign, rows = assigned(store, outcome="wave", **about("reason"))
    frame = rows[:2].rename({"visit": "reason"}).with_columns(wave=pl.Series(["x1", "x2"]))
    assert counts(campaign.record(frame)) == (2, 0, 0, 0)
    campaign.export(tmp_path / "o.parquet", what="outcomes")
    shown = pl.read_parquet(tmp_path / "o.parquet")
    assert shown["outcome reason"].to_list() == rows["visit"][:2].to_list()
    assert shown["wave"].to_list() == ["x1", "x2"]


def test_a_reward_column_without_a_value_is_held_whole(store):
    campaign, rows = assigned(store, **about("visit"))
    nothing = pl.Series([None] * 300, dtype=pl.Null)
    result = campaign.record(pl.DataFrame({"id": rows["id"], "visit": nothing}))
    assert counts(result) == (0, 0, 0, 300)
    assert result.held[-1][3] == "visit is missing"


def test_outcome_ids_of_the_wrong_type_are_held_whole(store):
    campaign, rows = assigned(store, outcome="order")
    result = campaign.record(rows.with_columns(order=pl.lit(1.5)))
    assert counts(result) == (0, 0, 0, 300)
    assert result.held[-1][3].startswith("order must be text, whole numbers or dates; received")


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("known", [None, 20.0, 5.0])
def test_a_correction_has_one_value_of_each_unit(store, tmp_path, monkeypatch, block, known):
    monkeypatch.setattr("seqbatch.campaign.files.csv.BLOCK", block)
    campaign, _ = assigned(store, **about("visit"))
    if known is not None:
        campaign.record(pl.DataFrame({"id": ["000001"], "visit": [known]}))
    path = tmp_path / "orders.csv"
    others = "".join(f"{row:06},1\n" for row in range(10, 40))
    path.write_text(f"id,visit\n000001,20\n{others}000001,7\n000001,20\n", encoding="utf-8")
    result = campaign.record(path, correct=True, reason="new export")
    assert (result.conflict, result.duplicate) == (1, 2 if known == 20 else 1)
    [(line, unit, verdict, reason)] = result.held
    assert (line, unit, verdict) == (33, "000001", "conflict")
    assert reason == (
        "is twice in this file (lines 2 and 33) with different values; add them up or choose one "
        "before recording"
    )
    assert campaign.status().waves[0].observed == 31
    campaign.export(tmp_path / "units.csv")
    values = dict(
        pl.read_csv(tmp_path / "units.csv", infer_schema=False)["id", "visit"].iter_rows()
    )
    assert float(values["000001"]) == 20
    assert campaign.verify().sound


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
    meanwhile(monkeypatch, lambda: again.amend(reward_format="1.234,56", reason="other"))
    with refused("amended-meanwhile"):
        campaign.record(tmp_path / "outcomes.csv")
    again.store.close()
    assert campaign.events()[-1].kind == "amend"
