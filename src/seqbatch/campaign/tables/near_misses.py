"""Texts of units that differ by case or spaces alone: from those of a spec, or from each other.

Who may get what hangs on them: `region != 'north'` lets `North` through. So does what is balanced:
`North` and `north` are two strata; and what is learned: `NORTH` may count as `other`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.eligibility import Among, Both, Compare, Not, Rule
from seqbatch.campaign.design.spellings import several_spellings, told_apart
from seqbatch.campaign.tables.eligibility import Eligibility
from seqbatch.campaign.tables.features.base import Feature
from seqbatch.campaign.tables.features.categorical import OTHER, LevelsFeature

#: Texts that are named.
NAMED = 5
#: Texts of a column of strata that are compared with each other, the first ones: all of them are
#: kept in memory, and a column with more of them holds ids rather than strata.
COMPARED = 10_000


def near_misses(tables: Iterable[pa.Table], eligibility: Eligibility | None) -> tuple[str, ...]:
    """Return a warning for each column whose texts may be meant for those of a rule."""
    said: dict[str, list[str]] = {}
    for rule in () if eligibility is None else eligibility.rules:
        for column, text in _texts(rule):
            said.setdefault(column, []).append(text)
    return _warnings(
        tables, said, than="those in [eligible]", counted="are others to it",
        instead="name them in the rule",
    )  # fmt: skip


def misspelled_levels(
    tables: Iterable[pa.Table], features: Mapping[str, Feature]
) -> tuple[str, ...]:
    """Return a warning for each category with texts that may be levels, and count as other."""
    levels = {
        name: [level for level in part.rules.levels if level != OTHER]
        for name, part in features.items()
        if isinstance(part, LevelsFeature) and part.other
    }
    return _warnings(
        tables, levels, than="its levels", counted="count as other",
        instead="declare them as levels",
    )  # fmt: skip


def _warnings(
    tables: Iterable[pa.Table], wanted: Mapping[str, Sequence[str]], *, than: str, counted: str,
    instead: str,
) -> tuple[str, ...]:  # fmt: skip
    """Return a warning for each column with texts that may be among the wanted, and are not."""
    known = {column: pa.array(texts, type=pa.string()) for column, texts in wanted.items()}
    found: dict[str, dict[str, None]] = {column: {} for column in wanted}
    for table in tables if wanted else ():
        for column, texts in found.items():
            for chunk in table.column(column).chunks:
                # No more than are shown: a file may have very many.
                more = _misspelled(_distinct(chunk), known[column]).slice(0, NAMED + 1)
                texts.update(dict.fromkeys(more.to_pylist()) if len(texts) <= NAMED else {})
    return tuple(
        f"{column} has texts that differ from {than} only by case or spaces, and {counted}: "
        f"{', '.join(told_apart(text) for text in list(texts)[:NAMED])}"
        f"{', ...' if len(texts) > NAMED else ''}; spell them alike in the file, or "
        f"{instead} before the campaign is created"
        for column, texts in found.items()
        if texts
    )


def _distinct(chunk: pa.Array) -> pa.Array:
    """Return the different texts of a piece of a column."""
    values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else pc.unique(chunk)
    return values.cast(pa.string())


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

    >>> _plainly(pa.array(["Saint Denis ", "SAINT  DENIS", "Weißsee", "WEISSSEE"])).to_pylist()
    ['saintdenis', 'saintdenis', 'weisssee', 'weisssee']
    """
    # Letters with two lower cases become one by way of the upper.
    text = pc.utf8_lower(pc.utf8_upper(pc.utf8_normalize(texts, form="NFKC")))
    return pc.replace_substring_regex(pc.replace_substring(text, "ß", "ss"), r"[\s\pZ]+", "")


def misspelled_strata(tables: Iterable[pa.Table], strata: Sequence[str]) -> tuple[str, ...]:
    """Return a warning for each column of strata with texts that may be one, spelled otherwise."""
    found: dict[str, dict[str, None]] = {column: {} for column in strata}
    for table in tables if strata else ():
        for column, texts in found.items():
            new = pc.unique(table.column(column)).to_pylist() if len(texts) < COMPARED else ()
            texts.update(dict.fromkeys(filter(None, new)))
    said = {column: several_spellings(map(str, texts)) for column, texts in found.items()}
    return tuple(
        f"strata by {column}: {spelled}; spell them alike in the file"
        for column, spelled in said.items()
        if spelled
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
