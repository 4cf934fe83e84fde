"""The value of a tree on a wave that it has not seen: over control, over one action, by leaf.

A tree that was fitted to earlier waves is a fixed rule for the units of a later one. Its value is
therefore estimated as a lift is, from doubly robust scores, and its leaves are segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import Contrast, Lift
from seqbatch.inference.decision_tree import DecisionTree
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.estimates import estimate_tallies
from seqbatch.inference.intervals import Interval, estimated, interval_table, unknown
from seqbatch.inference.logged_units import Rows, Wave, pieces
from seqbatch.inference.rare_events import PlannedDesign, planned_units_of_next_rule
from seqbatch.inference.rule_value import RuleOver, supports, why_unknown
from seqbatch.inference.score_sums import ScoreColumns, ScoreSums, Weighing
from seqbatch.inference.segments import NOBODY, adjusted_p_values, in_segment
from seqbatch.inference.summary import AmongEligible, Partition, WaveSummary, summarise

OVER_CONTROL = "gain of the tree over control"
OVER_SINGLE = "gain of the tree over the best single action"
#: Earlier waves choose both the tree and, by the policy, who gets what in the last one.
WIDENING = 1.1


@dataclass(frozen=True, kw_only=True)
class LeafFinding:
    """What the action of a leaf brings over control, to the leaf's units.

    Parameters
    ----------
    leaf, action
        The leaf's number, and its action.
    share
        The share of the last wave's units in the leaf.
    interval
        The lift over control in the last wave, or why it is unknown.
    adjusted_p
        Its p-value by Holm's method over all leaves with other actions than control; NaN if the
        lift is unknown.
    among
        The share of the leaf's units that could get the action and control.
    """

    leaf: int
    action: int
    share: float
    interval: Interval
    adjusted_p: float = nan
    among: float = 1.0


@dataclass(frozen=True, kw_only=True)
class TreeValue:
    """A tree, judged on the last wave alone.

    Parameters
    ----------
    tree
        The tree, fitted to the waves before.
    over_control
        Its gain over giving control to all units.
    over_single
        Its gain over the best single action by the same fit.
    supported
        The share of units that could have got the tree's action and control.
    shares
        The share of units that the tree gives each action.
    leaves
        The leaves.
    """

    tree: DecisionTree
    over_control: Interval
    over_single: Interval
    supported: float
    shares: tuple[float, ...]
    leaves: tuple[LeafFinding, ...]

    def tables(self) -> list[Table]:
        """Return the gains, and the lift in each leaf."""
        gains = interval_table("The tree", [self.over_control, self.over_single])
        columns = ("leaf", "action", "share", "lift", "low", "high", "p (Holm)", "note")
        rows = [
            (one.leaf, one.action, one.share, one.interval.estimate, one.interval.low,
             one.interval.high, one.adjusted_p, one.interval.note)
            for one in self.leaves
        ]  # fmt: skip
        return [gains, Table("Lift over control, by leaf", columns, rows, words=("note",), keys=2)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return f"{self.over_control}\n{self.over_single}"


def judge_tree(
    tree: DecisionTree,
    last: Wave,
    summaries: Sequence[WaveSummary],
    *,
    level: float = 0.95,
    design: PlannedDesign | None = None,
) -> TreeValue:
    """Judge a tree on the last wave, which must not have been used to fit it.

    Parameters
    ----------
    tree
        The tree, from :func:`~seqbatch.inference.decision_tree.distil` on the waves before.
    last
        The units of the last wave.
    summaries
        The summaries of all waves.
    level
        The coverage.
    design
        What was planned for the last wave: if events are too few, there is no interval. Without it
        this rule is not applied.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    summary = summaries[-1]
    sums = _Comparisons.of(tree, last, summaries)
    units = summary.overall.units
    planned = None
    if design is not None:
        planned = planned_units_of_next_rule(replace(design, units=units))
    return TreeValue(
        tree=tree,
        over_control=sums.control.interval(summary, level=level, planned=planned),
        over_single=sums.single.interval(summary, level=level, planned=planned),
        supported=sums.control.supported.units / units,
        shares=tuple((sums.given / units).tolist()),
        leaves=_leaves(tree, last, summaries, sums.sizes / units, level, design),
    )


