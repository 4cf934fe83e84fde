"""Count units, outcomes and recorded metrics by action, and test for imbalance."""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import probabilities_of
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.store import Reader
from seqbatch.campaign.record.stored_units import Piece, walk
from seqbatch.core.arrays import Floats, Integers

# ----------------------------------------------------------------------
# Tests of a wave: balanced missing outcomes, and allocation as logged.
#
# Both tests compare the units' actions with their logged probabilities. They keep their level even
# if probabilities depend on the units. Actions too rare for a chi-square test are merged.


#: A p-value below this is suspicious: chance alone is an unlikely explanation.
SMALL = 0.001
#: A count is tested if its variance is at least this many times the largest contribution of one
#: unit. Below that, the chi-square approximation is poor.
ENOUGH = 5.0


@dataclass(frozen=True)
class ChiSquare:
    """A chi-square test: its statistic, degrees of freedom, and p-value (None without freedom).

    `few` is true if there was something to test, but with too few units.
    """

    statistic: float
    freedom: int
    p: float | None
    few: bool = False

    @property
    def suspicious(self) -> bool:
        """Whether chance alone is an unlikely explanation."""
        return self.p is not None and self.p < SMALL

    def plain(self) -> dict[str, float | int | None]:
        """Return the test as plain values."""
        return {
            "statistic": self.statistic, "freedom": self.freedom, "p": self.p, "few": self.few,
        }  # fmt: skip


class Allocation:
    """How often each action was given, and how often the logged probabilities imply.

    The expected counts are the sums of the units' probabilities. Their covariance is the sum of
    diag(p) - p p'. The test is therefore valid even if every unit has different probabilities.
    Units are added in pieces.
    """

    def __init__(self, actions: int) -> None:
        self.counts = np.zeros(actions, dtype=np.int64)
        self.expected = np.zeros(actions)
        self._products = np.zeros((actions, actions))

    @property
    def units(self) -> int:
        """The number of units added."""
        return int(self.counts.sum())

    @property
    def gap(self) -> Floats:
        """The counts minus the expected counts."""
        return self.counts - self.expected

    @property
    def covariance(self) -> Floats:
        """The covariance of the counts under the logged probabilities."""
        return np.diag(self.expected) - self._products

    def add(self, actions: Integers, probabilities: Floats | None) -> None:
        """Add some units; units without probabilities are counted but cannot be tested."""
        self.counts += np.bincount(actions, minlength=len(self.counts))
        if probabilities is None:
            return
        # Keep only sums of products, not units, whatever the size of the wave. Summing contiguous
        # numbers is several times as fast.
        columns = np.ascontiguousarray(probabilities.T)
        self.expected += columns.sum(axis=1)
        self._products += np.einsum("an,bn->ab", columns, columns)

    def add_sums(self, counts: Integers, expected: Floats, products: Floats) -> None:
        """Add units from sums computed elsewhere: counts, and the sums of p and p p'."""
        self.counts += counts
        self.expected += expected
        self._products += products

    def __add__(self, other: "Allocation") -> "Allocation":
        both = Allocation(len(self.counts))
        both.counts = self.counts + other.counts
        both.expected = self.expected + other.expected
        both._products = self._products + other._products
        return both

    def test(self) -> ChiSquare:
        """Test the counts against the expected counts."""
        return _tested(self.gap, self.covariance, largest=1.0)


def missingness(seen: Allocation, missing: Allocation) -> ChiSquare:
    """Test whether outcomes are missing equally often under every action.

    Units differ in how often their outcomes are missing, and in their probabilities. The two may be
    correlated although no action causes missing outcomes. The test therefore compares, among units
    with the same probabilities, the actions of units with and without an outcome. If m is the
    missing share, a unit has the weight 1 - m if its outcome is missing and -m otherwise. Given
    these weights, only the actions are random, and their probabilities are known.

    Parameters
    ----------
    seen, missing
        The units with and without an outcome.

    Examples
    --------
    >>> seen, missing = Allocation(2), Allocation(2)
    >>> even = np.full((1000, 2), 0.5)
    >>> seen.add(np.repeat([0, 1], [450, 350]), even[:800])
    >>> missing.add(np.repeat([0, 1], [50, 150]), even[:200])
    >>> missingness(seen, missing).suspicious
    True
    """
    units = seen.units + missing.units
    if not (seen.units and missing.units):
        return ChiSquare(0.0, 0, None)
    share = missing.units / units
    gap = (1 - share) * missing.gap - share * seen.gap
    covariance = (1 - share) ** 2 * missing.covariance + share**2 * seen.covariance
    return _tested(gap, covariance, largest=max(1 - share, share) ** 2)


