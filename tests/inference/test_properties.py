"""What must hold whatever the data: order, pieces, scale, refusals, words."""

import tracemalloc
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from scipy import stats

from seqbatch.inference import (
    AsRun,
    Declared,
    Gain,
    GainOverRandom,
    Lift,
    Mean,
    Pooled,
    Rows,
    anytime,
    boundaries,
    drift,
    estimate_wave,
    gain_over_best,
    judge_next_rule,
    latest_lift,
    lift_coefficients,
    look,
    naive_lift,
    plan_of_shares,
    pool,
    pool_by_size,
    run_value,
    share_when_assigned,
    simultaneous_lifts,
    strongest_splits,
    summarise,
    within_segments,
)
from seqbatch.inference.intervals import StudentShape, quantile, student
from seqbatch.inference.rare_events import Part, RareShape
from seqbatch.inference.score_sums import ScoreColumns, Weighing
from tests.inference.campaigns import campaign, cut, logged, rows_of
from tests.oracles.campaigns import waves_of
from tests.refusals import refused

SHARES = (0.5, 0.2, 0.3)
LARGE = (600, 500, 700)


def everything(waves):
    """Return all numbers that do not depend on the order of rows."""
    summaries = summarise(waves, partitions=[Declared("half")])
    intervals = [pool(summaries, contrast, SHARES) for contrast in (Mean(0), Lift(1), Lift(2))]
    made = run_value(summaries)
    intervals += [made.value, made.over_random, made.over_best, *made.over_actions]
    intervals += lift_coefficients(waves, 1, SHARES).intervals
    intervals += [naive_lift(summaries[-1], 1), *simultaneous_lifts(summaries)]
    segments = within_segments(summaries, Lift(2), [Declared("half")])
    intervals += [one.interval for one in segments.findings]
    intervals += [latest_lift(summaries, Lift(1)).interval]
    return [
        *(number for one in intervals for number in (one.estimate, one.low, one.high)),
        *(one.p_value for one in drift(summaries).tests),
        *summaries[-1].scarce.tolist(),
    ]


@pytest.mark.parametrize("kind", ["normal", "binary", "common", "amount"])
@pytest.mark.parametrize("clusters", [None, "cluster"])
def test_neither_order_nor_pieces_matter(clusters, kind):
    waves = logged(waves_of(seed=3, kind=kind), clusters=clusters)
    random = np.random.default_rng(0)
    shuffled = [rows.some(random.permutation(rows.count)) for rows in waves]
    pieces = [cut(rows, [1, 20, 20, 33]) for rows in waves]
    whole = everything(waves)
    assert everything(shuffled) == pytest.approx(whole, rel=1e-8)
    assert everything(pieces) == pytest.approx(whole, rel=1e-8)


def test_the_next_rule_does_not_depend_on_pieces():
    waves = campaign(seed=3)
    one = judge_next_rule(waves[-1], summarise(waves)).gain
    parts = [cut(rows, [7, 19]) for rows in waves]
    other = judge_next_rule(parts[-1], summarise(parts)).gain
    assert (one.estimate, one.low) == pytest.approx((other.estimate, other.low))


def test_memory_does_not_grow_with_the_units():
    class Pieces:
        """Units that are made when they are asked for, and forgotten."""

        def __init__(self, count):
            self.count = count

        def __iter__(self):
            for number in range(self.count):
                yield rows_of(np.random.default_rng(number), 2_000)

    def peak(count):
        waves = [Pieces(count), Pieces(count)]
        tracemalloc.start()
        summaries = summarise(waves, partitions=[Declared("half")])
        judge_next_rule(waves[-1], summaries)
        lift_coefficients(waves, 1, (0.5, 0.5))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    # The least of two: other threads, which load compiled code say, may add theirs to one.
    # Pieces that are held would add to each, and make it some four times as much.
    assert min(peak(12) for _ in range(2)) < 2 * min(peak(2) for _ in range(2))


def test_outcomes_in_other_units_of_measure():
    """Ten times the outcomes, and 3 more: ten times the lift, but for the tiny penalty."""
    waves = campaign(seed=2, sizes=LARGE)
    scaled = [
        Rows.of(one.features, one.actions, one.probabilities, 3 + 10 * one.outcomes)
        for one in waves
    ]
    lift, ten = (pool(summarise(each), Lift(1), SHARES) for each in (waves, scaled))
    assert ten.estimate == pytest.approx(10 * lift.estimate, rel=1e-3)
    assert ten.error == pytest.approx(10 * lift.error, rel=1e-3)


def test_a_trial_without_adaptation_by_hand():
    """One wave, no features, no missing outcomes: the scores' mean is the difference in means.

    Four units, p = 1/2. Leave-one-out means are the other unit's outcome, so that scores are
    G_i = 2 Y_i - other under the own action; the lift's scores have mean (5 + 7 - 1 - 3)/2 = 4.
    """
    rows = Rows.of(np.ones((4, 1)), [0, 0, 1, 1], np.full((4, 2), 0.5), [1.0, 3.0, 5.0, 7.0])
    [summary] = summarise([rows])
    made = estimate_wave(summary, Lift(1))
    assert made.estimate == pytest.approx(4, rel=1e-3)
    # e = ±2 in each arm: sigma^2 = 4; C = 4, n = 4, so that 4 is the variance expected.
    # The shift of a unit is the mean of the other residuals and of one 0: +-1/4.
    assert summary.residuals.variance == pytest.approx((2 + 1 / 4) ** 2, rel=2e-3)
    assert made.cost == 4
    # arms^2 n/Qt = 4 * 4/4 units; kurtosis 1 within actions keeps all of their weight.
    assert made.df == pytest.approx(4, rel=1e-3)
    assert made.effective == pytest.approx(2)
    # Own scores: 2Y - other = -1, 5, 3, 9, less the shift times 1/p - 1; the other action's
    # prediction is 6 or 2, with the shift.
    shift = np.array([1, -1, 1, -1]) / 4
    own = np.array([-1, 5, 3, 9]) - shift
    s = np.array([6, 6, 0, 0]) - np.array([0, 0, 2, 2]) + shift * [1, 1, -1, -1]
    s += own * [-1, -1, 1, 1]
    assert made.raw_variance == pytest.approx(s.var(ddof=1) / 4, rel=1e-2)
    expected = (4 * s.var(ddof=1) / 4 + 10 * (9 / 4) ** 2) / 14
    assert made.variance == pytest.approx(expected, rel=1e-2)


