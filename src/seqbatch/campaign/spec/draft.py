"""Draft a spec from a file of units: the role that each column gets."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from seqbatch.campaign.files.column_name import question, unlikely_id
from seqbatch.campaign.files.doubts import NAMED_TOTALS, Summed, doubt, ending_in_sums
from seqbatch.campaign.files.profile import (
    CHECK,
    NAMELESS,
    NOTHING,
    ColumnProfile,
    Habits,
    OddRows,
    cell,
    chosen_date,
    chosen_number,
    habits_of,
    misfits,
    no_ids,
    profile_of,
    repeated,
    unit_columns,
)
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.choices import Choices
from seqbatch.campaign.spec.column_proposal import (
    FEATURES,
    ColumnProposal,
    LeftOut,
    left_out,
    proposed,
    proposed_as,
    proposed_feature,
)
from seqbatch.campaign.spec.consent import channels_of, together
from seqbatch.campaign.spec.eligibility import Kind
from seqbatch.campaign.spec.feature_limit import limited, model_columns
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Draft all columns of a file together: ids, features, and columns to leave out.


#: The model's constant.
INTERCEPT = "intercept"
#: The reasons for leaving columns out, in words that may precede the columns' names.
REASONS: dict[LeftOut, str] = {
    "personal": "names, salutations, addresses and free remarks",
    "ids": "ids, or nearly a different value in every row",
    "row-number": "row numbers",
    "text": "free text",
    "repeats": "repeat another column",
    "one-value": "the same value in every row, or nearly",
    "no-values": "no values",
    "rare": "no value is frequent enough",
    "formats": "values in several formats; correct them to use the column",
    "unreadable": "values of a type that cannot be a feature",
    "unnamed": "no usable name",
    "consent": "speak of consent, but not with yes or no; check them",
    "reward": "the reward",
    "requested": "as requested",
    "not-chosen": "not among the columns that you chose",
    "limit": "beyond the largest number of features; kept were the columns in which rows differ "
    "most that agree in another kept column, for each feature that they add",
}


@dataclass(frozen=True)
class Draft:
    """The draft of a spec for a file of units.

    Parameters
    ----------
    origin
        The file's name.
    rows
        The number of units.
    unit
        The column, or the two columns, that identify units.
    columns
        The role of each column, in the order of the file.
    eligible
        The eligibility rules that columns of consent propose, by action.
    decimal_comma
        Whether the file's decimal mark is a comma, which then may hold for outcomes too.
    reading
        The options with which the file was read.
    """

    origin: str
    rows: int
    unit: tuple[str, ...]
    columns: tuple[ColumnProposal, ...]
    eligible: Mapping[str, str] = field(default_factory=dict)
    decimal_comma: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_dates(self) -> bool:
        """Whether a feature is a date, which requires the campaign's start."""
        return any("date" in (column.became, column.among) for column in self.columns)

    @property
    def beside(self) -> dict[str, Kind]:
        """The columns that rules read, each with the type of its values."""
        return {
            each.column: each.kind
            for each in self.columns
            if each.became == "eligibility" and each.kind is not None
        }

    def left_out(self) -> dict[str, list[str]]:
        """Return the columns that are left out, by the reason in words."""
        found: dict[str, list[str]] = defaultdict(list)
        for code, reason in REASONS.items():
            for each in self.columns:
                if each.became == "left out" and each.code == code:
                    found[reason].append(each.column)
        return dict(found)


