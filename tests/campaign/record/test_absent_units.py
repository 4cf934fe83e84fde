"""Units without an outcome that count as what was declared: at close, in status, export, replay."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import pack, pack_state, unpack_state
from seqbatch.campaign.record.outcomes import Ledger, absences
from seqbatch.campaign.record.store import OutcomeChunk
from seqbatch.campaign.steps import close
from seqbatch.campaign.views.metrics import metric_notes
from seqbatch.campaign.views.status import WAITING, remarks
from seqbatch.display import sentence
from seqbatch.inference import Guarded
from seqbatch.storage import open_store
from tests.campaign.instances import units
from tests.campaign.record.test_events import changed
from tests.refusals import refused

SHOP = {
    "name": "shop", "seed": 5, "unit": "id", "actions": ["none", "mail"], "randomised": 0.2,
    "control": "none", "objective": {"maximise": "revenue"},
    "features": {"numeric": {"age": "raw"}}, "grid": {"sizes": [40, 40, 40]},
    "policy": {"kind": "SBPE"},
}  # fmt: skip


class Clock:
    """A clock that tells what it is told."""

    def __init__(self):
        self.time = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self):
        self.time += timedelta(seconds=1)
        return self.time


def shop(store, clock=None, *, absent=None, after=None, **changes):
    revenue = {"unit": "EUR", "absent": absent, "after": after}
    revenue = {name: value for name, value in revenue.items() if value is not None}
    spec = {**SHOP, "metrics": {"revenue": revenue}, **changes}
    return Campaign.create(spec, store=store, who="ann", clock=clock or Clock())


def buyers(table, every=4, start=0):
    """Return a row with a positive value for one unit of every few."""
    ids = table["id"].to_pylist()[start::every]
    return pl.DataFrame({"id": ids, "revenue": [10.0 + len(text) for text in ids]})


def exported(campaign, tmp_path, **options):
    campaign.export(tmp_path / "u.parquet", force=True, **options)
    return pl.read_parquet(tmp_path / "u.parquet")


def state_of(campaign):
    """Return the newest state's evidence: counts and moments by action."""
    with campaign.store.read(campaign.name) as reader:
        return unpack_state(reader.last_state().content, campaign.situation())


def test_units_without_a_row_count_as_declared(store, tmp_path):
    campaign = shop(store, absent=0)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    closed = campaign.close()
    assert sum(closed.observed.values()) == 10
    assert sum(closed.absent.values()) == 30
    assert closed.missingness.p is None
    event = campaign.events()[closed.event - 1]
    assert event.counts == {"units": 40, "outcomes": 10, "absent": 30}
    # All forty were learned from.
    assert int(state_of(campaign).evidence[0].count.sum()) == 40
    status = campaign.status()
    assert (status.waves[0].observed, status.waves[0].absent) == (10, 30)
    frame = exported(campaign, tmp_path)
    assert frame["observed"].value_counts().sort("count").rows() == [
        ("recorded", 10),
        ("absent", 30),
    ]
    assert frame.filter(pl.col("observed") == "absent")["reward"].to_list() == [0.0] * 30
    assert frame.filter(pl.col("observed") == "absent")["revenue"].null_count() == 30
    for row in status.actions:
        own = frame.filter(pl.col("action") == row.action)["reward"]
        assert row.mean == pytest.approx(own.mean())
        assert row.outcomes + row.absent == len(own)
    assert campaign.verify().sound


def test_a_later_row_replaces_what_an_absent_unit_counted_as(store, tmp_path):
    campaign = shop(store, absent=0)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    campaign.close()
    late = campaign.record(buyers(table, start=1))
    assert (late.accepted, late.late, late.corrected) == (10, 10, 0)
    status = campaign.status()
    assert (status.waves[0].observed, status.waves[0].absent) == (20, 20)
    assert campaign.record(buyers(table, start=1)).duplicate == 10
    second = campaign.assign(units(40, start=40)).table
    campaign.record(buyers(second))
    closed = campaign.close()
    assert (closed.replaced, closed.late, closed.corrected) == (10, 0, 0)
    assert int(state_of(campaign).evidence[0].count.sum()) == 80
    frame = exported(campaign, tmp_path)
    learned = state_of(campaign).evidence[0].moment[:, 0].sum()
    assert learned == pytest.approx(frame["reward"].sum())
    assert campaign.verify().sound


