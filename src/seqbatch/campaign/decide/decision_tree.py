"""A decision tree in the units' own columns and numbers: conditions, and the actions of leaves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import floor, isfinite, log10
from typing import Any

from seqbatch.campaign.decide.campaign_waves import ModelColumns
from seqbatch.campaign.features.base import MISSING_LEVEL, Feature
from seqbatch.campaign.features.boolean import BooleanFeature
from seqbatch.campaign.features.categorical import OTHER, LevelsFeature
from seqbatch.campaign.features.date import LEVELS, DateFeature
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.features.numeric import NumericFeature
from seqbatch.core.arrays import Floats
from seqbatch.display import number
from seqbatch.inference.decision_tree import Branch, DecisionTree, Node, TreeFeature

# ----------------------------------------------------------------------
# Conditions on a unit's column, as it is in a file.


#: A level; None for a missing one.
Level = str | bool | None


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on one column: a number at most a bound, or a level among some.

    Parameters
    ----------
    column
        The column.
    part
        "days", "weekday" or "month" of a date; "missing" for whether there is a value; else "".
    at_most
        The bound of a number; None for a category.
    levels
        The levels of a category.
    among
        Whether the levels fulfil the condition, or all others do.
    rest
        All other levels, for words; empty if there may be more.
    """

    column: str
    part: str = ""
    at_most: float | None = None
    levels: tuple[Level, ...] = ()
    among: bool = True
    rest: tuple[Level, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        made: dict[str, Any] = {"column": self.column}
        if self.part:
            made["part"] = self.part
        if self.at_most is not None:
            return {**made, "at_most": self.at_most}
        return {**made, "is" if self.among else "is_not": list(self.levels)}

    def words(self, *, holds: bool = True) -> str:
        """Return the condition in words, or its opposite.

        >>> Condition(column="age", at_most=41.5).words(holds=False)
        'age above 41.5'
        >>> Condition(column="zip", levels=("urban", "rural")).words()
        'zip urban or rural'
        >>> Condition(column="zip", levels=("urban", None), among=False).words()
        'zip neither urban nor missing'
        >>> Condition(column="vip", levels=(False,)).words(holds=False)
        'vip yes'
        """
        subject = f"{self.column} {self.part}".rstrip()
        if self.part == "missing":
            subject, missing = self.column, (holds == self.among) == (True in self.levels)
            return f"{subject} missing" if missing else f"{subject} not missing"
        if self.at_most is not None:
            return f"{subject} {'at most' if holds else 'above'} {number(self.at_most, 6)}"
        if isinstance(self.levels[0], bool):
            yes = self.levels[0] == (holds == self.among)
            return f"{subject} {'yes' if yes else 'no'}"
        if holds != self.among and 0 < len(self.rest) <= len(self.levels):
            return f"{subject} {_listed(self.rest, among=True)}"
        return f"{subject} {_listed(self.levels, among=holds == self.among)}"


def _listed(levels: Sequence[Level], *, among: bool) -> str:
    names = ["missing" if level is None else str(level) for level in levels]
    if among:
        return " or ".join(names)
    return f"not {names[0]}" if len(names) == 1 else f"neither {' nor '.join(names)}"


# ----------------------------------------------------------------------
# The tree.


@dataclass(frozen=True, kw_only=True)
class OwnLeaf:
    """Units that get the first of these actions that they may get.

    Parameters
    ----------
    number
        The leaf's number.
    order
        The actions that are still given, the best first.
    units
        How many units the tree was fitted to here.
    """

    number: int
    order: tuple[str, ...]
    units: int

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"leaf": self.number, "action": self.order[0], "order": list(self.order)}


@dataclass(frozen=True, kw_only=True)
class OwnBranch:
    """A condition, and what follows if it holds and if it does not."""

    condition: Condition
    first: "OwnNode"
    second: "OwnNode"

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "if": self.condition.plain(),
            "then": self.first.plain(),
            "else": self.second.plain(),
        }


OwnNode = OwnLeaf | OwnBranch
#: The conditions that lead to a leaf, each with whether it holds.
Path = tuple[tuple[Condition, bool], ...]


