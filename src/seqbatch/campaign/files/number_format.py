"""Number formats: declare one by an example, read columns with it, or detect it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from seqbatch.campaign.files.column_values import (
    Read,
    Reason,
    every,
    is_text,
    means_missing,
    missing_rows,
    refused,
    undictionaried,
)
from seqbatch.campaign.spec.input_limits import LARGEST_ENCODED, LARGEST_NUMBER
from seqbatch.core.arrays import Floats

# ----------------------------------------------------------------------
# The format of numbers in a file, declared by an example such as ``"1.234,56 EUR"``.
#
# The example shows the decimal mark and the thousands separator, whether numbers are percentages,
# how negative numbers look besides a leading minus, and which currency may accompany a number. A
# cell must fit the format as a whole, or it is refused: nothing is guessed from the cells.
#
# Cells may omit the thousands separator and the currency. They may not omit a percent sign, since
# the same digits without it may mean a hundred times as much. A leading sign and an exponent
# always fit.


#: Spaces that separate thousands in files; all of them are read as the plain space.
SPACES = "\u00a0\u2007\u2009\u202f"
#: Characters with several variants, and the variant that they are read as.
SAME = {**dict.fromkeys(SPACES, " "), "\u2212": "-", "\u2019": "'"}
#: Thousands separators and decimal marks.
MARKS = ".,' "
#: A complete number, with separators and a decimal mark.
DIGITS = re.compile(r"\d(?:[\d.,' ]*\d)?")
#: Characters that may come before and after the digits of a number.
SIGNS = "+-()"
#: Examples with a dot as the decimal mark, and with dots as thousands separators.
PLAIN, THOUSANDS = "1234.56", "1.234,56"
RULE = (
    "an example of a number as written in the file, such as 1.234,56 or 1,234.56 $ or 12,5 % or "
    "1234,56- or (1,234.56)"
)


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """A format of numbers.

    Parameters
    ----------
    example
        The example as it was declared.
    decimal, thousands
        The decimal mark and the thousands separator; "" if the format has none.
    percent
        Whether numbers have a percent sign and are divided by 100.
    trailing, brackets
        Whether ``5-`` and ``(5)`` are negative; ``-5`` always is.
    currency
        The text allowed before or after the number; "" for none.

    Examples
    --------
    >>> form = NumberFormat.of("1.234,56 EUR")
    >>> form.decimal, form.thousands, form.currency
    (',', '.', 'EUR')
    >>> form.read("EUR -12.000,5"), form.read("1.5")
    (-12000.5, None)
    """

    example: str
    decimal: str = ""
    thousands: str = ""
    percent: bool = False
    trailing: bool = False
    brackets: bool = False
    currency: str = ""

    @classmethod
    def of(cls, example: str) -> "NumberFormat":
        """Return the format that an example shows; refuse an unclear or ambiguous example."""
        text = plain(example)
        brackets = text.startswith("(") and text.endswith(")")
        found = DIGITS.findall(text)
        if len(found) != 1 or text.count("%") > 1:
            raise ValueError(f"a format must be {RULE}; received {example[:60]!r}")
        before, after = text[brackets : len(text) - brackets].split(found[0])
        trailing, percent = "-" in after, "%" in before + after
        words = [part.replace("%", "").strip(" +-") for part in (before, after)]
        currency = "".join(words)
        if all(words) or len(currency) > 20 or re.search(r"[()\d]|^[eE]$", currency):
            raise ValueError(f"a format must be {RULE}; received {example[:60]!r}")
        decimal, thousands = _marks(found[0], example)
        return cls(
            example=example,
            decimal=decimal,
            thousands=thousands,
            percent=percent,
            trailing=trailing,
            brackets=brackets,
            currency=currency,
        )

    @property
    def pattern(self) -> str:
        """The regular expression of a cell after :func:`plain`, for RE2 and for Python."""
        money = f"(?:{_quoted(self.currency)})?" if self.currency else ""
        whole = r"\d+"
        if self.thousands:
            whole = rf"(?:\d+|\d{{1,3}}(?:{_quoted(self.thousands)}\d{{3}})+)"
        if self.decimal:
            whole = rf"(?:{whole}(?:{_quoted(self.decimal)}\d+)?|{_quoted(self.decimal)}\d+)"
        number = rf"{whole}(?:[eE][+-]?\d{{1,3}})? *{'%' if self.percent else ''}"
        # Sign and currency may come in either order, with or without spaces.
        forms = [rf"(?:[+-] *{money}|{money} *[+-]?) *{number} *{money}"]
        if self.trailing:
            forms.append(rf"{money} *{number} *(?:- *{money}|{money} *-)")
        if self.brackets:
            forms.append(rf"\( *{money} *{number} *{money} *\)")
            forms.append(rf"{money} *\( *{number} *\) *{money}")
        return f"^(?:{'|'.join(forms)})$"

    @property
    def dropped(self) -> tuple[str, ...]:
        """The texts to remove from a matching cell, in this order, to leave digits and signs."""
        return tuple(text for text in (self.currency, self.thousands, " ", "%") if text)

    def read(self, cell: str) -> float | None:
        """Return the number in one cell, or None if the cell does not fit."""
        text = plain(cell)
        # RE2, which reads the columns, does not accept digits of other scripts.
        if not re.fullmatch(self.pattern, text, re.ASCII):
            return None
        for each in self.dropped:
            text = text.replace(each, "")
        size = float(text.strip(SIGNS).replace(self.decimal or ".", "."))
        size = size / 100 if self.percent else size
        return -size if text[0] in "-(" or text[-1] == "-" else size

    def wider_for(self, cell: str) -> tuple[str, ...]:
        """Return the example with which a cell could be read as well, if it is a negative number.

        Only the notation of negative numbers is widened; no other meaning of a cell is guessed.

        >>> NumberFormat.of("$1,234.56").wider_for("($25.50)")
        ('($1,234.56)',)
        >>> NumberFormat.of("$1,234.56").wider_for("25.50-"), NumberFormat.of("5").wider_for("(x)")
        (('$1,234.56-',), ())
        """
        text = plain(self.example)
        bracketed, trailing = f"({text})", f"{text[:-1]}-)" if self.brackets else f"{text}-"
        examples = [*([] if self.brackets else [bracketed]), *([] if self.trailing else [trailing])]
        accepting = (each for each in examples if NumberFormat.of(each).read(cell) is not None)
        return tuple(accepting)


def _marks(digits: str, example: str) -> tuple[str, str]:
    """Return the decimal mark and the thousands separator of an example."""
    kinds = list(dict.fromkeys(character for character in digits if character in MARKS))
    groups = re.split(f"[{MARKS}]", digits)
    last = kinds[-1] if kinds else ""
    if len(kinds) == 2 and digits.count(last) == 1 and last in ".,":
        decimal, thousands = last, kinds[0]
        groups = groups[:-1]
    elif len(kinds) == 1 and (last in " '" or digits.count(last) > 1):
        decimal, thousands = "", last
    elif len(kinds) == 1 and not (len(groups[0]) <= 3 and len(groups[1]) == 3):
        return last, ""
    elif not kinds:
        return "", ""
    else:
        raise ValueError(
            f"a format must show how thousands and decimals are separated; {example[:60]!r} "
            "does not. Give a number with both, such as 1.234,56 or 1,234.56"
        )
    if any(len(group) != 3 for group in groups[1:]) or len(groups[0]) > 3:
        raise ValueError(
            f"a format must have three digits between thousands separators; received {example!r}"
        )
    return decimal, thousands


def _quoted(text: str) -> str:
    """Escape a text for use as a pattern, in RE2 and in Python."""
    return "".join(c if c.isalnum() else f"\\{c}" if c.isascii() else c for c in text)


def plain(cell: str) -> str:
    """Trim a cell, and replace variants of spaces, signs and separators by one form.

    >>> plain(" 1\u202f234,5 \u2212")
    '1 234,5 -'
    """
    return re.sub(f"[{''.join(SAME)}]", lambda found: SAME[found[0]], cell).strip()


def _shows_a_format(example: str) -> str:
    NumberFormat.of(example)
    return example


#: A number format in a spec.
NumberExample = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_shows_a_format)]


# ----------------------------------------------------------------------
# Read a column of numbers, with the reason for each row that cannot be read.


#: The reason for a number too large to sum or to use in the model.
TOO_LARGE = f"must be finite and below {LARGEST_NUMBER:g} in size"
TOO_LARGE_ENCODED = f"must be below {LARGEST_ENCODED:g} in size as the model takes it"
#: The code of a text that is not a number.
NO_NUMBER = "not-a-number"


def numbers(column: Any, *, form: NumberFormat | None = None) -> tuple[Floats, dict[int, str]]:
    """Return a column as finite numbers, and the problem of each unreadable or missing row.

    Parameters
    ----------
    column
        Numbers of any Arrow type, which are used unchanged, or text.
    form
        The format of numbers in text; None for plain numbers: ``-1234.5`` or ``1e3``.
    """
    read = read_numbers(column, form=form)
    values, wrong = read.values_and_wrong()
    return values, wrong | missing_rows(read.missing) if read.missing.any() else wrong


def read_numbers(column: Any, *, form: NumberFormat | None = None) -> Read:
    """Return a column as finite numbers; see :func:`numbers`."""
    column = undictionaried(column)
    kind = column.type
    if is_text(kind):
        return _spelled(column, form) if form else _parsed_numbers(column)
    if pa.types.is_null(kind):
        return Read(np.zeros(len(column)), np.ones(len(column), dtype=np.bool_), {})
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not holds_numbers(kind):
        nobody = np.zeros(len(column), dtype=np.bool_)
        values = np.full(len(column), np.nan)
        reason = Reason("must be numbers", f"; received {kind}", "wrong-type")
        return Read(values, nobody, every(column, reason))
    # Nulls become NaN: programs use both for a missing number.
    found = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    missing = np.isnan(found)
    values = np.where(missing, 0.0, found) if missing.any() else found
    return Read(values, missing, _unfit(values))


def holds_numbers(kind: Any) -> bool:
    """Return whether values of a type are numbers or can be read as numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or is_text(kind)
    )


