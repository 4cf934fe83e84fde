"""Plans: what they promise, what they refuse, what they look like."""

import html
import json
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from benchmarks.worlds import world

from seqbatch import grids
from seqbatch.chart import BarMark, LineMark, PointMark, TextMark
from seqbatch.core import Statistics
from seqbatch.document import as_html
from seqbatch.pictures import policy_colour
from seqbatch.planning import Sample, replan
from seqbatch.planning import plan as whole_plan
from seqbatch.planning.candidate_policies import preferred
from seqbatch.planning.request import BatchLimits, EffectLaw, Request, numbers_of
from seqbatch.planning.result_text import rounded
from seqbatch.policies import RBGL, SBUCB, JointRidge, Lookahead
from seqbatch.simulation import simulate
from tests.cases import thorough
from tests.refusals import refused

#: Policies are compared where a test is about them.
plan = partial(whole_plan, compare=False)


@pytest.fixture(scope="module")
def campaign():
    return whole_plan(
        units=20_000, actions=3, features=5, effect=0.3, effect_spread=1, max_batches=4
    )


@pytest.fixture(scope="module")
def trial():
    return plan(units=10_000, actions=4, dim=6, batches=3, batch_cost=20.0, max_batches=4)


@pytest.mark.slow
def test_the_table_says_what_more_batches_bring(campaign, trial):
    for made in (campaign, trial):
        regret = [row.regret for row in made.rows]
        assert [row.batches for row in made.rows] == [1, 2, 3, 4]
        assert regret == sorted(regret, reverse=True)
        assert made.online.regret < regret[-1]
        assert regret[0] == pytest.approx(made.units * made.model.effect)
        for row in made.rows:
            assert sum(row.sizes) == made.units
            assert 0 < row.lower_bound <= row.regret * (1 + 1e-9)
            assert row.of_online == pytest.approx(row.regret / made.online.regret)
            assert 0 <= row.error < 0.15 * row.regret
            # One batch is uniform, whatever the method: its cost is exact.
            assert (row.error == 0) == (row.batches == 1)
            assert 1 / made.model.actions - 1e-9 <= row.best_share < 1
        rates = [row.rate for row in (*made.rows, made.online)]
        assert rates == sorted(rates, reverse=True)
        assert made.rows[-1].best_share < made.online.best_share < 1


