"""Randomised units, floors, lost and late outcomes: predictions against the policy's own code."""

import warnings
from functools import partial

import numpy as np
import pytest

from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning import plan as whole_plan
from seqbatch.planning.candidate_policies import candidates
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.planning.trials.greedy_runs import KnownPast
from seqbatch.policies import RBGL
from tests.cases import thorough
from tests.oracles.campaigning import regret
from tests.planning.test_policy_candidates import costing
from tests.refusals import refused

#: Policies are compared where a test is about them.
plan = partial(whole_plan, compare=False)
SIZES = (60, 150, 250, 900)
CONDUCTS = [
    {"randomised": 0.3},
    {"floor": 0.05},
    {"missing": 0.5},
    {"delay": 1},
    {"randomised": 0.2, "floor": 0.02, "missing": 0.3, "delay": 1},
]


def exploitation(model):
    """Return pure exploitation that knows how large effects are."""
    [(effect, noise)] = model.scenarios
    ridge = (noise / model.spread(effect)) ** 2
    return RBGL(ridge=ridge, first="uniform", ties="random")


def directly(model, trials, sizes=SIZES):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        return np.array([regret(exploitation(model), model, sizes, seed) for seed in range(trials)])


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["block", *thorough("shared")])
@pytest.mark.parametrize("given", CONDUCTS, ids=lambda given: "-".join(given))
def test_predictions_agree_with_the_policys_own_code(layout, given):
    conduct = Conduct(actions=3, **given)
    model = Model(layout=layout, actions=3, dim=4, scenarios=((0.4, 1.0),), conduct=conduct)
    found = directly(model, 300)
    predicted, error = model.ensemble(1_024, seed=1).rates(SIZES).total(SIZES)
    spread = np.hypot(error, found.std(ddof=1) / np.sqrt(len(found)))
    assert spread < 0.05 * predicted
    assert abs(predicted - found.mean()) < 3.5 * spread
    plain = Model(layout=layout, actions=3, dim=4, scenarios=((0.4, 1.0),))
    assert predicted > 1.1 * plain.ensemble(1_024, seed=1).rates(SIZES).total(SIZES)[0]


def unit_by_unit(theta, past, sizes, delay, random):
    """Return a greedy run's loss in each batch, with outstanding batches before it."""
    actions, dim = theta.shape
    gram, moment, late, losses = past.gram.copy(), past.moment.copy(), [], []
    waves = [(size, share, True) for size, share in past.outstanding]
    for size, share, before in [*waves, *((size, 0.0, False) for size in sizes)]:
        if not before and len(late) > delay:
            for one, other in late.pop(0):
                gram[one] += np.outer(other[:-1], other[:-1])
                moment[one] += other[-1] * other[:-1]
        fit = np.stack([np.linalg.pinv(g) @ m for g, m in zip(gram, moment, strict=True)])
        lost, wave = 0.0, []
        for _ in range(size):
            row = np.array([1.0, *random.standard_normal(dim - 1)])
            by_chance = random.random() < share
            action = random.integers(actions) if by_chance else int((fit @ row).argmax())
            means = theta @ row
            lost += means.max() - means[action]
            wave.append((action, np.array([*row, means[action] + random.standard_normal()])))
        late.append(wave)
        losses += [] if before else [lost / size]
    return losses


@pytest.mark.parametrize(
    "outstanding", [((150, 1.0),), ((30, 1.0), (150, 0.2))], ids=["one", "two"]
)
def test_outstanding_outcomes_arrive_in_their_turn(outstanding):
    delay, sizes = len(outstanding), (20, 30, 40)
    known = np.broadcast_to(12.0 * np.eye(2), (2, 2, 2)), np.array([[1.0, 2.0], [3.0, -1.0]])
    past = KnownPast(*known, outstanding=outstanding)
    model = Model(
        layout="block", actions=2, dim=2, scenarios=((0.5, 1.0),), past=past,
        conduct=Conduct(actions=2, delay=delay),
    )  # fmt: skip
    trials = model.ensemble(1_000, seed=1)
    rates = trials.rates(sizes).regret
    random = np.random.default_rng(2)
    slow = np.array(
        [unit_by_unit(theta, past, sizes, delay, random) for theta in trials.theta[:300]]
    )
    errors = np.hypot(rates.std(axis=0), slow.std(axis=0) * (1_000 / 300) ** 0.5) / 1_000**0.5
    assert (np.abs(rates.mean(axis=0) - slow.mean(axis=0)) < 4 * errors).all()
    # The many outcomes of the newest batch help from the next batch on that they are due.
    gain = rates[:, delay - 1].mean() - rates[:, delay].mean()
    assert gain > 0.3 * rates[:, delay - 1].mean()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["shared", *thorough("block")])
