"""Synthetic rows like Avazu's, with the same columns and heavy-tailed categories; CPU or GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, Floats, Integers, namespace
from seqbatch.datasets.avazu import (
    COLUMNS,
    DIM,
    FEATURES,
    Codes,
    HashedRows,
    dimension,
    hash_codes,
    murmur3,
    theta_of,
)
from seqbatch.environments.base import branch, generator
from seqbatch.simulation.device import random_numbers
from seqbatch.simulation.device.backend import Backend, backend
from seqbatch.simulation.device.units import chunks, signed_counts, usable, waking

# ----------------------------------------------------------------------
# Rows on the host.
#
# Every column has as many categories as the real file can have. Their frequencies follow a power
# law: the k-th most frequent has probability about proportional to k^-exponent. A site determines
# its domain and category, as does an app, and C14 determines C17; all else is independent. Clicks
# are Bernoulli with a logistic mean of some columns' effects; depending on the seed, 13% to 26% of
# rows have a click.
#
# Rows are exchangeable: `hour` is drawn like any other column, whereas the real file is sorted by
# it. The first n rows are therefore a fair sample for every n.


#: Rows drawn together. Seeds depend on it: another number gives other rows.
BLOCK = 1 << 16

_EFFECTS, _ROWS = 0, 1
_NOT_HASHED = 255
_INTERCEPT = -1.7

Categories = dict[str, Array]


class Uniforms(Protocol):
    """A source of uniform numbers: NumPy's generator, or draws on a device."""

    def random(self, size: tuple[int, ...], /) -> Any:
        """Draw uniformly from [0, 1)."""


@dataclass(frozen=True)
class SyntheticColumn:
    """How the categories of a column are drawn and written.

    Parameters
    ----------
    levels
        The number of categories.
    exponent
        How fast their frequencies fall, any number but 1; not used if `of` is given.
    first
        The number of category 0 if categories are consecutive numbers; None for eight hexadecimal
        digits.
    of
        The column that determines this one, if any.
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
        # Rounding may move a draw just past either end.
        return xp.clip(xp.astype(ranks, xp.int64) - 1, 0, self.levels - 1)


#: The hashed columns, by name.
SPECIFICATION = {
    "hour": SyntheticColumn(240, 0.2, first=0, effect=0.1),
    "C1": SyntheticColumn(7, 3.0, first=1001),
    "banner_pos": SyntheticColumn(7, 2.0, first=0, effect=0.2),
    "site_id": SyntheticColumn(4_737, 1.2, effect=0.4),
    "site_domain": SyntheticColumn(7_745, of="site_id"),
    "site_category": SyntheticColumn(26, of="site_id"),
    "app_id": SyntheticColumn(8_552, 1.5, effect=0.4),
    "app_domain": SyntheticColumn(559, of="app_id"),
    "app_category": SyntheticColumn(36, of="app_id"),
    "device_id": SyntheticColumn(2_686_408, 1.3),
    "device_ip": SyntheticColumn(6_729_486, 0.8),
    "device_model": SyntheticColumn(8_251, 0.9),
    "device_type": SyntheticColumn(5, 3.0, first=0, effect=0.2),
    "device_conn_type": SyntheticColumn(4, 2.5, first=0),
    "C14": SyntheticColumn(2_626, 0.9, first=375, effect=0.4),
    "C15": SyntheticColumn(8, 3.0, first=120),
    "C16": SyntheticColumn(9, 3.0, first=20),
    "C17": SyntheticColumn(435, first=112, of="C14"),
    "C18": SyntheticColumn(4, 0.9, first=0, effect=0.2),
    "C19": SyntheticColumn(68, 1.1, first=33),
    "C20": SyntheticColumn(172, 1.1, first=100_000),
    "C21": SyntheticColumn(60, 0.9, first=13, effect=0.2),
}


def texts(name: str, categories: Integers) -> list[str]:
    """Return categories in the file's text form."""
    first = SPECIFICATION[name].first
    if name == "hour":
        return [f"1410{21 + k // 24}{k % 24:02d}" for k in categories.tolist()]
    if first is not None:
        return [str(first + k) for k in categories.tolist()]
    return [f"{number:08x}" for number in numbers(name, categories).tolist()]


