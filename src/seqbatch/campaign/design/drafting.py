"""What becomes of all columns of a file together: the ids, the features, what is left out."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from seqbatch.campaign.design import names
from seqbatch.campaign.design.identifying import repeated, unit_columns
from seqbatch.campaign.design.looking import NOTHING, Column, columns_of
from seqbatch.campaign.design.misfits import cell, doubted_rows, misfits
from seqbatch.campaign.design.no_ids import NAMELESS, no_ids
from seqbatch.campaign.design.proposing import Became, Proposal, proposed, proposed_as
from seqbatch.campaign.design.ways import (
    CHECK,
    Habits,
    Ways,
    chosen_date,
    chosen_number,
    habits_of,
    ways_of,
)
from seqbatch.campaign.tables.reading import Source
from seqbatch.campaign.tables.totals import NAMED, Summed, doubt, ending_in_sums
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

#: The tables of features in a spec.
FEATURES = ("numeric", "date", "boolean", "categorical")


@dataclass(frozen=True)
class Draft:
    """What a file of units becomes in a spec.

    Parameters
    ----------
    origin
        What the file is called.
    rows
        How many units it has.
    unit
        The column that tells them apart, or the two that do together.
    columns
        What becomes of each column, in the order of the file.
    decimal_comma
        Whether a comma parts decimals in the file, and so perhaps in files of outcomes.
    """

    origin: str
    rows: int
    unit: tuple[str, ...]
    columns: tuple[Proposal, ...]
    decimal_comma: bool = False

    @property
    def has_dates(self) -> bool:
        """Whether a feature counts days, and a campaign's start is needed."""
        return any("date" in (column.became, column.among) for column in self.columns)


def draft_of(
    opened: Source,
    *,
    reward: str,
    today: date,
    unit: Sequence[str] | None = None,
    kinds: Mapping[str, Became] | None = None,
) -> Draft:
    """Look at a file of units, and propose what becomes of its columns.

    Parameters
    ----------
    opened
        The file.
    reward
        The column of outcomes, which is no feature.
    today
        What dates are compared with.
    unit, kinds
        What somebody says of columns: which tell units apart, and what others become.
    """
    columns, kinds = columns_of(opened), kinds or {}
    require_there(opened, columns, {"unit": unit or (), "features": kinds})
    every = [ways_of(column) for column in columns]
    parted = opened.file_format == "csv" and opened.dialect.delimiter == ";"
    habits = habits_of(every, semicolons=parted)
    sums = _ending_in_sums(every, habits)
    if problems := sorted([*opened.ragged, *misfits(opened, columns, sums)]):
        raise opened.invalid(problems, NOTHING)
    dates = {ways.column.name for ways in every if ways.dates}
    units = (
        unit_columns(columns, _numbers(every, habits), dates)
        if unit is None
        else [column for column in columns if column.name in unit]
    )
    if not units:
        raise opened.invalid(no_ids(opened, columns), NOTHING)
    own = tuple(column.name for column in units) if unit is None else tuple(unit)
    summed = [name for name in sums if name not in own]
    doubted = _doubted_subtotals(opened, columns) or _doubted_totals(opened, units[0], summed)
    first = [
        _unit(column.name, own, said=unit is not None, doubted=doubted)
        if column in units
        else proposed_as(kinds[column.name], ways, habits, today=today)
        if column.name in kinds
        else _by_values(ways, habits, reward, today)
        for column, ways in zip(columns, every, strict=True)
    ]
    made = _without_repeats(columns, first, _measures(every, habits), said=kinds)
    if opened.has_index:
        made.insert(0, Proposal("(no name)", "left out", why=NAMELESS))
    return Draft(
        opened.name,
        columns[0].rows,
        own,
        tuple(each if each.column in kinds else _asking(each) for each in made),
        decimal_comma=bool(habits.decimal_comma),
    )


