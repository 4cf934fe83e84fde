"""How the numbers of a column are spelled: the examples of formats that fit every one of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.number_format import NumberFormat, plain
from seqbatch.campaign.tables.columns import read_numbers
from seqbatch.core.arrays import Floats

#: Values that are looked at first: most columns of text are told from numbers by these.
FEW = 500
#: Cells that are quoted in a reason.
SHOWN = 3
#: What the digits may look like, by thousands and decimals.
MARKED = ("1234.56", "1234,56", "1,234.56", "1.234,56", "1 234,56", "1 234.56", "1'234.56")
#: What is no currency and no unit of measure: digits, marks, signs.
DIGITS = r"[\d\s.,'’()+%−-]"
#: Digits whose mark parts thousands or decimals: three follow it, and no single zero is before it.
UNCLEAR = r"^[^\d.,]*[1-9]\d{0,2}[.,]\d{3}[^\d.,]*$"
#: Currencies, which stand before or behind a number, in lower case, ...
CURRENCIES = frozenset((
    "€", "$", "£", "¥", "₹", "us$", "a$", "c$", "r$", "zł", "kč", "kr", "ft", "fr", "eur", "euro",
    "usd", "gbp", "chf", "jpy", "cny", "inr", "sek", "nok", "dkk", "pln", "czk", "huf", "try",
    "brl", "mxn", "aud", "cad", "nzd", "zar",
))  # fmt: skip
#: ... and measures, which stand behind it. Other words make a name of it, as in "House 12".
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
        The format of a spec; "" for plain numbers.
    numbers
        The distinct values, read in this way.
    """

    example: str
    numbers: Floats

    @property
    def decimal_comma(self) -> bool:
        """Whether a comma parts the decimals."""
        return bool(self.example) and NumberFormat.of(self.example).decimal == ","


def spellings(texts: pa.Array) -> tuple[Spelling, ...]:
    """Return the ways to read distinct texts as numbers, with different results; often one.

    Parameters
    ----------
    texts
        The distinct values of a column, without those that mean that one is missing.

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
        # Formats of the same decimal mark that fit all texts read the same numbers.
        if comma in found or _wrong(texts[:FEW], form):
            continue
        read = read_numbers(texts, form=form)
        if not read.wrong:
            found[comma] = Spelling(example, read.values)
            if not unclear:
                break
    return tuple(found.values())


def _is_unclear(texts: pa.Array) -> bool:
    """Say whether the marks may part thousands as well as decimals, as in 1,234, in every text."""
    if not pa.types.is_string(texts.type):
        return False
    marked = texts.filter(pc.match_substring_regex(texts, "[.,]"))
    if not len(marked) or not pc.all(pc.match_substring_regex(marked[:FEW], UNCLEAR)).as_py():
        return False
    return bool(pc.all(pc.match_substring_regex(marked, UNCLEAR)).as_py())


def no_numbers(texts: pa.Array) -> tuple[float, list[str]]:
    """Return the share of texts that are no numbers by the format that fits most, and some of them.

    >>> no_numbers(pa.array(["1,5", "2,5", "about 3", "4"]))
    (0.25, ['about 3'])
    """
    forms = (None, *(NumberFormat.of(example) for example in MARKED))
    best = min(forms, key=lambda form: len(_wrong(texts[:FEW], form)))
    wrong = sorted(_wrong(texts, best))
    return len(wrong) / max(len(texts), 1), texts.take(wrong[:SHOWN]).to_pylist()


def currencies(texts: pa.Array) -> list[str]:
    """Return what stands beside the digits, each text once."""
    beside = pl.Series(texts).str.replace_all(DIGITS, "")
    return sorted(text for text in beside.unique().to_list() if text)


def is_amount(beside: str) -> bool:
    """Say whether a text beside digits is a currency or a measure."""
    return beside.lower() in CURRENCIES or beside in MEASURES


def _stands_well(texts: pa.Array, beside: str) -> bool:
    """Say whether a measure is behind the number everywhere: S12 is a code, 12 s are seconds."""
    return beside.lower() in CURRENCIES or not _any(texts, r"^\s*[^\d\s(+-]")


def in_words(example: str) -> str:
    """Return what a format means, for a comment."""
    if not example:
        return ""
    form = NumberFormat.of(example)
    names = {".": "dot", ",": "comma", " ": "space", "'": "apostrophe"}
    parts = [f"decimal {names[form.decimal]}"] if form.decimal == "," else []
    parts += [f"a {names[form.thousands]} between thousands"] if form.thousands else []
    parts += ["a percent sign (divided by 100)"] if form.percent else []
    parts += ["minus behind the number"] if form.trailing else []
    parts += ["brackets for negative numbers"] if form.brackets else []
    parts += [f"with {form.currency}"] if form.currency else []
    return ", ".join(parts)


def _examples(texts: pa.Array) -> Iterator[str]:
    """Yield the formats that may fit, by the signs that are in the texts; plain numbers first."""
    yield ""
    if not pa.types.is_string(texts.type):
        return  # numbers that are not plain, such as infinity, are spelled in no other way
    beside = currencies(texts[:FEW])
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