def numbers(name: str, categories: Array) -> Array:
    """Return the 32-bit numbers of hexadecimal categories."""
    # An odd factor makes this a bijection of 32-bit numbers: distinct categories stay distinct.
    start = 0x85EBCA6B * (1 + FEATURES.index(name))
    return (start + 2_654_435_761 * categories) % (1 << 32)


@dataclass(frozen=True, eq=False)
class SyntheticAvazu:
    """A log of any length; row i does not depend on how many rows are requested.

    Parameters
    ----------
    seed
        The same seed gives the same log.

    Attributes
    ----------
    effects
        The effect of each category of a column on the logit of a click.

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
        """Return rows start, start + 1, ..., hashed directly without writing their text.

        Each category's text is hashed once, on first use.
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
        """Write the first rows as a CSV file in Avazu's format, a block at a time."""
        arguments.integer("rows", rows)
        with Path(path).open("wb") as stream:
            for number, categories, click in self._blocks(0, rows):
                _frame(number, categories, click).write_csv(stream, include_header=number == 0)

    def _code_tables(self, dim: int) -> dict[str, Codes]:
        """Return the code tables of all columns, filled as far as needed so far."""
        if dim not in self._tables:
            self._tables[dim] = {
                name: np.full(column.levels, _NOT_HASHED, np.uint8)
                for name, column in SPECIFICATION.items()
            }
        return self._tables[dim]

    def _blocks(self, start: int, rows: int) -> Iterator[tuple[int, Categories, Codes]]:
        """Draw whole blocks; yield their parts within the range, with the first row's number."""
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

    `effects` are the categories' effects on the logit of a click, in the array library of `random`.
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
    """Return drawn rows, numbered from `number`, in the file's text form."""
    columns = {
        "id": pl.Series(np.arange(number, number + len(click)) + 10**18).cast(pl.String),
        "click": pl.Series(click).cast(pl.String),
    }
    for name in FEATURES:
        values, places = np.unique(categories[name], return_inverse=True)
        columns[name] = pl.Series(texts(name, values), dtype=pl.String).gather(places)
    return pl.DataFrame(columns).select(COLUMNS)


def _looked_up(name: str, table: Codes, categories: Integers, dim: int) -> Codes:
    """Return the categories' codes; hash those that are missing in `table` and add them to it."""
    codes = table[categories]
    new = np.unique(categories[codes == _NOT_HASHED])
    if new.size:
        table[new] = hash_codes(name, texts(name, new), dim)
        codes = table[categories]
    return codes


# ----------------------------------------------------------------------
# Rows on a device: a pool of the paper's size in seconds.
#
# Distribution, effects and category codes are those of :class:`~seqbatch.datasets.SyntheticAvazu`.
# The draws differ: they are functions of the row's number. The rows are therefore not those of the
# same seed on the host.


#: The branch of these rows in the log's seed tree.
_DEVICE = 2
#: More than the number of draws per row, including its click.
_STREAMS = 32
#: Maximum number of rows drawn at a time, and approximate bytes needed for each meanwhile.
_MOST, _BYTES = 2**25, 512