def test_the_number_of_batches(campaign, trial):
    possible = 20_000 * 0.3
    enough = 0.95 * (possible - campaign.online.regret)
    earning = [row.batches for row in campaign.rows if possible - row.regret >= enough]
    assert campaign.batches == (earning or [4])[0]
    assert trial.batches == 3
    cheap = plan(units=10_000, actions=4, dim=6, batch_cost=20.0, max_batches=4)
    assert cheap.row.total_cost == min(row.total_cost for row in cheap.rows)
    assert cheap.row.total_cost == pytest.approx(cheap.row.regret + 20.0 * cheap.batches)
    near = campaign.near_online(0.5)
    assert near is None or campaign.rows[near - 1].of_online <= 1.5
    assert campaign.near_online(1e9) == 1
    assert campaign.near_online(0.0) is None


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan(trial):
    again = plan(units=10_000, actions=4, dim=6, batches=3, batch_cost=20.0, max_batches=4)
    assert again.as_dict() == trial.as_dict()
    other = plan(units=10_000, actions=4, dim=6, batches=3, max_batches=4, seed=1)
    assert other.row.regret != trial.row.regret


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.05, 2.0])
def test_tuned_is_never_worse_than_the_papers(effect):
    for kind in ({"features": 4}, {"dim": 8}):
        asked = {"units": 30_000, "actions": 3, "effect": effect, "effect_spread": 1, **kind}
        tuned = plan(**asked, batches=3, max_batches=3)
        paper = plan(**asked, batches=3, max_batches=3, grid="paper")
        for ours, theirs in zip(tuned.rows, paper.rows, strict=True):
            assert ours.regret <= theirs.regret * (1 + 1e-12)
        made = {grids.minimax, grids.geometric}
        allowed = {make(units=30_000, dim=paper.model.dim, batches=3).sizes for make in made}
        assert paper.rows[2].sizes in allowed
    one = next(line for line in tuned.sensitivity if line.factor == 1)
    assert one.regret == pytest.approx(tuned.row.regret)
    assert [line.factor for line in tuned.sensitivity] == [0.25, 0.5, 1, 2, 4]
    assert all(line.best <= min(line.regret, line.paper) for line in tuned.sensitivity)


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_a_prior_over_effects_lies_between():
    small, large = (
        plan(units=20_000, actions=3, dim=5, effect=effect, batches=2, max_batches=2)
        for effect in (0.1, 0.6)
    )
    both = plan(units=20_000, actions=3, dim=5, effect=[0.1, 0.6], batches=2, max_batches=2)
    assert both.model.scenarios == ((0.1, 1.0), (0.6, 1.0))
    low, high = sorted([small.grid.ends[0], large.grid.ends[0]])
    assert 0.7 * low <= both.grid.ends[0] <= 1.4 * high
    assert both.rows[0].regret == pytest.approx(20_000 * 0.35)


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_limits_are_kept():
    made = plan(units=5_000, actions=2, features=3, max_batches=3, min_batch=800)
    assert all(min(row.sizes) >= 800 for row in made.rows)
    made = plan(units=5_000, actions=2, features=3, max_batches=3, max_batch=2_000)
    assert [row.batches for row in made.rows] == [3]
    assert all(max(row.sizes) <= 2_000 for row in made.rows)
    made = plan(units=5_000, actions=2, features=3, max_batches=3, first_batch=700)
    assert all(row.sizes[0] == 700 for row in made.rows)
    assert [row.batches for row in made.rows] == [2, 3]
    made = plan(units=5_000, actions=2, features=3, waves=[500, 1_000, 1_500, 2_000])
    assert [row.batches for row in made.rows] == [1, 2, 3, 4]
    assert made.rows[3].sizes == (500, 1_000, 1_500, 2_000)
    assert {sum(made.rows[1].sizes[:1])} <= {500, 1_500, 3_000}


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_costs_do_not_depend_on_the_units_of_measure():
    plain = plan(units=5_000, actions=2, features=2, effect=0.2, batches=2, max_batches=2)
    cents = plan(
        units=5_000, actions=2, features=2, effect=20.0, noise=100.0, batches=2, max_batches=2
    )
    assert cents.grid == plain.grid
    assert cents.row.regret == pytest.approx(100 * plain.row.regret)
    assert cents.row.lower_bound == pytest.approx(100 * plain.row.lower_bound)


def test_arbitrary_contexts_get_ucb_in_equal_batches():
    made = plan(units=9_000, actions=3, dim=4, contexts="adversarial", batches=3)
    assert made.grid.sizes == (3_000, 3_000, 3_000)
    assert isinstance(made.policy, SBUCB)
    assert made.policy.first == "uniform"
    bounds = [row.lower_bound for row in made.rows]
    assert bounds == sorted(bounds, reverse=True)
    assert np.isnan(made.row.regret)
    assert all(np.isnan(row.rate) for row in made.rows)
    assert "Theorem 1 guarantees nothing here: its bound exceeds 18,000" in str(made)
    uneven = plan(
        units=10**9, actions=2, dim=2, contexts="adversarial", first_batch=9 * 10**8, batches=300
    )
    assert np.isnan(uneven.row.rate)
    assert "can be bounded, but not predicted" in str(made)
    json.dumps(made.as_dict(), allow_nan=False)
    assert plan(units=9_000, actions=3, dim=4, contexts="adversarial").batches == 8


def test_policies_are_compared_by_simulation(campaign):
    names = ["pure exploitation", "joint ridge", "least squares", "Thompson", "UCB"]
    names += ["pooled Thompson"]
    assert [one.name for one in campaign.candidates] == names
    assert campaign.policy == preferred(campaign.candidates)
    assert campaign.policy.first == "uniform"
    greedy = campaign.candidates[0]
    assert greedy.excess == 0
    # The headline's own trials, so that the two can never contradict each other.
    assert (greedy.regret, greedy.error) == (campaign.row.regret, campaign.row.error)
    for one in campaign.candidates[1:]:
        assert one.regret == pytest.approx(campaign.row.regret + one.excess)


