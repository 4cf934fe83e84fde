"""A campaign from end to end, on both stores."""

import datetime

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.decisions import Decided
from tests.campaign.instances import SPEC, created, outcomes, run_all, run_wave, small, units
from tests.campaign.specs import about
from tests.refusals import refused


def test_three_waves_end_to_end(store):
    campaign = run_all(store)
    status = campaign.status()
    assert status.condition == "finished"
    assert [wave.assigned for wave in status.waves] == [300, 200, 100]
    assert [wave.observed for wave in status.waves] == [300, 200, 100]
    last = {row.action: row.units for row in status.actions if row.wave == 3}
    assert last["call"] > 60
    assert [event.kind for event in campaign.events()] == [
        "create", *["assign", "record", "close"] * 3,
    ]  # fmt: skip
    verified = campaign.verify()
    assert verified.sound
    assert (verified.units, verified.outcomes, verified.states) == (600, 600, 4)
    with refused("finished", match="3 waves"):
        campaign.assign(units(1, start=900))


def test_probabilities_are_the_exact_ones(store):
    campaign = created(store)
    run_wave(campaign, 1, start=0, count=300)
    table = pl.from_arrow(campaign.assign(units(200, start=300)).table)
    every = table.select("p(none)", "p(mail)", "p(call)").to_numpy()
    low = 0.2 / 3 + 0.8 * 0.02
    high = 0.2 / 3 + 0.8 * (0.02 + (1 - 3 * 0.02) * 1.0)
    assert set(np.unique(every)) == {low, high}
    taken = [row[f"p({row['action']})"] for row in table.to_dicts()]
    assert table["probability"].to_list() == taken


@pytest.mark.parametrize("policy", [
    {"kind": "SBPE"}, {"kind": "BPE"}, {"kind": "ThompsonSampling", "samples": 32},
    {"kind": "SBUCB", "gamma": 0.5}, {"kind": "SupSBUCB"}, {"kind": "RBGL"}, {"kind": "LBGL"},
    {"kind": "EpsilonGreedy"}, {"kind": "UniformRandom"},
])  # fmt: skip
def test_every_policy_runs_and_replays(tmp_path, policy):
    from seqbatch.storage import open_store

    campaign = run_all(open_store(tmp_path / "c.db"), policy=policy)
    assert campaign.status().condition == "finished"
    assert campaign.verify().sound


def test_shared_model(store):
    actions = [
        {"name": "none", "features": {"price": 0.0, "calls": 0.0}},
        {"name": "mail", "features": {"price": 1.0, "calls": 0.0}},
        {"name": "call", "features": {"price": 3.0, "calls": 1.0}},
    ]
    campaign = run_all(store, model="shared", actions=actions)
    assert campaign.verify().sound
    assert campaign.situation().encoder().names[-1] == "calls*age*zip=rural"


def test_answers_do_not_depend_on_order_cuts_or_retries(store):
    whole, cut = created(store), created(store, name="autumn")
    frame = units(300)
    first = pl.from_arrow(whole.assign(frame).table)
    again = whole.assign(frame.sample(fraction=1.0, shuffle=True, seed=3))
    assert again.event is None
    assert again.repeated == 300
    assert pl.from_arrow(again.table).sort("id").equals(first)
    # The name is part of the key: another campaign draws anew.
    other = pl.concat([pl.from_arrow(cut.assign(piece).table) for piece in frame.iter_slices(70)])
    assert not other["action"].equals(first["action"])


def test_draws_do_not_depend_on_how_units_come(tmp_path):
    from seqbatch.storage import open_store

    one, two = open_store(tmp_path / "one.db"), open_store(tmp_path / "two.db")
    frame = units(300)
    whole = pl.from_arrow(created(one).assign(frame).table)
    campaign = created(two)
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=5)
    pieces = [pl.from_arrow(campaign.assign(piece).table) for piece in mixed.iter_slices(47)]
    assert pl.concat(pieces).sort("id").equals(whole)


