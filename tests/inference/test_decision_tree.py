"""Trees: the best of all, against every tree tried unit by unit; and their honest evaluation."""

import numpy as np
import pytest

from seqbatch.inference import PlannedDesign, Rows, summarise, within_segments
from seqbatch.inference import decision_tree as trees
from seqbatch.inference.contrasts import Lift
from seqbatch.inference.decision_tree import (
    BINS,
    PairSums,
    TreeFeature,
    best_tree,
    bins_of,
    distil,
)
from seqbatch.inference.estimates import estimate_wave
from seqbatch.inference.rule_value import GreedyRule
from seqbatch.inference.summary import Declared, statistics_by_wave
from seqbatch.inference.tree_value import judge_tree
from tests.inference.campaigns import cut
from tests.oracles import decision_tree as oracle

CATEGORY = TreeFeature("zip", (3, 4, 5))
FEATURES = [TreeFeature("age", (1,)), TreeFeature("spend", (2,)), CATEGORY]


def population(seed, n=60, K=3):
    """Return units with two numbers and a category of four levels, and a linear fit."""
    random = np.random.default_rng(seed)
    levels = np.eye(4)[random.integers(0, 4, n)][:, :3] - 0.25
    x = np.column_stack([np.ones(n), random.normal(size=(n, 2)).round(1), levels])
    rows = Rows.of(x, np.zeros(n, dtype=int), np.full((n, K), 1 / K), np.zeros(n))
    return rows, random.normal(size=(K, x.shape[1]))


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_all_trees(seed, monkeypatch):
    """No tree of depth two has a larger sum of scores, tried one by one over the units."""
    monkeypatch.setattr(trees, "LEAST_UNITS", 5)
    rows, theta = population(seed)
    less, among = bool(seed % 2), np.array([True, True, seed != 2])
    bins = bins_of(rows, FEATURES)
    assert max(one.count for one in bins) <= BINS
    tree = distil([rows], theta, bins, among=among, less=less)
    scores = (rows.features @ theta.T * (-1 if less else 1)).tolist()
    codes = np.column_stack([one.codes(rows.features) for one in bins]).tolist()
    best = oracle.best_value(
        codes, scores, [(one.count, one.category) for one in bins], np.flatnonzero(among), 5
    )
    actions = tree.actions(rows)
    assert oracle.value(actions, scores) == pytest.approx(best, abs=1e-9)
    assert set(actions) <= set(np.flatnonzero(among))
    sizes = np.bincount(tree.levels(rows), minlength=len(tree.leaves))
    assert sizes.tolist() == [leaf.units for leaf in tree.leaves]
    assert min(sizes) >= 5


def test_sums_merge_over_pieces_in_any_order():
    rows, theta = population(3, n=400)
    bins, scores = bins_of(rows, FEATURES), rows.features @ theta.T
    whole = PairSums.zero(bins, 3).add(rows.features, scores)
    parts = [
        PairSums.zero(bins, 3).add(one.features, one.features @ theta.T)
        for one in cut(rows, [100, 250])
    ]
    merged = parts[2].merge(parts[0]).merge(parts[1])
    assert merged.totals == pytest.approx(whole.totals, abs=1e-9)
    assert merged.whole == pytest.approx(whole.whole)
    again = distil([cut(rows, [7, 300])], theta, bins)
    assert again.actions(rows).tolist() == best_tree(whole).actions(rows).tolist()


def test_leaves_are_large_and_nodes_with_equal_actions_are_merged():
    rows, theta = population(5, n=3_000)
    tree = distil([rows], theta, bins_of(rows, FEATURES))
    assert all(leaf.units >= 50 for leaf in tree.leaves)
    # One action is best for everybody: there is one leaf.
    theta[:] = 0.0
    theta[1, 0] = 1.0
    alone = distil([rows], theta, bins_of(rows, FEATURES))
    assert [leaf.action for leaf in alone.leaves] == [1]
    assert alone.root == alone.whole
    # Too few units for two leaves, and nothing that varies.
    few, theta = population(5, n=90)
    assert len(distil([few], theta, bins_of(few, FEATURES)).leaves) == 1
    assert len(distil([few], theta, []).leaves) == 1


def test_a_unit_gets_only_what_it_may_get():
    rows, theta = population(6, n=1_000)
    random = np.random.default_rng(1)
    may = random.random((1_000, 3)) < 0.6
    may[~may.any(axis=1), 0] = True
    own = Rows(rows.features, rows.actions, rows.probabilities, rows.outcomes, eligible=may)
    tree = distil([own], theta, bins_of(own, FEATURES))
    actions = tree.actions(own)
    assert may[np.arange(1_000), actions].all()
    orders = np.array([leaf.order for leaf in tree.leaves])[tree.levels(own)]
    first = [next(a for a in order if may[i, a]) for i, order in enumerate(orders)]
    assert actions.tolist() == first


def test_bins_are_few_and_split_at_quantiles():
    random = np.random.default_rng(2)
    x = np.column_stack([np.ones(5_000), random.exponential(size=5_000), np.arange(5_000) % 3])
    rows = Rows.of(x, np.zeros(5_000, dtype=int), np.ones((5_000, 1)), np.zeros(5_000))
    many, few = bins_of(rows, [TreeFeature("a", (1,)), TreeFeature("b", (2,))])
    counts = np.bincount(many.codes(x))
    assert len(counts) == BINS
    assert counts.max() - counts.min() <= 2 * 2 * 0.005 * 5_000
    assert few.cuts.tolist() == [0.5, 1.5]
    # More levels than bins: the rarest share the last one.
    share = 0.7 ** np.arange(20)
    levels = random.choice(20, 5_000, p=share / share.sum())
    one_hot = np.column_stack([np.ones(5_000), np.eye(20)[levels] - 0.05])
    [zips] = bins_of(
        Rows.of(one_hot, np.zeros(5_000, dtype=int), np.ones((5_000, 1)), np.zeros(5_000)),
        [TreeFeature("zip", tuple(range(1, 21)))],
    )
    assert zips.codes(one_hot).tolist() == np.minimum(levels, BINS - 1).tolist()


