"""Propose a role for a column of a file of units: a feature, a rule, a question, or left out."""

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.boolean import read_booleans
from seqbatch.campaign.files.column_name import Personal, is_code, personal, unlikely_id
from seqbatch.campaign.files.date_format import MANY_DAYS, YEARS, share_of_dates
from seqbatch.campaign.files.doubts import several_spellings
from seqbatch.campaign.files.number_format import (
    PLAIN,
    currencies,
    in_words,
    is_amount,
    no_numbers,
)
from seqbatch.campaign.files.profile import (
    CHECK,
    ColumnProfile,
    Habits,
    chosen_date,
    chosen_number,
    numbers_rows,
)
from seqbatch.campaign.files.stand_ins import days_for_missing, numbers_for_missing
from seqbatch.campaign.spec.consent import Consent, column_in_rule, consent_of, is_granted
from seqbatch.campaign.spec.eligibility import Kind
from seqbatch.campaign.spec.toml import quoted, value
from seqbatch.core.arrays import Bools, Floats
from seqbatch.display import counted, number
from seqbatch.errors import InvalidArgumentError

Became = Literal[
    "unit", "numeric", "date", "boolean", "categorical", "eligibility", "question", "left out"
]
#: The tables of features in a spec.
FEATURES = ("numeric", "date", "boolean", "categorical")
#: Why a column is left out, for programs.
LeftOut = Literal[
    "", "no-values", "one-value", "ids", "row-number", "text", "personal", "rare", "repeats",
    "formats", "unreadable", "unnamed", "reward", "requested", "not-chosen", "limit", "consent",
]  # fmt: skip

#: A category gets an indicator for each of at most this many levels, ...
MOST_LEVELS = 50
#: ... if they cover this share of its units; otherwise its levels are hashed into `CELLS` cells.
COVERED, CELLS = 0.8, 16
#: With at most this many distinct values a column describes units, even if most rows differ.
FEW = 10
#: Text with a longer average length is not a category, and a longer text is not a level.
LONG, LONGEST = 40, 200
#: Remarks may be a category, if they are few and their average length is at most this.
SHORT = 20
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
        For a question: the table that would hold the feature, or "eligibility".
    code
        Why the column is left out, for programs.
    rule, kind, consent
        For eligibility: its part of an action's rule, the type of its values, and what the column
        says about contact.
    """

    column: str
    became: Became
    setting: str = ""
    why: str = ""
    among: str = ""
    code: LeftOut = ""
    rule: str = ""
    kind: Kind | None = None
    consent: Consent | None = None

    @property
    def asks(self) -> bool:
        """Whether you should review it before creating the campaign."""
        return self.became in ("question", "eligibility") or CHECK in self.why

    def asked(self, question: str) -> "ColumnProposal":
        """Return the same feature or rule as a question."""
        return replace(self, became="question", why=question, among=self.became)


def left_out(column: str, code: LeftOut, why: str) -> ColumnProposal:
    """Return the proposal to leave a column out, with the reason."""
    return ColumnProposal(column, "left out", why=why, code=code)


def proposed(column: ColumnProfile, habits: Habits, *, today: date) -> ColumnProposal:
    """Propose a role for a column from its name and its values."""
    if (made := _useless(column)) or (made := _of_consent(column)):
        return made
    return _feature(column, habits, today, by_name=True)


def proposed_feature(column: ColumnProfile, habits: Habits, *, today: date) -> ColumnProposal:
    """Return the feature that a column makes which you chose; refuse a column that makes none."""
    made = _useless(column) or _feature(column, habits, today, by_name=False)
    if made.became == "left out":
        rule = "columns that can be features"
        raise InvalidArgumentError("columns", rule, f"{column.name}: {made.why}")
    return made


def proposed_as(
    kind: Became, column: ColumnProfile, habits: Habits, *, today: date
) -> ColumnProposal:
    """Return the role of a column that you declared to be of a kind, or say why it cannot be."""
    if kind == "left out":
        return left_out(column.name, "requested", "as requested")
    made = None
    if kind == "numeric" and column.numbers:
        made = _numeric(column, habits)
    elif kind == "date" and column.dates:
        made = _date(column, habits, today)
    elif kind == "boolean" and _is_boolean(column):
        made = _boolean(column)
    elif kind == "categorical" and column.readable and column.distinct:
        made = _categorical(column)
    elif kind == "eligibility" and column.readable and column.distinct:
        made = _rule(column, consent_of(column.name) or Consent(permits=True))
    if made is None:
        rule = f"a column that can be read as {kind}"
        values = f"values such as {_some(column)}" if column.distinct else "no values"
        raise InvalidArgumentError(f"features.{column.name}", rule, values)
    if made.became in ("left out", "question"):
        rule = "left out, or another column"
        raise InvalidArgumentError(f"features.{column.name}", rule, f"one that {made.why}")
    return made


def _feature(
    column: ColumnProfile, habits: Habits, today: date, *, by_name: bool
) -> ColumnProposal:
    """Propose a feature from a column's values; `by_name` leaves out personal details."""
    if _is_boolean(column):
        return _boolean(column)
    if column.dates:
        return _date(column, habits, today)
    if by_name and (kind := personal(column.name)) and _is_personal(column, kind):
        return left_out(column.name, "personal", f"{PERSONAL[kind]}, left out by default")
    if column.numbers and not (
        is_code(column.name) and _is_whole(column) and not _is_float(column)
    ):
        return _numeric(column, habits)
    if made := _mixed(column) or _wordy(column):
        return made
    if _is_float(column):
        return left_out(column.name, "unreadable", "has numbers that are not finite")
    return _categorical(column)


