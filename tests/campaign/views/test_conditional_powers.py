"""Conditional power: by simulated paths, and in findings while looks are to come."""

import json

import numpy as np
import pytest

from seqbatch.inference import boundaries, conditional_power, detectable_drift
from tests.campaign.decide.test_stopping import effect, nothing, trial
from tests.campaign.views.test_findings import run
from tests.refusals import refused


@pytest.mark.parametrize("drift", [0.0, 2.0, 3.3])
def test_conditional_power_is_that_of_simulated_paths(drift):
    times, z = np.array([0.3, 0.5, 0.8, 1.0]), 0.7
    bounds = boundaries(times, rule="pocock-spending")
    gained = np.diff(times)
    draws = np.random.default_rng(8).standard_normal((300_000, 3))
    steps = drift * gained + np.sqrt(gained) * draws
    paths = (z * times[0] ** 0.5 + steps.cumsum(axis=1)) / np.sqrt(times[1:])
    found = conditional_power(z, information=0.3, ahead=times[1:], bounds=bounds[1:], drift=drift)
    assert found == pytest.approx((paths >= bounds[1:]).any(axis=1).mean(), abs=0.003)


def test_bounds_are_those_of_the_looks_to_come():
    with refused("invalid-argument", field="bounds"):
        conditional_power(1.0, information=0.5, ahead=[1.0], bounds=[], drift=0.0)


@pytest.mark.parametrize("rule", ["pocock-classical", "obrien-fleming-spending"])
def test_findings_show_it_on_request(store, rule):
    campaign = run(trial(store, stopping={"rule": rule}), sizes=(120,), value=effect(0.1))
    assert campaign.findings().conditional == ()
    found = campaign.findings(conditional_power=True)
    (one,) = found.conditional
    assert one.information == pytest.approx(1 / 3)
    (row,) = found.stopping.looks[-1].actions
    times = [1 / 3, 2 / 3, 1.0]
    drift = detectable_drift(times, rule=rule, power=0.9)
    by_hand = conditional_power(row.statistic, information=1 / 3, ahead=times[1:],
                                bounds=boundaries(times, rule=rule)[1:], drift=drift)  # fmt: skip
    assert one.planned == pytest.approx(by_hand, abs=1e-6)
    assert 0 < one.none < one.planned < 1
    assert json.loads(json.dumps(found.plain()))["conditional"][0]["action"] == "mail"
    assert "Conditional power" in str([table.title for table in found.tables()])


def test_nothing_is_left_after_the_last_wave(store):
    campaign = run(trial(store), sizes=(120, 120, 120), value=nothing)
    assert campaign.findings(conditional_power=True).conditional == ()
