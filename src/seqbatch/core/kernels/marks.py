"""Columns that are 0 or 1, by codes that stand for several of them; see core/marks.py."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def join_marks(marks: Integers, firsts: Integers, sizes: Integers, codes: Integers) -> None:
    """Make one code of each unit's marks: the place in a table with an axis for each of them."""
    codes[:] = 0
    for one in range(len(marks)):
        for row in range(len(codes)):
            codes[row] = codes[row] * sizes[one] + marks[one, row] - firsts[one]


@njit(**OPTIONS)
def sum_by_code(made: Integers, begin: int, end: int, codes: Integers, table: Integers) -> None:
    """Add up the numbers of some rows by the rows' codes.

    Two columns at a time: the processor need not wait for the one sum to add to the other.
    """
    for one in range(0, len(made), 2):
        # The last of an odd number of columns comes twice, and is added once.
        two = min(one + 1, len(made) - 1)
        both = two > one
        first, second, left, right = table[one], table[two], made[one], made[two]
        for place in range(begin, end):
            code = codes[place]
            first[code] += left[place]
            if both:
                second[code] += right[place]


@njit(**OPTIONS)
def spread_sums(table: Integers, marked: Integers, columns: Integers, sums: Integers) -> None:
    """Add sums of numbers by code to those of the columns that a code stands for.

    Parameters
    ----------
    table
        Sums by code, shape (cells, numbers, codes).
    marked
        The columns that are 1 for the units of a code, shape (marks, codes).
    columns
        The columns of the numbers.
    sums
        By two columns, shape (cells, columns, columns).
    """
    for cell in range(len(table)):
        for number in range(len(columns)):
            for code in range(table.shape[2]):
                for one in range(len(marked)):
                    place = marked[one, code]
                    sums[cell, place, columns[number]] += table[cell, number, code]


@njit(**OPTIONS)
def count_codes(cells: Integers, codes: Integers, marked: Integers, sums: Integers) -> None:
    """Count the units of each cell for every two columns that their code stands for."""
    counts = np.zeros((len(sums), marked.shape[1]), dtype=np.int64)
    for row in range(len(cells)):
        if cells[row] >= 0:
            counts[cells[row], codes[row]] += 1
    for cell in range(len(sums)):
        for code in range(marked.shape[1]):
            for one in range(len(marked)):
                for two in range(one + 1):
                    sums[cell, marked[one, code], marked[two, code]] += counts[cell, code]


@njit(**OPTIONS)
def count_pairs(
    cells: Integers, lefts: Integers, rights: Integers, one: Integers, two: Integers,
    sums: Integers,
) -> None:  # fmt: skip
    """Count the units of each cell for every column of one code and column of another."""
    counts = np.zeros((len(sums), one.shape[1], two.shape[1]), dtype=np.int64)
    for row in range(len(cells)):
        if cells[row] >= 0:
            counts[cells[row], lefts[row], rights[row]] += 1
    for cell in range(len(sums)):
        for left in range(one.shape[1]):
            for right in range(two.shape[1]):
                found = counts[cell, left, right]
                for first in range(len(one) if found else 0):
                    for second in range(len(two)):
                        sums[cell, one[first, left], two[second, right]] += found
