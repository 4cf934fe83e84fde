"""Looks at actions that cost something, while hardly an event has come."""

import numpy as np
import polars as pl
import pytest
from benchmarks.few_events_campaign import MIXED, Path, Setting, Waves, compare, guarded, stops

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide import stopping
from seqbatch.campaign.decide.logged_waves import few_events, few_events_of_one
from seqbatch.campaign.record.current_situation import situation
from seqbatch.campaign.spec.spec import Action
from seqbatch.campaign.views.verify_checks import alike
from seqbatch.inference import Rows
from seqbatch.inference.summary import gathered
from tests.campaign.decide.test_stopping import looks_again, stored, trial
from tests.campaign.views.test_findings import run

PRICED = ["none", {"name": "mail", "cost": 0.15}]


def one_sale(frame, _):
    """Return a single sale, to somebody who got nothing."""
    sold = np.zeros(len(frame))
    sold[frame["action"].to_list().index("none")] = 1.0
    return sold


def coin(frame, random):
    return (random.random(len(frame)) < 0.5).astype(float)


def normal(frame, random):
    return random.normal(0, 1, len(frame))


def test_a_cost_alone_stops_nothing_until_it_should_have_been_earned(store, tmp_path):
    campaign = run(trial(store, actions=PRICED), sizes=(120,), value=one_sale, missing=0)
    expected = int(0.15 * campaign.events()[-1].payload["assigned"]["mail"])
    found = campaign.findings()
    [look] = found.stopping.looks
    said = f"too few events to judge: {expected} of mail at break-even, and a look needs 20"
    assert look.verdict == said
    assert not look.stops
    [row] = look.actions
    assert (row.few, row.boundary, row.low, row.high) == (f"{expected} of mail", None, None, None)
    assert said in str(found)
    assert found.lifts[0].few == row.few
    assert any("Too few events to trust the interval" in note for note in found.notes)
    campaign.report(tmp_path / "report.md")
    warned = "Careful: there are too few events to weigh the gain of mail"
    assert warned in (tmp_path / "report.md").read_text()
    # The campaign goes on, and the first look that spends anything may spend all that is due.
    run(campaign, sizes=(120, 120), start=4_000, value=one_sale, missing=0)
    found = campaign.findings()
    look = found.stopping.looks[-1]
    assert look.verdict == "stop for harm"
    assert look.actions[0].boundary == pytest.approx(1.960, abs=1e-3)
    assert found.lifts[0].few is None
    assert campaign.verify().sound


def test_futility_is_not_declared_of_too_few(store):
    declared = {"rule": "pocock", "futility": True}
    campaign = trial(store, actions=PRICED, stopping=declared)
    run(campaign, sizes=(120,), value=one_sale, missing=0)
    [row] = campaign.findings().stopping.looks[-1].actions
    assert row.futility is None
    assert campaign.next_step() != "report"


@pytest.mark.parametrize(
    ("actions", "value"),
    [
        (["none", "mail"], one_sale),
        ([{"name": "none", "cost": 0.3}, {"name": "mail", "cost": 0.3}], one_sale),
        (PRICED, coin),
        (PRICED, normal),
    ],
)
def test_a_look_with_enough_events_is_what_it_was(store, monkeypatch, actions, value):
    campaign = run(trial(store, actions=actions), sizes=(120, 120), value=value, missing=0)
    looks = stored(campaign)
    assert all("few" not in row for look in looks for row in look["actions"])
    monkeypatch.setattr(stopping, "few_events", lambda *_: None)
    assert looks_again(campaign, store) == looks