# ----------------------------------------------------------------------
# Columns that are not features: useless, personal, or about consent.


def _useless(column: ColumnProfile) -> ColumnProposal | None:
    """Return why a column cannot be a useful feature, or None if it may be one."""
    name = column.name
    if not 0 < len(name) <= 200:
        why = "a name must have 1 to 200 characters; rename the column to use it"
        return left_out(name, "unnamed", why)
    if not column.readable:
        return left_out(name, "unreadable", f"values of type {column.kind} cannot be features")
    if not column.distinct:
        return left_out(name, "no-values", "has no values")
    if column.distinct == 1 and not column.missing:
        why = f"has the same value in every row: {_short(column.example)}"
        return left_out(name, "one-value", why)
    return None


#: What a column of personal details holds.
PERSONAL: dict[Personal, str] = {
    "name": "a name", "salutation": "a salutation or title", "address": "an address",
    "e-mail": "an e-mail address", "phone": "a phone number", "remark": "free remarks",
}  # fmt: skip


def _is_personal(column: ColumnProfile, kind: Personal) -> bool:
    """Return whether the values look like what the name says: texts, and remarks not a category.

    A count of phones or the number of notes is a number, not a phone or a note.
    """
    if kind == "remark":
        few = column.distinct <= FEW and column.present > column.rows / 2
        wordy = not few or _mean_length(column) > SHORT
        return column.is_text and not column.numbers and wordy
    return kind in ("phone", "address") or (column.is_text and not column.numbers)


def _of_consent(column: ColumnProfile) -> ColumnProposal | None:
    """Return the rule that a column of consent proposes; None if it is not one."""
    if (consent := consent_of(column.name)) is None:
        return None
    if (made := _rule(column, consent)) is not None:
        return made
    if not consent.sure:
        return None
    why = (
        f"its name speaks of {consent.about}, but its values ({_some(column)}) are not yes or no; "
        f"{CHECK} may every unit be contacted? If not, write a rule in [eligible]"
    )
    return left_out(column.name, "consent", why)


