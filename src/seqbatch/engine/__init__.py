"""Run a pure function over pieces of data in local processes, on Dask or on Ray.

An engine may run pieces on any machine and in any order. Each result is returned with the position
of its piece, and statistics are merged in a tree that depends only on the number of pieces.
Therefore all engines give bit-identical results.
"""

from seqbatch.engine.address import ENGINES, open_engine
from seqbatch.engine.base import Engine, as_completed, merge_tree, over_batches

__all__ = ["ENGINES", "Engine", "as_completed", "merge_tree", "open_engine", "over_batches"]


def __dir__() -> list[str]:
    return __all__
