"""The policy and the sizes of a campaign that states neither, in numbers."""

import pytest

from seqbatch.campaign.spec.plan import chosen_policy, planned, wave_sizes
from seqbatch.campaign.spec.toml import check_spec
from seqbatch.planning import plan
from tests.campaign.specs import about
from tests.refusals import refused

SPEC = {
    "name": "spring", "actions": ["none", "mail"], "grid": {"sizes": [100, 100]},
    **about("visit", range=[-2, 8]),
}  # fmt: skip


def test_noise_is_that_of_the_outcomes_unless_stated():
    """In campaigns no policy assumes a noise of 1 in silence, and none explores to the end."""
    thompson = chosen_policy(check_spec({**SPEC, "policy": {"kind": "ThompsonSampling"}}), None)
    assert (thompson["kind"], thompson["scale"]) == ("ThompsonSampling", "outcomes")
    assert (thompson["last"], thompson["constant"]) == ("greedy", 0)
    for kind in ("SBUCB", "LBGL"):
        assert chosen_policy(check_spec({**SPEC, "policy": {"kind": kind}}), None)["noise"] == (
            "outcomes"
        )
    stated = {**SPEC, "policy": {"kind": "ThompsonSampling", "scale": 2.0, "last": "same"}}
    chosen = chosen_policy(check_spec(stated), None)
    assert (chosen["scale"], chosen["last"]) == (2.0, "same")
    bare = {**SPEC, "features": {"numeric": {"age": "raw"}, "intercept": False}}
    chosen = chosen_policy(check_spec(bare), None)
    assert (chosen["kind"], chosen["constant"], chosen["waves"]) == (
        "JointRidge", None, "same level",
    )  # fmt: skip


def test_the_purpose_chooses_the_policy():
    def chosen(purpose, planned=None, **changes):
        objective = {**SPEC["objective"], "purpose": purpose}
        return chosen_policy(check_spec({**SPEC, **changes, "objective": objective}), planned)

    earn, choose, both = chosen("earn"), chosen("choose"), chosen({"after": 5_000})
    assert (earn["kind"], earn["after"]) == ("Lookahead", 0)
    assert (choose["kind"], choose["objective"], choose["last"]) == (
        "ThompsonSampling", "choose", "same",
    )  # fmt: skip
    assert (both["kind"], both["after"]) == ("Lookahead", 5_000)
    # A plan is about what the campaign itself earns.
    planned = {"kind": "SBPE", "first": "uniform"}
    assert chosen("earn", planned)["kind"] == "SBPE"
    assert chosen("choose", planned) == choose
    with refused("invalid-spec", field="objective.purpose"):
        chosen("choose", policy={"kind": "SBPE"})
    with refused("invalid-spec"):
        chosen("win")
    with refused("invalid-spec"):
        chosen({"after": 0})


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_a_plan_is_made_for_the_features_of_the_spec():
    asked = {"units": 900, "batches": 2, "max_batches": 2, "effect": 0.3, "noise": 2.0}
    features = {"numeric": {"age": "raw", "spend": "raw"}, "categorical": {"zip": ["a", "b"]}}
    made = wave_sizes(check_spec({**SPEC, "features": features, "grid": {"plan": asked}}))[0]
    assert made == plan(actions=2, features=4, **asked).grid.sizes
    bare = {**features, "intercept": False}
    assert wave_sizes(check_spec({**SPEC, "features": bare, "grid": {"plan": asked}}))[0] == made


@pytest.mark.usefixtures("few_trials")
def test_a_plan_is_made_for_the_purpose_of_the_spec():
    asked = {"units": 900, "batches": 2, "max_batches": 2}
    choosing = {**SPEC, "objective": {**SPEC["objective"], "purpose": "choose"}}
    made = planned(check_spec({**choosing, "grid": {"plan": asked}}), asked)
    assert made.choosing
    assert made.policy.objective == "choose"
    with refused("invalid-spec", field="grid.plan.purpose"):
        wave_sizes(check_spec({**SPEC, "grid": {"plan": {**asked, "purpose": "choose"}}}))


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_a_plan_knows_what_the_campaign_does_beside_its_policy():
    asked = {"units": 3_000, "batches": 3, "max_batches": 3, "missing": 0.5}
    spec = {**SPEC, "grid": {"plan": asked}, "randomised": 0.5, "floor": 0.1}
    spec["features"] = {"numeric": {"age": "raw"}}
    known = {"actions": 2, "features": 1, **asked}
    made = plan(**known, randomised=0.5, floor=0.1)
    assert wave_sizes(check_spec(spec))[0] == made.grid.sizes
    assert made.grid.sizes != plan(**known).grid.sizes
    for name in ("randomised", "floor"):
        with refused("invalid-spec", field=f"grid.plan.{name}"):
            wave_sizes(check_spec({**spec, "grid": {"plan": {**asked, name: 0.1}}}))
