"""The interface of all kinds of features."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats

#: The word for a missing value in a column's name.
MISSING_LEVEL = "missing"


@dataclass(frozen=True)
class Feature(ABC):
    """One column of a file of units, and the columns of the model that it becomes.

    Parameters
    ----------
    name
        The column's name.
    """

    name: str
    #: The Arrow type in which the column is stored.
    kept: ClassVar[pa.DataType]

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""

    @abstractmethod
    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the stored form of a column of a file, and the problems of its rows."""

    @abstractmethod
    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which contains only zeros."""

    @abstractmethod
    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns that units could have."""

    def sizes(self, kept: Any) -> Floats:
        """Return the largest absolute number of each row."""
        return np.ones(len(kept))

    def largest(self, kept: Any) -> float:
        """Return an upper bound on the absolute numbers of all rows."""
        return float(self.sizes(kept).max(initial=0.0))

    def clipped(self, kept: Any) -> int:  # noqa: ARG002
        """Return the number of values that are clipped to a bound."""
        return 0


def one_of(rng: np.random.Generator, count: int, width: int, places: Any) -> Floats:
    """Return rows with a 1 in a random one of these positions."""
    made = np.zeros((count, width))
    kernels.texts.mark(made, rng.choice(np.asarray(places, dtype=np.int64), size=count))
    return made
