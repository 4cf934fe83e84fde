"""Campaigns with few events, drawn as counts, many at once, with the looks of the library.

Units have no features, so units with the same action and outcome are equal: a wave is the count of
each kind. Scores, pooled lifts and verdicts are written again for arrays of campaigns;
`tests/campaign/decide/test_few_events.py` compares them with real campaigns and with the library.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.random import Generator

from seqbatch.campaign.decide.logged_waves import information, planned
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.steps.create import prepare
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference import boundaries
from seqbatch.inference.contrasts import Lift
from seqbatch.inference.estimates import PRIOR_DF
from seqbatch.inference.evidence import ON_CONSTANT
from seqbatch.inference.intervals import FARTHEST
from seqbatch.inference.rare_events import (
    BALANCE,
    ENOUGH_AMOUNTS,
    ENOUGH_BINARY,
    FITTED,
    HEAVY,
    planned_units,
)
from seqbatch.inference.score_sums import COMMON

ALPHA = 0.05
RULES = ("pocock", "obrien-fleming")
#: The sizes of events, and the share of each: 1 on average, except for losses.
ALIKE, LOSSES = ((1.0, 1.0),), ((-1.0, 1.0),)
MIXED = ((0.5, 0.9), (5.5, 0.1))
#: Sizes with the means of parts of a log-normal distribution of mean 1: sigma 1, and 1.5.
AMOUNTS = ((0.17, 0.2), (0.36, 0.2), (0.61, 0.2), (1.03, 0.2), (2.83, 0.2))
HEAVY_AMOUNTS = (
    (0.05, 0.2), (0.15, 0.2), (0.32, 0.2), (0.71, 0.2), (1.54, 0.1), (3.1, 0.07), (12.766, 0.03),
)  # fmt: skip
#: Numbers of purchases, most of which are 1.
PURCHASES = ((1.0, 0.7), (2.0, 0.2), (3.0, 0.1))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A kind of campaign.

    Parameters
    ----------
    costs
        The cost of each action, the control first.
    rate
        The share of units with an event under the action that needs fewest to pay for itself.
    events
        The expected events in the first wave of the action that needs most of them.
    waves, growth
        The number of waves, and how many times as large as the one before each is.
    randomised
        The share of later waves that is assigned at random; all others get what looks best.
    worth
        The size of each kind of event, and its share of events.
    direction
        Whether more is better ("max") or less ("min").
    pays
        How much each action earns of what it must earn to equal the cheapest after costs; if all
        cost the same, the events of the other actions as a multiple of the control's. 1 means that
        nothing differs after costs.
    """

    costs: tuple[float, ...] = (0.0, 0.01)
    rate: float = 0.01
    events: float = 10
    waves: int = 3
    growth: int = 1
    randomised: float = 1.0
    worth: tuple[tuple[float, float], ...] = ALIKE
    direction: str = "max"
    pays: float = 1.0

    @property
    def sign(self) -> float:
        """1 if more is better, -1 if less is."""
        return 1.0 if self.direction == "max" else -1.0

    @cached_property
    def needed(self) -> Floats:
        """The share of units with an event, under each action, if all just pay for themselves."""
        mean = self.sign * sum(size * share for size, share in self.worth)
        needed = np.array(self.costs) / mean
        rates: Floats = self.rate + needed - needed.min()
        return rates

    @cached_property
    def chances(self) -> Floats:
        """The probabilities of no event, and of each kind of event, under each action."""
        if self.costs_differ:
            rates = self.rate + self.pays * (self.needed - self.rate)
        else:
            rates = self.needed * np.where(np.arange(len(self.costs)) > 0, self.pays, 1.0)
        return np.column_stack([1 - rates, *(share * rates for _, share in self.worth)])

    @property
    def costs_differ(self) -> bool:
        """Whether some action costs more than another."""
        return len(set(self.costs)) > 1

    @cached_property
    def values(self) -> Floats:
        """The outcome without an event, and that of each kind of event."""
        return np.array([0.0, *(size for size, _ in self.worth)])

    @property
    def charges(self) -> Floats:
        """The cost of each action in the sign of the outcome."""
        return self.sign * np.array(self.costs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The units of each wave; the first is the same for all values of `pays`."""
        first = round(len(self.costs) * self.events / float(self.needed.max()))
        return tuple(first * self.growth**wave for wave in range(self.waves))

    def situation(self, rule: str = RULES[0]) -> Situation:
        """Return such a campaign as it is created, after all checks of its spec."""
        adaptive = self.randomised < 1
        verb = "maximise" if self.direction == "max" else "minimise"
        actions = [{"name": f"a{n}", "cost": cost} for n, cost in enumerate(self.costs)]
        spec = {
            "name": "few", "unit": "customer", "actions": actions, "control": "a0",
            "randomised": self.randomised if adaptive else 0.0,
            "policy": {"kind": "SBPE" if adaptive else "UniformRandom"},
            "currency": "EUR", "metrics": {"sale": {"unit": "EUR"}},
            "objective": {verb: "sale", "less_costs": True},
            "grid": {"sizes": list(self.sizes)}, "stopping": {"rule": rule, "alpha": ALPHA},
        }  # fmt: skip
        return prepare(spec).now


# ----------------------------------------------------------------------
# Sums of many campaigns. Axes: campaigns T, actions K, kinds of outcomes J.


@dataclass(frozen=True, eq=False)
class WaveSums:
    """What a wave contributes to pooled lifts.

    Parameters
    ----------
    units
        n.
    probabilities
        p of each action, shape (T, K).
    parts
        Mean, and sums of the second and third powers of deviations, of the scores of each action
        (counted from the usual outcome), shape (3, T, K).
    lifts
        Mean, and sums of second and fourth powers, of the lifts' scores, shape (3, T, K - 1).
    noise, kurtosis
        The noise of each action and the kurtosis of residuals, of waves up to this one.
    """

    units: int
    probabilities: Floats
    parts: Floats
    lifts: Floats
    noise: Floats
    kurtosis: Floats


@dataclass
class Waves:
    """The waves so far of many campaigns of a setting."""

    setting: Setting
    trials: int
    counts: Integers = field(init=False)
    sums: list[WaveSums] = field(init=False, default_factory=list)
    mirrored: Bools = field(init=False)
    _residuals: Floats = field(init=False)

    def __post_init__(self) -> None:
        actions, kinds = self.setting.chances.shape
        self.counts = np.zeros((self.trials, actions, kinds), dtype=np.int64)
        self._residuals = np.zeros((2, self.trials, actions))

    @property
    def probabilities(self) -> Floats:
        """The probability of each action in the next wave, as a greedy policy has it: (T, K)."""
        actions = len(self.setting.costs)
        share = self.setting.randomised if self.sums else 1.0
        given = np.full((self.trials, actions), share / actions)
        if share < 1:
            units = self.counts.sum(axis=2)
            net = self.counts @ self.setting.values - self.setting.charges * units
            best = (self.setting.sign * net / (units + ON_CONSTANT)).argmax(axis=1)
            given[np.arange(self.trials), best] += 1 - share
        return given

    def draw(self, size: int, random: Generator) -> None:
        """Add a wave of so many units."""
        p = self.probabilities
        self.add(random.multinomial(random.multinomial(size, p), self.setting.chances), p)

    def add(self, own: Integers, p: Floats) -> None:
        """Add a wave: the units of each action and outcome, and the probabilities of actions."""
        y = self.setting.values
        self.counts = self.counts + own
        if not self.sums:
            self.mirrored = self.binary & (self._number(1.0) > self._number(0.0))
        units, size = self.counts.sum(axis=2), int(own[0].sum())
        inverse = 1 / (units + ON_CONSTANT)
        fitted = (self.counts @ y) * inverse
        plain = y - fitted[:, :, None]
        shift = ((own * plain).sum(axis=(1, 2))[:, None, None] - plain) / size
        alone = plain / (1 - inverse)[:, :, None]
        residuals = alone - shift
        # G of every kind of unit (its action and outcome) for every action.
        scores = fitted[:, None, None, :] + shift[..., None]
        for action in range(units.shape[1]):
            scores[:, action, :, action] = (
                y - residuals[:, action] + residuals[:, action] / p[:, action, None]
            )
        squares = residuals**2
        self._residuals = self._residuals + np.array(
            [(own * squares).sum(axis=2), (own * squares**2).sum(axis=2)]
        )
        counted = np.where(self.mirrored[:, None, None, None], 1 - scores, scores)
        self.sums.append(
            WaveSums(
                size,
                p,
                np.array(_moments(counted, own)[:3]),
                np.array(_moments(scores[..., 1:] - scores[..., :1], own))[[0, 1, 3]],
                *self._noise(units),
            )
        )

    def _noise(self, units: Integers) -> tuple[Floats, Floats]:
        """Return sigma_a^2 and kappa."""
        squares, fourths = self._residuals
        total = units.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(squares > 0, fourths * (units / squares) ** 2, units)
        kurtosis: Floats = own.sum(axis=1) / total
        common = squares.sum(axis=1) / total
        g = COMMON * np.maximum(kurtosis - 1, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mixed = (squares + (g * common)[:, None]) / (units + g[:, None])
        return np.where(units + g[:, None] > 0, mixed, common[:, None]), kurtosis

    def _number(self, value: float) -> Integers:
        """Return how many outcomes have a value."""
        number: Integers = self.counts[:, :, self.setting.values == value].sum(axis=(1, 2))
        return number

    @property
    def all_equal(self) -> Bools:
        """Whether all outcomes of a campaign are equal."""
        equal: Bools = (self.counts.sum(axis=1) > 0).sum(axis=1) < 2
        return equal

    @property
    def binary(self) -> Bools:
        """Whether all outcomes of a campaign are 0 or 1."""
        binary: Bools = self._number(0.0) + self._number(1.0) == self.counts.sum(axis=(1, 2))
        return binary

    @property
    def share_of_events(self) -> Floats:
        """The share of outcomes that differ from the usual one."""
        total = self.counts.sum(axis=(1, 2))
        usual = np.where(self.mirrored, self._number(1.0), self._number(0.0))
        share: Floats = (total - usual) / total
        return share

    @property
    def rare(self) -> Bools:
        """Whether at most half of the outcomes are events."""
        share = self.share_of_events
        return (share > 0) & (share <= 0.5)

    def few(self, planned: float) -> Bools:
        """Return whether events are too few for so many planned effective units."""
        needed = np.where(self.binary, ENOUGH_BINARY, ENOUGH_AMOUNTS)
        return self.rare & (planned * self.share_of_events < needed)

    def statistics(self, shares: Sequence[float]) -> Floats:
        """Return the statistic of every lift, in the sign of the outcome: shape (T, K - 1)."""
        found = np.empty((self.trials, len(self.setting.costs) - 1))
        lowest = np.where(self.counts.any(axis=1), self.setting.values, np.inf).min(axis=1)
        scored = self.rare & (self.mirrored | (lowest >= 0))
        for action in range(1, len(self.setting.costs)):
            weights = self._weights(action, shares)
            found[:, action - 1] = np.where(
                scored, self._scored(action, weights), self._student(action, weights)
            )
        return found

    def _weights(self, action: int, shares: Sequence[float]) -> Floats:
        """Return W of each wave, shape (M, T)."""
        weights = np.array([
            np.sqrt(share * one.units / (1 / one.probabilities[:, [0, action]]).sum(axis=1))
            for share, one in zip(shares, self.sums, strict=False)
        ])  # fmt: skip
        own: Floats = weights / weights.sum(axis=0)
        return own

    def _student(self, action: int, weights: Floats) -> Floats:
        """Return the statistic of Student's t form."""
        from scipy.special import ndtri, stdtr

        theta, parts, below = np.zeros(self.trials), np.zeros(self.trials), np.zeros(self.trials)
        for w, one in zip(weights, self.sums, strict=True):
            n, p = one.units, one.probabilities[:, [0, action]]
            mean, second, fourth = one.lifts[:, :, action - 1]
            effective = 4 * n / (1 / p).sum(axis=1)
            expected = (one.noise[:, [0, action]] / p).sum(axis=1) / n
            raw = second / max(n - 1, 1) / n
            with np.errstate(divide="ignore", invalid="ignore"):
                by_kurtosis = 2 * n / (np.where(second > 0, n * fourth / second**2, 1.0) - 1)
                trust = np.minimum(1.0, 2 / (one.kurtosis - 1))
            trust = np.where(one.kurtosis > 1, trust, 1.0)
            df, own = (
                np.maximum(np.minimum(by_kurtosis, most), 1.0)
                for most in (effective, effective * trust)
            )
            part = w**2 * (own * raw + PRIOR_DF * expected) / (own + PRIOR_DF)
            theta, parts, below = theta + w * mean, parts + part, below + part**2 / df
        away = theta - self._charged(action)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = stdtr(parts**2 / below, -np.abs(away) / np.sqrt(parts))
        made: Floats = np.copysign(-ndtri(np.maximum(tail, 5e-324)), away)
        return made

    def _charged(self, action: int) -> float:
        return float(self.setting.charges[action] - self.setting.charges[0])

    def _scored(self, action: int, weights: Floats) -> Floats:
        """Return the statistic of the form for rare events: the z at which limits reach 0."""
        more, less = (self._part(one, weights) for one in (action, 0))
        gap = more.size - less.size
        value = self._charged(action) * np.where(self.mirrored, -1.0, 1.0)
        above = gap >= value

        def inside(z: Floats) -> Bools:
            (low, high), (under, over) = more.limits(z), less.limits(z)
            down = np.hypot(np.maximum(more.size - low, 0), np.maximum(over - less.size, 0))
            up = np.hypot(np.maximum(high - more.size, 0), np.maximum(less.size - under, 0))
            return np.where(above, gap - down <= value, gap + up >= value)

        near, far = np.zeros(self.trials), np.ones(self.trials)
        while (out := (far < FARTHEST) & ~inside(far)).any():
            near, far = np.where(out, far, near), np.where(out, 2 * far, far)
        for _ in range(40):
            middle = (near + far) / 2
            held = inside(middle)
            near, far = np.where(held, near, middle), np.where(held, middle, far)
        found = np.where(inside(np.zeros(self.trials)), 0.0, far)
        made: Floats = np.where(above ^ self.mirrored, found, -found)
        return made

    def _part(self, action: int, weights: Floats) -> "Parts":
        """Return the part of a lift that is the mean of one action."""
        size, variance, third, second, cubed = (np.zeros(self.trials) for _ in range(5))
        for w, one in zip(weights, self.sums, strict=True):
            n, p = one.units, one.probabilities[:, action]
            mean, squares, cubes = one.parts[:, :, action]
            size = size + w * mean
            variance = variance + w**2 * squares / (max(n - 1, 1) * n)
            third = third + w**3 * cubes / n**3
            second, cubed = second + w**2 / (n * p), cubed + w**3 / (n * p) ** 2
        y = np.where(self.mirrored[:, None], 1 - self.setting.values, self.setting.values)
        sums = [(self.counts.sum(axis=1) * y**power).sum(axis=1) for power in (1, 2, 3)]
        counts = self.counts * (y != 0)[:, None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            r1, r2 = sums[1] / sums[0], sums[2] / sums[1]
            learned = 1 + FITTED / np.maximum(self.counts[:, action].sum(axis=1), 1)
            designed, slanted = r1 * second * learned, r2 * cubed / second
            own = variance / (size * np.maximum(1 - size / r1, 1e-6))
            known = np.minimum(self.share_of_events / second, size**2 / variance)
            g = known / (known + BALANCE)
            mixed = g * own + (1 - g) * designed
            larger = (size > 0) & (variance > 0) & (mixed > designed)
            skew = np.where(larger, g * third / variance + (1 - g) * slanted, slanted)
            scale = np.where(larger, mixed, designed)
            share = counts[:, action].sum(axis=1) / counts.sum(axis=(1, 2))
            heavy = HEAVY * sums[2] ** 2 / sums[1] ** 3
            wide = scale * (1 + share**4 * (r2 / r1 * (1 + heavy) - 1))
        amounts = ~self.binary
        upper_skew = skew * (1 + share**4 * heavy)
        return Parts(size, r1, scale, skew, np.where(amounts, wide, 0.0), upper_skew)


@dataclass(frozen=True, eq=False)
class Parts:
    """One part of a lift, of many campaigns, as :class:`seqbatch.inference.rare_events.Part`."""

    size: Floats
    most: Floats
    scale: Floats
    skew: Floats
    upper_scale: Floats
    upper_skew: Floats

    def limits(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the limits at z standard errors."""
        k, wide = self.scale, self.upper_scale
        b = np.minimum(np.maximum(self.size, 0.0), self.most * (1 - 1e-9))
        spread = k * b * np.maximum(1 - b / self.most, 1e-6)
        middle, half = b + k * z * z / 2, z * np.sqrt(spread + (k * z / 2) ** 2)
        below, edge = 1 + k * z * z / self.most, (z * z - 1) / 6
        low, high = ((middle + side * half) / below - self.skew * edge for side in (-1, 1))
        reach = b + wide * z * z / 2 + z * np.sqrt(spread + (wide * z / 2) ** 2)
        upper = np.maximum(high, reach - self.upper_skew * edge)
        return low, np.where(wide > 0, upper, high)


def _moments(columns: Floats, own: Integers) -> tuple[Floats, ...]:
    """Return mean and sums of powers 2, 3, 4 of deviations; units by kind, columns last."""
    often = own[..., None]
    mean = (often * columns).sum(axis=(1, 2)) / own.sum(axis=(1, 2))[:, None]
    away = columns - mean[:, None, None, :]
    return mean, *((often * away**power).sum(axis=(1, 2)) for power in (2, 3, 4))


# ----------------------------------------------------------------------
# Verdicts.


@dataclass(frozen=True, eq=False)
class Verdicts:
    """When and why campaigns stop.

    Parameters
    ----------
    made
        Whether events are enough at each look, shape (T, waves).
    ends
        The wave of a stop and 1 for success or -1 for harm, zeros if nothing stopped; shape
        (T, rules, 2, 2): first without the rule of events, then with it.
    """

    made: Bools
    ends: Integers

    def errors(self) -> Floats:
        """Return the share of campaigns that stop, shape (rules, 2)."""
        shares: Floats = (self.ends[..., 0] > 0).mean(axis=0)
        return shares

    def stopped(self, way: int) -> Floats:
        """Return how often campaigns stopped for success, 1, or for harm, -1: (rules, 2)."""
        shares: Floats = (self.ends[..., 1] == way).mean(axis=0)
        return shares


def verdicts(setting: Setting, random: Generator, *, trials: int) -> Verdicts:
    """Run campaigns; all rules see the same units."""
    plan, waves = planned(setting.situation()), Waves(setting, trials)
    times = information(plan.shares)
    ends = np.zeros((trials, len(RULES), 2, 2), dtype=np.int64)
    looked = np.zeros((trials, 2, setting.waves), dtype=np.bool_)
    for wave, size in enumerate(setting.sizes):
        waves.draw(size, random)
        statistics = setting.sign * waves.statistics(plan.shares)
        enough = ~waves.few(planned_units(plan.designs[: wave + 1], Lift(1)))
        possible = ~waves.all_equal
        looked[:, 0, wave], looked[:, 1, wave] = possible, possible & enough
        for guarded, (place, rule) in product(range(2), enumerate(RULES)):
            bounds = _bounds(looked[:, guarded, : wave + 1], times, rule, statistics.shape[1])
            better = (statistics >= bounds[:, None]).any(axis=1)
            worse = (statistics <= -bounds[:, None]).all(axis=1)
            now = looked[:, guarded, wave] & (better | worse)
            now &= ends[:, place, guarded, 0] == 0
            ends[now, place, guarded, 0] = wave + 1
            ends[now, place, guarded, 1] = np.where(better, 1, -1)[now]
    return Verdicts(looked[:, 1], ends)


def _bounds(looked: Bools, times: Sequence[float], rule: str, lifts: int) -> Floats:
    """Return the boundary of the newest look, by which looks were made before it."""
    found = np.full(len(looked), np.inf)
    patterns, where = np.unique(looked, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern[-1]:
            taken = [time for time, one in zip(times, pattern, strict=False) if one]
            found[where.ravel() == number] = boundaries(taken, rule=rule, alpha=ALPHA / 2 / lifts)[
                -1
            ]
    return found
