from seqbatch.allocation.rounding import Rounded, rounded
