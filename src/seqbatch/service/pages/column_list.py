"""The columns of a file in groups, for the form of a new campaign."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seqbatch.campaign.spec.column_proposal import FEATURES, ColumnProposal
from seqbatch.campaign.spec.draft import Draft
from seqbatch.service.pages.spec_form import SpecForm

#: Maximum number of columns that are shown; further columns keep the proposed role.
MOST_COLUMNS = 400
#: Name of an unnamed column in a draft; it cannot be chosen.
NAMELESS = "(no name)"
#: Roles in words.
ROLES = {
    "numeric": "number", "date": "date", "boolean": "yes or no", "categorical": "category",
    "eligibility": "rule: who may get an action", "left out": "left out",
}  # fmt: skip
#: Columns that are left out for these reasons cannot be used in any role.
USELESS = ("no-values", "one-value", "unreadable", "unnamed", "reward")
#: Columns that are left out for these reasons could be features.
POSSIBLE = ("personal", "repeats", "limit", "rare", "not-chosen")


@dataclass(frozen=True)
class ListedColumn:
    """A column with its role.

    Parameters
    ----------
    proposal
        The proposed role.
    ticked
        Whether it is used.
    tick
        The value of its box; "" if it cannot be used.
    role
        Its role in words.
    options
        The values and names of further roles, and whether each is chosen.
    """

    proposal: ColumnProposal
    ticked: bool
    tick: str
    role: str
    options: Sequence[tuple[str, str, bool]]

    @property
    def rule(self) -> str:
        """The value that says that its rule is proposed; "" if none is."""
        proposed = self.proposal.became == "eligibility"
        return json.dumps([self.proposal.column]) if proposed else ""


@dataclass(frozen=True)
class ColumnGroup:
    """Columns that have something in common."""

    title: str
    columns: Sequence[ListedColumn]

    @property
    def ticked(self) -> int:
        """How many of them are used."""
        return sum(column.ticked for column in self.columns)


def groups_of(draft: Draft, form: SpecForm) -> list[ColumnGroup]:
    """Return the columns that are recommended, possible and left out."""
    shown = _others(draft)[:MOST_COLUMNS]
    groups: dict[str, list[ListedColumn]] = {"Recommended": [], "Possible": [], "Left out": []}
    for each in shown:
        groups[_group(each)].append(_listed(each, form))
    return [ColumnGroup(title, columns) for title, columns in groups.items() if columns]


def beyond(draft: Draft) -> str:
    """Return the names of the proposed columns that are not shown, as a value of a field."""
    return json.dumps([each.column for each in _others(draft)[MOST_COLUMNS:] if _proposed(each)])


def _others(draft: Draft) -> list[ColumnProposal]:
    return [each for each in draft.columns if each.became != "unit" and each.column != NAMELESS]


def _proposed(each: ColumnProposal) -> bool:
    return each.became in (*FEATURES, "eligibility")


def _group(each: ColumnProposal) -> str:
    if _proposed(each):
        return "Recommended"
    possible = each.became == "question" or each.code in POSSIBLE
    return "Possible" if possible else "Left out"


def _listed(each: ColumnProposal, form: SpecForm) -> ListedColumn:
    # A rule needs an action whose name matches, and the actions are known only later.
    asked = "eligibility" if each.became == "question" and each.among == "eligibility" else None
    usual = each.among if each.became == "question" else each.became
    chosen = form.kinds.get(each.column)
    ticked = _proposed(each) if form.columns is None else each.column in form.columns
    if each.became == "eligibility":
        # An action that was added may have made a rule of the column.
        ticked = chosen != "left out"
    known = (*FEATURES, *(("eligibility",) if each.rule else ()))
    options = [
        (json.dumps([each.column, kind]), ROLES[kind], kind == chosen)
        for kind in known
        if kind != usual
    ]
    return ListedColumn(
        each,
        ticked,
        "" if each.code in USELESS else json.dumps([each.column, asked]),
        ROLES.get(usual, "proposed") if usual != "left out" else "proposed",
        options,
    )


def fitting(form: SpecForm, draft: Draft) -> SpecForm:
    """Return a form without what it says about columns of another table: a sheet, for example."""
    names = set(names_of(draft))
    if set(form.unit) <= names:
        return form
    if names.intersection(form.columns or ()):
        return replace(form, unit=())
    return replace(form, unit=(), columns=None, kinds={})


def units_of(draft: Draft, form: SpecForm) -> list[tuple[str, str, bool]]:
    """Return the columns that can identify units: value, label, and whether it is chosen."""
    chosen = form.unit or draft.unit
    options: list[tuple[str, ...]] = [(name,) for name in names_of(draft)]
    if len(chosen) > 1 or len(draft.unit) > 1:
        options.insert(0, chosen if len(chosen) > 1 else draft.unit)
    return [
        (json.dumps(names), " and ".join(names), tuple(names) == tuple(chosen)) for names in options
    ]


def names_of(draft: Draft) -> list[str]:
    """Return the names of the columns that can be chosen."""
    return [each.column for each in draft.columns if each.column != NAMELESS]
