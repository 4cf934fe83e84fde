"""What a simulated campaign prints, beside what is true in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

import numpy as np
from numpy.random import Generator

from benchmarks.coverage.cells import Cell
from benchmarks.coverage.worlds import Simulated, population, simulate_campaign
from seqbatch.inference import (
    AsRun,
    Gain,
    GainOverRandom,
    Interval,
    Lift,
    Mean,
    Verdict,
    WaveSummary,
    judge_next_rule,
    latest_lift,
    look,
    naive_lift,
    planned_units,
    planned_units_of_next_rule,
    pool,
    pool_by_size,
    simultaneous_lifts,
    summarise,
    verdict,
)
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.drift import level_change, lift_change
from seqbatch.inference.estimates import Pooled
from seqbatch.inference.intervals import quantile, student_tail
from seqbatch.inference.recommendation import CHANGE
from seqbatch.inference.rule_value import GreedyRule

#: The error on each side of a nominal 95% interval.
TAIL = 0.025

CONTROL, ACTION = "mean of control", "mean of an action"
BY_SIZE, BY_SHARES, JOINT = "lift, by size", "lift, by shares", "lifts, jointly"
VALUE, OVER_CONTROL, OVER_RANDOM = "value as run", "gain over control", "gain over random"
NEXT, LATEST, NAIVE = "next rule", "lift in the latest waves", "lift, naive"
INTERVALS = (
    CONTROL, ACTION, BY_SIZE, BY_SHARES, JOINT, VALUE, OVER_CONTROL, OVER_RANDOM, NEXT, LATEST,
    NAIVE,
)  # fmt: skip
#: Quantities whose sign matters.
SIGNED = (BY_SIZE, BY_SHARES, JOINT, OVER_CONTROL, OVER_RANDOM, NEXT, LATEST)

LIFT_CHANGED, LEVEL_CHANGED = "test of the lift", "test of the level"
LOOKS = {"obrien-fleming": "looks, O'Brien-Fleming", "pocock": "looks, Pocock"}
GIVEN, BETTER = "verdict: give", "verdict: give or unconfirmed"
WRONGLY = "verdict: give, though the latest waves' lift is gone"
TOO_LATE = "verdict: give, though the last wave's lift is gone"
VERDICTS = (GIVEN, WRONGLY, TOO_LATE, BETTER)


@dataclass(frozen=True)
class Printed:
    """An interval beside the truth; NaN if none was printed.

    Parameters
    ----------
    name
        Of what.
    low, high
        The interval.
    truth
        What is true.
    """

    name: str
    low: float
    high: float
    truth: float

    @classmethod
    def of(cls, name: str, interval: Interval, truth: float) -> "Printed":
        """Return an interval beside the truth."""
        return cls(name, interval.low, interval.high, truth)

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not isnan(self.low)

    @property
    def above(self) -> bool:
        """Whether the truth lies above the interval."""
        return self.truth > self.high

    @property
    def below(self) -> bool:
        """Whether the truth lies below the interval."""
        return self.truth < self.low

    @property
    def wrong_sign(self) -> bool:
        """Whether the interval claims a sign that the truth does not have."""
        if self.name not in SIGNED:
            return False
        return (self.low > 0 and self.truth <= 0) or (self.high < 0 and self.truth >= 0)


@dataclass(frozen=True)
class Flag:
    """Whether something happened in a campaign: a rejection, an error, a verdict."""

    name: str
    happened: bool


def measure_campaign(
    cell: Cell, random: Generator, *, jointly: bool = True
) -> tuple[list[Printed], list[Flag]]:
    """Simulate a campaign; return its intervals beside the truth, its tests and its verdict.

    Parameters
    ----------
    cell, random
        The setting, and the source of chance.
    jointly
        Whether to compute joint intervals of all lifts, which takes longer than all the rest.
    """
    return measure(simulate_campaign(cell, random), jointly=jointly)


def measure(run: Simulated, *, jointly: bool = True) -> tuple[list[Printed], list[Flag]]:
    """Return a campaign's intervals beside the truth, its tests and its verdict."""
    cell = run.cell
    summaries = summarise(run.waves, contrasts=_contrasts(cell.actions), charges=cell.costs)
    lifts = [_by_size(run, summaries, Lift(action)) for action in range(1, cell.actions)]
    printed = [
        *_over_units(run, summaries),
        *_lifts(run, summaries, lifts[-1]),
        _next(run, summaries),
    ]
    if jointly and cell.actions > 2:
        printed.append(_joint(run, summaries))
    return printed, [*_tests(cell, summaries), *_verdict(run, summaries, lifts)]


def _contrasts(actions: int) -> list[Contrast]:
    means = [Mean(action) for action in range(actions)]
    return [*means, *map(Lift, range(1, actions)), AsRun(), Gain(0), GainOverRandom()]


def _by_size(run: Simulated, summaries: tuple[WaveSummary, ...], contrast: Contrast) -> Interval:
    planned = planned_units(run.cell.plan.designs, contrast)
    return pool_by_size(summaries, contrast, planned=planned)


def _over_units(run: Simulated, summaries: tuple[WaveSummary, ...]) -> list[Printed]:
    """Return means, the value as run and its gains: averages over all units."""
    waves = range(len(run.waves))
    sizes = run.sizes / run.sizes.sum()
    means = sizes @ np.array([run.means(wave) for wave in waves])
    value = run.over_waves(run.value)
    last = run.cell.actions - 1
    asked: list[tuple[str, Contrast, float]] = [
        (CONTROL, Mean(0), means[0]),
        (ACTION, Mean(last), means[last]),
        (VALUE, AsRun(), value),
        (OVER_CONTROL, Gain(0), value - means[0]),
        (OVER_RANDOM, GainOverRandom(), value - means.mean()),
    ]
    return [
        Printed.of(name, _by_size(run, summaries, contrast), float(truth))
        for name, contrast, truth in asked
    ]


