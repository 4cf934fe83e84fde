"""How numbers, shares, counts and names are shown, wherever people read them."""

from collections.abc import Sequence
from math import floor, isfinite, log10
from typing import Any


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text in which nothing acts or hides: what cannot be seen is written out.

    Names, ids and reasons come from files and from people. Control characters move a terminal's
    cursor, marks of direction turn a line around, an XML file cannot hold either; all of them, and
    whatever else is not printable, is shown as Python's repr shows it.

    Parameters
    ----------
    text
        What is to be shown.
    lines
        Whether line breaks and tabs stay as they are.

    Examples
    --------
    >>> print(visible("a\x1b[31mb\u202e"), visible("1\n2"))
    a\x1b[31mb\u202e 1\n2
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )


def cell(value: Any) -> str:
    """Return a value as it is shown in a table.

    >>> cell(1_234_567), cell(0.123456), cell(float("nan")), cell("a word")
    ('1,234,567', '0.12346', '', 'a word')
    """
    if value is None or value != value:  # NaN alone is not equal to itself
        return ""
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def number(value: float, digits: int = 5) -> str:
    """Return a number with this many digits; larger ones are whole and never in powers of ten.

    >>> number(1_234_567.8), number(1_234.56), number(0.0123456), number(12.34, 2)
    ('1,234,568', '1,234.6', '0.012346', '12')
    """
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def alike(values: Sequence[float | None], digits: int = 5) -> list[str]:
    """Return the numbers of a column with as many decimals each, the largest with few digits.

    >>> alike([15.625, 9.5, None]), alike([1200.0, 35_000.0]), alike([120.0, 0.0012])
    (['15.625', '9.500', ''], ['1,200', '35,000'], ['120', '0.0012'])
    """
    texts = [cell(value) for value in values]
    known = [abs(value) for value in values if value]
    if not known or any("e" in text for text in texts) or not all(map(isfinite, known)):
        return texts
    decimals = max(len(text.partition(".")[2]) for text in texts)
    decimals = min(decimals, max(digits - 1 - floor(log10(max(known))), 0))
    if min(known) < 10.0**-decimals:
        return texts
    return ["" if value is None else f"{value:,.{decimals}f}" for value in values]


def percent(share: float) -> str:
    """Return a share in percent, with as many digits as it has.

    >>> percent(0.95), percent(0.999), percent(0.975)
    ('95%', '99.9%', '97.5%')
    """
    return f"{100 * share:.4g}%"


def percent_cut(share: float) -> str:
    """Return a share in percent, cut rather than rounded: 94.96% is not 95%.

    >>> percent_cut(0.95), percent_cut(0.9496), percent_cut(0.9999), percent_cut(-0.2)
    ('95%', '94.9%', '99.9%', '0%')
    """
    tenths = floor(round(max(share, 0.0) * 1000, 6))
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10:.1f}%"


def counted(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "batch"), counted(1_200, "unit")
    ('1 batch', '1,200 units')
    """
    plural = what if count == 1 else what + ("es" if what.endswith("ch") else "s")
    return f"{count:,} {plural}"
