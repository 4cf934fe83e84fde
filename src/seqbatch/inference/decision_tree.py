"""Trees of at most four leaves, each with one action: the best one for given scores, exactly.

The scores are predictions of a linear fit, so a tree is a short form of that fit, for people. They
are summed once, by pairs of binned features; the search then tries every tree on the bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference.logged_units import Rows, Wave, pieces

# ----------------------------------------------------------------------
# Bins: what divides units, from the features of the first wave.


#: The most bins of a feature.
BINS = 16
#: Bins are made from at most so many units of the wave.
SAMPLE = 50_000
#: Cuts are within this share of a quantile, if at least so many values are: to leave room for round
#: numbers.
NEAR, MANY = 0.005, 20
#: Returns where to divide the units of a column of the model between two of its values.
Between = Callable[[int, float, float], float]


def halfway(column: int, below: float, above: float) -> float:  # noqa: ARG001
    """Return the middle between two values."""
    return below + (above - below) / 2


@dataclass(frozen=True)
class TreeFeature:
    """What may divide units: a number, or a category.

    Parameters
    ----------
    name
        Its name.
    columns
        The index of the number's column in the model, or those of the category's indicators.
    """

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FeatureBins:
    """The bins of one feature.

    Parameters
    ----------
    feature
        The feature.
    cuts
        Of a number: the values that divide bins, ascending; a unit at a cut is below it.
    places
        Of a category: the bin of each of its indicators, and of a unit without any. Levels beyond
        the most frequent ones share the last bin.
    """

    feature: TreeFeature
    cuts: Floats
    places: Integers

    @property
    def category(self) -> bool:
        """Whether the feature is a category."""
        return len(self.feature.columns) > 1

    @cached_property
    def count(self) -> int:
        """The number of bins."""
        return int(self.places.max()) + 1 if self.category else len(self.cuts) + 1

    def codes(self, features: Floats) -> Integers:
        """Return the bin of each unit."""
        if not self.category:
            below: Integers = np.searchsorted(self.cuts, features[:, self.feature.columns[0]])
            return below
        return self.places[_levels(features, self.feature.columns)]

    @cached_property
    def masks(self) -> Bools:
        """The ways to divide the bins in two, each as which bins are on the first side.

        A number is cut between two bins. A category has one level against all others, or the first
        few levels, in their order, against the rest.
        """
        cuts = np.tri(self.count, dtype=np.bool_)[:-1]
        if not self.category:
            return cuts
        both = np.concatenate([np.eye(self.count, dtype=np.bool_), cuts])
        # Sides swapped, or the same twice, is the same cut.
        sides = {tuple(side if side[0] else ~side) for side in both}
        known = sorted(sides, key=lambda side: (sum(side), side), reverse=True)
        return np.array([side for side in known if not all(side)], dtype=np.bool_)


def _levels(features: Floats, columns: Sequence[int]) -> Integers:
    """Return which indicator of a category each unit has; their number if it has none."""
    own = features[:, list(columns)]
    # Standardised indicators have the same two values in all units; the higher one is rarely 0.
    best: Integers = own.argmax(axis=1)
    has = own[np.arange(len(own)), best] > 0
    return np.where(has, best, len(columns))


def bins_of(
    first: Wave, features: Sequence[TreeFeature], between: Between | None = None
) -> list[FeatureBins]:
    """Return the bins of each feature that varies, at most 16, from the units of the first wave.

    Parameters
    ----------
    first
        The first wave.
    features
        What may divide units.
    between
        Where to divide the units of a column between two adjacent values; halfway by default.
    """
    sample = _sampled(first)
    made = [_bins(sample, feature, between or halfway) for feature in features]
    return [one for one in made if one.count > 1]


def _sampled(wave: Wave) -> Floats:
    """Return the features of the units with the lowest marks.

    Without marks, evenly spaced units are taken: the sample is halved whenever it is too large.
    """
    step, seen, kept, marks = 1, 0, list[Floats](), list[Integers]()
    for rows in pieces(wave):
        if rows.marks is not None:
            kept.append(rows.features)
            marks.append(rows.marks)
            if sum(map(len, kept)) > 2 * SAMPLE:
                kept, marks = _lowest(kept, marks)
            continue
        kept.append(rows.features[-seen % step :: step])
        seen += rows.count
        while sum(map(len, kept)) > 2 * SAMPLE:
            kept, step = [np.concatenate(kept)[::2]], 2 * step
    if marks:
        kept, _ = _lowest(kept, marks)
    return np.concatenate(kept)


def _lowest(
    features: Sequence[Floats], marks: Sequence[Integers]
) -> tuple[list[Floats], list[Integers]]:
    """Return the features of the units with the lowest marks, and the marks."""
    every, own = np.concatenate(features), np.concatenate(marks)
    if len(own) > SAMPLE:
        # All units of the highest mark that is kept stay: a sample must not depend on their order.
        keep = own <= np.partition(own, SAMPLE)[SAMPLE]
        every, own = every[keep], own[keep]
    return [every], [own]


def _bins(sample: Floats, feature: TreeFeature, between: Between) -> FeatureBins:
    none: Integers = np.zeros(0, dtype=np.int64)
    if len(feature.columns) == 1:
        return FeatureBins(feature, _cuts(sample, feature.columns[0], between), none)
    levels = _levels(sample, feature.columns)
    counts = np.bincount(levels, minlength=len(feature.columns) + 1)
    order = np.argsort(-counts, kind="stable")
    own = np.sort(order[: BINS - 1])
    places: Integers = np.full(len(counts), min(len(own), len(counts) - 1), dtype=np.int64)
    places[own] = np.arange(len(own))
    return FeatureBins(feature, np.zeros(0), places)


def _cuts(sample: Floats, column: int, between: Between) -> Floats:
    """Return cuts after each value if there are few, else near quantiles."""
    values = np.sort(sample[:, column])
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        pairs = list(pairwise(distinct.tolist()))
    else:
        places = np.arange(1, BINS) * len(values) // BINS
        found = [_around(values, distinct, place) for place in places.tolist()]
        pairs = list(dict.fromkeys(pair for pair in found if pair is not None))
    return np.unique([between(column, low, high) for low, high in pairs])


def _around(values: Floats, distinct: Floats, place: int) -> tuple[float, float] | None:
    """Return two values between which to cut near a quantile; None at the largest value."""
    margin = round(NEAR * len(values))
    low, high = values[place - 1 - margin], values[place + margin]
    if np.searchsorted(distinct, high) - np.searchsorted(distinct, low) >= MANY:
        return float(low), float(high)
    # Few values, as of whole numbers: next to the quantile.
    after = int(np.searchsorted(distinct, values[place - 1], side="right"))
    return (float(distinct[after - 1]), float(distinct[after])) if after < len(distinct) else None


# ----------------------------------------------------------------------
# Sums of scores by pairs of bins, in one pass; they can be merged.


@dataclass(frozen=True, eq=False)
class PairSums:
    """For each pair of features f <= g and pair of bins: the sums of scores, and the units.

    Parameters
    ----------
    bins
        The bins of each feature.
    whole
        The sums over all units, shape (K + 1,), the number of units last.
    totals
        The sums by pair of bins, shape (F, F, B, B, K + 1); zero where f > g.
    """

    bins: Sequence[FeatureBins]
    whole: Floats
    totals: Floats

    @classmethod
    def zero(cls, bins: Sequence[FeatureBins], actions: int) -> PairSums:
        """Return the sums of no units."""
        F, B = len(bins), max((one.count for one in bins), default=1)
        return cls(bins, np.zeros(actions + 1), np.zeros((F, F, B, B, actions + 1)))

    def add(self, features: Floats, scores: Floats) -> PairSums:
        """Return the sums with these units added, whose scores have shape (n, K)."""
        whole = np.append(scores.sum(axis=0), len(scores))
        return self.merge(PairSums(self.bins, whole, self._of(features, scores)))

    def merge(self, other: PairSums) -> PairSums:
        """Return the sums over both sets of units."""
        return PairSums(self.bins, self.whole + other.whole, self.totals + other.totals)

    def _of(self, features: Floats, scores: Floats) -> Floats:
        made = np.zeros_like(self.totals)
        F, _, B, _, _ = made.shape
        codes = [one.codes(features) for one in self.bins]
        columns = np.ascontiguousarray(scores.T)
        for f in range(F):
            first = codes[f] * B
            for g in range(f, F):
                cells = first + codes[g]
                sums = [np.bincount(cells, weights=own, minlength=B * B) for own in columns]
                sums.append(np.bincount(cells, minlength=B * B))
                made[f, g] = np.stack(sums, axis=-1).reshape(B, B, -1)
        return made

    def of_root(self, feature: int) -> Floats:
        """Return the sums by bin of one feature and of every feature: (B, F, B, K + 1)."""
        before = self.totals[:feature, feature].transpose(2, 0, 1, 3)
        return np.concatenate([before, self.totals[feature, feature:].transpose(1, 0, 2, 3)], 1)


# ----------------------------------------------------------------------
# The tree.


@dataclass(frozen=True)
class Leaf:
    """Units that get the same action.

    Parameters
    ----------
    number
        Its number, from 0, in the order of the tree.
    order
        The actions, the best first; a unit gets the first one that it may get.
    units
        How many units the tree was fitted to here.
    """

    number: int
    order: tuple[int, ...]
    units: int

    @property
    def action(self) -> int:
        """The action of the leaf."""
        return self.order[0]


@dataclass(frozen=True, eq=False)
class Branch:
    """A condition on one feature: units on the first side, and the others.

    Parameters
    ----------
    bins
        The feature's bins.
    inside
        Which bins are on the first side.
    first, second
        What follows on either side.
    """

    bins: FeatureBins
    inside: Bools
    first: Node
    second: Node

    def holds(self, features: Floats) -> Bools:
        """Return which units are on the first side."""
        found: Bools = self.inside[self.bins.codes(features)]
        return found

    @property
    def cut(self) -> float:
        """Of a number: the largest value on the first side."""
        return float(self.bins.cuts[int(self.inside.sum()) - 1])


Node = Leaf | Branch


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """A tree that says which action a unit gets; its leaves are a partition of the units.

    Parameters
    ----------
    root
        The first condition, or the only leaf.
    whole
        The best leaf for all units together.
    """

    root: Node
    whole: Leaf
    name: ClassVar[str] = "leaf of the tree"

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves, in order."""
        return tuple(_leaves(self.root))

    @property
    def single(self) -> DecisionTree:
        """The tree without any condition: the best single action."""
        return DecisionTree(self.whole, self.whole)

    def levels(self, rows: Rows) -> Integers:
        """Return the leaf of each unit."""
        found: Integers = np.zeros(rows.count, dtype=np.int64)
        _write(self.root, rows.features, np.arange(rows.count), found)
        return found

    def actions(self, rows: Rows) -> Integers:
        """Return the action of each unit: of its leaf's, the first that it may get."""
        orders = np.array([leaf.order for leaf in self.leaves])[self.levels(rows)]
        if rows.eligible is None:
            return orders[:, 0]
        may = np.take_along_axis(rows.eligible, orders, axis=1)
        every = np.arange(rows.count)
        best: Integers = orders[every, may.argmax(axis=1)]
        return best