@pytest.mark.thorough
def test_without_features_pure_exploitation_is_not_taken_on_trust():
    """Few arms, a long horizon: a first batch that misleads is never corrected by greed."""
    made = whole_plan(units=200_000, actions=5, features=0, effect=0.05, first_batch=100, batches=4)
    used = next(one for one in made.candidates if one.policy == made.policy)
    assert f": {rounded(used.regret)} ± " in str(made)
    assert "the table are for pure exploitation" in str(made)
    regret = {one.name: one.regret for one in made.candidates}
    assert regret["Thompson"] < 0.8 * regret["pure exploitation"]
    assert isinstance(made.policy, Lookahead)


SETTINGS = [
    ({"units": 5_000, "actions": 2, "dim": 5, "effect": 0.3, "batches": 2}, "normal"),
    ({"units": 5_000, "actions": 2, "features": 3, "effect": 0.3, "batches": 2}, "normal"),
    # Contexts that are not normal; docs/plan-accuracy.md has all laws beside all settings.
    ({"units": 10_000, "actions": 2, "features": 25, "effect": 0.4, "batches": 3}, "skewed"),
    *thorough(
        ({"units": 20_000, "actions": 10, "dim": 10, "effect": 0.4, "batches": 3}, "normal"),
        (
            {"units": 10_000, "actions": 4, "dim": 20, "effect": 1.0, "noise": 2.0, "batches": 4},
            "normal",
        ),
        ({"units": 20_000, "actions": 3, "features": 12, "batches": 3}, "normal"),
        ({"units": 20_000, "actions": 5, "features": 6, "effect": 0.5, "batches": 4}, "normal"),
        ({"units": 10_000, "actions": 2, "features": 25, "effect": 0.4, "batches": 3}, "normal"),
        ({"units": 10_000, "actions": 2, "features": 25, "effect": 0.4, "batches": 3}, "heavy"),
        (
            {"units": 10_000, "actions": 4, "dim": 20, "effect": 1.0, "noise": 2.0, "batches": 4},
            "uniform",
        ),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "law"), SETTINGS)
def test_predictions_agree_with_direct_simulation(asked, law):
    # Direct simulation is of one effect at a time.
    made = plan(**asked, effect_spread=1, max_batches=asked["batches"])
    environment = world(made.model, law)
    [(effect, noise)] = made.model.scenarios
    penalty = (noise / made.model.spread(effect)) ** 2
    trials = 60
    direct = np.array(
        [
            simulate(
                RBGL(ridge=penalty, first="uniform", ties="random"),
                environment,
                made.grid,
                seed=seed,
                method="direct",
                learn_last=False,
            ).regret[-1]
            for seed in range(trials)
        ]
    )
    error = np.hypot(direct.std(ddof=1) / np.sqrt(trials), made.row.error)
    gap = abs(direct.mean() - made.row.regret)
    assert gap < max(3 * error, 0.05 * made.row.regret)
    assert error < 0.08 * made.row.regret


