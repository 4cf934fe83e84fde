"""The cells of delimited text: where each begins and ends, and their bytes without the quotes."""

from numba import njit

from seqbatch.core.arrays import AnyArray, Bools, Integers
from seqbatch.core.kernels.compiling import OPTIONS

QUOTE, LINE_FEED, RETURN = 34, 10, 13


@njit(**OPTIONS)
def split_cells(
    data: AnyArray,
    delimiter: int,
    final: bool,
    line: int,
    starts: AnyArray,
    ends: AnyArray,
    quoted: Bools,
    firsts: AnyArray,
    lines: Integers,
) -> tuple[int, int, int, int, bool]:
    """Find the cells of all records that end in a block; the first record begins on line `line`.

    A quote counts at the start of a cell alone; two of them within quotes are one, and what follows
    the closing one belongs to the cell as it is. Records without anything in any cell are passed
    over. Returns the numbers of records and cells, the bytes used up, the line of the next record,
    and whether the text ends within quotes.
    """
    size = data.shape[0]
    place = used = cells = records = 0
    while place < size:
        first, begun, something, complete = cells, line, False, False
        while True:
            start, quotes = place, False
            if place < size and data[place] == QUOTE:
                quotes, closed = True, False
                place += 1
                while place < size:
                    byte = data[place]
                    if byte == QUOTE:
                        place += 1
                        if place == size or data[place] != QUOTE:
                            closed = True
                            break
                    elif byte == LINE_FEED or (
                        byte == RETURN and (place + 1 == size or data[place + 1] != LINE_FEED)
                    ):
                        line += 1
                    place += 1
                if final and not closed:
                    return records, first, used, begun, True
            while place < size:
                byte = data[place]
                if byte in (delimiter, LINE_FEED, RETURN):
                    break
                place += 1
            starts[cells], ends[cells], quoted[cells] = start, place, quotes
            something |= place > start
            cells += 1
            if place == size:
                complete = final
                break
            byte = data[place]
            if byte == delimiter:
                place += 1
                continue
            # Whether a line feed follows cannot be told at the end of a block.
            if byte == RETURN and place + 1 == size and not final:
                break
            if byte == RETURN and place + 1 < size and data[place + 1] == LINE_FEED:
                place += 1
            place += 1
            line += 1
            complete = True
            break
        if not complete:
            return records, first, used, begun, False
        used = place
        if something:
            firsts[records], lines[records] = first, begun
            records += 1
        else:
            cells = first
    return records, cells, used, line, False


@njit(**OPTIONS)
def copy_cells(
    data: AnyArray,
    starts: AnyArray,
    ends: AnyArray,
    quoted: Bools,
    chosen: AnyArray,
    out: AnyArray,
    offsets: AnyArray,
) -> int:
    """Write the bytes of the chosen cells one after another; return how many bytes there are."""
    at = 0
    offsets[0] = 0
    for index in range(chosen.shape[0]):
        cell = chosen[index]
        place, end = starts[cell], ends[cell]
        if quoted[cell]:
            place += 1
            while place < end:
                if data[place] == QUOTE:
                    place += 1
                    if place == end or data[place] != QUOTE:
                        break
                out[at] = data[place]
                at += 1
                place += 1
        while place < end:
            out[at] = data[place]
            at += 1
            place += 1
        offsets[index + 1] = at
    return at
