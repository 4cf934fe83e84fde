"""How dates are spelled in a file: ``"iso"``, or a format as for strptime.

The day of a cell is the day that is written there. A time of day is checked and dropped, and so is
a timezone: nothing is moved from one day to another.
"""

import re
from datetime import datetime
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

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
def formats_for(cell: str) -> tuple[str, ...]:
    """Return the usual formats that accept a cell; several where it does not tell which is meant.

    >>> formats_for("31.12.2025"), formats_for("3/4/2025 9:30"), formats_for("soon")
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
