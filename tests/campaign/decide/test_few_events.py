"""Looks while there are few events: when they are made, and how often they err."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from benchmarks.few_events_campaign import (
    AMOUNTS,
    LOSSES,
    MIXED,
    PURCHASES,
    RULES,
    Setting,
    Waves,
    verdicts,
)

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.logged_waves import planned
from seqbatch.campaign.decide.stopping import (
    TOO_FEW,
    Compared,
    LookTaken,
    judge,
    look_text,
    looked_at,
)
from seqbatch.campaign.record.current_situation import SUCCESS
from seqbatch.inference import FewEvents, Lift, Rows, boundaries, pool, summarise
from seqbatch.inference.intervals import StudentShape, estimated, unknown
from seqbatch.inference.rare_events import planned_units
from seqbatch.storage import open_store
from tests.campaign.decide.test_stopping import looks_again, stored, trial
from tests.campaign.specs import about, profit
from tests.campaign.views.test_findings import people, run

PRICED = ["none", {"name": "mail", "cost": 0.15}]


def sales(number, *, size=1.0, usual=0.0):
    """Return outcomes with so many events, all of them after one action."""

    def value(frame, _):
        found = np.full(len(frame), usual)
        found[np.flatnonzero(frame["action"].to_numpy() == "none")[:number]] = size
        return found

    return value


@pytest.fixture
def local(tmp_path):
    made = open_store(tmp_path / "campaigns.db")
    yield made
    made.close()


def looks(campaign):
    return [LookTaken.of(look) for look in stored(campaign)]


def test_a_cost_alone_stops_nothing_while_events_are_few(store):
    campaign = trial(store, actions=PRICED, **profit("visit"), stopping={"rule": "pocock"})
    run(campaign, sizes=(120,), value=sales(4), missing=0)
    [look] = looks(campaign)
    assert (look.verdict, look.stops) == (TOO_FEW, False)
    [row] = look.actions
    # 60 effective units of each action, and 4 events from 120 outcomes.
    assert row.few == FewEvents(expected=pytest.approx(2.0), needed=5)
    missing = (row.statistic, row.boundary, row.futility, row.low, row.high, row.shown)
    assert missing == (None,) * 6
    assert "mail not judged, too few events: about 2 of the 5 that are needed" in look_text(look)
    assert campaign.next_step() != "report"
    # The first look that is made may spend all the error that is due by then.
    run(campaign, sizes=(120,), start=4_000, value=sales(36), missing=0)
    [row] = looks(campaign)[-1].actions
    assert row.few is None
    assert row.boundary == pytest.approx(boundaries([2 / 3], rule="pocock")[-1], abs=1e-9)
    assert row.statistic < 0
    assert stored(campaign) == looks_again(campaign, store)
    assert campaign.verify().sound


def test_futility_is_not_declared_of_too_few(store):
    declared = {"rule": "pocock", "futility": True}
    campaign = run(trial(store, stopping=declared), sizes=(120,), value=sales(9), missing=0)
    assert looks(campaign)[0].actions[0].futility is None
    run(campaign, sizes=(120,), start=4_000, value=sales(9), missing=0)
    assert looks(campaign)[1].actions[0].futility is not None


@pytest.mark.parametrize(
    ("value", "few"),
    [
        (sales(9), FewEvents(4.5, 5)),
        (sales(10), None),
        (sales(9, size=0.0, usual=1.0), FewEvents(4.5, 5)),
        (sales(10, size=0.0, usual=1.0), None),
        (sales(39, size=7.5), FewEvents(19.5, 20)),
        (sales(40, size=7.5), None),
        (sales(39, size=-1.0), FewEvents(19.5, 20)),
        (sales(40, size=-1.0), None),
        (lambda frame, random: random.normal(0, 1, len(frame)), None),
    ],
)
@pytest.mark.parametrize("direction", ["max", "min"])
def test_a_look_needs_5_yes_no_events_or_20_others(local, value, few, direction):
    campaign = trial(local, **about("visit", direction=direction))
    run(campaign, sizes=(120,), value=value, missing=0)
    [row] = looks(campaign)[0].actions
    assert row.few == few
    assert (row.statistic is None) == (few is not None)


def test_missing_outcomes_bring_no_events(local):
    campaign = trial(local)
    given = pl.from_arrow(campaign.assign(people(120, 0)).table)
    # Of 12 events in 120 units, 8 come back in 80.
    outcomes = given.select("customer").with_columns(visit=pl.arange(120) % 10 == 0)
    campaign.record(outcomes.with_columns(pl.col("visit").cast(float))[:80])
    campaign.close(force=True, reason="no more come")
    [row] = looks(campaign)[0].actions
    assert row.few == FewEvents(pytest.approx(60 * 80 / 120 * 8 / 80), 5)


def test_events_are_of_the_units_that_came(local):
    """A wave of half its planned size: 30 effective units of each action, and 15 events from 60."""
    campaign = run(trial(local), sizes=(60,), value=sales(15), missing=0)
    [row] = looks(campaign)[0].actions
    assert row.few is None
    fewer = run(trial(local, name="fewer"), sizes=(60,), value=sales(9), missing=0)
    assert looks(fewer)[0].actions[0].few == FewEvents(pytest.approx(4.5), 5)


def shown(action, statistic):
    made = estimated("lift", StudentShape(statistic, 1.0, 1e9), level=0.95)
    return Compared(action, made, {1: 0.3, 2: 0.6})


def too_few(action):
    few = FewEvents(4.0, 5)
    return Compared(action, unknown("lift", level=0.95, note="", few=few), {1: 0.3, 2: 0.6})


def test_an_action_that_cannot_be_judged_holds_back_no_other():
    now = Setting(costs=(0.0,) * 3).situation("pocock")
    look = judge(now, [too_few("a1"), shown("a2", 5.0)], ())
    first, second = look.actions
    assert (first.shown, second.shown, look.verdict) == (None, 1, SUCCESS)
    # It still counts among the actions that share the error.
    bound = boundaries([0.3], rule="pocock", alpha=0.025 / 2)[-1]
    assert second.boundary == pytest.approx(bound, abs=1e-9)
    look = judge(now, [too_few("a1"), shown("a2", -5.0)], ())
    assert look.verdict == TOO_FEW


def test_a_look_that_is_not_made_spends_nothing():
    now = Setting(costs=(0.0, 0.0)).situation("obrien-fleming")
    none = judge(now, [too_few("a1")], ())
    made = judge(now, [shown("a1", 1.0)], ())
    second = replace(now, wave=2)
    after = [judge(second, [shown("a1", 1.0)], (one,)).actions[0].boundary for one in (none, made)]
    alone = boundaries([0.6], rule="obrien-fleming")[-1]
    both = boundaries([0.3, 0.6], rule="obrien-fleming")[-1]
    assert after == pytest.approx([alone, both], abs=1e-9)


def test_looks_are_read_as_they_were_written():
    now = Setting(costs=(0.0,) * 3).situation("pocock")
    look = judge(now, [too_few("a1"), shown("a2", 1.0)], ())
    plain = json.loads(json.dumps(look.plain()))
    assert plain["actions"][0]["few"] == {"expected": 4.0, "needed": 5}
    assert "few" not in plain["actions"][1]
    assert LookTaken.of(plain) == look
    assert [look.judged(name) for name in ("a1", "a2")] == [False, True]


# ----------------------------------------------------------------------
# The study's campaigns are those of the library.

KINDS = [
    Setting(events=8, rate=0.06, costs=(0.0, 0.03, 0.05), growth=3, worth=MIXED),
    Setting(events=4, rate=0.06, costs=(0.0, 0.02), randomised=0.3, waves=4),
    Setting(events=15, rate=0.06, costs=(0.0, 0.02), worth=LOSSES),
    Setting(events=20, rate=0.06, costs=(0.0, 0.02), worth=AMOUNTS, direction="min"),
    Setting(events=7, rate=0.1, costs=(0.0, 0.0), worth=PURCHASES, randomised=0.2),
    Setting(events=120, rate=0.9, costs=(0.0, 0.05), randomised=0.4),
    Setting(events=2.5, rate=0.5, costs=(0.0, 0.0), waves=5),
]


def expanded(own, p, values):
    """Return a wave's units, from the number of each kind."""
    size, actions = int(own.sum()), np.repeat(np.arange(len(own)), own.sum(axis=1))
    outcomes = np.concatenate([np.repeat(values, row) for row in own])
    return Rows(np.ones((size, 1)), actions, np.tile(p, (size, 1)), outcomes)