@pytest.mark.slow
def test_fully_online_is_what_updates_after_every_unit_cost():
    """Least squares after each unit, behind a uniform start as long as the plan's."""
    made = plan(units=3_000, actions=3, dim=3, effect=0.5, effect_spread=1, max_batches=2)
    instances = [world(made.model).instance(np.random.SeedSequence(seed)) for seed in range(50)]
    # All trials side by side, each with three lengths of the uniform start.
    x, noise, theta = (
        np.repeat(np.array(values)[None], 3, axis=0)
        for values in (
            [instance.block(0).contexts[:3_000] for instance in instances],
            [instance.block(0).noise[:3_000] for instance in instances],
            [instance.theta[0] for instance in instances],
        )
    )
    first = np.array([np.random.default_rng(seed).integers(0, 3, 16) for seed in range(50)])
    start = np.array([[4], [8], [16]])
    gram, moment = np.tile(1e-9 * np.eye(3), (3, 50, 1, 1)), np.zeros((3, 50, 3))
    regret = np.zeros((3, 50))
    for t in range(3_000):
        means = np.einsum("...ad,...d->...a", x[:, :, t], theta)
        guess = np.linalg.solve(gram, moment[..., None])
        a = (x[:, :, t] @ guess)[..., 0].argmax(axis=2)
        if t < 16:
            a = np.where(t < start, first[:, t], a)
        gained = np.take_along_axis(means, a[..., None], axis=2)[..., 0]
        row = np.take_along_axis(x[:, :, t], a[..., None, None], axis=2)[:, :, 0]
        regret += means.max(axis=2) - gained
        gram += row[..., :, None] * row[..., None, :]
        moment += (gained + noise[:, :, t])[..., None] * row
    best = regret[regret.mean(axis=1).argmin()]
    slack = 3 * best.std(ddof=1) / np.sqrt(50) + 0.05 * best.mean()
    assert slack < 0.3 * best.mean()
    assert made.online.regret == pytest.approx(best.mean(), abs=slack)


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {"units": 10**12, "actions": 3, "dim": 3},
        {"units": 30, "actions": 2, "features": 1},
        {"units": 4, "actions": 2, "dim": 2},
        {"units": 1, "actions": 2, "features": 0},
        {"units": 500, "actions": 30, "features": 1},
        {"units": 10**6, "actions": 2, "features": 3, "effect": 1e-6},
        {"units": 10**4, "actions": 2, "dim": 1, "effect": 1e4},
        {"units": 10_000, "actions": 2, "features": 2, "first_batch": 9_999},
    ],
)
def test_extremes_have_answers(asked):
    made = plan(max_batches=3, **asked)
    assert made.units == asked["units"]
    for row in made.rows:
        assert 0 <= row.lower_bound <= row.regret
        assert 0 <= row.best_share <= 1
    assert len(made.sensitivity) == 5
    json.dumps(made.as_dict(), allow_nan=False)
    assert str(made)


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_a_billion_units_are_no_harder():
    made = plan(units=10**9, actions=3, dim=4, batches=3, max_batches=3)
    assert made.units == 10**9
    assert made.row.earned > 0.999
    block = plan(units=10**9, actions=3, features=6, max_batches=3)
    assert block.online.regret < block.rows[-1].regret
    assert block.online.error < 0.1 * block.online.regret


def test_long_tables_have_every_doubling():
    waves = BatchLimits(units=6_000, waves=(100,) * 60)
    assert numbers_of(waves, None, None) == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 60]
    assert numbers_of(waves, 20, None) == [1, 2, 3, 4, 5, 6, 7, 8, 16, 20, 32, 60]
    large = BatchLimits(units=60_000, largest=5_000)
    assert numbers_of(large, None, None) == [12]
    assert numbers_of(BatchLimits(units=9_000, largest=5_000, first=1_000), None, 4) == [3, 4]


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_replanning_uses_what_was_learned():
    before = plan(units=9_000, actions=2, features=2, effect=0.3, batches=3, max_batches=3)
    rng = np.random.default_rng(2)
    first = before.grid.ends[0]
    rows = np.column_stack([np.ones(first), 5 + rng.standard_normal((first, 2)) @ [[2, 1], [0, 3]]])
    actions = rng.integers(0, 2, first)
    true = np.array([[0.0, 0.1, 0.0], [0.3, 0.0, -0.05]])
    rewards = (rows * true[actions]).sum(axis=1) + rng.standard_normal(first)
    known = Statistics.zero(cells=2, dim=3).add(rows, rewards, actions)
    after = replan(before, seen=first, statistics=known, batches=2)
    assert after.seen == first
    assert after.units == 9_000 - first
    assert after.policy == before.policy
    assert after.rows[0].regret < 0.7 * after.units * 0.3
    sure = Statistics(
        known.gram * 1e6, known.moment * 1e6, known.squares * 1e6, known.count * 10**6
    )
    assert replan(before, seen=first, statistics=sure, batches=2).row.regret < 1
    assert f"after the {first:,} seen so far" in str(after)
    with refused("invalid-argument", field="seen"):
        replan(before, seen=9_000, statistics=known)
    with refused("invalid-argument", field="statistics", received="2 cells and dimension 4"):
        replan(before, seen=10, statistics=Statistics.zero(cells=2, dim=4))
    units = rows * [1.0, 1e4, 1e-3]
    measured = Statistics.zero(cells=2, dim=3).add(units, rewards, actions)
    alike = replan(before, seen=first, statistics=measured, batches=2)
    assert alike.row.regret == pytest.approx(after.row.regret)
    constant = np.column_stack([rows[:, :2], np.full(first, 3.0)])
    flat = Statistics.zero(cells=2, dim=3).add(constant, rewards, actions)
    with refused("invalid-argument", field="statistics"):
        replan(before, seen=first, statistics=flat)
    shifted = Statistics.zero(cells=2, dim=3).add(2 * rows, rewards, actions)
    with refused("invalid-argument", field="statistics", received="mean square 4.0"):
        replan(before, seen=first, statistics=shifted)


