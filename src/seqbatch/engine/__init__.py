"""Run a pure function over pieces: in processes here, on Dask or on Ray, with the same results.

An engine does pieces anywhere and in any order. Results come back by the place of their piece, and
statistics are merged in a tree that depends on the number of pieces alone, so that the bits of a
result do not depend on the engine.
"""

from seqbatch.engine.base import Engine
from seqbatch.engine.merging import merge_tree
from seqbatch.engine.opening import ENGINES, open_engine
from seqbatch.engine.running import as_completed, over_batches

__all__ = ["ENGINES", "Engine", "as_completed", "merge_tree", "open_engine", "over_batches"]
