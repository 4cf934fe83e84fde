"""Labelled data: rows of features, each with a class."""

from dataclasses import dataclass, replace

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.environments import ArrayEnvironment, classification
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of features and their classes, in the file's order.

    Parameters
    ----------
    features
        Shape (n, p).
    labels
        The place of each row's class in `classes`, shape (n,).
    classes
        The classes' names, in sorted order.
    columns
        The features' names.

    Examples
    --------
    >>> data = Labelled(np.eye(2), np.array([1, 0]), ("no", "yes"), ("a", "b"))
    >>> len(data), data.environment().actions, data.head(1).labels
    (2, 2, array([1]))
    """

    features: Floats
    labels: Integers
    classes: tuple[str, ...]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        wanted = (len(self.labels), len(self.columns))
        if np.shape(self.features) != wanted:
            raise InvalidArgumentError(
                "features",
                f"of shape {wanted}: a row for each label and a column for each name",
                f"shape {np.shape(self.features)}",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def head(self, n: int) -> "Labelled":
        """Return the first n rows; the classes stay those of all rows."""
        n = arguments.integer("n", n)
        if n > len(self):
            raise InvalidArgumentError("n", f"at most the {len(self)} rows there are", n)
        return replace(self, features=self.features[:n], labels=self.labels[:n])

    def environment(self) -> ArrayEnvironment:
        """Return the problem of guessing the class, one row a unit."""
        return classification(self.features, self.labels, classes=len(self.classes))