def test_the_way_to_a_state_does_not_matter(tmp_path):
    """Rows that came late after an absence end where rows that came in time do."""
    ends = []
    for late in (False, True):
        store = open_store(tmp_path / f"{late}.db")
        campaign = shop(store, absent=0, randomised=1.0)
        table = campaign.assign(units(40)).table
        campaign.record(buyers(table))
        if not late:
            campaign.record(buyers(table, start=1))
        campaign.close()
        if late:
            campaign.record(buyers(table, start=1))
        campaign.record(buyers(campaign.assign(units(40, start=40)).table))
        campaign.close()
        ends.append(state_of(campaign).evidence[0])
        store.close()
    assert np.array_equal(ends[0].count, ends[1].count)
    np.testing.assert_allclose(ends[0].moment, ends[1].moment, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(ends[0].squares, ends[1].squares, rtol=1e-12, atol=1e-9)


def test_status_has_no_means_of_buyers_alone(store):
    campaign = shop(store, absent=0)
    campaign.record(buyers(campaign.assign(units(40)).table))
    status = campaign.status()
    assert [(row.mean, row.weighted) for row in status.actions] == [(None, None)] * 2
    assert WAITING in status.notes
    campaign.close()
    status = campaign.status()
    assert all(row.mean < 10 for row in status.actions)
    assert WAITING not in status.notes


def test_a_guardrail_is_not_judged_before_its_file_came(store):
    """Units without a row count as 0 complaints, but perhaps nobody has sent the file yet."""
    complaint = {"kind": "yes/no", "absent": 0, "guardrail": {"at_most": 0.4}}
    metrics = {"revenue": {"unit": "EUR", "absent": 0}, "complaint": complaint}
    sizes = {"sizes": [400, 40]}
    campaign = shop(store, metrics=metrics, grid=sizes)
    given = campaign.assign(units(400)).table
    campaign.record(buyers(given))
    with refused("metric-not-recorded", field="complaint") as caught:
        campaign.close()
    assert [each.action for each in caught.value.remedies] == ["close"]
    [doubt] = campaign.close(force=True, reason="the file comes next week").doubts
    assert (doubt.kind, doubt.column, doubt.rows) == ("metric-not-recorded", "complaint", 400)
    assert campaign.close(wave=1).doubts == (doubt,)
    assert campaign.status().doubts == (doubt,)
    assert campaign.findings().quality.doubts == (doubt,)
    assert campaign.findings().quality.warnings[0] in campaign.findings().notes
    assert sentence(doubt.text()) in remarks(campaign.status())
    [_, found] = campaign.findings().metrics
    assert (found.recorded, found.absent) == (0, 400)
    assert {one.code for one in found.guardrail} == {Guarded.NOT_CLEAR}
    assert any("no value was ever recorded" in said for said in metric_notes(campaign.findings()))
    # One complaint shows that complaints are recorded: then the others are evidence.
    campaign.record(pl.DataFrame({"id": given["id"].to_pylist()[:1], "complaint": [1]}))
    [_, found] = campaign.findings().metrics
    assert {one.code for one in found.guardrail} == {Guarded.KEPT}
    assert (campaign.status().doubts, campaign.findings().quality.doubts) == ((), ())
    # The same in the next wave: the complaint of the first says nothing about its file.
    campaign.record(buyers(campaign.assign(units(40, start=400)).table))
    with refused("metric-not-recorded"):
        campaign.close()
    campaign.close(force=True, skip=True, reason="not sent")
    assert campaign.status().doubts == campaign.findings().quality.doubts == ()
    assert campaign.verify().sound


def test_a_part_of_the_objective_that_was_never_recorded_is_asked_about(store):
    metrics = {"revenue": {"absent": 0}, "returned": {"absent": 0}, "rating": {"absent": 3}}
    objective = {"maximise": {"revenue": 1, "returned": -1}}
    campaign = shop(store, metrics=metrics, objective=objective)
    given = campaign.assign(units(40)).table
    campaign.record(pl.DataFrame({"id": given["id"].to_pylist()[:1], "rating": [5]}))
    with refused("no-outcomes"):
        campaign.close()
    campaign.record(buyers(given))
    with refused("metric-not-recorded", field="returned"):
        campaign.close()
    campaign.record(pl.DataFrame({"id": given["id"].to_pylist()[:1], "returned": [2.5]}))
    assert campaign.close().doubts == ()
    assert campaign.verify().sound


def test_a_metric_that_is_waited_for_is_not_asked_about_yet(store):
    clock = Clock()
    later = {"absent": 0, "after": "60 days"}
    campaign = shop(store, clock, metrics={"revenue": {"absent": 0}, "returned": later})
    campaign.record(buyers(campaign.assign(units(40)).table))
    clock.time += timedelta(days=20)
    campaign.close()
    campaign.record(buyers(campaign.assign(units(40, start=40)).table))
    clock.time += timedelta(days=70)
    with refused("metric-not-recorded", field="returned"):
        campaign.close()


def test_means_of_buyers_alone_are_never_those_of_all_units(store):
    """A wave that is closed by force before its time is up waits for most of its units."""
    clock = Clock()
    campaign = shop(store, clock, absent=0, after="14 days")
    campaign.record(buyers(campaign.assign(units(40)).table))
    clock.time += timedelta(days=3)
    [doubt] = campaign.close(force=True, reason="in a hurry").doubts
    assert (doubt.kind, doubt.rows) == ("units-waited-for", 30)
    found = campaign.findings()
    assert (found.waves, found.waiting, found.outcomes, found.means) == ((), (1,), 0, ())
    assert found.decision.lead == "No outcomes count yet: wave 1 still waits for some."
    assert {row.mean for row in campaign.status().actions} == {None}
    # A second wave with all of its outcomes counts; the first one is left out, and that is said.
    second = campaign.assign(units(40, start=40)).table["id"].to_pylist()
    campaign.record(pl.DataFrame({"id": second, "revenue": [float(n % 3) for n in range(40)]}))
    campaign.close()
    found = campaign.findings()
    assert (found.waves, found.waiting, found.outcomes) == ((2,), (1,), 40)
    assert any("wave 1" in note for note in found.notes)
    # Once the time is up, they count, whether or not another wave is closed.
    clock.time += timedelta(days=14)
    found = campaign.findings()
    assert (found.waves, found.waiting, found.outcomes, found.absent) == ((1, 2), (), 80, 30)
    assert campaign.findings(at_event=campaign.status().events).waiting == (1,)
    assert campaign.verify().sound


def test_an_aborted_wave_of_buyers_alone_is_left_out(store):
    campaign = shop(store, absent=0)
    given = campaign.assign(units(40)).table
    campaign.record(buyers(given))
    campaign.abort(reason="no money")
    assert (campaign.findings().waves, campaign.findings().waiting) == ((), (1,))
    others = [text for place, text in enumerate(given["id"].to_pylist()) if place % 4]
    campaign.record(pl.DataFrame({"id": others, "revenue": 0.0}))
    assert (campaign.findings().waves, campaign.findings().waiting) == ((1,), ())


def test_nobody_counts_before_the_time_is_up(store, tmp_path):
    clock = Clock()
    campaign = shop(store, clock, absent=0, after="14 days", required_outcomes=0.5)
    first = campaign.assign(units(20)).table
    clock.time += timedelta(days=10)
    second = campaign.assign(units(20, start=20)).table
    campaign.record(buyers(first))
    campaign.record(buyers(second))
    with refused("too-few-outcomes", match="10 .*40"):
        campaign.close()
    clock.time += timedelta(days=5)
    closed = campaign.close()
    assert sum(closed.absent.values()) == 15
    assert sum(closed.observed.values()) == 10
    assert len(campaign.situation().waiting) == 1
    # One more of the second half comes late; the time of the others is up at the next close.
    campaign.record(buyers(second, start=1, every=20))
    third = campaign.assign(units(40, start=40)).table
    campaign.record(pl.DataFrame({"id": third["id"].to_pylist(), "revenue": 1.0}))
    clock.time += timedelta(days=10)
    closed = campaign.close()
    assert closed.absent_earlier == 14
    assert closed.late == 1
    # Those of the second wave have ten of their fourteen days.
    assert [wave for wave, _ in campaign.situation().waiting] == [2]
    frame = exported(campaign, tmp_path)
    assert frame["observed"].to_list().count("none") == 0
    assert int(state_of(campaign).evidence[0].count.sum()) == 80
    assert campaign.verify().sound


def test_files_of_buyers_only_are_asked_about(store):
    campaign = shop(store, required_outcomes=0.0)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    with refused("buyers-only") as caught:
        campaign.close()
    assert "absent = 0" in str(caught.value)
    assert "by force" in str(caught.value)
    [remedy] = [each for each in caught.value.remedies if each.action == "amend"]
    assert remedy.options["metrics"] == {"revenue": {"absent": 0}}
    event = campaign.amend(**remedy.options)
    assert event.payload["metrics"] == {"revenue": {"absent": {"from": None, "to": 0}}}
    assert sum(campaign.close().absent.values()) == 30
    assert campaign.verify().sound


def test_force_closes_over_the_question(store):
    campaign = shop(store)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    closed = campaign.close(force=True, reason="that is all there is")
    assert sum(closed.absent.values()) == 0
    assert campaign.status().waves[0].absent == 0
    assert campaign.verify().sound


def test_no_question_where_a_value_is_not_positive(store):
    campaign = shop(store, required_outcomes=0.0)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table).with_columns(revenue=pl.lit(0.0)))
    assert sum(campaign.close().observed.values()) == 10


