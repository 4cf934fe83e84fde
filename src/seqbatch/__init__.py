"""Adaptive experiments whose feedback comes in a few batches."""

from seqbatch import grids, policies, theory
from seqbatch.core import Contexts, Estimate, Problem, Statistics
from seqbatch.errors import SeqbatchError
from seqbatch.grids import Grid
from seqbatch.learner import Learner

__version__ = "0.1.0"

__all__ = [
    "Contexts",
    "Estimate",
    "Grid",
    "Learner",
    "Problem",
    "SeqbatchError",
    "Statistics",
    "__version__",
    "grids",
    "policies",
    "theory",
]