def test_shares_by_hand():
    plan = plan_of_shares([100, 200], actions=2, randomised=0.2, floor=0.05)
    low = 0.2 / 2 + 0.8 * 0.05
    later = 0.5 / (1 - low) + 0.5 / low
    assert plan.costs == pytest.approx((2, later))
    assert plan.shares[0] == pytest.approx((100 / 2) / (100 / 2 + 200 / later))
    assert plan.information == pytest.approx((plan.shares[0], 1.0))
    careful = plan_of_shares([100, 200], actions=2, randomised=0.2, floor=0.05, policy="thompson")
    assert careful.costs[1] == pytest.approx((2 * later) ** 0.5)
    assert "Shares of the variance by wave: " in str(plan)
    assert "planned 1/p" in plan._repr_html_()


def test_a_greedy_last_wave_is_planned_as_one():
    told = {"actions": 3, "randomised": 0.1, "floor": 0.02}
    plain, drawn, mixed = (
        plan_of_shares([100, 200, 300], **told, **how).designs
        for how in ({}, {"policy": "thompson"}, {"policy": "thompson", "ends_greedily": True})
    )
    assert mixed == (*drawn[:2], plain[2])
    assert drawn[2] != plain[2]


def test_shares_set_as_waves_come_are_the_planned_ones_where_all_goes_to_plan():
    plan = plan_of_shares([100, 200, 300], actions=3, randomised=0.1, floor=0.02)
    information = [n / d for n, d in zip(plan.sizes, plan.costs, strict=True)]
    spent = []
    for wave in range(3):
        rest = sum(information[wave + 1 :])
        spent.append(
            share_when_assigned(
                spent=spent, units=plan.sizes[wave], cost=plan.costs[wave], planned_rest=rest
            )
        )
    assert spent == pytest.approx(plan.shares)


def test_a_policy_that_never_explores_has_no_plan():
    with refused("invalid-argument", field="randomised"):
        plan_of_shares([10, 10], actions=2, randomised=0, floor=0)


def test_clusters_widen_what_copies_of_units_would_narrow():
    """Each unit four times is one unit: its cluster knows, plain errors would be halved."""
    waves = campaign(seed=4, sizes=(200, 200), missing=0.0)
    copies = []
    for number, rows in enumerate(waves):
        places = np.repeat(np.arange(rows.count), 4)
        names = places + 1_000 * number
        copies.append(
            Rows.of(
                rows.features[places],
                rows.actions[places],
                rows.probabilities[places],
                rows.outcomes[places],
                clusters=names,
            )
        )
    once, copied = summarise(waves)[0], summarise(copies)[0]
    single, four = (estimate_wave(one, Lift(1)).raw_variance for one in (once, copied))
    assert four == pytest.approx(single, rel=0.06)


def test_clusters_of_one_unit_change_nothing():
    waves = campaign(seed=4)
    alone = [
        Rows.of(
            rows.features,
            rows.actions,
            rows.probabilities,
            rows.outcomes,
            clusters=np.arange(rows.count) + 1_000 * place,
        )
        for place, rows in enumerate(waves)
    ]
    plain, own = (pool(summarise(each), Lift(1), SHARES) for each in (waves, alone))
    assert own.estimate == pytest.approx(plain.estimate)
    assert own.error == pytest.approx(plain.error)
    assert own.df == pytest.approx(plain.df)


def test_clusters_widen_every_answer():
    """Each unit four times: single errors would be halved, those of clusters are as they were."""
    rows = campaign(seed=4, sizes=(400,), missing=0.0)[0]
    places = np.repeat(np.arange(400), 4)
    parts = (rows.features, rows.actions, rows.probabilities, rows.outcomes)
    copies = [part[places] for part in parts]
    plain, known = Rows.of(*copies), Rows.of(*copies, clusters=places)
    for asked in (_next_rule_error, _coefficient_error):
        once, careless, careful = (asked(one) for one in (rows, plain, known))
        assert careless == pytest.approx(once / 2, rel=0.1)
        assert careful == pytest.approx(once, rel=0.1)


def _next_rule_error(rows):
    return judge_next_rule(rows, summarise([rows])).gain.error


def _coefficient_error(rows):
    return lift_coefficients([rows], 1, (1.0,)).intervals[1].error


def test_clusters_in_several_waves_widen_the_pooled_interval():
    waves = campaign(seed=4, sizes=(300, 300), missing=0.0)
    first = waves[0]
    # The same units again: what is learned of them twice is not learned twice.
    again = [
        Rows.of(first.features, first.actions, first.probabilities, first.outcomes, clusters=names)
        for names in (np.arange(300), np.arange(300))
    ]
    apart = [
        Rows.of(first.features, first.actions, first.probabilities, first.outcomes, clusters=names)
        for names in (np.arange(300), np.arange(300, 600))
    ]
    same, other = (pool(summarise(each), Lift(1), (0.5, 0.5)) for each in (again, apart))
    assert same.estimate == pytest.approx(other.estimate)
    assert 1.3 < same.error / other.error < 1.45


