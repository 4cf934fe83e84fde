"""Format numbers, shares, counts and names for display."""

from collections.abc import Sequence
from math import floor, isfinite, log10
from typing import Any


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text with control and invisible characters written out.

    Names, ids and reasons come from files and users. Control characters can move a terminal's
    cursor, direction marks can reverse a line, and XML files cannot hold some of them. All
    unprintable characters are therefore shown as Python's repr shows them.

    Parameters
    ----------
    text
        The text to show.
    lines
        Whether to keep line breaks and tabs.

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
    """Return a value as the text of a table cell.

    >>> cell(1_234_567), cell(0.123456), cell(float("nan")), cell("a word")
    ('1,234,567', '0.12346', '', 'a word')
    """
    if value is None or value != value:  # NaN alone is not equal to itself
        return ""
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def number(value: float, digits: int = 5) -> str:
    """Return a number with this many significant digits; larger numbers are rounded to integers.

    >>> number(1_234_567.8), number(1_234.56), number(0.0123456), number(12.34, 2)
    ('1,234,568', '1,234.6', '0.012346', '12')
    """
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def alike(values: Sequence[float | None], digits: int = 5) -> list[str]:
    """Format a column's numbers with equal decimals, unless that would round the smallest to 0.

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
    """Return a share in percent, with up to four significant digits.

    >>> percent(0.95), percent(0.999), percent(0.975)
    ('95%', '99.9%', '97.5%')
    """
    return f"{100 * share:.4g}%"


def percent_cut(share: float) -> str:
    """Return a share in percent, rounded down: 94.96% does not become 95%.

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
    return f"{count:,} {what if count == 1 else plural(what)}"


def plural(what: str) -> str:
    """Return a noun's plural.

    >>> plural("batch"), plural("unit"), plural("policy")
    ('batches', 'units', 'policies')
    """
    if what.endswith("cy"):
        return what[:-1] + "ies"
    return what + ("es" if what.endswith("ch") else "s")


def enumerated(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> enumerated(["a"]), enumerated(["a", "b"]), enumerated(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def sentence(clause: str) -> str:
    """Return a clause as a sentence.

    >>> sentence("wave 1 is open")
    'Wave 1 is open.'
    """
    return f"{clause[:1].upper()}{clause[1:]}."