def test_a_full_wave_says_how_many_fit(store, tmp_path):
    campaign = created(store)
    with refused("too-many-units", match="300 .*310 "):
        campaign.assign(units(310))
    assert campaign.status().waves[0].assigned == 0
    rest = tmp_path / "rest.csv"
    result = campaign.assign(units(310), partial=True, rest=rest)
    assert (result.assigned, result.left_over, result.left) == (300, 10, 0)
    left = pl.read_csv(rest, infer_schema=False)
    assert left["id"].to_list() == [f"{n:06d}" for n in range(300, 310)]


def test_close_is_refused_below_the_share(store):
    campaign = created(store)
    table = campaign.assign(units(250)).table
    with refused("wave-has-room", match="50 more"):
        campaign.close()
    campaign.assign(units(50, start=250))
    campaign.record(outcomes(table))
    with refused("too-few-outcomes", match=r"250 .*300 .*83\.3%.*90\.0%"):
        campaign.close()
    with refused("invalid-argument", field="reason"):
        campaign.close(force=True)
    closed = campaign.close(force=True, reason="the rest will not come")
    assert sum(closed.observed.values()) == 250
    assert campaign.events()[-1].why == "the rest will not come"
    with refused("no-units"):
        campaign.close()
    assert campaign.close(wave=1) == closed


def test_late_outcomes_enter_the_next_estimate(store):
    campaign = created(store)
    table = campaign.assign(units(300)).table
    rows = outcomes(table)
    campaign.record(rows[:280])
    campaign.close()
    late = campaign.record(rows[280:])
    assert late.late == late.accepted == 20
    run = run_wave(campaign, 2, start=300, count=200)[2]
    assert run.late == 20
    assert campaign.verify().sound


def test_calendar_waves_take_what_comes(store):
    campaign = created(store, grid={"calendar": True, "waves": 2, "units": 400})
    run_wave(campaign, 1, start=0, count=130)
    closed = run_wave(campaign, 2, start=500, count=333)[2]
    assert sum(closed.assigned.values()) == 333
    assert campaign.status().condition == "finished"
    assert campaign.verify().sound


def test_minimising_prefers_the_lowest(store):
    campaign = run_all(store, **about("visit", direction="min"))
    last = {row.action: row.units for row in campaign.status().actions if row.wave == 3}
    assert last["none"] > 60


def test_order_is_by_sequence_never_by_clock(store):
    times = iter(datetime.datetime(2030 - year, 1, 1, tzinfo=datetime.UTC) for year in range(100))
    campaign = Campaign.create(SPEC, store=store, clock=lambda: next(times))
    for wave, (start, count) in enumerate([(0, 300), (300, 200), (500, 100)], start=1):
        run_wave(campaign, wave, start=start, count=count)
    events = campaign.events()
    assert [event.sequence for event in events] == list(range(1, 11))
    assert [event.at for event in events] == sorted((e.at for e in events), reverse=True)
    assert campaign.verify().sound
    assert campaign.status().condition == "finished"


def test_amendments(store):
    campaign = created(store)
    run_wave(campaign, 1, start=0, count=300)
    event = campaign.amend(
        reason="more budget", sizes=[150, 150, 90], add=["visit"], retire=["none"]
    )
    assert event.kind == "amend"
    table = run_wave(campaign, 2, start=300, count=150)[0]
    frame = pl.from_arrow(table)
    assert set(frame["action"]) <= {"mail", "call", "visit"}
    assert frame["p(none)"].unique().to_list() == [0.0]
    assert frame["p(visit)"].min() > 0
    campaign.assign(units(50, start=450))
    with refused("wave-open", match="50 units"):
        campaign.amend(reason="no", sizes=[10])
    campaign.record(outcomes(campaign.assign(units(150, start=450)).table))
    campaign.close()
    campaign.amend(reason="fewer", units=300 + 150 + 150 + 40)
    assert campaign.situation().sizes == (300, 150, 150, 40)
    run_wave(campaign, 4, start=600, count=40)
    assert campaign.status().condition == "finished"
    # An earlier unit's answer knows of the action that came later: its probability was 0.
    again = pl.from_arrow(campaign.assign(units(300)).table)
    assert again["p(visit)"].unique().to_list() == [0.0]
    assert campaign.verify().sound


