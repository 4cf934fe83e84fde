"""A campaign's waves for inference: its model's columns, actions and divisions of its units."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from seqbatch.campaign.features.date import DateFeature
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.features.numeric import NumericFeature
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.metrics import Metric
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference import AmongEligible, Declared, Eligible, Lift, Mean, NextRule, WaveSummary
from seqbatch.inference.contrasts import Contrast, GainOverRandom, all_contrasts
from seqbatch.inference.summary import Partition, Segment


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """The model's columns (those that varied in the first wave) and how to standardise them.

    Parameters
    ----------
    names
        The column names, starting with the intercept.
    places
        The positions of the columns in the encoder's output.
    mean, spread
        The mean and standard deviation used to standardise the encoder's output.
    scales
        The mean and standard deviation with which the encoder had scaled each column of the file.
    """

    names: tuple[str, ...]
    places: Integers
    mean: Floats
    spread: Floats
    scales: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, encoder: Encoder, places: Integers, mean: Floats, spread: Floats) -> "ModelColumns":
        """Return the columns at these positions of the encoder's output."""
        names = [encoder.names[place] for place in places]
        scales = _scales(encoder)
        return cls(
            names=("intercept", *names),
            places=places,
            mean=mean,
            spread=spread,
            scales=tuple(scales.get(name, (0.0, 1.0)) for name in names),
        )

    def standardised(self, encoded: Floats) -> Floats:
        """Return the standardised columns, starting with the intercept."""
        made = np.ones((len(encoded), 1 + len(self.places)))
        made[:, 1:] = (encoded[:, self.places] - self.mean) / self.spread
        return made

    def own_value(self, column: int, value: float) -> float:
        """Convert a standardised value back to the file's units; column 0 is the intercept."""
        mean, sd = self.scales[column - 1]
        own = mean + sd * float(self.mean[column - 1] + self.spread[column - 1] * value)
        # Replace rounding errors around 0 with 0.
        return 0.0 if abs(own) < 1e-12 * abs(sd) * float(self.spread[column - 1]) else own

    def model_value(self, column: int, own: float) -> float:
        """Convert a value in the file's units to the standardised one."""
        mean, sd = self.scales[column - 1]
        encoded = (own - mean) / sd if sd > 0 else own
        return float((encoded - self.mean[column - 1]) / self.spread[column - 1])


def _scales(encoder: Encoder) -> dict[str, tuple[float, float]]:
    """Return the mean and standard deviation with which the encoder scaled numbers and dates."""
    parts = encoder.parts.values()
    numbers = [part.number for part in parts if isinstance(part, NumericFeature)]
    numbers += [part.days for part in parts if isinstance(part, DateFeature)]
    known = [(one.name, one.frozen) for one in numbers]
    return {name: (frozen.mean, frozen.sd) for name, frozen in known if frozen is not None}