def _rule(column: ColumnProfile, consent: Consent) -> ColumnProposal | None:
    """Return a column's part of an eligibility rule, or None if its values are not yes and no."""
    name = column_in_rule(column.name)
    if name is None:
        return None
    allowed = 0
    if (yes := _yes(column)) is not None:
        kind: Kind = "yes or no"
        agreed, denied = (int(column.counts[rows].sum()) for rows in (yes, ~yes))
        rule, allowed = (name, agreed) if consent.permits else (f"not {name}", denied)
        if not consent.permits and not denied:
            # Without a no, an empty cell is one.
            rule, allowed = f"{name} is missing", column.missing
    elif granted := _granted(column):
        kind = "text"
        listed = "', '".join(granted)
        rule = f"{name} in ['{listed}']"
        allowed = sum(int(column.counts[place]) for place in granted.values())
    elif _is_mark(column):
        kind = "text"
        rule, allowed = f"{name} is not missing", column.present
        if not consent.permits:
            rule, allowed = f"{name} is missing", column.empty
    else:
        return None
    excluded = 1 - allowed / column.rows
    why = f"excludes {excluded:.1%} of rows"
    if yes is not None and column.missing and not rule.endswith("missing"):
        why = f"{why} (no value in {column.missing / column.rows:.1%})"
    made = ColumnProposal(
        column.name, "eligibility", why=why, rule=rule, kind=kind, consent=consent
    )
    return made if allowed else made.asked("would exclude every row: what does the column mean?")


def _yes(column: ColumnProfile) -> Bools | None:
    """Return which distinct values mean yes; None if some mean neither yes nor no."""
    if column.distinct > MOST_SPELLINGS or pa.types.is_temporal(column.values.type):
        return None
    values, wrong = read_booleans(column.values).values_and_wrong()
    return None if wrong else values > 0


def _granted(column: ColumnProfile) -> dict[str, int]:
    """Return the texts of a status that permit contact, each with its place among the values."""
    if column.distinct > MOST_SPELLINGS or not column.is_text:
        return {}
    texts = enumerate(column.values.to_pylist())
    return {text: place for place, text in texts if is_granted(text) and "'" not in text}


def _is_mark(column: ColumnProfile) -> bool:
    """Return whether a cell is either empty or marked: by one text such as X, or by a date."""
    kind = column.values.type
    stored = column.is_text or pa.types.is_integer(kind) or pa.types.is_date(kind)
    return stored and column.empty > 0 and not column.words and bool(
        column.distinct == 1 or column.dates
    )  # fmt: skip


# ----------------------------------------------------------------------
# Features.


def _is_boolean(column: ColumnProfile) -> bool:
    """Return whether every value means yes or no, and both occur."""
    yes = _yes(column)
    return yes is not None and bool(yes.any() and not yes.all())


def _boolean(column: ColumnProfile) -> ColumnProposal:
    if made := _nearly_constant(column):
        return made
    text, share = column.example, column.counts.max() / column.present
    why = f"yes or no, {_short(text)} in {share:.0%} of rows"
    if not column.missing:
        return ColumnProposal(column.name, "boolean", '"refuse"', why)
    why = f"{why}; {_missing(column)} a level"
    return ColumnProposal(column.name, "boolean", '"level"', why)


def _nearly_constant(column: ColumnProfile) -> ColumnProposal | None:
    """Return why a category tells nothing: too few rows differ from its most frequent value."""
    differ = column.rows - max(int(column.counts.max()), column.empty, *column.words.values(), 0)
    if differ >= _least(column):
        return None
    what = "is empty" if column.counts.max() < column.rows / 2 else f"is {_short(column.example)}"
    return left_out(column.name, "one-value", f"{what} in all but {counted(differ, 'row')}")


