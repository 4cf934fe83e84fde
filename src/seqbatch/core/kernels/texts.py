"""Kernels on text: id hashing, MD5, cells of delimited text, encoded columns."""

from typing import Any

import numpy as np
from numba import uint32, uint64

from seqbatch.core.arrays import AnyArray, Bools, Bytes, Floats, Integers
from seqbatch.core.kernels.compiling import kernel

# ----------------------------------------------------------------------
# Millions of ids: a keyed hash of texts, and an index by it.
#
# Texts come in Arrow's format: concatenated bytes and offsets. The hash is SipHash-2-4 with 128
# bits, of which 96 are stored: with a secret key, two texts collide once in 10^28 pairs, even if an
# adversary chose the texts.
#
# A slot of the index is two words: the first half of the hash, and 32 more bits of it with the
# number of the text. The first word is 0 in an empty slot.


HIGH, LOW = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)


@kernel(inline="always")
def _rotated(word: Any, bits: int) -> Any:
    return (word << uint64(bits)) | (word >> uint64(64 - bits))


@kernel(inline="always")
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a += b
    b = _rotated(b, 13) ^ a
    a = _rotated(a, 32)
    c += d
    d = _rotated(d, 16) ^ c
    a += d
    d = _rotated(d, 21) ^ a
    c += b
    b = _rotated(b, 17) ^ c
    c = _rotated(c, 32)
    return a, b, c, d


@kernel(inline="always")
def _whole(data: Bytes, place: int) -> Any:
    """Return eight bytes as one word; written out like this, they compile to a single load."""
    low = uint64(data[place]) | uint64(data[place + 1]) << uint64(8)
    low |= uint64(data[place + 2]) << uint64(16) | uint64(data[place + 3]) << uint64(24)
    high = uint64(data[place + 4]) | uint64(data[place + 5]) << uint64(8)
    high |= uint64(data[place + 6]) << uint64(16) | uint64(data[place + 7]) << uint64(24)
    return low | high << uint64(32)


