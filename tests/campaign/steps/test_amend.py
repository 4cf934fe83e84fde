"""Amendments: the fixed action stays, a name is given once, and units are those there were."""

import numpy as np
import pyarrow as pa
import pytest

from seqbatch.campaign.steps.create import prepare
from seqbatch.campaign.views.history import what_was_done
from seqbatch.errors import (
    Remedy,
)
from seqbatch.inference import boundaries
from tests.campaign.decide.test_stopping import nothing, trial
from tests.campaign.instances import SMALL, shares, small, small_wave, units
from tests.campaign.specs import about
from tests.campaign.views.test_findings import run
from tests.refusals import refused


def test_a_fixed_action_stays_the_same_action(store):
    campaign = small(store, policy={"kind": "FixedAction", "action": 1})
    small_wave(campaign, 1)
    with refused("invalid-argument", field="retire", received="'b'"):
        campaign.amend(reason="no", retire=["b"])
    campaign.amend(reason="too dear", retire=["a"])
    assert shares(small_wave(campaign, 2)) == {"b": 1.0}
    assert campaign.verify().sound


def test_a_name_is_added_once(store):
    campaign = small(store)
    with refused("invalid-argument", field="add", received="z"):
        campaign.amend(reason="twice", add=["z", "z"])


def test_units_are_those_that_were_assigned(store):
    campaign = small(store)
    small_wave(campaign, 1, count=120)
    with refused("invalid-argument", field="units"):
        campaign.amend(reason="too few", units=121)
    campaign.amend(reason="1,000 in all", units=1_000)
    assert campaign.situation().sizes == (300, 440, 440)


def test_an_action_whose_column_is_the_units_is_refused(store):
    frame = units(300).rename({"id": "p(new)"})
    campaign = small(store, unit="p(new)", floor=0.02)
    campaign.assign(frame)
    campaign.close(force=True, reason="none came")
    with refused("invalid-argument", field="add"):
        campaign.amend(reason="an idea", add=["new"])
    campaign.amend(reason="an idea", add=["other"])
    assert campaign.verify().sound


def test_an_amendment_says_what_changed_from_what_to_what(store, tmp_path):
    campaign = small(store, floor=0.02)
    small_wave(campaign, 1)
    event = campaign.amend(reason="too dear", sizes=[400], retire=["b"], add=["d"], floor=0.05)
    assert event.payload["changes"] == [
        {"what": "sizes", "from": [300, 300, 300], "to": [300, 400]},
        {"what": "actions", "from": ["a", "b", "c"], "to": ["a", "c", "d"]},
        {"what": "floor", "from": 0.02, "to": 0.05},
    ]
    page = campaign.report(tmp_path / "report.html")
    said = "sizes from 300, 300, 300 to 300, 400; actions from a, b, c to a, c, d; floor from 0.02"
    assert said in page.read_text(encoding="utf-8")
    with refused("invalid-argument", field="amendment", received="the current settings"):
        campaign.amend(reason="the same", floor=0.05)


def test_the_control_is_retired_by_force_alone(store):
    campaign = small(store, control="a", randomised=0.1)
    with refused("invalid-argument", field="retire") as caught:
        campaign.amend(reason="too dear", retire=["a"])
    assert "these waves could not be compared with it" in str(caught.value)
    assert campaign.situation().sequence == 1
    campaign.amend(reason="too dear", retire=["a"], force=True)
    assert campaign.situation().active == (1, 2)
    # Once it is gone there is nothing left to protect.
    campaign.amend(reason="an idea", add=["d"], floor=0.05)


def test_the_floor_that_keeps_the_control_is_dropped_by_force_alone(store):
    campaign = small(store, control="a", floor=0.1)
    with refused("invalid-argument", field="floor", received="0.0"):
        campaign.amend(reason="no more", floor=0.0)
    campaign.amend(reason="no more", floor=0.0, force=True)


KEPT = [
    {"randomised": 0.1}, {"floor": 0.01}, {"policy": {"kind": "UniformRandom"}},
    {"policy": {"kind": "EpsilonGreedy"}}, {"policy": {"kind": "FixedAction", "action": 0}},
    {"grid": {"sizes": [300]}},
]  # fmt: skip
LOST = [
    {}, {"policy": {"kind": "ThompsonSampling"}},
    {"policy": {"kind": "EpsilonGreedy", "epsilon": 0}},
    {"policy": {"kind": "EpsilonGreedy", "last": "greedy"}},
    {"policy": {"kind": "FixedAction", "action": 1}},
]  # fmt: skip