def _parsed_numbers(column: Any) -> Read:
    """Read plain numbers, such as -1234.5 or 1e3."""
    empty = pc.equal(pc.binary_length(column), 0).fill_null(True)
    try:
        values = pc.if_else(empty, None, column).cast(pa.float64()).fill_null(0.0)
    except pa.ArrowInvalid:
        return _parsed_with_care(column)
    found = values.to_numpy(zero_copy_only=False)
    if not np.isfinite(found).all():
        return _parsed_with_care(column)
    return Read(found, empty.to_numpy(zero_copy_only=False), _unfit(found))


def _parsed_with_care(column: Any) -> Read:
    """Read plain numbers one by one: some are missing, have spaces around them, or are none."""
    import polars as pl

    trimmed = pc.utf8_trim_whitespace(column)
    missing = means_missing(trimmed)
    text = pl.from_arrow(trimmed)
    assert isinstance(text, pl.Series)
    parsed = text.cast(pl.Float64, strict=False)
    values = parsed.fill_null(0.0).to_numpy()
    if missing.any():
        values = np.where(missing, 0.0, values)
    unread = parsed.is_null().to_numpy() & ~missing
    wrong = refused(trimmed, unread, "must be a number", _number_remedy, NO_NUMBER)
    return Read(values, missing, {**_unfit(values), **wrong})


