"""What every kind of feature can do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from seqbatch.core.arrays import Floats
from seqbatch.core.kernels.texts import mark

#: What stands in a column's name for the value that is not there.
MISSING_LEVEL = "missing"


@dataclass(frozen=True)
class Feature(ABC):
    """One column of a file of units, and the columns of the model that it becomes.

    Parameters
    ----------
    name
        The column.
    """

    name: str
    #: The Arrow type that is kept of it.
    kept: ClassVar[pa.DataType]

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""

    @abstractmethod
    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return what is kept of a column of a file, and what is wrong with its rows."""

    @abstractmethod
    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which is all 0."""

    @abstractmethod
    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns, such as units could have."""

    def sizes(self, kept: Any) -> Floats:
        """Return how large the largest number of each row is."""
        return np.ones(len(kept))

    def largest(self, kept: Any) -> float:
        """Return a size that no number of any row exceeds."""
        return float(self.sizes(kept).max(initial=0.0))

    def clipped(self, kept: Any) -> int:  # noqa: ARG002
        """Return how many values are moved to a bound."""
        return 0


def one_of(rng: np.random.Generator, count: int, width: int, places: Any) -> Floats:
    """Return rows with a 1 at one of these places, at random."""
    made = np.zeros((count, width))
    mark(made, rng.choice(np.asarray(places, dtype=np.int64), size=count))
    return made