def test_an_action_that_cannot_be_judged_holds_back_no_other(store):
    def value(frame, _):
        sold, actions = np.zeros(len(frame)), frame["action"].to_numpy()
        for action, sales in {"mail": 14, "call": 11}.items():
            sold[np.flatnonzero(actions == action)[:sales]] = 1.0
        return sold

    actions = ["none", {"name": "mail", "cost": 0.01}, "call"]
    campaign = trial(store, actions=actions, stopping={"rule": "pocock"})
    run(campaign, sizes=(120,), value=value, missing=0)
    [look] = campaign.findings().stopping.looks
    mail, call = look.actions
    assert mail.few is not None
    assert mail.statistic > call.statistic > call.boundary
    assert (mail.shown, call.shown, look.verdict) == (None, 1, "stop for success")


def evidence(*, none, mail, cost, usual=0.0):
    """Return the sums of outcomes before costs; those not named are `usual`."""
    outcomes = [np.full(1_000, usual), np.full(1_000, usual)]
    for own, events in zip(outcomes, (none, mail), strict=True):
        own[: len(events)] = events
    y = np.concatenate([outcomes[0], outcomes[1] - cost])
    rows = Rows.of(np.ones((2_000, 1)), np.repeat([0, 1], 1_000), np.full((2_000, 2), 0.5), y)
    before = np.concatenate(outcomes)
    return gathered(Rows(rows.features, rows.actions, rows.probabilities, y, before_costs=before))


def asked(sums, cost):
    return few_events(sums, [Action(name="none"), Action(name="mail", cost=cost)], (0, 1), 1)


def test_events_are_those_at_break_even():
    """A mail that costs 0.01 sales must have brought 10 to 1,000 people, whatever it brought."""
    for mail in ([], [1.0] * 3, [1.0] * 5):
        found = asked(evidence(none=[1.0] * 5, mail=mail, cost=0.01), 0.01)
        assert (found.action, found.events) == ("mail", 10)
    # Of 20 sales in all 5 are left to either, and 10 more make up for the mail.
    assert asked(evidence(none=[1.0] * 5, mail=[1.0] * 15, cost=0.01), 0.01).events == 15
    assert asked(evidence(none=[1.0] * 15, mail=[1.0] * 14, cost=0.01), 0.01).events == 19
    assert asked(evidence(none=[1.0] * 15, mail=[1.0] * 15, cost=0.01), 0.01) is None


def test_events_do_not_depend_on_the_unit_of_the_outcome():
    sums = evidence(none=[50.0] * 5, mail=[50.0] * 15, cost=0.5)
    assert asked(sums, 0.5).events == 15


def test_large_events_among_small_ones_count_for_fewer():
    counts = [
        asked(evidence(none=[1.0] * 9 + [large], mail=[], cost=0.01), 0.01).events
        for large in (1.0, 10.0, 100.0)
    ]
    assert counts == [10, 2, 0]


def test_rare_losses_of_the_cheaper_action_count():
    """Complaints, of which fewer are better: without the mail there must be 10 more of them."""
    found = asked(evidence(none=[-1.0] * 7, mail=[-1.0] * 5, cost=0.01), 0.01)
    assert (found.action, found.events) == ("none", 11)


def test_events_are_the_same_in_the_sign_of_which_less_is_better():
    actions = [Action(name="none"), Action(name="mail", cost=0.01)]
    for events in ({"none": [1.0] * 5, "mail": [1.0] * 15}, {"none": [-1.0] * 7, "mail": [-1.0]}):
        sums = evidence(**events, cost=0.01)
        mirrored = {name: [-one for one in some] for name, some in events.items()}
        other = evidence(**mirrored, cost=-0.01)
        found = few_events(sums, actions, (0, 1), 1)
        assert found is not None
        assert few_events(other, actions, (0, 1), 1, less=True) == found
        assert few_events_of_one(other, actions, (0, 1), 1, less=True) == few_events_of_one(
            sums, actions, (0, 1), 1
        )


def test_events_that_are_not_rare_are_enough():
    sums = evidence(none=[1.0] * 5, mail=[1.0] * 5, cost=0.25)
    assert asked(sums, 0.25) is None


