"""The tree in findings: who should get what in a few words, judged on the last wave alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from seqbatch.campaign.decide.decision_tree import (
    Neat,
    OwnTree,
    dividers,
    own_tree,
    path_words,
    widest,
)
from seqbatch.campaign.decide.logged_waves import Logged
from seqbatch.campaign.decide.next_rule import ExportedRule, LinearScores, ordered
from seqbatch.campaign.spec.measure import unit_word
from seqbatch.campaign.warehouse.dialects import DuckDB
from seqbatch.campaign.warehouse.next_rule import case_of
from seqbatch.display import percent
from seqbatch.document import Table
from seqbatch.inference import Interval
from seqbatch.inference.decision_tree import DecisionTree, bins_of, distil
from seqbatch.inference.rule_value import GreedyRule
from seqbatch.inference.summary import WaveSummary, statistics_by_wave
from seqbatch.inference.tree_value import LeafFinding, judge_tree

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Findings
    from seqbatch.campaign.views.findings_estimates import Asking

# ----------------------------------------------------------------------
# The tree as an answer.


@dataclass(frozen=True, kw_only=True)
class LeafAnswer:
    """One leaf of the tree.

    Parameters
    ----------
    who, action
        Its conditions in words, and its action.
    share
        The share of the last wave's units in the leaf.
    lift
        What the action brings over the control to these units, or why that is unknown.
    adjusted_p
        Its p-value, adjusted by Holm over all leaves; NaN if the lift is unknown.
    among
        The share of the leaf's units that may get the action and the control.
    """

    who: str
    action: str
    share: float
    lift: Interval
    adjusted_p: float
    among: float


@dataclass(frozen=True, kw_only=True)
class TreeAnswer:
    """The best tree of at most four leaves by all waves but the last, which alone judges it.

    Parameters
    ----------
    unknown
        Why there is no tree; "" if there is one.
    words
        Who gets what.
    over_control, over_single, single
        The gain over giving all units the control, and over the best single action by the same
        waves; and that action.
    supported
        The share of the last wave's units that could have got the tree's action and the control.
    shares
        The share of units to which the tree gives each action.
    leaves
        The leaves.
    rule
        The tree as plain values.
    case
        The tree as a CASE expression in standard SQL, line by line.
    """

    unknown: str = ""
    words: str = ""
    over_control: Interval | None = None
    over_single: Interval | None = None
    single: str = ""
    supported: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)
    leaves: tuple[LeafAnswer, ...] = ()
    rule: dict[str, Any] = field(default_factory=dict)
    case: tuple[str, ...] = ()


# ----------------------------------------------------------------------
# Fit the tree to all waves but the last, and judge it on the last.


#: The most features that are searched: those by which the actions differ most.
MOST_FEATURES = 50
ONE_WAVE = "A tree needs two closed waves: the last one judges what the others suggest."
NO_ROWS = "A tree needs the rows, which are kept elsewhere."
NO_OUTCOMES = "No action that is still given has an outcome in the waves before the last."


def fitted(asking: "Asking", summaries: Sequence[WaveSummary]) -> GreedyRule:
    """Return the fit behind every rule by features, to the outcomes of some waves."""
    return GreedyRule.fitted(
        statistics_by_wave(summaries),
        charges=np.array(asking.data.charges),
        among=asking.data.given,
        less=asking.less,
    )


@dataclass(frozen=True, eq=False)
class FittedTree:
    """A tree fitted to all waves but the last: in the model's columns, in the file's, as a rule."""

    tree: DecisionTree
    own: OwnTree
    exported: ExportedRule


def fit_tree(asking: "Asking") -> FittedTree | str:
    """Return the tree by all waves but the last, or why there is none."""
    data = asking.data
    if not isinstance(data, Logged):
        return NO_ROWS
    if len(asking.summaries) < 2:
        return ONE_WAVE
    fit = fitted(asking, asking.summaries[:-1])
    if not fit.known.any():
        return NO_OUTCOMES
    every = dividers(data.now.encoder(), data.columns)
    known = widest(every, fit.coefficients[fit.known], MOST_FEATURES)
    cuts = Neat(data.columns)
    bins = bins_of(data.each_wave[0], [one.feature for one in known], cuts)
    tree = distil(data.each_wave[:-1], fit.coefficients, bins, among=fit.known, less=asking.less)
    names = [
        name if given else None
        for name, given in zip(asking.names, asking.data.given.tolist(), strict=True)
    ]
    own = own_tree(tree, known, cuts, names)
    return FittedTree(tree, own, exported_rule(asking, own))


def fit_linear(asking: "Asking") -> ExportedRule | str:
    """Return the linear rule by all waves, or why there is none."""
    fit, columns = fitted(asking, asking.summaries), asking.data.columns
    if not fit.known.any():
        return "No action that is still given has an outcome."
    coefficients = {
        name: asking.scale * own
        for name, own, known in zip(asking.names, fit.coefficients, fit.known, strict=True)
        if known
    }
    width = asking.data.now.encoder().own
    return exported_rule(asking, LinearScores.of(coefficients, columns, width, less=asking.less))


def exported_rule(asking: "Asking", body: LinearScores | OwnTree) -> ExportedRule:
    """Return a rule with all that is needed to apply it to other units."""
    now = asking.data.now
    active = [now.actions[number].name for number in now.active]
    return ExportedRule(
        campaign=now.name,
        event=now.sequence,
        unit=now.spec.unit,
        actions=ordered(active, [name for name in asking.names if name in active]),
        encoder=now.encoder(),
        body=body,
    )


def tree_answer(asking: "Asking") -> TreeAnswer:
    """Return the tree and what the last wave says about it."""
    made, data = fit_tree(asking), asking.data
    if isinstance(made, str) or not isinstance(data, Logged):
        return TreeAnswer(unknown=str(made))
    judged = judge_tree(
        made.tree,
        data.each_wave[-1],
        asking.summaries,
        level=asking.level,
        design=asking.waves[-1].design,
    )
    control, single = asking.names[0], asking.names[made.tree.whole.action]
    body = made.own
    paths = [path for path, _ in body.paths]
    return TreeAnswer(
        words=body.words(unit_word(asking.data.now.spec.unit), control),
        over_control=asking.named(
            judged.over_control, f"gain of the tree over {control} for all units"
        ),
        over_single=asking.named(
            judged.over_single, f"gain of the tree over {single} for all units"
        ),
        single=single,
        supported=judged.supported,
        shares=dict(zip(asking.names, judged.shares, strict=True)),
        leaves=tuple(
            _leaf(asking, path_words(path), one)
            for path, one in zip(paths, judged.leaves, strict=True)
        ),
        rule=body.plain(),
        case=tuple(case_of(made.exported, DuckDB())),
    )


def _leaf(asking: "Asking", who: str, one: LeafFinding) -> LeafAnswer:
    return LeafAnswer(
        who=who,
        action=asking.names[one.action],
        share=one.share,
        lift=asking.named(one.interval, asking.lift_name(one.action)),
        adjusted_p=one.adjusted_p,
        among=one.among,
    )


# ----------------------------------------------------------------------
# The tree in words and tables.


def tree_sentences(found: "Findings") -> list[str]:
    """Return who gets what by the tree, and whether it is worth it."""
    tree = found.tree
    if tree is None:
        return []
    if tree.unknown:
        return [f"There is no tree. {tree.unknown}"]
    noun = found.measure.of
    if len(tree.leaves) == 1:
        return [
            f"A rule by features is not worth it: by the waves before the last, {tree.single} is "
            f"the best action for every kind of {noun}."
        ]
    said = f"In short, by all waves but the last: {tree.words}."
    return [said, *_judged(found, tree), *_guarded(found, tree)]


def _judged(found: "Findings", tree: TreeAnswer) -> list[str]:
    """Say what the last wave says about the tree."""
    control, single = tree.over_control, tree.over_single
    assert control is not None
    assert single is not None
    measure, noun = found.measure, found.measure.of
    said = []
    if tree.single != found.control:
        told = control.note
        if control.known:
            told = f"it brought {_gain(found, control, found.control)}."
        said.append(f"In the last wave alone, which it had not seen: {told}")
    if not single.known:
        return [
            *said,
            f"Whether it beats {tree.single} for every {noun} is not known. {single.note} Until it "
            "is, a rule by features is not worth it.",
        ]
    if measure.better(single.low) and measure.better(single.high):
        return [
            *said,
            f"It is worth it: in the last wave it brought {_gain(found, single, tree.single)}.",
        ]
    return [
        *said,
        f"A rule by features is not worth it here: the best single action, {tree.single}, is as "
        "good as far as the last wave shows. The tree brought "
        f"{_gain(found, single, tree.single)}.",
    ]


def _gain(found: "Findings", gain: Interval, beside: str) -> str:
    measure = found.measure
    amount = measure.amount(gain.estimate, gain.error)
    return f"{amount} than {beside} for every {measure.of} ({measure.between(gain)})"


def _guarded(found: "Findings", tree: TreeAnswer) -> list[str]:
    """Warn if the tree gives actions that break a guardrail."""
    given = dict.fromkeys(leaf.action for leaf in tree.leaves)
    if broken := [name for name in given if name in found.barred]:
        return [f"Do not run it yet: {' and '.join(broken)} breaks a guardrail."]
    return []


def tree_tables(found: "Findings") -> list[Table]:
    """Return the leaves, and the tree as SQL; none without a tree of several leaves."""
    tree = found.tree
    if tree is None or len(tree.leaves) < 2:
        return []
    measure = found.measure
    rows = [
        [one.who, one.action, f"{one.share:.1%}", *measure.cells(one.lift),
         _p(one.adjusted_p), one.lift.note]
        for one in tree.leaves
    ]  # fmt: skip
    columns: tuple[str, ...] = (
        f"{measure.of}s with", "action", "share", measure.column, f"{percent(found.level)} from",
        "to", "p (Holm)", "note",
    )  # fmt: skip
    if any(one.among < 1 for one in tree.leaves):
        columns = (*columns, "who may get both")
        shares = [percent(round(one.among, 3)) for one in tree.leaves]
        rows = [[*row, share] for row, share in zip(rows, shares, strict=True)]
    title = f"The tree's leaves in the last wave: lifts over {found.control}"
    words = (columns[0], "action", "note")
    return [
        Table(title, columns, rows, words=words, keys=1),
        Table("The tree as SQL", ("SQL",), [[line] for line in tree.case], words=("SQL",)),
    ]


def _p(p: float) -> str:
    return "" if p != p else "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