@kernel()
def siphash(data: Bytes, start: int, stop: int, key: AnyArray) -> tuple[int, int]:
    """Return the 128-bit hash of one text, as two words."""
    a = key[0] ^ uint64(0x736F6D6570736575)
    b = key[1] ^ uint64(0x646F72616E646F6D) ^ uint64(0xEE)
    c = key[0] ^ uint64(0x6C7967656E657261)
    d = key[1] ^ uint64(0x7465646279746573)
    length = stop - start
    place = start
    for _ in range(length // 8 + 1):
        if stop - place >= 8:
            word = _whole(data, place)
        else:
            word = uint64(length & 0xFF) << uint64(56)
            for byte in range(stop - place):
                word |= uint64(data[place + byte]) << uint64(8 * byte)
        place += 8
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
    c ^= uint64(0xEE)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    first = a ^ b ^ c ^ d
    b ^= uint64(0xDD)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return first, a ^ b ^ c ^ d


@kernel()
def hash_texts(data: Bytes, offsets: Integers, key: AnyArray, out: AnyArray) -> None:
    """Hash texts: return slots without numbers, shape (n, 2)."""
    for row in range(len(out)):
        first, second = siphash(data, offsets[row], offsets[row + 1], key)
        out[row, 0] = max(first, uint64(1))
        out[row, 1] = second & HIGH


@kernel(inline="always")
def _slot(slots: AnyArray, first: Any, second: Any) -> Any:
    """Return the slot of a text, or the empty slot where it belongs."""
    mask = uint64(len(slots) - 1)
    place = first & mask
    while slots[place, 0] != 0:
        if slots[place, 0] == first and (slots[place, 1] & HIGH) == second:
            break
        place = (place + uint64(1)) & mask
    return place


@kernel()
def find(slots: AnyArray, hashes: AnyArray, out: Integers) -> None:
    """Look up texts: return their numbers, -1 if missing."""
    for row in range(len(hashes)):
        place = _slot(slots, hashes[row, 0], hashes[row, 1])
        out[row] = -1 if slots[place, 0] == 0 else np.int64(slots[place, 1] & LOW)


@kernel()
def add(slots: AnyArray, hashes: AnyArray, numbers: Integers) -> int:
    """Add texts with their numbers up to the first duplicate; return how many were added."""
    for row in range(len(hashes)):
        place = _slot(slots, hashes[row, 0], hashes[row, 1])
        if slots[place, 0] != 0:
            return row
        slots[place, 0] = hashes[row, 0]
        slots[place, 1] = hashes[row, 1] | uint64(numbers[row])
    return len(hashes)


@kernel()
def take_back(slots: AnyArray, hashes: AnyArray) -> None:
    """Remove the texts that were added last, in reverse order, which moves no other text."""
    for row in range(len(hashes) - 1, -1, -1):
        slots[_slot(slots, hashes[row, 0], hashes[row, 1]), 0] = 0


@kernel()
def move(slots: AnyArray, larger: AnyArray) -> None:
    """Move all slots to a larger index."""
    for row in range(len(slots)):
        if slots[row, 0] != 0:
            place = _slot(larger, slots[row, 0], slots[row, 1] & HIGH)
            larger[place, 0] = slots[row, 0]
            larger[place, 1] = slots[row, 1]


# ----------------------------------------------------------------------
# MD5 of many short texts with a common prefix, as databases compute it.
#
# Texts come in Arrow's format: concatenated bytes and offsets. The common prefix is one block of 64
# bytes, whose state is computed once. Texts are hashed in parallel, one per lane of the vector
# registers.


BLOCK = 64
#: The number of texts that are hashed in parallel.
LANES = 64
#: The initial state, and the constants and rotations of the 64 steps (RFC 1321).
BEGIN = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], dtype=np.uint32)
SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint64).astype(np.uint32)
TURNS = np.array(
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], dtype=np.uint32
)


@kernel(inline="always")
def _rotated_plus(word: Any, turn: Any, added: Any) -> Any:
    """Return a word rotated by some bits, plus another word."""
    word = uint32(word)
    return uint32(added + uint32(uint32(word << turn) | uint32(word >> uint32(32 - turn))))


@kernel()
def absorb(state: AnyArray, words: AnyArray) -> None:
    """Process one block in the state of each lane: (4, lanes) and (16, lanes)."""
    before, lanes = state.copy(), state.shape[1]
    for step in range(64):
        part, sine, turn = step // 16, SINES[step], TURNS[step // 16, step % 4]
        # Each step rotates the four words of the state by one position.
        a, b = state[-step % 4], state[(1 - step) % 4]
        c, d = state[(2 - step) % 4], state[(3 - step) % 4]
        if part == 0:
            w = words[step % 16]
            for i in range(lanes):
                mixed = (b[i] & c[i]) | (~b[i] & d[i])
                a[i] = _rotated_plus(mixed + a[i] + sine + w[i], turn, b[i])
        elif part == 1:
            w = words[(5 * step + 1) % 16]
            for i in range(lanes):
                mixed = (d[i] & b[i]) | (~d[i] & c[i])
                a[i] = _rotated_plus(mixed + a[i] + sine + w[i], turn, b[i])
        elif part == 2:
            w = words[(3 * step + 5) % 16]
            for i in range(lanes):
                a[i] = _rotated_plus((b[i] ^ c[i] ^ d[i]) + a[i] + sine + w[i], turn, b[i])
        else:
            w = words[7 * step % 16]
            for i in range(lanes):
                a[i] = _rotated_plus((c[i] ^ (b[i] | ~d[i])) + a[i] + sine + w[i], turn, b[i])
    state += before