@pytest.mark.usefixtures("few_trials")
def test_replanning_the_shared_model():
    before = plan(units=6_000, actions=3, dim=3, effect=0.3, batches=3, max_batches=3)
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((500, 3))
    rewards = rows @ [0.2, 0.0, -0.1] + rng.standard_normal(500)
    known = Statistics.zero(cells=1, dim=3).add(rows, rewards, np.zeros(500, dtype=np.int64))
    after = replan(
        before, seen=500, statistics=known, covariance=np.eye(3), batches=2, max_batches=4
    )
    regret = [row.regret for row in after.rows]
    assert regret == sorted(regret, reverse=True)
    assert after.online.regret <= regret[-1] * 1.02
    scaled = np.diag([100.0, 1.0, 0.01])
    other = Statistics.zero(cells=1, dim=3).add(
        rows @ scaled, rewards, np.zeros(500, dtype=np.int64)
    )
    alike = replan(
        before, seen=500, statistics=other, covariance=scaled @ scaled, batches=2, max_batches=4
    )
    assert alike.row.regret == pytest.approx(after.row.regret)
    with refused("invalid-argument", field="covariance"):
        replan(before, seen=500, statistics=known)


NONSENSE = [
    ({"units": 50, "dim": 10, "grid": "paper"}, "invalid-grid", "units", "50"),
    ({"actions": 1}, "invalid-argument", "actions", "1"),
    ({"batches": 20_000}, "invalid-grid", "batches", "20000"),
    ({"effect": -0.1}, "invalid-argument", "effect", "-0.1"),
    ({"effect": 0}, "invalid-argument", "effect", "0"),
    ({"effect": []}, "invalid-argument", "effect", "[]"),
    ({"noise": float("nan")}, "invalid-argument", "noise", "nan"),
    (
        {"min_batch": 4_000, "batches": 3},
        "invalid-grid",
        "batches",
        "3",
    ),
    ({"min_batch": 40_000}, "invalid-grid", "min_batch", "40000"),
    ({"max_batch": 1_000, "max_batches": 5}, "invalid-grid", "batches", "1 to 5"),
    ({"first_batch": 10, "min_batch": 100}, "invalid-grid", "first_batch", "10"),
    ({"first_batch": 900, "max_batch": 500}, "invalid-grid", "first_batch", "900"),
    ({"units": 10**20}, "invalid-argument", "units", "100000000000000000000"),
    ({"waves": 100}, "invalid-argument", "waves", "100"),
    ({"waves": [100, 200]}, "invalid-grid", "waves", "300"),
    (
        {"waves": [5_000, 5_000], "min_batch": 2},
        "invalid-argument",
        "waves",
        "waves and one of these",
    ),
    (
        {"features": None},
        "invalid-argument",
        "features or dim",
        "neither",
    ),
    ({"dim": 3, "features": 3}, "invalid-argument", "features or dim", "both"),
    ({"contexts": "sunny"}, "invalid-argument", "contexts", "'sunny'"),
    ({"grid": "best"}, "invalid-argument", "grid", "'best'"),
    ({"kappa": 2}, "invalid-argument", "kappa", "2"),
    ({"batch_cost": -1}, "invalid-argument", "batch_cost", "-1"),
    ({"within": 2}, "invalid-argument", "within", "2"),
]


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize("kind", [{"features": 24}, {"dim": 25}])
def test_few_units_for_many_parameters_have_a_plan_that_says_so(kind):
    asked = {"actions": 2, "batches": 2, "max_batches": 2, "compare": False, **kind}
    made = plan(units=400, **asked)
    assert sum(made.grid.sizes) == 400
    # Chance alone earns nothing; a perfect assignment earns all.
    assert 0.2 < made.row.earned < 0.8
    plain = replace(made.request.judging, penalty=0.0).rates(made.grid.sizes)
    assert made.row.regret < 0.98 * plain.total(made.grid.sizes)[0]
    assert "Not known: with 400 units" in str(made)
    assert np.isnan(made.row.rate)
    json.dumps(made.as_dict(), allow_nan=False)
    assert "Not known" not in str(plan(units=625, **asked))


