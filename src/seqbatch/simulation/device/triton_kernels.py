"""The fused GPU kernels, in Triton.

They compute the same as the array operations in `units` and `trials`: the same random integers, and
the same sums except for the last digits of the noise (logarithm and cosine are rounded differently)
and of scores (terms are added in another order).

A row is a record of 64 bytes: up to 56 integers of one byte, and its mean in the last eight.
Reading it costs two memory sectors, wherever it is. Once a unit's row is chosen, its mean is no
longer needed: the reward replaces it, as digits of seven bits, and a single integer matrix product
sums the row's squares and its products with the reward.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from seqbatch.core.arrays import Array
from seqbatch.simulation.device import random_numbers
from seqbatch.simulation.device.assignment import Rules
from seqbatch.simulation.device.units import DIGITS, STEP

RECORD, REWARD = 64, 56
#: Units per tile, and the approximate number of pieces into which a trial's units are split.
TILE, PIECES = 32, 64
KINDS = ("fixed", "uniform", "highest")


@dataclass(frozen=True)
class PoolKernel:
    """The kernel of one pool: the records of its rows, and the standard deviation of the noise."""

    records: Array
    dim: int
    noise: float

    @classmethod
    def of(cls, rows: Array, means: Array, *, noise: float) -> "PoolKernel":
        """Build the records of a pool."""
        records = torch.zeros((len(rows), RECORD), dtype=torch.int8, device=rows.device)
        records[:, : rows.shape[1]] = rows
        records.view(torch.float64)[:, -1] = means
        return cls(records, int(rows.shape[1]), noise)

    def at(self, keys: Array, start: int) -> "PoolUnits":
        """Return the kernel for the units from `start` on, for trials with these keys."""
        return PoolUnits(self, keys, start)


@dataclass(frozen=True)
class PoolUnits:
    """The units of a block, which are never stored."""

    kernel: PoolKernel
    keys: Array
    start: int

    def serves(self, rules: Rules) -> bool:
        """Return whether the rules are greedy with the lowest of ties, fixed or uniform."""
        return rules.greedy or rules.kind in KINDS[:2]

    def __call__(self, part: slice, rules: Rules, *, learn: bool) -> tuple[Array, ...]:
        """Return regret, reward, counts and evidence for a part of the block."""
        trials, units, place = len(self.keys), part.stop - part.start, self.keys.device
        pieces = min(triton.cdiv(units, TILE), PIECES)
        each = triton.cdiv(triton.cdiv(units, pieces), TILE) * TILE
        scalars = torch.empty((trials, pieces, 4), dtype=torch.float64, device=place)
        sizes = (trials, pieces) if learn else (1, 1)
        gram = torch.empty((*sizes, RECORD, RECORD), dtype=torch.int32, device=place)
        theta = torch.zeros((trials, RECORD), dtype=torch.float64, device=place)
        if rules.theta is not None:
            theta[:, : self.kernel.dim] = rules.theta[:, 0, 0]
        _summed[(trials, pieces)](
            self.kernel.records,
            self.kernel.records.view(torch.float64),
            self.keys.contiguous(),
            theta,
            scalars,
            gram,
            len(self.kernel.records),
            self.start + part.start,
            self.start + part.stop,
            each,
            NOISE=self.kernel.noise,
            ACTION=rules.action,
            KIND=KINDS.index(rules.kind),
            LEARN=learn,
            RECORD=RECORD,
            TILE=TILE,
            PIECES=pieces,
            num_warps=4,
        )
        return self._outcome(scalars, gram, units, learn=learn)

    def _outcome(
        self, scalars: Array, gram: Array, units: int, *, learn: bool
    ) -> tuple[Array, ...]:
        lost, gained, ones, squares = scalars.sum(dim=1).unbind(dim=1)
        second = ones.to(torch.int64)
        counts = torch.stack([units - second, second], dim=1)
        if not learn:
            return lost, gained, counts, None
        dim, summed = self.kernel.dim, gram.sum(dim=1)
        digits = summed[:, :dim, REWARD : REWARD + DIGITS]
        steps = sum(digits[..., place] << (7 * place) for place in range(DIGITS))
        evidence = (
            summed[:, :dim, :dim].to(torch.float64)[:, None],
            (steps.to(torch.float64) * STEP)[:, None],
            squares[:, None],
            torch.full_like(second, units)[:, None],
        )
        return lost, gained, counts, evidence


def wake() -> None:
    """Load Triton's compiled kernel early, because the first call takes a while."""
    rows = torch.zeros((2, 1), dtype=torch.int8, device="cuda")
    kernel = PoolKernel.of(rows, torch.zeros(2, dtype=torch.float64, device="cuda"), noise=0.0)
    key = torch.zeros((1, 1), dtype=torch.int64, device="cuda")
    kernel.at(key, 0)(slice(0, 1), Rules.fixed(0), learn=False)


# Globals read by a kernel must be compile-time constants. Type names such as Any are globals too,
# hence kernels have no annotations.
_GOLDEN = tl.constexpr(random_numbers.GOLDEN)
_FIRST = tl.constexpr(random_numbers.FIRST)
_SECOND = tl.constexpr(random_numbers.SECOND)
_STEP = tl.constexpr(STEP)
_REWARD = tl.constexpr(REWARD)
_DIGITS = tl.constexpr(DIGITS)