def test_an_action_without_a_chance_leaves_the_wave_out():
    waves = campaign(seed=6, sizes=(80, 80))
    last = waves[1]
    p = last.probabilities.copy()
    p[:, 0] += p[:, 2]
    p[:, 2] = 0.0
    narrow = Rows.of(last.features, np.where(last.actions == 2, 0, last.actions), p, last.outcomes)
    summaries = summarise([waves[0], narrow])
    assert estimate_wave(summaries[1], Lift(2)) is None
    assert pool(summaries, Lift(2), (0.5, 0.5)).waves[0].units == 80
    assert len(pool(summaries, Lift(2), (0.5, 0.5)).waves) == 1
    assert len(pool(summaries, Lift(1), (0.5, 0.5)).waves) == 2
    assert not gain_over_best([pool_by_size(summaries[1:], Gain(2))]).known


def test_the_next_rule_is_refused_where_overlap_is_missing():
    random = np.random.default_rng(0)
    first = rows_of(random, 200, uniform=True, effect=3.0)
    p = np.zeros((100, 3))
    p[:, 0] = 1.0
    x = np.column_stack([np.ones(100), random.standard_normal((100, 2))])
    last = Rows.of(x, np.zeros(100, dtype=int), p, random.standard_normal(100))
    made = judge_next_rule(last, summarise([first, last]))
    assert made.supported < 0.5
    assert "an estimate needs 95%" in made.gain.note
    assert not made.gain.known
    assert "support the rule" in str(made)
    assert sum(made.shares) == pytest.approx(1)
    assert set(made.rule.actions(x)) <= {0, 1, 2}


def test_the_next_rule_is_compared_with_any_action():
    waves = campaign(seed=1, sizes=(300, 300), missing=0.0)
    summaries = summarise(waves)
    over_control = judge_next_rule(waves[-1], summaries)
    assert judge_next_rule(waves[-1], summaries, over=0).gain == over_control.gain
    # Action 1 stands first instead of control, and control second: the same comparison.
    order = [1, 0, 2]
    turned = [
        Rows.of(rows.features, np.array(order)[rows.actions], rows.probabilities[:, order],
                np.where(rows.returned, rows.outcomes, np.nan))
        for rows in waves
    ]  # fmt: skip
    one = judge_next_rule(waves[-1], summaries, over=1).gain
    other = judge_next_rule(turned[-1], summarise(turned)).gain
    assert one.about == "gain of the rule to run next over action 1"
    for part in ("estimate", "error", "low", "high"):
        assert getattr(one, part) == pytest.approx(getattr(other, part), rel=1e-9)


def test_a_rule_that_gives_control_to_all_has_no_gain_to_print():
    waves = campaign(seed=1, sizes=(300, 300), effect=-5.0, missing=0.0)
    for rows in waves:
        # Other actions cost so much that control is best for everybody.
        rows.outcomes[:] = rows.outcomes - 50 * (rows.actions > 0)
    made = judge_next_rule(waves[-1], summarise(waves))
    assert made.shares == (1.0, 0.0, 0.0)
    assert not made.gain.known
    assert made.gain.note == "The rule gives control to every unit."


def test_no_look_while_all_outcomes_are_equal():
    waves = campaign(seed=7, sizes=LARGE, missing=0.0)
    waves[0].outcomes[:] = 0.0
    summaries = summarise(waves)
    made = look(summaries, Lift(1), SHARES)
    assert [one.wave for one in made.looks] == [2, 3]
    assert "no look yet" in str(look(summaries[:1], Lift(1), SHARES))
    # Nothing was spent at the first wave: the boundary of wave 2 is that of a first look.
    assert made.looks[0].boundary == boundaries([0.7], rule="obrien-fleming")[0]


def test_equal_outcomes_are_no_certainty():
    """Rare events that have not happened yet: an interval from 0 to 0 would be a lie."""
    waves = campaign(seed=7, sizes=(100, 100), missing=0.0)
    for rows in waves:
        rows.outcomes[:] = 0.0
    summaries = summarise(waves)
    plan = plan_of_shares([100, 100], actions=3, randomised=0.1, floor=0.02)
    answers = [
        pool(summaries, Lift(1), plan.shares),
        anytime(summaries, Lift(1), plan),
        judge_next_rule(waves[-1], summaries).gain,
        *vars(run_value(summaries)).values(),
    ]
    for made in answers:
        for one in made if isinstance(made, tuple) else [made]:
            assert not one.known
            assert "All outcomes so far are equal" in one.note


def test_repeated_intervals_and_verdicts_agree():
    for seed in range(6):
        waves = campaign(seed=seed, sizes=LARGE, effect=0.2 * (seed - 3))
        made = look(summarise(waves), Lift(2), SHARES, rule="pocock-spending", power=0.8)
        for one in made.looks:
            outside = one.repeated.low > 0 or one.repeated.high < 0
            assert outside == one.verdict.startswith(("stop: success", "stop: harm"))
            assert one.futility <= one.boundary
        assert made.verdict == made.looks[-1].verdict
        assert "boundary" in str(made)
        assert "says" in made._repr_html_()


def test_shares_of_waves_so_far_are_no_more_than_that():
    """Two waves of three: their looks do not spend what the third is for."""
    summaries = summarise(campaign(sizes=LARGE))
    whole = look(summaries, Lift(1), SHARES)
    part = look(summaries[:2], Lift(1), SHARES[:2])
    assert part.looks == whole.looks[:2]
    # A classical boundary depends on all planned looks.
    classical = look(summaries, Lift(1), SHARES, rule="pocock-classical")
    assert len({round(one.boundary, 6) for one in classical.looks}) == 1
    with refused("invalid-argument", field="shares"):
        look(summaries[:2], Lift(1), SHARES[:2], rule="pocock-classical")
    with refused("invalid-argument", field="shares"):
        look(summaries[:2], Lift(1), SHARES[:2], power=0.8)


def test_looks_without_a_rule_use_the_boundary_of_one():
    made = look(summarise(campaign(sizes=LARGE)), Lift(1), SHARES, rule="none")
    assert [round(one.boundary, 2) for one in made.looks] == [1.96] * 3


