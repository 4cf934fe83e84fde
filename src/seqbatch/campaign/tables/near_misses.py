"""Texts of units that differ by case or spaces alone: from a rule's own, or from each other.

Who may get what hangs on them: `region != 'north'` lets `North` through. So does what is balanced:
`North` and `north` are two strata.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.eligibility import Among, Both, Compare, Not, Rule
from seqbatch.campaign.design.spellings import plainly_spelled, several_spellings
from seqbatch.campaign.tables.eligibility import Eligibility

#: Texts that are named.
NAMED = 5


def near_misses(tables: Iterable[pa.Table], eligibility: Eligibility | None) -> tuple[str, ...]:
    """Return a warning for each column whose texts may be meant for those of a rule."""
    rules = () if eligibility is None else eligibility.rules
    said: dict[str, set[str]] = {}
    for rule in rules:
        for column, text in _texts(rule):
            said.setdefault(column, set()).add(text)
    missed: dict[str, dict[str, None]] = {column: {} for column in said}
    plain = {column: set(map(plainly_spelled, texts)) for column, texts in said.items()}
    for table in tables if said else ():
        for column, texts in said.items():
            for each in pc.unique(table.column(column)).to_pylist():
                if each and each not in texts and plainly_spelled(each) in plain[column]:
                    missed[column][each] = None
    return tuple(_warning(column, list(found)) for column, found in missed.items() if found)


def misspelled_strata(tables: Iterable[pa.Table], strata: Sequence[str]) -> tuple[str, ...]:
    """Return a warning for each column of strata with texts that may be one, spelled otherwise."""
    found: dict[str, dict[str, None]] = {column: {} for column in strata}
    for table in tables if strata else ():
        for column, texts in found.items():
            texts.update(dict.fromkeys(filter(None, pc.unique(table.column(column)).to_pylist())))
    said = {column: several_spellings(map(str, texts)) for column, texts in found.items()}
    return tuple(
        f"strata by {column}: {spelled}; spell them alike in the file"
        for column, spelled in said.items()
        if spelled
    )


def _warning(column: str, found: list[str]) -> str:
    shown = ", ".join(ascii(text) for text in found[:NAMED])
    more = ", ..." if len(found) > NAMED else ""
    return (
        f"{column} has texts that differ from those in [eligible] only by case or spaces, and are "
        f"others to it: {shown}{more}; spell them alike in the file, or name them in the rule"
    )


def _texts(rule: Rule | None) -> Iterator[tuple[str, str]]:
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
