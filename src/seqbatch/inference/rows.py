"""Units with what was logged about them: the only data that inference needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError

#: How far logged probabilities may add up to something else than 1.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Units of one wave, or a piece of it; a wave is one of these or several, in any order.

    Make them by :meth:`of`, which checks.

    Parameters
    ----------
    features
        The model's columns, shape (n, P): a constant first, the others standardised.
    actions
        The action that each unit got, from 0; 0 is control.
    probabilities
        The logged probability of every action, shape (n, K).
    outcomes
        What came back, NaN where nothing did.
    clusters
        What units share where they are not independent, such as a customer; None where they are.
    groups
        Declared segments: for each name the level of every unit.
    eligible
        Which actions each unit could have got, shape (n, K); None where all could get all.
    before_costs
        The outcomes before what actions cost was taken off, by which it is told whether they are
        all equal; None where nothing was.

    Examples
    --------
    >>> rows = Rows.of([[1.0], [1.0]], [0, 1], [[0.5, 0.5], [0.2, 0.8]], [3.0, float("nan")])
    >>> rows.count, rows.actions_number, rows.taken.tolist(), rows.returned.tolist()
    (2, 2, [0.5, 0.8], [True, False])
    """

    features: Floats
    actions: Integers
    probabilities: Floats
    outcomes: Floats
    clusters: AnyArray | None = None
    groups: Mapping[str, AnyArray] = field(default_factory=dict)
    eligible: Bools | None = None
    before_costs: Floats | None = None

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        actions: ArrayLike,
        probabilities: ArrayLike,
        outcomes: ArrayLike,
        *,
        clusters: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        eligible: ArrayLike | None = None,
    ) -> "Rows":
        """Return the rows, or say which rule they break."""
        x = arguments.floats("features", features, ("n", "P"))
        p = arguments.floats("probabilities", probabilities, (len(x), "K"))
        taken = _whole("actions", actions, len(x))
        y = np.asarray(outcomes, dtype=np.float64)
        arguments.floats("outcomes", y[~np.isnan(y)], ("n",))
        _require("outcomes", f"one for each of {len(x)} units", y.shape == (len(x),), y.shape)
        _require_probabilities(p, taken)
        named = {name: np.asarray(levels) for name, levels in (groups or {}).items()}
        shared = None if clusters is None else np.asarray(clusters)
        for name, column in {**named, "clusters": shared}.items():
            if column is not None:
                fits = column.shape == (len(x),)
                _require(name, f"one value for each of {len(x)} units", fits, column.shape)
        return cls(x, taken, p, y, shared, named, _eligible(eligible, p))

    def some(self, among: Bools | slice) -> "Rows":
        """Return some of the units, in the same order."""
        return Rows(
            self.features[among],
            self.actions[among],
            self.probabilities[among],
            self.outcomes[among],
            None if self.clusters is None else self.clusters[among],
            {name: levels[among] for name, levels in self.groups.items()},
            None if self.eligible is None else self.eligible[among],
            None if self.before_costs is None else self.before_costs[among],
        )

    @property
    def count(self) -> int:
        """How many units."""
        return len(self.actions)

    @property
    def actions_number(self) -> int:
        """K, how many actions there are."""
        return int(self.probabilities.shape[1])

    @cached_property
    def taken(self) -> Floats:
        """The logged probability of the action that each unit got."""
        return self.probabilities[np.arange(self.count), self.actions]

    @cached_property
    def returned(self) -> Bools:
        """Whether each unit's outcome came back."""
        return ~np.isnan(self.outcomes)


#: A wave as functions take it: one piece, or several that can be gone through more than once.
Wave = Rows | Iterable[Rows]


def pieces(wave: Wave) -> Iterable[Rows]:
    """Return the pieces of a wave."""
    if isinstance(wave, Rows):
        return (wave,)
    if iter(wave) is wave:
        raise InvalidArgumentError(
            "wave",
            "rows, or an iterable of rows that can be gone through twice",
            type(wave).__name__,
            "Hand over a list, or an object whose __iter__ starts anew.",
        )
    return wave


def _whole(name: str, values: ArrayLike, count: int) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        received = f"shape {array.shape} of {array.dtype}"
        raise InvalidArgumentError(name, f"{count} whole numbers", received)
    return np.ascontiguousarray(array, dtype=np.int64)


def _eligible(eligible: ArrayLike | None, probabilities: Floats) -> Bools | None:
    if eligible is None:
        return None
    allowed = arguments.bools("eligible", eligible, probabilities.shape)
    _require(
        "probabilities", "0 where an action is not eligible", not probabilities[~allowed].any(),
        "more",
    )  # fmt: skip
    return allowed


def _require_probabilities(probabilities: Floats, actions: Integers) -> None:
    K = probabilities.shape[1]
    inside = not len(actions) or (actions.min() >= 0 and actions.max() < K)
    _require("actions", f"between 0 and {K - 1}", inside, actions)
    _require("probabilities", "at least 0", not (probabilities < 0).any(), "less")
    off = np.abs(probabilities.sum(axis=1) - 1)
    worst = float(off.max()) if len(off) else 0.0
    _require(
        "probabilities", "1 in total for each unit", worst <= ROUNDING, f"a total off by {worst}"
    )
    taken = probabilities[np.arange(len(actions)), actions]
    _require("probabilities", "above 0 for the action that a unit got", (taken > 0).all(), 0.0)


def _require(name: str, rule: str, kept: object, received: object) -> None:
    if not kept:
        raise InvalidArgumentError(name, rule, received)
