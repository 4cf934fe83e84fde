"""Contexts, sufficient statistics and estimates: pure array functions, no I/O and no randomness."""

from seqbatch.core.contexts import Contexts
from seqbatch.core.problem import Layout, Problem
from seqbatch.core.regression import Estimate, lasso, least_squares, ridge, ridge_means
from seqbatch.core.statistics import Statistics

__all__ = [
    "Contexts",
    "Estimate",
    "Layout",
    "Problem",
    "Statistics",
    "lasso",
    "least_squares",
    "ridge",
    "ridge_means",
]


def __dir__() -> list[str]:
    return __all__
