"""Grams of a batch's units in the block model, as roots: those chosen for, those of chance."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats, Integers
from seqbatch.planning.trials.draws import Draws, wishart_diagonal, wishart_factors

#: What the kept normals are used for.
BELOW, DIAGONAL, CROSS, ROWS = 6, 7, 8, 15


@dataclass(frozen=True, eq=False)
class Grams:
    """Draws grams.

    Parameters
    ----------
    draws
        Where the randomness comes from.
    shape
        That of the parameters, (trials, K, dim).
    points
        How many points stand for the units of a batch.
    rows
        Whitened rows of features to take units from, shape (n, p); None draws normals.
    """

    draws: Draws
    shape: tuple[int, ...]
    points: int
    rows: Floats | None

    def chosen(self, batch: int, size: int, gram: Floats, count: Integers, frame: Floats) -> Floats:
        """Return F with F F' each action's gram of `size` units that were chosen for.

        Parameters
        ----------
        batch, size
            Its number, and how many units.
        gram, count, frame
            What their points chose: sums in the decisive directions, how many took each action,
            and the directions; see :func:`seqbatch.core.kernels.choose_points`.
        """
        weight = size / min(size, self.points)
        if self.rows is not None:
            return _root(weight * gram)
        # The other directions depend on how many units an action got, not on how many points.
        units = np.rint(weight * count)
        return self._assembled(batch, weight * gram, count, units, frame)

    def uniform(
        self, batch: int, count: Floats, *, apart: int = 0, last: Floats | None = None
    ) -> Floats:
        """Return F with F F' each action's gram of `count` units assigned by chance.

        Parameters
        ----------
        batch
            Its number.
        count
            Shape (trials, K), or (trials, 1) where one gram serves all actions.
        apart
            How far from those of choices the normals are kept.
        last
            The last squared diagonals of the roots, where these are drawn elsewhere.
        """
        if self.rows is not None:
            return _root(self._gram_of_rows(batch, count, apart))
        trials, actions, dim = self.shape
        cells = count.shape[1]
        # The constant's column, then the features' own in coordinates as they are.
        factors = np.zeros((trials, cells, dim, dim))
        factors[..., 0, 0] = np.sqrt(count)
        if dim > 1:
            cross = self.draws.normals(CROSS + apart, batch, (trials, actions, dim - 1, dim - 1))
            factors[..., 1:, 0] = cross[:, :cells, :, 0] * (count > 0)[..., None]
            below, diagonal = self._wishart_normals(batch, cells, apart)
            factors[..., 1:, 1:] = wishart_factors(below, diagonal, count - 1, last=last)
        return factors

    def _gram_of_rows(self, batch: int, count: Floats, apart: int) -> Floats:
        """Return each action's gram of so many rows taken at random, one action after another.

        Where there are more than points, each point stands for several.
        """
        points = self.draws.taken(
            self._given_rows, ROWS + apart, batch, (self.shape[0], self.points)
        )
        vectors = np.concatenate([np.ones((*points.shape[:2], 1)), points], axis=2)
        total = np.maximum(count.sum(axis=1, keepdims=True), self.points)
        ends = np.rint(np.cumsum(count, axis=1) * (self.points / total))
        used = np.diff(ends, axis=1, prepend=0.0)
        place = np.arange(self.points)
        grams = [
            np.swapaxes(vectors * ((place >= end - size) & (place < end))[..., None], 1, 2)
            @ vectors
            for end, size in zip(
                np.moveaxis(ends, 1, 0)[..., None], np.moveaxis(used, 1, 0)[..., None], strict=True
            )
        ]
        stands_for = count / np.maximum(used, 1.0)
        gram: Floats = stands_for[..., None, None] * np.stack(grams, axis=1)
        return gram

    @property
    def _given_rows(self) -> Floats:
        assert self.rows is not None
        return self.rows

    def _assembled(
        self, batch: int, inner: Floats, rank: Integers, count: Floats, frame: Floats
    ) -> Floats:
        """Complete grams of the decisive directions by those that do not matter to the choice.

        With G = C C' the decisive part, Q its directions, P the projection on all others, and N, L
        a Gaussian and a root of a Wishart, the gram is F F' for F = [[c, 0], [Q C + P N, P L]],
        where c is the constant's row of C; where G lacks rank, so does C, and N has as many
        columns less.
        """
        trials, actions, dim = self.shape
        size = inner.shape[2]
        # With fewer points than directions the decisive gram is singular, which Cholesky refuses;
        # the columns beyond its rank do not count.
        jitter = 1e-13 * (1 + np.trace(inner, axis1=-2, axis2=-1))[..., None, None]
        root = np.linalg.cholesky(inner + jitter * np.eye(size))
        if dim == size:
            present = (np.arange(size) < rank[..., None])[..., None, :]
            return self._along(frame[..., : size - 1], root * present)
        cross = self.draws.normals(CROSS, batch, (trials, actions, dim - 1, dim - 1))
        below, normals = self._wishart_normals(batch, actions)
        diagonal = wishart_diagonal(normals, count - size)
        factors = np.empty((trials, actions, dim, size + dim - 1))
        kernels.complete_roots(frame, root, rank, cross, below, diagonal, factors)
        return factors

    def _along(self, axes: Floats, root: Floats) -> Floats:
        """Return a root of the decisive directions' gram in the coordinates of all features."""
        features = axes[:, None] @ root[..., 1:, :]
        return np.concatenate([root[..., :1, :], features], axis=2)

    def _wishart_normals(self, batch: int, cells: int, apart: int = 0) -> tuple[Floats, Floats]:
        """Return normals that roots of Wisharts are made of: below the diagonal, and for it."""
        trials, actions, dim = self.shape
        below = self.draws.below(BELOW + apart, batch, (trials, actions, dim - 1, dim - 1))
        diagonal = self.draws.normals(DIAGONAL + apart, batch, (trials, actions, dim))
        return below[:, :cells], diagonal[:, :cells, 1:]


def _root(gram: Floats) -> Floats:
    """Return F with F F' = G, of G's rank: rows that repeat each other leave directions open."""
    values, axes = np.linalg.eigh(gram)
    # What rounding leaves of a direction that no row has must not pass for evidence.
    values = np.where(values > 1e-9 * values[..., -1:], values, 0.0)
    root: Floats = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return root
