"""The power that plans of campaigns state, compared with campaigns on simulated outcomes."""

import pytest

from seqbatch.campaign import rehearse
from seqbatch.planning import plan_campaign
from tests.refusals import refused

QUESTION = {"base_rate": "20%", "smallest_lift": "6pp", "actions": ["none", "mail", "call"]}


@pytest.mark.thorough
def test_campaigns_find_the_lift_as_often_as_their_plan_states():
    sizes = [600, 1_400]
    made = plan_campaign(customers=2_000, waves=sizes, **QUESTION | {"smallest_lift": "9pp"})
    spec = {
        "name": "plan", "actions": ["none", "mail", "call"], "grid": {"sizes": sizes},
        "randomised": 0.1, "floor": 0.0, "control": "none",
        "metrics": {"purchase": {"kind": "yes/no"}}, "objective": {"maximise": "purchase"},
    }  # fmt: skip
    truth = {"none": 0.2, "mail": 0.29, "call": 0.2}
    campaigns = rehearse(spec, truths=[truth], campaigns=80, seed=5)
    found = campaigns.data["truths"][1]["power"]["mail"]
    stated = made.gain.power
    assert 0.25 < stated < 0.75
    assert found["share"] == pytest.approx(stated, abs=3 * found["error"])


@pytest.mark.usefixtures("few_trials")
def test_a_power_is_reached_by_more_random_actions_or_refused():
    asked = {"customers": 20_000, "waves": 2, **QUESTION, "smallest_lift": "2.5pp"}
    made = plan_campaign(**asked, power="80%")
    assert made.gain.power == pytest.approx(0.8, abs=0.01)
    assert made.randomised > 0.1
    assert "Run these waves: they find a lift of 2.5 points" in made.advice
    earning = plan_campaign(**asked)
    assert earning.gain.power < 0.8
    # As many random actions find the lift in the waves that earn most.
    again = plan_campaign(**asked | {"waves": list(earning.sizes), "randomised": earning.enough})
    assert again.gain.power == pytest.approx(0.8, abs=0.01)
    assert f"let {earning.enough:.0%} of each wave get a random action" in earning.advice
    with refused("invalid-argument", field="power", match="20,000 customers"):
        plan_campaign(**asked | {"smallest_lift": "1pp"}, power=0.9)
