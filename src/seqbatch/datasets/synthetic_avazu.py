"""Rows like Avazu's, as many as wanted: the same 24 columns, heavy-tailed categories.

Every column can have as many categories as in the real file. Which one a row has follows a power
law: the k-th most frequent has probability about proportional to k^-exponent. A site determines
its domain and category, an app likewise, and C14 determines C17; all else is independent. Clicks
are Bernoulli with a logistic mean of some columns' effects: 13 to 26 in a hundred, with the seed.

Rows are exchangeable: `hour` is drawn like any column, where the real file is sorted by it, so
that the first n rows are a fair sample for every n.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, Floats, Integers, namespace
from seqbatch.datasets.avazu import COLUMNS, FEATURES
from seqbatch.datasets.hashed import DIM, Codes, HashedRows, dimension, hash_codes
from seqbatch.environments.base import branch, generator

#: Rows that are drawn together. Part of what a seed means: another number gives other rows.
BLOCK = 1 << 16

_EFFECTS, _ROWS = 0, 1
_NOT_HASHED = 255
_INTERCEPT = -1.7

Categories = dict[str, Array]


class Uniforms(Protocol):
    """What rows are drawn from: NumPy's generator, or a device's numbers."""

    def random(self, size: tuple[int, ...], /) -> Any:
        """Draw uniformly from [0, 1)."""


@dataclass(frozen=True)
class Column:
    """How a column's categories are drawn and written.

    Parameters
    ----------
    levels
        How many categories there are.
    exponent
        How fast their frequencies fall, any number but 1; of no use where `of` is given.
    first
        The number of category 0, where categories are consecutive numbers; None for eight
        hexadecimal digits.
    of
        The column that determines this one, where one does.
    effect
        The standard deviation of the categories' effects on the logit of a click.
    """

    levels: int
    exponent: float = 0.0
    first: int | None = None
    of: str | None = None
    effect: float = 0.0

    def draw(self, random: Uniforms, rows: int) -> Array:
        """Draw categories by inverting a continuous power law on [1, levels + 1)."""
        power = 1.0 - self.exponent
        reach = (self.levels + 1.0) ** power - 1.0
        ranks = (1.0 + reach * random.random((rows,))) ** (1.0 / power)
        xp = namespace(ranks)
        # Rounding may carry a draw just past either end.
        return xp.clip(xp.astype(ranks, xp.int64) - 1, 0, self.levels - 1)


#: The columns that are hashed, by name.
SPECIFICATION = {
    "hour": Column(240, 0.2, first=0, effect=0.1),
    "C1": Column(7, 3.0, first=1001),
    "banner_pos": Column(7, 2.0, first=0, effect=0.2),
    "site_id": Column(4_737, 1.2, effect=0.4),
    "site_domain": Column(7_745, of="site_id"),
    "site_category": Column(26, of="site_id"),
    "app_id": Column(8_552, 1.5, effect=0.4),
    "app_domain": Column(559, of="app_id"),
    "app_category": Column(36, of="app_id"),
    "device_id": Column(2_686_408, 1.3),
    "device_ip": Column(6_729_486, 0.8),
    "device_model": Column(8_251, 0.9),
    "device_type": Column(5, 3.0, first=0, effect=0.2),
    "device_conn_type": Column(4, 2.5, first=0),
    "C14": Column(2_626, 0.9, first=375, effect=0.4),
    "C15": Column(8, 3.0, first=120),
    "C16": Column(9, 3.0, first=20),
    "C17": Column(435, first=112, of="C14"),
    "C18": Column(4, 0.9, first=0, effect=0.2),
    "C19": Column(68, 1.1, first=33),
    "C20": Column(172, 1.1, first=100_000),
    "C21": Column(60, 0.9, first=13, effect=0.2),
}


def texts(name: str, categories: Integers) -> list[str]:
    """Return categories as the file writes them."""
    first = SPECIFICATION[name].first
    if name == "hour":
        return [f"1410{21 + k // 24}{k % 24:02d}" for k in categories.tolist()]
    if first is not None:
        return [str(first + k) for k in categories.tolist()]
    return [f"{number:08x}" for number in numbers(name, categories).tolist()]


def numbers(name: str, categories: Array) -> Array:
    """Return the 32-bit numbers that hexadecimal categories are written as."""
    # An odd factor makes this a bijection of 32-bit numbers: no two categories look alike.
    start = 0x85EBCA6B * (1 + FEATURES.index(name))
    return (start + 2_654_435_761 * categories) % (1 << 32)


@dataclass(frozen=True, eq=False)
class SyntheticAvazu:
    """A log of any length; row i is the same whatever else is asked for.

    Parameters
    ----------
    seed
        The same seed gives the same log.

    Attributes
    ----------
    effects
        What each category of a column adds to the logit of a click.

    Examples
    --------
    >>> log = SyntheticAvazu(seed=7)
    >>> rows = log.hashed(1_000)
    >>> len(rows), rows.nbytes, log.frame(1_000).width
    (1000, 23000, 24)
    """

    seed: int = 0
    effects: dict[str, Floats] = field(init=False, repr=False)
    _tables: dict[int, dict[str, Codes]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        arguments.integer("seed", self.seed, at_least=0)
        random = generator(branch(SeedSequence(self.seed), _EFFECTS))
        effects = {
            name: column.effect * random.standard_normal(column.levels)
            for name, column in SPECIFICATION.items()
            if column.effect
        }
        object.__setattr__(self, "effects", effects)

    def hashed(self, rows: int, *, start: int = 0, dim: int = DIM) -> HashedRows:
        """Return rows start, start + 1, ... hashed, without writing their text.

        Each category's text is hashed once, when it is first seen.
        """
        dimension(dim)
        arguments.integer("rows", rows)
        result = HashedRows(
            np.empty((rows, len(FEATURES)), np.uint8), np.empty(rows, np.uint8), dim
        )
        tables = self._code_tables(dim)
        for number, categories, click in self._blocks(start, rows):
            part = slice(number - start, number - start + len(click))
            for place, name in enumerate(FEATURES):
                codes = _looked_up(name, tables[name], categories[name], dim)
                result.codes[part, place] = codes
            result.click[part] = click
        return result

    def frame(self, rows: int, *, start: int = 0) -> pl.DataFrame:
        """Return rows start, start + 1, ... as text, in the file's 24 columns."""
        arguments.integer("rows", rows)
        return pl.concat(_frame(*block) for block in self._blocks(start, rows))

    def write(self, path: str | Path, rows: int) -> None:
        """Write the first rows as a CSV file like Avazu's, a block at a time."""
        arguments.integer("rows", rows)
        with Path(path).open("wb") as stream:
            for number, categories, click in self._blocks(0, rows):
                _frame(number, categories, click).write_csv(stream, include_header=number == 0)

    def _code_tables(self, dim: int) -> dict[str, Codes]:
        """Return the codes of every column's categories, as far as they were needed so far."""
        if dim not in self._tables:
            self._tables[dim] = {
                name: np.full(column.levels, _NOT_HASHED, np.uint8)
                for name, column in SPECIFICATION.items()
            }
        return self._tables[dim]

    def _blocks(self, start: int, rows: int) -> Iterator[tuple[int, Categories, Codes]]:
        """Draw whole blocks; hand out what lies in the range, with its first row's number."""
        arguments.integer("start", start, at_least=0)
        for index in range(start // BLOCK, -(-(start + rows) // BLOCK)):
            first = index * BLOCK
            part = slice(max(start - first, 0), min(start + rows - first, BLOCK))
            categories, click = self._block(index)
            cut = {name: values[part] for name, values in categories.items()}
            yield first + part.start, cut, click[part]

    def _block(self, index: int) -> tuple[Categories, Codes]:
        random = generator(branch(SeedSequence(self.seed), _ROWS, index))
        categories, click = drawn(random, BLOCK, self.effects)
        return categories, click.astype(np.uint8)


def drawn(random: Uniforms, rows: int, effects: Mapping[str, Array]) -> tuple[Categories, Array]:
    """Draw rows: every column's categories, and whether there was a click.

    `effects` are those of the categories on the logit of a click, in the library of `random`.
    """
    categories: Categories = {}
    logit: Array = _INTERCEPT
    for name, column in SPECIFICATION.items():
        if column.of is None:
            categories[name] = column.draw(random, rows)
        else:
            categories[name] = categories[column.of] % column.levels
        if column.effect:
            logit = logit + effects[name][categories[name]]
    odds = 1.0 + namespace(logit).exp(-logit)
    return categories, random.random((rows,)) * odds < 1.0


def _frame(number: int, categories: Categories, click: Codes) -> pl.DataFrame:
    """Return drawn rows, numbered from `number`, as the file writes them."""
    columns = {
        "id": pl.Series(np.arange(number, number + len(click)) + 10**18).cast(pl.String),
        "click": pl.Series(click).cast(pl.String),
    }
    for name in FEATURES:
        values, places = np.unique(categories[name], return_inverse=True)
        columns[name] = pl.Series(texts(name, values), dtype=pl.String).gather(places)
    return pl.DataFrame(columns).select(COLUMNS)


def _looked_up(name: str, table: Codes, categories: Integers, dim: int) -> Codes:
    """Return the categories' codes, hashing those that `table` does not hold yet into it."""
    codes = table[categories]
    new = np.unique(categories[codes == _NOT_HASHED])
    if new.size:
        table[new] = hash_codes(name, texts(name, new), dim)
        codes = table[categories]
    return codes
