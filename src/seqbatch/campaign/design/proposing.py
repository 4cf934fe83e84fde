"""What becomes of a column: a feature by a rule of its own, a question, or nothing, and why."""

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.identifying import numbers_rows
from seqbatch.campaign.design.looking import Column
from seqbatch.campaign.design.names import is_code, unlikely_id
from seqbatch.campaign.design.number_format import PLAIN
from seqbatch.campaign.design.spelled_dates import share_of_dates
from seqbatch.campaign.design.spelled_numbers import (
    currencies,
    in_words,
    is_amount,
    no_numbers,
)
from seqbatch.campaign.design.spellings import several_spellings
from seqbatch.campaign.design.ways import (
    CHECK,
    Habits,
    Ways,
    chosen_date,
    chosen_number,
    has_leading_zeros,
)
from seqbatch.campaign.design.written import quoted, value
from seqbatch.campaign.tables.booleans import read_booleans
from seqbatch.core.arrays import Floats
from seqbatch.display import counted, number
from seqbatch.errors import InvalidArgumentError

Became = Literal["unit", "numeric", "date", "boolean", "categorical", "question", "left out"]

#: A category gets an indicator for each of this many levels at most, ...
MOST_LEVELS = 50
#: ... if these levels have this share of its units; else its levels are hashed into `CELLS`.
COVERED, CELLS = 0.8, 16
#: So few values describe units even where most rows have one of their own.
FEW = 10
#: Text of more characters than this, on average, is no category; nor is a longer level.
LONG, LONGEST = 40, 200
#: A level of fewer units than this goes to `other`, in files of some thousand units.
LEAST = 20
#: A largest number so many times the median is a long tail.
TAIL = 50
#: Where this share of values fits a format, the others are mistakes.
MOSTLY = 0.8
#: More spellings of yes and no than this are not looked at.
MOST_SPELLINGS = 8


@dataclass(frozen=True)
class Proposal:
    """What becomes of a column.

    Parameters
    ----------
    column
        Its name.
    became
        The table of the spec that it is in; or what it is instead of a feature.
    setting
        The value of its setting, as TOML; "" where it has none.
    why
        The reason, as a comment.
    among
        For a question: the table that the feature would be in.
    """

    column: str
    became: Became
    setting: str = ""
    why: str = ""
    among: str = ""

    @property
    def asks(self) -> bool:
        """Whether a person should look at it before the campaign is created."""
        return self.became == "question" or CHECK in self.why

    def asked(self, question: str) -> "Proposal":
        """Return the same feature as a question."""
        return replace(self, became="question", why=question, among=self.became)


def proposed(ways: Ways, habits: Habits, *, today: date) -> Proposal:
    """Return what becomes of a column by its values alone, and by what is in the future."""
    column = ways.column
    if why := _useless(column):
        return Proposal(column.name, "left out", why=why)
    if _is_boolean(column):
        return _boolean(column)
    if ways.dates:
        return _date(ways, habits, today)
    if ways.numbers and not (is_code(column.name) and _is_whole(ways) and not _is_float(column)):
        return _numeric(ways, habits)
    if why := _mixed(column, ways) or _wordy(column):
        return Proposal(column.name, "left out", why=why)
    if _is_float(column):
        return Proposal(column.name, "left out", why="has numbers that are not finite")
    return _categorical(column)


def proposed_as(kind: Became, ways: Ways, habits: Habits, *, today: date) -> Proposal:
    """Return what becomes of a column that somebody takes for a kind, or say why it cannot be."""
    column = ways.column
    if kind == "left out":
        return Proposal(column.name, kind, why="as asked for")
    if kind == "numeric" and ways.numbers:
        made = _numeric(ways, habits)
    elif kind == "date" and ways.dates:
        made = _date(ways, habits, today)
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


def _useless(column: Column) -> str:
    """Return why a column can tell nothing, "" where it may."""
    if not 0 < len(column.name) <= 200:
        return "a name must have 1 to 200 characters; rename the column to use it"
    if not column.readable:
        return f"values of type {column.kind} cannot be features"
    if not column.distinct:
        return "has no values"
    if column.distinct == 1 and not column.missing:
        return f"has the same value in every row: {_short(column.example)}"
    return ""


def _is_boolean(column: Column) -> bool:
    """Say whether there are a yes and a no, and nothing else."""
    if column.distinct > MOST_SPELLINGS or pa.types.is_temporal(column.values.type):
        return False
    read = read_booleans(column.values)
    return not read.wrong and len(set(read.values.tolist())) == 2


def _boolean(column: Column) -> Proposal:
    text, share = column.example, column.counts.max() / column.present
    why = f"yes or no, {_short(text)} in {share:.0%} of rows"
    if not column.missing:
        return Proposal(column.name, "boolean", '"refuse"', why)
    return Proposal(column.name, "boolean", '"level"', f"{why}; {_missing(column)} a level")


def _date(ways: Ways, habits: Habits, today: date) -> Proposal:
    column = ways.column
    way, remark = chosen_date(ways, habits)
    days = way.days(column.values)
    if days.min() == days.max():
        return Proposal(column.name, "left out", why="has one date and gaps")
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
    return Proposal(column.name, "date", value(settings), _joined(*why, remark, future))


def _extent(low: float, high: float) -> str:
    """Return a column's smallest and largest number; years are written as years are.

    >>> _extent(1893.0, 2005.0), _extent(0.0, 2005.0)
    ('1893 to 2005', '0 to 2,005')
    """
    if 1500 <= low <= high <= 2200 and low.is_integer() and high.is_integer():
        return f"{low:.0f} to {high:.0f}"
    return f"{number(low)} to {number(high)}"


