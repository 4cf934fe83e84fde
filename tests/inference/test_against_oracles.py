"""Every formula against the same, computed literally and row by row."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from seqbatch.inference import (
    AsRun,
    Declared,
    Eligible,
    Gain,
    GainOverRandom,
    Lift,
    Mean,
    anytime,
    drift,
    estimate_wave,
    judge_next_rule,
    latest_lift,
    lift_coefficients,
    look,
    plan_of_shares,
    planned_units,
    planned_units_of_next_rule,
    pool,
    pool_by_size,
    run_value,
    simultaneous_lifts,
    summarise,
    verdict,
    within_segments,
)
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.drift import level_change
from seqbatch.inference.intervals import StudentShape
from seqbatch.inference.rare_events import RareShape, few_events
from tests.inference.campaigns import logged
from tests.oracles import inference as oracle
from tests.oracles import rare_events, recommendation, return_model
from tests.oracles.campaigns import waves_of

H, F, UNIFORM = 0.15, 0.03, 2
CHARGES = (0.05, 0.2, -0.1, 0.4)
# Amounts of digits: sums in another order.
CLOSE = 1e-8
PLAIN = {
    "normal": {"seed": 1},
    "one column": {"seed": 2, "P": 1, "K": 2, "sizes": (40, 50, 30)},
    "later missing": {"seed": 3, "P": 2, "K": 2, "sizes": (40, 60, 50), "from_wave": 1},
    "all back": {"seed": 4, "K": 4, "P": 2, "sizes": (70, 60), "missing": 0.0},
    "small waves": {"seed": 22, "K": 4, "sizes": (12, 9, 30, 1, 25)},
    "half missing": {"seed": 6, "K": 2, "sizes": (60, 70), "missing": 0.5},
    "negative": {"seed": 7, "kind": "negative"},
}
RARE = {
    "binary": {"seed": 1, "kind": "binary", "sizes": (70, 60, 90)},
    "binary of two": {"seed": 2, "kind": "binary", "K": 2, "P": 2, "sizes": (50, 70)},
    "one event": {"seed": 6, "kind": "binary", "K": 3, "sizes": (25, 20), "missing": 0.0},
    "common": {"seed": 3, "kind": "common", "sizes": (80, 60, 70)},
    "common, all back": {"seed": 4, "kind": "common", "K": 2, "sizes": (60, 90), "missing": 0.0},
    "amount": {"seed": 5, "kind": "amount", "sizes": (90, 60, 80)},
    "amount of four": {"seed": 8, "kind": "amount", "K": 4, "P": 1, "sizes": (120, 100)},
}
CASES = {**PLAIN, **RARE}
CONTRASTS = [
    (Mean(0), "mean", 0),
    (Mean(1), "mean", 1),
    (Lift(1), "lift", 1),
    (AsRun(), "as run", None),
    (Gain(0), "gain", 0),
    (Gain(1), "gain", 1),
    (GainOverRandom(), "gain over random", None),
]
NAMES = [contrast.name for contrast, _, _ in CONTRASTS]
of_contrasts = pytest.mark.parametrize(("contrast", "kind", "action"), CONTRASTS, ids=NAMES)
of_means_and_lifts = pytest.mark.parametrize(
    ("contrast", "kind", "action"), CONTRASTS[:3], ids=NAMES[:3]
)
of_plain = pytest.mark.parametrize("case", PLAIN)
of_rare = pytest.mark.parametrize("case", RARE)
of_all = pytest.mark.parametrize("case", CASES)


@cache
def literal(case):
    waves = waves_of(**CASES[case])
    for m, wave in enumerate(waves):
        for row in wave:
            # Clusters of single waves, and clusters that are in several.
            row["own cluster"] = f"{m} {row['cluster']}"
    return waves


@cache
def rows(case, clusters=None):
    return logged(literal(case), clusters=clusters)


@cache
def summaries(case, clusters=None, *, charged=False):
    charges = CHARGES[: actions(case)] if charged else ()
    return summarise(rows(case, clusters), partitions=[Declared("half")], charges=charges)


def actions(case):
    return CASES[case].get("K", 3)


def sizes(case):
    return [len(wave) for wave in literal(case)]


def plan_of(case, policy="greedy"):
    return plan_of_shares(
        sizes(case), actions=actions(case), randomised=H, floor=F, uniform=UNIFORM, policy=policy
    )


def costs_of(case, arms):
    return oracle.planned_costs(sizes(case), actions(case), H, F, arms, UNIFORM)


def is_left(row):
    return row["half"] == "left"


def close(value):
    return pytest.approx(value, rel=CLOSE, abs=1e-12)


# ----------------------------------------------------------------------
# What estimates are made of.


def test_probabilities_correlate_with_outcomes():
    last = rows("normal")[-1]
    back = last.returned
    assert abs(np.corrcoef(last.probabilities[back, 2], last.outcomes[back])[0, 1]) > 0.3


@of_all
def test_scores(case):
    before = None
    for m, (wave, summary) in enumerate(zip(rows(case), summaries(case), strict=True)):
        evidence = summary.evidence
        own = evidence if before is None else evidence.without(before)
        before, model = evidence, OutcomeModel.fitted(evidence)
        shift, q = CommonShift.of(own.statistics, model), summary.returned.of(wave)
        made = score(wave, model, q, shift)
        expected = oracle.scored(literal(case)[: m + 1])
        wanted = {name: np.array([one[name] for one in expected]) for name in ("G", "q")}
        np.testing.assert_allclose(np.broadcast_to(q, wanted["q"].shape), wanted["q"], rtol=1e-9)
        np.testing.assert_allclose(made.values, wanted["G"], rtol=1e-8, atol=1e-10)
        for one, residual in zip(expected, made.residuals, strict=True):
            assert np.isnan(residual) if one["e"] is None else residual == close(one["e"])


@of_all
def test_the_return_model(case):
    for m, summary in enumerate(summaries(case)):
        for action in range(actions(case)):
            waves = literal(case)[: m + 1]
            expected = return_model.newton_sums(waves, action)
            if expected is None or CASES[case].get("P", 3) == 1:
                assert not summary.returned.missing[action]
                continue
            assert summary.returned.missing[action]
            np.testing.assert_allclose(summary.returned.curvature[action], expected["H"], rtol=1e-8)
            np.testing.assert_allclose(
                summary.returned.target[action], expected["c"], rtol=1e-8, atol=1e-10
            )
            np.testing.assert_allclose(
                summary.returned.coefficients[action], expected["b"], rtol=1e-8, atol=1e-10
            )


def test_the_return_model_at_its_bounds():
    """One action's feature tells all, another's outcomes never come, a third one's nearly all."""
    waves = []
    for wave in range(2):
        made = []
        for place in range(240):
            x, a = (-1.0) ** place, (0, 1, 2, 2)[place // 2 % 4]
            back = (x < 0 or wave * place == 57, wave * place == 90, place != 44)[a]
            y = float(place % 3) if back else None
            made.append({"x": [1.0, x], "a": a, "p": [0.3, 0.3, 0.4], "y": y})
        waves.append(made)
    begun = [return_model.start([row for row in waves[0] if row["a"] == a], 0.6) for a in range(3)]
    assert begun[0]["R2"] == 0.8
    assert abs(begun[0]["h"][1]) > 8
    assert [begun[1]["q0"], begun[2]["q0"]] == [0.02, 0.98]
    assert min(min(one["q"]) for one in oracle.scored(waves[:1])) == 0.05
    for m, summary in enumerate(summarise(logged(waves))):
        q = summary.returned.of(logged(waves)[m])
        expected = oracle.scored(waves[: m + 1])
        np.testing.assert_allclose(q, [one["q"] for one in expected], rtol=1e-9)
        for action in range(3):
            sums = return_model.newton_sums(waves[: m + 1], action)
            np.testing.assert_allclose(summary.returned.target[action], sums["c"], rtol=1e-8)


@of_all
def test_noise(case):
    for m, summary in enumerate(summaries(case)):
        expected = oracle.noise(literal(case)[: m + 1])
        assert summary.residuals.variance == close(expected["sigma2"])
        assert summary.residuals.kurtosis == close(expected["kappa"])
        assert summary.residuals.by_action.tolist() == close(expected["by_action"])


# ----------------------------------------------------------------------
# A wave, and waves together, with Student's t.


def compare_wave(made, expected):
    assert made.units == expected["n"]
    assert made.estimate == close(expected["theta"])
    assert made.raw_variance == pytest.approx(expected["v"], rel=CLOSE, abs=1e-18)
    assert made.variance == pytest.approx(expected["moderated"], rel=CLOSE, abs=1e-18)
    assert made.cost == close(expected["C"])
    assert made.clustering == close(expected["effect"])
    if expected["moderated"]:
        assert made.df == close(expected["df"])
        assert made.effective * ARMS[made.about] == close(expected["effective"])


ARMS = {contrast.name: contrast.arms for contrast, _, _ in CONTRASTS}


@of_contrasts
@of_all
def test_a_wave(case, contrast, kind, action):
    for m, summary in enumerate(summaries(case)):
        expected = oracle.wave_estimate(literal(case)[: m + 1], kind, action)
        compare_wave(estimate_wave(summary, contrast), expected)


@of_contrasts
def test_a_wave_in_clusters(contrast, kind, action):
    for m, summary in enumerate(summaries("normal", "cluster")):
        expected = oracle.wave_estimate(
            literal("normal")[: m + 1], kind, action, clusters="cluster"
        )
        compare_wave(estimate_wave(summary, contrast), expected)


def compare(made, expected, tails=(0.1, 0.025, 0.001)):
    assert isinstance(made.shape, StudentShape)
    assert made.estimate == close(expected["theta"])
    assert made.error == close(expected["se"])
    assert made.low == close(expected["low"])
    assert made.high == close(expected["high"])
    known = math.isfinite(expected["Q"])
    assert made.heterogeneity == (close(expected["Q"]) if known else 0)
    if len(made.waves) > 1:
        assert made.same_p == (close(expected["p_change"]) if known else 1)
    if expected["se"]:
        assert made.df == close(expected["df"])
        t = expected["theta"] / expected["se"]
        assert made.p_value == close(2 * stats.t.sf(abs(t), expected["df"]))
        for tail in tails:
            half = stats.t.isf(tail, expected["df"]) * expected["se"]
            assert made.limits(tail) == close((made.estimate - half, made.estimate + half))


@of_contrasts
@of_plain
def test_by_size(case, contrast, kind, action):
    made = pool_by_size(summaries(case), contrast, level=0.9)
    assert made.weights == close(tuple(n / sum(sizes(case)) for n in sizes(case)))
    compare(made, oracle.by_size(literal(case), kind, action, level=0.9))


@of_means_and_lifts
@of_plain
def test_by_shares(case, contrast, kind, action):
    D = costs_of(case, contrast.arms)
    expected = oracle.pooled(literal(case), kind, action, D, level=0.8)
    compare(pool(summaries(case), contrast, plan_of(case).shares, level=0.8), expected)


@of_means_and_lifts
def test_clusters_in_several_waves(contrast, kind, action):
    waves, plan = literal("normal"), plan_of("normal")
    for clusters in ("cluster", "own cluster"):
        made = pool(summaries("normal", clusters), contrast, plan.shares)
        expected = oracle.pooled(
            waves, kind, action, costs_of("normal", contrast.arms), clusters=clusters
        )
        more = oracle.covariance_of_waves(waves, kind, action, made.weights, clusters)
        assert made.estimate == close(expected["theta"])
        assert made.error**2 == close(expected["se"] ** 2 + more)
        assert made.df == close(expected["df"])
        assert (more > 0) == (clusters == "cluster")


@of_means_and_lifts
def test_a_segment(contrast, kind, action):
    segment, waves, plan = (Declared("half"), "left"), literal("normal"), plan_of("normal")
    made = pool_by_size(summaries("normal"), contrast, segment=segment)
    compare(made, oracle.by_size(waves, kind, action, keep=is_left))
    # The plan's shares stay, n_m and C_m are the segment's: sqrt(share n/C) = n/sqrt(D C).
    D = [sum(map(is_left, wave)) / share for wave, share in zip(waves, plan.shares, strict=True)]
    made = pool(summaries("normal"), contrast, plan.shares, segment=segment)
    compare(made, oracle.pooled(waves, kind, action, D, keep=is_left))


@of_contrasts
@of_plain
def test_costs_of_actions(case, contrast, kind, action):
    waves = literal(case)
    charges = CHARGES[: actions(case)]
    gross = pool_by_size(summaries(case), contrast)
    net = pool_by_size(summaries(case, charged=True), contrast)
    cost = oracle.cost_of(waves, kind, action, charges, sizes(case))
    assert gross.estimate - net.estimate == close(cost)
    assert net.error == close(gross.error)
    assert net.statistic == close(gross.shape.statistic(cost))


# ----------------------------------------------------------------------
# Rare events.

TAILS = (0.2, 0.05, 0.025, 0.005, 1e-4, 1e-8)


def compare_rare(made, expected, tails=TAILS, offset=0.0):
    assert isinstance(made.shape, RareShape)
    assert made.estimate == close(rare_events.estimate(expected) - offset)
    for tail in tails:
        low, high = rare_events.limits(expected, float(stats.norm.isf(tail)))
        assert made.limits(tail) == close((low - offset, high - offset))
    for value in (0.0, made.estimate - 0.05, made.estimate + 0.1, made.estimate + 1e-4):
        z = rare_events.statistic(expected, value + offset)
        found = made.shape.statistic(value)
        if z > 39:
            assert abs(found) > 39
        else:
            assert abs(found) == pytest.approx(z, rel=1e-7, abs=1e-7)
        assert found * (made.estimate - value) >= 0
    assert made.p_value == pytest.approx(
        rare_events.p_value(expected, offset), rel=1e-5, abs=1e-200
    )


@of_contrasts
@of_rare
def test_rare_events_by_size(case, contrast, kind, action):
    expected = rare_events.contrast(literal(case), kind, action)
    compare_rare(pool_by_size(summaries(case), contrast), expected)


@of_means_and_lifts
@of_rare
def test_rare_events_by_shares(case, contrast, kind, action):
    D = costs_of(case, contrast.arms)
    W = rare_events.weights_by_shares(literal(case), kind, action, D)
    expected = rare_events.contrast(literal(case), kind, action, W)
    compare_rare(pool(summaries(case), contrast, plan_of(case).shares), expected)


@of_contrasts
@pytest.mark.parametrize("case", ["binary", "common", "amount"])
def test_rare_events_of_one_wave(case, contrast, kind, action):
    for m, summary in enumerate(summaries(case)):
        made = estimate_wave(summary, contrast)
        W = [0.0] * m + [1.0]
        expected = rare_events.contrast(literal(case)[: m + 1], kind, action, W)
        if m == 0 and kind == "gain over random":
            # The first wave was random: the gain is 0, for sure.
            assert (made.interval().low, made.interval().high) == (0, 0)
        else:
            compare_rare(made.interval(), expected)


@of_contrasts
@pytest.mark.parametrize("clusters", ["cluster", "own cluster"])
@pytest.mark.parametrize("case", ["binary", "common", "amount"])
def test_rare_events_in_clusters(case, clusters, contrast, kind, action):
    waves = literal(case)
    made = pool_by_size(summaries(case, clusters), contrast)
    more = 1.0
    if clusters == "cluster":
        between = oracle.covariance_of_waves(waves, kind, action, sizes(case), clusters)
        alone = oracle.by_size(waves, kind, action, clusters=clusters)
        more = 1 + between / alone["se"] ** 2
    expected = rare_events.contrast(waves, kind, action, clusters=clusters, more=more)
    compare_rare(made, expected, tails=(0.025, 0.001))


@of_contrasts
@of_rare
def test_rare_events_with_costs(case, contrast, kind, action):
    cost = oracle.cost_of(literal(case), kind, action, CHARGES[: actions(case)], sizes(case))
    made = pool_by_size(summaries(case, charged=True), contrast)
    expected = rare_events.contrast(literal(case), kind, action)
    compare_rare(made, expected, tails=(0.025,), offset=cost)


@pytest.mark.parametrize(
    ("contrast", "kind", "action"), [(Mean(2), "mean", 2), (Lift(1), "lift", 1)]
)
@pytest.mark.parametrize("case", ["binary", "common", "amount"])
def test_rare_events_of_a_segment(case, contrast, kind, action):
    expected = rare_events.contrast(literal(case), kind, action, keep=is_left, own=False)
    made = pool_by_size(summaries(case), contrast, segment=(Declared("half"), "left"))
    compare_rare(made, expected, tails=(0.025,))


@of_all
def test_which_outcomes_are_rare(case):
    for m, summary in enumerate(summaries(case)):
        expected, events = rare_events.form(literal(case)[: m + 1]), summary.events
        assert summary.evidence.binary == expected["binary"]
        assert bool(summary.usual) == expected["mirrored"]
        if events.counts.sum():
            assert events.rare == expected["few"]
            assert (events.rare and events.positive) == expected["rare"]


# ----------------------------------------------------------------------
# The rule of events.


@of_contrasts
@pytest.mark.parametrize("policy", ["greedy", "thompson"])
@of_all
def test_the_rule_of_events(case, policy, contrast, kind, action):  # noqa: ARG001
    waves, plan = literal(case), plan_of(case, policy)
    expected = rare_events.rule_of_events(
        waves, kind, actions(case), H, F, UNIFORM, policy == "thompson"
    )
    units = planned_units(plan.designs, contrast)
    back, events = summaries(case)[-1].evidence.share_returned, summaries(case)[-1].events
    assert units * back * events.share == close(expected["expected"])
    made = pool_by_size(summaries(case), contrast, planned=units)
    assert made.known == expected["printed"]
    if not made.known:
        assert made.few.expected == close(expected["expected"])
        assert made.few.needed == expected["needed"]


@pytest.mark.parametrize("policy", ["greedy", "thompson"])
@pytest.mark.parametrize("uniform", [1, 2, 3])
@of_rare
def test_the_rule_of_events_for_the_next_rule(case, policy, uniform):
    plan = plan_of_shares(
        sizes(case), actions=actions(case), randomised=H, floor=F, uniform=uniform, policy=policy
    )
    units = planned_units_of_next_rule(plan.designs[-1])
    expected = rare_events.rule_of_events(
        literal(case), "next", actions(case), H, F, uniform, policy == "thompson"
    )
    last = summaries(case)[-1]
    back = last.evidence.share_returned
    assert units * back * last.events.share == close(expected["expected"])
    few = few_events(last.events, units, share_returned=back)
    assert (few is None) == expected["printed"]
    gain = judge_next_rule(rows(case)[-1], summaries(case), planned=units).gain
    assert gain.few == few


@pytest.mark.parametrize("case", ["binary", "amount", "negative"])
def test_the_rule_of_events_in_a_segment(case):
    plan = plan_of(case)
    expected = rare_events.rule_of_events(
        literal(case), "lift", actions(case), H, F, UNIFORM, keep=is_left, own=False
    )
    made = within_segments(summaries(case), Lift(1), [Declared("half")], planned=plan.designs)
    left = made.findings[0].interval
    assert made.findings[0].segment == "left"
    assert left.known == expected["printed"]
    assert left.known or left.few.expected == close(expected["expected"])


# ----------------------------------------------------------------------
# The campaign as run, the next rule.


@pytest.mark.parametrize("case", ["normal", "binary", "amount"])
def test_the_campaign_as_run(case):
    made = run_value(summaries(case), level=0.9)
    K = actions(case)
    asked = [("as run", None), *(("gain", a) for a in range(K)), ("gain over random", None)]
    for one, (kind, action) in zip((made.value, *made.over_actions, made.over_random), asked,
                                   strict=True):  # fmt: skip
        if case == "normal":
            compare(one, oracle.by_size(literal(case), kind, action, level=0.9))
        else:
            compare_rare(one, rare_events.contrast(literal(case), kind, action), tails=(0.05,))
    assert made.over_best.low == close(min(one.limits(0.05)[0] for one in made.over_actions))
    assert made.over_best.high == close(min(one.limits(0.05 / K)[1] for one in made.over_actions))


@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize("charged", [False, True])
@of_all
def test_the_next_rule(case, charged, less):
    waves, costs = literal(case), CHARGES[: actions(case)] if charged else None
    made = judge_next_rule(rows(case)[-1], summaries(case, charged=charged), level=0.9, less=less)
    fitted = oracle.within_waves(waves)
    for a, b in enumerate(made.rule.coefficients):
        known = fitted[a] - (costs[a] if costs else 0.0) * np.eye(len(b))[0]
        assert b == pytest.approx(known, rel=1e-7, abs=1e-9)
    units = oracle.next_units(waves, costs=costs, less=less)
    given = [sum(unit["pi"] == a for unit in units) / len(units) for a in range(actions(case))]
    assert made.shares == close(tuple(given))
    cost = 0.0
    if costs:
        cost = sum(d * c for unit in units for d, c in zip(unit["d"], costs, strict=True))
        cost /= len(units)
    gain = made.gain
    if given[0] == 1:
        assert gain.note == "The rule gives control to every unit."
        return
    if case in PLAIN:
        expected = oracle.next_rule(waves, costs=costs, less=less)
        assert gain.estimate == close(expected["theta"] - cost)
        # Folds share the data that choose the rule: 1.3 times the variance.
        assert gain.error**2 == close(1.3 * expected["moderated"])
        if expected["moderated"]:
            assert gain.df == close(expected["df"])
        half = stats.t.isf(0.05, expected["df"]) * gain.error if gain.error else 0.0
        assert (gain.low, gain.high) == close((gain.estimate - half, gain.estimate + half))
    elif given[0] < 1:
        expected = rare_events.next_contrast(waves, costs=costs, less=less)
        compare_rare(gain, expected, tails=(0.05, 0.001), offset=cost)


# ----------------------------------------------------------------------
# Change between waves, and what is recommended.


@of_all
def test_the_level_of_outcomes(case):
    made = level_change(summaries(case))
    expected = oracle.level_change(literal(case))
    assert made.statistic == pytest.approx(expected["F"], rel=1e-7)
    assert made.p_value == pytest.approx(expected["p"], rel=1e-6)
    assert drift(summaries(case)).level == made


@pytest.mark.parametrize("clusters", ["cluster", "own cluster"])
def test_the_level_of_outcomes_in_clusters(clusters):
    made = level_change(summaries("normal", clusters))
    expected = oracle.level_change(literal("normal"), clusters)
    assert made.statistic == pytest.approx(expected["F"], rel=1e-7)
    assert made.p_value == pytest.approx(expected["p"], rel=1e-6)


@of_all
def test_lifts_that_change(case):
    found = [oracle.change(oracle.estimates(literal(case), "lift", a))
             for a in range(1, actions(case))]  # fmt: skip
    made = drift(summaries(case)).lifts
    assert [one.statistic for one in made] == close([one["Q"] for one in found])
    raw = sorted(one["p_change"] for one in found)
    least = min(made, key=lambda one: one.p_value)
    assert least.p_value == pytest.approx(min(1, raw[0] * len(raw)), rel=1e-6)


@of_all
def test_the_latest_waves_and_the_verdict(case):
    waves, K = literal(case), actions(case)
    for action in range(1, K):
        last = recommendation.recent_waves(waves, action)
        made = latest_lift(summaries(case), Lift(action), level=0.9)
        assert made.waves == last
        W = [0] * (len(waves) - last) + sizes(case)[-last:]
        if case in PLAIN:
            expected = oracle.by_size(waves, "lift", action, level=0.9, last=last)
            compare(made.interval, expected)
            p = oracle.one_sided(expected)
        else:
            expected = rare_events.contrast(waves, "lift", action, W)
            compare_rare(made.interval, expected, tails=(0.05,))
            z = rare_events.statistic(expected)
            p = stats.norm.sf(z if made.interval.estimate > 0 else -z)
        assert made.p_better == pytest.approx(p, rel=1e-6)
        worse = latest_lift(summaries(case), Lift(action), less=True)
        assert worse.p_better == pytest.approx(1 - p, rel=1e-6)
        change = oracle.change(oracle.estimates(waves, "lift", action))["p_change"]
        tail = recommendation.tail_of(K)
        pooled = pool_by_size(summaries(case), Lift(action))
        low, high = pooled.limits(tail)
        for above in range(1, K):
            said = verdict(low, high, same_p=pooled.same_p, latest_p=made.p_better, tail=tail,
                           waves=len(pooled.waves), candidates=above)  # fmt: skip
            assert said == recommendation.verdict(low, high, p, change, tail, above)


@pytest.mark.parametrize(
    ("sizes", "count"),
    # 70 of 425 are no fifth; of 16 not 10 are effective for each of two actions.
    [((280, 75, 70), 2), ((200, 80, 90), 1), ((30, 20, 16), 2), ((30, 20, 30), 1)],
)
def test_the_latest_waves_need_a_fifth_of_the_units(sizes, count):
    made = summarise(logged(waves_of(seed=16, sizes=sizes, K=2, P=1, missing=0.0)))
    assert latest_lift(made, Lift(1)).waves == count


def test_the_latest_waves_of_a_segment():
    """What counts are the segment's units: 70 of the last wave are no fifth of 390."""
    waves = waves_of(seed=9, sizes=(165, 165, 165), K=2, P=1, missing=0.0)
    for wave, left in zip(waves, (160, 160, 70), strict=True):
        for place, row in enumerate(wave):
            row["half"] = "left" if place < left else "right"
    made = summarise(logged(waves), partitions=[Declared("half")])
    for level, last in (("left", 2), ("right", 1)):
        found = latest_lift(made, Lift(1), segment=(Declared("half"), level))

        def keep(row, level=level):
            return row["half"] == level

        assert found.waves == last == recommendation.recent_waves(waves, 1, keep)
        expected = oracle.by_size(waves, "lift", 1, keep=keep, last=last)
        assert found.interval.estimate == close(expected["theta"])
        assert found.p_better == close(oracle.one_sided(expected))


@pytest.mark.parametrize("candidates", [1, 2, 5])
@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize("waves", [1, 2])
def test_every_verdict(waves, less, candidates):
    values = (0.001, 0.0124, 0.0126, 0.0249, 0.0251, 0.0499, 0.0501, 0.099, 0.101, 0.9)
    values += tuple(one / candidates for one in values)
    seen = set()
    for low, high in [(0.1, 0.5), (0.0, 0.5), (-0.5, 0.1), (-0.5, 0.0), (-0.5, -0.1)]:
        for same in values:
            for latest in values:
                ends = (-high, -low) if less else (low, high)
                made = verdict(*ends, same_p=same, latest_p=latest, tail=0.0125, waves=waves,
                               candidates=candidates, less=less)  # fmt: skip
                both = (None, None) if waves == 1 else (latest, same)
                assert made == recommendation.verdict(low, high, *both, 0.0125, candidates)
                seen.add(made)
    assert len(seen) == (3 if waves == 1 else 7)


def test_no_candidate_counts_as_one():
    """If another action is clear and this one is not, its own latest waves are asked as usual."""
    facts = {"same_p": 0.01, "latest_p": 0.001, "tail": 0.025, "waves": 3}
    assert verdict(-0.1, 0.5, **facts, candidates=0) == verdict(-0.1, 0.5, **facts)


@pytest.mark.parametrize("case", ["normal", "all back", "small waves", "binary", "amount of four"])
def test_lifts_that_cover_jointly(case):
    waves, K, level = literal(case), actions(case), 0.9
    loadings, df = [], math.inf
    for action in range(1, K):
        costs = [[sum(1 / row["p"][a] for row in wave) for a in (0, action)] for wave in waves]
        control, both = sum(one[0] for one in costs), sum(map(sum, costs))
        loadings.append(round(math.sqrt(control / both), 12))
        if case in PLAIN:
            df = min(df, oracle.by_size(waves, "lift", action)["df"])
    for action, one in enumerate(simultaneous_lifts(summaries(case), level=level), start=1):
        # Which bound was used is read off the limits, then put into the literal integral.
        alone = pool_by_size(summaries(case), Lift(action))
        if case in PLAIN:
            bound = (one.high - one.estimate) / one.error
            assert one.estimate - one.low == close(one.high - one.estimate)
        else:
            bound = alone.shape.statistic(one.high)
            bound = abs(bound)
            assert one.low == close(alone.limits(stats.norm.sf(bound))[0])
        assert oracle.outside_dunnett(bound, tuple(loadings), df) == pytest.approx(0.1, abs=2e-4)


# ----------------------------------------------------------------------
# Looks, the anytime interval, coefficients.


@pytest.mark.parametrize("case", ["normal", "small waves", "binary", "common", "amount"])
def test_looks(case):
    waves, plan = literal(case), plan_of(case)
    made = look(summaries(case), Lift(1), plan.shares, level=0.9)
    D = costs_of(case, 2)
    looked = [one.wave for one in made.looks]
    assert looked == [m for m in range(1, len(waves) + 1)
                      if len(set(rare_events.outcomes(waves[:m]))) > 1]  # fmt: skip
    for one in made.looks:
        m = one.wave
        if case in PLAIN:
            expected = oracle.pooled(waves[:m], "lift", 1, D[:m])
            tail = stats.t.sf(expected["theta"] / expected["se"], expected["df"])
            z = stats.norm.isf(tail)
            half = stats.t.isf(stats.norm.sf(one.boundary), expected["df"]) * expected["se"]
            ends = expected["theta"] - half, expected["theta"] + half
        else:
            W = rare_events.weights_by_shares(waves[:m], "lift", 1, D[:m])
            expected = rare_events.contrast(waves[:m], "lift", 1, W)
            z = math.copysign(rare_events.statistic(expected), rare_events.estimate(expected))
            ends = rare_events.limits(expected, one.boundary)
        assert one.statistic == pytest.approx(z, rel=1e-6)
        assert (one.repeated.low, one.repeated.high) == pytest.approx(ends, rel=1e-6)


@of_means_and_lifts
@pytest.mark.parametrize("case", ["normal", "later missing", "binary"])
def test_anytime(case, contrast, kind, action):
    D = costs_of(case, contrast.arms)
    theta, half = oracle.anytime(literal(case), kind, action, D, alpha=0.1)
    made = anytime(summaries(case), contrast, plan_of(case), level=0.9)
    assert made.estimate == close(theta)
    assert made.high - made.estimate == close(half)


@pytest.mark.parametrize("case", ["normal", "later missing", "all back"])
def test_coefficients(case):
    made = lift_coefficients(rows(case), 1, plan_of(case).shares)
    estimates, variances, df = oracle.lift_coefficients(literal(case), 1, costs_of(case, 2))
    assert [one.estimate for one in made.intervals] == close(list(estimates))
    assert [one.error**2 for one in made.intervals] == close(list(variances))
    assert made.intervals[0].df == close(df)


# ----------------------------------------------------------------------
# Edges: units that cannot get an action, actions that end, outcomes that are not there.


@cache
def restricted(kind):
    """Return waves in which action 2 is closed to about half of the units, by a feature."""
    waves, random = waves_of(seed=11, kind=kind, sizes=(80, 70)), np.random.default_rng(11)
    for wave in waves:
        for row in wave:
            row["could"] = [True, True, row["half"] == "right"]
            p = np.where(row["could"], row["p"], 0.0)
            row["p"] = (p / p.sum()).tolist()
            if not row["could"][row["a"]]:
                row["a"] = int(random.integers(2))
    return waves


def both(row):
    return row["could"][2]


@pytest.mark.parametrize("kind", ["normal", "binary", "common", "amount"])
def test_units_that_cannot_get_an_action(kind):
    waves = restricted(kind)
    among = Eligible((0, 2))
    made = summarise(logged(waves), partitions=[among], charges=CHARGES[:3])
    asked = [
        (AsRun(), "as run", None, None),
        (GainOverRandom(), "gain over random", None, None),
        (Lift(1), "lift", 1, None),
        (Gain(0), "gain", 0, None),
        (Lift(2), "lift", 2, (among, True)),
        (Mean(2), "mean", 2, (among, True)),
    ]
    for contrast, name, action, segment in asked:
        keep = both if segment else oracle.everybody
        W = [sum(map(keep, wave)) for wave in waves]
        cost = oracle.cost_of(waves, name, action, CHARGES[:3], W, keep)
        found = pool_by_size(made, contrast, segment=segment)
        parts = oracle.estimates(waves, name, action, keep)
        for wave, part in zip(found.waves, parts, strict=True):
            assert wave.variance == close(part["moderated"])
            assert wave.cost == close(part["C"])
            # Random assignment gains nothing over itself, for sure.
            assert not part["moderated"] or wave.df == close(part["df"])
        if kind == "normal":
            assert found.estimate == close(oracle.weighted(parts, W)["theta"] - cost)
        else:
            expected = rare_events.contrast(waves, name, action, keep=keep, own=False)
            compare_rare(found, expected, tails=(0.025,), offset=cost)
    for contrast in (Lift(2), Mean(2), Gain(2)):
        assert not pool_by_size(made, contrast).known


@pytest.mark.parametrize("kind", ["normal", "binary", "amount"])
def test_an_action_that_ends(kind):
    """Action 2 has no chance in the last wave: it is averaged over the waves that have it."""
    waves = waves_of(seed=12, kind=kind, sizes=(60, 70, 50))
    for row in waves[2]:
        row["p"] = [row["p"][0] + row["p"][2], row["p"][1], 0.0]
        row["a"] = 0 if row["a"] == 2 else row["a"]
    made = summarise(logged(waves))
    asked = [
        (Lift(1), "lift", 1), (AsRun(), "as run", None), (Gain(0), "gain", 0), (Mean(1), "mean", 1),
    ]  # fmt: skip
    for contrast, name, action in asked:
        found = pool_by_size(made, contrast)
        assert len(found.waves) == 3
        if kind == "normal":
            compare(found, oracle.by_size(waves, name, action))
        else:
            expected = rare_events.contrast(waves, name, action)
            compare_rare(found, expected, tails=(0.025,))
    assert estimate_wave(made[2], Lift(2)) is None
    found = pool_by_size(made, Lift(2))
    assert [wave.units for wave in found.waves] == [60, 70]
    if kind == "normal":
        compare(found, oracle.by_size(waves[:2], "lift", 2))


@pytest.mark.parametrize("kind", ["normal", "common"])
def test_waves_without_outcomes(kind):
    """The first wave's and the third one's outcomes never come: models know it, estimates wait."""
    waves = waves_of(seed=13, kind=kind, sizes=(20, 60, 15, 50))
    for wave in (waves[0], waves[2]):
        for row in wave:
            row["y"] = None
    made, plan = summarise(logged(waves)), plan_of_shares(
        [20, 60, 15, 50], actions=3, randomised=H, floor=F
    )  # fmt: skip
    assert estimate_wave(made[0], Lift(1)) is None
    for action in range(3):
        expected = return_model.newton_sums(waves, action)
        np.testing.assert_allclose(made[-1].returned.coefficients[action], expected["b"], rtol=1e-8)
    found = pool_by_size(made, Lift(1))
    assert [wave.units for wave in found.waves] == [60, 50]
    parts = [oracle.wave_estimate(waves[: m + 1], "lift", 1) for m in (1, 3)]
    for wave, part in zip(found.waves, parts, strict=True):
        compare_wave(wave, part)
    assert bool(made[-1].usual) == (kind == "common")
    if kind == "common":
        compare_rare(found, rare_events.contrast(waves, "lift", 1, [0, 60, 0, 50]))
    assert anytime(made, Lift(1), plan).known


@pytest.mark.parametrize("mirrored", [False, True])
def test_an_action_whose_units_are_all_events(mirrored):
    """Its mean is the most that it can be: the own variance says nothing then."""
    random, waves = np.random.default_rng(14), []
    for n in (60, 80):
        wave = []
        for place in range(n):
            a = int(place % 8 == 0)
            event = a == 1 or random.random() < 0.1
            wave.append({"x": [1.0], "a": a, "p": [0.8, 0.2], "y": float(event != mirrored)})
        waves.append(wave)
    made = summarise(logged(waves))
    for contrast, kind, action in CONTRASTS:
        compare_rare(pool_by_size(made, contrast), rare_events.contrast(waves, kind, action))
    [part] = rare_events.contrast(waves, "mean", 1)["parts"]
    assert part["k_own"] is None


def test_limits_never_come_back():
    """Few units with tiny probabilities: skewness outweighs the rest at large z."""
    waves = waves_of(seed=15, kind="binary", sizes=(80,), P=2)
    for place, row in enumerate(waves[0]):
        row["p"] = [0.01, 0.98, 0.01] if place % 20 else [0.97, 0.01, 0.02]
    made = pool_by_size(summarise(logged(waves)), Mean(1))
    expected = rare_events.contrast(waves, "mean", 1)
    [part] = expected["parts"]
    assert part["w"] > 6 * part["k"]
    z = np.linspace(0, 9, 181)
    ends = np.array([made.limits(float(stats.norm.sf(one))) for one in z])
    assert (np.diff(ends[:, 0]) <= 0).all()
    assert (np.diff(ends[:, 1]) >= 0).all()
    plain = [rare_events.plain_limits(part, one)[1] for one in z]
    assert min(np.diff(plain)) < 0
    compare_rare(made, expected)