def require_there(
    opened: Source, columns: Sequence[Column], said: Mapping[str, Iterable[str]]
) -> None:
    """Refuse what is said of columns that the file does not have."""
    known = [column.name for column in columns]
    for what, names_said in said.items():
        if unknown := [name for name in names_said if name not in known]:
            rule = f"columns of {opened.name} ({', '.join(known[:50])})"
            raise InvalidArgumentError(what, rule, ", ".join(unknown))


def _unit(name: str, units: tuple[str, ...], *, said: bool, doubted: str) -> Proposal:
    why = "tells units apart"
    if len(units) > 1:
        why += f" together with {', '.join(other for other in units if other != name)}"
    elif not said:
        why += ": a different value in every row"
        if names.unlikely_id(name) == 2:
            why += f"; {CHECK} its name does not say that these are ids"
    return Proposal(name, "unit", why=f"{why}; {CHECK} {doubted}" if doubted else why)


def _ending_in_sums(every: list[Ways], habits: Habits) -> tuple[str, ...]:
    """Return the columns whose last number is the sum of all others."""
    numbers = _numbers(every, habits)
    return ending_in_sums(
        {
            ways.column.name: Summed.of(
                np.append(numbers[ways.column.name], np.nan)[ways.column.codes]
            )
            for ways in every
            if ways.numbers
        }
    )


def _doubted_totals(opened: Source, unit: Column, sums: Sequence[str]) -> str:
    """Return what is to be checked of a last row that may hold totals, "" for nothing."""
    [line] = opened.lines(np.array([unit.rows], dtype=np.int64)).tolist()
    return doubt(cell(unit, unit.rows - 1), f"{opened.place} {line:,}", sums)


def _doubted_subtotals(opened: Source, columns: list[Column]) -> str:
    """Return what is to be checked of the first rows that may hold totals, "" for nothing."""
    found = doubted_rows(columns)[:NAMED]
    places = opened.lines(np.array([row + 1 for row, _, _ in found], dtype=np.int64)).tolist()
    return "; ".join(
        f"{opened.place} {line:,} {said}" for line, (_, _, said) in zip(places, found, strict=True)
    )


def _by_values(ways: Ways, habits: Habits, reward: str, today: date) -> Proposal:
    if ways.column.name == reward:
        return Proposal(reward, "left out", why="the reward, which no unit has before its wave")
    return proposed(ways, habits, today=today)


def _asking(proposal: Proposal) -> Proposal:
    """Return a question instead of a feature that may be an outcome or a treatment."""
    ask = names.question(proposal.column)
    return proposal.asked(ask) if ask and proposal.became in FEATURES else proposal


def _without_repeats(
    columns: Sequence[Column],
    made: list[Proposal],
    measures: dict[str, Floats],
    *,
    said: Container[str],
) -> list[Proposal]:
    """Leave out what says the same as an earlier column."""
    became = {proposal.column: proposal.became for proposal in made}
    kept = [column for column in columns if became[column.name] in ("unit", *FEATURES)]
    measured = {n: own for n, own in measures.items() if became[n] in ("numeric", "date")}
    twins = repeated(sorted(kept, key=lambda column: became[column.name] != "unit"), measured)
    return [
        Proposal(each.column, "left out", why=f"{twins[each.column][1]} {twins[each.column][0]}")
        if each.column in twins and each.became != "unit" and each.column not in said
        else each
        for each in made
    ]


def _numbers(every: list[Ways], habits: Habits) -> dict[str, Floats]:
    return {w.column.name: chosen_number(w, habits)[0].numbers for w in every if w.numbers}


def _measures(every: list[Ways], habits: Habits) -> dict[str, Floats]:
    """Return the distinct values of columns of numbers and of dates, as numbers."""
    days = {
        ways.column.name: chosen_date(ways, habits)[0].days(ways.column.values)
        for ways in every
        if ways.dates
    }
    return _numbers(every, habits) | days
