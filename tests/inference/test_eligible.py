"""Contrasts use only units that could get the actions."""

from dataclasses import replace

import numpy as np
import pytest

from seqbatch.inference import (
    AsRun,
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
    summarise,
)
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.evidence import gathered
from seqbatch.inference.return_model import ReturnModel
from tests.inference.campaigns import campaign
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


def test_the_rule_to_run_next_gives_nobody_what_they_may_not_get():
    waves = restricted(2, sizes=(300, 300))
    made = summarise(waves, partitions=[Eligible((0, 2))])
    judged = judge_next_rule(waves[-1], made[-1])
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
