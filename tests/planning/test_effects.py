"""What is known of the effect: a law around a guess, and grids that hold for all of it."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from seqbatch.planning import plan as whole_plan
from seqbatch.planning.best_grids import weighing
from seqbatch.planning.request import EffectLaw, law_of
from seqbatch.planning.trials.greedy_runs import Rates
from tests.refusals import refused

#: Policies are compared where a test is about them.
plan = partial(whole_plan, compare=False)


@pytest.mark.parametrize("spread", [1.5, 2.0, 4.0])
def test_the_points_have_the_laws_moments(spread):
    effects, weights = np.array(EffectLaw(guesses=(0.3,), spread=spread).points).T
    assert weights.sum() == pytest.approx(1)
    logs = np.log(effects / 0.3) / math.log(spread)
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0), (8, 105.0)):
        assert weights @ logs**power == pytest.approx(moment, abs=1e-9)
    if spread <= 2:
        mean = 0.3 * math.exp(math.log(spread) ** 2 / 2)
        assert weights @ effects == pytest.approx(mean, rel=1e-3)


def test_what_is_taken_for_granted():
    assert law_of(None, None, [1.0, 3.0]) == EffectLaw(guesses=(0.4,), spread=3.0, stated=False)
    assert law_of(0.1, None, [1.0]) == EffectLaw(guesses=(0.1,), spread=2.5)
    assert law_of(0.1, 1, [1.0]).points == ((0.1, 1.0),)
    assert law_of([0.1, 0.3], None, [1.0]).points == ((0.1, 0.5), (0.3, 0.5))


def test_several_effects_have_no_spread():
    with refused("invalid-argument", field="effect_spread", received="2.0"):
        law_of([0.1, 0.3], 2.0, [1.0])
    with refused("invalid-argument", field="effect_spread", received="0.5"):
        law_of(0.1, 0.5, [1.0])


EARNING = SimpleNamespace(delay=0, purpose="earn")


def test_grids_are_weighed_by_regret_relative_to_the_best_for_each_effect():
    """Of grids that cost 10 and 900, 20 and 300, the second is better, though one is halved."""

    class Asked:
        limits = plan(units=100, actions=2, dim=1, batches=2, max_batches=2).request.limits
        model = SimpleNamespace(weights=(0.5, 0.5), past=None, conduct=EARNING)
        least_first = 2

        def tried(self, sizes):
            return np.array([5.0, 450.0]) if sizes[0] < 10 else np.array([10.0, 150.0])

    weigh = weighing(Asked(), 2, None)
    assert weigh(np.array([5.0, 450.0])) == pytest.approx(0.5 * (1 + 3))
    assert weigh(np.array([10.0, 150.0])) == pytest.approx(0.5 * (2 + 1))


def test_half_of_the_cases_stay_below_the_median():
    lost = np.array([[1.0], [100.0], [3.0], [2.0]])
    rates = Rates(
        regret=lost, best=lost, uniform=lost[:, 0], blind=np.zeros(1), gain=None,
        weight=np.array([0.2, 0.2, 2.6, 1.0]), luck=np.ones(4),
    )  # fmt: skip
    assert rates.totals([1]).median() == 3.0


@pytest.mark.thorough
def test_a_spread_makes_a_wrong_guess_cheaper():
    asked = {"units": 20_000, "actions": 3, "features": 4, "effect": 0.1, "batches": 4}
    sure, unsure = (plan(**asked, max_batches=4, effect_spread=spread) for spread in (1, None))
    paid = [
        {line.factor: line.regret / line.best for line in made.sensitivity}
        for made in (sure, unsure)
    ]
    assert paid[1][4] < 0.8 * paid[0][4]
    assert paid[1][1] < 1.12
    assert unsure.rows[0].regret == pytest.approx(20_000 * unsure.model.effect)
    assert "two thirds of plausible effects lie between 0.04 and 0.25" in str(unsure)
    assert "log-normal" not in str(sure)


def test_very_large_models_are_refused_before_any_work():
    with refused("invalid-argument", field="features"):
        plan(units=10**6, actions=3, features=500)
    with refused("invalid-argument", field="dim"):
        plan(units=10**6, actions=3, dim=500)
    with refused("invalid-argument", field="actions"):
        plan(units=10**6, actions=5_000, features=5)
