"""Rows like Avazu's, drawn on a device: a pool of the paper's size in seconds.

The law is that of :class:`~seqbatch.datasets.SyntheticAvazu`, and so are its effects and the code
of each category. The draws are others, functions of the row's number, so that the rows are not
those of the same seed on the host.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, Floats, namespace
from seqbatch.datasets.avazu import FEATURES
from seqbatch.datasets.hashed import DIM, dimension, hash_codes, theta_of
from seqbatch.datasets.murmur import murmur3
from seqbatch.datasets.synthetic_avazu import SPECIFICATION, SyntheticAvazu, drawn, numbers, texts
from seqbatch.environments.base import branch
from seqbatch.simulation.device import counters
from seqbatch.simulation.device.backend import Backend, backend
from seqbatch.simulation.device.memory import usable
from seqbatch.simulation.device.pools import chunks, signed_counts, waking

#: The place of these rows in the log's seed tree.
_DEVICE = 2
#: More than a row has columns that are drawn, its click included.
_STREAMS = 32
#: Rows that are drawn at a time at most, and about how many bytes each of them takes meanwhile.
_MOST, _BYTES = 2**25, 512


@dataclass(frozen=True, eq=False)
class DeviceAvazu:
    """A log that is drawn where it is used; row i is the same whatever the number of rows.

    Parameters
    ----------
    rows
        How many rows there are.
    device
        ``"cuda"``, ``"cpu"`` or ``"numpy"``.
    seed
        That of the log.
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
        """Return the vectors of these rows, shape (*indices.shape, d)."""
        wanted = np.asarray(indices, dtype=np.int64)
        place, (counts, _) = backend(self.device), self._made
        taken = place.xp.take(counts, place.array(wanted.reshape(-1)), axis=0)
        return place.host(taken).reshape(*wanted.shape, self.dim) * self.scale

    def counts(self, place: Backend) -> Array:
        """Return the sums of signs of all rows, as int8, on the device they were drawn on."""
        counts, _ = self._made
        return (
            counts
            if place == backend(self.device)
            else place.array(backend(self.device).host(counts))
        )

    @cached_property
    def theta(self) -> Floats:
        """The least-squares parameter of click on the rows' vectors; its sums have no rounding."""
        place = backend(self.device)
        with waking(place):
            xp, (counts, click) = place.xp, self._made
            gram, moment = place.zeros((self.dim, self.dim)), place.zeros((self.dim,))
            for part in chunks(self.rows):
                x, y = xp.astype(counts[part], xp.float64), xp.astype(click[part], xp.float64)
                gram, moment = gram + x.T @ x, moment + y @ x
            clicks = float(xp.sum(xp.astype(click, xp.float64)))
            return theta_of(place.host(gram), place.host(moment), clicks, self.rows)

    @cached_property
    def _made(self) -> tuple[Array, Array]:
        """The sums of signs and the clicks of all rows."""
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
    """Uniform numbers of some rows: the n-th call gives each row its n-th number."""

    def __init__(self, place: Backend, seed: int, part: slice) -> None:
        key = branch(SeedSequence(seed), _DEVICE).generate_state(1, np.uint64).view(np.int64)
        self.key, self.stream = place.array(key), 0
        self.first = place.integers(part.start, part.stop) * _STREAMS

    def random(self, size: tuple[int, ...]) -> Array:  # noqa: ARG002
        """Draw uniformly from [0, 1), one number a row."""
        self.stream += 1
        return counters.uniforms(counters.bits(self.key, self.first + self.stream))


def _together(place: Backend) -> int:
    """Return how many rows are drawn at a time: with few, a GPU waits for the host."""
    return min(max(usable(place) // _BYTES, 1), _MOST)


def _numbered(name: str) -> bool:
    return SPECIFICATION[name].first is not None


def _table(name: str, dim: int, place: Backend) -> Array:
    """Return the code of every category of a column of numbers: there are few."""
    return place.array(hash_codes(name, texts(name, np.arange(SPECIFICATION[name].levels)), dim))


def hex_codes(name: str, categories: Array, dim: int) -> Array:
    """Return the codes of categories that are written as eight hexadecimal digits.

    There are millions of them: hashing those of the rows is quicker than hashing all.
    """
    xp, written = namespace(categories), numbers(name, categories)
    digits = [(written >> (4 * place)) & 15 for place in reversed(range(8))]
    # The digits past 9 are letters, 39 places further on.
    letters = [48 + digit + 39 * xp.astype(digit > 9, xp.int64) for digit in digits]
    hashed = murmur3([*f"{name}=".encode(), *letters])
    return xp.astype(xp.abs(hashed) % dim + 128 * xp.astype(hashed < 0, xp.int64), xp.uint8)
