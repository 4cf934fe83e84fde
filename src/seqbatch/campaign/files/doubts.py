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
from seqbatch.campaign.files.column_values import (
    NO_VALUE,
    is_text,
    python_value,
    told_apart,
    undictionaried,
)
from seqbatch.campaign.files.number_format import PLAIN, THOUSANDS, UNCLEAR
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.eligibility import Among, Both, Compare, EligibilityRule, Not
from seqbatch.campaign.spec.input_limits import MOST_PROBLEMS
from seqbatch.campaign.spec.toml import quoted
from seqbatch.core.arrays import Floats
from seqbatch.display import counted
from seqbatch.errors import Doubt, RowProblem

# ----------------------------------------------------------------------
# Find texts that differ only by case or spaces, from those of a spec or from each other.
#
# Such texts affect eligibility (`region != 'north'` lets `North` through), balance (`North` and
# `north` are two strata) and learning (`NORTH` may count as `other`).


#: The number of texts named in a doubt.
NAMED = 5
#: The number of distinct texts of a strata column that are compared. All are kept in memory, and a
#: column with more of them holds ids rather than strata.
COMPARED = 10_000
#: The number of spellings shown for one value.
SPELLINGS = 3


def near_misses(tables: Iterable[pa.Table], eligibility: Eligibility | None) -> tuple[Doubt, ...]:
    """Return a doubt for each column with texts that look like misspelled values of a rule."""
    said: dict[str, list[str]] = {}
    for rule in () if eligibility is None else eligibility.rules:
        for column, text in _texts(rule):
            said.setdefault(column, []).append(text)
    return _misspellings(
        tables, said, kind="misspelled-rule", than="the values in [eligible]",
        counted="do not match them", instead="name them in the rule",
    )  # fmt: skip


def misspelled_levels(
    tables: Iterable[pa.Table], features: Mapping[str, Feature]
) -> tuple[Doubt, ...]:
    """Return a doubt for each category with texts that look like misspelled levels."""
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
    """Return a doubt for each column with texts that look like misspelled wanted texts."""
    known = {column: pa.array(texts, type=pa.string()) for column, texts in wanted.items()}
    found: dict[str, dict[str, None]] = {column: {} for column in wanted}
    for table in tables if wanted else ():
        for column, texts in found.items():
            for chunk in table.column(column).chunks:
                # Keep only as many as are shown: a file may have very many.
                more = _misspelled(_distinct(chunk), known[column]).slice(0, NAMED + 1)
                texts.update(dict.fromkeys(more.to_pylist()) if len(texts) <= NAMED else {})
    made = []
    for column, texts in found.items():
        examples = tuple(list(texts)[:NAMED])
        said = (
            f"{column} has texts that differ from {than} only by case or spaces, but {counted}: "
            f"{', '.join(told_apart(text) for text in examples)}"
            f"{', ...' if len(texts) > NAMED else ''}; use one spelling in the file, or "
            f"{instead} before you create the campaign"
        )
        made += [Doubt(kind, (said,), column=column, examples=examples)] if texts else []
    return tuple(made)


def _distinct(chunk: pa.Array) -> pa.Array:
    """Return the distinct texts of a piece of a column."""
    values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else pc.unique(chunk)
    return values.cast(pa.string())


def _misspelled(texts: pa.Array, levels: pa.Array) -> pa.Array:
    """Return texts that differ from a level only by case, spaces or Unicode form."""
    own = pc.or_(pc.is_in(texts, value_set=levels), pc.equal(texts, ""))
    others = texts.filter(pc.invert(own))
    # Usually there are none, and a category may have thousands of levels.
    if not len(others):
        return others
    return others.filter(pc.is_in(_plainly(others), value_set=_plainly(levels)))


def _plainly(texts: pa.Array) -> pa.Array:
    """Return texts without the differences of case, spaces and Unicode form.

    >>> _plainly(pa.array(["Saint Denis ", "SAINT  DENIS", "Weißsee", "WEISSSEE"])).to_pylist()
    ['saintdenis', 'saintdenis', 'weisssee', 'weisssee']
    """
    # Upper case first: it merges letters that have two lower-case forms.
    text = pc.utf8_lower(pc.utf8_upper(pc.utf8_normalize(texts, form="NFKC")))
    return pc.replace_substring_regex(pc.replace_substring(text, "ß", "ss"), r"[\s\pZ]+", "")


