"""The rows of a plan's table, from what each trial loses, worked out by hand."""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from seqbatch import theory
from seqbatch.planning import plan
from seqbatch.planning.best_grids import best_grids
from seqbatch.planning.regret import row, sensitivity
from seqbatch.planning.request import BatchLimits, EffectLaw, Request
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.planning.trials.greedy_runs import Rates


class Told:
    """Trials that lose what they are told to, batch by batch."""

    def __init__(self, regret, best=0.5):
        self.regret = np.array(regret)
        self.best = np.broadcast_to(best, self.regret.shape)

    def rates(self, sizes):
        return told(self.regret[:, : len(sizes)], self.best[:, : len(sizes)])


def told(regret, best, **more):
    """Return rates of trials that count alike, with nothing known exactly."""
    ones = np.ones(len(regret))
    alike = {"weight": ones, "luck": ones, "uniform": regret[:, 0], "gain": None}
    return Rates(**{"regret": regret, "best": best, "blind": np.zeros(2), **alike, **more})


def test_what_chance_loses_is_exact():
    """Two trials lose 2 and 4 by chance, 3 on average as was stated; a third of it is chance."""
    regret = np.array([[2.0, 0.5], [4.0, 0.1]])
    rates = told(regret, regret, uniform=np.array([2.0, 4.0]), blind=np.array([1.0, 0.0]), gain=3.0)
    assert rates.total([10, 0]) == (30.0, 0.0)
    mean, error = rates.total([10, 20])
    assert mean == pytest.approx(30 + 20 * 0.3)
    # What is left to chance are 10 and 2: a standard deviation of sqrt(32) in two trials.
    assert error == pytest.approx(math.sqrt(32 / 2))


def test_luck_alone_is_no_error():
    """Trials that all lose the same leave no doubt, however much each of them counts."""
    luck = np.array([0.1, 1.9, 0.4, 1.6])
    alike = np.full((4, 2), 3.0)
    rates = told(alike, alike, weight=luck, luck=luck)
    assert rates.total([10, 10]) == pytest.approx((60.0, 0.0))
    assert rates.totals([10, 10]).errors_by_scenario() == pytest.approx([0.0])


def test_trials_count_by_their_weights():
    regret = np.array([[1.0, 1.0], [9.0, 9.0]])
    rates = told(regret, np.array([[0.2, 0.2], [0.6, 0.6]]), weight=np.array([1.5, 0.5]))
    assert rates.total([1, 1])[0] == pytest.approx((1.5 * 2 + 0.5 * 18) / 2)
    assert rates.totals([5, 5]).best_units() == pytest.approx((1.5 * 2 + 0.5 * 6) / 2)


def test_differences_between_scenarios_are_no_chance():
    """Two trials of each of two scenarios: only what differs within one is chance."""
    regret = np.array([[1.0, 0.0], [101.0, 0.0], [3.0, 0.0], [105.0, 0.0]])
    mean, error = told(regret, regret, strata=(0, 1)).total([1, 0])
    assert mean == pytest.approx(52.5)
    # Variances of 2 and 8, each in a mean of two trials; half of each mean counts.
    assert error == pytest.approx(math.sqrt((2 / 2 + 8 / 2) / 4))


# An experiment that has started has no lower bound.
EARNING = SimpleNamespace(past="outcomes", conduct=SimpleNamespace(purpose="earn"))


def test_a_row_by_hand():
    judging = Told([[1.0, 0.5], [3.0, 0.1]], best=[[0.25, 0.5], [0.25, 0.9]])
    limits = BatchLimits(units=50, seen=100)
    request = SimpleNamespace(
        judged=judging.rates,
        limits=limits,
        batch_cost=7.0,
        possible=80.0,
        model=EARNING,
        units_in_all=50,
    )
    made = row(request, (10, 40), 16.0)
    # The trials lose 10 + 20 and 30 + 4: 32 on average, with a standard deviation of sqrt(8).
    assert (made.regret, made.error) == pytest.approx((32.0, math.sqrt(8 / 2)))
    assert (made.of_online, made.earned) == pytest.approx((2.0, 0.6))
    assert made.total_cost == pytest.approx(32 + 2 * 7)
    # A quarter of 10 units, and 0.7 of 40.
    assert made.best_share == pytest.approx((2.5 + 28) / 50)


def test_the_grid_is_the_best_where_it_is_judged():
    """The tuning trials like Theorem 2's grid best, the judging ones that of Theorem 3."""

    class Likes(Told):
        def rates(self, sizes):
            likes = self.regret[0, 0]
            cost = np.array([[abs(sizes[0] - likes), 0.0]] * 2) / sizes[0]
            return told(cost, self.best)

    limits, model = BatchLimits(units=10_000), SimpleNamespace(dim=10)
    request = SimpleNamespace(
        limits=limits, model=model, numbers=[2], kind="paper", too_short=False,
        tuning=Likes([[2_154.0, 0.0]]), judged=Likes([[1_000.0, 0.0]]).rates,
    )  # fmt: skip
    assert best_grids(request) == {2: (1_000, 9_000)}


@dataclass(frozen=True)
class Gaining:
    """A model in which a unit of the first batch loses the effect, and a later one nothing."""

    scenarios: tuple[tuple[float, float], ...]
    weights: tuple[float, ...] = ()
    dim: int = 10
    layout: str = "shared"
    past: None = None
    conduct: Conduct = field(default_factory=Conduct)

    def __post_init__(self):
        object.__setattr__(self, "weights", (1.0,))

    def ensemble(self, trials, *, seed, draws):  # noqa: ARG002
        return Told([[self.scenarios[0][0], 0.0]] * 2)


def test_a_wrong_guess_of_the_effect_costs_what_that_effect_costs():
    request = Request(
        model=Gaining(((0.3, 1.0),)), limits=BatchLimits(units=10_000), numbers=[2], batches=2,
        kind="tuned", batch_cost=None, within=0.05, seed=0, sample=None,
        law=EffectLaw(guesses=(0.3,)),
    )  # fmt: skip
    lines = sensitivity(request, (2_000, 8_000))
    assert [line.factor for line in lines] == [0.25, 0.5, 1.0, 2.0, 4.0]
    for line in lines:
        assert line.regret == pytest.approx(line.factor * 0.3 * 2_000)
        # Theorem 3's first batch has 1,000 units, and no grid's needs to have more than 10.
        assert line.paper == pytest.approx(line.factor * 0.3 * 1_000)
        assert line.best <= line.paper


def test_the_promise_is_theorem_1s_for_batches_of_the_largest_size():
    made = plan(units=10**8 + 1, actions=2, dim=1, contexts="adversarial", batches=10_000)
    assert max(made.grid.sizes) == 10_001
    bound = theory.sbucb_upper_bound(units=10_000 * 10_001, dim=1, actions=2, batches=10_000)
    assert made.row.rate == pytest.approx(bound, rel=1e-12)
