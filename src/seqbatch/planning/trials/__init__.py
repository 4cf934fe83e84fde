"""The planner's simulators: many trials at a cost that does not depend on the number of units.

An ensemble is a set of greedy trials of one Gaussian model, each with its own true parameter. For
each trial and batch of a grid it returns the expected regret of a unit, given the estimate used in
the batch. The first batch is uniform (all actions equally likely); the others follow ridge
regressions on all data so far, whose penalty suits the size of the effects. Contexts are never
drawn unit by unit: the sums over a batch are drawn directly (see
:mod:`seqbatch.simulation.collapsed`), for all trials together. Contexts are whitened, because their
covariance does not affect least squares, and the others hardly.

If only the choice of one action at the end counts, trials follow exploration sampling on means (see
:mod:`seqbatch.planning.trials.exploration_sampling`). Other policies that use more than estimated
means run on thinned batches.
"""

from seqbatch.planning.trials.exploration_sampling import ChoiceEnsemble
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.planning.trials.greedy_shared_model import SharedEnsemble

Trials = SharedEnsemble | BlockEnsemble | ChoiceEnsemble

__all__ = ["BlockEnsemble", "ChoiceEnsemble", "SharedEnsemble", "Trials"]