@dataclass(frozen=True)
class OwnTree:
    """A tree in the columns of a file of units."""

    root: OwnNode

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return self.root.plain()

    @property
    def paths(self) -> list[tuple[Path, OwnLeaf]]:
        """The leaves in order, each with the conditions that lead to it, without implied ones."""
        return [(_shortened(path), leaf) for path, leaf in _paths(self.root, ())]

    @property
    def columns(self) -> list[str]:
        """The columns that the tree reads."""
        used = [condition.column for path, _ in self.paths for condition, _ in path]
        return list(dict.fromkeys(used))

    def words(self, noun: str, control: str) -> str:
        """Say who gets what: "mail to customers with age at most 41.5; none to the rest".

        Parameters
        ----------
        noun
            The word for one unit.
        control
            The control; if no leaf has it, "the rest" is the largest group.
        """
        groups: dict[str, list[tuple[Path, OwnLeaf]]] = {}
        for path, leaf in self.paths:
            groups.setdefault(leaf.order[0], []).append((path, leaf))
        sizes = {name: sum(leaf.units for _, leaf in own) for name, own in groups.items()}
        rest = control if control in groups else max(sizes, key=lambda name: sizes[name])
        if len(groups) == 1:
            return f"{rest} to every {noun}"
        said = [
            f"{name} to {noun}s with {'; or with '.join(path_words(path) for path, _ in own)}"
            for name, own in groups.items()
            if name != rest
        ]
        return f"{'; '.join(said)}; {rest} to the rest"


def _paths(node: OwnNode, path: Path) -> Iterator[tuple[Path, OwnLeaf]]:
    if isinstance(node, OwnLeaf):
        yield path, node
        return
    yield from _paths(node.first, (*path, (node.condition, True)))
    yield from _paths(node.second, (*path, (node.condition, False)))


def _shortened(path: Path) -> Path:
    """Leave out each bound of a number that another one implies."""
    return tuple(one for one in path if not any(_implies(other, one) for other in path))


def _implies(one: tuple[Condition, bool], other: tuple[Condition, bool]) -> bool:
    """Whether a bound is tighter than another one on the same side of the same number."""
    (tight, holds), (loose, same) = one, other
    if tight.at_most is None or loose.at_most is None or holds != same:
        return False
    if (tight.column, tight.part) != (loose.column, loose.part):
        return False
    return tight.at_most < loose.at_most if holds else tight.at_most > loose.at_most


def path_words(path: Path) -> str:
    """Return the conditions of a leaf in words; "all units" without any."""
    return " and ".join(one.words(holds=holds) for one, holds in path) or "all units"


# ----------------------------------------------------------------------
# From the model's columns to those of the file.


@dataclass(frozen=True)
class Divider:
    """What may divide units: a feature of the tree, and the column of the file behind it.

    Parameters
    ----------
    feature
        The feature, in the model's columns.
    part
        The encoder's feature.
    kind
        "number"; "yes" for a column of 0 and 1; or "level" for a category.
    of
        "days", "weekday" or "month" of a date, "missing" for an indicator; else "".
    places
        Of a category: which of the encoder's indicators the columns are.
    """

    feature: TreeFeature
    part: Feature
    kind: str
    of: str = ""
    places: tuple[int, ...] = ()


def dividers(encoder: Encoder, columns: ModelColumns) -> list[Divider]:
    """Return what may divide units: numbers, dates, booleans and categories with levels.

    Hashed cells and products of columns have no words; the scores contain them all the same.
    """
    model = {place: own for own, place in enumerate(columns.places.tolist(), start=1)}
    made = list[Divider]()
    for name, at in encoder.places().items():
        part, first = encoder.parts[name], at.start
        for kind, of, own in _blocks(part):
            known = [place for place in own if first + place in model]
            feature = TreeFeature(
                f"{name} {of}".rstrip(), tuple(model[first + place] for place in known)
            )
            if kind == "level" and len(known) > 1:
                made.append(Divider(feature, part, kind, of, tuple(p - own[0] for p in known)))
            elif kind != "level" and known:
                made.append(Divider(feature, part, kind, of))
    return made


def _blocks(part: Feature) -> Iterator[tuple[str, str, range]]:
    """Yield the blocks of a feature's columns: kind, part, and positions."""
    match part:
        case NumericFeature() | BooleanFeature():
            yield "yes" if isinstance(part, BooleanFeature) else "number", "", range(1)
            if len(part.names) > 1:
                yield "yes", MISSING_LEVEL, range(1, 2)
        case LevelsFeature():
            yield "level", "", range(len(part.names))
        case DateFeature():
            first = 0
            for each in part.rules.parts:
                width = len(part.names_of(each))
                if each == "days":
                    yield "number", each, range(first, first + 1)
                    if width > 1:
                        yield "yes", MISSING_LEVEL, range(first + 1, first + 2)
                else:
                    yield "level", each, range(first, first + width)
                first += width


