"""Assignment under limits on counts and cost: prices, tilted probabilities and balanced draws.

Pure functions over tables of units and actions; they need no campaign. :func:`limited` adjusts a
policy's probabilities to :class:`Limits`. :func:`rounded` draws actions from any table of
probabilities: every probability holds exactly, and counts are their expectations rounded up or
down.
"""

from seqbatch.allocation.allocation import Limited, limited
from seqbatch.allocation.limits import Limits
from seqbatch.allocation.rounding import Rounded, rounded

__all__ = ["Limited", "Limits", "Rounded", "limited", "rounded"]


def __dir__() -> list[str]:
    return __all__