def test_the_statistic_keeps_the_tail():
    pooled = pool(summarise(campaign()), Lift(2), SHARES)
    t = pooled.estimate / pooled.error
    assert stats.norm.sf(pooled.statistic) == pytest.approx(stats.t.sf(t, pooled.df))
    assert pooled.p_value == pytest.approx(2 * stats.t.sf(abs(t), pooled.df))


def test_splits_are_judged_on_waves_that_did_not_choose_them():
    waves = campaign(seed=8, sizes=(1_500, 1_500, 1_500), missing=0.0)
    made = strongest_splits(waves, Lift(2), labels=["constant", "income", "age"], most=1)
    [found] = made.splits
    # Lifts grow with the first feature.
    assert found.split.label == "income"
    assert found.difference.low > 0
    assert found.adjusted_p < 0.01
    assert (made.searched, made.judged) == (1, 2)
    assert "income above" in str(made)
    assert "evaluated on the next 2" in made._repr_html_()
    for rows in waves[1:]:
        rows.outcomes[:] = np.random.default_rng(0).standard_normal(rows.count)
    moved = strongest_splits(waves, Lift(2), labels=["constant", "income", "age"], most=1)
    assert moved.splits[0].split == found.split
    assert abs(moved.splits[0].difference.estimate) < abs(found.difference.estimate)
    with refused("invalid-argument", field="search"):
        strongest_splits(waves, Lift(2), search=3)


def test_declared_segments_add_up():
    waves = campaign(seed=9, sizes=LARGE)
    summaries = summarise(waves, partitions=[Declared("half")])
    for summary in summaries:
        assert sum(part.units for part in summary.segments.values()) == summary.overall.units
    made = within_segments(summaries, Lift(1), [Declared("half")])
    assert [one.segment for one in made.findings] == ["left", "right"]
    raw = [one.interval.p_value for one in made.findings]
    assert all(one.adjusted_p >= p for one, p in zip(made.findings, raw, strict=True))
    assert "half = left" in str(made)
    assert "p (Holm)" in made._repr_html_()
    with refused("invalid-argument", field="partition"):
        summarise(waves, partitions=[Declared("age")])


@pytest.mark.parametrize("gone", [None, float("nan")])
@pytest.mark.parametrize("names", [("left", "right"), (1, 2)])
def test_units_without_a_level_are_a_segment(gone, names):
    """Of one wave all levels are known: its segments are the same as those of the others."""
    waves = []
    for place, rows in enumerate(campaign(seed=2, sizes=LARGE)):
        half = np.where(rows.groups["half"] == "left", *names).astype(object)
        if place:
            half[:: place + 1] = gone
        waves.append(replace(rows, groups={"half": half}))
    summaries = summarise(waves, partitions=[Declared("half")])
    for summary in summaries:
        assert sum(part.units for part in summary.segments.values()) == summary.overall.units
    made = within_segments(summaries, Lift(1), [Declared("half")])
    assert [one.segment for one in made.findings] == [*names, None]
    assert "half = missing" in str(made)
    known = [rows.some(np.array([each in names for each in rows.groups["half"]])) for rows in waves]
    parts = summarise(known, partitions=[Declared("half")])
    left, right = Declared("half"), names[0]
    assert parts[-1].segments[left, right].units == summaries[-1].segments[left, right].units


def test_levels_of_several_types_and_unknown_clusters_are_refused():
    (rows,) = campaign(sizes=(4,))
    given = (rows.features, rows.actions, rows.probabilities, rows.outcomes)
    mixed = np.array(["a", 1, None, 2.0], dtype=object)
    with refused("invalid-argument", field="half"):
        Rows.of(*given, groups={"half": mixed})
    assert Rows.of(*given, groups={"half": [1, None, 2, 2.5]}).count == 4
    with refused("invalid-argument", field="clusters"):
        Rows.of(*given, clusters=["a", None, "a", "b"])


def test_drift_is_found_where_there_is_some():
    waves = campaign(seed=10, sizes=(2_000, 2_000), missing=0.0)
    assert not drift(summarise(waves)).found(alpha=0.001)
    waves[1].outcomes[:] += 1.0
    moved = drift(summarise(waves), labels=["constant", "income", "age"])
    assert moved.found() == ["level of outcomes"]
    waves[1].outcomes[waves[1].actions == 1] -= 1.0
    turned = drift(summarise(waves)).found()
    assert "lift of action 1 over action 0" in turned
    assert "lift of action 2 over action 0" not in turned
    waves[1].features[:, 1] += 0.5
    assert "income" in str(drift(summarise(waves), labels=["constant", "income"]))
    assert "The same in all waves?" in moved._repr_html_()


def test_the_naive_interval_says_that_it_is_not_valid():
    summaries = summarise(campaign(sizes=LARGE))
    made = naive_lift(summaries[-1], 1)
    assert not made.valid
    assert "NOT VALID" in str(made)
    rows = Rows.of(np.ones((2, 1)), [0, 0], np.full((2, 2), 0.5), [1.0, 2.0])
    assert not naive_lift(summarise([rows])[-1], 1).known


def test_the_naive_interval_is_welchs():
    rows = campaign(seed=11, sizes=(300,))[0]
    groups = [rows.outcomes[rows.returned & (rows.actions == a)] for a in (1, 0)]
    expected = stats.ttest_ind(*groups, equal_var=False).confidence_interval()
    made = naive_lift(summarise([rows])[-1], 1)
    assert (made.low, made.high) == pytest.approx((expected.low, expected.high))


def test_coefficients_cover_the_truth_or_say_that_waves_are_too_small():
    waves = campaign(sizes=LARGE)
    made = lift_coefficients(waves, 1, SHARES, labels=["constant", "income", "age"])
    assert all(one.valid for one in made.intervals)
    assert made.intervals[1].low < 0.4 < made.intervals[1].high
    assert "income" in str(made)
    few = [rows.some(slice(6)) for rows in waves]
    assert lift_coefficients(few, 1, SHARES).waves_used == 0
    assert "unknown" in str(lift_coefficients(few, 1, SHARES))


