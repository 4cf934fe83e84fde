"""Limits on how many units get each action and on total cost, with checks that they can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats
from seqbatch.errors import InvalidArgumentError

#: Up to this many actions, all sets are checked; beyond, only single actions and all together.
FEW = 12
#: Relative slack for rounding errors in sums.
SLACK = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Limits:
    """Limits on the number of units that get each action, and on total cost.

    They apply to expected counts. A count drawn by :func:`~seqbatch.allocation.rounded` is its
    expectation rounded up or down, and thus satisfies every limit that is a whole number.

    Parameters
    ----------
    at_most
        The maximum number of units of each action, (K,); infinite for no limit.
    at_least
        The minimum number of units of each action, (K,); 0 by default.
    costs
        The cost of giving each action to one unit, (K,), at least 0; required with a budget.
    budget
        The maximum total cost.
    on_average
        The maximum expected cost, if less than the budget: rounding counts up may exceed it, but
        never the budget.
    names
        The names of the actions in error messages; their numbers by default.

    Examples
    --------
    >>> Limits(at_most=[500, np.inf]).at_most
    array([500.,  inf])
    """

    at_most: ArrayLike | None = None
    at_least: ArrayLike | None = None
    costs: ArrayLike | None = None
    budget: float | None = None
    on_average: float | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        lengths = set()
        for name in ("at_most", "at_least", "costs"):
            values = getattr(self, name)
            if values is not None:
                checked = _amounts(name, values, infinite=name == "at_most")
                object.__setattr__(self, name, checked)
                lengths.add(len(checked))
        if len(lengths) > 1:
            rule = "of the same length, one number per action"
            raise InvalidArgumentError("limits", rule, f"lengths {sorted(lengths)}")
        if self.budget is not None:
            arguments.number("budget", self.budget, at_least=0)
            if self.costs is None:
                raise InvalidArgumentError("costs", "given with a budget", "None")
        if self.on_average is not None:
            arguments.number("on_average", self.on_average, at_least=0)
            if self.budget is None:
                raise InvalidArgumentError("budget", "given with on_average", "None")
        self._clash()

    def _clash(self) -> None:
        if self.at_most is None or self.at_least is None:
            return
        most, least = np.asarray(self.at_most), np.asarray(self.at_least)
        for action in np.flatnonzero(least > most)[:1]:
            raise InvalidArgumentError(
                "at_least",
                "no more than at_most",
                f"{least[action]:g} and at_most {most[action]:g} for {self._called(action)}",
            )

    def _called(self, action: int) -> str:
        return f"action {action}" if self.names is None else self.names[action]

    def over(self, actions: int) -> Bounds:
        """Return the limits as complete arrays for this many actions."""
        full = {"at_most": np.inf, "at_least": 0.0, "costs": 0.0}
        arrays: dict[str, Any] = {}
        for name, default in full.items():
            given = getattr(self, name)
            arrays[name] = np.full(actions, default) if given is None else np.asarray(given)
            if len(arrays[name]) != actions:
                rule = f"one number for each of {actions} actions"
                raise InvalidArgumentError(name, rule, f"{len(arrays[name])} numbers")
        budget = np.inf if self.budget is None else float(self.budget)
        average = budget if self.on_average is None else min(budget, float(self.on_average))
        return Bounds(
            arrays["at_least"], arrays["at_most"], arrays["costs"], average, budget,
            tuple(self._called(action) for action in range(actions)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits as complete arrays, as the solvers use them.

    A table's expected cost is at most `budget`, and the cost of counts drawn from it at most
    `surely`.
    """

    least: Floats
    most: Floats
    costs: Floats
    budget: float
    surely: float
    names: tuple[str, ...]

    def between(self, low: Floats, high: Floats) -> Bounds:
        """Return these limits with further ones on counts."""
        return replace(self, least=np.maximum(self.least, low), most=np.minimum(self.most, high))

    def beyond(self, given: Floats) -> Bounds:
        """Return the limits on what may be added to given column sums."""
        for action in np.flatnonzero(given > self.most * (1 + SLACK) + SLACK)[:1]:
            raise InvalidArgumentError(
                "at_most",
                f"at least the {given[action]:g} units that the floor gives {self.names[action]}",
                f"{self.most[action]:g}",
                "Raise the limit, or lower the floor.",
            )
        return Bounds(
            np.maximum(self.least - given, 0),
            np.maximum(self.most - given, 0),
            self.costs,
            self.budget - float(self.costs @ given),
            self.surely,
            self.names,
        )


def _amounts(name: str, values: ArrayLike, *, infinite: bool) -> Floats:
    array: Floats = np.array(values, dtype=np.float64)
    finite = arguments.floats(name, np.where(array == np.inf, 0, array), ("actions",))
    if (finite < 0).any() or (not infinite and (array == np.inf).any()):
        rule = "at least 0" + ("" if infinite else " and finite")
        raise InvalidArgumentError(name, rule, f"{array.tolist()}")
    array.setflags(write=False)
    return array


