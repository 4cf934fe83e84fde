"""Draft a spec from a file of units: the role that `init` proposes for each column."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.boolean import read_booleans
from seqbatch.campaign.files import profile
from seqbatch.campaign.files.date_format import share_of_dates
from seqbatch.campaign.files.doubts import (
    NAMED_TOTALS,
    Summed,
    doubt,
    ending_in_sums,
    several_spellings,
)
from seqbatch.campaign.files.number_format import (
    PLAIN,
    currencies,
    in_words,
    is_amount,
    no_numbers,
)
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
    is_code,
    misfits,
    no_ids,
    numbers_rows,
    profile_of,
    repeated,
    unit_columns,
    unlikely_id,
)
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.spec import fresh_seed
from seqbatch.campaign.spec.toml import check_spec, quoted, value
from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.display import counted, number
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Propose a role for each column: a feature, a question, or left out, with the reason.


Became = Literal["unit", "numeric", "date", "boolean", "categorical", "question", "left out"]

#: A category gets an indicator for each of at most this many levels, ...
MOST_LEVELS = 50
#: ... if they cover this share of its units; otherwise its levels are hashed into `CELLS` cells.
COVERED, CELLS = 0.8, 16
#: With at most this many distinct values a column describes units, even if most rows differ.
FEW = 10
#: Text with a longer average length is not a category, and a longer text is not a level.
LONG, LONGEST = 40, 200
#: A level with fewer units than this counts as `other`, in files of some thousand units.
LEAST = 20
#: Numbers have a long tail if the largest is this many times the median.
TAIL = 50
#: If this share of values fits a format, the others are mistakes.
MOSTLY = 0.8
#: A column with more distinct values than this is not checked for yes and no.
MOST_SPELLINGS = 8


@dataclass(frozen=True)
class ColumnProposal:
    """The proposed role of a column.

    Parameters
    ----------
    column
        The column's name.
    became
        The spec's table for this feature, or the column's role if it is not a feature.
    setting
        The value of its setting, as TOML; "" if it has none.
    why
        The reason, as a comment.
    among
        For a question: the table that would hold the feature.
    """

    column: str
    became: Became
    setting: str = ""
    why: str = ""
    among: str = ""

    @property
    def asks(self) -> bool:
        """Whether you should review it before creating the campaign."""
        return self.became == "question" or CHECK in self.why

    def asked(self, question: str) -> "ColumnProposal":
        """Return the same feature as a question."""
        return replace(self, became="question", why=question, among=self.became)


def proposed(column: ColumnProfile, habits: Habits, *, today: date) -> ColumnProposal:
    """Propose a role for a column from its values, and from whether its dates are in the future."""
    if why := _useless(column):
        return ColumnProposal(column.name, "left out", why=why)
    if _is_boolean(column):
        return _boolean(column)
    if column.dates:
        return _date(column, habits, today)
    if column.numbers and not (
        is_code(column.name) and _is_whole(column) and not _is_float(column)
    ):
        return _numeric(column, habits)
    if why := _mixed(column) or _wordy(column):
        return ColumnProposal(column.name, "left out", why=why)
    if _is_float(column):
        return ColumnProposal(column.name, "left out", why="has numbers that are not finite")
    return _categorical(column)


def proposed_as(
    kind: Became, column: ColumnProfile, habits: Habits, *, today: date
) -> ColumnProposal:
    """Return the role of a column that you declared to be of a kind, or say why it cannot be."""
    if kind == "left out":
        return ColumnProposal(column.name, kind, why="as requested")
    if kind == "numeric" and column.numbers:
        made = _numeric(column, habits)
    elif kind == "date" and column.dates:
        made = _date(column, habits, today)
    elif kind == "boolean" and _is_boolean(column):
        made = _boolean(column)
    elif kind == "categorical" and column.readable and column.distinct:
        made = _categorical(column)
    else:
        rule = f"a column that can be read as {kind}"
        values = f"values such as {_some(column)}" if column.distinct else "no values"
        raise InvalidArgumentError(f"features.{column.name}", rule, values)
    if made.became == "left out":
        rule = "left out, or another column"
        raise InvalidArgumentError(f"features.{column.name}", rule, f"one that {made.why}")
    return made


def _useless(column: ColumnProfile) -> str:
    """Return why a column cannot be a useful feature, or "" if it may be one."""
    if not 0 < len(column.name) <= 200:
        return "a name must have 1 to 200 characters; rename the column to use it"
    if not column.readable:
        return f"values of type {column.kind} cannot be features"
    if not column.distinct:
        return "has no values"
    if column.distinct == 1 and not column.missing:
        return f"has the same value in every row: {_short(column.example)}"
    return ""


def _is_boolean(column: ColumnProfile) -> bool:
    """Return whether every value means yes or no, and both occur."""
    if column.distinct > MOST_SPELLINGS or pa.types.is_temporal(column.values.type):
        return False
    values, wrong = read_booleans(column.values).values_and_wrong()
    return not wrong and len(set(values.tolist())) == 2


def _boolean(column: ColumnProfile) -> ColumnProposal:
    text, share = column.example, column.counts.max() / column.present
    why = f"yes or no, {_short(text)} in {share:.0%} of rows"
    if not column.missing:
        return ColumnProposal(column.name, "boolean", '"refuse"', why)
    return ColumnProposal(column.name, "boolean", '"level"', f"{why}; {_missing(column)} a level")


def _date(column: ColumnProfile, habits: Habits, today: date) -> ColumnProposal:
    way, remark = chosen_date(column, habits)
    days = way.days(column.values)
    if days.min() == days.max():
        return ColumnProposal(column.name, "left out", why="has only one date, and missing values")
    first, last = (date(1970, 1, 1) + timedelta(int(day)) for day in (days.min(), days.max()))
    settings: dict[str, Any] = {"format": way.format, "parts": ["days"]}
    why = [f"{first} to {last}"]
    if "%y" in way.format:
        why.append("years 69 to 99 are read as 1969 to 1999, 00 to 68 as 2000 to 2068")
    if column.missing:
        settings["missing"] = "median"
        why.append(f"{_missing(column)} the median")
    late = int(column.counts[days > (today - date(1970, 1, 1)).days].sum())
    future = f"{CHECK} {counted(late, 'date')} after {today}" if late else ""
    return ColumnProposal(column.name, "date", value(settings), _joined(*why, remark, future))


def _extent(low: float, high: float) -> str:
    """Format a column's smallest and largest number; years get no thousands separators.

    >>> _extent(1893.0, 2005.0), _extent(0.0, 2005.0)
    ('1893 to 2005', '0 to 2,005')
    """
    if 1500 <= low <= high <= 2200 and low.is_integer() and high.is_integer():
        return f"{low:.0f} to {high:.0f}"
    return f"{number(low)} to {number(high)}"


def _numeric(column: ColumnProfile, habits: Habits) -> ColumnProposal:
    way, remark = chosen_number(column, habits)
    low, high = float(way.numbers.min()), float(way.numbers.max())
    if numbers_rows(way.numbers, column.codes):
        return ColumnProposal(column.name, "left out", why="is a row number")
    if low == high:
        return ColumnProposal(
            column.name, "left out", why="has only one number, and missing values"
        )
    if unlikely_id(column.name) == 0 and _is_whole(column) and (why := _like_an_id(column)):
        return ColumnProposal(column.name, "left out", why=why)
    settings: dict[str, Any] = {"scale": "learn"}
    said = [_extent(low, high), in_words(way.example)]
    if column.missing:
        settings["missing"] = "median"
        said.append(f"{_missing(column)} the median")
    if way.example or remark:
        # An ambiguous column is refused unless the spec declares its format.
        settings["format"] = way.example or PLAIN
    said.append(_tail(way.numbers, column))
    text = '"learn"' if len(settings) == 1 else value(settings)
    return ColumnProposal(column.name, "numeric", text, _joined(*said, remark))


def _tail(numbers: Floats, column: ColumnProfile) -> str:
    """Return a remark about a long tail of positive numbers."""
    order = np.argsort(numbers)
    reached = np.cumsum(column.counts[order])
    median = float(numbers[order[int(np.searchsorted(reached, column.present / 2))]])
    if median <= 0 or numbers.min() < 0 or numbers.max() < TAIL * median:
        return ""
    return (
        f"long tail: the largest is {number(numbers.max() / median, 2)} times the median; the "
        "default clip limits it, but a logarithm may be better"
    )


def _mixed(column: ColumnProfile) -> str:
    """Return the problem of a text column that holds mostly numbers or dates."""
    if not column.is_text or column.numbers or is_code(column.name) or column.distinct < 3:
        return ""
    if share_of_dates(column.texts) > MOSTLY:
        return f"dates in more than one format, such as {_some(column)}; convert them to one format"
    several = currencies(column.texts)
    if len(several) > 1 and all(is_amount(text) for text in several):
        return f"amounts in {', '.join(several)}; convert them to one currency or unit"
    share, odd = no_numbers(column.texts) if not column.has_leading_zeros else (1.0, [])
    if share < 1 - MOSTLY:
        some = ", ".join(_short(text) for text in odd)
        return f"numbers, except for cells such as {some}; correct those cells to use the column"
    return ""


def _wordy(column: ColumnProfile) -> str:
    """Return why values are not a category: they are unique to each unit, or prose."""
    lengths = pc.utf8_length(column.texts).to_numpy(zero_copy_only=False)
    if float(np.average(lengths, weights=column.counts)) > LONG or lengths.max() > LONGEST:
        return "free text"
    return _like_an_id(column)


def _like_an_id(column: ColumnProfile) -> str:
    """Return why a column identifies units rather than describing them, or ""."""
    if column.distinct == column.present and column.present > 2:
        return "like an id: a different value in every row"
    if column.distinct > max(FEW, column.present / 2):
        return f"like an id: {column.distinct:,} values in {counted(column.present, 'row')}"
    return ""


def _categorical(column: ColumnProfile) -> ColumnProposal:
    least = min(LEAST, column.rows // 200)
    order = column.by_count[:MOST_LEVELS]
    order = order[column.counts[order] >= least]
    covered = int(column.counts[order].sum())
    if column.distinct > MOST_LEVELS and covered < COVERED * column.present:
        many = f"{column.distinct:,} values, too many for indicators: hashed into {CELLS} cells"
        rules: dict[str, Any] = {"hash": CELLS} | ({"missing": "level"} if column.empty else {})
        return ColumnProposal(column.name, "categorical", value(rules), many)
    counts = {str(column.values[place].as_py()): int(column.counts[place]) for place in order}
    # A word that often marks a missing value is a level like any other if it is frequent enough.
    words = {text: count for text, count in column.words.items() if count >= least}
    levels = sorted(counts | words, key=(counts | words).__getitem__, reverse=True)
    settings: dict[str, Any] = {"levels": levels}
    if least > 1:
        settings["least"] = least
    settings["other"] = True
    there = column.distinct + len(column.words)
    why = [f"{counted(there, 'level')}, the most frequent first"]
    if words:
        why.append(f"kept as a level: {', '.join(map(_short, words))}")
    if there > len(levels):
        rarer = column.rows - column.empty - covered - sum(words.values())
        why.append(f"rarer levels ({counted(rarer, 'row')}) count as other")
    if column.empty:
        settings["missing"] = "level"
        why.append(f"{_missing(column)} a separate level")
    if spelled := several_spellings(map(str, column.values.take(column.by_count).to_pylist())):
        why.append(f"{CHECK} {spelled}; use one spelling in the file")
    return ColumnProposal(column.name, "categorical", value(settings), _joined(*why))


def _is_whole(column: ColumnProfile) -> bool:
    own = column.numbers[0].numbers
    return not column.numbers[0].example and bool((own == np.round(own)).all())


def _is_float(column: ColumnProfile) -> bool:
    return bool(pa.types.is_floating(column.values.type))


def _missing(column: ColumnProfile) -> str:
    return f"missing values ({column.missing / column.rows:.1%}) get"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _short(text: str) -> str:
    return quoted(text[:40] + ("..." if len(text) > 40 else ""))


def _some(column: ColumnProfile) -> str:
    """Return some values that differ in shape."""
    shapes: dict[str, str] = {}
    for text in column.texts[:2000].to_pylist():
        shape = "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in text)
        shapes.setdefault(shape, text)
    return ", ".join(_short(text) for text in list(shapes.values())[:3])


# ----------------------------------------------------------------------
# Choices about a campaign that are made before it has a spec.


NAME, ACTIONS, REWARD = "my-campaign", ("nothing", "offer A", "offer B"), "outcome"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Choices about a campaign that are made before it has a spec.

    Parameters
    ----------
    name, actions, control, reward
        As in a spec; `control` defaults to the first action.
    seed
        As in a spec; by default a fresh, unpredictable one.
    costs
        The cost of each action that has one.
    direction, range, kind, unit_of_measure, absent
        Of the metric that the campaign is about, as in a spec.
    value, less_costs, currency
        What one unit of it is worth, and whether costs are subtracted, as in a spec.
    randomised, floor, required_outcomes
        As in a spec; by default the floor depends on the number of actions.
    waves
        The number of waves; by default 3, or the number that the plan recommends.
    sizes
        The waves' sizes; overrides `units_in_all` and `plan`.
    units_in_all
        The expected number of units; by default the rows of the file.
    plan
        Whether the planner chooses the sizes; otherwise the waves have equal sizes.
    unit, kinds
        The columns that identify units, and the roles of other columns where they should differ
        from the proposed ones.
    today
        The campaign's start, needed if a feature is a date.
    """

    name: str = NAME
    seed: int = field(default_factory=fresh_seed)
    actions: Sequence[str] = ACTIONS
    control: str | None = None
    reward: str = REWARD
    costs: Mapping[str, float] = field(default_factory=dict)
    direction: str = "max"
    range: tuple[float, float] | None = None
    kind: str = "amount"
    unit_of_measure: str | None = None
    absent: float | None = None
    value: float | None = None
    less_costs: bool | None = None
    currency: str | None = None
    randomised: float = 0.1
    floor: float | None = None
    required_outcomes: float = 0.9
    waves: int | None = None
    sizes: Sequence[int] | None = None
    units_in_all: int | None = None
    plan: bool = False
    unit: Sequence[str] | None = None
    kinds: Mapping[str, Became] = field(default_factory=dict)
    today: date | None = None

    def check(self) -> None:
        """Raise the errors that a spec would raise for these choices, before reading a file."""
        for name, given in (("waves", self.waves), ("units", self.units_in_all)):
            if given is not None:
                arguments.integer(name, given, at_least=1)
        check_spec(
            {
                "name": self.name, "seed": self.seed, "actions": self.declared,
                "control": self.controlled, "randomised": self.randomised, "floor": self.least,
                "required_outcomes": self.required_outcomes,
                **self.about,
                "grid": {"sizes": list(self.sizes or [1] * (self.waves or 1))},
            },
            name="the spec to be written",
        )  # fmt: skip

    @property
    def about(self) -> dict[str, Any]:
        """The metric and the objective, as in a spec."""
        metric = {
            "kind": self.kind, "unit": self.unit_of_measure, "range": self.range,
            "absent": self.absent,
        }  # fmt: skip
        verb = "maximise" if self.direction == "max" else "minimise"
        objective = {verb: self.reward, "value": self.value, "less_costs": self.less_costs}
        made = {"metrics": {self.reward: _given(metric)}, "objective": _given(objective)}
        return made if self.currency is None else {"currency": self.currency, **made}

    @property
    def controlled(self) -> str | None:
        """The action that the others are compared with."""
        return self.control or next(iter(self.actions), None)

    @property
    def declared(self) -> list[Any]:
        """The actions as in a spec: by name, with a cost if they have one."""
        return [
            {"name": name, "cost": cost} if (cost := self.costs.get(name)) else name
            for name in self.actions
        ]

    @property
    def least(self) -> float:
        """The least probability of each action."""
        return min(0.01, 0.5 / max(len(self.actions), 1)) if self.floor is None else self.floor


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the settings that have a value."""
    return {name: value for name, value in settings.items() if value is not None}


# ----------------------------------------------------------------------
# Draft all columns of a file together: ids, features, and columns to leave out.


#: The tables of features in a spec.
FEATURES = ("numeric", "date", "boolean", "categorical")


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
    decimal_comma
        Whether the file's decimal mark is a comma, which then may hold for outcomes too.
    """

    origin: str
    rows: int
    unit: tuple[str, ...]
    columns: tuple[ColumnProposal, ...]
    decimal_comma: bool = False

    @property
    def has_dates(self) -> bool:
        """Whether a feature is a date, which requires the campaign's start."""
        return any("date" in (column.became, column.among) for column in self.columns)


