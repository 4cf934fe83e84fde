"""Metrics by action: means of what is recorded beside the reward, and their guardrails."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.campaign.design.reward import Metric
from seqbatch.core.arrays import Floats, Integers


@dataclass(frozen=True)
class MetricRow:
    """One metric of one action.

    Parameters
    ----------
    metric, action
        The column and the action.
    count, missing
        Recorded outcomes with a value of it, and without.
    mean
        The plain mean of the values; None where there are none.
    unit, direction, guardrail
        As declared.
    passed
        Whether the mean keeps within the guardrail; None without one, or without a mean.
    """

    metric: str
    action: str
    count: int
    missing: int
    mean: float | None
    unit: str | None
    direction: str
    guardrail: float | None
    passed: bool | None


class MetricSums:
    """Sums of metrics by action; outcomes come in pieces."""

    def __init__(self, metrics: Sequence[Metric], actions: int) -> None:
        self._metrics = metrics
        self._totals = np.zeros((len(metrics), actions))
        self._counts = np.zeros((len(metrics), actions), dtype=np.int64)
        self._outcomes = np.zeros(actions, dtype=np.int64)

    def add(self, actions: Integers, values: Floats) -> None:
        """Take in recorded outcomes: their actions, and a column for each metric."""
        size = len(self._outcomes)
        self._outcomes += np.bincount(actions, minlength=size)
        for place in range(len(self._metrics)):
            there = ~np.isnan(values[:, place])
            seen = actions[there]
            self._counts[place] += np.bincount(seen, minlength=size)
            self._totals[place] += np.bincount(seen, values[there, place], minlength=size)

    def __add__(self, other: "MetricSums") -> "MetricSums":
        both = MetricSums(self._metrics, len(self._outcomes))
        both._totals = self._totals + other._totals
        both._counts = self._counts + other._counts
        both._outcomes = self._outcomes + other._outcomes
        return both

    def rows(self, names: Sequence[str]) -> tuple[MetricRow, ...]:
        """Return the metrics of every action that has recorded outcomes."""
        return tuple(
            self._row(place, metric, action, name)
            for place, metric in enumerate(self._metrics)
            for action, name in enumerate(names)
            if self._outcomes[action]
        )

    def _row(self, place: int, metric: Metric, action: int, name: str) -> MetricRow:
        count = int(self._counts[place, action])
        mean = float(self._totals[place, action] / count) if count else None
        return MetricRow(
            metric=metric.column,
            action=name,
            count=count,
            missing=int(self._outcomes[action]) - count,
            mean=mean,
            unit=metric.unit,
            direction=metric.direction,
            guardrail=metric.guardrail,
            passed=within(metric, mean),
        )


def within(metric: Metric, mean: float | None) -> bool | None:
    """Say whether a mean keeps within a metric's guardrail; the guardrail itself does.

    >>> within(Metric(column="returned", direction="min", guardrail=0.1), 0.12)
    False
    """
    if metric.guardrail is None or mean is None:
        return None
    return mean <= metric.guardrail if metric.direction == "min" else mean >= metric.guardrail