@pytest.mark.parametrize("setting", KINDS)
def test_statistics_of_counts_are_those_of_units(setting):
    trials, random = 6, np.random.default_rng(5)
    waves, plan = Waves(setting, trials), planned(setting.situation())
    units = [[] for _ in range(trials)]
    for wave, size in enumerate(setting.sizes, start=1):
        before, p = waves.counts, waves.probabilities
        waves.draw(size, random)
        statistics = waves.statistics(plan.shares)
        effective = planned_units(plan.designs[:wave], Lift(1))
        few, equal = waves.few(effective), waves.all_equal
        for one in range(trials):
            own = waves.counts[one] - before[one]
            units[one].append(expanded(own, p[one], setting.values))
            contrasts = looked_at(len(setting.costs))
            found = summarise(units[one], contrasts=contrasts, charges=setting.charges.tolist())
            assert found[-1].evidence.all_equal == equal[one]
            for lift, statistic in zip(contrasts, statistics[one], strict=True):
                if not equal[one]:
                    made = pool(found, lift, plan.shares)
                    assert statistic == pytest.approx(made.statistic, rel=1e-9, abs=1e-9)
                    counted = pool(found, lift, plan.shares, planned=effective)
                    assert (counted.few is not None) == few[one]


@pytest.mark.parametrize("setting", [KINDS[0], KINDS[1], KINDS[5]])
def test_looks_at_counts_are_those_of_a_campaign(local, setting):
    """What the study of few events simulates is what happens."""
    now = setting.situation("pocock")
    campaign = Campaign.create(now.spec, store=local, who="ann")
    random, waves, plan = np.random.default_rng(3), Waves(setting, 1), planned(now)
    statistics, few = [], []
    for wave, size in enumerate(setting.sizes, start=1):
        units = pl.DataFrame({"customer": [f"{wave}-{number}" for number in range(size)]})
        given = pl.from_arrow(campaign.assign(units).table)
        counts = np.zeros((1, *setting.chances.shape), dtype=np.int64)
        actions = given["action"].str.tail(1).cast(int).to_numpy()
        kinds = [random.choice(len(setting.values), p=setting.chances[one]) for one in actions]
        np.add.at(counts, (0, actions, kinds), 1)
        waves.add(counts, waves.probabilities)
        statistics.append(setting.sign * waves.statistics(plan.shares)[0])
        few.append(bool(waves.few(planned_units(plan.designs[:wave], Lift(1)))[0]))
        outcomes = pl.Series("sale", setting.values[kinds])
        campaign.record(given.select("customer").with_columns(outcomes))
        campaign.close()
        if campaign.next_step() == "report" and wave < setting.waves:
            campaign.go_on(reason="the comparison")
    for look, expected, short in zip(looks(campaign), statistics, few, strict=True):
        assert [row.few is not None for row in look.actions] == [short] * len(look.actions)
        if not short:
            found = [row.statistic for row in look.actions]
            assert found == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)
    assert not all(few)


