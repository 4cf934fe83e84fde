"""Contrasts use only units that could get the actions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from seqbatch.inference import (
    AmongEligible,
    AsRun,
    Declared,
    Eligible,
    Gain,
    GainOverRandom,
    Lift,
    Mean,
    Rows,
    estimate_wave,
    judge_next_rule,
    plan_of_shares,
    pool,
    pool_by_size,
    strongest_splits,
    summarise,
    within_segments,
)
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.evidence import gathered
from seqbatch.inference.return_model import ReturnModel
from tests.inference.campaigns import campaign, logged
from tests.oracles import inference as oracle
from tests.oracles import rare_events
from tests.oracles.campaigns import waves_of
from tests.refusals import refused

BOTH = (Eligible((0, 2)), True)


def restricted(seed, sizes=(80, 90)):
    """Return waves in which action 2 is closed to about half of the units, by a feature."""
    random = np.random.default_rng([7, seed])
    made = []
    for rows in campaign(seed=seed, sizes=sizes):
        allowed = np.ones((rows.count, 3), dtype=bool)
        allowed[:, 2] = rows.features[:, 2] > 0
        p = np.where(allowed, rows.probabilities, 0)
        p /= p.sum(axis=1, keepdims=True)
        actions = (random.random(rows.count)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
        y = 2 + rows.features[:, 1] * (1 + 0.4 * actions) + 0.4 * actions
        y += random.standard_normal(rows.count)
        made.append(Rows.of(rows.features, actions, p, y, eligible=allowed))
    return made


def test_a_mask_that_allows_everything_changes_nothing():
    waves = campaign(seed=3)
    open_to_all = [replace(w, eligible=np.ones(w.probabilities.shape, dtype=bool)) for w in waves]
    plain, masked = (
        summarise(each, partitions=[Eligible((0, 2))]) for each in (waves, open_to_all)
    )
    for contrast in (Mean(2), Lift(1), AsRun(), Gain(1), GainOverRandom()):
        assert estimate_wave(plain[1], contrast) == estimate_wave(masked[1], contrast)
    assert estimate_wave(masked[1], Lift(2), BOTH) == estimate_wave(plain[1], Lift(2), BOTH)


def test_a_lift_is_the_mean_of_the_scores_of_those_who_could_get_both():
    """Row by row: the scores that the model of all units gives, averaged over the eligible."""
    [wave, _] = restricted(1)
    made = summarise([wave], partitions=[Eligible((0, 2))])
    evidence = gathered(wave)
    model = OutcomeModel.fitted(evidence)
    shift = CommonShift.of(evidence.statistics, model)
    found = score(wave, model, ReturnModel.by_action(evidence).of(wave), shift).values
    scores = [found[i, 2] - found[i, 0] for i in range(wave.count) if wave.eligible[i, 2]]
    assert estimate_wave(made[0], Lift(2), BOTH).estimate == pytest.approx(np.mean(scores))
    assert estimate_wave(made[0], Lift(2), BOTH).units == len(scores)
    # Of everybody nothing is known.
    assert estimate_wave(made[0], Lift(2)) is None
    assert estimate_wave(made[0], Gain(2)) is None
    run = [np.nansum(found[i] * wave.probabilities[i]) for i in range(wave.count)]
    even = [found[i][wave.eligible[i]].mean() for i in range(wave.count)]
    gain = estimate_wave(made[0], GainOverRandom())
    assert gain.estimate == pytest.approx(np.mean(run) - np.mean(even))
    costs = [(1 / wave.probabilities[i][wave.eligible[i]]).sum() / wave.eligible[i].sum() ** 2
             for i in range(wave.count)]  # fmt: skip
    assert gain.cost == pytest.approx(np.mean(costs))


def closed_to_some(seed, kind, sizes=(120, 90, 130)):
    """Return waves for the oracles in which action 2 is closed to most units on the left."""
    random = np.random.default_rng([seed, 3])
    waves = waves_of(seed=seed, kind=kind, sizes=sizes)
    for row in (row for wave in waves for row in wave):
        row["could"] = [True, True, row["half"] == "right" or row["x"][1] > 0.5]
        p = np.where(row["could"], row["p"], 0.0)
        row["p"] = (p / p.sum()).tolist()
        if not row["could"][row["a"]]:
            row["a"] = int(random.random() < row["p"][1])
    return waves


@pytest.mark.parametrize("kind", ["normal", "binary", "amount"])
@pytest.mark.parametrize("half", ["left", "right"])
def test_a_lift_in_a_segment_is_that_of_its_eligible_units(kind, half):
    """The oracle takes the rows one by one that are in the segment and could get both."""
    waves = closed_to_some(4, kind)
    by = Declared("half")
    among = AmongEligible(by, (0, 2))
    made = summarise(logged(waves), partitions=[by, among])

    def kept(row):
        return row["half"] == half and row["could"][2]

    [found] = [one for one in within_segments(made, Lift(2), [among]).findings
               if one.segment == half]  # fmt: skip
    inside = [row for wave in waves for row in wave if row["half"] == half]
    assert found.among == pytest.approx(np.mean([row["could"][2] for row in inside]))
    assert found.unknown == ""
    own = found.interval
    if kind == "normal":
        expected = oracle.by_size(waves, "lift", 2, keep=kept)
        assert own.estimate == pytest.approx(expected["theta"], rel=1e-8)
        assert (own.low, own.high) == pytest.approx((expected["low"], expected["high"]), rel=1e-8)
    else:
        shape = rare_events.contrast(waves, "lift", 2, keep=kept, own=False)
        assert own.estimate == pytest.approx(rare_events.estimate(shape), rel=1e-8)
        limits = rare_events.limits(shape, float(stats.norm.isf(0.025)))
        assert (own.low, own.high) == pytest.approx(limits, rel=1e-7)
    # Whoever is in the segment, but could not get both, would make it unknown.
    [whole] = [one for one in within_segments(made, Lift(2), [by]).findings
               if one.segment == half]  # fmt: skip
    assert whole.interval.known == all(row["could"][2] for row in inside)


def test_a_segment_in_which_nobody_may_get_it_says_so():
    waves = closed_to_some(5, "normal")
    for row in (row for wave in waves for row in wave if row["half"] == "left"):
        row["could"] = [True, True, False]
        row["p"] = [row["p"][0] / sum(row["p"][:2]), row["p"][1] / sum(row["p"][:2]), 0.0]
        row["a"] = min(row["a"], 1)
    by = Declared("half")
    among = AmongEligible(by, (0, 2))
    made = within_segments(summarise(logged(waves), partitions=[by, among]), Lift(2), [among])
    left, right = made.findings
    assert (left.segment, left.unknown, left.among) == ("left", "not-eligible", 0.0)
    assert np.isnan(left.adjusted_p)
    assert not left.interval.known
    assert left.interval.note
    assert (right.unknown, right.among) == ("", 1.0)
    assert right.adjusted_p <= 1
    assert "p = nan" not in str(made)
    assert "p = " in str(made)


def test_splits_are_found_among_the_eligible():
    """What nobody could get is left out, and the lift grows by 0.8 per unit of column 1."""
    waves = restricted(11, sizes=(900, 900))
    made = strongest_splits(waves, Lift(2), labels=["1", "a", "b"], most=1, eligible=(0, 2))
    [found] = made.splits
    assert found.split.label == "a"
    assert found.difference.low > 0
    assert strongest_splits(waves, Lift(2), labels=["1", "a", "b"]).splits == ()


def test_intervals_in_segments_of_the_eligible_cover():
    """The lift of those who may get both is 0.8 (1 + mean of x1) in each of two segments."""
    inside = np.zeros(2, dtype=int)
    for seed in range(300):
        waves = [replace(rows, groups={"half": (rows.features[:, 1] > 0) * 1})
                 for rows in restricted(seed, sizes=(120, 150))]  # fmt: skip
        by = Declared("half")
        among = AmongEligible(by, (0, 2))
        made = summarise(waves, contrasts=[Lift(2)], partitions=[by, among])
        for place, one in enumerate(within_segments(made, Lift(2), [among]).findings):
            mine = [rows.eligible[:, 2] & (rows.groups["half"] == place) for rows in waves]
            x = np.concatenate([w.features[m, 1] for w, m in zip(waves, mine, strict=True)])
            inside[place] += one.interval.low <= 0.8 * (1 + x.mean()) <= one.interval.high
    # At least 95% of 300, less three standard errors; the units themselves are fixed here.
    assert (inside >= 274).all(), inside


def test_the_rule_to_run_next_gives_nobody_what_they_may_not_get():
    waves = restricted(2, sizes=(300, 300))
    made = summarise(waves, partitions=[Eligible((0, 2))])
    judged = judge_next_rule(waves[-1], made)
    given = judged.rule.actions(waves[-1].features, waves[-1].eligible)
    assert waves[-1].eligible[np.arange(300), given].all()
    assert judged.rule.actions(waves[-1].features).tolist() != given.tolist()
    assert judged.supported == 1.0
    assert judged.gain.known


def test_intervals_among_the_eligible_cover():
    """The lift of those who may get both, 0.4 * 2 (1 + mean of x1), over 300 campaigns."""
    shares = plan_of_shares((80, 90), actions=3, randomised=0.1, floor=0.05).shares
    inside = np.zeros(2, dtype=int)
    for seed in range(300):
        made = summarise(restricted(seed), contrasts=[Lift(2)], partitions=[Eligible((0, 2))])
        both = pool(made, Lift(2), shares, segment=BOTH), pool_by_size(made, Lift(2), segment=BOTH)
        inside += [one.low <= 0.8 <= one.high for one in both]
    # 95% of 300 within three standard errors.
    assert ((inside >= 274) & (inside <= 296)).all(), inside


def test_probabilities_of_what_is_not_eligible_are_refused():
    with refused("invalid-argument", field="probabilities"):
        Rows.of([[1.0]], [0], [[0.5, 0.5]], [1.0], eligible=[[True, False]])