def draft_of(opened: Source, choices: Choices, *, today: date) -> Draft:
    """Profile a file of units, and propose a role for each column.

    Parameters
    ----------
    opened
        The file.
    choices
        What you already know about the campaign: its reward is not a feature, its actions may need
        consent, and some columns may have the role that you say.
    today
        The day that dates are compared with.
    """
    found, kinds, unit = profile_of(opened, choices.unit or ()), choices.kinds, choices.unit
    columns, unit = found.columns, unit or found.ids or None
    named = {"unit": unit or (), "features": kinds, "columns": choices.columns or ()}
    require_there(opened, columns, named)
    habits = habits_of(columns, semicolons=opened.has_semicolons)
    sums = _ending_in_sums(columns, habits)
    if problems := sorted([*opened.ragged, *misfits(opened, found, sums)]):
        raise opened.invalid(problems, NOTHING)
    dates = {column.name for column in columns if column.dates}
    known = [column for column in columns if column.name != choices.metric]
    units = (
        unit_columns(known, _numbers(columns, habits), dates)
        if unit is None
        else [column for column in columns if column.name in unit]
    )
    if not units:
        raise opened.invalid(no_ids(opened, columns), NOTHING)
    own = tuple(column.name for column in units) if unit is None else tuple(unit)
    summed = [name for name in sums if name not in own]
    doubted = _doubted_subtotals(opened, found.odd) or _doubted_totals(opened, units[0], summed)
    first = [
        _unit(column.name, own, said=unit is not None, doubted=doubted)
        if column in units
        else proposed_as(kinds[column.name], column, habits, today=today)
        if column.name in kinds
        else _by_values(column, habits, choices, today)
        for column in columns
    ]
    said, measures = {*kinds, *(choices.columns or ())}, _measures(columns, habits)
    made = _without_repeats(columns, first, measures, said=said)
    made = [each if each.column in said else _asking(each) for each in made]
    made = _without_clashes(made)
    if (most := choices.limit) is not None:
        by_name = {column.name: column for column in columns}
        because = "" if choices.max_features else ", the most for a plan of so many units"
        made = limited(made, by_name, measures, most, because=because, said=kinds)
    made = [_addressed(each, choices) for each in made]
    if opened.has_index:
        made.insert(0, left_out("(no name)", "unnamed", NAMELESS))
    return Draft(
        opened.name,
        columns[0].rows,
        own,
        tuple(made),
        eligible=_eligible(made, choices),
        decimal_comma=bool(habits.decimal_comma),
        reading=opened.options,
    )


def _addressed(proposal: ColumnProposal, choices: Choices) -> ColumnProposal:
    """Say which actions a rule is about; ask if none of their names tells."""
    if proposal.became != "eligibility":
        return proposal
    assert proposal.consent is not None
    actions, control = _actions_of(proposal, choices), str(choices.controlled)
    if not actions:
        return proposal.asked(
            f"says whether a unit may be contacted by {proposal.consent.about}, but no action's "
            "name says so: which action is such a contact?"
        )
    why = f"{proposal.why} from {', '.join(actions)}"
    if channels_of(control):
        why += (
            f"; {CHECK} every unit may get {control}, the control: if that is a contact too, leave "
            "units without consent out of the file"
        )
    return replace(proposal, why=why)


def _actions_of(proposal: ColumnProposal, choices: Choices) -> list[str]:
    """Return the actions that a rule is about; never the control."""
    assert proposal.consent is not None
    others = [action for action in choices.actions if action != choices.controlled]
    chosen = proposal.column in choices.kinds
    return [action for action in others if chosen or proposal.consent.matches(action)]


def _eligible(made: Sequence[ColumnProposal], choices: Choices) -> dict[str, str]:
    """Return the rule of each action: your own, and those of columns of consent."""
    rules: dict[str, list[str]] = defaultdict(list)
    for each in made:
        if each.became == "eligibility":
            for action in _actions_of(each, choices):
                rules[action].append(each.rule)
    for action, rule in choices.eligible.items():
        rules[action].append(f"({rule})" if rules[action] else rule)
    return {action: together(rules[action]) for action in choices.actions if action in rules}


def require_there(
    opened: Source, columns: Sequence[ColumnProfile], said: Mapping[str, Iterable[str]]
) -> None:
    """Refuse choices about columns that the file does not have."""
    known = [column.name for column in columns]
    for what, names_said in said.items():
        if unknown := [name for name in names_said if name not in known]:
            rule = f"columns of {opened.name} ({', '.join(known[:50])})"
            raise InvalidArgumentError(what, rule, ", ".join(unknown))


