"""The planner's own simulators: many trials at a cost that does not depend on the units.

An ensemble is a set of greedy trials of one Gaussian model, each with a true parameter of its own.
It answers what a grid would cost: for every trial and batch, the expected regret of a unit given
the estimate that the batch is run with. A first batch is uniform (every action is equally likely),
the others follow least squares on all data so far. Contexts are never drawn unit by unit: the sums
over a batch are drawn as such (:mod:`seqbatch.simulation.collapsed` says how), for all trials
together. Contexts are whitened: with least squares, their covariance changes nothing.

Policies that look at more than estimated means run on thinned batches instead.
"""

from seqbatch.planning.trials.block import BlockEnsemble
from seqbatch.planning.trials.shared import SharedEnsemble

Trials = SharedEnsemble | BlockEnsemble

__all__ = ["BlockEnsemble", "SharedEnsemble", "Trials"]