def test_simultaneous_intervals_are_wider_but_not_by_bonferroni():
    summaries = summarise(campaign(sizes=LARGE))
    for action, wide in enumerate(simultaneous_lifts(summaries), start=1):
        single = pool_by_size(summaries, Lift(action))
        bonferroni = quantile(0.0125, single.df) * single.error
        assert single.high < wide.high < single.estimate + 1.02 * bonferroni
        assert isinstance(wide, Pooled)
        assert "Dunnett" in wide.note


def test_the_gain_over_the_best_action_by_hand():
    def one(estimate, error):
        return student("", estimate, error**2, inf, level=0.95)

    made = gain_over_best([one(1.0, 0.1), one(0.5, 0.3)])
    assert made.low == pytest.approx(0.5 - 1.959964 * 0.3, abs=1e-5)
    assert made.high == pytest.approx(min(1 + 2.241403 * 0.1, 0.5 + 2.241403 * 0.3), abs=1e-5)


def test_outcomes_of_which_less_is_better_are_judged_as_their_mirror_image():
    """Only choices depend on the direction: estimates are those of the other sign, bit for bit."""
    waves = campaign(seed=4, sizes=(300, 300))
    turned = [replace(rows, outcomes=-rows.outcomes) for rows in waves]
    summaries, mirrored = summarise(waves), summarise(turned)
    gains = [[pool_by_size(made, Gain(a)) for a in range(3)] for made in (summaries, mirrored)]
    rules = (
        judge_next_rule(waves[-1], summaries),
        judge_next_rule(turned[-1], mirrored, less=True),
    )
    assert rules[0].shares == rules[1].shares
    assert 0 < rules[0].shares[0] < 1
    pairs = [
        (gain_over_best(gains[0]), gain_over_best(gains[1], less=True)),
        (rules[0].gain, rules[1].gain),
    ]
    for one, other in pairs:
        assert (one.estimate, one.low, one.high) == (-other.estimate, -other.high, -other.low)


def test_few_effective_outcomes_are_said():
    assert "Fewer than 30" in pool(summarise(campaign()), Lift(1), SHARES).note
    large = campaign(sizes=(3_000, 3_000, 3_000))
    assert pool(summarise(large), Lift(1), SHARES).note == ""


def test_results_show_themselves():
    waves = campaign(sizes=LARGE)
    summaries = summarise(waves)
    plan = plan_of_shares(LARGE, actions=3, randomised=0.1, floor=0.02)
    pooled = pool(summaries, Lift(1), plan.shares)
    assert "95% interval" in str(pooled)
    assert "Wave by wave" in pooled._repr_html_()
    assert "gain of the run over the best single action" in str(run_value(summaries))
    assert "value as run" in run_value(summaries)._repr_html_()
    assert anytime(summaries, Lift(1), plan).high > pooled.high
    made = judge_next_rule(waves[-1], summaries)
    assert "What the rule gives" in made._repr_html_()
    assert "Coefficients of the lift" in lift_coefficients(waves, 1, SHARES)._repr_html_()
    assert "estimate" in made.gain._repr_html_()


@pytest.mark.parametrize(
    ("change", "field", "received"),
    [
        ({"actions": [0, 5]}, "actions", "[0 5]"),
        ({"actions": [0.0, 1.0]}, "actions", "shape (2,) of float64"),
        (
            {"probabilities": [[0.5, 0.6], [0.5, 0.5]]},
            "probabilities",
            "a total off by 0.10000000000000009",
        ),
        ({"probabilities": [[1.5, -0.5], [0.5, 0.5]]}, "probabilities", "less"),
        ({"probabilities": [[0.0, 1.0], [0.5, 0.5]]}, "probabilities", "0.0"),
        ({"outcomes": [1.0]}, "outcomes", "(1,)"),
        ({"outcomes": [1.0, np.inf]}, "outcomes", "inf at index (1,)"),
        ({"clusters": [1]}, "clusters", "(1,)"),
    ],
)
def test_rows_that_break_rules_are_refused(change, field, received):
    fine = {
        "features": [[1.0], [1.0]],
        "actions": [0, 1],
        "probabilities": [[0.5, 0.5], [0.5, 0.5]],
        "outcomes": [1.0, np.nan],
    }
    Rows.of(**fine)
    with refused("invalid-argument", field=field, received=received):
        Rows.of(**{**fine, **change})


def test_waves_that_cannot_be_read_twice_are_refused():
    waves = campaign()
    with refused("invalid-argument", field="wave"):
        summarise([iter(waves)])
    with refused("invalid-argument", field="waves"):
        summarise([[]])
    with refused("invalid-argument", field="shares"):
        pool(summarise(waves), Lift(1), (0.5,))
    with refused("invalid-argument", field="contrast"):
        pool(summarise(waves, contrasts=[AsRun()]), Lift(1), SHARES)


def test_a_wave_without_outcomes_says_nothing_yet():
    waves = campaign()
    silent = [
        Rows.of(rows.features, rows.actions, rows.probabilities, np.full(rows.count, np.nan))
        for rows in waves
    ]
    made = pool(summarise([*waves[:2], silent[2]]), Lift(1), SHARES)
    assert len(made.waves) == 2
    nothing = summarise(silent)
    assert not pool(nothing, Lift(1), SHARES).known
    assert "unknown" in str(pool(nothing, Lift(1), SHARES))
    assert not simultaneous_lifts(nothing)[0].known
    assert not judge_next_rule(silent[-1], nothing).gain.known
    plan = plan_of_shares([60, 50, 70], actions=3, randomised=0.1, floor=0.02)
    assert not anytime(nothing, Lift(1), plan).known


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_models_that_were_fitted_before_give_the_same_sums(missing):
    waves = campaign(sizes=(90, 70, 80), missing=missing)
    fitted = summarise(waves)
    again = summarise(waves, fitted=fitted)
    assert everything_of(again) == everything_of(fitted)
    found = strongest_splits(waves, Lift(2))
    assert strongest_splits(waves, Lift(2), fitted=fitted) == found