def _unit(name: str, units: tuple[str, ...], *, said: bool, doubted: str) -> ColumnProposal:
    why = "identifies units"
    if len(units) > 1:
        why += f" together with {', '.join(other for other in units if other != name)}"
    elif not said:
        why += ": a different value in every row"
        if unlikely_id(name) == 2:
            why += f"; {CHECK} its name does not suggest ids"
    return ColumnProposal(name, "unit", why=f"{why}; {CHECK} {doubted}" if doubted else why)


def _ending_in_sums(columns: Sequence[ColumnProfile], habits: Habits) -> tuple[str, ...]:
    """Return the columns whose last number is the sum of all the others."""
    numbers = _numbers(columns, habits)
    return ending_in_sums(
        {
            column.name: Summed.of(np.append(numbers[column.name], np.nan)[column.codes])
            for column in columns
            if column.numbers
        }
    )


def _doubted_totals(opened: Source, unit: ColumnProfile, sums: Sequence[str]) -> str:
    """Return what to check about a last row that may hold totals, or ""."""
    [line] = opened.lines(np.array([unit.rows], dtype=np.int64)).tolist()
    return doubt(cell(unit, unit.rows - 1), f"{opened.place} {line:,}", sums)


def _doubted_subtotals(opened: Source, odd: OddRows) -> str:
    """Return what to check about the first rows that may hold totals, or ""."""
    found = opened.placed(odd.doubts()[:NAMED_TOTALS])
    return "; ".join(f"{opened.place} {each.row:,} {each.reason}" for each in found)


def _by_values(
    column: ColumnProfile, habits: Habits, choices: Choices, today: date
) -> ColumnProposal:
    """Propose a role for a column that you said nothing about, or that you chose as a feature."""
    if column.name == choices.metric:
        why = "the reward, which is not known when units are assigned"
        return left_out(column.name, "reward", why)
    made = proposed(column, habits, today=today)
    if choices.columns is None or made.consent is not None:
        return made
    if column.name in choices.columns:
        return proposed_feature(column, habits, today=today)
    if made.became == "left out":
        return made
    return left_out(column.name, "not-chosen", "not among the chosen columns")


def _asking(proposal: ColumnProposal) -> ColumnProposal:
    """Turn a feature that may be an outcome or a treatment into a question."""
    ask = question(proposal.column)
    return proposal.asked(ask) if ask and proposal.became in FEATURES else proposal


def _without_repeats(
    columns: Sequence[ColumnProfile],
    made: list[ColumnProposal],
    measures: dict[str, Floats],
    *,
    said: Container[str],
) -> list[ColumnProposal]:
    """Leave out columns that duplicate an earlier one."""
    became = {proposal.column: proposal.became for proposal in made}
    kept = [column for column in columns if became[column.name] in ("unit", *FEATURES)]
    measured = {n: own for n, own in measures.items() if became[n] in ("numeric", "date")}
    twins = repeated(sorted(kept, key=lambda column: became[column.name] != "unit"), measured)
    return [
        left_out(each.column, "repeats", f"{twins[each.column][1]} {twins[each.column][0]}")
        if each.column in twins and each.became != "unit" and each.column not in said
        else each
        for each in made
    ]


def _without_clashes(made: Sequence[ColumnProposal]) -> list[ColumnProposal]:
    """Leave out columns whose names in the model another column already has."""
    taken, kept = {INTERCEPT}, list[ColumnProposal]()
    for each in made:
        own = model_columns(each) if each.became in FEATURES else ()
        if clash := sorted(taken.intersection(own)):
            why = f"the model has a column called {clash[0]} already; rename this one to use it"
            kept.append(left_out(each.column, "unnamed", why))
            continue
        taken |= set(own)
        kept.append(each)
    return kept


def _numbers(columns: Sequence[ColumnProfile], habits: Habits) -> dict[str, Floats]:
    return {c.name: chosen_number(c, habits)[0].numbers for c in columns if c.numbers}


def _measures(columns: Sequence[ColumnProfile], habits: Habits) -> dict[str, Floats]:
    """Return the distinct values of numeric and date columns, as numbers."""
    days = {
        column.name: chosen_date(column, habits)[0].days(column.values)
        for column in columns
        if column.dates
    }
    return _numbers(columns, habits) | days