def _number_remedy(cell: str) -> str:
    """Suggest a setting that would accept a cell that is not a plain number, if there is one."""
    formats = " or ".join(f'format = "{example}"' for example in number_formats_for(cell))
    return f"; {formats} would accept it" if formats else ""


def _widening(form: NumberFormat, cell: str) -> str:
    """Suggest a setting that would also accept a negative number, if a cell looks like one."""
    formats = " or ".join(f'format = "{example}"' for example in form.wider_for(cell))
    return f"; it looks like a negative number: {formats} would accept it, too" if formats else ""


def _spelled(column: Any, form: NumberFormat) -> Read:
    """Read numbers in this file's format: :meth:`NumberFormat.read` for a column."""
    text = _plain_column(column)
    missing = means_missing(text)
    fits = pc.match_substring_regex(text, form.pattern)
    fit = fits.fill_null(False).to_numpy(zero_copy_only=False) & ~missing
    bare = pc.if_else(pa.array(fit), text, "0")
    for each in form.dropped:
        bare = pc.replace_substring(bare, each, "")
    negative = pc.or_(
        pc.or_(pc.starts_with(bare, "-"), pc.starts_with(bare, "(")), pc.ends_with(bare, "-")
    )
    digits = pc.utf8_trim(bare, characters=SIGNS)
    if form.decimal:
        digits = pc.replace_substring(digits, form.decimal, ".")
    values = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    values = values / 100 if form.percent else values
    values = np.where(negative.to_numpy(zero_copy_only=False), -values, values)
    rule = f"must be a number written like {form.example}"
    wrong = refused(text, ~fit & ~missing, rule, partial(_widening, form), NO_NUMBER)
    return Read(values, missing, {**_unfit(values), **wrong})