def test_means_of_few_events_are_named(store, tmp_path):
    def few_sales(frame, _):
        sold = np.zeros(len(frame))
        sold[np.flatnonzero(frame["action"].to_numpy() == "mail")[:10]] = 1.0
        return sold

    campaign = run(trial(store), sizes=(120,), value=few_sales, missing=0)
    found = campaign.findings()
    assert [mean.few for mean in found.means] == ["0 of none", None]
    assert [lift.few for lift in found.lifts] == [None]
    [note] = [note for note in found.notes if "Few events" in note]
    assert "0 of none. With fewer than 10" in note
    campaign.report(tmp_path / "report.md")
    assert "few events so far (0 of none)" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("mail", "usual", "events"),
    [
        ([], 0.0, 0),
        ([1.0] * 9, 0.0, 9),
        ([1.0] * 10, 0.0, None),
        ([7.0] * 991, 0.0, 9),
        ([0.0] * 9, 1.0, 9),
        ([1.0] * 50 + [50.0], 0.0, 3),
        (list(np.linspace(-2, 2, 1_000)), 0.0, None),
    ],
)
@pytest.mark.parametrize("cost", [0.0, 0.3])
def test_events_of_one_action_are_outcomes_but_the_usual(mail, usual, events, cost):
    sums = evidence(none=[1.0 - usual] * 400, mail=mail, cost=cost, usual=usual)
    actions = [Action(name="none"), Action(name="mail", cost=cost)]
    found = few_events_of_one(sums, actions, (0, 1), 1)
    assert (found and found.events) == events


def test_a_campaign_most_of_whose_units_get_what_looks_best_errs_without_the_guard():
    """An action that pays for itself is not given any more once it looks like a loss."""
    setting = Setting(rate=0.0025, events=1, waves=5, randomised=0.05)
    random = np.random.default_rng(8)
    ends = stops(setting, random, trials=400, rules=["pocock"], guards=[0, 20])
    unguarded, kept = (ends[:, 0, :, 0] > 0).mean(axis=0)
    assert unguarded > 0.1
    assert kept < 0.05


def test_the_guarded_rule_errs_as_often_as_declared():
    """With 12 events a wave the second look is the first that counts."""
    random = np.random.default_rng(9)
    ends = stops(Setting(events=12), random, trials=800, rules=["pocock"], guards=[20])
    assert 0.025 < (ends[..., 0] > 0).mean() < 0.075


@pytest.mark.parametrize("randomised", [1.0, 0.3])
def test_looks_at_counts_are_those_of_a_campaign(store, randomised):
    """What the study of few events simulates is what happens."""
    setting = Setting(
        costs=(0.0, 0.03, 0.05), rate=0.06, events=8, growth=3, worth=MIXED, randomised=randomised
    )
    now = setting.situation("pocock")
    campaign = Campaign.create(now.spec, store=store, who="ann")
    random, waves, path = np.random.default_rng(3), Waves(setting), Path()
    for wave, size in enumerate(setting.sizes):
        units = pl.DataFrame({"customer": [f"{wave}-{number}" for number in range(size)]})
        given = pl.from_arrow(campaign.assign(units).table)
        counts = np.zeros(setting.chances.shape, dtype=np.int64)
        actions = given["action"].str.tail(1).cast(int).to_numpy()
        kinds = [random.choice(3, p=setting.chances[action]) for action in actions]
        np.add.at(counts, (actions, kinds), 1)
        waves.add(counts, setting.probabilities(waves.summaries))
        now = situation(campaign.events())
        path.look(now, guarded(now, waves.summaries, compare(now, waves.summaries), 20))
        outcomes = pl.Series("sale", setting.values[kinds])
        campaign.record(given.select("customer").with_columns(outcomes))
        campaign.close()
    looks = [look.plain() for look in path.looks]
    assert len(looks) == 3
    assert any("few" in row for look in looks for row in look["actions"])
    assert any(row["boundary"] for look in looks for row in look["actions"])
    assert alike(stored(campaign), looks)