@pytest.mark.parametrize(("change", "code", "field", "received"), NONSENSE)
def test_nonsense_is_refused_kindly(change, code, field, received):
    asked = {"units": 10_000, "actions": 3, "features": 3, **change}
    if "dim" in change and "features" not in change:
        asked.pop("features")
    with refused(code, field=field, received=received):
        plan(**asked)


@pytest.mark.usefixtures("few_trials")
def test_a_sample_speaks_of_diversity():
    rng = np.random.default_rng(1)
    good = Sample(rng.standard_normal((400, 3)), ["age", "visits", "spend"])
    assert good.dim == 3
    assert good.kappa > 0.5
    assert good.evidence()["diverse"]
    assert good.verdict().endswith("Here they do, as far as a sample can tell.")
    base = rng.standard_normal(400)
    poor = Sample(np.column_stack([base, base + 0.01 * rng.standard_normal(400)]))
    assert not poor.evidence()["diverse"]
    assert "doubtful: some columns nearly repeat others" in poor.verdict()
    rare = Sample(np.column_stack([base, np.arange(400) < 4]))
    assert not rare.evidence()["diverse"]
    assert "only 1.0% of units differ noticeably" in rare.verdict()
    made = plan(units=5_000, actions=2, features=good, batches=2, max_batches=2)
    assert made.model.dim == 4
    assert made.as_dict()["sample"]["directions"] == 3
    assert good.verdict() in str(made)
    whitened = poor.whitened
    np.testing.assert_allclose(whitened.T @ whitened / 400, np.eye(2), atol=1e-6)
    with refused("invalid-argument", field="values", received="constant columns only"):
        Sample(np.ones((5, 2))).dim  # noqa: B018
    with refused("invalid-argument", field="values", received="5 rows"):
        Sample(rng.standard_normal((5, 6))).dim  # noqa: B018
    short = Sample(rng.standard_normal((20, 3)))
    assert not short.evidence()["diverse"]
    assert "20 rows are few for 3 directions (30 would suffice)" in short.verdict()
    with refused("invalid-argument", field="values", received="shape (1, 2)"):
        Sample(np.ones((1, 2)))
    with refused("invalid-argument", field="columns"):
        Sample(np.ones((3, 2)), ["a"])