def everything_of(summaries):
    """Return all contrasts over waves, as they are, with all that belongs to them."""
    made = [pool_by_size(summaries, one) for one in summaries[-1].contrasts]
    made += [pool(summaries, one, SHARES) for one in (Lift(1), Lift(2))]
    return [vars(one) for one in made], drift(summaries), latest_lift(summaries, Lift(1))


@pytest.mark.parametrize("kind", ["normal", "binary", "common", "amount"])
@pytest.mark.parametrize("from_wave", [0, 1, 3])
def test_sums_go_on_from_earlier_waves(kind, from_wave):
    """With outcomes missing in all waves, from the second on, or in none."""
    waves = logged(waves_of(seed=5, kind=kind, from_wave=from_wave))
    whole = summarise(waves, charges=(0.0, 0.1, 0.2))
    parts = summarise(waves[:1], charges=(0.0, 0.1, 0.2))
    for wave in waves[1:]:
        parts = summarise([wave], earlier=parts, charges=(0.0, 0.1, 0.2))
    assert len(parts) == 3
    assert everything_of(parts) == everything_of(whole)
    rules = [judge_next_rule(waves[-1], made) for made in (parts, whole)]
    assert rules[0].gain == rules[1].gain


# ----------------------------------------------------------------------
# Laws: what a change of the data must do to the answers.


@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize("moved", [(0.0, 40.0, -7.0), (3.0, 0.0, 0.0), (5.0, 5.0, 5.0)])
def test_a_constant_added_to_a_wave_does_not_change_the_rule(less, moved):
    """The policy gave some actions more units in a good wave; they are no better for that."""
    waves = campaign(seed=11, sizes=(150, 90, 120))
    turned = [replace(rows, outcomes=rows.outcomes + more)
              for rows, more in zip(waves, moved, strict=True)]  # fmt: skip
    one, other = (judge_next_rule(each[-1], summarise(each), less=less) for each in (waves, turned))
    differences = [made.rule.coefficients - made.rule.coefficients[0] for made in (one, other)]
    assert differences[1] == pytest.approx(differences[0], abs=1e-9)
    assert one.shares == other.shares
    assert 0 < max(one.shares) < 1
    # The mean of all outcomes moves, and with it what every action is predicted to bring.
    counts = [rows.returned.sum() for rows in waves]
    level = np.average(moved, weights=counts)
    assert other.rule.coefficients[:, 0] - one.rule.coefficients[:, 0] == pytest.approx(level)


CHARGES = (0.05, 0.3, -0.1)
ALL = (Mean(0), Mean(2), Lift(1), Lift(2), AsRun(), Gain(0), Gain(2), GainOverRandom())


def changed(waves, outcomes):
    """Return the waves with a function of their outcomes."""
    return [replace(rows, outcomes=outcomes(rows.outcomes)) for rows in waves]


def numbers(one):
    return one.estimate, one.low, one.high


@pytest.mark.parametrize("sizes", [(300,), (300, 200, 400)])
def test_a_constant_moves_means_and_no_lift(sizes):
    """All outcomes are higher by 5: the tiny penalty on the constant is all that tells."""
    waves = campaign(seed=21, sizes=sizes)
    made, moved = summarise(waves), summarise(changed(waves, lambda y: y + 5))
    for contrast in ALL:
        one, other = (pool_by_size(each, contrast) for each in (made, moved))
        more = 5 if isinstance(contrast, Mean | AsRun) else 0
        assert numbers(other) == pytest.approx(tuple(end + more for end in numbers(one)), abs=5e-6)
        assert other.df == pytest.approx(one.df, rel=1e-4)
    level = [drift(each).level for each in (made, moved)]
    assert (level[0] is None) == (len(sizes) == 1)
    if level[0]:
        assert level[1].p_value == pytest.approx(level[0].p_value, abs=1e-5)


def test_a_level_that_moves_leaves_lifts_nearly_alone():
    """A wave's outcomes are all higher by 2: with the common shift, lifts hardly widen."""
    waves = campaign(seed=22, sizes=LARGE, missing=0.0)
    moved = [waves[0], *changed(waves[1:], lambda y: y + 2)]
    one, other = (pool_by_size(summarise(each), Lift(1)) for each in (waves, moved))
    assert abs(other.estimate - one.estimate) < 0.3 * one.error
    assert other.error < 1.05 * one.error
    means = [pool_by_size(summarise(each), Mean(1)).estimate for each in (waves, moved)]
    assert means[1] - means[0] == pytest.approx(2 * 1200 / 1800, abs=0.02)


@pytest.mark.parametrize("kind", ["normal", "binary", "common", "amount"])
@pytest.mark.parametrize("clusters", [None, "cluster"])
def test_costs_move_estimates_exactly_and_widen_nothing(kind, clusters):
    waves = logged(waves_of(seed=23, kind=kind), clusters=clusters)
    gross, net = summarise(waves), summarise(waves, charges=CHARGES)
    for contrast in ALL:
        one, other = (pool_by_size(each, contrast) for each in (gross, net))
        cost = one.estimate - other.estimate
        if isinstance(contrast, Mean):
            assert cost == pytest.approx(CHARGES[contrast.action])
        if isinstance(contrast, Lift):
            assert cost == pytest.approx(CHARGES[contrast.action] - CHARGES[0])
        if isinstance(contrast, AsRun):
            given = np.concatenate([rows.probabilities for rows in waves])
            assert cost == pytest.approx((given @ CHARGES).mean())
        for tail in (0.1, 0.025, 0.001):
            expected = tuple(end - cost for end in one.limits(tail))
            assert other.limits(tail) == pytest.approx(expected, abs=1e-9)
        assert other.error == pytest.approx(one.error)
        assert other.statistic == pytest.approx(one.shape.statistic(cost), abs=1e-6)
    before, after = (naive_lift(each[-1], 1) for each in (gross, net))
    assert before.estimate - after.estimate == pytest.approx(CHARGES[1] - CHARGES[0])
    with refused("invalid-argument", field="charges"):
        summarise(waves, charges=(1.0, 2.0))