def misspelled_strata(tables: Iterable[pa.Table], strata: Sequence[str]) -> tuple[Doubt, ...]:
    """Return a doubt for each strata column with several spellings of one value."""
    found: dict[str, dict[str, None]] = {column: {} for column in strata}
    for table in tables if strata else ():
        for column, texts in found.items():
            new = pc.unique(table.column(column)).to_pylist() if len(texts) < COMPARED else ()
            texts.update(dict.fromkeys(filter(None, new)))
    said = {column: several_spellings(map(str, texts)) for column, texts in found.items()}
    return tuple(
        Doubt(
            "misspelled-stratum",
            (f"strata by {column}: {spelled}; use one spelling in the file",),
            column=column,
        )
        for column, spelled in said.items()
        if spelled
    )


def several_spellings(values: Iterable[str]) -> str:
    """Say which values differ only by case, spaces or Unicode form; "" if none do.

    >>> several_spellings(["Urban", "Rural", "URBAN", "Urban "])
    '"Urban", "URBAN", "Urban " differ only by case or spaces, but count as different values'
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
    others = f" (and {counted(left, 'more value')})" if left else ""
    return f"{first}{more} differ only by case or spaces, but count as different values{others}"


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
# Find rows that are not units: totals below a table, and repeated headers.


#: Words that appear in place of an id in a row of totals, in lower case.
WORDS = frozenset((
    "total", "totals", "grand total", "subtotal", "sum", "sums", "summe", "summen", "gesamt",
    "gesamtsumme", "gesamtergebnis", "insgesamt", "zwischensumme", "somme", "total general",
    "total général", "totale", "totaal", "suma", "soma",
))  # fmt: skip

#: The other numbers needed for a sum to rule out chance, and its largest relative rounding error.
LEAST, ROUNDED = 3, 1e-4
#: Columns that must end in their sum if the id is not a word for totals, and how many are named.
SEVERAL, NAMED_TOTALS = 2, 3
#: The message for a row that repeats the header.
HEADER = "repeats the header; delete the row"
#: An id that contains a word for totals, and the share of ids above which such words are usual.
WORDED, RARE = r"(?i)(^|\PL)(" + "|".join(sorted(WORDS)) + r")(\PL|$)", 0.25


@dataclass(frozen=True)
class Summed:
    """A running summary of a column of numbers.

    Parameters
    ----------
    total
        The sum of all numbers.
    counted
        How many numbers are present and not 0.
    last
        The last number; 0 if it is missing.
    """

    total: float
    counted: int
    last: float

    @classmethod
    def of(cls, values: Floats) -> "Summed":
        """Summarize a piece; NaN means missing."""
        there = np.where(np.isnan(values), 0.0, values)
        # Infinite numbers are refused elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(float(there.sum()), int(np.count_nonzero(there)), float(there[-1]))

    def then(self, later: "Summed") -> "Summed":
        """Return this summary joined with that of the next piece."""
        return Summed(self.total + later.total, self.counted + later.counted, later.last)

    @property
    def ends_in_sum(self) -> bool:
        """Whether the last number is the sum of all the others, up to rounding.

        >>> Summed.of(np.array([3.0, 3.0, 5.0, 11.0])).ends_in_sum
        True
        """
        missed = abs(self.last - (self.total - self.last))
        return self.counted > LEAST and self.last != 0 and missed <= ROUNDED * abs(self.last)


def ending_in_sums(columns: Mapping[str, Summed]) -> tuple[str, ...]:
    """Return the columns whose last number is the sum of all the others."""
    return tuple(name for name, column in columns.items() if column.ends_in_sum)


def refusal(unit: str, others: Iterable[Any], sums: Collection[str] = ()) -> str:
    """Return the message for a last row whose id marks it as totals, or "".

    Either the id is a word for totals and the other cells hold only numbers, or the id contains
    such a word and some column ends in its sum.

    Parameters
    ----------
    unit
        The id, or its first part.
    others
        The row's other cells.
    sums
        The columns whose last number is the sum of all the others.

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
    """Return a warning if the numbers of the last row suggest totals, or "".

    >>> doubt("A4", "line 5", ["age", "orders"])
    "line 5 ('A4') may be a row of totals, with sums in age, orders; if so, delete the row"
    """
    if len(sums) < SEVERAL:
        return ""
    said = f"may be a row of totals, with sums in {_listed(sums)}; if so, delete the row"
    return f"{place} ({unit!r}) {said}"


