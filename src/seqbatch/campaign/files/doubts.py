"""Doubts about a file: misspelled levels, rows of totals, dots that may separate thousands."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.categorical import OTHER, LevelsFeature
from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.files.column_values import NO_VALUE, is_text, told_apart, undictionaried
from seqbatch.campaign.files.number_format import PLAIN, THOUSANDS, UNCLEAR
from seqbatch.campaign.files.reading import RowProblem, Source
from seqbatch.campaign.spec.eligibility import Among, Both, Compare, EligibilityRule, Not
from seqbatch.campaign.spec.input_limits import MOST_PROBLEMS
from seqbatch.campaign.spec.toml import quoted
from seqbatch.core.arrays import Floats
from seqbatch.display import counted
from seqbatch.errors import Doubt

# ----------------------------------------------------------------------
# Texts of units that differ by case or spaces alone: from those of a spec, or from each other.
#
# Who may get what hangs on them: `region != 'north'` lets `North` through. So does what is
# balanced: `North` and `north` are two strata; and what is learned: `NORTH` may count as `other`.


#: Texts that are named.
NAMED = 5
#: Texts of a column of strata that are compared with each other, the first ones: all of them are
#: kept in memory, and a column with more of them holds ids rather than strata.
COMPARED = 10_000
#: So many spellings of one value are shown.
SPELLINGS = 3


def near_misses(tables: Iterable[pa.Table], eligibility: Eligibility | None) -> tuple[Doubt, ...]:
    """Return a doubt for each column whose texts may be meant for those of a rule."""
    said: dict[str, list[str]] = {}
    for rule in () if eligibility is None else eligibility.rules:
        for column, text in _texts(rule):
            said.setdefault(column, []).append(text)
    return _misspellings(
        tables, said, kind="misspelled-rule", than="those in [eligible]",
        counted="are others to it", instead="name them in the rule",
    )  # fmt: skip


def misspelled_levels(
    tables: Iterable[pa.Table], features: Mapping[str, Feature]
) -> tuple[Doubt, ...]:
    """Return a doubt for each category with texts that may be levels, and count as other."""
    levels = {
        name: [level for level in part.rules.levels if level != OTHER]
        for name, part in features.items()
        if isinstance(part, LevelsFeature) and part.other
    }
    return _misspellings(
        tables, levels, kind="misspelled-level", than="its levels", counted="count as other",
        instead="declare them as levels",
    )  # fmt: skip


def _misspellings(
    tables: Iterable[pa.Table], wanted: Mapping[str, Sequence[str]], *, kind: str, than: str,
    counted: str, instead: str,
) -> tuple[Doubt, ...]:  # fmt: skip
    """Return a doubt for each column with texts that may be among the wanted, and are not."""
    known = {column: pa.array(texts, type=pa.string()) for column, texts in wanted.items()}
    found: dict[str, dict[str, None]] = {column: {} for column in wanted}
    for table in tables if wanted else ():
        for column, texts in found.items():
            for chunk in table.column(column).chunks:
                # No more than are shown: a file may have very many.
                more = _misspelled(_distinct(chunk), known[column]).slice(0, NAMED + 1)
                texts.update(dict.fromkeys(more.to_pylist()) if len(texts) <= NAMED else {})
    made = []
    for column, texts in found.items():
        examples = tuple(list(texts)[:NAMED])
        said = (
            f"{column} has texts that differ from {than} only by case or spaces, and {counted}: "
            f"{', '.join(told_apart(text) for text in examples)}"
            f"{', ...' if len(texts) > NAMED else ''}; spell them alike in the file, or "
            f"{instead} before the campaign is created"
        )
        made += [Doubt(kind, (said,), column=column, examples=examples)] if texts else []
    return tuple(made)


def _distinct(chunk: pa.Array) -> pa.Array:
    """Return the different texts of a piece of a column."""
    values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else pc.unique(chunk)
    return values.cast(pa.string())


def _misspelled(texts: pa.Array, levels: pa.Array) -> pa.Array:
    """Return the texts that are no levels, and would be but for case, spaces or Unicode form."""
    own = pc.or_(pc.is_in(texts, value_set=levels), pc.equal(texts, ""))
    others = texts.filter(pc.invert(own))
    # Mostly there are none, and a category may have thousands of levels.
    if not len(others):
        return others
    return others.filter(pc.is_in(_plainly(others), value_set=_plainly(levels)))


def _plainly(texts: pa.Array) -> pa.Array:
    """Return texts without what people spell in several ways, all at once.

    >>> _plainly(pa.array(["Saint Denis ", "SAINT  DENIS", "Weißsee", "WEISSSEE"])).to_pylist()
    ['saintdenis', 'saintdenis', 'weisssee', 'weisssee']
    """
    # Letters with two lower cases become one by way of the upper.
    text = pc.utf8_lower(pc.utf8_upper(pc.utf8_normalize(texts, form="NFKC")))
    return pc.replace_substring_regex(pc.replace_substring(text, "ß", "ss"), r"[\s\pZ]+", "")


def misspelled_strata(tables: Iterable[pa.Table], strata: Sequence[str]) -> tuple[Doubt, ...]:
    """Return a doubt for each column of strata with texts that may be one, spelled otherwise."""
    found: dict[str, dict[str, None]] = {column: {} for column in strata}
    for table in tables if strata else ():
        for column, texts in found.items():
            new = pc.unique(table.column(column)).to_pylist() if len(texts) < COMPARED else ()
            texts.update(dict.fromkeys(filter(None, new)))
    said = {column: several_spellings(map(str, texts)) for column, texts in found.items()}
    return tuple(
        Doubt(
            "misspelled-stratum",
            (f"strata by {column}: {spelled}; spell them alike in the file",),
            column=column,
        )
        for column, spelled in said.items()
        if spelled
    )


def several_spellings(values: Iterable[str]) -> str:
    """Say which values differ only by case, spaces or Unicode form; "" where none do.

    >>> several_spellings(["Urban", "Rural", "URBAN", "Urban "])
    '"Urban", "URBAN", "Urban " differ only by case or spaces, and none counts as another'
    >>> several_spellings(["Urban", "Rural"])
    ''
    """
    every, spelled = list(values), dict[str, list[str]]()
    for plain, value in zip(
        _plainly(pa.array(every, type=pa.string())).to_pylist(), every, strict=True
    ):
        spelled.setdefault(plain, []).append(value)
    several = [same for same in spelled.values() if len(same) > 1]
    if not several:
        return ""
    first = ", ".join(told_apart(value, quoted) for value in several[0][:SPELLINGS])
    more = ", ..." if len(several[0]) > SPELLINGS else ""
    left = len(several) - 1
    others = f" (and {counted(left, 'more such value')})" if left else ""
    return f"{first}{more} differ only by case or spaces, and none counts as another{others}"


def _texts(rule: EligibilityRule | None) -> Iterator[tuple[str, str]]:
    """Yield the texts that a rule compares with, each with its column."""
    match rule:
        case Compare(name, _, str(value)):
            yield name, value
        case Among(name, values):
            yield from ((name, value) for value in values if isinstance(value, str))
        case Not(inner):
            yield from _texts(inner)
        case Both(rules, _):
            for each in rules:
                yield from _texts(each)


# ----------------------------------------------------------------------
# Rows that are no units: totals, as reports put below a table, and headers between rows.


#: What stands where ids stand in a row of totals, in lower case.
WORDS = frozenset((
    "total", "totals", "grand total", "subtotal", "sum", "sums", "summe", "summen", "gesamt",
    "gesamtsumme", "gesamtergebnis", "insgesamt", "zwischensumme", "somme", "total general",
    "total général", "totale", "totaal", "suma", "soma",
))  # fmt: skip

#: So many other numbers make a sum that chance hardly hits, and so far may rounding move it.
LEAST, ROUNDED = 3, 1e-4
#: Columns that end in their sums where the id says nothing, and those of them that are named.
SEVERAL, NAMED_TOTALS = 2, 3
#: What is wrong with a row that repeats the header.
HEADER = "repeats the header; delete the row"
#: An id with a word for totals in it, and the share of ids that may have one before it is a habit.
WORDED, RARE = r"(?i)(^|\PL)(" + "|".join(sorted(WORDS)) + r")(\PL|$)", 0.25


@dataclass(frozen=True)
class Summed:
    """A column of numbers as far as it was read.

    Parameters
    ----------
    total
        The sum of all.
    counted
        How many are there and not 0.
    last
        The last one; 0 where it is missing.
    """

    total: float
    counted: int
    last: float

    @classmethod
    def of(cls, values: Floats) -> "Summed":
        """Sum up a piece; NaN is missing."""
        there = np.where(np.isnan(values), 0.0, values)
        # What is not finite is refused elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(float(there.sum()), int(np.count_nonzero(there)), float(there[-1]))

    def then(self, later: "Summed") -> "Summed":
        """Return the column with a piece that follows."""
        return Summed(self.total + later.total, self.counted + later.counted, later.last)

    @property
    def ends_in_sum(self) -> bool:
        """Whether the last number is the sum of all others, but for rounding.

        >>> Summed.of(np.array([3.0, 3.0, 5.0, 11.0])).ends_in_sum
        True
        """
        missed = abs(self.last - (self.total - self.last))
        return self.counted > LEAST and self.last != 0 and missed <= ROUNDED * abs(self.last)


def ending_in_sums(columns: Mapping[str, Summed]) -> tuple[str, ...]:
    """Return the columns whose last number is the sum of all others."""
    return tuple(name for name, column in columns.items() if column.ends_in_sum)


def refusal(unit: str, others: Iterable[Any], sums: Collection[str] = ()) -> str:
    """Return what is wrong with a file's last row if its id says that it holds totals, else "".

    The id is a word for them with nothing but numbers beside it; or has such a word in it, and
    some number is the sum of all others.

    Parameters
    ----------
    unit
        The id, or the first part of it.
    others
        The row's other cells.
    sums
        The columns whose last number is the sum of all others.

    Examples
    --------
    >>> refusal("Total", ["29", "2595.59", ""])
    "seems to be a row of totals, since its id is 'Total'; delete the row"
    >>> refusal("Total", ["29", "Oslo"]), refusal("Ann", ["29", ""], ["orders"])
    ('', '')
    >>> refusal("All (total)", ["29", "Oslo"], ["age"])
    "seems to be a row of totals, since its id is 'All (total)', with sums in age; delete the row"
    """
    spelled = " ".join(unit.partition(":")[0].lower().split())
    alone = spelled in WORDS and all(_is_number_or_none(cell) for cell in others)
    if not alone and not (sums and WORDS & set(re.findall(r"[^\W\d_]+", spelled))):
        return ""
    also = "" if alone else f", with sums in {_listed(sums)}"
    return f"seems to be a row of totals, since its id is {unit!r}{also}; delete the row"


def doubt(unit: str, place: str, sums: Collection[str]) -> str:
    """Return a warning of a last row whose numbers say that it holds totals, else "".

    >>> doubt("A4", "line 5", ["age", "orders"])
    "line 5 ('A4') may be a row of totals, with sums in age, orders; if it is, delete the row"
    """
    if len(sums) < SEVERAL:
        return ""
    said = f"may be a row of totals, with sums in {_listed(sums)}; if it is, delete the row"
    return f"{place} ({unit!r}) {said}"


def worded(ids: pa.Array) -> list[int]:
    """Return the places of ids that have a word for totals in them, where few do.

    >>> worded(pa.array(["A1", "A2", "A3", "Rural total", None]))
    [3]
    """
    if not is_text(ids.type):
        return []
    found = pc.indices_nonzero(pc.match_substring_regex(ids, WORDED))
    if not len(found):
        return []
    rare = len(pc.unique(ids.take(found))) <= RARE * len(pc.unique(ids))
    return list(found.to_pylist()) if rare else []


def subtotals(unit: str, others: Collection[Any]) -> str:
    """Return a doubt about a row that is not the last where it may hold totals, else "".

    >>> subtotals("Rural total", ["29", ""])
    "may be a row of totals: its id is 'Rural total', beside numbers alone; if so, delete the row"
    >>> subtotals("Rural total", ["29", "Oslo"])
    ''
    """
    if not others or not all(_is_number_or_none(cell) for cell in others):
        return ""
    said = f"its id is {unit!r}, beside numbers alone"
    return f"may be a row of totals: {said}; if so, delete the row"


def subtotal_rows(batch: Any, names: Iterable[str]) -> dict[int, str]:
    """Return doubts about rows that may hold totals; the first of the columns is that of ids."""
    unit, *others = dict.fromkeys(names)
    ids = undictionaried(batch.column(unit))
    said = {
        row: subtotals(ids[row].as_py(), [batch.column(name)[row].as_py() for name in others])
        for row in worded(ids)[:MOST_PROBLEMS]
    }
    return {row: reason for row, reason in said.items() if reason}


def header_rows(batch: Any, names: Iterable[str]) -> dict[int, str]:
    """Return the rows that repeat the header, as in files that were put one below another."""
    rows = np.arange(batch.num_rows)
    for name in dict.fromkeys(names):
        column = undictionaried(batch.column(name))
        if not is_text(column.type) or not len(rows):
            return {}
        there = column if len(rows) == len(column) else column.take(rows)
        same = pc.equal(pc.utf8_trim_whitespace(there), name).fill_null(False)
        rows = rows[same.to_numpy(zero_copy_only=False)]
    return {int(row): HEADER for row in rows}


def _listed(names: Collection[str]) -> str:
    return ", ".join(list(names)[:NAMED_TOTALS]) + (", ..." if len(names) > NAMED_TOTALS else "")


def _is_number_or_none(cell: Any) -> bool:
    text = "" if cell is None else str(cell).strip()
    if text.lower() in NO_VALUE:
        return True
    letters = sum(character.isalpha() for character in text)
    # A currency's letters may stand beside a number; a dash often stands where there is none.
    return not letters or (letters <= 3 and any(map(str.isdigit, text)))


# ----------------------------------------------------------------------
# Columns of plain numbers whose dots may part thousands: 2.750 is 2750 where decimals have commas.
#
# A single cell never tells. A column does as soon as one of its dots cannot part thousands, as in
# 12.5 or 0.125. Where none tells, and the file has semicolons between its cells or numbers without
# a dot beside those with one, the file is refused instead of being read a thousand times too
# small.


#: A number as programs spell it that has a dot.
DOTTED = r"^\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*$"
#: What has a digit, and no dot.
WITHOUT = r"^[^.]*\d[^.]*$"
#: Cells that are looked at first: they tell of most columns.
FEW = 1000


@dataclass
class _Seen:
    """What was seen of a column: its first unclear cell, and whether some have no dot."""

    row: int = 0
    cell: str = ""
    without: bool = False


class UnclearDots:
    """Looks at the pieces of a file for columns of numbers that can be read in two ways.

    Parameters
    ----------
    source
        The file.
    columns
        Those that hold numbers for which no format is declared.
    """

    def __init__(self, source: Source, columns: Iterable[str]) -> None:
        self._source = source
        self._seen = {name: _Seen() for name in columns}

    def look(self, batch: Any, start: int) -> None:
        """Look at a piece whose first row of data is number `start` + 1."""
        for name in list(self._seen):
            column = undictionaried(batch.column(name))
            if not is_text(column.type) or _is_clear(column[:FEW]) or _is_clear(column):
                del self._seen[name]
                continue
            self._note(self._seen[name], column, start)

    @staticmethod
    def _note(seen: _Seen, column: Any, start: int) -> None:
        found = pc.and_(
            pc.match_substring_regex(column, DOTTED), pc.match_substring_regex(column, UNCLEAR)
        )
        if not seen.row and (place := pc.index(found, True).as_py()) >= 0:
            seen.row, seen.cell = start + place + 1, column[place].as_py().strip()
        seen.without = seen.without or bool(
            pc.any(pc.match_substring_regex(column, WITHOUT)).as_py()
        )

    def problems(self, advice: str) -> list[RowProblem]:
        """Return a problem for each column that remains unclear, by its first such row.

        Parameters
        ----------
        advice
            How to declare a format.
        """
        return [
            (seen.row, name, f"{_readings(seen.cell)}; {advice}")
            for name, seen in self._seen.items()
            if seen.row and (self._source.has_semicolons or seen.without)
        ]


def _is_clear(column: Any) -> bool:
    """Say whether some dot cannot part thousands."""
    dotted = column.filter(pc.match_substring(column, "."))
    dotted = dotted.filter(pc.match_substring_regex(dotted, DOTTED))
    return not pc.all(pc.match_substring_regex(dotted, UNCLEAR), min_count=0).as_py()


def _readings(cell: str) -> str:
    """Return what a cell may mean.

    >>> _readings("2.750")
    '2.750 may be 2.75 (format = "1234.56") or 2750 (format = "1.234,56")'
    """
    decimal, thousands = float(cell), float(cell.replace(".", ""))
    return (
        f'{cell} may be {decimal:g} (format = "{PLAIN}") or {thousands:.0f} '
        f'(format = "{THOUSANDS}")'
    )