@pytest.mark.parametrize("settings", KEPT)
def test_a_control_that_units_are_sure_to_get_is_accepted(settings):
    prepare({**SMALL, "control": "a", **settings})


@pytest.mark.parametrize("settings", LOST)
def test_a_control_that_nobody_may_get_is_refused(settings):
    with refused("invalid-spec", field="control") as caught:
        prepare({**SMALL, "control": "a", **settings})
    assert "Declare randomised" in str(caught.value)


@pytest.mark.parametrize("estimate", ["own", "pooled"])
def test_wave_levels_with_ucb_need_waves_of_several_actions(store, estimate):
    policy = {"kind": "SBUCB", "waves": "own level", "estimate": estimate}
    with refused("invalid-spec", field="policy.waves"):
        prepare({**SMALL, "policy": policy})
    prepare({**SMALL, "policy": policy, "randomised": 0.1})
    prepare({**SMALL, "policy": {**policy, "kind": "ThompsonSampling"}})
    campaign = small(store, policy=policy, floor=0.05)
    with refused("invalid-argument", field="floor", received="0.0"):
        campaign.amend(reason="no more", floor=0.0)
    for wave in (1, 2):
        small_wave(campaign, wave)
        assert campaign.verify().sound


def test_no_campaign_is_ended_by_sizes_of_no_wave(store):
    campaign = small(store)
    small_wave(campaign, 1)
    for more in ({}, {"units": 1_000}):
        with refused("invalid-argument", field="sizes", received="none"):
            campaign.amend(reason="?", sizes=[], **more)
    assert campaign.situation().condition == "open"


def test_a_finished_campaign_is_not_aborted(store):
    campaign = small(store, grid={"sizes": [300]})
    small_wave(campaign, 1)
    with refused("finished"):
        campaign.abort(reason="late")


def test_a_format_is_amended_within_a_wave(store, tmp_path):
    campaign = small(store, **about("y", metrics={"calls": {"range": [0, 10_000]}}))
    ids = campaign.assign(units(300)).table["id"].to_pylist()
    rows = "".join(f"{unit};12,50 EUR;1.250\n" for unit in ids)
    path = tmp_path / "outcomes.csv"
    path.write_text(f"id;y;calls\n{rows}", encoding="utf-8")
    with refused("invalid-rows", row=2, column="calls", problem="ambiguous-number") as caught:
        campaign.record(path)
    assert caught.value.field == "calls"
    assert caught.value.remedies == tuple(
        Remedy("amend", metrics={"calls": {"format": each}}, reason=...)
        for each in ("1234.56", "1.234,56")
    )
    campaign.amend(reason="thousands have dots", metrics={"calls": {"format": "1.234,56"}})
    held = campaign.record(path)
    assert held.quarantined == 300
    [doubt] = held.doubts
    assert (doubt.kind, doubt.column) == ("other-format", "y")
    euros = {"y": {"format": "1.234,56 EUR"}}
    assert Remedy("amend", metrics=euros, reason=...) in doubt.parts
    event = campaign.amend(reason="as the shop writes", metrics=euros)
    assert event.payload["metrics"] == {"y": {"format": {"from": None, "to": "1.234,56 EUR"}}}
    assert campaign.record(path).accepted == 300
    assert {row.mean for row in campaign.status().actions} == {12.5}
    campaign.close()
    assert campaign.verify().sound
    campaign.amend(reason="plain again", metrics={"y": {"format": "1234.56"}}, floor=0.05)
    assert campaign.verify().sound


@pytest.mark.parametrize(
    ("cells", "advised"),
    [
        (["12,50", "-3,25", "$7.00"], True),
        (["12,50", "$3.25", "$7.00"], False),
        (["12,50", "3,25", "($7.00)"], True),
    ],
)
def test_a_file_spelled_otherwise_than_declared_is_told_the_amendment(store, cells, advised):
    campaign = small(store, **about("y", format="$1,234.56"))
    ids = campaign.assign(units(300)).table["id"].to_pylist()
    doubts = campaign.record(pa.table({"id": ids, "y": cells * 100})).doubts
    # A few are slips, and the rest of the file could not be read by their format.
    assert [each.examples for each in doubts] == [("1.234,56",)] * advised


