"""Sums over clusters: what errors are made of where units are not independent.

Unlike all other sums these grow, with the number of clusters: two numbers for each contrast.
"""

from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import AnyArray, Floats


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """The units of each cluster, and the sums of their scores.

    Parameters
    ----------
    names
        The clusters, sorted.
    counts
        How many units each has.
    sums
        The sums of their scores, one column for each contrast.
    """

    names: AnyArray
    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, names: AnyArray, columns: Floats) -> "ClusterSums":
        """Return the sums of some units."""
        return cls._added(names, np.ones(len(names)), columns)

    def merge(self, other: "ClusterSums") -> "ClusterSums":
        """Return the sums of both sets of units; a cluster may be in both."""
        return self._added(
            np.concatenate([self.names, other.names]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.sums, other.sums]),
        )

    @classmethod
    def _added(cls, names: AnyArray, counts: Floats, columns: Floats) -> "ClusterSums":
        unique, places = np.unique(names, return_inverse=True)
        size = len(unique)
        totals = np.zeros((size, columns.shape[1] + 1))
        for place, column in enumerate((counts, *columns.T)):
            totals[:, place] = np.bincount(places, weights=column, minlength=size)
        return cls(unique, totals[:, 0], totals[:, 1:])

    def deviations(self, place: int, mean: float) -> Floats:
        """Return each cluster's sum of deviations from a mean, of one column."""
        return self.sums[:, place] - self.counts * mean


def shared_covariance(
    one: ClusterSums, other: ClusterSums, place: int, means: tuple[float, float]
) -> float:
    """Return the covariance of two waves' means that clusters in both of them bring about."""
    _, here, there = np.intersect1d(one.names, other.names, return_indices=True)
    first = one.deviations(place, means[0])[here]
    second = other.deviations(place, means[1])[there]
    return float(first @ second / (one.counts.sum() * other.counts.sum()))