# ----------------------------------------------------------------------
# Judged on a wave that the tree has not seen.


def campaign(seed, *, rate=None, effect=1.0, sizes=(500, 600, 900), K=3, groups=None):
    """Return waves of a campaign that learns greedily, and each unit's means under all actions."""
    random = np.random.default_rng([seed, 5])
    slopes = effect * random.normal(size=(K, 2))
    gram, moment = np.tile(np.eye(3), (K, 1, 1)), np.zeros((K, 3))
    waves, means = [], []
    for place, n in enumerate(sizes):
        x = np.column_stack([np.ones(n), random.normal(size=(n, 2))])
        theta = np.linalg.solve(gram, moment[:, :, None])[:, :, 0]
        best = np.eye(K)[(x @ theta.T).argmax(axis=1)]
        p = np.full((n, K), 1 / K) if place == 0 else 0.16 / K + 0.84 * best
        actions = (random.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
        mean = 0.5 * x[:, [1]] + x[:, 1:] @ slopes.T
        own = mean[np.arange(n), actions] + random.normal(size=n)
        if rate is not None:
            mean = np.full((n, K), rate)
            own = (random.random(n) < rate).astype(float)
        for a in range(K):
            gram[a] += x[actions == a].T @ x[actions == a]
            moment[a] += x[actions == a].T @ own[actions == a]
        waves.append(Rows.of(x, actions, p, own, groups=None if groups is None else groups(x)))
        means.append(mean)
    return waves, means


def judged(waves, **options):
    summaries = summarise(waves)
    theta = GreedyRule.fitted(statistics_by_wave(summaries[:-1])).coefficients
    bins = bins_of(waves[0], [TreeFeature("x", (1,)), TreeFeature("z", (2,))])
    return judge_tree(distil(waves[:-1], theta, bins), waves[-1], summaries, **options)


def test_leaves_are_judged_as_declared_segments_are():
    waves, _ = campaign(1)
    found = judged(waves)
    tree = found.tree
    assert len(tree.leaves) > 1
    grouped = [
        Rows.of(one.features, one.actions, one.probabilities, one.outcomes,
                groups={"leaf": tree.levels(one)})
        for one in waves
    ]  # fmt: skip
    partition = Declared("leaf")
    last = summarise(grouped, partitions=[partition])[-1:]
    for one in found.leaves:
        if not one.action:
            assert not one.interval.known
            continue
        declared = within_segments(last, Lift(one.action), [partition]).findings[one.leaf]
        assert (one.interval.low, one.interval.high) == pytest.approx(
            (declared.interval.low, declared.interval.high)
        )
    p = sorted(one.interval.p_value for one in found.leaves if one.action)
    adjusted = sorted(one.adjusted_p for one in found.leaves if one.action)
    assert adjusted[0] == pytest.approx(min(1.0, p[0] * len(p)))


def test_the_gain_over_control_is_the_mean_of_the_leaves_lifts():
    waves, _ = campaign(2)
    found = judged(waves)
    parts = [one.share * one.interval.estimate for one in found.leaves if one.action]
    assert found.over_control.estimate == pytest.approx(sum(parts))
    assert sum(found.shares) == pytest.approx(1)
    # In a wave that is cut into pieces, nothing changes.
    again = judged([waves[0], waves[1], cut(waves[2], [100, 101, 600])])
    assert again.over_single.low == pytest.approx(found.over_single.low)
    assert again.over_control.high == pytest.approx(found.over_control.high)


def test_a_tree_of_one_leaf_has_the_lift_of_its_action():
    waves, _ = campaign(3)
    summaries = summarise(waves)
    bins = bins_of(waves[0], [TreeFeature("x", (1,))])
    theta = np.zeros((3, 3))
    theta[2, 0] = 1.0
    found = judge_tree(distil(waves[:-1], theta, bins), waves[-1], summaries)
    lift = estimate_wave(summaries[-1], Lift(2))
    assert found.over_control.estimate == pytest.approx(lift.estimate)
    assert found.over_control.error == pytest.approx(np.sqrt(1.1 * lift.variance))
    assert not found.over_single.known


def test_too_few_events_give_no_interval():
    waves, _ = campaign(4, rate=0.02)
    design = PlannedDesign(units=900, actions=3, cost=18, gain_cost=6, least=0.05)
    found = judged(waves, design=design)
    unknown = [found.over_control, found.over_single, *(one.interval for one in found.leaves)]
    assert not any(one.known for one in unknown)
    assert any(one.few for one in unknown)


def test_intervals_hold_for_a_tree_chosen_by_earlier_waves():
    missed, known = np.zeros(2, dtype=int), 0
    for seed in range(120):
        effect = 0.0 if seed % 2 else 0.1
        waves, means = campaign(1_000 + seed, effect=effect, sizes=(200, 250, 500))
        found, last = judged(waves), waves[-1]
        wanted, single = found.tree.actions(last), found.tree.single.actions(last)
        every = np.arange(last.count)
        truth = [
            (means[-1][every, wanted] - means[-1][every, other]).mean()
            for other in (np.zeros_like(wanted), single)
        ]
        for place, one in enumerate((found.over_control, found.over_single)):
            if one.known:
                known += 1
                missed[place] += not one.low <= truth[place] <= one.high
    assert known > 150
    # At 5%, more than 15 of 120 would have a probability below 0.001.
    assert missed.max() <= 15