def _numeric(ways: Ways, habits: Habits) -> Proposal:
    column = ways.column
    way, remark = chosen_number(ways, habits)
    low, high = float(way.numbers.min()), float(way.numbers.max())
    if numbers_rows(way.numbers, column.codes):
        return Proposal(column.name, "left out", why="counts the rows of the file")
    if low == high:
        return Proposal(column.name, "left out", why="has one number and gaps")
    if unlikely_id(column.name) == 0 and _is_whole(ways) and (why := _like_an_id(column)):
        return Proposal(column.name, "left out", why=why)
    settings: dict[str, Any] = {"scale": "learn"}
    said = [_extent(low, high), in_words(way.example)]
    if column.missing:
        settings["missing"] = "median"
        said.append(f"{_missing(column)} the median")
    if way.example or remark:
        # Where cells can be read in two ways a file is refused unless the spec says which.
        settings["format"] = way.example or PLAIN
    said.append(_tail(way.numbers, column))
    text = '"learn"' if len(settings) == 1 else value(settings)
    return Proposal(column.name, "numeric", text, _joined(*said, remark))


def _tail(numbers: Floats, column: Column) -> str:
    """Return what there is to say of a long tail of positive numbers."""
    order = np.argsort(numbers)
    reached = np.cumsum(column.counts[order])
    median = float(numbers[order[int(np.searchsorted(reached, column.present / 2))]])
    if median <= 0 or numbers.min() < 0 or numbers.max() < TAIL * median:
        return ""
    return (
        f"long tail: the largest is {number(numbers.max() / median, 2)} times the median; the "
        "default clip holds it, a logarithm may be better"
    )


def _mixed(column: Column, ways: Ways) -> str:
    """Return what is wrong with a column of text that is mostly numbers or dates."""
    if not column.is_text or ways.numbers or is_code(column.name) or column.distinct < 3:
        return ""
    if share_of_dates(column.texts) > MOSTLY:
        return f"dates in more than one format, such as {_some(column)}; use one, or repair them"
    several = currencies(column.texts)
    if len(several) > 1 and all(is_amount(text) for text in several):
        return f"amounts in {', '.join(several)}; convert them to one currency or unit"
    share, odd = no_numbers(column.texts) if not has_leading_zeros(column) else (1.0, [])
    if share < 1 - MOSTLY:
        some = ", ".join(_short(text) for text in odd)
        return f"numbers but for some cells, such as {some}; repair them to use it"
    return ""


def _wordy(column: Column) -> str:
    """Return why values are no category: every unit has its own, or they are prose."""
    lengths = pc.utf8_length(column.texts).to_numpy(zero_copy_only=False)
    if float(np.average(lengths, weights=column.counts)) > LONG or lengths.max() > LONGEST:
        return "free text"
    return _like_an_id(column)


def _like_an_id(column: Column) -> str:
    """Return why a column tells units apart rather than describing them, "" where it does not."""
    if column.distinct == column.present and column.present > 2:
        return "like an id: a different value in every row"
    if column.distinct > max(FEW, column.present / 2):
        return f"like an id: {column.distinct:,} values in {counted(column.present, 'row')}"
    return ""


def _categorical(column: Column) -> Proposal:
    least = min(LEAST, column.rows // 200)
    order = column.by_count[:MOST_LEVELS]
    order = order[column.counts[order] >= least]
    covered = int(column.counts[order].sum())
    if column.distinct > MOST_LEVELS and covered < COVERED * column.present:
        many = f"{column.distinct:,} values, too many for indicators: hashed into {CELLS} cells"
        rules: dict[str, Any] = {"hash": CELLS} | ({"missing": "level"} if column.empty else {})
        return Proposal(column.name, "categorical", value(rules), many)
    counts = {str(column.values[place].as_py()): int(column.counts[place]) for place in order}
    # What often means that nothing is known is a level like others where it is written out.
    words = {text: count for text, count in column.words.items() if count >= least}
    levels = sorted(counts | words, key=(counts | words).__getitem__, reverse=True)
    settings: dict[str, Any] = {"levels": levels}
    if least > 1:
        settings["least"] = least
    settings["other"] = True
    there = column.distinct + len(column.words)
    why = [f"{counted(there, 'level')}, the most frequent first"]
    if words:
        why.append(f"{', '.join(map(_short, words))} counts as a level")
    if there > len(levels):
        rarer = column.rows - column.empty - covered - sum(words.values())
        why.append(f"{counted(rarer, 'row')} of rarer ones go to other")
    if column.empty:
        settings["missing"] = "level"
        why.append(f"{_missing(column)} a level of their own")
    if spelled := several_spellings(map(str, column.values.take(column.by_count).to_pylist())):
        why.append(f"{CHECK} {spelled}; spell them alike in the file")
    return Proposal(column.name, "categorical", value(settings), _joined(*why))


def _is_whole(ways: Ways) -> bool:
    own = ways.numbers[0].numbers
    return not ways.numbers[0].example and bool((own == np.round(own)).all())


def _is_float(column: Column) -> bool:
    return bool(pa.types.is_floating(column.values.type))


def _missing(column: Column) -> str:
    return f"missing ones ({column.missing / column.rows:.1%}) get"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _short(text: str) -> str:
    return quoted(text[:40] + ("..." if len(text) > 40 else ""))


def _some(column: Column) -> str:
    """Return some values that differ in shape."""
    shapes: dict[str, str] = {}
    for text in column.texts[:2000].to_pylist():
        shape = "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in text)
        shapes.setdefault(shape, text)
    return ", ".join(_short(text) for text in list(shapes.values())[:3])