def _leaves(node: Node) -> list[Leaf]:
    return [node] if isinstance(node, Leaf) else [*_leaves(node.first), *_leaves(node.second)]


def _write(node: Node, features: Floats, places: Integers, found: Integers) -> None:
    if isinstance(node, Leaf):
        found[places] = node.number
        return
    inside = node.holds(features[places])
    _write(node.first, features, places[inside], found)
    _write(node.second, features, places[~inside], found)


# ----------------------------------------------------------------------
# The search: every first condition, and on either side every second one.


#: A leaf has at least this many units, and at least this share of them.
LEAST_UNITS, LEAST_SHARE = 50, 0.01
#: Gains below this share of the sums are rounding.
ROUNDING = 1e-9


def best_tree(sums: PairSums, *, among: Bools | None = None) -> DecisionTree:
    """Return the tree with the largest sum of scores; a simpler one if it has the same sum.

    Parameters
    ----------
    sums
        The sums of scores by pairs of bins.
    among
        Which actions may be given; all by default.
    """
    known = np.ones(sums.totals.shape[-1] - 1, dtype=np.bool_) if among is None else among
    search = _Search.of(sums, known)
    whole = search.leaf(sums.whole)
    best: Node = whole
    value, same = float(sums.whole[whole.action]), search.negligible
    for feature in range(len(sums.bins)):
        found, place = search.root(feature)
        if found >= value - same:
            made = search.branch(feature, place)
            if found > value + same or len(_leaves(made)) < len(_leaves(best)):
                best, value = made, found
    return DecisionTree(_numbered(best, [0]), whole)


