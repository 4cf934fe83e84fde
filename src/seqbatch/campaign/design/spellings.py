"""Values of a category that may be one value, spelled in several ways."""

import unicodedata
from collections.abc import Callable, Iterable

from seqbatch.campaign.design.written import quoted
from seqbatch.display import counted

#: So many spellings of one value are shown.
SHOWN = 3


def plainly_spelled(value: str) -> str:
    """Return a text without what people spell in several ways: case, spaces, Unicode form.

    >>> plainly_spelled("Saint Denis ") == plainly_spelled("SAINT  DENIS")
    True
    """
    return "".join(unicodedata.normalize("NFKC", value).casefold().split())


def told_apart(text: str, in_quotes: Callable[[str], str] = repr) -> str:
    r"""Return a text in quotes, written out where it would look like another Unicode form of it.

    >>> print(told_apart("Köln"), told_apart("Ko\u0308ln"), told_apart("Köln\xa0"))
    'Köln' 'Ko\u0308ln' 'Köln\xa0'
    """
    shown = in_quotes(text)
    if unicodedata.is_normalized("NFC", text):
        return shown
    return shown.encode("ascii", "backslashreplace").decode()


def several_spellings(values: Iterable[str]) -> str:
    """Say which values differ only by case, spaces or Unicode form; "" where none do.

    >>> several_spellings(["Urban", "Rural", "URBAN", "Urban "])
    '"Urban", "URBAN", "Urban " differ only by case or spaces, and none counts as another'
    >>> several_spellings(["Urban", "Rural"])
    ''
    """
    spelled: dict[str, list[str]] = {}
    for value in values:
        spelled.setdefault(plainly_spelled(value), []).append(value)
    several = [same for same in spelled.values() if len(same) > 1]
    if not several:
        return ""
    first = ", ".join(told_apart(value, quoted) for value in several[0][:SHOWN])
    more = ", ..." if len(several[0]) > SHOWN else ""
    left = len(several) - 1
    others = f" (and {counted(left, 'more such value')})" if left else ""
    return f"{first}{more} differ only by case or spaces, and none counts as another{others}"
