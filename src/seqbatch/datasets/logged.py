"""Logged randomised experiments: each unit got one arm, and only its outcome is known."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.environments import ArrayEnvironment, logged_table
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False)
class LoggedExperiment:
    """A logged randomised experiment, in the file's order.

    Parameters
    ----------
    features
        Shape (n, p).
    actions
        The arm of each unit, as an index into `names`, shape (n,).
    rewards
        The outcome under that arm, shape (n,).
    names
        The names of the arms, control first.
    columns
        The names of the features.

    Examples
    --------
    >>> log = LoggedExperiment(
    ...     np.ones((2, 1)), np.array([1, 0]), np.array([3.0, 0.5]), ("none", "mail"), ("one",)
    ... )
    >>> log.environment().rewards.tolist()
    [[0.0, 3.0], [0.5, 0.0]]
    """

    features: Floats
    actions: Integers
    rewards: Floats
    names: tuple[str, ...]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.actions)
        arguments.actions("actions", self.actions, n, len(self.names))
        wanted = (n, len(self.columns))
        if np.shape(self.features) != wanted:
            raise InvalidArgumentError(
                "features",
                f"of shape {wanted}: one row per action and one column per name",
                f"shape {np.shape(self.features)}",
            )
        if np.shape(self.rewards) != (n,):
            raise InvalidArgumentError(
                "rewards", f"one number for each of {n} actions", f"shape {np.shape(self.rewards)}"
            )

    def __len__(self) -> int:
        return len(self.actions)

    def environment(self) -> ArrayEnvironment:
        """Return the log as an environment: known outcomes in the arm's column, 0 elsewhere."""
        return logged_table(self.features, self.actions, self.rewards, arms=len(self.names))