def _tested(gap: Floats, covariance: Floats, *, largest: float) -> ChiSquare:
    """Test a gap of known covariance; `largest` is one unit's largest contribution, squared."""
    least = ENOUGH * largest
    pooled = _pooled(gap, covariance, least)
    if pooled is None:
        return ChiSquare(0.0, 0, None, few=bool(covariance.diagonal().max() > 1e-9 * largest))
    # scipy.stats would take a second to import.
    from scipy.special import chdtrc

    gap, covariance = pooled
    values, vectors = np.linalg.eigh(covariance)
    # The counts sum to a constant; sums over some of the actions may be nearly constant too.
    kept = values >= least
    along = vectors.T @ gap
    statistic, freedom = float((along[kept] ** 2 / values[kept]).sum()), int(kept.sum())
    p = float(chdtrc(freedom, statistic)) if freedom else math.nan
    return ChiSquare(statistic, freedom, p if math.isfinite(p) else None)


def _pooled(gap: Floats, covariance: Floats, least: float) -> tuple[Floats, Floats] | None:
    """Merge the rarest actions until all variances reach `least`; None if that is impossible."""
    variances = covariance.diagonal()
    lacking = int((variances < least).sum())
    if not lacking:
        return gap, covariance
    order = np.argsort(variances, kind="stable")
    gap, covariance = gap[order], covariance[np.ix_(order, order)]
    together = covariance.cumsum(axis=0).cumsum(axis=1).diagonal()
    enough = np.flatnonzero(together[lacking - 1 : -1] >= least)
    if not len(enough):
        return None
    starts = [0, *range(lacking + int(enough[0]), len(gap))]
    covariance = np.add.reduceat(np.add.reduceat(covariance, starts, axis=0), starts, axis=1)
    return np.add.reduceat(gap, starts), covariance


# ----------------------------------------------------------------------
# Counts of units by action, with sums of rewards.


