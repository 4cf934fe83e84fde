"""Which formats of numbers and dates fit every value of a column."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.columns import read_dates, read_numbers
from seqbatch.campaign.spec.formats import ISO, NumberFormat, cell_pattern, plain
from seqbatch.campaign.spec.profile import ColumnProfile
from seqbatch.campaign.spec.toml import quoted
from seqbatch.core.arrays import Floats

# ----------------------------------------------------------------------
# How the dates of a column are spelled: the formats that fit every one of them.


#: Values that are looked at first: most columns of text are told from dates by these.
FEW_DATES = 500
#: Ways to spell a day; where two differ by the order of day and month, the usual one is first.
DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d",
    "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%Y.%m.%d", "%m.%d.%Y", "%d %b %Y",
    "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%d. %B %Y", "%d %b %y",
)  # fmt: skip
#: Ways to spell a time of day behind it.
TIMES = (
    "", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S", "T%H:%M:%S",
    " %H:%M:%S %z", " %H:%M:%S.%f",
)  # fmt: skip
#: Names of columns in which eight digits are a date.
NAMED = re.compile(r"date|datum|day|since|seit|birth|geb|created|updated|_at$|_on$", re.IGNORECASE)
COMPACT = "%Y%m%d"
#: Years in which eight digits are a date.
YEARS = r"^(19|20)\d{6}$"


@dataclass(frozen=True)
class DateSpelling:
    """A way to read a column as dates.

    Parameters
    ----------
    format
        ``"iso"``, or a format of strptime.
    """

    format: str

    @property
    def day_first(self) -> bool | None:
        """Whether a day stands before its month; None where the format leaves no doubt."""
        if "%m" not in self.format or self.format.startswith("%Y"):
            return None
        return self.format.index("%d") < self.format.index("%m")

    def days(self, values: pa.Array) -> Floats:
        """Return the days of distinct values, counted from 1970."""
        days, _, _ = read_dates(values, form=self.format)
        counted: Floats = days.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.float64)
        return counted


def date_spellings(name: str, texts: pa.Array) -> tuple[DateSpelling, ...]:
    """Return the ways to read distinct texts as dates: two where day and month may be either.

    Examples
    --------
    >>> [way.format for way in date_spellings("seen", pa.array(["31.01.2024", "1.2.2024"]))]
    ['%d.%m.%Y']
    >>> [way.format for way in date_spellings("seen", pa.array(["01/02/2024", "03/04/2024"]))]
    ['%m/%d/%Y', '%d/%m/%Y']
    """
    formats = [ISO, *(day + time for day in DAYS for time in TIMES)]
    if NAMED.search(name) and _all(texts[:FEW_DATES], YEARS) and _all(texts, YEARS):
        formats.append(COMPACT)
    formats = [way for way in formats if re.search(cell_pattern(way), texts[0].as_py())]
    ways = [way for way in formats if _fits(texts[:FEW_DATES], way) and _fits(texts, way)]
    # May is the short name of a month and its full name.
    short = [way for way in ways if "%B" not in way]
    return tuple(DateSpelling(way) for way in short or ways)


def share_of_dates(texts: pa.Array) -> float:
    """Return the share of the first few distinct texts that look like dates of some format."""
    shapes = [cell_pattern(way) for way in (ISO, *(day + time for day in DAYS for time in TIMES))]
    fits = [
        any(re.search(shape, text) for shape in shapes) for text in texts[:FEW_DATES].to_pylist()
    ]
    return float(np.mean(fits)) if fits else 0.0


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _fits(texts: pa.Array, way: str) -> bool:
    return not read_dates(texts, form=way)[2]


# ----------------------------------------------------------------------
# How the numbers of a column are spelled: the examples of formats that fit every one of them.


#: Values that are looked at first: most columns of text are told from numbers by these.
FEW_NUMBERS = 500
#: Cells that are quoted in a reason.
SHOWN = 3
#: What the digits may look like, by thousands and decimals.
MARKED = ("1234.56", "1234,56", "1,234.56", "1.234,56", "1 234,56", "1 234.56", "1'234.56")
#: What is no currency and no unit of measure: digits, marks, signs.
DIGITS = r"[\d\s.,'’()+%−-]"
#: Digits whose mark parts thousands or decimals: three follow it, and no single zero is before it.
UNCLEAR = r"^[^\d.,]*[1-9]\d{0,2}[.,]\d{3}[^\d.,]*$"
#: Currencies, which stand before or behind a number, in lower case, ...
CURRENCIES = frozenset((
    "€", "$", "£", "¥", "₹", "us$", "a$", "c$", "r$", "zł", "kč", "kr", "ft", "fr", "eur", "euro",
    "usd", "gbp", "chf", "jpy", "cny", "inr", "sek", "nok", "dkk", "pln", "czk", "huf", "try",
    "brl", "mxn", "aud", "cad", "nzd", "zar",
))  # fmt: skip
#: ... and measures, which stand behind it. Other words make a name of it, as in "House 12".
MEASURES = frozenset((
    "kg", "g", "km", "m", "cm", "mm", "l", "ml", "h", "min", "s", "pts", "stk", "Stk", "ST", "St",
    "pcs", "PC",
))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Spelling:
    """A way to read a column as numbers.

    Parameters
    ----------
    example
        The format of a spec; "" for plain numbers.
    numbers
        The distinct values, read in this way.
    """

    example: str
    numbers: Floats

    @property
    def decimal_comma(self) -> bool:
        """Whether a comma parts the decimals."""
        return bool(self.example) and NumberFormat.of(self.example).decimal == ","


def spellings(texts: pa.Array) -> tuple[Spelling, ...]:
    """Return the ways to read distinct texts as numbers, with different results; often one.

    Parameters
    ----------
    texts
        The distinct values of a column, without those that mean that one is missing.

    Examples
    --------
    >>> [found.example for found in spellings(pa.array(["1.234,50 EUR", "12,00 EUR", "7-"]))]
    ['1.234,56 EUR-']
    >>> [found.example for found in spellings(pa.array(["1,234", "999"]))]
    ['1234,56', '1,234.56']
    """
    found: dict[bool, Spelling] = {}
    unclear = _is_unclear(texts)
    for example in _examples(texts):
        form = NumberFormat.of(example) if example else None
        comma = form is not None and form.decimal == ","
        # Formats of the same decimal mark that fit all texts read the same numbers.
        if comma in found or _wrong(texts[:FEW_NUMBERS], form):
            continue
        read = read_numbers(texts, form=form)
        if not read.wrong:
            found[comma] = Spelling(example, read.values)
            if not unclear:
                break
    return tuple(found.values())


def _is_unclear(texts: pa.Array) -> bool:
    """Say whether the marks may part thousands as well as decimals, as in 1,234, in every text."""
    if not pa.types.is_string(texts.type):
        return False
    marked = texts.filter(pc.match_substring_regex(texts, "[.,]"))
    if (
        not len(marked)
        or not pc.all(pc.match_substring_regex(marked[:FEW_NUMBERS], UNCLEAR)).as_py()
    ):
        return False
    return bool(pc.all(pc.match_substring_regex(marked, UNCLEAR)).as_py())


def no_numbers(texts: pa.Array) -> tuple[float, list[str]]:
    """Return the share of texts that are no numbers by the format that fits most, and some of them.

    >>> no_numbers(pa.array(["1,5", "2,5", "about 3", "4"]))
    (0.25, ['about 3'])
    """
    forms = (None, *(NumberFormat.of(example) for example in MARKED))
    best = min(forms, key=lambda form: len(_wrong(texts[:FEW_NUMBERS], form)))
    wrong = sorted(_wrong(texts, best))
    return len(wrong) / max(len(texts), 1), texts.take(wrong[:SHOWN]).to_pylist()


def currencies(texts: pa.Array) -> list[str]:
    """Return what stands beside the digits, each text once."""
    beside = pl.Series(texts).str.replace_all(DIGITS, "")
    return sorted(text for text in beside.unique().to_list() if text)


def is_amount(beside: str) -> bool:
    """Say whether a text beside digits is a currency or a measure."""
    return beside.lower() in CURRENCIES or beside in MEASURES


def _stands_well(texts: pa.Array, beside: str) -> bool:
    """Say whether a measure is behind the number everywhere: S12 is a code, 12 s are seconds."""
    return beside.lower() in CURRENCIES or not _any(texts, r"^\s*[^\d\s(+-]")


def in_words(example: str) -> str:
    """Return what a format means, for a comment."""
    if not example:
        return ""
    form = NumberFormat.of(example)
    names = {".": "dot", ",": "comma", " ": "space", "'": "apostrophe"}
    parts = [f"decimal {names[form.decimal]}"] if form.decimal == "," else []
    parts += [f"a {names[form.thousands]} between thousands"] if form.thousands else []
    parts += ["a percent sign (divided by 100)"] if form.percent else []
    parts += ["minus behind the number"] if form.trailing else []
    parts += ["brackets for negative numbers"] if form.brackets else []
    parts += [f"with {form.currency}"] if form.currency else []
    return ", ".join(parts)


def _examples(texts: pa.Array) -> Iterator[str]:
    """Yield the formats that may fit, by the signs that are in the texts; plain numbers first."""
    yield ""
    if not pa.types.is_string(texts.type):
        return  # numbers that are not plain, such as infinity, are spelled in no other way
    beside = currencies(texts[:FEW_NUMBERS])
    if len(beside) > 1 or len(beside := currencies(texts)) > 1:
        return
    if beside and not (is_amount(beside[0]) and _stands_well(texts, beside[0])):
        return
    currency = f" {plain(beside[0])}" if beside else ""
    percent = " %" if _any(texts, "%") else ""
    trailing = "-" if _any(texts, r"\d[^\d]*[-−]\s*[^\d]*$") else ""
    bracketed = _any(texts, r"\(")
    for digits in MARKED:
        example = f"{digits}{percent}{currency}{trailing}"
        yield f"({example})" if bracketed else example


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _wrong(texts: pa.Array, form: NumberFormat | None) -> dict[int, str]:
    return read_numbers(texts, form=form).wrong


# ----------------------------------------------------------------------
# The ways in which a column can be read, and the choice where there are two.
#
# A cell such as 1,234 or 03/04/2024 does not tell what it means. What the file's other columns
# tell decides; where they tell nothing, the more usual reading is taken, and the spec says so.


#: What a remark begins with where a cell can be read in two ways.
CHECK = "CHECK:"


@dataclass(frozen=True, eq=False)
class Ways:
    """A column, and the ways in which all of its values can be read as numbers or as dates."""

    column: ColumnProfile
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


def ways_of(column: ColumnProfile) -> Ways:
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


def has_leading_zeros(column: ColumnProfile) -> bool:
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


def _some(column: ColumnProfile, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column.texts, pattern)).as_py())