@triton.jit
def _bits(key, counter):
    """Return the same as :func:`seqbatch.simulation.device.random_numbers.bits`."""
    mixed = key + counter * _GOLDEN
    mixed = (mixed ^ ((mixed >> 30) & 0x3FFFFFFFF)) * _FIRST
    mixed = (mixed ^ ((mixed >> 27) & 0x1FFFFFFFFF)) * _SECOND
    return mixed ^ ((mixed >> 31) & 0x1FFFFFFFF)


@triton.jit
def _uniform(bits):
    return ((bits >> 11) & 0x1FFFFFFFFFFFFF).to(tl.float64) * (1.0 / 9007199254740992.0)


@triton.jit
def _normal(bits):
    upper = (((bits >> 32) & 0xFFFFFFFF) + 1).to(tl.float64) * (1.0 / 4294967296.0)
    lower = (bits & 0xFFFFFFFF).to(tl.float64) * (6.283185307179586 / 4294967296.0)
    return tl.sqrt(-2.0 * tl.log(upper)) * tl.cos(lower)


# Without do_not_specialize, many values of these integers would trigger a new compilation. A float
# that is not a constant would be rounded to 32 bits, hence NOISE is one.
@triton.jit(do_not_specialize=["pool", "start", "stop", "each"])
def _summed(
    records,
    means,
    keys,
    thetas,
    scalars,
    grams,
    pool,
    start,
    stop,
    each,
    NOISE: tl.constexpr,
    ACTION: tl.constexpr,
    KIND: tl.constexpr,
    LEARN: tl.constexpr,
    RECORD: tl.constexpr,
    TILE: tl.constexpr,
    PIECES: tl.constexpr,
):
    """Sum one piece of one trial's units; every piece writes its own sums."""
    trial, piece = tl.program_id(0), tl.program_id(1)
    cell = trial.to(tl.int64) * PIECES + piece
    columns = tl.arange(0, RECORD)
    key = tl.load(keys + trial)
    theta = tl.load(thetas + trial * RECORD + columns)
    lost = tl.zeros((TILE,), tl.float64)
    gained = tl.zeros((TILE,), tl.float64)
    ones = tl.zeros((TILE,), tl.float64)
    squares = tl.zeros((TILE,), tl.float64)
    gram = tl.zeros((RECORD, RECORD), tl.int32)
    low = start + piece.to(tl.int64) * each
    for tile in range(0, each, TILE):
        units = low + tile + tl.arange(0, TILE)
        real = (units < stop) & (units < low + each)
        first = units.to(tl.int64) * 4
        one = (_uniform(_bits(key, first)) * pool).to(tl.int64)
        two = (_uniform(_bits(key, first + 1)) * (pool - 1)).to(tl.int64)
        two += (two >= one).to(tl.int64)
        # Load whole records, which is fast: theta is zero where a record has no numbers. Records of
        # units past the end exist, but are masked out.
        x_one = tl.load(records + one[:, None] * RECORD + columns[None, :])
        x_two = tl.load(records + two[:, None] * RECORD + columns[None, :])
        mean_one = tl.load(means + one * (RECORD // 8) + RECORD // 8 - 1, mask=real, other=0.0)
        mean_two = tl.load(means + two * (RECORD // 8) + RECORD // 8 - 1, mask=real, other=0.0)
        if KIND == 0:
            second = real & (ACTION == 1)
        elif KIND == 1:
            second = real & (_uniform(_bits(key, first + 3)) * 2.0 >= 1.0)
        else:
            # Subtract first, because converting integers to doubles takes the longest.
            apart = (x_two.to(tl.int16) - x_one.to(tl.int16)).to(tl.float64)
            second = real & (tl.sum(apart * theta[None, :], axis=1) > 0)
        mean = tl.where(second, mean_two, mean_one)
        lost += tl.maximum(mean_one, mean_two) - mean
        gained += mean
        ones += second.to(tl.float64)
        if LEARN:
            error = tl.floor(NOISE * _normal(_bits(key, first + 2)) / _STEP + 0.5) * _STEP
            reward = tl.where(real, mean + error, 0.0)
            x = tl.where(real[:, None], tl.where(second[:, None], x_two, x_one), 0)
            squares += reward * reward
            steps = (reward / _STEP).to(tl.int64)
            for place in tl.static_range(_DIGITS):
                # The last digit carries the sign.
                digit = steps >> (7 * place)
                if place < _DIGITS - 1:
                    digit &= 127
                x = tl.where(columns[None, :] == _REWARD + place, digit.to(tl.int8)[:, None], x)
            gram += tl.dot(tl.trans(x), x, out_dtype=tl.int32)
    tl.store(scalars + cell * 4, tl.sum(lost, axis=0))
    tl.store(scalars + cell * 4 + 1, tl.sum(gained, axis=0))
    tl.store(scalars + cell * 4 + 2, tl.sum(ones, axis=0))
    tl.store(scalars + cell * 4 + 3, tl.sum(squares, axis=0))
    if LEARN:
        places = columns[:, None] * RECORD + columns[None, :]
        tl.store(grams + cell * RECORD * RECORD + places, gram)