# ----------------------------------------------------------------------
# How often rules err.


def test_without_the_rule_of_events_looks_at_mixed_amounts_err():
    """Before the first large event nothing tells that there are any."""
    setting = Setting(worth=MIXED, rate=0.0, events=20, randomised=0.1)
    found = verdicts(setting, np.random.default_rng(8), trials=1_000)
    without, rule = found.errors().max(axis=0)
    assert without > 0.1
    assert rule < 0.03


@pytest.mark.parametrize(
    "setting",
    [
        Setting(events=12),
        Setting(costs=(0.0, 0.0), rate=0.5, events=2.5, waves=5),
        Setting(costs=(0.0, 0.0), rate=0.05, events=25, worth=AMOUNTS, direction="min"),
    ],
)
def test_rules_err_about_as_often_as_declared(setting):
    found = verdicts(setting, np.random.default_rng(9), trials=2_000)
    errors = found.errors()[:, 1]
    assert errors.shape == (len(RULES),)
    # Five standard errors of 0.005 above 0.05; the rule of events makes some fewer.
    assert (errors > 0.02).all()
    assert (errors < 0.075).all()
    assert found.stopped(-1)[:, 1] + found.stopped(1)[:, 1] == pytest.approx(errors)


def test_a_difference_is_found():
    setting = Setting(costs=(0.0, 0.0), rate=0.1, events=10)
    better, worse = (
        verdicts(replace(setting, pays=pays), np.random.default_rng(4), trials=500)
        for pays in (3.0, 0.0)
    )
    assert better.stopped(1)[:, 1].min() > 0.95
    assert worse.stopped(-1)[:, 1].min() > 0.95
    less = replace(setting, direction="min", pays=3.0)
    assert verdicts(less, np.random.default_rng(4), trials=500).stopped(-1)[:, 1].min() > 0.95