@dataclass(frozen=True, eq=False)
class DeviceAvazu:
    """A log drawn on the device that uses it; row i does not depend on the number of rows.

    Parameters
    ----------
    rows
        The number of rows.
    device
        ``"cuda"``, ``"cpu"`` or ``"numpy"``.
    seed
        The seed of the log.
    dim
        d, at most 127; 40 in the paper.

    Examples
    --------
    >>> log = DeviceAvazu(rows=1_000, device="numpy")
    >>> log.dense([0, 1]).shape, log.theta.shape
    ((2, 40), (40,))
    """

    rows: int
    device: str
    seed: int = 0
    dim: int = DIM

    def __post_init__(self) -> None:
        arguments.integer("rows", self.rows)
        dimension(self.dim)

    def __len__(self) -> int:
        return self.rows

    @property
    def scale(self) -> float:
        """The factor 1/sqrt(d) of every vector."""
        return float(1.0 / np.sqrt(self.dim))

    def dense(self, indices: ArrayLike) -> Floats:
        """Return the vectors of the given rows, shape (*indices.shape, d)."""
        wanted = np.asarray(indices, dtype=np.int64)
        place, (counts, _) = backend(self.device), self._rows
        taken = place.xp.take(counts, place.array(wanted.reshape(-1)), axis=0)
        return place.host(taken).reshape(*wanted.shape, self.dim) * self.scale

    def counts(self, place: Backend) -> Array:
        """Return the signed counts of all rows, as int8, on the given device."""
        counts, _ = self._rows
        return (
            counts
            if place == backend(self.device)
            else place.array(backend(self.device).host(counts))
        )

    @cached_property
    def theta(self) -> Floats:
        """The least-squares parameter of click on the rows' vectors, from exact sums."""
        place = backend(self.device)
        with waking(place):
            xp, (counts, click) = place.xp, self._rows
            gram, moment = place.zeros((self.dim, self.dim)), place.zeros((self.dim,))
            for part in chunks(self.rows):
                x, y = xp.astype(counts[part], xp.float64), xp.astype(click[part], xp.float64)
                gram, moment = gram + x.T @ x, moment + y @ x
            clicks = float(xp.sum(xp.astype(click, xp.float64)))
            return theta_of(place.host(gram), place.host(moment), clicks, self.rows)

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """The signed counts and the clicks of all rows."""
        place = backend(self.device)
        xp, log = place.xp, SyntheticAvazu(seed=self.seed)
        tables = {name: _table(name, self.dim, place) for name in FEATURES if _numbered(name)}
        effects = {name: place.array(values) for name, values in log.effects.items()}
        counts = xp.empty((self.rows, self.dim), dtype=xp.int8, device=place.device)
        click = xp.empty((self.rows,), dtype=xp.bool, device=place.device)
        for part in chunks(self.rows, _together(place)):
            random = _RowDraws(place, self.seed, part)
            categories, click[part] = drawn(random, part.stop - part.start, effects)
            codes = [
                tables[name][category] if name in tables else hex_codes(name, category, self.dim)
                for name, category in ((name, categories[name]) for name in FEATURES)
            ]
            counts[part] = signed_counts(codes, self.dim, xp)
        return counts, click


class _RowDraws:
    """Uniform numbers for some rows: the n-th call returns each row's n-th number."""

    def __init__(self, place: Backend, seed: int, part: slice) -> None:
        key = branch(SeedSequence(seed), _DEVICE).generate_state(1, np.uint64).view(np.int64)
        self.key, self.stream = place.array(key), 0
        self.first = place.integers(part.start, part.stop) * _STREAMS

    def random(self, size: tuple[int, ...]) -> Array:  # noqa: ARG002
        """Draw uniformly from [0, 1), one number per row."""
        self.stream += 1
        return random_numbers.uniforms(random_numbers.bits(self.key, self.first + self.stream))


def _together(place: Backend) -> int:
    """Return how many rows to draw at a time: with few, a GPU waits for the host."""
    return min(max(usable(place) // _BYTES, 1), _MOST)


def _numbered(name: str) -> bool:
    return SPECIFICATION[name].first is not None


def _table(name: str, dim: int, place: Backend) -> Array:
    """Return the code of every category of a numeric column, of which there are few."""
    return place.array(hash_codes(name, texts(name, np.arange(SPECIFICATION[name].levels)), dim))


def hex_codes(name: str, categories: Array, dim: int) -> Array:
    """Return the codes of categories written as eight hexadecimal digits.

    There are millions of categories: hashing those of the rows is faster than hashing all.
    """
    xp, written = namespace(categories), numbers(name, categories)
    digits = [(written >> (4 * place)) & 15 for place in reversed(range(8))]
    # Digits above 9 are letters, whose character codes are 39 higher.
    letters = [48 + digit + 39 * xp.astype(digit > 9, xp.int64) for digit in digits]
    hashed = murmur3([*f"{name}=".encode(), *letters])
    return xp.astype(xp.abs(hashed) % dim + 128 * xp.astype(hashed < 0, xp.int64), xp.uint8)
