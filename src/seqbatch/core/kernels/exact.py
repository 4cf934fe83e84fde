"""Kernels of exact sums: rounding to integers, and sums of products without rounding."""

import math

import numpy as np

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.compiling import kernel

# ----------------------------------------------------------------------
# Indicator columns, by codes that represent several of them; see core/exact_sums.py.


@kernel()
def join_marks(marks: Integers, firsts: Integers, sizes: Integers, codes: Integers) -> None:
    """Combine each unit's marks into one code: its index in a table with an axis per mark."""
    codes[:] = 0
    for one in range(len(marks)):
        for row in range(len(codes)):
            codes[row] = codes[row] * sizes[one] + marks[one, row] - firsts[one]


@kernel()
def sum_by_code(made: Integers, begin: int, end: int, codes: Integers, table: Integers) -> None:
    """Sum the numbers of some rows by the rows' codes.

    Two columns at a time: the processor need not wait for one sum before adding to the other.
    """
    for one in range(0, len(made), 2):
        # With an odd number of columns, the last one is read twice and added once.
        two = min(one + 1, len(made) - 1)
        both = two > one
        first, second, left, right = table[one], table[two], made[one], made[two]
        for place in range(begin, end):
            code = codes[place]
            first[code] += left[place]
            if both:
                second[code] += right[place]


@kernel()
def spread_sums(table: Integers, marked: Integers, columns: Integers, sums: Integers) -> None:
    """Add sums of numbers by code to the sums of the columns that each code represents.

    Parameters
    ----------
    table
        Sums by code, shape (cells, numbers, codes).
    marked
        The columns that are 1 for the units of a code, shape (marks, codes).
    columns
        The columns of the numbers.
    sums
        Sums by pair of columns, shape (cells, columns, columns).
    """
    for cell in range(len(table)):
        for number in range(len(columns)):
            for code in range(table.shape[2]):
                for one in range(len(marked)):
                    place = marked[one, code]
                    sums[cell, place, columns[number]] += table[cell, number, code]


@kernel()
def count_codes(cells: Integers, codes: Integers, marked: Integers, sums: Integers) -> None:
    """Count the units of each cell for every two columns that their code represents."""
    counts = np.zeros((len(sums), marked.shape[1]), dtype=np.int64)
    for row in range(len(cells)):
        if cells[row] >= 0:
            counts[cells[row], codes[row]] += 1
    for cell in range(len(sums)):
        for code in range(marked.shape[1]):
            for one in range(len(marked)):
                for two in range(one + 1):
                    sums[cell, marked[one, code], marked[two, code]] += counts[cell, code]


@kernel()
def count_pairs(
    cells: Integers, lefts: Integers, rights: Integers, one: Integers, two: Integers,
    sums: Integers,
) -> None:  # fmt: skip
    """Count the units of each cell for every pair of a column of one code and one of another."""
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
# Rounding to integers, and exact sums of products of integers.


#: Rows processed at once: few enough for their integers to stay in the cache.
BLOCK = 2048
#: Products are split at this bit: 64 bits then hold very large sums of either part.
CUT = 32
LOWER = 2**CUT - 1


@kernel()
def whole(value: float, factor: float) -> int:
    """Return a scaled number rounded to an integer.

    Half is added and the fraction dropped, because databases round halves in different ways.
    """
    return math.floor(value * factor + 0.5)


@kernel()
def round_all(values: Floats, factor: float, most: float, made: Integers) -> bool:
    """Round numbers; return whether all are at most `most` in absolute value once scaled."""
    fits = True
    for row in range(len(values)):
        fits &= abs(values[row] * factor) <= most
        made[row] = whole(values[row], factor)
    return fits


@kernel()
def sort_block(cells: Integers, first: int, last: int, order: Integers, ends: Integers) -> int:
    """Order the rows of a block by cell, without skipped rows; return their number.

    The rows of cell c end at ends[c], where those of the next cell begin.
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


@kernel()
def multiply(
    made: Integers, begin: int, end: int, columns: Integers, low: Integers, high: Integers
) -> None:
    """Sum the products of every two numbers of some rows, once for each pair.

    The lower bits are the difference between the full sum and the upper bits: if the full sum
    overflows 64 bits, the same multiple is lost in both.
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


@kernel()
def add_products(
    numbers: Floats, rewards: Floats, codes: Integers, cells: Integers, factors: Floats,
    columns: Integers, most: float, low: Integers, high: Integers, table: Integers,
    count: Integers,
) -> bool:  # fmt: skip
    """Sum the products of every two numbers in each cell, once for each pair, and the numbers.

    Returns whether every number, including those of skipped units, is at most `most` in absolute
    value once scaled; otherwise the sums are invalid.

    Parameters
    ----------
    numbers, rewards
        The numeric columns, and the rewards, which come last.
    codes
        The codes by which units are grouped within cells, one per unit in every row.
    cells
        Each unit's cell, -1 for none.
    factors, columns
        The factor of each number before rounding, and its column of the model.
    most
        See above.
    low, high
        Sums of the lower 32 bits of products, and of the upper ones, shape (cells, columns,
        columns).
    table
        Sums of the numbers by code, shape (cells, numbers, codes).
    count
        The number of units of each cell.
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
            # Round all at once, then reorder: the processor rounds several numbers at a time.
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