def _plain_column(column: Any) -> Any:
    """Trim texts, and replace variants of spaces, signs and separators by one form."""
    for spelling, meant in SAME.items():
        column = pc.replace_substring(column, spelling, meant)
    return pc.utf8_trim_whitespace(column)


def _unfit(values: Floats) -> dict[int, str]:
    # One pass finds NaN, infinity and overflow: a comparison with NaN is false.
    if not len(values) or (values.min() > -LARGEST_NUMBER and values.max() < LARGEST_NUMBER):
        return {}
    return {
        int(row): Reason(TOO_LARGE, f"; received {values[row]}", "out-of-range")
        for row in np.flatnonzero(~(np.abs(values) < LARGEST_NUMBER))
    }


# ----------------------------------------------------------------------
# Suggest formats that accept a cell, or as many as possible of some cells.


#: Examples with thousands separators, in the order in which they are suggested.
PARTED = (THOUSANDS, "1,234.56", "1 234,56", "1 234.56", "1'234.56")


@lru_cache(maxsize=1024)
def number_formats_for(cell: str) -> tuple[str, ...]:
    """Return examples of the usual formats that accept a cell.

    If there are several, the cell is ambiguous.

    >>> number_formats_for("1.234,5 EUR"), number_formats_for("1,234")
    (('1.234,56 EUR',), ('1.234,56', '1,234.56'))
    >>> number_formats_for("(12.5)"), number_formats_for("x")
    (('(1,234.56)',), ())
    """
    text = plain(cell)[:60]
    currency = " ".join(re.findall(r"[^\W\d_]+|[$€£¥₹]", text))
    found: dict[float, str] = {}
    for digits in PARTED:
        example = digits + (" %" if "%" in text else "")
        example += f" {currency}" if 0 < len(currency) <= 20 and currency not in "eE" else ""
        if text.endswith("-"):
            example += "-"
        elif "(" in text:
            example = f"({example})"
        number = NumberFormat.of(example).read(cell)
        if number is not None:
            found.setdefault(number, example)
    return tuple(found.values())


def formats_for_most(cells: list[str], declared: str | None = None) -> list[str]:
    """Return the formats that accept the most cells; only extensions of `declared` if given.

    >>> formats_for_most(["1.234,50 EUR", "310,00 EUR", "1,500 EUR", "none yet"])
    ['1.234,56 EUR']
    >>> formats_for_most(["$1,234.50", "$25.00", "($12.50)"])
    ['(1,234.56 $)']
    >>> formats_for_most(["($12.50)", "12 EUR"], "$1,234.56")
    ['($1,234.56)']
    """
    accepting = number_formats_for if declared is None else NumberFormat.of(declared).wider_for
    examples = dict.fromkeys(example for cell in cells for example in accepting(cell))
    counts = {example: most_read([example], cells) for example in examples}
    most = max(counts.values(), default=0)
    return [example for example, count in counts.items() if count == most]


def most_read(examples: Sequence[str], cells: list[str]) -> int:
    """Return how many cells the best of some formats accepts."""
    formats = map(NumberFormat.of, examples)
    counts = [sum(one.read(cell) is not None for cell in cells) for one in formats]
    return max(counts, default=0)


# ----------------------------------------------------------------------
# Detect the formats that fit every value of a column.


