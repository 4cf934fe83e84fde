"""Rounding to whole numbers, and sums of products of whole numbers without any rounding."""

import math

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS
from seqbatch.core.kernels.marks import sum_by_code

#: Rows that are worked on at once: their whole numbers stay in the memory next to the processor.
BLOCK = 2048
#: A product is cut here, so that 64 bits hold the sum of very many of either part.
CUT = 32
LOWER = 2**CUT - 1


@njit(**OPTIONS)
def whole(value: float, factor: float) -> int:
    """Return a scaled number rounded to a whole one.

    Half is added and the rest cut off: databases round halves in ways of their own.
    """
    return math.floor(value * factor + 0.5)


@njit(**OPTIONS)
def round_all(values: Floats, factor: float, most: float, made: Integers) -> bool:
    """Round numbers; say whether none is larger than `most` once it is scaled."""
    fits = True
    for row in range(len(values)):
        fits &= abs(values[row] * factor) <= most
        made[row] = whole(values[row], factor)
    return fits


@njit(**OPTIONS)
def sort_block(cells: Integers, first: int, last: int, order: Integers, ends: Integers) -> int:
    """Order the rows of a block by their cells, leaving out those of none; return how many.

    The rows of cell c end at ends[c], where those of the next begin.
    """
    ends[:] = 0
    for row in range(first, last):
        if cells[row] >= 0:
            ends[cells[row]] += 1
    total = 0
    for cell in range(len(ends)):
        total += ends[cell]
        ends[cell] = total - ends[cell]
    for row in range(first, last):
        cell = cells[row]
        if cell >= 0:
            order[ends[cell]] = row
            ends[cell] += 1
    return total


@njit(**OPTIONS)
def multiply(
    made: Integers, begin: int, end: int, columns: Integers, low: Integers, high: Integers
) -> None:
    """Add up the products of every two numbers of some rows, each pair once.

    The lower bits are what is left of all without the upper ones: where the sum of all is too large
    for 64 bits, what is cut off of both is the same.
    """
    for one in range(len(made)):
        left = made[one, begin:end]
        for two in range(one, len(made)):
            right = made[two, begin:end]
            whole_sum, upper = 0, 0
            for row in range(end - begin):
                product = left[row] * right[row]
                whole_sum += product
                upper += product >> CUT
            low[columns[one], columns[two]] += whole_sum - (upper << CUT)
            high[columns[one], columns[two]] += upper


@njit(**OPTIONS)
def add_products(
    numbers: Floats, rewards: Floats, codes: Integers, cells: Integers, factors: Floats,
    columns: Integers, most: float, low: Integers, high: Integers, table: Integers,
    count: Integers,
) -> bool:  # fmt: skip
    """Add up the products of every two numbers in each cell, each pair once, and the numbers.

    Returns whether every number, those of skipped units too, is at most `most` in size once it is
    scaled; sums of larger ones are of no use.

    Parameters
    ----------
    numbers, rewards
        The columns that are numbers, one after another, and what comes as the last of them.
    codes
        What units are grouped by in cells, one code for each unit in every row.
    cells
        Each unit's cell, -1 for none.
    factors, columns
        What each number is multiplied with before it is rounded, and its column of the model.
    most
        See above.
    low, high
        Sums of the lower 32 bits of products, and of the others, shape (cells, columns, columns).
    table
        Sums of the numbers by code, shape (cells, numbers, codes).
    count
        Units of each cell.
    """
    wide, units = len(columns), len(cells)
    made, plain = np.empty((wide, BLOCK), dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
    order, ends = np.empty(BLOCK, dtype=np.int64), np.empty(len(count), dtype=np.int64)
    own = np.empty((len(codes), BLOCK), dtype=np.int64)
    fits = True
    for first in range(0, units, BLOCK):
        last = min(first + BLOCK, units)
        total = sort_block(cells, first, last, order, ends)
        for number in range(wide):
            values = rewards if number == wide - 1 else numbers[number]
            # All at once and then put in order: the processor rounds several at a time.
            fits &= round_all(values[first:last], factors[number], most, plain)
            for place in range(total):
                made[number, place] = plain[order[place] - first]
        for part in range(len(codes)):
            for place in range(total):
                own[part, place] = codes[part, order[place]]
        begin = 0
        for cell in range(len(count)):
            end = ends[cell]
            multiply(made, begin, end, columns, low[cell], high[cell])
            for part in range(len(codes)):
                sum_by_code(made, begin, end, own[part], table[cell])
            count[cell] += end - begin
            begin = end
    return fits
