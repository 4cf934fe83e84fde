"""Logged units: everything that was recorded about them, the only data that inference needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError

#: The largest deviation of the sum of logged probabilities from 1.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Units of one wave, or a piece of it; a wave is one such object or several, in any order.

    Create them with :meth:`of`, which validates.

    Parameters
    ----------
    features
        The model's columns, shape (n, P): a constant first, the others standardised.
    actions
        The action of each unit, from 0; 0 is control.
    probabilities
        The logged probability of every action, shape (n, K).
    outcomes
        The outcomes before any costs of actions, NaN if missing.
    clusters
        What dependent units have in common, for example a customer; None if all are independent.
    groups
        Declared segments: for each name, the level of every unit, in one type. Units whose level
        is None or NaN are a segment too: "missing".
    eligible
        Which actions each unit could have got, shape (n, K); None if all could get all.
    marks
        Whole numbers that divide units into folds and samples, such as 52 bits of a hash of each
        id: dependent units have the same. None to divide them by their place.
    waves
        The number of the wave of each unit, if several are logged together; None for one wave.
        Functions that take each wave by itself do not read it; :func:`evaluate` does.
    contexts
        What a policy saw, one row per unit, for :func:`evaluate` to ask a learner.
    by_wave
        The probability of every action under the rule of each wave, shape (n, waves, K), where
        waves are numbered from 1: what each unit would have got in the other waves.

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
    marks: Integers | None = None
    waves: Integers | None = None
    contexts: Floats | None = None
    by_wave: Floats | None = None

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
        marks: ArrayLike | None = None,
        waves: ArrayLike | None = None,
        contexts: ArrayLike | None = None,
        by_wave: ArrayLike | None = None,
    ) -> Rows:
        """Validate and return the rows."""
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
        _require_levels(named, shared)
        marked = None if marks is None else _whole("marks", marks, len(x))
        dated = None if waves is None else _whole("waves", waves, len(x))
        return cls(
            x, taken, p, y, shared, named, _eligible(eligible, p), marked, dated,
            None if contexts is None else _contexts(contexts, len(x)),
            None if by_wave is None else _by_wave(by_wave, p, dated),
        )  # fmt: skip

    def some(self, among: Bools | Integers | slice) -> Rows:
        """Return a subset of the units, in the same order."""
        return Rows(
            self.features[among],
            self.actions[among],
            self.probabilities[among],
            self.outcomes[among],
            None if self.clusters is None else self.clusters[among],
            {name: levels[among] for name, levels in self.groups.items()},
            None if self.eligible is None else self.eligible[among],
            None if self.marks is None else self.marks[among],
            None if self.waves is None else self.waves[among],
            None if self.contexts is None else self.contexts[among],
            None if self.by_wave is None else self.by_wave[among],
        )

    @property
    def count(self) -> int:
        """The number of units."""
        return len(self.actions)

    @property
    def actions_number(self) -> int:
        """K, the number of actions."""
        return int(self.probabilities.shape[1])

    @cached_property
    def taken(self) -> Floats:
        """The logged probability of each unit's action."""
        return self.probabilities[np.arange(self.count), self.actions]

    @cached_property
    def returned(self) -> Bools:
        """Whether each unit has an outcome."""
        return ~np.isnan(self.outcomes)


#: A wave as functions accept it: one piece, or a re-iterable of several.
Wave = Rows | Iterable[Rows]


def pieces(wave: Wave) -> Iterable[Rows]:
    """Return the pieces of a wave."""
    if isinstance(wave, Rows):
        return (wave,)
    if iter(wave) is wave:
        raise InvalidArgumentError(
            "wave",
            "rows, or an iterable of rows that can be iterated twice",
            type(wave).__name__,
            "Pass a list, or an object whose __iter__ starts again.",
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
        "probabilities", "0 for ineligible actions", not probabilities[~allowed].any(),
        "more",
    )  # fmt: skip
    return allowed


def _contexts(contexts: ArrayLike, count: int) -> Floats:
    values = arguments.numeric("contexts", contexts)
    shape = values.shape
    _require("contexts", f"one row for each of {count} units", shape[:1] == (count,), shape)
    return values


def _by_wave(by_wave: ArrayLike, probabilities: Floats, waves: Integers | None) -> Floats:
    """Check the probabilities of all waves: those of a unit's own wave are the logged ones."""
    count, K = probabilities.shape
    table = arguments.floats("by_wave", by_wave, (count, "waves", K))
    if waves is None:
        raise InvalidArgumentError("by_wave", "given with waves", "without")
    numbered = not count or (waves.min() >= 1 and waves.max() <= table.shape[1])
    rule = f"numbers from 1 to {table.shape[1]} with such a by_wave"
    _require("waves", rule, numbered, f"{waves.min(initial=1)} to {waves.max(initial=1)}")
    own = table[np.arange(count), waves - 1]
    off = float(np.abs(own - probabilities).max(initial=0.0))
    _require(
        "by_wave", "the logged probabilities in each unit's wave", off <= ROUNDING, f"{off} off"
    )
    return table


def missing_levels(levels: AnyArray) -> Bools:
    """Return which units have no level: None or NaN.

    >>> missing_levels(np.array(["a", None, float("nan")], dtype=object)).tolist()
    [False, True, True]
    """
    if levels.dtype.kind in "biu":
        return np.zeros(len(levels), dtype=bool)
    gone: Bools = (levels != levels) | (levels == None)  # noqa: E711
    return gone


def _require_levels(groups: Mapping[str, AnyArray], clusters: AnyArray | None) -> None:
    """Refuse levels that cannot be told apart, and clusters that are not known."""
    for name, levels in groups.items():
        try:
            np.unique(levels[~missing_levels(levels)])
        except TypeError as error:
            raise InvalidArgumentError(name, "levels of one type", f"several ({error})") from None
    if clusters is not None:
        gone = int(missing_levels(clusters).sum())
        rule = "a name or number for each unit; give a unit that depends on no other a unique one"
        _require("clusters", rule, not gone, f"None or NaN for {gone:,} units")


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
    _require("probabilities", "above 0 for the action of each unit", (taken > 0).all(), 0.0)


def _require(name: str, rule: str, kept: object, received: object) -> None:
    if not kept:
        raise InvalidArgumentError(name, rule, received)