def check_feasible(bounds: Bounds, eligible: Bools, weights: Floats) -> None:
    """Refuse limits that no assignment satisfies, and name the numbers that conflict.

    Units that may get only the actions of some set need room in it, and actions with a joint
    minimum need enough eligible units. By Hoffman's circulation theorem these conditions, for all
    sets of actions, are also sufficient.
    """
    patterns, masses = patterns_of(eligible, weights)
    sets = _sets(eligible.shape[1])
    # Which patterns include an action outside each set, and which one inside, as matrix products.
    outward = patterns.astype(np.float32) @ (~sets).T.astype(np.float32) > 0
    inward = patterns.astype(np.float32) @ sets.T.astype(np.float32) > 0
    confined, reached = masses @ ~outward, masses @ inward
    room = np.where(sets, bounds.most, 0).sum(axis=1)
    need = np.where(sets, bounds.least, 0).sum(axis=1)
    slack = SLACK * (1 + masses.sum())
    worst = int((confined - room).argmax())
    if confined[worst] > room[worst] + slack:
        raise InvalidArgumentError(
            "at_most",
            f"at least {confined[worst]:g} over {_named(bounds, sets[worst])}, for the units that "
            "may get no other action",
            f"{room[worst]:g}",
        )
    worst = int((need - reached).argmax())
    if need[worst] > reached[worst] + slack:
        raise InvalidArgumentError(
            "at_least",
            f"at most {reached[worst]:g} over {_named(bounds, sets[worst])}, the number of units "
            "that may get them",
            f"{need[worst]:g}",
        )
    if np.isfinite(bounds.budget):
        cheapest = float(bounds.costs @ _cheapest(bounds, patterns, masses))
        if cheapest > bounds.budget + SLACK * (1 + abs(cheapest)):
            raise InvalidArgumentError(
                "budget",
                f"at least {cheapest:g}, the cost of the cheapest assignment within the limits",
                f"{bounds.budget:g}",
            )


def _named(bounds: Bounds, members: Bools) -> str:
    return ", ".join(bounds.names[action] for action in np.flatnonzero(members))


def cheapest_counts(bounds: Bounds, eligible: Bools, weights: Floats) -> Floats:
    """Return the column sums of least cost within the limits: a vertex, integer if they are."""
    return _cheapest(bounds, *patterns_of(eligible, weights))


def patterns_of(eligible: Bools, weights: Floats) -> tuple[Bools, Floats]:
    """Return the distinct rows of a mask, and the total weight of the units with each."""
    packed = np.packbits(eligible, axis=1, bitorder="little")
    width = packed.shape[1]
    keys = np.zeros((len(packed), 8 * -(-width // 8)), dtype=np.uint8)
    keys[:, :width] = packed
    if keys.shape[1] == 8:
        distinct, where = np.unique(keys.view("<u8").ravel(), return_inverse=True)
        rows = distinct.view(np.uint8).reshape(-1, 8)
    else:
        rows, where = np.unique(keys, axis=0, return_inverse=True)
    masses: Floats = np.bincount(where.ravel(), weights, len(rows)).astype(np.float64)
    patterns = np.unpackbits(rows, axis=1, bitorder="little")[:, : eligible.shape[1]]
    return patterns.astype(bool), masses


def _sets(actions: int) -> Bools:
    """Return sets of actions as rows of a mask: all of them, unless there are too many."""
    if actions > FEW:
        return np.vstack([np.eye(actions, dtype=bool), np.ones((1, actions), dtype=bool)])
    numbers = np.arange(1, 1 << actions)
    return (numbers[:, None] >> np.arange(actions) & 1).astype(bool)


def _cheapest(bounds: Bounds, patterns: Bools, masses: Floats) -> Floats:
    """Return the cheapest column sums within the limits on counts; huge if infeasible."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    row, action = np.nonzero(patterns)
    cells, ones = np.arange(len(row)), np.ones(len(row))
    units = csr_array((ones, (row, cells)), shape=(len(patterns), len(row)))
    counts = csr_array((ones, (action, cells)), shape=(patterns.shape[1], len(row)))
    capped = np.isfinite(bounds.most)
    room = np.concatenate([bounds.most[capped], -bounds.least])
    found = linprog(
        bounds.costs[action],
        A_ub=vstack([counts[capped], -counts]),
        b_ub=room + SLACK * (1 + np.abs(room)),
        A_eq=units,
        b_eq=masses,
    )
    # Not infinite: zero cost times infinity would be NaN.
    endless = np.full(patterns.shape[1], np.finfo(np.float64).max)
    return np.asarray(counts @ found.x) if found.status == 0 else endless