@dataclass(frozen=True)
class Counts:
    """Units by action, additive over pieces of the record.

    Parameters
    ----------
    seen, missing
        Units with an outcome (including units counted as absent), and units without one.
    absent
        Units that count as absent.
    randomised
        Units whose action was drawn uniformly at random.
    rewards
        The sums of outcomes after the actions' costs, with the reward's sign.
    weights, weighted
        The sums of 1/p over units with an outcome, and of rewards times 1/p, where p is the
        probability of the unit's action.
    least
        The smallest probability of the action for any unit; 1 without units.
    metrics
        Recorded values of the metrics that are stored beside the reward: a row for each.
    """

    seen: Allocation
    missing: Allocation
    absent: Integers
    randomised: Integers
    rewards: Floats
    weights: Floats
    weighted: Floats
    least: Floats
    metrics: Integers

    @property
    def allocation(self) -> Allocation:
        """All units."""
        return self.seen + self.missing

    @property
    def assigned(self) -> Integers:
        """The number of units by action."""
        return self.seen.counts + self.missing.counts

    @property
    def known(self) -> Integers:
        """Units with an outcome, including units counted as absent."""
        return self.seen.counts

    @property
    def observed(self) -> Integers:
        """Recorded outcomes."""
        return self.seen.counts - self.absent

    def recorded(self, now: Situation) -> dict[str, dict[str, int]]:
        """Return how many values of each metric were recorded, by metric and action.

        The metric that is the reward has as many as there are recorded outcomes.
        """
        names = [action.name for action in now.actions]
        own = dict(zip(now.spec.parts, self.metrics.tolist(), strict=True))
        observed = self.observed.tolist()
        return {
            metric: dict(zip(names, own.get(metric, observed), strict=True))
            for metric in now.spec.metrics
        }

    def tests(self) -> dict[str, ChiSquare]:
        """Return the two tests by name."""
        return {
            "missingness": missingness(self.seen, self.missing),
            "allocation": self.allocation.test(),
        }

    @classmethod
    def zero(cls, now: Situation) -> "Counts":
        """Return counts of zero units."""
        actions = len(now.actions)
        return cls(
            seen=Allocation(actions),
            missing=Allocation(actions),
            absent=np.zeros(actions, dtype=np.int64),
            randomised=np.zeros(actions, dtype=np.int64),
            rewards=np.zeros(actions),
            weights=np.zeros(actions),
            weighted=np.zeros(actions),
            least=np.ones(actions),
            metrics=np.zeros((len(now.spec.parts), actions), dtype=np.int64),
        )

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            seen=self.seen + other.seen,
            missing=self.missing + other.missing,
            absent=self.absent + other.absent,
            randomised=self.randomised + other.randomised,
            rewards=self.rewards + other.rewards,
            weights=self.weights + other.weights,
            weighted=self.weighted + other.weighted,
            least=np.minimum(self.least, other.least),
            metrics=self.metrics + other.metrics,
        )

    @classmethod
    def of(cls, now: Situation, piece: Piece, *, tested: bool = True) -> "Counts":
        """Count the units and outcomes of a piece.

        Parameters
        ----------
        now
            The campaign's current state.
        piece
            The units.
        tested
            Whether to compute the sums for :meth:`tests`; their cost for each unit grows with the
            square of the number of actions.
        """
        size, here = len(now.actions), piece.known
        stored = piece.decisions(columns_counted(now))
        actions = stored["action"].to_numpy().astype(np.int64)
        chances = _chances(stored, size)
        rows: slice | Integers = slice(None) if piece.whole else piece.rows
        own, absent = actions[rows], here.absent
        rewards = now.rewards(here.values, own)
        weights = 1 / chances[np.arange(len(actions))[rows], own]
        cells = piece.cells
        units = actions[cells.numbers - piece.chunk.first]
        metrics = [np.bincount(units[~np.isnan(one)], minlength=size) for one in cells.parts.T]
        seen, missing = _allocations(size, piece, actions, chances if tested else None)
        return cls(
            seen=seen,
            missing=missing,
            absent=np.bincount(own[absent], minlength=size),
            randomised=np.bincount(actions[stored["randomised"].to_numpy()], minlength=size),
            rewards=_summed(own, rewards, size),
            weights=_summed(own, weights, size),
            weighted=_summed(own, weights * rewards, size),
            least=chances.min(axis=0, initial=1.0),
            metrics=np.array(metrics, dtype=np.int64).reshape(len(metrics), size),
        )


def _summed(actions: Integers, values: Floats, size: int) -> Floats:
    """Return the sums of values by action."""
    return np.bincount(actions, weights=values, minlength=size).astype(np.float64)


def _chances(stored: pa.Table, size: int) -> Floats:
    """Return the probabilities of all actions, shape (n, size)."""
    found = probabilities_of(stored, stored.num_columns - 2)
    # Actions added later had probability 0.
    added = size - found.shape[1]
    return np.pad(found, ((0, 0), (0, added))) if added else found


def _allocations(
    size: int, piece: Piece, actions: Integers, chances: Floats | None
) -> tuple[Allocation, Allocation]:
    """Return the units of a piece with an outcome, and those without one."""
    with_one, without = Allocation(size), Allocation(size)
    if piece.whole:
        with_one.add(actions, chances)
        return with_one, without
    seen = np.zeros(len(actions), dtype=np.bool_)
    seen[piece.rows] = True
    for made, some in ((with_one, seen), (without, ~seen)):
        made.add(actions[some], None if chances is None else chances[some])
    return with_one, without


def tally(reader: Reader, now: Situation, known: Ledger, wave: int) -> Counts:
    """Count a wave's units and outcomes."""
    total = Counts.zero(now)
    for part in over(lambda piece: Counts.of(now, piece), walk(reader, known, wave=wave)):
        total += part
    return total


def columns_counted(now: Situation) -> list[str]:
    """Return the columns of decisions that are counted."""
    return ["action", "randomised", *(f"p{action}" for action in range(len(now.actions)))]
