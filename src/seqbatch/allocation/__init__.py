"""Who gets what when counts are limited: prices, tilting, and balanced draws.

Pure functions over tables of units and actions, which need no campaign. :func:`limited` brings a
policy's probabilities within :class:`Limits`; :func:`rounded` draws actions from any such table,
so that counts are their expectations rounded up or down and every probability holds exactly.
"""

from seqbatch.allocation.allocation import Limited, limited
from seqbatch.allocation.limits import Limits
from seqbatch.allocation.rounding import Rounded, rounded

__all__ = ["Limited", "Limits", "Rounded", "limited", "rounded"]