@pytest.mark.slow
def test_plans_as_words_tables_and_pictures(campaign, tmp_path):
    text = str(campaign)
    assert text.startswith(f"20,000 units, 3 actions: {campaign.batches} batches, with ")
    assert "uniformly at random" in text
    assert "a perfect assignment gains 0.3 per unit" in text
    table = campaign.table()
    assert isinstance(table, pl.DataFrame)
    assert table["batches"].to_list() == [1, 2, 3, 4, None]
    assert table["lower_bound"].null_count() == 1
    values = json.loads(json.dumps(campaign.as_dict(), allow_nan=False))
    assert values["ends"] == list(campaign.grid.ends)
    assert values["policy"]["name"] == type(campaign.policy).__name__
    assert campaign.save(tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in campaign.save(tmp_path / "plan.svg").read_text(encoding="utf-8")
    written = campaign.save(tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<script" not in written
    assert 'src="http' not in written
    for words in str(campaign).splitlines():
        assert html.escape(words.strip().removesuffix(".")) in written
    assert f">{campaign.batches} *</td>" in written
    with refused("invalid-argument", field="path"):
        campaign.save(tmp_path / "plan.pdf")


def test_a_plans_picture_shows_errors_units_and_the_bound(campaign):
    [costs], [timeline] = campaign.chart().rows
    assert costs.y.title == "expected regret, in units of reward (noise: sd 1)"
    points = [mark for mark in costs.marks if isinstance(mark, PointMark)]
    ringed = [mark.x for mark in points if mark.fill == "none"]
    assert ringed == [campaign.batches - 0.5]
    spreads = [mark.points for mark in costs.marks if isinstance(mark, LineMark)]
    labels = [mark.text for mark in costs.marks if isinstance(mark, TextMark)]
    for row, label in zip(campaign.rows, labels[1:], strict=True):
        middle = row.batches - 0.5
        [(low, high)] = [
            (low, high)
            for (x, low), (to_x, high), *_ in spreads
            if (x, to_x) == (middle, middle) and high >= row.regret
        ]
        assert high - row.regret == pytest.approx(2 * row.error)
        assert low <= row.regret
        assert ("±" in label) == (row.batches > 1)
    bars = [mark for mark in timeline.marks if isinstance(mark, BarMark)]
    assert [mark.x[1] - mark.x[0] for mark in bars] == list(campaign.grid.sizes)
    assert {mark.colour for mark in bars} == {policy_colour(type(campaign.policy).__name__)}


def test_the_guarantees_have_a_picture_and_a_page_too():
    worst = plan(units=5_000, actions=2, dim=4, contexts="adversarial", max_batches=3)
    title = worst.chart().rows[0][0].y.title
    assert title.startswith("guaranteed regret, in units of reward")
    assert "mean rewards lie between -1 and 1 times the noise" in as_html(worst.document())


def test_grids_are_judged_on_other_trials_than_they_were_tuned_on(campaign):
    request = Request(
        model=campaign.model, limits=BatchLimits(units=20_000),
        numbers=[2], batches=2, kind="tuned",
        batch_cost=None, within=0.05, seed=0, sample=None, law=EffectLaw(guesses=(0.3,)),
    )  # fmt: skip
    assert not np.isin(request.tuning.theta, request.judging.theta).any()
    sizes = campaign.rows[1].sizes
    assert request.judging.rates(sizes).total(sizes)[0] == pytest.approx(campaign.rows[1].regret)


@pytest.mark.usefixtures("few_trials")
def test_progress_is_told_from_the_first_grid_to_the_end():
    told = []
    plan(units=500, actions=2, features=0, max_batches=3, progress=told.append)
    assert told == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_a_quick_answer_takes_few_trials_and_no_comparison():
    asked = {"units": 4_000, "actions": 2, "features": 1, "batches": 2}
    quick, whole = whole_plan(**asked, quick=True), whole_plan(**asked, max_batches=2)
    assert [row.batches for row in quick.rows] == [1, 2, 3, 4]
    assert quick.candidates == ()
    assert isinstance(quick.policy, JointRidge)
    assert 4 * quick.request.judging.trials == whole.request.judging.trials
    assert abs(quick.row.regret - whole.row.regret) < 4 * (quick.row.error + whole.row.error)
    assert "Other policies" not in str(quick)
    assert [row.batches for row in whole_plan(**{**asked, "batches": 6}, quick=True).rows][-1] == 6


@pytest.mark.usefixtures("few_trials")
def test_batches_are_the_same_without_a_comparison_of_policies():
    asked = {"units": 3_000, "actions": 3, "features": 2, "batches": 2, "max_batches": 2}
    whole, alone = whole_plan(**asked), whole_plan(**asked, compare=False)
    assert alone.grid == whole.grid
    assert whole.candidates
    assert alone.candidates == ()
    assert alone.policy == whole.candidates[1].policy
