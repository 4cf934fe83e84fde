"""When batches end, and how many there should be.

A :class:`Grid` is a list of ends 0 < t_1 < ... < t_M = T: batch m holds the units t_{m-1} + 1 to
t_m, numbered from 1 as in the paper (Han et al., *Sequential Batch Learning in Finite-Action
Linear Contextual Bandits*), and its outcomes become visible at t_m.

>>> from seqbatch import grids
>>> grids.minimax(units=10_000, dim=5, batches=3)
Grid(units=10000, batches=3, ends=[767, 4248, 10000])
>>> grids.uniform(units=10, batches=3).sizes
(3, 3, 4)
"""

from seqbatch.grids.grid import Grid, explicit
from seqbatch.grids.paper import (
    adversarial_batches,
    geometric,
    minimax,
    online,
    problem_dependent_batches,
    sparse,
    stochastic_batches,
    uniform,
)
from seqbatch.grids.rule import GridRule

__all__ = [
    "Grid",
    "GridRule",
    "adversarial_batches",
    "explicit",
    "geometric",
    "minimax",
    "online",
    "problem_dependent_batches",
    "sparse",
    "stochastic_batches",
    "uniform",
]