@kernel(inline="always")
def _load(data: Bytes, start: int, stop: int, low: int, words: AnyArray) -> None:
    """Fill one lane of a block that begins at `low`, including the padding after the text.

    The last byte of the text is followed by a marker, zeros, and eight bytes for the length.
    """
    for place in range(min(low, stop), min(stop, low + BLOCK)):
        at = place - low
        words[at // 4] |= uint32(data[place]) << uint32(8 * (at % 4))
    if low <= stop and stop < low + BLOCK:
        at = stop - low
        words[at // 4] |= uint32(0x80) << uint32(8 * (at % 4))
    if stop + 8 < low + BLOCK:
        bits = uint64(BLOCK + stop - start) * uint64(8)
        words[14] = uint32(bits & uint64(0xFFFFFFFF))
        words[15] = uint32(bits >> uint64(32))


@kernel(inline="always")
def _swapped(word: Any) -> Any:
    """Return a word with its four bytes reversed."""
    low = uint64((word & uint32(0xFF)) << uint32(24)) | uint64((word & uint32(0xFF00)) << uint32(8))
    return low | uint64((word >> uint32(8)) & uint32(0xFF00)) | uint64(word >> uint32(24))


@kernel()
def hash_after(begun: AnyArray, data: Bytes, offsets: Integers, out: AnyArray) -> None:
    """Hash texts that follow a one-block prefix; two words each, with digits in order."""
    words, state = np.empty((16, LANES), dtype=np.uint32), np.empty((4, LANES), dtype=np.uint32)
    for first in range(0, len(out), LANES):
        starts = offsets[first : min(first + LANES, len(out))]
        stops = offsets[first + 1 : min(first + LANES, len(out)) + 1]
        state[:] = begun
        # Lanes whose text has ended continue with zeros; their results are not read.
        for block in range(((stops - starts).max() + 8) // BLOCK + 1):
            words[:] = 0
            for lane in range(len(starts)):
                low = starts[lane] + block * BLOCK
                _load(data, starts[lane], stops[lane], low, words[:, lane])
            absorb(state, words)
            for lane in range(len(starts)):
                if (stops[lane] - starts[lane] + 8) // BLOCK == block:
                    a, b, c, d = state[0, lane], state[1, lane], state[2, lane], state[3, lane]
                    out[first + lane, 0] = (_swapped(a) << uint64(32)) | _swapped(b)
                    out[first + lane, 1] = (_swapped(c) << uint64(32)) | _swapped(d)


# ----------------------------------------------------------------------
# Cells of delimited text: where each begins and ends, and their bytes without quotes.


QUOTE, LINE_FEED, RETURN = 34, 10, 13


@kernel()
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

    A quote counts only at the start of a cell. Two quotes within quotes are one, and text after the
    closing quote belongs to the cell unchanged. Records with only empty cells are skipped. Returns
    the numbers of records and cells, the bytes consumed, the line of the next record, and whether
    the text ends within quotes.
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
            # At the end of a block it is unknown whether a line feed follows.
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


@kernel()
def copy_cells(
    data: AnyArray,
    starts: AnyArray,
    ends: AnyArray,
    quoted: Bools,
    chosen: AnyArray,
    out: AnyArray,
    offsets: AnyArray,
) -> int:
    """Write the bytes of the chosen cells one after another; return the number of bytes."""
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


# ----------------------------------------------------------------------
# Plain blocks of delimited text: no quotes, one kind of line end, as many cells in every row.
#
# Eight bytes are compared and copied at a time; arrays have eight spare bytes at their ends.


ONES, LOWS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F)


@kernel(inline="always")
def _bytes_of(word: Any, byte: int) -> Any:
    """Return the highest bit of each byte of a word that equals `byte`."""
    rest = word ^ (uint64(byte) * ONES)
    return ~(((rest & LOWS) + LOWS) | rest | LOWS)


@kernel()
def split_plain(
    data: Bytes,
    size: int,
    delimiter: int,
    width: int,
    returns: int,
    ends: AnyArray,
    sizes: AnyArray,
) -> int:
    """Find where the cells of a block of whole rows end; return the number of rows, -1 if odd.

    Adds the bytes of each column to `sizes`. A row is odd if it does not have `width` cells, if all
    are empty, or if it does not end in `returns` (0 or 1) carriage returns and a line feed.
    """
    begin: Any = 0
    row: Any = 0
    cells = column = 0
    for place in range(0, size, 8):
        word = _whole(data, place)
        found = _bytes_of(word, delimiter) | _bytes_of(word, LINE_FEED)
        while found != 0:
            below = (found - uint64(1)) & ~found & ONES
            end = place + np.int64((below * ONES) >> uint64(56)) - 1
            following = end + 1
            found &= found - uint64(1)
            if (data[end] == LINE_FEED) != (column == width - 1):
                return -1
            if column == width - 1:
                end -= returns
                if end < begin or end - row == column or (returns and data[end] != RETURN):
                    return -1
                row = following
            ends[cells] = end
            sizes[column] += end - begin
            column = 0 if column == width - 1 else column + 1
            begin = following
            cells += 1
    return cells // width


@kernel(inline="always")
def _store(word: Any, out: Bytes, at: int) -> None:
    """Write eight bytes; written out like this, they compile to a single store."""
    out[at], out[at + 1] = np.uint8(word), np.uint8(word >> uint64(8))
    out[at + 2], out[at + 3] = np.uint8(word >> uint64(16)), np.uint8(word >> uint64(24))
    out[at + 4], out[at + 5] = np.uint8(word >> uint64(32)), np.uint8(word >> uint64(40))
    out[at + 6], out[at + 7] = np.uint8(word >> uint64(48)), np.uint8(word >> uint64(56))


@kernel()
def copy_column(
    data: Bytes, ends: AnyArray, column: int, returns: int, out: Bytes, offsets: AnyArray
) -> None:
    """Write the cells of one column of a plain block one after another."""
    at: Any = 0
    offsets[0] = 0
    for row in range(len(ends)):
        start: Any = 0
        if column > 0:
            start = np.int64(ends[row, column - 1]) + 1
        elif row > 0:
            start = np.int64(ends[row - 1, -1]) + returns + 1
        size = np.int64(ends[row, column]) - start
        for done in range(0, size, 8):
            _store(_whole(data, start + done), out, at + done)
        at += size
        offsets[row + 1] = at


# ----------------------------------------------------------------------
# Columns of a file to columns of the model, in one pass each.


@kernel()
def scaled(value: float, low: float, high: float, fill: float, mean: float, sd: float) -> float:
    """Return a number clipped, filled if missing (NaN), and scaled."""
    if np.isnan(value):
        value = fill
    else:
        value = value if value > low else low
        value = value if value < high else high
    return (value - mean) / sd


@kernel()
def scale(
    values: Floats, low: float, high: float, fill: float, mean: float, sd: float, out: Floats
) -> None:
    """Clip numbers, fill missing ones, and scale them."""
    for row in range(len(values)):
        out[row] = scaled(values[row], low, high, fill, mean, sd)


@kernel()
def scale_columns(columns: Floats, rules: Floats) -> None:
    """Scale columns in place, each with its own parameters, which are those of :func:`scale`."""
    for place in range(len(columns)):
        own, (low, high, fill, mean, sd) = columns[place], rules[place]
        for row in range(len(own)):
            own[row] = scaled(own[row], low, high, fill, mean, sd)


@kernel(boundscheck=True)
def look_up(table: Integers, places: AnyArray, out: Integers) -> None:
    """Write the table's value at each row's index; an index out of range raises IndexError."""
    for row in range(len(places)):
        out[row] = table[places[row]]


@kernel(boundscheck=True)
def mark(out: Floats, places: Integers) -> None:
    """Write a 1 at each row's index; an index out of range raises IndexError."""
    for row in range(len(places)):
        out[row, places[row]] = 1.0