def _least(column: ColumnProfile) -> int:
    """Return how many rows a level needs."""
    return min(LEAST, column.rows // 200)


def _date(column: ColumnProfile, habits: Habits, today: date) -> ColumnProposal:
    way, remark = chosen_date(column, habits)
    days = way.days(column.values)
    gone = days_for_missing(days, column.counts, column.rows)
    stood = np.isin(days, [(day - date(1970, 1, 1)).days for day in gone])
    there = days[~stood]
    if there.min() == there.max():
        return left_out(column.name, "one-value", "has only one date, and missing values")
    first, last = (date(1970, 1, 1) + timedelta(int(day)) for day in (there.min(), there.max()))
    settings: dict[str, Any] = {"format": way.format, "parts": ["days"]}
    why = [f"{first} to {last}"]
    if "%y" in way.format:
        why.append("years 69 to 99 are read as 1969 to 1999, 00 to 68 as 2000 to 2068")
    if column.missing or gone:
        settings["missing"] = "median"
        why.append(f"{_missing(column, stood)} the median")
    if gone:
        settings["missing_values"] = gone
    late = int(column.counts[(days > (today - date(1970, 1, 1)).days) & ~stood].sum())
    future = f"{CHECK} {counted(late, 'date')} after {today}" if late else ""
    odd = _stood(column, [str(day) for day in gone], stood)
    return ColumnProposal(column.name, "date", value(settings), _joined(*why, remark, odd, future))


def _stood(column: ColumnProfile, gone: list[str], stood: Bools) -> str:
    """Return a remark about values that stand for a missing one."""
    if not gone:
        return ""
    share = column.counts[stood].sum() / column.rows
    return (
        f"{CHECK} {' and '.join(gone)} in {share:.1%} of rows may stand for a missing value; "
        "missing_values counts it as one"
    )


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
    gone = numbers_for_missing(way.numbers, column.counts, column.rows)
    stood = np.isin(way.numbers, gone)
    there, counts = way.numbers[~stood], column.counts[~stood]
    low, high = float(there.min()), float(there.max())
    if numbers_rows(way.numbers, column.codes):
        return left_out(column.name, "row-number", "is a row number")
    if low == high:
        return left_out(column.name, "one-value", "has only one number, and missing values")
    if unlikely_id(column.name) == 0 and _is_whole(column) and (made := _like_an_id(column)):
        return made
    settings: dict[str, Any] = {"scale": "learn"}
    said = [_extent(low, high), in_words(way.example)]
    if column.missing or gone:
        settings["missing"] = "median"
        said.append(f"{_missing(column, stood)} the median")
    if gone:
        settings["missing_values"] = [int(each) for each in gone]
    if way.example or remark:
        # An ambiguous column is refused unless the spec declares its format.
        settings["format"] = way.example or PLAIN
    said.append(_tail(there, counts))
    odd = _stood(column, [f"{each:.0f}" for each in gone], stood)
    text = '"learn"' if len(settings) == 1 else value(settings)
    return ColumnProposal(column.name, "numeric", text, _joined(*said, remark, odd))


def _tail(numbers: Floats, counts: Any) -> str:
    """Return a remark about a long tail of positive numbers."""
    order = np.argsort(numbers)
    reached = np.cumsum(counts[order])
    median = float(numbers[order[int(np.searchsorted(reached, reached[-1] / 2))]])
    if median <= 0 or numbers.min() < 0 or numbers.max() < TAIL * median:
        return ""
    return (
        f"long tail: the largest is {number(numbers.max() / median, 2)} times the median; the "
        "default clip limits it, but a logarithm may be better"
    )


def _mixed(column: ColumnProfile) -> ColumnProposal | None:
    """Return the problem of a text column that holds mostly numbers or dates."""
    if not column.is_text or column.numbers or is_code(column.name) or column.distinct < 3:
        return None
    if share_of_dates(column.texts) > MOSTLY:
        why = f"dates in more than one format, such as {_some(column)}; convert them to one format"
        return left_out(column.name, "formats", why)
    if made := _nearly_dates(column):
        return made
    several = currencies(column.texts)
    if len(several) > 1 and all(is_amount(text) for text in several):
        why = f"amounts in {', '.join(several)}; convert them to one currency or unit"
        return left_out(column.name, "formats", why)
    share, odd = no_numbers(column.texts) if not column.has_leading_zeros else (1.0, [])
    if share < 1 - MOSTLY:
        some = ", ".join(_short(text) for text in odd)
        why = f"numbers, except for cells such as {some}; correct those cells to use the column"
        return left_out(column.name, "formats", why)
    return None


def _nearly_dates(column: ColumnProfile) -> ColumnProposal | None:
    """Return the problem of dates of eight digits, except for cells such as 00000000."""
    dates = pc.match_substring_regex(column.texts, YEARS)
    if column.distinct < MANY_DAYS or pc.mean(dates).as_py() <= MOSTLY:
        return None
    odd = ", ".join(_short(text) for text in column.texts.filter(pc.invert(dates))[:3].to_pylist())
    why = f"dates, except for cells such as {odd}; leave those cells empty to use the column"
    return left_out(column.name, "formats", why)


def _wordy(column: ColumnProfile) -> ColumnProposal | None:
    """Return why values are not a category: they are unique to each unit, or prose."""
    longest = int(pc.max(pc.utf8_length(column.texts)).as_py())
    if _mean_length(column) > LONG or longest > LONGEST:
        return left_out(column.name, "text", "free text")
    return _like_an_id(column)


def _mean_length(column: ColumnProfile) -> float:
    lengths = pc.utf8_length(column.texts).to_numpy(zero_copy_only=False)
    return float(np.average(lengths, weights=column.counts))


def _like_an_id(column: ColumnProfile) -> ColumnProposal | None:
    """Return why a column identifies units rather than describing them, or None."""
    if column.distinct == column.present and column.present > 2:
        why = "like an id: a different value in every row"
        if column.missing:
            why = f"like an id: a different value in each of {counted(column.present, 'row')}"
        return left_out(column.name, "ids", why)
    if column.distinct > max(FEW, column.present / 2):
        why = f"like an id: {column.distinct:,} values in {counted(column.present, 'row')}"
        return left_out(column.name, "ids", why)
    return None


def _categorical(column: ColumnProfile) -> ColumnProposal:
    if made := _nearly_constant(column):
        return made
    least = _least(column)
    order = column.by_count[:MOST_LEVELS]
    order = order[column.counts[order] >= least]
    covered = int(column.counts[order].sum())
    if column.distinct > MOST_LEVELS and covered < COVERED * column.present:
        if unlikely_id(column.name) == 0:
            why = f"like an id: {column.distinct:,} values in {counted(column.present, 'row')}"
            return left_out(column.name, "ids", why)
        many = f"{column.distinct:,} values, too many for indicators: hashed into {CELLS} cells"
        rules: dict[str, Any] = {"hash": CELLS} | ({"missing": "level"} if column.empty else {})
        return ColumnProposal(column.name, "categorical", value(rules), many)
    counts = {str(column.values[place].as_py()): int(column.counts[place]) for place in order}
    # A word that often marks a missing value is a level like any other if it is frequent enough.
    words = {text: count for text, count in column.words.items() if count >= least}
    levels = sorted(counts | words, key=(counts | words).__getitem__, reverse=True)
    there = column.distinct + len(column.words)
    if not levels:
        rare = f"{counted(there, 'value')}, none of them in {least} rows or more"
        return left_out(column.name, "rare", rare)
    settings: dict[str, Any] = {"levels": levels}
    if least > 1:
        settings["least"] = least
    settings["other"] = True
    reasons = [f"{counted(there, 'level')}, the most frequent first"]
    if words:
        reasons.append(f"kept as a level: {', '.join(map(_short, words))}")
    if there > len(levels):
        rarer = column.rows - column.empty - covered - sum(words.values())
        reasons.append(f"rarer levels ({counted(rarer, 'row')}) count as other")
    if column.empty:
        settings["missing"] = "level"
        reasons.append(f"{_missing(column)} a separate level")
    if spelled := several_spellings(map(str, column.values.take(column.by_count).to_pylist())):
        reasons.append(f"{CHECK} {spelled}; use one spelling in the file")
    return ColumnProposal(column.name, "categorical", value(settings), _joined(*reasons))


def _is_whole(column: ColumnProfile) -> bool:
    own = column.numbers[0].numbers
    return not column.numbers[0].example and bool((own == np.round(own)).all())


def _is_float(column: ColumnProfile) -> bool:
    return bool(pa.types.is_floating(column.values.type))


def _missing(column: ColumnProfile, stood: Bools | None = None) -> str:
    gone = column.missing + (0 if stood is None else int(column.counts[stood].sum()))
    return f"missing values ({gone / column.rows:.1%}) get"


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
