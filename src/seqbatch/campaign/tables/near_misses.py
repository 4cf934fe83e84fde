"""Texts of units that differ by case or spaces alone: from those of a spec, or from each other.

Who may get what hangs on them: `region != 'north'` lets `North` through. So does what is balanced:
`North` and `north` are two strata; and what is learned: `NORTH` may count as `other`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.eligibility import Among, Both, Compare, Not, Rule
from seqbatch.campaign.design.spellings import plainly_spelled, several_spellings
from seqbatch.campaign.tables.eligibility import Eligibility
from seqbatch.campaign.tables.features.base import Feature
from seqbatch.campaign.tables.features.categorical import OTHER, LevelsFeature

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
    return tuple(
        _warning(
            column, list(found), than="those in [eligible]", counted="are others to it",
            instead="name them in the rule",
        )
        for column, found in missed.items()
        if found
    )  # fmt: skip


def misspelled_levels(
    tables: Iterable[pa.Table], features: Mapping[str, Feature]
) -> tuple[str, ...]:
    """Return a warning for each category with texts that may be levels, and count as other."""
    levels = {
        name: pa.array([level for level in part.rules.levels if level != OTHER], type=pa.string())
        for name, part in features.items()
        if isinstance(part, LevelsFeature) and part.other
    }
    found: dict[str, dict[str, None]] = {name: {} for name in levels}
    for table in tables if levels else ():
        for name, texts in found.items():
            for chunk in table.column(name).chunks:
                # No more than are shown: a file may have very many.
                more = _misspelled(chunk.dictionary, levels[name]).slice(0, NAMED + 1)
                texts.update(dict.fromkeys(more.to_pylist()) if len(texts) <= NAMED else {})
    return tuple(
        _warning(
            name, list(texts), than="its levels", counted="count as other",
            instead="declare them as levels before the campaign is created",
        )
        for name, texts in found.items()
        if texts
    )  # fmt: skip


def _misspelled(texts: pa.Array, levels: pa.Array) -> pa.Array:
    """Return the texts that are no levels, and would be but for case, spaces or Unicode form."""
    own = pc.or_(pc.is_in(texts, value_set=levels), pc.equal(texts, ""))
    others = texts.filter(pc.invert(own))
    # Mostly there are none, and a category may have thousands of levels.
    if not len(others):
        return others
    return others.filter(pc.is_in(_plainly(others), value_set=_plainly(levels)))


def _plainly(texts: pa.Array) -> pa.Array:
    """Return texts without what people spell in several ways, all at once.

    >>> _plainly(pa.array(["Saint Denis ", "SAINT  DENIS"])).to_pylist()
    ['saintdenis', 'saintdenis']
    """
    text = pc.utf8_normalize(texts, form="NFKC")
    # Letters with two lower cases become one by way of the upper.
    return pc.replace_substring_regex(pc.utf8_lower(pc.utf8_upper(text)), r"[\s\pZ]+", "")


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


def _warning(column: str, found: list[str], *, than: str, counted: str, instead: str) -> str:
    shown = ", ".join(ascii(text) for text in found[:NAMED])
    more = ", ..." if len(found) > NAMED else ""
    return (
        f"{column} has texts that differ from {than} only by case or spaces, and {counted}: "
        f"{shown}{more}; spell them alike in the file, or {instead}"
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