def _lifts(run: Simulated, summaries: tuple[WaveSummary, ...], by_size: Interval) -> list[Printed]:
    """Return the lift of the last action, weighted in several ways."""
    plan, action = run.cell.plan, run.cell.actions - 1
    lift, truth = Lift(action), run.lift(action)
    planned = planned_units(plan.designs, lift)
    latest = latest_lift(summaries, lift)
    waves = range(len(run.waves) - latest.waves, len(run.waves))
    return [
        Printed.of(BY_SIZE, by_size, truth),
        Printed.of(BY_SHARES, pool(summaries, lift, plan.shares, planned=planned), truth),
        Printed.of(LATEST, latest.interval, run.lift(action, waves)),
        Printed.of(NAIVE, naive_lift(summaries[-1], action), truth),
    ]


def _joint(run: Simulated, summaries: tuple[WaveSummary, ...]) -> Printed:
    """Return the lift that misses most, of all lifts with intervals that cover jointly."""
    planned = planned_units(run.cell.plan.designs, Lift(1))
    made = [
        Printed.of(JOINT, interval, run.lift(action))
        for action, interval in enumerate(simultaneous_lifts(summaries, planned=planned), start=1)
    ]
    return max(made, key=lambda one: max(one.truth - one.high, one.low - one.truth))


def _next(run: Simulated, summaries: tuple[WaveSummary, ...]) -> Printed:
    planned = planned_units_of_next_rule(run.cell.plan.designs[-1])
    found = judge_next_rule(run.waves[-1], summaries, planned=planned)
    if found.gain.low == found.gain.high:
        # The rule is control for all units: there is nothing to judge.
        return Printed(NEXT, nan, nan, 0.0)
    return Printed.of(NEXT, found.gain, _true_gain(run, found.rule))


def _true_gain(run: Simulated, rule: GreedyRule) -> float:
    """Return the gain of a rule over control, in the population of the last wave."""
    last = len(run.waves) - 1
    x, net = population(run.cell, last), run.net(last)
    wanted = rule.actions(run.seen(x))
    return float((net[np.arange(len(x)), wanted] - net[:, 0]).mean())


def _tests(cell: Cell, summaries: tuple[WaveSummary, ...]) -> list[Flag]:
    """Return rejections where nothing changes, and errors of looks where nothing differs."""
    flags, lift = [], Lift(cell.actions - 1)
    if cell.lifts_constant:
        change = lift_change(summaries, lift)
        flags.append(Flag(LIFT_CHANGED, change is not None and change[1] < CHANGE))
    if cell.level_constant and cell.lifts_constant:
        level = level_change(summaries)
        flags.append(Flag(LEVEL_CHANGED, level is not None and level.p_value < CHANGE))
    if cell.no_lift and not cell.costs:
        flags += [_looks(cell, summaries, lift, rule) for rule in LOOKS]
    return flags


def _looks(cell: Cell, summaries: tuple[WaveSummary, ...], lift: Lift, rule: str) -> Flag:
    """Say whether any look found an effect that is not there."""
    looks = look(summaries, lift, cell.plan.shares, rule=rule).looks
    return Flag(LOOKS[rule], any(one.verdict != "go on" for one in looks))


def _verdict(
    run: Simulated, summaries: tuple[WaveSummary, ...], lifts: list[Interval]
) -> list[Flag]:
    """Return the verdict about the action with the best lift, and whether it is false."""
    around = [one for one in _around(run, summaries, lifts) if isinstance(one, Pooled)]
    if not around:
        return [Flag(name, happened=False) for name in VERDICTS]
    best = max(around, key=lambda one: one.estimate)
    action = around.index(best) + 1
    latest = latest_lift(summaries, Lift(action))
    said = verdict(
        best.low,
        best.high,
        same_p=best.same_p,
        latest_p=latest.p_better,
        tail=TAIL / len(lifts),
        waves=len(run.waves),
        candidates=sum(one.low > 0 for one in around),
    )
    given = said in (Verdict.GIVE, Verdict.GIVE_CHANGED)
    happened = (
        given,
        given and _gone(run, action, latest.waves),
        given and _gone(run, action, 1),
        given or said == Verdict.UNCONFIRMED,
    )
    return [Flag(name, one) for name, one in zip(VERDICTS, happened, strict=True)]


def _around(
    run: Simulated, summaries: tuple[WaveSummary, ...], lifts: list[Interval]
) -> Sequence[Interval]:
    """Return lifts with the intervals that the verdict reads: those that cover jointly.

    Jointly, intervals are wider than alone and at most as wide as Bonferroni's with the lowest
    degrees of freedom. Where these two have the same signs, they are returned: they take less time.
    """
    known = [one for one in lifts if isinstance(one, Pooled)]
    bound = quantile(TAIL / len(lifts), min((one.df for one in known), default=inf))
    widest = []
    for one in known:
        low, high = one.limits(student_tail(bound, one.df))
        widest.append(replace(one, low=low, high=high))
    if all(_signs(one) == _signs(wide) for one, wide in zip(known, widest, strict=True)):
        return widest
    return simultaneous_lifts(summaries, planned=planned_units(run.cell.plan.designs, Lift(1)))


def _signs(interval: Interval) -> tuple[bool, bool]:
    return interval.low > 0, interval.high < 0


def _gone(run: Simulated, action: int, waves: int) -> bool:
    """Say whether an action is not better than control in the last waves."""
    every = len(run.waves)
    return run.lift(action, range(every - waves, every)) < 1e-9
