"""Adaptive campaigns: closing proposes sizes, adopting is an event, verification computes both."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide import replanning
from seqbatch.campaign.decide.logged_waves import planned_waves
from seqbatch.campaign.decide.replanning import proposal_text
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.steps import amend, close
from seqbatch.campaign.steps.create import prepare
from seqbatch.display import number
from seqbatch.planning.proposal import Proposal
from seqbatch.planning.replanning import independent
from tests.campaign.specs import about
from tests.refusals import refused

#: A first wave that is too small for effects such as these.
SIZES = [60, 100, 2_840]
PLAN = {"units": 3_000, "batches": 3, "max_batches": 3, "effect": 0.8, "min_batch": 40}
SPEC = {
    "name": "autumn", "seed": 5, "unit": "id", "actions": ["a", "b"],
    **about("y", unit="EUR"), "grid": {"sizes": SIZES, "adaptive": True},
    "features": {
        "numeric": {"age": "learn"}, "categorical": {"zip": ["urban", "rural"]},
    },
    "randomised": 0.1,
}  # fmt: skip
EFFECTS = {"a": (0.0, 0.0), "b": (0.02, 0.1)}
#: Proposals are compared with each other, not with the truth.
pytestmark = pytest.mark.usefixtures("few_trials")


def adaptive(store, **changes):
    return Campaign.create({**SPEC, **changes}, store=store, who="ann")


def wave(campaign, *, noise=1.0, level=20.0):
    """Run the open wave; what actions do depends on the age."""
    now = campaign.situation()
    count, random = now.left, np.random.default_rng(now.wave)
    frame = pl.DataFrame(
        {
            "id": [f"{now.wave}-{place}" for place in range(count)],
            "age": random.normal(40, 10, count),
            "zip": random.choice(["urban", "rural"], count),
        }
    )
    table = pl.from_arrow(campaign.assign(frame).table)
    ages = (frame["age"].to_numpy() - 40) / 10
    levels = [EFFECTS[action] for action in table["action"]]
    own = np.array([first + slope * age for (first, slope), age in zip(levels, ages, strict=True)])
    rows = {"id": table["id"], "y": level + own + noise * random.standard_normal(count)}
    campaign.record(pl.DataFrame(rows))
    return table, campaign.close()


def test_a_wave_proposes_sizes_that_are_adopted_by_an_event(store):
    campaign = adaptive(store)
    planned = campaign.situation().sizes
    assert campaign.replan() is None
    _, closed = wave(campaign)
    made = closed.proposal
    assert made.planned == planned[1:]
    assert sum(made.sizes) == sum(planned[1:])
    assert made.changes
    assert made.saving > 0
    assert campaign.status().proposal == made == campaign.replan()
    assert campaign.replan(adopt=True) == made
    event = campaign.events()[-1]
    assert (event.kind, event.payload["adopted"]) == ("amend", closed.event)
    assert event.why.endswith(f"Expected to save {number(made.saving, 2)} EUR y.")
    now = campaign.situation()
    assert now.sizes == (planned[0], *made.sizes)
    assert now.randomised == max(0.1, made.explored)
    assert campaign.replan() is None
    assert campaign.replan(adopt=True) == made
    assert campaign.situation() == now
    table, _ = wave(campaign)
    assert len(table) == made.sizes[0]
    assert campaign.situation().explored == 0.0
    wave(campaign)
    assert campaign.situation().finished
    assert campaign.verify().sound
    assert campaign.findings()


def test_shares_of_the_variance_stay_as_they_were_declared(store):
    campaign = adaptive(store)
    before = planned_waves(campaign.events())
    wave(campaign)
    campaign.replan(adopt=True, reason="as proposed")
    after = planned_waves(campaign.events())
    assert after[0].share == before[0].share
    assert after[1].share is not None
    sizes = list(campaign.situation().sizes[1:])
    campaign.amend(reason="by hand", sizes=[sizes[0] + 1, sizes[1] - 1])
    assert planned_waves(campaign.events())[1].share is None


def test_a_proposal_lapses_when_units_are_assigned_or_a_person_amends(store):
    campaign = adaptive(store)
    wave(campaign)
    campaign.replan(adopt=True)
    campaign.amend(reason="fewer", units=2_000)
    assert campaign.replan() is None
    # Not adopted again: the sizes to come are a person's.
    with refused("no-proposal"):
        campaign.replan(adopt=True)
    other = adaptive(store, name="winter")
    wave(other)
    other.assign(pl.DataFrame({"id": ["x"], "age": [30.0], "zip": ["urban"]}))
    assert other.status().proposal is None
    with refused("no-proposal"):
        other.replan(adopt=True)


def test_without_being_declared_nothing_is_proposed(store):
    campaign = adaptive(store, grid={"sizes": SIZES})
    _, closed = wave(campaign)
    assert closed.proposal is None
    with refused("no-proposal"):
        campaign.replan(adopt=True)


def test_a_plan_is_judged_by_what_it_stated(store):
    campaign = adaptive(store, grid={"plan": PLAN, "adaptive": True})
    _, closed = wave(campaign)
    made = closed.proposal
    assert made.stated_effect == 0.8
    assert made.effect.mean < 0.8 / 2
    assert min(made.sizes) >= 40
    assert "what was planned" in proposal_text(
        made, Measure.of_objective(campaign.situation().spec)
    )


def test_without_a_plan_the_outcomes_alone_say_how_large_things_are(store):
    campaign = adaptive(store)
    _, closed = wave(campaign, noise=50.0)
    made = closed.proposal
    assert made.stated_effect is None
    assert made.noise.mean == pytest.approx(50, rel=0.3)
    assert made.effect.mean < 50


def test_a_proposal_that_the_rows_do_not_give_is_named(store, monkeypatch):
    honest = close.proposed
    monkeypatch.setattr(close, "proposed", lambda *given: replace(honest(*given), saving=1_000.0))
    campaign = adaptive(store)
    _, closed = wave(campaign)
    [found] = campaign.verify().findings
    assert (found.event, found.place) == (closed.event, "proposal")
    assert "'saving': 1000.0" in found.problem


def test_an_adoption_of_other_sizes_than_proposed_is_named(store, monkeypatch):
    class Forged(Proposal):
        @classmethod
        def of(cls, plain):
            made = Proposal.of(plain)
            return replace(made, sizes=(made.sizes[0] + 1, made.sizes[1] - 1))

    monkeypatch.setattr(amend, "Proposal", Forged)
    campaign = adaptive(store)
    wave(campaign)
    campaign.replan(adopt=True, reason="as proposed")
    [found] = campaign.verify().findings
    assert (found.event, found.place) == (5, "adopted proposal")
    assert "the proposal was" in found.problem


REFUSED = [
    {"grid": {"calendar": True, "waves": 2, "units": 90, "adaptive": True}},
    {"grid": {"plan": {**PLAN, "waves": [3_000, 3_000]}, "adaptive": True}},
    {"features": {"numeric": {"age": "learn"}, "intercept": False}},
]


@pytest.mark.parametrize("change", REFUSED)
def test_what_cannot_be_adaptive_is_refused(change):
    with refused("invalid-spec", field="grid.adaptive"):
        prepare({**SPEC, **change})


def test_columns_that_repeat_others_are_left_out():
    random = np.random.default_rng(1)
    level = random.random(500) < 0.3
    age = 1e3 + random.standard_normal(500)
    rows = np.column_stack(
        [np.ones(500), level, ~level, age, np.full(500, 7.0), age + level, random.random(500)]
    )
    assert independent(rows.T @ rows).tolist() == [0, 1, 3, 6]


def test_plain_values_come_back(store):
    campaign = adaptive(store)
    _, closed = wave(campaign)
    plain = json.loads(json.dumps(closed.proposal.plain()))
    assert type(closed.proposal).of(plain) == closed.proposal


def test_late_outcomes_are_outstanding_and_not_missing(store, monkeypatch):
    """Wave 1 lacks a quarter of its outcomes; those of wave 2 are not due, and ten came early."""
    honest, asked = replanning.propose, []

    def noted(model, law, **options):
        asked.append((model.conduct.missing, options["outstanding"]))
        return honest(model, law, **options)

    monkeypatch.setattr(replanning, "propose", noted)
    declared = {**PLAN, "units": 4_000, "batches": 4, "max_batches": 4, "delay": 1}
    campaign = adaptive(store, grid={"plan": declared, "adaptive": True})
    ids = {}
    for wave in (1, 2):
        count, random = campaign.situation().left, np.random.default_rng(wave)
        frame = {
            "id": [f"{wave}-{place}" for place in range(count)],
            "age": random.normal(40, 10, count),
            "zip": random.choice(["urban", "rural"], count),
        }
        campaign.assign(pl.DataFrame(frame))
        ids[wave] = frame["id"]
        # The outcomes of wave 1 come when wave 2 is open.
        came = [*(ids[1][: len(ids[1]) * 3 // 4] if wave == 2 else []), *ids[wave][:10]]
        came = list(dict.fromkeys(came)) if wave == 2 else came
        new = [one for one in came if wave == 1 or one not in ids[1][:10]]
        campaign.record(pl.DataFrame({"id": new, "y": random.normal(20, 1, len(new))}))
        campaign.close(force=True, reason="outcomes are late")
    first, second = (len(ids[wave]) for wave in (1, 2))
    missing, outstanding = asked[-1]
    assert missing == pytest.approx(1 - (first * 3 // 4) / first)
    assert outstanding == [(second - 10, 1.0)]
    assert campaign.verify().sound