#: The number of values checked first; they rule out most columns of text.
FEW_NUMBERS = 500
#: The number of cells quoted in a reason.
SHOWN = 3
#: Examples for each combination of thousands separator and decimal mark.
MARKED = (PLAIN, "1234,56", *PARTED)
#: Characters that cannot be part of a currency or a unit: digits, punctuation, signs.
NO_UNIT = r"[\d\s.,'’()+%−-]"
#: A digit before an exponent.
EXPONENT = r"(\d)[eE][+-]?\d{1,3}"
#: Ambiguous digits: three follow the only mark, and the digits before it do not start with 0.
UNCLEAR = r"^[^\d.,]*[1-9]\d{0,2}[.,]\d{3}[^\d.,]*$"
#: Currencies, which come before or after a number, in lower case, ...
CURRENCIES = frozenset((
    "€", "$", "£", "¥", "₹", "us$", "a$", "c$", "r$", "zł", "kč", "kr", "ft", "fr", "eur", "euro",
    "usd", "gbp", "chf", "jpy", "cny", "inr", "sek", "nok", "dkk", "pln", "czk", "huf", "try",
    "brl", "mxn", "aud", "cad", "nzd", "zar",
))  # fmt: skip
#: ... and units, which come after it. With any other word the text is a name, as in "House 12".
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
        The format for a spec; "" for plain numbers.
    numbers
        The distinct values, read in this format.
    """

    example: str
    numbers: Floats

    @property
    def decimal_comma(self) -> bool:
        """Whether the decimal mark is a comma."""
        return bool(self.example) and NumberFormat.of(self.example).decimal == ","


def spellings(texts: pa.Array) -> tuple[Spelling, ...]:
    """Return the formats that read distinct texts as different numbers; often only one.

    Parameters
    ----------
    texts
        The distinct values of a column, without missing-value markers.

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
        # Formats with the same decimal mark that fit all texts read the same numbers.
        if comma in found or _wrong(texts[:FEW_NUMBERS], form):
            continue
        values, wrong = read_numbers(texts, form=form).values_and_wrong()
        if not wrong:
            found[comma] = Spelling(example, values)
            if not unclear:
                break
    return tuple(found.values())


def _is_unclear(texts: pa.Array) -> bool:
    """Return whether the mark in every text may be decimal or separate thousands, as in 1,234."""
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
    """Return the share of texts that the best format cannot read, and some of these texts.

    >>> no_numbers(pa.array(["1,5", "2,5", "about 3", "4"]))
    (0.25, ['about 3'])
    """
    forms = (None, *(NumberFormat.of(example) for example in MARKED))
    best = min(forms, key=lambda form: len(_wrong(texts[:FEW_NUMBERS], form)))
    wrong = sorted(_wrong(texts, best))
    some = pa.array(wrong[:SHOWN], pa.int64())
    return len(wrong) / max(len(texts), 1), texts.take(some).to_pylist()


def currencies(texts: pa.Array) -> list[str]:
    """Return the distinct texts that accompany the digits; an exponent is part of a number.

    >>> currencies(pa.array(["1.234,50 EUR", "12e-1", "7"]))
    ['EUR']
    """
    import polars as pl

    plain_digits = pl.Series(texts).str.replace_all(EXPONENT, "$1")
    beside = plain_digits.str.replace_all(NO_UNIT, "")
    return sorted(text for text in beside.unique().to_list() if text)


def is_amount(beside: str) -> bool:
    """Return whether a text next to digits is a currency or a unit."""
    return beside.lower() in CURRENCIES or beside in MEASURES


def _stands_well(texts: pa.Array, beside: str) -> bool:
    """Return whether a unit always follows the number: S12 is a code, 12 s are seconds."""
    return beside.lower() in CURRENCIES or not _any(texts, r"^\s*[^\d\s(+-]")


def in_words(example: str) -> str:
    """Describe a format in words, for a comment."""
    if not example:
        return ""
    form = NumberFormat.of(example)
    names = {".": "dot", ",": "comma", " ": "space", "'": "apostrophe"}
    parts = [f"decimal {names[form.decimal]}"] if form.decimal == "," else []
    parts += [f"a {names[form.thousands]} between thousands"] if form.thousands else []
    parts += ["a percent sign (divided by 100)"] if form.percent else []
    parts += ["a minus sign after the number"] if form.trailing else []
    parts += ["brackets for negative numbers"] if form.brackets else []
    parts += [f"with {form.currency}"] if form.currency else []
    return ", ".join(parts)


def _examples(texts: pa.Array) -> Iterator[str]:
    """Yield the formats that may fit the characters in the texts, plain numbers first."""
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