@dataclass(frozen=True, eq=False)
class _Search:
    """The search over one table of sums.

    Parameters
    ----------
    sums, known
        The sums, and the actions that may be given.
    masks
        The ways to divide each feature's bins, shape (F, C, B); padded with empty ones.
    least
        The fewest units of a leaf.
    negligible
        A gain that is rounding.
    """

    sums: PairSums
    known: Bools
    masks: Floats
    least: float
    negligible: float
    _never: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_never", np.where(self.known, 0.0, -np.inf))

    @classmethod
    def of(cls, sums: PairSums, known: Bools) -> _Search:
        """Prepare a search."""
        B = sums.totals.shape[2]
        most = max((len(one.masks) for one in sums.bins), default=0)
        masks = np.zeros((len(sums.bins), most, B))
        for place, one in enumerate(sums.bins):
            masks[place, : len(one.masks), : one.count] = one.masks
        sizes = float(np.abs(sums.totals[..., :-1]).sum(axis=(2, 3, 4)).max(initial=0.0))
        least = max(float(LEAST_UNITS), LEAST_SHARE * float(sums.whole[-1]))
        return cls(sums, known, masks, least, ROUNDING * sizes)

    def _values(self, totals: Floats) -> Floats:
        """Return the values of leaves, shape (..., K + 1); impossible if units are too few."""
        best = (totals[..., :-1] + self._never).max(axis=-1)
        return np.where(totals[..., -1] >= self.least, best, -np.inf)

    def _second(self, side: Floats) -> tuple[Floats, Floats]:
        """Return the value of one leaf on a side, and of each second condition.

        `side` has shape (C, F, B, K + 1): sums on one side of each first condition.
        """
        whole = side[:, 0].sum(axis=1)
        inside = np.einsum("gdb,cgbk->cgdk", self.masks, side, optimize=True)
        return self._values(whole), self._values(inside) + self._values(
            whole[:, None, None] - inside
        )

    def sides(self, feature: int) -> tuple[Floats, Floats]:
        """Return the sums on either side of each first condition on a feature."""
        own = self.sums.of_root(feature)
        count = len(self.sums.bins[feature].masks)
        inside = np.tensordot(self.masks[feature, :count], own, axes=1)
        return inside, own.sum(axis=0) - inside

    def root(self, feature: int) -> tuple[float, int]:
        """Return the largest value with a first condition on a feature, and which one."""
        value = np.zeros(len(self.sums.bins[feature].masks))
        for side in self.sides(feature):
            leaf, split = self._second(side)
            value += np.maximum(leaf, split.max(axis=(1, 2)))
        place = int(value.argmax())
        return float(value[place]), place

    def branch(self, feature: int, place: int) -> Node:
        """Return the best tree with this first condition."""
        ends = [self._side(side[place]) for side in self.sides(feature)]
        return self._branch(feature, place, *ends)

    def _side(self, side: Floats) -> Node:
        """Return the best leaf or branch for the units on one side."""
        whole = side[0].sum(axis=0)
        leaf, split = self._second(side[None])
        if split[0].max() <= leaf[0] + self.negligible:
            return self.leaf(whole)
        feature, place = np.unravel_index(int(split[0].argmax()), split[0].shape)
        inside = self.masks[feature, place] @ side[feature]
        ends = self.leaf(inside), self.leaf(whole - inside)
        return self._branch(int(feature), int(place), *ends)

    def _branch(self, feature: int, place: int, first: Node, second: Node) -> Node:
        bins = self.sums.bins[feature]
        return Branch(bins, bins.masks[place], first, second)

    def leaf(self, totals: Floats) -> Leaf:
        """Return the best leaf for units with these sums."""
        order = np.argsort(-(totals[:-1] + self._never), kind="stable")
        return Leaf(0, tuple(order.tolist()), round(float(totals[-1])))