@dataclass(frozen=True, eq=False)
class Neat:
    """Finds short decimal numbers between two values of a column, in the file's unit.

    Parameters
    ----------
    columns
        The model's columns.
    chosen
        The numbers found, by column and by the cut in the model.
    """

    columns: ModelColumns
    chosen: dict[tuple[int, float], float] = field(default_factory=dict)

    def __call__(self, column: int, below: float, above: float) -> float:
        """Return where to divide, as the model sees it."""
        low, high = (self.columns.own_value(column, one) for one in (below, above))
        own = neat(low, high)
        cut = self.columns.model_value(column, own)
        # A unit at the number itself is below it, whatever scaling does to its last digits.
        cut += 1e-9 * max(1.0, abs(cut))
        self.chosen[column, cut] = own
        return cut


def neat(low: float, high: float) -> float:
    """Return a short decimal number well between two numbers.

    >>> neat(6.0, 7.0), neat(0.0, 1.0), neat(123.4, 187.2), neat(-0.013, 0.002)
    (6.5, 0.5, 160.0, -0.005)
    """
    middle, width = low + (high - low) / 2, high - low
    if not (width > 0 and isfinite(width)):
        return middle
    first = floor(log10(width)) + 1
    for digits in range(-first, -first + 4):
        short = round(middle, digits) + 0.0
        if low + width / 4 <= short <= high - width / 4:
            return short
    return middle


def own_tree(
    tree: DecisionTree, known: Sequence[Divider], cuts: Neat, names: Sequence[str | None]
) -> OwnTree:
    """Return a tree in the columns of the file.

    Parameters
    ----------
    tree
        The tree, fitted in the model's columns.
    known
        What could divide units.
    cuts
        What divided the bins of numbers.
    names
        The actions in the model's order; None for one that is no longer given.
    """
    by_feature = {one.feature: one for one in known}

    def own(node: Node) -> OwnNode:
        if isinstance(node, Branch):
            condition = _condition(node, by_feature[node.bins.feature], cuts)
            return OwnBranch(condition=condition, first=own(node.first), second=own(node.second))
        order = tuple(name for a in node.order if (name := names[a]) is not None)
        return OwnLeaf(number=node.number, order=order, units=node.units)

    return OwnTree(own(tree.root))


def _condition(node: Branch, divider: Divider, cuts: Neat) -> Condition:
    """Return the condition of a branch in the columns of the file."""
    name, of = divider.part.name, divider.of
    if divider.kind == "yes":
        return Condition(column=name, part=of, levels=(False,))
    if divider.kind == "number":
        own = cuts.chosen[divider.feature.columns[0], node.cut]
        return Condition(column=name, part=of, at_most=own)
    inside = node.inside[node.bins.places]
    other = bool(inside[-1])
    where = dict(zip(divider.places, inside[:-1].tolist(), strict=True))
    held = {level: where.get(place, other) for level, place in _levels_of(divider)}
    open_ended = isinstance(divider.part, LevelsFeature) and divider.part.other
    others = where.get(_place_of_others(divider), other) if open_ended else None
    listed = {
        side: tuple(level for level, its in held.items() if its is side) for side in (True, False)
    }
    among = not others if others is not None else len(listed[True]) <= len(listed[False])
    rest = () if open_ended else listed[not among]
    return Condition(column=name, part=of, levels=listed[among], among=among, rest=rest)


def _levels_of(divider: Divider) -> list[tuple[Level, int]]:
    """Return the levels of a category that have a name, each with its indicator."""
    part = divider.part
    if isinstance(part, LevelsFeature):
        found, missing = part.places_of(part.rules.levels)
        named: list[tuple[Level, int]] = list(zip(part.rules.levels, found, strict=True))
        return [*named, *([(None, missing)] if part.accepts_missing else [])]
    assert isinstance(part, DateFeature)
    days: list[tuple[Level, int]] = [(day, at) for at, day in enumerate(LEVELS[divider.of])]
    return [*days, *([(None, len(days))] if part.rules.missing != "refuse" else [])]


def _place_of_others(divider: Divider) -> int:
    """Return the indicator of levels that were not declared."""
    assert isinstance(divider.part, LevelsFeature)
    return divider.part.levels.index(OTHER)


def widest(found: Sequence[Divider], theta: Floats, most: int) -> list[Divider]:
    """Return the features by which the actions differ most, at most so many, in their order."""
    spread = theta.var(axis=0)
    sizes = [float(spread[list(one.feature.columns)].sum()) for one in found]
    kept = sorted(range(len(found)), key=lambda place: -sizes[place])[:most]
    return [found[place] for place in sorted(kept)]
