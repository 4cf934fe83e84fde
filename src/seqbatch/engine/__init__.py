"""Run a pure function over pieces: in processes here, on Dask or on Ray, with the same results.

An engine runs pieces anywhere and in any order. Each result comes back with the place of its piece,
and statistics are merged in a tree that depends only on the number of pieces: the bits of a result
do not depend on the engine.
"""

from seqbatch.engine.address import ENGINES, open_engine
from seqbatch.engine.base import Engine, as_completed, merge_tree, over_batches

__all__ = ["ENGINES", "Engine", "as_completed", "merge_tree", "open_engine", "over_batches"]
