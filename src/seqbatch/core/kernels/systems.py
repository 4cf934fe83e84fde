"""Many small systems of equations at once."""

import math

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats
from seqbatch.core.kernels.compiling import OPTIONS

#: So many systems are solved side by side: a vector register or two full of numbers.
ABREAST = 8


@njit(**OPTIONS)
def solve_positive(matrices: Floats, ridge: Floats, vectors: Floats, solutions: Floats) -> None:
    """Solve systems with symmetric positive definite matrices, by Cholesky's decomposition.

    For some thousand matrices of ten to fifty rows the calls of a library take longer than this.

    Parameters
    ----------
    matrices, vectors
        Shapes (n, dim, dim) and (n, dim). Of the matrices the lower triangles are read.
    ridge
        Added to each matrix's diagonal, shape (n,).
    solutions
        Filled, shape (n, dim).
    """
    number, dim = vectors.shape
    # The last axis runs over systems, which do not wait for each other.
    left, inverse = np.empty((dim, dim, ABREAST)), np.empty((dim, ABREAST))
    solution, total = np.empty((dim, ABREAST)), np.empty(ABREAST)
    for start in range(0, number, ABREAST):
        for s in range(ABREAST):
            # Where fewer are left, the last one is solved several times.
            n = min(start + s, number - 1)
            for i in range(dim):
                solution[i, s] = vectors[n, i]
                for j in range(i + 1):
                    left[i, j, s] = matrices[n, i, j]
                left[i, i, s] += ridge[n]
        _decompose(left, inverse, total)
        _substitute(left, inverse, solution)
        for s in range(min(ABREAST, number - start)):
            for i in range(dim):
                solutions[start + s, i] = solution[i, s]


@njit(**OPTIONS)
def _decompose(left: Floats, inverse: Floats, total: Floats) -> None:
    """Replace lower triangles by those of their roots, row by row, and invert the diagonals."""
    for i in range(len(left)):
        for j in range(i + 1):
            for s in range(ABREAST):
                total[s] = left[i, j, s]
            for k in range(j):
                for s in range(ABREAST):
                    total[s] -= left[i, k, s] * left[j, k, s]
            for s in range(ABREAST):
                if j < i:
                    left[i, j, s] = total[s] * inverse[j, s]
                else:
                    inverse[i, s] = 1 / math.sqrt(total[s])


@njit(**OPTIONS)
def _substitute(left: Floats, inverse: Floats, solution: Floats) -> None:
    """Solve for the root, then for its transpose."""
    dim = len(left)
    for i in range(dim):
        for k in range(i):
            for s in range(ABREAST):
                solution[i, s] -= left[i, k, s] * solution[k, s]
        for s in range(ABREAST):
            solution[i, s] *= inverse[i, s]
    for k in range(dim - 1, -1, -1):
        for s in range(ABREAST):
            solution[k, s] *= inverse[k, s]
        for i in range(k):
            for s in range(ABREAST):
                solution[i, s] -= left[k, i, s] * solution[k, s]