@pytest.mark.parametrize("kind", ["binary", "common"])
def test_what_did_not_happen_is_the_mirror_image(kind):
    """Outcomes 1 - y: the answers change sides, with the rule to run next as well."""
    waves = logged(waves_of(seed=24, kind=kind, sizes=(90, 80, 70), P=2, missing=0.1))
    turned = changed(waves, lambda y: 1 - y)
    made, other = summarise(waves), summarise(turned)
    assert (made[-1].usual, other[-1].usual) == ((0, 1) if kind == "binary" else (1, 0))
    for contrast in ALL:
        one, mirrored = (pool_by_size(each, contrast) for each in (made, other))
        whole = 1 if isinstance(contrast, Mean | AsRun) else 0
        for tail in (0.1, 0.025, 0.001):
            low, high = mirrored.limits(tail)
            # The tiny penalty draws to 0, not to 1.
            assert (whole - high, whole - low) == pytest.approx(one.limits(tail), abs=2e-4)
        if not whole:
            assert mirrored.statistic == pytest.approx(-one.statistic, abs=5e-3)
    rules = (
        judge_next_rule(waves[-1], made),
        judge_next_rule(turned[-1], other, less=True),
    )
    assert rules[0].shares == rules[1].shares
    gain = rules[1].gain
    assert (-gain.high, -gain.low) == pytest.approx(
        (rules[0].gain.low, rules[0].gain.high), abs=1e-3
    )


@pytest.mark.parametrize("factor", [1e-3, 7.0])
@pytest.mark.parametrize("kind", ["normal", "amount", "negative"])
def test_amounts_in_another_currency(kind, factor):
    waves = logged(waves_of(seed=25, kind=kind))
    charged, other = CHARGES, tuple(factor * one for one in CHARGES)
    made = summarise(waves, charges=charged)
    scaled = summarise(changed(waves, lambda y: factor * y), charges=other)
    for contrast in ALL:
        for one, two in [
            (pool_by_size(made, contrast), pool_by_size(scaled, contrast)),
            (pool(made, contrast, SHARES), pool(scaled, contrast, SHARES)),
        ]:
            assert numbers(two) == pytest.approx(tuple(factor * end for end in numbers(one)))
            assert two.statistic == pytest.approx(one.statistic)
            assert two.same_p == pytest.approx(one.same_p)
    rules = [
        judge_next_rule(waves[-1], made),
        judge_next_rule(changed(waves, lambda y: factor * y)[-1], scaled),
    ]
    assert numbers(rules[1].gain) == pytest.approx(
        tuple(factor * end for end in numbers(rules[0].gain))
    )
    levels = [drift(each).level.p_value for each in (made, scaled)]
    assert levels[0] == pytest.approx(levels[1])


def test_where_nothing_is_missing_the_return_model_is_exactly_1():
    waves = campaign(seed=26, missing=0.0)
    for rows, summary in zip(waves, summarise(waves), strict=True):
        assert (summary.returned.of(rows) == 1).all()
        assert not summary.returned.missing.any()
        assert not summary.scarce.any()


def test_outcomes_that_hardly_ever_come_back_are_counted():
    """Of the units above 1 nearly nothing returns under action 1: what is said rests on a model."""
    waves = campaign(seed=27, sizes=(2_000,), missing=0.0)
    [rows] = waves
    high = (rows.features[:, 1] > 1) & (rows.actions == 1)
    rows.outcomes[high] = np.nan
    [summary] = summarise(waves)
    q = summary.returned.of(rows)
    assert q.min() == 0.05
    assert summary.scarce[0] == summary.scarce[2] == 0
    assert summary.scarce[1] == ((q[:, 1] < 0.1) & (rows.actions == 1)).sum() > 20


def test_missing_by_feature_and_action_is_repaired():
    """Control's high units and action 1's low units do not answer; the lift is 0.4."""
    lifts = []
    for seed in range(20):
        rows = campaign(seed=[28, seed], sizes=(1_500,), missing=0.0)[0]
        x, random = rows.features[:, 1], np.random.default_rng([29, seed])
        back = 1 / (1 + np.exp(np.where(rows.actions == 0, 1.5, -1.5) * x - 0.5))
        rows.outcomes[random.random(rows.count) > back] = np.nan
        rows.outcomes[:] += 0.8 * x**2 * (rows.actions == 1)
        [summary] = summarise([rows])
        lifts.append(pool_by_size([summary], Lift(1)).estimate - 0.4 - 0.8)
    error = np.std(lifts) / np.sqrt(20)
    assert abs(np.mean(lifts)) < 3 * error + 0.05


def test_estimates_by_size_are_averages_over_units():
    waves = campaign(seed=30, sizes=(60, 150, 90))
    summaries = summarise(waves)
    for contrast in ALL:
        made = pool_by_size(summaries, contrast)
        own = [estimate_wave(one, contrast).estimate for one in summaries]
        assert made.estimate == pytest.approx((60 * own[0] + 150 * own[1] + 90 * own[2]) / 300)
        assert made.weights == pytest.approx((0.2, 0.5, 0.3))


