"""Campaigns with rare events and costs, drawn as counts and judged by the library's own looks.

Units have no features, so units with the same action and outcome are equal: a wave is the count of
each kind. Scores, pooled lifts, boundaries, guards and verdicts are those of real
campaigns; `tests/campaign/decide/test_few_events.py` compares them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from seqbatch.campaign.decide.logged_waves import few_events, information, planned
from seqbatch.campaign.decide.stopping import Compared, LookTaken, judge, looked_at
from seqbatch.campaign.record.current_situation import HARM, SUCCESS, Situation
from seqbatch.campaign.steps.create import prepare
from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference import Rows, WaveSummary, pool
from seqbatch.inference.doubly_robust_scores import Evidence, OutcomeModel, ReturnedByAction, score
from seqbatch.inference.logged_units import Moments, ScoreColumns, ScoreSums

ALPHA = 0.05
RULES = ("pocock", "obrien-fleming")
#: How many events at break-even are asked for; with 0 every look counts.
GUARDS = (0, 10, 20, 40)
#: What events may be worth, and how large a share of them is; 1 on average, but for losses.
ALIKE, LOSSES = ((1.0, 1.0),), ((-1.0, 1.0),)
MIXED = ((0.5, 0.9), (5.5, 0.1))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A kind of campaign.

    Parameters
    ----------
    costs
        What each action costs, the control first.
    rate
        The share of units with an event under the action that needs fewest to pay for itself.
    events
        How many events are expected in the first wave, of the action that needs most of them.
    waves, growth
        How many waves, and how many times as large as the one before each is.
    randomised
        The share of later waves that is assigned at random; all others get what looks best.
    worth
        What events are worth, and how large a share of them is.
    pays
        How much of its cost, beyond that of the cheapest, each action brings: 1 is break-even.
    """

    costs: tuple[float, ...] = (0.0, 0.01)
    rate: float = 0.01
    events: float = 10
    waves: int = 3
    growth: int = 1
    randomised: float = 1.0
    worth: tuple[tuple[float, float], ...] = ALIKE
    pays: float = 1.0

    @cached_property
    def needed(self) -> Floats:
        """The share of units with an event, under each action, if all just pay for themselves."""
        needed = np.array(self.costs) / sum(value * share for value, share in self.worth)
        rates: Floats = self.rate + needed - needed.min()
        return rates

    @cached_property
    def chances(self) -> Floats:
        """How likely each action is followed by nothing, or by each kind of event."""
        rates = self.rate + self.pays * (self.needed - self.rate)
        return np.column_stack([1 - rates, *(share * rates for _, share in self.worth)])

    @cached_property
    def values(self) -> Floats:
        """What nothing, and each kind of event, is worth."""
        return np.array([0.0, *(value for value, _ in self.worth)])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each wave; the first gives every action to as many."""
        first = round(len(self.costs) * self.events / float(self.needed.max()))
        return tuple(first * self.growth**wave for wave in range(self.waves))

    def situation(self, rule: str) -> Situation:
        """Return such a campaign as it is created, by all checks of a spec."""
        adaptive = self.randomised < 1
        actions = [{"name": f"a{n}", "cost": cost} for n, cost in enumerate(self.costs)]
        spec = {
            "name": "few", "unit": "customer", "actions": actions, "control": "a0",
            "randomised": self.randomised if adaptive else 0.0,
            "policy": {"kind": "SBPE" if adaptive else "UniformRandom"},
            "reward": {"column": "sale"}, "grid": {"sizes": list(self.sizes)},
            "stopping": {"rule": rule, "alpha": ALPHA},
        }  # fmt: skip
        return prepare(spec).now

    def probabilities(self, seen: Sequence[WaveSummary]) -> Floats:
        """Return how likely each action is in the next wave: as greedy policies have it."""
        actions = len(self.costs)
        uniform = np.full(actions, 1 / actions)
        if not seen or self.randomised == 1:
            return uniform
        best = OutcomeModel.fitted(seen[-1].evidence).coefficients[:, 0].argmax()
        mixed: Floats = self.randomised * uniform
        mixed[best] += 1 - self.randomised
        return mixed


class Waves:
    """The waves of a campaign so far, from counts of units: one for each action and outcome."""

    def __init__(self, setting: Setting) -> None:
        actions, kinds = setting.chances.shape
        self.setting, self.contrasts = setting, looked_at(actions)
        self.summaries: tuple[WaveSummary, ...] = ()
        self._counts = np.zeros((actions, kinds), dtype=np.int64)
        self._actions = np.repeat(np.arange(actions), kinds)
        self._outcomes = setting.values - np.array(setting.costs)[:, None]

    def draw(self, size: int, random: Generator) -> None:
        """Add a wave of so many units."""
        p = self.setting.probabilities(self.summaries)
        given = random.multinomial(size, p)
        self.add(random.multinomial(given, self.setting.chances), p)

    def add(self, counts: Integers, probabilities: Floats) -> None:
        """Add a wave: its units of each action and outcome, by these probabilities of actions."""
        self._counts = self._counts + counts
        evidence, often = self._evidence(), counts.ravel()
        returned = ReturnedByAction.fitted(evidence)
        rows = self._kinds(probabilities)
        scores = score(rows, OutcomeModel.fitted(evidence), returned)
        columns = ScoreColumns.of(rows, scores.values, self.contrasts)
        before = self.summaries[-1].squared_residuals if self.summaries else 0.0
        made = WaveSummary(
            contrasts=self.contrasts,
            overall=ScoreSums(
                int(often.sum()), moments(columns.scores, often), often @ columns.costs
            ),
            segments={},
            evidence=evidence,
            squared_residuals=before + float(often @ scores.residuals**2),
            residuals=int(self._counts.sum()),
            returned=returned,
            features=Moments.of(np.empty((0, 1))),
        )
        self.summaries = (*self.summaries, made)

    def _kinds(self, probabilities: Floats) -> Rows:
        """Return one unit of each kind."""
        return Rows(
            features=np.ones((len(self._actions), 1)),
            actions=self._actions,
            probabilities=np.tile(probabilities, (len(self._actions), 1)),
            outcomes=self._outcomes.ravel(),
        )

    def _evidence(self) -> Evidence:
        counts, y = self._counts, self._outcomes
        units, came = counts.sum(axis=1), self.setting.values[counts.any(axis=0)]
        sums = Statistics(
            gram=units.astype(np.float64)[:, None, None],
            moment=(counts * y).sum(axis=1)[:, None],
            squares=(counts * y**2).sum(axis=1),
            count=units,
        )
        return Evidence(sums, units, float(came.min()), float(came.max()))


def moments(columns: Floats, often: Integers) -> Moments:
    """Return the moments of rows that each come so often."""
    count = int(often.sum())
    mean = often @ columns / count
    away = columns - mean
    return Moments(count, mean, *(often @ away**power for power in (2, 3, 4)))


@dataclass
class Path:
    """What one rule with one guard makes of a campaign, until it says to stop."""

    looks: tuple[LookTaken, ...] = ()

    @property
    def end(self) -> tuple[int, int]:
        """The wave of a stop, and 1 for success or -1 for harm; zeros where nothing stopped."""
        if not self.looks or not self.looks[-1].stops:
            return 0, 0
        return self.looks[-1].wave, {SUCCESS: 1, HARM: -1}[self.looks[-1].verdict]

    def look(self, now: Situation, compared: Sequence[Compared]) -> None:
        """Look at a wave, unless a look before it stopped."""
        if self.end == (0, 0):
            self.looks = (*self.looks, judge(now, compared, self.looks))


def compare(now: Situation, seen: Sequence[WaveSummary]) -> list[Compared]:
    """Return every action beside the control, after a wave and without a guard."""
    shares = planned(now).shares
    at = dict(enumerate(information(shares), start=1))
    return [
        Compared(now.actions[place].name, pool(seen, lift, shares), at, None)
        for place, lift in enumerate(looked_at(len(now.actions)), start=1)
    ]


def guarded(
    now: Situation, seen: Sequence[WaveSummary], compared: Sequence[Compared], guard: int
) -> list[Compared]:
    """Return the same where so many events at break-even are asked for."""
    evidence, order = seen[-1].evidence, range(len(now.actions))
    return [
        replace(one, few=few_events(evidence, now.actions, order, place, enough=guard))
        for place, one in enumerate(compared, start=1)
    ]


def stops(
    setting: Setting,
    random: Generator,
    *,
    trials: int,
    rules: Sequence[str] = RULES,
    guards: Sequence[int] = GUARDS,
) -> Integers:
    """Return when and why campaigns stop: shape (trials, rules, guards, 2), as `Path.end` has it.

    All rules and guards see the same units.
    """
    begun = [setting.situation(rule) for rule in rules]
    waves = range(1, setting.waves + 1)
    times = [[replace(now, wave=wave) for now in begun] for wave in waves]
    return np.array([_ends(setting, random, times, guards) for _ in range(trials)])


def _ends(
    setting: Setting, random: Generator, times: Sequence[Sequence[Situation]], guards: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """Run one campaign; `times` has where it stands in each wave, by each rule."""
    waves, paths = Waves(setting), [[Path() for _ in guards] for _ in times[0]]
    for size, by_rule in zip(setting.sizes, times, strict=True):
        waves.draw(size, random)
        # As in a campaign, there is no look while all outcomes are equal.
        if waves.summaries[-1].evidence.all_equal:
            continue
        compared = compare(by_rule[0], waves.summaries)
        for place, guard in enumerate(guards):
            asked = guarded(by_rule[0], waves.summaries, compared, guard)
            for now, own in zip(by_rule, paths, strict=True):
                own[place].look(now, asked)
    return [[path.end for path in own] for own in paths]