def _numbered(node: Node, next_number: list[int]) -> Node:
    """Return a tree whose leaves are numbered in order."""
    if isinstance(node, Leaf):
        next_number[0] += 1
        return Leaf(next_number[0] - 1, node.order, node.units)
    first = _numbered(node.first, next_number)
    return Branch(node.bins, node.inside, first, _numbered(node.second, next_number))


# ----------------------------------------------------------------------
# A tree distilled from a linear fit.


def distil(
    waves: Sequence[Wave],
    theta: Floats,
    bins: Sequence[FeatureBins],
    *,
    among: Bools | None = None,
    less: bool = False,
) -> DecisionTree:
    """Return the best tree for the predictions <x, theta_a> of the units of some waves.

    A unit that may not get an action counts there with the mean of those that it may get.

    Parameters
    ----------
    waves
        The waves; their outcomes are not used.
    theta
        The fit, shape (K, P), over the model's columns.
    bins
        What may divide units, from :func:`bins_of`.
    among
        Which actions may be given; all by default.
    less
        Whether a lower outcome is better.
    """
    theta = arguments.floats("theta", theta, ("K", "P"))
    known = np.ones(len(theta), dtype=np.bool_) if among is None else among
    sums = PairSums.zero(bins, len(theta))
    for wave in waves:
        for rows in pieces(wave):
            scores = rows.features @ (-theta.T if less else theta.T)
            sums = sums.add(rows.features, _among_eligible(scores, rows, known))
    return best_tree(sums, among=known)


def _among_eligible(scores: Floats, rows: Rows, known: Bools) -> Floats:
    """Return scores in which an action that a unit may not get counts as the mean of the others."""
    if rows.eligible is None:
        return scores
    may = rows.eligible & known
    mean = np.where(may, scores, 0.0).sum(axis=1) / np.maximum(may.sum(axis=1), 1)
    return np.where(may, scores, mean[:, None])