@pytest.mark.parametrize(("change", "field", "received"), [
    ({"retire": ["gone"]}, "retire", "'gone'"),
    ({"retire": ["none", "mail"]}, "retire", "1 left"),
    ({"add": ["mail"]}, "add", "mail"),
    ({"floor": 0.5}, "floor", "0.5"),
    ({"units": 2}, "units", "2"),
    ({}, "amendment", "none"),
    ({"sizes": [0]}, "sizes", "0"),
])  # fmt: skip
def test_amendments_that_cannot_be(store, change, field, received):
    campaign = created(store)
    with refused("invalid-argument", field=field, received=received):
        campaign.amend(reason="try", **change)
    assert len(campaign.events()) == 1


def test_abort(store):
    campaign = created(store)
    table = campaign.assign(units(100)).table
    campaign.abort(reason="a complaint")
    with refused("aborted"):
        campaign.assign(units(100, start=100))
    with refused("aborted"):
        campaign.close(force=True, reason="x")
    assert campaign.assign(units(100)).repeated == 100
    assert campaign.record(outcomes(table)).accepted == 100
    assert campaign.status().condition == "aborted"
    assert campaign.verify().sound


def test_names(store):
    created(store)
    with refused("name-taken", field="name"):
        created(store)
    with refused("unknown-campaign"):
        Campaign.open("autumn", store=store)
    created(store, name="autumn")
    assert store.names() == ["spring", "autumn"]


def test_events_that_never_were(store, tmp_path):
    campaign = created(store)
    for at in (0, 2):
        with refused("invalid-argument", field="at_event"):
            campaign.status(at_event=at)
        with refused("invalid-argument", field="at_event"):
            campaign.export(tmp_path / "x.csv", at_event=at)
    assert not (tmp_path / "x.csv").exists()


def test_waves_that_never_were_cannot_be_closed(store):
    campaign = created(store)
    campaign.assign(units(300))
    campaign.close(force=True, reason="a try")
    for number in (0, -1, 3):
        with refused("not-open", match=f"wave {number} .* 2"):
            campaign.close(wave=number)


def test_a_share_of_outcomes_that_is_met_exactly(store):
    campaign = small(store, required_outcomes=0.55, grid={"sizes": [100, 100]})
    ids = campaign.assign(units(100)).table["id"].to_pylist()
    campaign.record(pl.DataFrame({"id": ids[:54], "y": [1.0] * 54}))
    with refused("too-few-outcomes", match=r"54 .*100 .*54\.0%.*55\.0%"):
        campaign.close()
    campaign.record(pl.DataFrame({"id": ids[54:55], "y": [1.0]}))
    assert sum(campaign.close().observed.values()) == 55


def test_late_outcomes_that_no_estimate_uses_are_not_said_to_be_used(store):
    """The second of three waves closes on part 2 of the evidence; there is no part 3."""
    campaign = created(store, policy={"kind": "BPE"})
    table = campaign.assign(units(300)).table
    rows = outcomes(table)
    campaign.record(rows[:280])
    campaign.close()
    campaign.record(rows[280:])
    with store.read("spring") as reader:
        chunk = next(iter(reader.unit_chunks(given=False)))
    used = int((Decided.of(unpack(chunk.decided)).groups[280:] == 1).sum())
    assert 0 < used < 20
    closed = run_wave(campaign, 2, start=300, count=200)[2]
    assert closed.late == used
    assert any(note.startswith(f"{20 - used} late outcomes") for note in closed.notes)
    assert campaign.verify().sound


def test_late_outcomes_of_retired_actions_are_not_said_to_be_used(store):
    campaign = created(store)
    rows = outcomes(campaign.assign(units(300)).table)
    campaign.record(rows[:280])
    campaign.close()
    campaign.amend(reason="too dear", retire=["mail"])
    table = campaign.assign(units(300)).table
    late = table["action"].to_pylist()[280:]
    campaign.record(rows[280:])
    assert run_wave(campaign, 2, start=300, count=200)[2].late == 20 - late.count("mail") < 20
