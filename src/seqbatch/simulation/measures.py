"""Measures of a study: what is computed from each run and its log, beside regret."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.environments import BLOCK, Instance
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference import evaluate
from seqbatch.simulation.trajectory import Trajectory

#: A measure: a number from a run with its log, `run.rows`, and the instance that it ran in.
Measure = Callable[[Trajectory, Instance], float]
#: How many blocks after a run the true means are measured on.
BLOCKS = 16


@dataclass(frozen=True)
class Coverage:
    """How many of the actions' intervals hold the mean outcome if every unit got the action.

    A share of a run's actions; over trials it is the coverage, which should be `level`. True means
    are those of the 65,536 units after the run, or of all units if there are no more: for worlds
    whose means stay the same.

    Parameters
    ----------
    estimator
        An estimator of :class:`~seqbatch.inference.Evaluation`, such as ``"doubly_robust"``.
    level
        The level of the intervals.

    Examples
    --------
    >>> from seqbatch import grids
    >>> from seqbatch.environments import Sphere
    >>> from seqbatch.policies import EpsilonGreedy
    >>> from seqbatch.simulation import simulate
    >>> world = Sphere(dim=2, actions=3, layout="block")
    >>> grid = grids.explicit([200, 600])
    >>> run = simulate(EpsilonGreedy(0.3), world, grid, seed=1, keep_log=True)
    >>> round(Coverage()(run, world.instance(1)), 2)
    0.67
    """

    estimator: str = "adaptively_weighted"
    level: float = 0.95

    def __post_init__(self) -> None:
        arguments.text("estimator", self.estimator)
        arguments.number("level", self.level, above=0, at_most=1 - 1e-9)

    @property
    def expected(self) -> float:
        """The value that it should have."""
        return self.level

    def __call__(self, run: Trajectory, instance: Instance) -> float:
        """Return the share of the actions; NaN if an action was never possible."""
        assert run.rows is not None
        means, held = true_means(instance, int(run.ends[-1])), []
        for action, mean in enumerate(means):
            try:
                found = evaluate(run.rows, action, level=self.level).estimates
            except InvalidArgumentError:
                return nan
            if self.estimator not in found:
                rule = f"one of {', '.join(found)}"
                raise InvalidArgumentError("estimator", rule, repr(self.estimator))
            one = found[self.estimator]
            held.append(one.low <= mean <= one.high)
        return float(np.mean(held))


def true_means(instance: Instance, units: int) -> Floats:
    """Return the mean reward of each action over the units after so many, or over all units."""
    first = units // BLOCK + 1
    later = _means(instance, first)
    means: Floats = (later if len(later) else _means(instance, 0)).mean(axis=0)
    return means


def _means(instance: Instance, first: int) -> Floats:
    """Return the means of the units of some blocks, or of those that there are."""
    parts = []
    for index in range(first, first + BLOCKS):
        block = instance.block(index)
        parts.append(block.means)
        if len(block) < BLOCK:
            break
    return np.concatenate(parts)


def measured(
    measures: Mapping[str, Measure], run: Trajectory, instance: Instance
) -> dict[str, float]:
    """Return the value of each measure."""
    return {name: float(measure(run, instance)) for name, measure in measures.items()}