def test_policies_are_compared_under_the_same_conditions(layout):
    """Thinned trials of the whole batch are the direct simulation."""
    conduct = Conduct(actions=3, randomised=0.2, floor=0.02, missing=0.3, delay=1)
    model = Model(layout=layout, actions=3, dim=4, scenarios=((0.4, 1.0),), conduct=conduct)
    found = directly(model, 150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        thinned = np.array([
            trial.regret(exploitation(model), SIZES, np.random.default_rng(seed))
            for seed, trial in enumerate(model.thinned(150, seed=9))
        ])  # fmt: skip
    spread = np.hypot(found.std(ddof=1), thinned.std(ddof=1)) / np.sqrt(150)
    assert spread < 0.08 * found.mean()
    assert abs(found.mean() - thinned.mean()) < 3.5 * spread
    assert len(candidates(model, costing(10.0, 1.0, SIZES), seed=0)) == 6


@pytest.mark.usefixtures("few_trials")
def test_all_at_random_costs_all_there_is_to_gain():
    made = plan(
        units=3_000, actions=2, features=2, effect=0.3, effect_spread=1, randomised=1.0,
        max_batches=2,
    )  # fmt: skip
    assert [row.regret for row in (*made.rows, made.online)] == pytest.approx([900.0] * 3)
    assert [row.error for row in made.rows] == [0.0, 0.0]
    assert made.batches == 1
    assert "nothing can be learned in time" in made.reason


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_a_randomised_share_changes_the_sizes():
    asked = {"units": 10_000, "actions": 2, "features": 2, "batches": 3, "max_batches": 3,
             "effect_spread": 1}  # fmt: skip
    bare, mixed, lost = (
        plan(**asked, **more) for more in ({}, {"randomised": 0.9}, {"missing": 0.75})
    )
    # The second batch explores by itself, so that the first can be shorter.
    assert mixed.grid.sizes[0] < 0.95 * bare.grid.sizes[0]
    assert lost.grid.sizes[0] > 1.5 * bare.grid.sizes[0]
    assert "75% of outcomes never arrive" in str(lost)
    assert f"using about {round(lost.grid.sizes[0] / 4):,} outcomes" in str(lost)
    assert "90% of it at random" in str(mixed)
    assert lost.as_dict()["missing"] == 0.75


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_limits_of_waves_enter_the_prediction():
    asked = {"units": 5_000, "actions": 2, "features": 2, "batches": 3, "max_batches": 3}
    free = plan(**asked)
    for limit in ({"min_batch": 1_000}, {"max_batch": 2_000}):
        kept = plan(**asked, **limit)
        assert kept.row.regret > 1.1 * free.row.regret
        # The larger first batch measures better, and is paid for in regret.
        assert kept.grid.sizes[0] > free.grid.sizes[0]
        assert kept.detection.error < free.detection.error


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_late_outcomes_keep_the_second_batch_uniform():
    asked = {
        "units": 5_000,
        "actions": 2,
        "features": 2,
        "effect": 0.3,
        "max_batches": 3,
    }
    made = plan(**asked, effect_spread=1, delay=1)
    assert made.rows[1].regret == pytest.approx(5_000 * 0.3)
    assert made.rows[1].error == 0
    assert sum(made.grid.sizes[:2]) * 0.3 < made.row.regret < 0.5 * made.rows[1].regret
    assert str(made).count("uniformly at random") == 2
    assert "outcomes arrive 1 batch late" in str(made)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"randomised": 1.2}, "randomised"),
        ({"floor": 0.6}, "floor"),
        ({"missing": 1.0}, "missing"),
        ({"delay": -1}, "delay"),
        (
            {"delay": 1, "contexts": "adversarial"},
            "randomised, floor, missing, delay, eligible, capacity, after, purpose and detect",
        ),
    ],
)
def test_what_cannot_be_is_refused(change, field):
    with refused("invalid-argument", field=field):
        plan(units=5_000, actions=2, features=2, **change)
