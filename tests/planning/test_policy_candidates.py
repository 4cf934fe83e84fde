"""Which policy a plan recommends, and the numbers that speak for it, worked out by hand."""

import math

import pytest

from seqbatch import theory
from seqbatch.planning.candidate_policies import BY_DESIGN, candidates, preferred
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.result_rows import Candidate, Row
from seqbatch.policies import RBGL, SBPE, SBUCB, JointRidge, Lookahead, ThompsonSampling


class Told:
    """A trial that loses what it is told to."""

    weight, penalty = 1.0, 7.0

    def __init__(self, number):
        self.lost = {RBGL: number, ThompsonSampling: number + number % 2, SBUCB: 2 * number}
        self.lost |= {SBPE: number - 1, JointRidge: number - 2, Lookahead: number - 2}

    def regret(self, policy, sizes, random, *, most):  # noqa: ARG002
        # Pure exploitation knows each trial's effects.
        assert not isinstance(policy, RBGL) or policy.ridge == self.penalty
        return float(self.lost[type(policy)])


def costing(regret, error, sizes=(100, 300)):
    """Return a table's row, of which only sizes, regret and error matter here."""
    rest = ("median", "of_online", "earned", "best_share", "lower_bound", "rate", "total_cost")
    return Row(batches=2, sizes=sizes, regret=regret, error=error, **dict.fromkeys(rest, 0.0))


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(Model, "thinned", lambda _, trials, *, seed: [*map(Told, range(trials))])  # noqa: ARG005


def test_errors_are_those_of_a_mean_and_of_paired_differences(told):  # noqa: ARG001
    model = Model(layout="shared", actions=3, dim=20, scenarios=((0.5, 2.0),))
    greedy, joint, least, thompson, ucb, _ = candidates(model, costing(11.0, 3.0), seed=0)
    assert (greedy.regret, greedy.error, greedy.excess, greedy.excess_error) == (11.0, 3.0, 0, 0)
    assert (joint.regret, joint.excess, joint.excess_error) == (9.0, -2.0, 0.0)
    assert (least.regret, least.excess, least.excess_error) == (10.0, -1.0, 0.0)
    # 120 trials; every other one loses one more: 120 squares of 1/2, over 119, over 120.
    assert (thompson.excess, thompson.excess_error) == pytest.approx((0.5, math.sqrt(0.25 / 119)))
    # They lose 0 to 119 more: 59.5 on average, with a variance of 120 * 121 / 12 = 1,210.
    assert (ucb.excess, ucb.excess_error) == pytest.approx((59.5, math.sqrt(1_210 / 120)))
    assert (ucb.regret, ucb.error) == pytest.approx((70.5, math.sqrt(9 + 1_210 / 120)))


def test_policies_are_set_as_one_who_believes_the_plan_would(told):  # noqa: ARG001
    """Without features the gain is s C_K with C_2 = 1 / sqrt(pi), and so s = 0.5 sqrt(pi)."""
    model = Model(layout="block", actions=2, dim=1, scenarios=((0.5, 2.0),))
    made = candidates(model, costing(11.0, 3.0), seed=0)
    greedy, lookahead, _, thompson, ucb = (one.policy for one in made)
    assert (thompson.scale, thompson.ridge) == pytest.approx((2.0, 4 / (0.25 * math.pi)))
    assert greedy.ridge == thompson.ridge
    assert isinstance(lookahead, Lookahead)
    assert {thompson.last, ucb.last} == {"greedy"}
    assert ucb.gamma == pytest.approx(2 * theory.confidence_multiplier(units=400, actions=2))


@pytest.mark.parametrize(("error", "kind"), [(0.35, SBUCB), (0.45, JointRidge)])
def test_the_joint_ridge_stays_unless_another_is_better_beyond_chance(error, kind):
    """The difference is 1, and its standard error the root of 0.3^2 and the other's squares."""
    told = {"error": 1.0}
    first = Candidate(name="one", policy=RBGL(), regret=1.0, excess=0.0, excess_error=0.0, **told)
    usual = Candidate(
        name="joint ridge", policy=JointRidge(), regret=9.1, excess=0.1, excess_error=0.3, **told
    )
    other = Candidate(
        name="two", policy=SBUCB(), regret=8.1, excess=-0.9, excess_error=error, **told
    )
    assert isinstance(preferred([first, usual, other]), kind)


@pytest.mark.slow
def test_a_first_batch_by_design_saves_what_was_measured_and_is_not_recommended():
    """2 batches of K = 10 vectors of length 10: 7% to 17% less regret (docs/learning.md)."""
    model = Model(layout="shared", actions=10, dim=10, scenarios=((0.3, 1.0),))
    made = candidates(model, costing(440.0, 3.0, (700, 5_300)), seed=0)
    design = next(one for one in made if one.name == BY_DESIGN)
    assert -0.25 < (design.excess - made[1].excess) / 440 < -0.07
    assert preferred(made).design is None
    block = Model(layout="block", actions=3, dim=4, scenarios=((0.3, 1.0),))
    assert BY_DESIGN not in [one.name for one in candidates(block, costing(9.0, 1.0), seed=0)]
