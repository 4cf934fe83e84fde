"""Fully online: what each effect's best start costs, put together from trials."""

from types import SimpleNamespace

import numpy as np
import pytest

from seqbatch.planning import plan
from seqbatch.planning.regret import _picked
from seqbatch.planning.trials.greedy_runs import Totals, least
from tests.cases import thorough


def totals(lost, *, chance=0.0, gain=None, weight=(1.0, 1.0, 1.0, 1.0)):
    """Return four trials, two of each of two scenarios."""
    lost = np.array(lost)
    return Totals(
        lost=lost, best=10 * lost, weight=np.array(weight), luck=np.array(weight),
        uniform=np.array([2.0, 20.0] * 2), chance=np.full(2, chance), gain=gain, strata=(0, 1),
    )  # fmt: skip


SHORT = totals([1.0, 90.0, 3.0, 10.0], weight=(0.5, 1.0, 1.5, 1.0))
LONG = totals([8.0, 30.0, 8.0, 30.0], weight=(1.2, 0.8, 0.8, 1.2))


def test_each_scenario_has_its_own_best_option():
    assert SHORT.by_scenario() == pytest.approx([(0.5 * 1 + 1.5 * 3) / 4, 25.0])
    request = SimpleNamespace(model=SimpleNamespace(past=None))
    assert _picked(request, [SHORT, LONG]) == [0, 1]
    mixed = least([SHORT, LONG], [0, 1])
    assert mixed.lost.tolist() == [1.0, 30.0, 3.0, 30.0]
    assert mixed.weight.tolist() == mixed.luck.tolist() == [0.5, 0.8, 1.5, 1.2]
    assert mixed.mean()[0] == pytest.approx((0.5 + 24 + 4.5 + 36) / 4)
    assert mixed.best_units() == pytest.approx(10 * (0.5 + 24 + 4.5 + 36) / 4)


def test_what_was_learned_has_one_start():
    """Few trials are of one scenario there."""
    request = SimpleNamespace(model=SimpleNamespace(past=object()))
    assert _picked(request, [SHORT, LONG]) == [1, 1]


def test_the_cautious_add_two_standard_errors():
    # The second scenario loses 90 and 10: a quarter of their sum, with a standard error of 20.
    assert SHORT.errors_by_scenario()[1] == pytest.approx(20.0)
    request = SimpleNamespace(model=SimpleNamespace(past=None))
    safe = totals([9.0, 120.0, 9.0, 120.0])
    assert _picked(request, [SHORT, safe]) == [0, 0]
    assert _picked(request, [SHORT, safe], cautious=True)[1] == 1


def test_chance_is_exact_in_each_scenario():
    """Where units are assigned by chance, their loss is known, however many each option has."""
    gain = np.array([1.0, 10.0])
    one, other = (
        totals([2.0 * n, 20.0 * n, 2.0 * n, 20.0 * n], chance=float(n), gain=gain) for n in (3, 5)
    )
    mixed = least([one, other], [0, 1])
    assert mixed.chance.tolist() == [3.0, 5.0]
    assert mixed.mean() == (3 * 1.0 + 5 * 10.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [3, *thorough(1)])
def test_fully_online_is_better_than_batches_under_every_law(spread):
    made = plan(
        units=10**6, actions=3, features=3, effect_spread=spread, max_batches=4, compare=False
    )
    assert made.online.regret < 0.9 * made.rows[-1].regret
    assert made.online.error < 0.1 * made.online.regret
