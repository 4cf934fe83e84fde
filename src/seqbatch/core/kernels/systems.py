"""Many small systems of equations at once."""

import math

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def solve_positive(matrices: Floats, vectors: Floats, solutions: Floats) -> None:
    """Solve systems with symmetric positive definite matrices, by Cholesky's decomposition.

    For some thousand matrices of ten to fifty rows the calls of a library take longer than this.

    Parameters
    ----------
    matrices, vectors
        Shapes (n, dim, dim) and (n, dim). Of the matrices the lower triangles are read.
    solutions
        Filled, shape (n, dim).
    """
    number, dim = vectors.shape
    left, column = np.empty((dim, dim)), np.empty(dim)
    for n in range(number):
        solution = solutions[n]
        for i in range(dim):
            solution[i] = vectors[n, i]
            for j in range(i + 1):
                left[i, j] = matrices[n, i, j]
        # Column by column, each taken out of all that is left, so that no sum waits for another.
        for k in range(dim):
            pivot = math.sqrt(left[k, k])
            left[k, k] = pivot
            solution[k] /= pivot
            for i in range(k + 1, dim):
                left[i, k] /= pivot
                column[i] = left[i, k]
                solution[i] -= left[i, k] * solution[k]
            for i in range(k + 1, dim):
                factor = column[i]
                for j in range(k + 1, i + 1):
                    left[i, j] -= factor * column[j]
        for k in range(dim - 1, -1, -1):
            solution[k] /= left[k, k]
            for i in range(k):
                solution[i] -= left[k, i] * solution[k]