def test_the_rule_of_events_refuses_below_and_prints_above():
    waves = logged(waves_of(seed=31, kind="binary", missing=0.0))
    summaries = summarise(waves)
    share = summaries[-1].events.share
    for needed, each in [
        (5, summaries),
        (20, summarise(changed(waves, lambda y: 3.5 * y))),
        # Some are returned: an event below 0 is one, too.
        (20, summarise([replace(waves[0], outcomes=-3 * waves[0].outcomes), *waves[1:]])),
    ]:
        few = pool_by_size(each, Lift(1), planned=(needed - 1e-6) / share)
        assert not few.known
        assert few.few.needed == needed
        assert few.note == str(few.few)
        assert f"about {needed - 1} of the {needed}" in few.note
        assert pool_by_size(each, Lift(1), planned=(needed + 1e-6) / share).known
        last = waves[-1] if each is summaries else changed(waves, lambda y: 3.5 * y)[-1]
        assert judge_next_rule(last, each, planned=(needed - 1e-6) / share).gain.few
    common = summarise(changed(waves, lambda y: 1 - y))
    assert not pool_by_size(common, Lift(1), planned=4.9 / share).known
    assert pool_by_size(common, Lift(1), planned=5.1 / share).known
    # Outcomes that all differ have as many events as units.
    assert pool_by_size(summarise(campaign()), Lift(1), planned=0.1).known


def test_events_up_to_half_of_all_outcomes_are_rare():
    def shape(events):
        y = np.zeros(20)
        y[:events] = 2.0
        rows = Rows.of(np.ones((20, 1)), np.arange(20) % 2, np.full((20, 2), 0.5), y)
        return type(estimate_wave(summarise([rows])[0], Lift(1)).shape)

    assert [shape(events) for events in (1, 10, 11)] == [RareShape, RareShape, StudentShape]


def test_the_first_wave_decides_which_outcome_is_usual():
    """Later waves may turn: parts of earlier waves are counted already, and stay."""
    random = np.random.default_rng(32)
    waves = []
    for rate in (0.7, 0.2):
        rows = rows_of(random, 200, missing=0.0)
        waves.append(replace(rows, outcomes=(random.random(200) < rate).astype(float)))
    summaries = summarise(waves)
    assert [one.usual for one in summaries] == [1, 1]
    # 45% of all are 1: not even half, so that events are not rare from there.
    assert not summaries[-1].events.rare
    assert isinstance(pool_by_size(summaries, Lift(1)).shape, StudentShape)
    turned = summarise(waves[::-1])
    assert [one.usual for one in turned] == [0, 0]
    assert isinstance(pool_by_size(turned, Lift(1)).shape, RareShape)


def test_sums_merge_in_any_order():
    waves = waves_of(seed=33, kind="amount", sizes=(60,))
    [summary] = summarise(logged(waves, clusters="cluster"))
    [rows] = logged(waves, clusters="cluster")
    weighing, values = (
        Weighing.of(rows, summary.contrasts),
        np.outer(rows.features[:, 1], [1, 2, 3]),
    )
    columns = ScoreColumns.of(weighing, values, np.ones((1, 3)))
    whole = columns.tally()
    a, b, c = (columns.some(np.arange(part, 60, 3)).tally() for part in range(3))
    for made in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b)):
        for name in ("mean", "second", "third", "fourth"):
            for sums in ("moments", "parts"):
                one, other = (getattr(getattr(each, sums), name) for each in (made, whole))
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(made.design, whole.design, rtol=1e-12)
        np.testing.assert_allclose(made.costs, whole.costs, rtol=1e-12)
        np.testing.assert_allclose(made.clusters.sums, whole.clusters.sums, rtol=1e-9, atol=1e-9)
        assert (made.units, made.outcomes) == (60, whole.outcomes)


@pytest.mark.parametrize("kind", ["normal", "binary", "common", "amount", "negative"])
def test_limits_hold_the_estimate_and_widen(kind):
    summaries = summarise(logged(waves_of(seed=34, kind=kind)))
    for contrast in ALL:
        made = pool_by_size(summaries, contrast)
        ends = [made.limits(tail) for tail in (0.15, 0.05, 1e-2, 1e-4, 1e-8, 1e-20)]
        lows, highs = zip(*ends, strict=True)
        assert list(lows) == sorted(lows, reverse=True)
        assert list(highs) == sorted(highs)
        assert lows[0] < made.estimate < highs[0]
        assert made.limits(0.0) == (-inf, inf)
        for tail in (0.05, 1e-3):
            low, high = made.limits(tail)
            z = quantile(tail, inf)
            if low < made.estimate and low != 0:
                assert made.shape.statistic(low) == pytest.approx(z, rel=1e-5)
            if high != 1:
                assert made.shape.statistic(high) == pytest.approx(-z, rel=1e-5)


def bisected(limits, estimate, value):
    """Return the smallest z at which limits hold a value, as a bisection finds it."""

    def inside(z):
        low, high = limits(z)
        return low <= value <= high

    if inside(0.0):
        return 0.0
    near, far = 0.0, 1.0
    while far < 64 and not inside(far):
        near, far = far, 2 * far
    while near < (middle := (near + far) / 2) < far:
        near, far = (near, middle) if inside(middle) else (middle, far)
    return far if estimate >= value else -far


def test_statistics_are_those_of_a_bisection_to_the_last_bit():
    random = np.random.default_rng(2)

    def part():
        scale = 10 ** random.uniform(-6, -1)
        return Part(
            size=random.choice([0.0, random.random()]), most=random.choice([1.0, 1e4]),
            scale=scale, skew=scale * random.uniform(-3, 3),
            upper_scale=scale * random.choice([0.0, 20.0]),
            upper_skew=scale * random.uniform(-1, 1),
        )  # fmt: skip

    for _ in range(150):
        shape = RareShape(part(), random.choice([part(), None]), sign=random.choice([-1.0, 1.0]))
        value = random.choice([0.0, random.normal(scale=0.1)])
        expected = bisected(shape._at, shape.estimate, value)
        assert shape.statistic(value) == expected
