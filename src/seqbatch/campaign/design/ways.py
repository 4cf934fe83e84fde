"""The ways in which a column can be read, and the choice where there are two.

A cell such as 1,234 or 03/04/2024 does not tell what it means. What the file's other columns tell
decides; where they tell nothing, the more usual reading is taken, and the spec says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.looking import Column
from seqbatch.campaign.design.spelled_dates import DateSpelling, date_spellings
from seqbatch.campaign.design.spelled_numbers import Spelling, spellings
from seqbatch.campaign.design.written import quoted

#: What a remark begins with where a cell can be read in two ways.
CHECK = "CHECK:"


@dataclass(frozen=True, eq=False)
class Ways:
    """A column, and the ways in which all of its values can be read as numbers or as dates."""

    column: Column
    numbers: tuple[Spelling, ...] = ()
    dates: tuple[DateSpelling, ...] = ()


@dataclass(frozen=True)
class Habits:
    """What a file's unambiguous columns tell of the others; None for nothing.

    Parameters
    ----------
    decimal_comma
        Whether a comma parts the decimals.
    day_first
        Whether a day stands before its month.
    semicolons
        Whether cells are parted by semicolons, as programs do where the comma parts decimals.
    """

    decimal_comma: bool | None = None
    day_first: bool | None = None
    semicolons: bool = False


def ways_of(column: Column) -> Ways:
    """Look for the ways to read a column."""
    kind = column.values.type
    if not column.distinct:
        return Ways(column)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Ways(column, dates=(DateSpelling("iso"),))
    if pa.types.is_floating(kind):
        return Ways(column, numbers=spellings(column.values))
    if not (column.is_text or pa.types.is_integer(kind)):
        return Ways(column)
    if dates := date_spellings(column.name, column.texts):
        return Ways(column, dates=dates)
    texts = column.texts if column.is_text else column.values
    return Ways(column, numbers=() if has_leading_zeros(column) else spellings(texts))


def has_leading_zeros(column: Column) -> bool:
    """Say whether whole numbers begin with zeros, which would be lost if they were numbers."""
    return column.is_text and _some(column, r"^0\d+$")


def habits_of(every: Iterable[Ways], *, semicolons: bool = False) -> Habits:
    """Return what those columns tell that can be read in one way alone, and the file itself."""
    commas, orders = set(), set()
    for ways in every:
        if len(ways.numbers) == 1 and ways.column.is_text and _some(ways.column, r"\d[.,]\d"):
            commas.add(ways.numbers[0].decimal_comma)
        if len(ways.dates) == 1:
            orders.add(ways.dates[0].day_first)
    orders.discard(None)
    return Habits(
        decimal_comma=commas.pop() if len(commas) == 1 else None,
        day_first=orders.pop() if len(orders) == 1 else None,
        semicolons=semicolons,
    )


def chosen_number(ways: Ways, habits: Habits) -> tuple[Spelling, str]:
    """Return the way to read a column of numbers, and what there is to say of the choice."""
    if len(ways.numbers) == 1:
        return ways.numbers[0], ""
    # Where nothing tells, a mark before three digits parts decimals if it is a dot and thousands
    # if it is a comma: as most programs write.
    comma = habits.semicolons if habits.decimal_comma is None else habits.decimal_comma
    chosen = next((way for way in ways.numbers if way.decimal_comma is comma), ways.numbers[0])
    cell = next(text for text in ways.column.texts.to_pylist() if "," in text or "." in text)
    place = next(n for n, text in enumerate(ways.column.texts.to_pylist()) if text == cell)
    reason = "as in the file's other columns"
    if habits.decimal_comma is None and habits.semicolons:
        reason = "as usual in files with semicolons"
    elif habits.decimal_comma is None:
        reason = "the usual meaning; no other column tells"
    return chosen, f"{CHECK} {quoted(cell)} is read as {chosen.numbers[place]:g} ({reason})"


def chosen_date(ways: Ways, habits: Habits) -> tuple[DateSpelling, str]:
    """Return the way to read a column of dates, and what there is to say of the choice."""
    if len(ways.dates) == 1:
        return ways.dates[0], ""
    order, reason = habits.day_first, "as in the file's other dates"
    if order is None and (habits.decimal_comma or habits.semicolons):
        order, reason = True, "as usual where decimals have a comma"
    chosen = next((way for way in ways.dates if way.day_first is order), None)
    if chosen is None:
        chosen, reason = ways.dates[0], "the usual order; no other column tells"
    first = "day" if chosen.day_first else "month"
    return chosen, (
        f"{CHECK} no day is above 12, so day and month may be either; read with the {first} first "
        f"({reason})"
    )


def _some(column: Column, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column.texts, pattern)).as_py())