# ----------------------------------------------------------------------
# The tree compared with control, and with its best single action, in one pass.


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Sums over the units that could have got the actions of both rules, and the units that differ.

    Parameters
    ----------
    about, beside
        What is estimated, and the action on the other side.
    supported
        The sums.
    units, differ
        The number of all units, and of those with different actions.
    """

    about: str
    beside: str
    supported: ScoreSums
    units: int
    differ: int

    @classmethod
    def of(
        cls,
        about: str,
        beside: str,
        scored: _Scored,
        wanted: Integers,
        instead: Integers,
    ) -> _Comparison:
        """Return the sums over the units of a piece."""
        both = supports(scored.rows.probabilities, wanted, instead)
        contrast = RuleOver(about, WIDENING, wanted[both], instead[both])
        sums = scored.sums(both, contrast)
        return cls(about, beside, sums, len(wanted), int((wanted != instead).sum()))

    def merge(self, other: _Comparison) -> _Comparison:
        return replace(
            self,
            supported=self.supported.merge(other.supported),
            units=self.units + other.units,
            differ=self.differ + other.differ,
        )

    def interval(self, summary: WaveSummary, *, level: float, planned: float | None) -> Interval:
        """Return the gain, or why it is unknown."""
        same = "" if self.differ else f"The tree gives {self.beside} to every unit."
        asked = (self.about, self.supported.units / self.units, self.supported, summary)
        why = why_unknown(*asked, level=level, planned=planned, beside=self.beside, same=same)
        if why is not None:
            return why
        none: Integers = np.zeros(0, dtype=np.int64)
        contrast = RuleOver(self.about, WIDENING, none, none)
        shape = estimate_tallies(self.supported, [self.supported], contrast, summary)
        return estimated(self.about, shape, level=level)


@dataclass(frozen=True, eq=False)
class _Scored:
    """The units of a piece with their doubly robust scores, as lifts use them."""

    rows: Rows
    values: Floats
    returned: Floats
    usual: float

    def sums(self, among: Bools, contrast: Contrast) -> ScoreSums:
        """Return the sums of a contrast over some of the units."""
        q = self.returned if len(self.returned) == 1 else self.returned[among]
        weighing = Weighing.of(self.rows.some(among), [contrast])
        return ScoreColumns.of(weighing, self.values[among], q, usual=self.usual).tally()


@dataclass(frozen=True, eq=False)
class _Comparisons:
    """Both comparisons, the units that the tree gives each action, and those in each leaf."""

    control: _Comparison
    single: _Comparison
    given: Integers
    sizes: Integers

    @classmethod
    def of(cls, tree: DecisionTree, last: Wave, summaries: Sequence[WaveSummary]) -> _Comparisons:
        """Pass over the last wave."""
        made: _Comparisons | None = None
        for scored in _scored(last, summaries):
            part = cls._of_piece(tree, scored)
            made = part if made is None else made.merge(part)
        assert made is not None
        return made

    @classmethod
    def _of_piece(cls, tree: DecisionTree, scored: _Scored) -> _Comparisons:
        rows, K = scored.rows, scored.rows.actions_number
        wanted, single = tree.actions(rows), tree.single.actions(rows)
        control = np.zeros_like(wanted)
        best = "control" if tree.whole.action == 0 else "the best single action"
        return cls(
            _Comparison.of(OVER_CONTROL, "control", scored, wanted, control),
            _Comparison.of(OVER_SINGLE, best, scored, wanted, single),
            np.bincount(wanted, minlength=K),
            np.bincount(tree.levels(rows), minlength=len(tree.leaves)),
        )

    def merge(self, other: _Comparisons) -> _Comparisons:
        return _Comparisons(
            self.control.merge(other.control),
            self.single.merge(other.single),
            self.given + other.given,
            self.sizes + other.sizes,
        )


def _scored(last: Wave, summaries: Sequence[WaveSummary]) -> Iterator[_Scored]:
    """Yield the scores of the last wave's units, as :func:`summarise` computes them."""
    summary = summaries[-1]
    model = OutcomeModel.fitted(summary.evidence)
    own = summary.evidence
    if len(summaries) > 1:
        own = own.without(summaries[-2].evidence)
    shift = CommonShift.of(own.statistics, model)
    for rows in pieces(last):
        q = summary.returned.of(rows)
        yield _Scored(rows, score(rows, model, q, shift).values, q, summary.usual)


# ----------------------------------------------------------------------
# The leaves as segments of the last wave.


def _leaves(
    tree: DecisionTree,
    last: Wave,
    summaries: Sequence[WaveSummary],
    shares: Floats,
    level: float,
    design: PlannedDesign | None,
) -> tuple[LeafFinding, ...]:
    """Return the lift of each leaf's action over control, within the leaf."""
    judged = _by_leaf(tree, last, summaries)
    found = []
    for leaf, share in zip(tree.leaves, shares.tolist(), strict=True):
        lift = Lift(leaf.action)
        made = LeafFinding(
            leaf=leaf.number,
            action=leaf.action,
            share=share,
            interval=unknown(lift.name, level=level, note="The leaf gets control."),
        )
        found.append(_lifted(made, tree, judged, level, design) if leaf.action else made)
    tested = [place for place, one in enumerate(found) if one.action]
    adjusted = adjusted_p_values([found[place].interval for place in tested])
    for place, p in zip(tested, adjusted, strict=True):
        found[place] = replace(found[place], adjusted_p=p)
    return tuple(found)


def _both(tree: DecisionTree, action: int) -> AmongEligible:
    """Return the leaves among the units that could get an action and control."""
    return AmongEligible(tree, (0, action))


def _by_leaf(
    tree: DecisionTree, last: Wave, summaries: Sequence[WaveSummary]
) -> tuple[WaveSummary, ...]:
    """Summarise the last wave by leaf, for the actions of leaves; empty if all get control."""
    given = sorted({leaf.action for leaf in tree.leaves} - {0})
    if not given:
        return ()
    partitions: list[Partition] = [tree, *(_both(tree, action) for action in given)]
    return summarise(
        [last],
        contrasts=[Lift(action) for action in given],
        partitions=partitions,
        charges=tuple(summaries[-1].charges.tolist()),
        earlier=summaries[:-1],
        fitted=summaries[-1:],
    )[-1:]


def _lifted(
    made: LeafFinding,
    tree: DecisionTree,
    judged: tuple[WaveSummary, ...],
    level: float,
    design: PlannedDesign | None,
) -> LeafFinding:
    """Return a leaf with the lift of its action, among the units that could get it."""
    segment = (_both(tree, made.action), made.leaf)
    whole, own = (judged[0].tally(one) for one in ((tree, made.leaf), segment))
    designs = [] if design is None else [design]
    interval = in_segment(judged, Lift(made.action), segment, level=level, planned=designs)
    if own is None or whole is None:
        return replace(made, interval=replace(interval, note=NOBODY), among=0.0)
    return replace(made, interval=interval, among=own.units / whole.units)