def test_a_wave_without_any_row_is_no_wave_of_zeros(store):
    campaign = shop(store, absent=0)
    campaign.assign(units(40))
    with refused("no-outcomes", match="40 units"):
        campaign.close()
    assert sum(campaign.close(force=True, reason="nobody bought").absent.values()) == 40


def test_absence_is_amended_within_a_wave_and_nothing_is_learned_by_it(store):
    campaign = shop(store)
    campaign.assign(units(20))
    before = state_of(campaign)
    declared = {"revenue": {"absent": 1.5, "after": "2 weeks"}}
    campaign.amend(metrics=declared, reason="declared")
    assert campaign.situation().absent == 1.5
    assert pack_state(state_of(campaign)) == pack_state(before)
    with refused("invalid-argument", field="metrics.revenue.absent"):
        campaign.amend(metrics=declared, reason="again")
    with refused("invalid-argument", field="metrics.revenue.after"):
        campaign.amend(metrics={"revenue": {"after": "soon"}}, reason="again")
    with refused("wave-open"):
        campaign.amend(metrics={"revenue": {"absent": 0}}, floor=0.1, reason="both")
    assert campaign.verify().sound


def test_an_amendment_of_actions_learns_absent_units_again(store):
    campaign = shop(store, absent=0, floor=0.05)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    campaign.close()
    campaign.amend(add=["call"], reason="one more")
    assert int(state_of(campaign).evidence[0].count.sum()) == 40
    assert campaign.verify().sound


