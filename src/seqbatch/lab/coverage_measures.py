"""What one simulated campaign's intervals said, beside the truth."""

from dataclasses import dataclass, replace
from math import isnan

import numpy as np
from numpy.random import Generator

from seqbatch.inference import (
    Interval,
    Lift,
    Mean,
    PlanOfShares,
    Pooled,
    WaveSummary,
    anytime,
    judge_next_rule,
    look,
    naive_lift,
    pool,
    run_value,
    simultaneous_lifts,
    summarise,
)
from seqbatch.inference.rule import GreedyRule
from seqbatch.inference.summary import Missing
from seqbatch.lab.coverage_campaigns import Cell, Simulated, simulate_campaign
from seqbatch.lab.coverage_worlds import WORLDS, panel

POOLED, NAIVE, TOGETHER = "lift, pooled", "lift, naive", "all lifts together"
MEAN, VALUE, OVER_CONTROL, OVER_RANDOM = (
    "mean of control", "value as run", "gain over control", "gain over random",
)  # fmt: skip
#: The width is that of the pooled interval over that of the first wave's own.
AGAINST_FIRST = "lift, pooled against the first wave alone"
OVER_BEST, NEXT_RULE, ANYTIME = "gain over the best action", "next rule", "lift, anytime"
ERRORS = {
    "obrien-fleming": "error of looks, O'Brien-Fleming",
    "pocock": "error of looks, Pocock",
    "none": "error of looks, 1.96 every time",
}

LOOKS = tuple(ERRORS.values())


@dataclass(frozen=True)
class Measure:
    """Whether an interval covered, or looks erred, and how wide it was.

    Parameters
    ----------
    name
        Of what.
    hit
        Whether it covered; for looks, whether they erred.
    width
        Of the interval; NaN for looks.
    """

    name: str
    hit: bool
    width: float


def measure_campaign(cell: Cell, random: Generator) -> tuple[list[Measure], float]:
    """Simulate a campaign; return its measures, and its fewest effective outcomes in any wave."""
    run = simulate_campaign(cell, random)
    plan = cell.plan
    by: Missing = "by features" if cell.missing == "by feature" else "by action"
    summaries = summarise(run.waves, missing=by)
    lifts = WORLDS[cell.world].lifts
    pooled = [pool(summaries, Lift(action), plan.shares) for action in (1, 2)]
    measures = [_covered(POOLED, one, truth) for one, truth in zip(pooled, lifts, strict=True)]
    measures += [
        _covered(NAIVE, naive_lift(summaries[-1].evidence, action), truth)
        for action, truth in zip((1, 2), lifts, strict=True)
    ]
    measures.append(_covered(ANYTIME, anytime(summaries, Lift(1), plan), lifts[0]))
    measures.append(_together(simultaneous_lifts(summaries, plan.shares), lifts))
    measures += [_against_first(one, action, summaries) for action, one in enumerate(pooled, 1)]
    measures += _values(cell, run, summaries, plan)
    if cell.world == "no effect":
        measures += [_erred(summaries, plan, rule) for rule in ERRORS]
    waves = (wave for one in pooled if isinstance(one, Pooled) for wave in one.waves)
    fewest = min((wave.effective for wave in waves), default=0.0)
    # What is refused neither covers nor misses.
    return [one for one in measures if one.name in LOOKS or not isnan(one.width)], fewest


def _values(
    cell: Cell, run: Simulated, summaries: tuple[WaveSummary, ...], plan: PlanOfShares
) -> list[Measure]:
    """Compare a mean, the run's value and gains, and the next rule, with the whole population."""
    x = panel()
    means = WORLDS[cell.world].means(x)
    alone = means.mean(axis=0)
    sizes = np.array([rows.count for rows in run.waves], dtype=np.float64)
    earned = np.array([float((rule(x) * means).sum(axis=1).mean()) for rule in run.rules])
    value = float(sizes @ earned / sizes.sum())
    made = run_value(summaries)
    following = judge_next_rule(run.waves[-1], summaries[-1])
    return [
        _covered(MEAN, pool(summaries, Mean(0), plan.shares), alone[0]),
        _covered(VALUE, made.value, value),
        _covered(OVER_CONTROL, made.over_actions[0], value - alone[0]),
        _covered(OVER_RANDOM, made.over_random, value - alone.mean()),
        _covered(OVER_BEST, made.over_best, value - alone.max()),
        _covered(NEXT_RULE, following.gain, _true_gain(following.rule, x, means)),
    ]


def _true_gain(rule: GreedyRule, x: np.ndarray, means: np.ndarray) -> float:
    wanted = rule.actions(x)
    return float((means[np.arange(len(x)), wanted] - means[:, 0]).mean())


def _covered(name: str, interval: Interval, truth: float) -> Measure:
    return Measure(name, bool(interval.low <= truth <= interval.high), interval.high - interval.low)


def _against_first(pooled: Interval, action: int, summaries: tuple[WaveSummary, ...]) -> Measure:
    """Compare the pooled interval's width with that of the first wave alone, which is random."""
    alone = pool(summaries[:1], Lift(action), (1.0,))
    ratio = (pooled.high - pooled.low) / (alone.high - alone.low)
    return Measure(AGAINST_FIRST, ratio < 1, ratio)


def _together(lifts: tuple[Interval, ...], truths: tuple[float, float]) -> Measure:
    parts = [_covered("", one, truth) for one, truth in zip(lifts, truths, strict=True)]
    hit, width = all(part.hit for part in parts), sum(part.width for part in parts) / len(parts)
    return replace(parts[0], name=TOGETHER, hit=hit, width=width)


def _erred(summaries: tuple[WaveSummary, ...], plan: PlanOfShares, rule: str) -> Measure:
    """Say whether any look found an effect that is not there."""
    looks = look(summaries, Lift(1), plan.shares, rule=rule).looks
    return Measure(ERRORS[rule], any(one.verdict != "go on" for one in looks), float("nan"))