class CampaignWaves(ABC):
    """The waves of a campaign that inference includes, as rows or as sums over them.

    Parameters
    ----------
    now
        The campaign's current state, including the scaling learned from the first wave.
    waves
        The waves included in the analysis.
    at
        The time of the analysis, by which some units without a value of a metric count as absent.
    waiting
        The waves left out because units of them have no outcome, and do not count as absent yet.
    segments
        The columns whose values are segments.
    levels
        For each segment column, the number of each value.
    """

    now: Situation
    waves: tuple[int, ...]
    at: datetime
    waiting: tuple[int, ...]
    segments: tuple[str, ...]
    levels: dict[str, dict[str, int]]

    @property
    @abstractmethod
    def columns(self) -> ModelColumns:
        """The model's columns."""

    @abstractmethod
    def summaries(
        self, contrasts: Sequence[Contrast], partitions: Sequence[Partition], *, metric: str = ""
    ) -> tuple[WaveSummary, ...]:
        """Return the summaries of the waves: of the objective, or of a metric before costs."""

    @abstractmethod
    def next_rule(
        self,
        summaries: Sequence[WaveSummary],
        *,
        level: float,
        less: bool,
        among: Bools,
        planned: float,
        over: int,
    ) -> NextRule:
        """Return the rule to run next, and its gain over one action."""

    @abstractmethod
    def counts_in(self, wave: int) -> tuple[int, int]:
        """Return how many units of a wave have an outcome, and how many of them count as absent."""

    @abstractmethod
    def counts_of(self, metric: str) -> tuple[int, int]:
        """Return how many units have a recorded value of a metric, and a value at all."""

    @abstractmethod
    def recorded_in(self, wave: int) -> dict[str, int]:
        """Return how many values of each metric were recorded in a wave."""

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The numbers of all actions, starting with the control."""
        names = [action.name for action in self.now.actions]
        control = self.now.spec.control
        first = 0 if control is None else names.index(control)
        return (first, *(number for number in range(len(names)) if number != first))

    @property
    def charges(self) -> tuple[float, ...]:
        """The cost of each action on the scale of outcomes, starting with the control."""
        reward = self.now.spec.reward
        charges = reward.sign * self.now.charges[list(self.order)] / reward.scale
        return tuple(charges.tolist())

    @property
    def restricted(self) -> bool:
        """Whether eligibility rules exclude some units from some actions."""
        return bool(self.now.spec.eligible)

    def partitions(self) -> list[Partition]:
        """Return partitions of the units by eligibility, also within each column of segments."""
        if not self.restricted:
            return []
        others = range(1, len(self.order))
        return [
            *self.eligibility(),
            *(self.within(name, a) for name in self.segments for a in others),
        ]

    def eligibility(self) -> list[Partition]:
        """Return partitions of the units by eligibility, one for each mean and each lift."""
        if not self.restricted:
            return []
        places = range(len(self.order))
        return [*(Eligible((a,)) for a in places), *(Eligible((0, a)) for a in places if a)]

    def within(self, segment: str, action: int) -> Partition:
        """Return the partition by a column of segments for the lift of an action."""
        declared = Declared(segment)
        return AmongEligible(declared, (0, action)) if self.restricted else declared

    def segment(self, contrast: Contrast) -> Segment | None:
        """Return the segment of units eligible for a mean or a lift; None for all units."""
        if not self.restricted:
            return None
        match contrast:
            case Mean(action):
                return Eligible((action,)), True
            case Lift(action):
                return Eligible((0, action)), True
        return None

    @property
    def less(self) -> bool:
        """Whether a lower outcome is better."""
        return self.now.spec.reward.sign < 0

    @property
    def given(self) -> Bools:
        """Which actions are still given."""
        return np.array([number not in self.now.retired for number in self.order])

    def is_objective(self, metric: Metric) -> bool:
        """Whether the objective's outcomes are those of this metric alone."""
        reward = self.now.spec.reward
        return reward.terms == (metric,) and reward.weights[0] == reward.scale

    @property
    def plain_contrasts(self) -> tuple[Contrast, ...]:
        """The contrasts of a metric: means, and lifts over the control."""
        every = range(len(self.order))
        return (*map(Mean, every), *map(Lift, every[1:]))

    def contrasts(self, active: Iterable[tuple[int, ...]]) -> tuple[Contrast, ...]:
        """Return the contrasts of the objective, given the numbers of each wave's actions."""
        place = {number: place for place, number in enumerate(self.order)}
        among = {tuple(sorted(place[number] for number in given)) for given in active}
        every = all_contrasts(len(self.order)) + tuple(map(GainOverRandom, sorted(among)))
        return every if self.restricted else every + pairs(len(self.order))


#: With more actions, the best one is not compared with the second: there would be too many pairs.
MOST_PAIRED = 8


def pairs(actions: int) -> tuple[Lift, ...]:
    """Return the lift of each action over each earlier one, apart from the control."""
    if actions > MOST_PAIRED:
        return ()
    return tuple(Lift(one, other) for one in range(2, actions) for other in range(1, one))
