"""Declared formats of numbers and dates, and how to read values written in them."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

# ----------------------------------------------------------------------
# How numbers are spelled in a file, declared by an example of one: ``"1.234,56 EUR"``.
#
# The example says which mark parts the decimals and which the thousands, whether a number is a
# percentage, how negative numbers look beyond a leading minus, and which currency may stand beside
# a number. A cell either fits, as a whole, or is refused: nothing is guessed from the cells.
#
# In cells the thousands may be left out, and the currency too; a percent sign may not, since
# without it the same digits may mean a hundred times as much. A leading sign and an exponent
# always fit.


#: Spaces that part thousands in files: all of them count as the plain one.
SPACES = "\u00a0\u2007\u2009\u202f"
#: Signs that are spelled in several ways, and the one that they count as.
SAME = {**dict.fromkeys(SPACES, " "), "\u2212": "-", "\u2019": "'"}
#: Marks that part thousands or decimals.
MARKS = ".,' "
#: A number with marks in it, as a whole.
DIGITS = re.compile(r"\d(?:[\d.,' ]*\d)?")
#: What stands before and after the digits of a number.
SIGNS = "+-()"
#: Examples of numbers whose dot parts decimals, and of those whose dots part thousands.
PLAIN, THOUSANDS = "1234.56", "1.234,56"
RULE = (
    "an example of a number as it is spelled in the file, such as 1.234,56 or 1,234.56 $ or 12,5 % "
    "or 1234,56- or (1,234.56)"
)


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """A way to spell numbers.

    Parameters
    ----------
    example
        The example that shows it, as it was declared.
    decimal, thousands
        The marks; "" where there is none, so that numbers are whole or never parted.
    percent
        Whether a number has a percent sign, and is divided by 100.
    trailing, brackets
        Whether ``5-`` and ``(5)`` are negative; ``-5`` always is.
    currency
        What may stand before or after the number; "" for nothing.

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
        """Return the format that an example shows; one that shows none, or two, is refused."""
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
        """The regular expression of a cell as :func:`plain` makes it, for RE2 and for Python."""
        money = f"(?:{_quoted(self.currency)})?" if self.currency else ""
        whole = r"\d+"
        if self.thousands:
            whole = rf"(?:\d+|\d{{1,3}}(?:{_quoted(self.thousands)}\d{{3}})+)"
        if self.decimal:
            whole = rf"(?:{whole}(?:{_quoted(self.decimal)}\d+)?|{_quoted(self.decimal)}\d+)"
        number = rf"{whole}(?:[eE][+-]?\d{{1,3}})? *{'%' if self.percent else ''}"
        # A sign and a currency come in either order, with spaces or without.
        forms = [rf"(?:[+-] *{money}|{money} *[+-]?) *{number} *{money}"]
        if self.trailing:
            forms.append(rf"{money} *{number} *(?:- *{money}|{money} *-)")
        if self.brackets:
            forms.append(rf"\( *{money} *{number} *{money} *\)")
            forms.append(rf"{money} *\( *{number} *\) *{money}")
        return f"^(?:{'|'.join(forms)})$"

    @property
    def dropped(self) -> tuple[str, ...]:
        """What is taken out of a cell that fits, in this order, to leave digits and signs."""
        return tuple(text for text in (self.currency, self.thousands, " ", "%") if text)

    def read(self, cell: str) -> float | None:
        """Return the number that one cell spells, None where it does not fit."""
        text = plain(cell)
        # Digits of other scripts are none to RE2, by which columns are read.
        if not re.fullmatch(self.pattern, text, re.ASCII):
            return None
        for each in self.dropped:
            text = text.replace(each, "")
        size = float(text.strip(SIGNS).replace(self.decimal or ".", "."))
        size = size / 100 if self.percent else size
        return -size if text[0] in "-(" or text[-1] == "-" else size

    def wider_for(self, cell: str) -> tuple[str, ...]:
        """Return the example with which a cell could be read too, if it is a negative number.

        All that differs is how negative numbers may be spelled; what else a cell may mean is not
        guessed.

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
    """Return the decimal mark and the thousands mark of an example."""
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
            f"a format must tell thousands from decimals; {example[:60]!r} does not. Spell a "
            "number with both, such as 1.234,56 or 1,234.56"
        )
    if any(len(group) != 3 for group in groups[1:]) or len(groups[0]) > 3:
        raise ValueError(f"a format must have three digits between marks; received {example!r}")
    return decimal, thousands


def _quoted(text: str) -> str:
    """Return a text as a pattern that means itself, in RE2 as in Python."""
    return "".join(c if c.isalnum() else f"\\{c}" if c.isascii() else c for c in text)


def plain(cell: str) -> str:
    """Return a cell without outer spaces, and with one spelling of spaces, signs and marks.

    >>> plain(" 1\u202f234,5 \u2212")
    '1 234,5 -'
    """
    return re.sub(f"[{''.join(SAME)}]", lambda found: SAME[found[0]], cell).strip()


@lru_cache(maxsize=1024)
def number_formats_for(cell: str) -> tuple[str, ...]:
    """Return examples of the formats that would accept a cell, none where no usual one does.

    Where there are several the cell does not tell which is meant.

    >>> [number_formats_for(cell) for cell in ("1.234,5 EUR", "1,234", "(12.5)", "x")]
    [('1.234,56 EUR',), ('1.234,56', '1,234.56'), ('(1,234.56)',), ()]
    """
    text = plain(cell)[:60]
    currency = " ".join(re.findall(r"[^\W\d_]+|[$€£¥₹]", text))
    found: dict[float, str] = {}
    for digits in ("1.234,56", "1,234.56", "1 234,56", "1 234.56", "1'234.56"):
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


def _shows_a_format(example: str) -> str:
    NumberFormat.of(example)
    return example


#: A number format in a spec.
NumberExample = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_shows_a_format)]


# ----------------------------------------------------------------------
# How dates are spelled in a file: ``"iso"``, or a format as for strptime.
#
# The day of a cell is the day that is written there. A time of day is checked and dropped, and so
# is a timezone: nothing is moved from one day to another.


ISO = "iso"
#: What a cell of ISO dates looks like: a day, and perhaps a time and a timezone.
ISO_PATTERN = (
    r"^\d{4}-\d{2}-\d{2}(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?"
    r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?$"
)
#: What each part of a format looks like in a cell.
PARTS = {
    "%Y": r"\d{4}", "%y": r"\d{2}", "%m": r"\d{1,2}", "%d": r"\d{1,2}", "%j": r"\d{3}",
    "%b": r"[A-Za-z]{3}", "%B": r"[A-Za-z]{3,9}", "%a": r"[A-Za-z]{3}", "%A": r"[A-Za-z]{6,9}",
    "%H": r"\d{1,2}", "%I": r"\d{1,2}", "%M": r"\d{1,2}", "%S": r"\d{1,2}", "%f": r"\d{1,9}",
    "%p": r"[AaPp][Mm]", "%z": r"(?:Z|[+-]\d{2}:?\d{2})", "%%": "%",
}  # fmt: skip
#: Formats that are proposed for a cell that is not ISO, each alone and with a time of day.
USUAL = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%m/%d/%y",
    "%d/%m/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%Y-%m-%d",
)  # fmt: skip
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
#: A part of a format, or a character that means itself.
TOKEN = re.compile(r"%.|[^%]", re.DOTALL)


def cell_pattern(form: str) -> str:
    r"""Return the regular expression of a cell of a format, for RE2 and for Python.

    >>> print(cell_pattern("%d.%m.%Y"))
    ^\d{1,2}\.\d{1,2}\.\d{4}$
    """
    if form == ISO:
        return ISO_PATTERN
    tokens = TOKEN.findall(form)
    made = []
    for place, token in enumerate(tokens):
        pattern = PARTS.get(token, re.escape(token))
        # Where nothing parts two numbers, only a fixed width does.
        beside = (*tokens[max(place - 1, 0) : place], *tokens[place + 1 : place + 2])
        if any(each in PARTS and each != "%%" for each in beside):
            pattern = pattern.replace(r"\d{1,2}", r"\d{2}")
        made.append(pattern)
    return f"^{''.join(made)}$"


@lru_cache(maxsize=1024)
def date_formats_for(cell: str) -> tuple[str, ...]:
    """Return the usual formats that accept a cell; several where it does not tell which is meant.

    >>> date_formats_for("31.12.2025"), date_formats_for("3/4/2025 9:30"), date_formats_for("soon")
    (('%d.%m.%Y',), ('%d/%m/%Y %H:%M', '%m/%d/%Y %H:%M'), ())
    """
    forms = [day + time for day in USUAL for time in TIMES]
    return tuple(form for form in forms if _spells_a_day(cell.strip()[:60], form))


def _spells_a_day(cell: str, form: str) -> bool:
    if not re.fullmatch(cell_pattern(form), cell):
        return False
    try:
        datetime.strptime(cell, form)
    except ValueError:
        return False
    return True


def _readable(form: str) -> str:
    if form == ISO:
        return form
    used = {token for token in TOKEN.findall(form) if token.startswith("%")}
    if strange := sorted(used - PARTS.keys()):
        known = " ".join(PARTS)
        raise ValueError(f"a format may have {known}; received {', '.join(strange)} in {form!r}")
    day = used & {"%m", "%b", "%B"} and "%d" in used
    if not (used & {"%Y", "%y"} and (day or "%j" in used)):
        raise ValueError(
            f'a format must be "iso", or name year, month and day, as in %d.%m.%Y; received '
            f"{form!r}"
        )
    if "%z" in form[:-2]:
        raise ValueError(f"a timezone (%z) must stand at the end of a format; received {form!r}")
    return form


#: A date format in a spec.
DateFormat = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_readable)]
