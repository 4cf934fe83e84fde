"""Categorical features: an indicator for each level, or hashed cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, md5
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.base import MISSING_LEVEL, Feature, one_of
from seqbatch.campaign.files.column_values import MISSING, Reason, categories
from seqbatch.campaign.spec.features import Hashed, Levels
from seqbatch.core import kernels
from seqbatch.core.arrays import Floats, Integers

OTHER = "other"


@dataclass(frozen=True)
class CategoricalFeature(Feature):
    """The base of both kinds of category: reads the texts and writes the indicators.

    Parameters
    ----------
    name
        The column's name.
    """

    kept: ClassVar[pa.DataType] = pa.string()

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the texts, and the problems of the rows."""
        encoded, wrong = categories(column)
        if self.accepts_missing:
            # A column of the wrong type is still refused.
            wrong = {row: reason for row, reason in wrong.items() if reason != MISSING}
        advice = '; missing = "level" would accept it'
        missing = Reason(MISSING, advice, MISSING.code)
        told = {r: missing if why == MISSING else why for r, why in wrong.items()}
        return encoded, {**self.unseen(encoded), **told}

    @property
    def accepts_missing(self) -> bool:
        """Whether a missing value has a column of the model."""
        raise NotImplementedError

    def places_of(self, levels: Sequence[str]) -> tuple[list[int], int]:
        """Return the column index of each level, and that of a missing value."""
        raise NotImplementedError

    def unseen(self, encoded: Any) -> dict[int, str]:  # noqa: ARG002
        """Return the rows whose level has no column, with the reasons."""
        return {}

    def places(self, kept: Any) -> Integers:
        """Return each row's column index in the model."""
        made = np.empty(len(kept), dtype=np.int64)
        self.write_places(kept, 0, made)
        return made

    def write_places(self, kept: Any, first: int, out: Integers) -> None:
        """Write each row's column index, counted from `first`."""
        column = kept.combine_chunks() if isinstance(kept, pa.ChunkedArray) else kept
        levels = column.dictionary.to_pylist()
        found, missing = self.places_of(levels)
        # A file written by hand may mark missing values both as null and as empty text.
        table = [place if level else missing for place, level in zip(found, levels, strict=True)]
        codes = np.array([*table, missing], dtype=np.int64) + first
        rows = column.indices.fill_null(len(table)).to_numpy(zero_copy_only=False)
        # Convert all index types to one: the function is compiled for each type.
        kernels.texts.look_up(codes, rows.astype(np.int32, copy=False), out)

    @property
    def known(self) -> bool:
        """Whether the columns of levels are settled; until then all columns are 0."""
        return True

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which contains only zeros."""
        if self.known:
            kernels.texts.mark(out, self.places(kept))


@dataclass(frozen=True)
class LevelsFeature(CategoricalFeature):
    """A category with an indicator for each level.

    Parameters
    ----------
    name
        The column's name.
    rules
        The category's rules in the spec.
    other
        Whether an undeclared level counts as `other`.
    rare
        The levels that count as `other` because the first wave had too few; None before that.
    """

    rules: Levels
    other: bool
    rare: tuple[str, ...] | None = None

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels with a column: the declared ones, and those for other and missing values."""
        more = [OTHER] if self.other or self.rules.learns else []
        more += [MISSING_LEVEL] if self.accepts_missing else []
        return (*self.rules.levels, *(level for level in more if level not in self.rules.levels))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return tuple(f"{self.name}={level}" for level in self.levels)

    @property
    def accepts_missing(self) -> bool:
        """Whether a missing value has a column of the model."""
        return self.rules.missing == "level"

    def places_of(self, levels: Sequence[str]) -> tuple[list[int], int]:
        """Return the column index of each level, and that of a missing value."""
        known = {level: place for place, level in enumerate(self.levels)}
        other = known.get(OTHER, 0)
        declared = set(self.rules.levels) - set(self.rare or ())
        found = [known[level] if level in declared else other for level in levels]
        return found, known.get(MISSING_LEVEL, other)

    @property
    def known(self) -> bool:
        """Whether the rare levels are known, or need not be."""
        return self.rare is not None or not self.rules.learns

    def counts(self, kept: Any) -> Integers:
        """Return the number of rows with each level."""
        return np.bincount(self.places(kept), minlength=len(self.levels))

    def too_rare(self, counts: Integers) -> tuple[str, ...]:
        """Return the declared levels with too few rows, from the counts of the first wave."""
        kept = {OTHER, *([MISSING_LEVEL] if self.accepts_missing else [])}
        pairs = zip(self.levels, counts.tolist(), strict=True)
        few = [level for level, count in pairs if count < self.rules.least]
        return tuple(level for level in few if level not in kept)

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns that units could have."""
        width = len(self.levels)
        if self.rules.learns and self.rare is None:
            return np.zeros((count, width))
        reached = set(self.rules.levels) - set(self.rare or ())
        reached |= {OTHER} if self.other or self.rare else set()
        reached |= {MISSING_LEVEL} if self.accepts_missing else set()
        places = [place for place, level in enumerate(self.levels) if level in reached]
        return one_of(rng, count, width, places)

    @property
    def rule(self) -> str:
        """The rule for levels that are accepted."""
        levels = self.rules.levels
        return f"must be one of {', '.join(levels[:8])}" + (", ..." if len(levels) > 8 else "")

    def unseen(self, encoded: Any) -> dict[int, str]:
        """Return the rows whose level has no column, with the reasons."""
        if self.other:
            return {}
        known = set(self.rules.levels)
        strange = {
            place: level
            for place, level in enumerate(encoded.dictionary.to_pylist())
            if level not in known and level
        }
        if not strange:
            return {}
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(np.isin(places, list(strange)))
        return {
            int(r): Reason(
                self.rule,
                f"; received {strange[int(places[r])][:60]!r}; other = true would accept it",
                "unknown-level",
            )
            for r in rows
        }


#: The first digits of an md5 that choose a cell: databases have integers of 64 bits.
MD5_DIGITS = 13


@dataclass(frozen=True)
class HashedFeature(CategoricalFeature):
    """A category whose levels are hashed into cells; a missing value is hashed as empty text."""

    rules: Hashed

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return tuple(f"{self.name}#{place}" for place in range(self.rules.hash))

    @property
    def accepts_missing(self) -> bool:
        """Whether a missing value has a column of the model."""
        return self.rules.missing == "level"

    def places_of(self, levels: Sequence[str]) -> tuple[list[int], int]:
        """Return the cell of each level, and of a missing value."""
        width, by = self.rules.hash, self.rules.by
        cells = [cell(self.name, level, width, by=by) for level in [*levels, ""]]
        return cells[:-1], cells[-1]

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns that units could have."""
        return one_of(rng, count, self.rules.hash, range(self.rules.hash))


def cell(name: str, level: str, width: int, *, by: str) -> int:
    """Return the cell into which a level of a hashed category falls."""
    if by == "md5":
        digest = md5(f"{name}#{level}".encode(), usedforsecurity=False).hexdigest()
        return int(digest[:MD5_DIGITS], 16) % width
    made = blake2b(f"{name}\n{level}".encode(), digest_size=8).digest()
    return int.from_bytes(made, "little") % width