def test_negative_outcomes_in_brackets_are_told_the_amendment(store):
    campaign = small(store, **about("y", format="$1,234.56"))
    ids = campaign.assign(units(300)).table["id"].to_pylist()
    cells = ["$1,250.00", "($25.50)", "12 EUR"] * 100
    held = campaign.record(pa.table({"id": ids, "y": cells}))
    assert (held.accepted, held.quarantined) == (100, 200)
    assert held.advice == (
        "A part of y can be read after amend(metrics={'y': {'format': '($1,234.56)'}}, "
        "reason=...); then record it again.",
    )
    campaign.amend(reason="the shop's refunds", metrics={"y": {"format": "($1,234.56)"}})
    assert campaign.record(pa.table({"id": ids, "y": cells})).accepted == 100


@pytest.mark.parametrize(("metrics", "field"), [
    ({"y": {"format": "1.234"}}, "metrics.y.format"),
    ({"y": {"format": "1.234,56"}}, "metrics.y.format"),
    ({"y": {"rows": "any"}}, "metrics.y.rows"),
    ({"y": {"after": "3 days"}}, "metrics.y.after"),
    ({"y": {"within": "3 days"}}, "metrics.y.within"),
    ({"y": {"column": "age"}}, "metrics.y.column"),
    ({"y": {"absent": -1}}, "metrics.y.absent"),
    ({"y": {"range": [0, 1]}}, "metrics.y"),
    ({"y": {"kind": "yes/no"}}, "metrics.y"),
    ({"y": {}}, "amendment"),
    ({"y": 3}, "metrics.y"),
    ({"calls": {"format": "1.234,56"}}, "metrics"),
])  # fmt: skip
def test_settings_of_metrics_that_cannot_be_amended(store, metrics, field):
    campaign = small(store, **about("y", format="1.234,56", range=[0, 90]))
    with refused("invalid-argument", field=field):
        campaign.amend(reason="?", metrics=metrics)
    assert len(campaign.events()) == 1


def test_how_a_metric_is_read_is_amended_within_a_wave(store):
    campaign = small(store)
    ids = campaign.assign(units(300)).table["id"].to_pylist()
    event = campaign.amend(reason="renamed", metrics={"y": {"column": "amount", "absent": 0}})
    assert event.payload["changes"] == [
        {"what": "column of y", "from": "y", "to": "amount"},
        {"what": "absent of y", "from": None, "to": 0.0},
    ]
    campaign.record(pa.table({"id": ids[:200], "amount": [1.0] * 200}))
    closed = campaign.close()
    assert (sum(closed.observed.values()), sum(closed.absent.values())) == (200, 100)
    assert campaign.verify().sound


def crossed(bounds, times, campaigns=300_000):
    """Return the share of paths without any effect that cross a bound, on either side."""
    steps = np.sqrt(np.diff(times, prepend=0)) * np.random.default_rng(2).standard_normal(
        (campaigns, len(times))
    )
    return (np.abs(steps.cumsum(axis=1)) / np.sqrt(times) >= bounds).any(axis=1).mean()


def test_an_amendment_after_a_look_says_what_it_does_to_the_error(store, tmp_path):
    campaign = trial(store, stopping={"rule": "pocock-spending"}, floor=0.1)
    run(campaign, sizes=(120,), value=nothing)
    event = campaign.amend(reason="an idea", add=["call"], sizes=[150, 150])
    told = event.payload["error"]
    assert (told["declared"], told["changed"]) == (0.05, ["sizes", "add"])
    assert told["used"] == pytest.approx(crossed([2.279], [1 / 3]), abs=1e-3)
    # Simulated: the action so far, whose first look had the whole error, and the new one.
    times, later = [1 / 3, 2 / 3, 1.0], [0.5, 1.0]
    shared = boundaries(times, rule="pocock-spending", alpha=0.0125)
    first = boundaries(times, rule="pocock-spending")[0]
    either = crossed([first, *shared[1:]], times)
    either += crossed(boundaries(later, rule="pocock-spending", alpha=0.0125), later)
    assert 0.055 < either < told["at_most"] + 0.001 < 0.065
    said = what_was_done(event)
    assert "the looks so far have used at most 2.26% of the error of 5%" in said
    assert "at most 6.13%" in said
    page = campaign.report(tmp_path / "report.md", appendix=True)
    assert "at most 6.13%" in page.read_text(encoding="utf-8")
    run(campaign, sizes=(150,), start=5_000, value=nothing)
    assert campaign.verify().sound


def test_an_amendment_without_a_look_says_nothing_of_the_error(store):
    campaign = trial(store)
    assert "error" not in campaign.amend(reason="fewer", sizes=[100, 100, 100]).payload
    run(campaign, sizes=(100,), value=nothing)
    assert "error" not in campaign.amend(reason="a floor", floor=0.1).payload
    assert "error" in campaign.amend(reason="fewer", sizes=[90, 90]).payload