def test_a_skipped_wave_counts_nobody(store):
    campaign = shop(store, absent=0)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    closed = campaign.close(force=True, skip=True, reason="the mail was never sent")
    assert sum(closed.absent.values()) == 0
    assert campaign.verify().sound


def test_a_forged_absence_is_found(tmp_path):
    store = open_store(tmp_path / "c.db")
    campaign = shop(store, absent=0)
    table = campaign.assign(units(40)).table
    campaign.record(buyers(table))
    campaign.close()
    store.close()
    changed(tmp_path / "c.db", "UPDATE outcomes SET value = 5 WHERE version = 0 AND number = 1")
    again = Campaign.open("shop", store=open_store(tmp_path / "c.db"))
    found = again.verify().findings
    assert any("the index has 5.0 of event 4, the record 0.0" in str(each) for each in found)


def test_who_was_absent_is_found_out_again(store, monkeypatch):
    """A close that forgets a unit, or invents one, is no close that can be replayed."""
    honest = close.absentees

    def forgetful(*args, **options):
        found = honest(*args, **options)
        return replace(found, numbers=found.numbers[1:], values=found.values[1:])

    monkeypatch.setattr(close, "absentees", forgetful)
    campaign = shop(store, absent=0)
    campaign.record(buyers(campaign.assign(units(40)).table))
    campaign.close()
    found = [str(each) for each in campaign.verify().findings]
    problem = "by the rows, 30 units count as absent; the record has 29, or different ones"
    assert f"event 4, absent units: {problem}" in found


@pytest.mark.parametrize("room", [0, 20, 100])
def test_outcomes_are_gathered_whatever_room_there_is(room):
    sizes = [1, 5, 40, 3]
    chunks = [
        OutcomeChunk(
            chunk=place,
            event=place + 1,
            count=size,
            rows=pack(absences(sum(sizes[:place]) + np.arange(size), np.full(size, place, float))),
            hash="",
        )
        for place, size in enumerate(sizes)
    ]
    made = Ledger.of(chunks, room=room)
    assert made.numbers.tolist() == list(range(49))
    assert made.values.tolist() == np.repeat(range(4), sizes).tolist()
    assert made.absent.all()