def draft_of(
    opened: Source,
    *,
    reward: str,
    today: date,
    unit: Sequence[str] | None = None,
    kinds: Mapping[str, Became] | None = None,
) -> Draft:
    """Profile a file of units, and propose a role for each column.

    Parameters
    ----------
    opened
        The file.
    reward
        The column of outcomes, which is not a feature.
    today
        The day that dates are compared with.
    unit, kinds
        Your choices: the columns that identify units, and the roles of other columns.
    """
    found, kinds = profile_of(opened, unit or ()), kinds or {}
    columns, unit = found.columns, unit or found.ids or None
    require_there(opened, columns, {"unit": unit or (), "features": kinds})
    habits = habits_of(columns, semicolons=opened.has_semicolons)
    sums = _ending_in_sums(columns, habits)
    if problems := sorted([*opened.ragged, *misfits(opened, found, sums)]):
        raise opened.invalid(problems, NOTHING)
    dates = {column.name for column in columns if column.dates}
    units = (
        unit_columns(columns, _numbers(columns, habits), dates)
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
        else _by_values(column, habits, reward, today)
        for column in columns
    ]
    made = _without_repeats(columns, first, _measures(columns, habits), said=kinds)
    if opened.has_index:
        made.insert(0, ColumnProposal("(no name)", "left out", why=NAMELESS))
    return Draft(
        opened.name,
        columns[0].rows,
        own,
        tuple(each if each.column in kinds else _asking(each) for each in made),
        decimal_comma=bool(habits.decimal_comma),
    )


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
        if profile.unlikely_id(name) == 2:
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


def _by_values(column: ColumnProfile, habits: Habits, reward: str, today: date) -> ColumnProposal:
    if column.name == reward:
        return ColumnProposal(
            reward, "left out", why="the reward, which is not known when units are assigned"
        )
    return proposed(column, habits, today=today)


def _asking(proposal: ColumnProposal) -> ColumnProposal:
    """Turn a feature that may be an outcome or a treatment into a question."""
    ask = profile.question(proposal.column)
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
        ColumnProposal(
            each.column, "left out", why=f"{twins[each.column][1]} {twins[each.column][0]}"
        )
        if each.column in twins and each.became != "unit" and each.column not in said
        else each
        for each in made
    ]


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