def worded(ids: pa.Array) -> list[int]:
    """Return the positions of ids that contain a word for totals, if few do.

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
    """Return a doubt about a row before the last that may hold totals, or "".

    >>> subtotals("Rural total", ["29", ""])[:80]
    "may be a row of totals: its id is 'Rural total', and its other cells are numbers"
    >>> subtotals("Rural total", ["29", "Oslo"])
    ''
    """
    if not others or not all(_is_number_or_none(cell) for cell in others):
        return ""
    said = f"its id is {unit!r}, and its other cells are numbers"
    return f"may be a row of totals: {said}; if so, delete the row"


def subtotal_rows(batch: Any, names: Iterable[str]) -> dict[int, str]:
    """Return doubts about rows that may hold totals; the first column holds the ids."""
    unit, *others = dict.fromkeys(names)
    ids = undictionaried(batch.column(unit))
    said = {
        row: subtotals(ids[row].as_py(), [python_value(batch.column(name)[row]) for name in others])
        for row in worded(ids)[:MOST_PROBLEMS]
    }
    return {row: reason for row, reason in said.items() if reason}


def header_rows(batch: Any, names: Iterable[str]) -> dict[int, str]:
    """Return the rows that repeat the header, as in concatenated files."""
    rows = np.arange(batch.num_rows)
    for name in dict.fromkeys(names):
        column = undictionaried(batch.column(name))
        if not is_text(column.type) or not len(rows):
            return {}
        there = column if len(rows) == len(column) else column.take(rows)
        same = pc.equal(pc.utf8_trim_whitespace(there), name).fill_null(False)
        rows = rows[same.to_numpy(zero_copy_only=False)]
    return {int(row): HEADER for row in rows}


def repeated_header(row: int, column: str) -> RowProblem:
    """Return the problem of a row that repeats the header."""
    return RowProblem(row, column, HEADER, "repeated-header")


def _listed(names: Collection[str]) -> str:
    return ", ".join(list(names)[:NAMED_TOTALS]) + (", ..." if len(names) > NAMED_TOTALS else "")


def _is_number_or_none(cell: Any) -> bool:
    text = "" if cell is None else str(cell).strip()
    if text.lower() in NO_VALUE:
        return True
    letters = sum(character.isalpha() for character in text)
    # A currency's letters may accompany a number; a dash often marks a missing one.
    return not letters or (letters <= 3 and any(map(str.isdigit, text)))


# ----------------------------------------------------------------------
# Find columns of plain numbers whose dots may separate thousands (2.750 may mean 2750).
#
# A single cell is ambiguous. A column is clear as soon as one of its dots cannot separate
# thousands, as in 12.5 or 0.125. If no dot settles it, and the file separates cells by semicolons
# or mixes numbers with and without a dot, the file is refused: otherwise its numbers might be read
# as a thousand times too small.


#: A plain number with a dot.
DOTTED = r"^\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*$"
#: A text with a digit and without a dot.
WITHOUT = r"^[^.]*\d[^.]*$"
#: The number of cells checked first; they settle most columns.
FEW = 1000


@dataclass
class _Seen:
    """The state of a column: its first unclear cell, and whether some numbers have no dot."""

    row: int = 0
    cell: str = ""
    without: bool = False


class UnclearDots:
    """Checks the pieces of a file for columns of numbers that can be read in two ways.

    Parameters
    ----------
    source
        The file.
    columns
        The columns of numbers without a declared format.
    """

    def __init__(self, source: Source, columns: Iterable[str]) -> None:
        self._source = source
        self._seen = {name: _Seen() for name in columns}

    def look(self, batch: Any, start: int) -> None:
        """Check a piece whose first row of data is number `start` + 1."""
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
        """Return a problem for each column that remains unclear, at its first unclear row.

        Parameters
        ----------
        advice
            How to declare a format.
        """
        return [
            RowProblem(seen.row, name, f"{_readings(seen.cell)}; {advice}", "ambiguous-number")
            for name, seen in self._seen.items()
            if seen.row and (self._source.has_semicolons or seen.without)
        ]


def _is_clear(column: Any) -> bool:
    """Return whether some dot cannot separate thousands."""
    dotted = column.filter(pc.match_substring(column, "."))
    dotted = dotted.filter(pc.match_substring_regex(dotted, DOTTED))
    return not pc.all(pc.match_substring_regex(dotted, UNCLEAR), min_count=0).as_py()


def _readings(cell: str) -> str:
    """List the possible meanings of a cell.

    >>> _readings("2.750")
    '2.750 may be 2.75 (format = "1234.56") or 2750 (format = "1.234,56")'
    """
    decimal, thousands = float(cell), float(cell.replace(".", ""))
    return (
        f'{cell} may be {decimal:g} (format = "{PLAIN}") or {thousands:.0f} '
        f'(format = "{THOUSANDS}")'
    )
