"""The few loops that BLAS cannot express, compiled on first use and cached.

They are tested against plain twins in ``tests/core/test_kernels.py``; those that replay a whole
policy, against the oracles and against the policy step by step. None of them checks bounds: callers
do.
"""

from seqbatch.core.kernels.batches import pass_stage, replay_stages, replay_ucb
from seqbatch.core.kernels.online import REFRESH, replay_online_ucb
from seqbatch.core.kernels.points import choose_points
from seqbatch.core.kernels.regression import accumulate, descend, factorise, ridge_cells, solve
from seqbatch.core.kernels.scoring import best_shares, means, means_and_widths, signed_counts

__all__ = [
    "REFRESH",
    "accumulate",
    "best_shares",
    "choose_points",
    "descend",
    "factorise",
    "means",
    "means_and_widths",
    "pass_stage",
    "replay_online_ucb",
    "replay_stages",
    "replay_ucb",
    "ridge_cells",
    "signed_counts",
    "solve",
]
