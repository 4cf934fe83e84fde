"""Declared stopping: boundaries by hand, verdicts, going on with a reason, and the replay."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.logged_waves import Logged
from seqbatch.campaign.decide.stopping import LEAST_GAIN, look_tail, places_of_looks
from seqbatch.campaign.record.codec import pack_state, unpack_kept, unpack_state
from seqbatch.campaign.record.current_situation import situation
from seqbatch.campaign.views.findings_text import details
from seqbatch.inference import boundaries
from seqbatch.storage import open_store
from tests.campaign.record.test_events import changed
from tests.campaign.specs import about, profit
from tests.campaign.views.test_findings import people, run
from tests.refusals import refused

SPEC = {
    "draws": "blake2",
    "name": "trial", "seed": 2, "unit": "customer", "actions": ["none", "mail"], "control": "none",
    "policy": {"kind": "UniformRandom"}, **about("visit"), "required_outcomes": 0.5,
    "features": {"boolean": {"member": False}}, "grid": {"sizes": [120, 120, 120]},
    "stopping": {"rule": "obrien-fleming"},
}  # fmt: skip
#: Lan and DeMets' boundaries of three equal looks, one-sided 0.025.
PUBLISHED = {"obrien-fleming": (3.710, 2.511, 1.993), "pocock": (2.279, 2.295, 2.296)}


def trial(store, **changes):
    return Campaign.create({**SPEC, **changes}, store=store, who="ann")


def nothing(frame, random):
    return random.normal(0, 1, len(frame))


def effect(size):
    def value(frame, random):
        return random.normal(0, 1, len(frame)) + size * (frame["action"] == "mail").to_numpy()

    return value


@pytest.mark.parametrize("rule", PUBLISHED)
def test_boundaries_are_those_published(store, rule):
    campaign = trial(store, stopping={"rule": rule})
    for wave, boundary in enumerate(PUBLISHED[rule], start=1):
        run(campaign, sizes=(120,), start=1_000 * wave, value=nothing)
        look = campaign.findings().stopping.looks[-1]
        assert look.wave == wave
        assert look.actions[0].information == pytest.approx(wave / 3)
        assert look.actions[0].boundary == pytest.approx(boundary, abs=5e-4)
        assert look.verdict == ("go on" if wave < 3 else "planned end, nothing shown")
    assert campaign.verify().sound


#: Jennison and Turnbull (2000), tables 2.1 and 2.3, at three equal looks.
CLASSICAL = {
    "pocock-classical": (2.289, 2.289, 2.289), "obrien-fleming-classical": (3.471, 2.454, 2.004),
}  # fmt: skip


@pytest.mark.parametrize("rule", CLASSICAL)
def test_classical_boundaries_are_those_published(store, rule, tmp_path):
    campaign = trial(store, stopping={"rule": rule})
    said = campaign.protocol(tmp_path / "protocol.md").read_text(encoding="utf-8")
    assert f"the rule {rule} is applied" in said
    run(campaign, sizes=(120, 120, 120), value=nothing)
    looks = [look["actions"][0] for look in stored(campaign)]
    assert [look["boundary"] for look in looks] == pytest.approx(CLASSICAL[rule], abs=6e-4)
    assert [len(look["ahead"]) for look in looks] == [2, 1, 0]
    assert campaign.verify().sound


def test_a_classical_boundary_shares_what_is_left_among_new_looks(store):
    campaign = trial(store, stopping={"rule": "pocock-classical"})
    run(campaign, sizes=(120,), value=nothing)
    campaign.amend(sizes=[60, 60, 60, 60], reason="smaller waves")
    run(campaign, sizes=(60, 60, 60, 60), start=5_000, value=nothing)
    rows = [look["actions"][0] for look in stored(campaign)]
    times, bounds = ([row[name] for row in rows] for name in ("information", "boundary"))
    assert bounds[0] == pytest.approx(2.289, abs=6e-4)
    assert bounds[1] > bounds[0] + 0.05
    assert bounds[1:] == pytest.approx([bounds[1]] * 4)
    paths = np.cumsum(np.random.default_rng(4).standard_normal((400_000, 5))
                      * np.sqrt(np.diff([0, *times])), axis=1) / np.sqrt(times)  # fmt: skip
    assert (paths >= bounds).any(axis=1).mean() == pytest.approx(0.025, abs=8e-4)
    assert campaign.verify().sound


def test_the_statistic_is_that_of_the_pooled_lift(store):
    campaign = run(trial(store), sizes=(120, 120), value=nothing)
    found = campaign.findings()
    lift, look = found.lifts[0].interval, found.stopping.looks[-1].actions[0]
    # With so many units Student's t is next to normal.
    assert look.statistic == pytest.approx(lift.estimate / lift.error, rel=0.02)
    half = (look.high - look.low) / 2
    assert half == pytest.approx(look.boundary * lift.error, rel=0.03)
    assert (look.high + look.low) / 2 == pytest.approx(lift.estimate, rel=1e-9)


def test_success_stops_the_next_wave_unless_a_reason_is_given(store):
    campaign = run(trial(store), sizes=(120,), value=effect(2.0))
    event = campaign.events()[-1]
    assert event.payload["stopping"]["verdict"] == "stop for success"
    assert campaign.next_step() == "report"
    with refused("stopped", match="wave 1"):
        campaign.assign(people(120, 5_000))
    # Units that have an action get the same answer again.
    assert campaign.assign(people(120, 0)).repeated == 120
    with refused("invalid-argument", field="reason"):
        campaign.go_on(reason=" ")
    gone = campaign.go_on(reason="the guardrail needs more data")
    assert (gone.kind, gone.payload["against"]) == ("continue", "stop for success")
    run(campaign, sizes=(120,), start=5_000, value=effect(2.0))
    found = campaign.findings()
    assert found.stopping.gone_on == {1: "the guardrail needs more data"}
    assert found.stopping.looks[-1].actions[0].shown == 1
    assert campaign.verify().sound
    assert "stop for success after wave 2" in dict(found.decision.facts)["Stopping rule"]


def test_nothing_to_go_on_against(store):
    campaign = run(trial(store), sizes=(120,), value=nothing)
    with refused("not-stopped"):
        campaign.go_on(reason="why not")
    with refused("not-stopped"):
        campaign.stop(reason="why not")


def test_a_campaign_stopped_by_its_rule_is_not_aborted(store, tmp_path):
    campaign = run(trial(store), sizes=(120,), value=effect(2.0))
    assert campaign.status().condition == campaign.findings().condition == "stopped"
    assert campaign.status(at_event=3).condition == "open"
    assert "stopped by its rule; " in repr(campaign)
    assert str(campaign.status().document().first).count("stopped by its rule") > 1
    with refused("stopped"):
        campaign.abort(reason="it is over")
    with refused("stopped"):
        campaign.assign(people(120, 5_000))
    event = campaign.stop(reason="as declared")
    assert (event.kind, event.payload) == ("stop", {"wave": 1, "verdict": "stop for success"})
    for again in (campaign.stop, campaign.go_on, campaign.abort):
        with refused("stopped"):
            again(reason="once more")
    with refused("stopped"):
        campaign.amend(sizes=[100], reason="more")
    assert campaign.status().condition == "stopped"
    page = campaign.report(tmp_path / "report.md", appendix=True).read_text()
    assert "stopped by its rule" in page
    assert "as declared" in page
    assert "aborted" not in page
    assert campaign.verify().sound


def test_harm_and_futility(store):
    declared = {"rule": "pocock", "futility": True}
    bad = run(trial(store, name="bad", stopping=declared), sizes=(120,), value=effect(-2.0))
    look = bad.findings().stopping.looks[-1]
    assert look.verdict == "stop for harm"
    assert look.actions[0].statistic < -look.actions[0].boundary
    dull = run(trial(store, name="dull", stopping=declared), sizes=(120,), value=effect(-0.25))
    look = dull.findings().stopping.looks[-1]
    assert look.verdict == "stop for futility"
    assert -look.actions[0].boundary < look.actions[0].statistic < look.actions[0].futility


def test_less_is_better_turns_the_statistic_around(store):
    campaign = trial(store, **about("visit", direction="min"))
    run(campaign, sizes=(120,), value=effect(-2.0))
    look = campaign.findings().stopping.looks[-1]
    assert look.verdict == "stop for success"
    assert look.actions[0].statistic > 0 > look.actions[0].high


@pytest.mark.parametrize(("size", "verdict"), [(1e9, "success"), (-1e9, "harm")])
def test_an_effect_beyond_every_tail_has_a_finite_statistic(store, size, verdict):
    campaign = run(trial(store), sizes=(120,), value=effect(size))
    look = campaign.findings().stopping.looks[-1]
    assert look.verdict == f"stop for {verdict}"
    assert 38 < abs(look.actions[0].statistic) < 39
    assert campaign.verify().sound


def test_several_actions_share_the_error(store):
    actions = ["none", "mail", "call", "late"]
    campaign = run(trial(store, actions=actions), sizes=(120,), value=nothing)
    one = run(trial(store, name="one"), sizes=(120,), value=nothing)
    several, alone = (c.findings().stopping.looks[-1].actions for c in (campaign, one))
    assert len(several) == 3
    assert {row.boundary for row in several} == {several[0].boundary}
    # A third of the error each: the boundary of three times as many looks' caution.
    assert several[0].boundary > alone[0].boundary


def test_equal_outcomes_spend_nothing(store):
    campaign = run(trial(store), sizes=(120,), value=lambda frame, _: np.zeros(len(frame)))
    assert campaign.events()[-1].payload["stopping"] is None
    run(campaign, sizes=(120,), start=4_000, value=nothing)
    look = campaign.findings().stopping.looks[-1].actions[0]
    # The first look at two thirds of the information may spend all that is due by then.
    assert look.information == pytest.approx(2 / 3)
    assert look.boundary == pytest.approx(2.509, abs=2e-3)


@pytest.mark.parametrize("rule", ["pocock", "obrien-fleming"])
def test_a_wave_with_next_to_no_information_is_merged_with_the_next_look(store, rule, tmp_path):
    """One unit between two large waves: there is no second look, and nothing is spent on it."""
    declared, sizes = {"rule": rule, "futility": True}, {"sizes": [200_000, 1, 200_000]}
    campaign = trial(store, stopping=declared, grid=sizes)
    said = campaign.protocol(tmp_path / "protocol.md").read_text(encoding="utf-8")
    assert "Too small for a separate look" in said
    for wave, units in enumerate((120, 1, 120)):
        run(campaign, sizes=(units,), start=1_000 * wave, value=nothing, missing=0)
        if wave == 1:
            assert "it is merged with the next look" in " ".join(details(campaign.findings()))
    first, second, third = campaign.findings().stopping.looks
    assert (second.merged, second.actions, second.verdict) == (("mail",), (), "go on")
    assert stored(campaign)[1]["merged"] == ["mail"]
    assert "merged" not in stored(campaign)[0]
    bounds = [look.actions[0].boundary for look in (first, third)]
    times = [look.actions[0].information for look in (first, third)]
    assert bounds == pytest.approx(boundaries(times, rule=rule), abs=1e-9)
    assert campaign.verify().sound


def test_a_last_wave_with_next_to_no_information_is_merged_with_the_look_before(store):
    campaign = trial(store, grid={"sizes": [200_000, 1]})
    run(campaign, sizes=(120, 1), value=effect(-0.25), missing=0)
    assert stored(campaign)[1]["verdict"] == "planned end, nothing shown"
    assert "it is merged with the previous look" in " ".join(details(campaign.findings()))


def test_intervals_by_size_share_the_error_of_all_looks():
    """A fifth for all looks before the last planned one, in equal parts, and the rest for that."""
    plan = [SimpleNamespace(waves=5)] * 5
    tails = [look_tail(plan[:seen], 0.025) for seen in range(1, 6)]
    assert tails == pytest.approx([0.2 * 0.025 / 4] * 4 + [0.8 * 0.025])
    assert sum(tails) == pytest.approx(0.025)
    assert look_tail([SimpleNamespace(waves=1)], 0.025) == pytest.approx(0.8 * 0.025)


@pytest.mark.parametrize("planned", [(4, 3, 3, 3), (3, 5, 5, 5, 5), (2, 2, 2), (3, 3, 2, 4, 4)])
def test_the_error_of_all_looks_is_kept_if_the_plan_changes(planned):
    plan = [SimpleNamespace(waves=waves) for waves in planned]
    tails = [look_tail(plan[:seen], 0.025) for seen in range(1, len(plan) + 1)]
    early = [tail for tail, wave in zip(tails, plan, strict=True) if tail < 0.8 * 0.025]
    assert all(tail >= 0 for tail in tails)
    assert sum(early) <= 0.2 * 0.025 + 1e-12


def test_small_waves_get_a_look_once_they_add_up():
    assert places_of_looks([0.5, 0.50004, 0.50009, 0.50011, 0.9, 1.0]) == [0, 3, 4, 5]
    assert places_of_looks([0.50004, 0.6, 1.0], after=0.5) == [1, 2]
    assert LEAST_GAIN == 1e-4


def test_outcomes_that_differ_by_what_actions_cost_alone_are_equal(store):
    priced = ["none", {"name": "mail", "cost": 0.1}]
    campaign = trial(store, actions=priced, **profit("visit"))
    run(campaign, sizes=(120,), value=lambda frame, _: np.full(len(frame), 0.3))
    assert campaign.events()[-1].payload["stopping"] is None
    assert str(campaign.findings()).startswith("All outcomes so far are equal")
    assert campaign.verify().sound


def test_looks_without_a_rule_are_said_to_err(store):
    campaign = trial(store, stopping={"rule": "none"})
    said = []
    for wave in range(3):
        run(campaign, sizes=(120,), start=1_000 * wave, value=nothing, missing=0)
        said.append(campaign.events()[-1].payload["inflated"])
    # Armitage, McPherson and Rowe (1969), table 2: 0.083 at two looks, 0.107 at three.
    assert said == [None, pytest.approx(0.083, abs=5e-4), pytest.approx(0.107, abs=5e-4)]
    assert "10.7%" in " ".join(details(campaign.findings()))


def test_after_very_many_waves_no_more_looks_are_counted(store, monkeypatch):
    """Each look takes an integral: a close would take the longer the more waves there were."""
    from seqbatch.campaign.decide import stopping

    counted = []
    monkeypatch.setattr(
        stopping, "error_of_looks", lambda times, bound: counted.append(len(times)) or bound
    )
    campaign = trial(store, stopping={"rule": "none"}, grid={"sizes": [60] * 40})
    now = campaign.situation()
    for waves in (2, 12, 13, 40):
        stopping.inflated(now, waves=waves)
    assert counted == [2, 12, 12, 12]
    assert "in at least 30.0% of" in stopping.inflation_text(0.3)


def test_a_changed_verdict_is_found(tmp_path):
    path = tmp_path / "campaigns.db"
    store = open_store(path)
    run(trial(store), sizes=(120,), value=nothing)
    store.close()
    told = 'replace(payload, \'"verdict":"go on"\', \'"verdict":"stop"\')'
    changed(path, f"UPDATE events SET payload = {told}")
    found = Campaign.open("trial", store=open_store(path)).verify()
    assert any(finding.place == "stopping" for finding in found.findings)


def test_futility_needs_a_rule(store):
    with refused("invalid-spec", field="stopping.futility"):
        trial(store, stopping={"futility": True})
    with refused("invalid-spec", field="stopping.rule"):
        trial(store, stopping={"rule": "haybittle"})
    with refused("invalid-spec", field="stopping.alpha"):
        trial(store, stopping={"rule": "pocock", "alpha": 0})


def test_late_outcomes_do_not_change_a_look_that_was_taken(store):
    campaign = run(trial(store), sizes=(120,), value=nothing)
    before = campaign.findings().stopping.looks[0]
    late = pl.DataFrame({"customer": [f"c{n}" for n in range(120)], "visit": [9.0] * 120})
    campaign.record(late, correct=True, reason="a new count")
    assert campaign.findings().stopping.looks[0] == before
    assert campaign.verify().sound


def without_sums(record, now):
    """Return a state as if no look had kept anything beside it."""
    return replace(record, content=pack_state(unpack_state(record.content, now)))


def of_an_older_version(record, now):
    """Return a state with sums that have other names."""
    sums = unpack_kept(record.content)
    if sums is None:
        return record
    older = {name: array for name, array in sums.items() if name != "cubes"}
    state = unpack_state(record.content, now)
    return replace(record, content=pack_state(state, {**older, "squared": sums["squares"]}))


def looks_again(campaign, store, state=without_sums):
    """Take every look again from all rows, as if no look had kept anything."""
    from seqbatch.campaign.decide.stopping import look

    events, made = campaign.events(), []
    with store.read("trial") as reader:
        for number, event in enumerate(events):
            if event.kind == "close":
                now, after = situation(events[:number]), situation(events[: number + 1])
                learner = replace(now, learned=after.learned, skipped=after.skipped)
                record = state(reader.last_state(before_event=event.sequence), now)
                made.append(look(reader, learner, events[:number], record)[0])
    return [None if one is None else one.plain() for one in made]


def stored(campaign):
    return [e.payload["stopping"] for e in campaign.events() if e.kind == "close"]


@pytest.fixture
def waves_read(monkeypatch):
    """The waves whose units were gone through for looks, in their order."""
    read, made = [], Logged._made

    def counted(self, chunk):
        read.append(chunk.wave)
        return made(self, chunk)

    monkeypatch.setattr(Logged, "_made", counted)
    return read


ACTIONS = {"actions": ["none", "mail", "call"], "policy": {"kind": "SBPE"}, "randomised": 0.4}


def test_a_close_goes_through_its_own_wave_only(store, waves_read):
    campaign = trial(store, **ACTIONS)
    for wave in (1, 2, 3):
        waves_read.clear()
        run(campaign, sizes=(120,), start=1_000 * wave, value=effect(0.1), missing=0.2)
        assert set(waves_read) == {wave}
    waves_read.clear()
    # So does a verification, by the sums of the look before, which it has checked.
    assert campaign.verify().sound
    assert waves_read == [1, 2, 3]
    assert stored(campaign) == looks_again(campaign, store)


PRICED = ["none", {"name": "mail", "cost": 0.1}, "call"]


def yes_no(rate):
    def value(frame, random):
        return (random.random(len(frame)) < rate).astype(float)

    return value


def amounts(frame, random):
    return np.where(random.random(len(frame)) < 0.45, random.lognormal(0, 1, len(frame)), 0.0)


@pytest.mark.parametrize(
    ("changes", "value", "missing"),
    [
        ({"actions": PRICED, **profit("visit", direction="min")}, nothing, 0.2),
        ({"actions": PRICED, **profit("visit")}, yes_no(0.2), 0.0),
        (about("visit", direction="min"), yes_no(0.9), 0.2),
        (
            {"actions": [{"name": "none", "cost": 0.2}, "mail", "call"], **profit("visit")},
            amounts,
            0.0,
        ),
    ],
)
def test_looks_from_kept_sums_are_those_from_all_rows(store, changes, value, missing):
    """Whether outcomes are missing, cost something, are the fewer the better, or are mostly 1."""
    campaign = trial(store, **{**ACTIONS, "stopping": {"rule": "pocock"}, **changes})
    for wave in range(3):
        run(campaign, sizes=(120,), start=1_000 * wave, value=value, missing=missing)
        if campaign.next_step() == "report" and wave < 2:
            campaign.go_on(reason="the comparison")
    looks = stored(campaign)
    assert all(row["statistic"] is not None for row in looks[-1]["actions"])
    assert looks == looks_again(campaign, store)
    assert looks == looks_again(campaign, store, of_an_older_version)
    assert campaign.verify().sound


def test_sums_of_an_older_version_are_not_used(store, waves_read):
    campaign = run(trial(store, **ACTIONS), sizes=(120, 120), value=nothing)
    waves_read.clear()
    assert looks_again(campaign, store, of_an_older_version) == stored(campaign)
    assert waves_read == [1, 1, 2]


def test_a_cost_is_a_difference_to_be_exceeded(tmp_path):
    """It moves the interval by exactly so much, and adds no uncertainty."""
    looks = []
    for name, cost in (("free", 0.0), ("priced", 0.05)):
        actions, store = ["none", {"name": "mail", "cost": cost}], open_store(tmp_path / name)
        campaign = trial(store, actions=actions, **profit("visit"), stopping={"rule": "pocock"})
        run(campaign, sizes=(120, 120), value=yes_no(0.2), missing=0)
        looks.append(campaign.findings().stopping.looks[-1].actions[0])
    free, priced = looks
    assert priced.low == pytest.approx(free.low - 0.05, abs=1e-12)
    assert priced.high == pytest.approx(free.high - 0.05, abs=1e-12)
    assert priced.boundary == free.boundary
    assert priced.statistic < free.statistic


@pytest.mark.parametrize(("direction", "sign"), [("max", 1), ("min", -1)])
def test_a_cost_counts_against_an_action_whichever_way_is_better(store, direction, sign):
    actions = ["none", {"name": "mail", "cost": 5.0}]
    campaign = trial(store, actions=actions, **profit("visit", direction=direction))
    run(campaign, sizes=(120,), value=nothing, missing=0)
    [row] = campaign.findings().stopping.looks[-1].actions
    assert row.statistic < -row.boundary
    assert sign * (row.low + row.high) / 2 == pytest.approx(-5, abs=0.5)


def test_outcomes_that_came_late_have_all_waves_gone_through_again(store, waves_read):
    campaign = run(trial(store, **ACTIONS), sizes=(120,), value=nothing, missing=0.2)
    late = pl.DataFrame({"customer": [f"c{n}" for n in range(120)], "visit": [1.5] * 120})
    campaign.record(late, correct=True, reason="a new count")
    waves_read.clear()
    run(campaign, sizes=(120,), start=1_000, value=nothing)
    assert set(waves_read) == {1, 2}
    waves_read.clear()
    run(campaign, sizes=(120,), start=2_000, value=nothing)
    assert set(waves_read) == {3}
    assert campaign.verify().sound
    assert stored(campaign) == looks_again(campaign, store)


def test_sums_survive_a_skipped_wave_and_an_amendment_does_away_with_them(store, waves_read):
    campaign = trial(store, **ACTIONS, grid={"sizes": [120] * 4})
    run(campaign, sizes=(120,), value=nothing)
    campaign.assign(people(120, 1_000))
    campaign.close(force=True, skip=True, reason="a broken form")
    waves_read.clear()
    run(campaign, sizes=(120,), start=2_000, value=nothing)
    assert set(waves_read) == {3}
    campaign.amend(add=["late"], reason="a new idea")
    waves_read.clear()
    run(campaign, sizes=(120,), start=3_000, value=nothing)
    assert set(waves_read) == {1, 3, 4}
    assert campaign.verify().sound
    assert stored(campaign)[1] is None
    assert stored(campaign) == looks_again(campaign, store)


def test_sums_that_were_changed_are_found(store):
    from seqbatch.campaign.views.verify_checks import wrong_look

    campaign = run(trial(store, **ACTIONS), sizes=(120, 120), value=nothing)
    events = campaign.events()
    with store.read("trial") as reader:
        first, second = list(reader.states())[1:]
        close = events[second.event - 1]
        now = situation(events[: second.event - 1])
        before = events[: second.event - 1]
        assert wrong_look(reader, now, before, close, (first, second)) is None
        sums = unpack_kept(second.content)
        for name in sums:
            other = {**sums, name: sums[name] + 1}
            state = unpack_state(second.content, now)
            changed = replace(second, content=pack_state(state, other))
            said = wrong_look(reader, now, before, close, (first, changed))
            assert "sums stored for the next look differ" in said, name
        bare = without_sums(second, now)
        said = wrong_look(reader, now, before, close, (first, bare))
        assert "sums stored for the next look differ" in said


def test_damaged_sums_are_refused_before_anything_is_computed(store):
    from seqbatch.campaign.decide.stopping import KeptSums

    campaign = run(trial(store, **ACTIONS), sizes=(120,), value=nothing)
    now = campaign.situation()
    with store.read("trial") as reader:
        sums = unpack_kept(reader.last_state().content)
    charges = np.zeros(3)
    again = KeptSums.of(sums, now, charges).arrays
    assert again.keys() == sums.keys()
    assert all(np.array_equal(again[name], sums[name]) for name in sums)
    for name in sums:
        shorter = {**sums, name: sums[name][..., :-1]}
        other = {**sums, name: sums[name].astype(np.float32)}
        for damaged in (shorter, other):
            with refused("damaged"):
                KeptSums.of(damaged, now, charges)
    with refused("damaged"):
        KeptSums.of({**sums, "places": sums["places"] + 100}, now, charges)


def test_where_units_share_clusters_all_waves_are_gone_through(store, waves_read):
    campaign = trial(store, unit=["customer", "week"], cluster="customer", features={})
    for wave in (1, 2):
        waves_read.clear()
        keys = {"customer": [f"c{n % 40}" for n in range(120)]}
        frame = pl.DataFrame({**keys, "week": [f"w{wave}{n}" for n in range(120)]})
        campaign.assign(frame)
        random = np.random.default_rng(wave)
        campaign.record(frame.with_columns(visit=pl.Series(random.normal(size=120))))
        campaign.close()
        assert set(waves_read) == set(range(1, wave + 1))
    assert campaign.verify().sound
