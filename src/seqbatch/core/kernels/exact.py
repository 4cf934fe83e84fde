"""Kernels of exact sums: rounding to whole numbers, products without rounding."""

import math

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS

# ----------------------------------------------------------------------
# Columns that are 0 or 1, by codes that stand for several of them; see core/exact_sums.py.


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


# ----------------------------------------------------------------------
# Rounding to whole numbers, and sums of products of whole numbers without any rounding.


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
