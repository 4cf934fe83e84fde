"""Exact sums: the same bits in any order and any pieces, and what whole numbers say they are."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.core import Statistics, exact_sums
from seqbatch.core.exact_sums import BITS, ExactSums, Scale, Vectors, power
from tests.refusals import refused


def rows_of(random, count, dim, sizes):
    return random.uniform(-1, 1, (count, dim)) * sizes, random.uniform(-5, 5, count)


def same(one, two):
    return (one.products == two.products).all() and (one.count == two.count).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 60), st.lists(st.integers(0, 60), max_size=4))
def test_any_order_and_any_pieces_give_the_same_sums(seed, count, cuts):
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.integers(-9, 9, 3)
    rows, rewards = rows_of(random, count, 3, sizes)
    cells = random.integers(-1, 2, count)
    scale = Scale.of(sizes, 5.0, whole=[False] * 3)
    whole = ExactSums.zero(2, scale).added(Vectors.of(rows), rewards, cells)
    order = random.permutation(count)
    pieces = [
        ExactSums.zero(2, scale).added(Vectors.of(rows[part]), rewards[part], cells[part])
        for part in np.split(order, sorted(min(cut, count) for cut in cuts))
    ]
    merged = ExactSums.zero(2, scale)
    for piece in reversed(pieces):
        merged = merged.merged(piece)
    assert same(whole, merged)
    assert whole.statistics().gram.tobytes() == merged.statistics().gram.tobytes()


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_sums_are_those_of_fractions(seed, count):
    random = np.random.default_rng(seed)
    rows, rewards = rows_of(random, count, 2, np.array([1.0, 3000.0]))
    scale = Scale.of([1.0, 3000.0], 5.0, whole=[False, False])
    made = ExactSums.zero(1, scale).added(
        Vectors.of(rows), rewards, np.zeros(count, dtype=np.int64)
    )
    both, powers = np.column_stack([rows, rewards]), (*scale.columns, scale.reward)
    for i in range(3):
        for j in range(3):
            terms = [
                Fraction(int(np.floor(row[i] * 2.0 ** powers[i] + 0.5)), 2 ** powers[i])
                * Fraction(int(np.floor(row[j] * 2.0 ** powers[j] + 0.5)), 2 ** powers[j])
                for row in both
            ]
            assert Fraction(made.products[0, i, j], 2 ** (powers[i] + powers[j])) == sum(terms)


@pytest.mark.parametrize(
    ("room", "piece"), [(exact_sums.ROOM, exact_sums.PIECE), (1, 700), (60, 700)]
)
@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(0, 3000), st.integers(0, 3), st.integers(1, 5))
def test_marked_columns_are_those_of_whole_vectors(room, piece, seed, count, numbers, cells):
    """Whether all rows of marks, some or none are taken together, and in any pieces."""
    with patch.object(exact_sums, "ROOM", room), patch.object(exact_sums, "PIECE", piece):
        compare_with_whole_vectors(seed, count, numbers, cells)


def compare_with_whole_vectors(seed, count, numbers, cells):
    random = np.random.default_rng(seed)
    # Categories around the numbers, of which the extreme ones are as large as may be.
    columns = np.arange(3, 3 + numbers)
    rest = [(3, 4), (7, 2), (9, 5)]
    marked = np.stack(
        [
            random.integers(0, 3, count),
            *(first + numbers + random.integers(0, size, count) for first, size in rest),
        ]
    )
    rows, rewards = rows_of(random, count, numbers, 1.0)
    rows[random.random(rows.shape) < 0.3] = 2.0 - 2**-40
    rewards[random.random(count) < 0.3] = -5.0
    wide = np.zeros((count, 14 + numbers))
    wide[:, columns] = rows
    for mark in marked:
        wide[np.arange(count), mark] = 1.0
    whole = np.ones(14 + numbers, dtype=bool)
    whole[columns] = False
    scale = Scale.of(np.where(whole, 1.0, 2.0 - 2**-40), 5.0, whole=whole)
    zero, mine = ExactSums.zero(cells, scale), random.integers(-1, cells, count)
    apart = Vectors(lambda some: np.ascontiguousarray(rows[some].T), columns, marked)
    made = zero.added(apart, rewards, mine)
    assert same(made, zero.added(Vectors.of(wide), rewards, mine))
    every = scale.rounded(wide, rewards).astype(object)
    for cell in range(cells):
        own = every[mine == cell]
        assert (made.products[cell] == (own.T @ own if len(own) else 0)).all()


def test_the_largest_numbers_do_not_overflow():
    scale = Scale.of([1.0], 1.0, whole=[False])
    rows = np.full((3_000_000, 1), -1.0)
    made = ExactSums.zero(1, scale).added(
        Vectors.of(rows), rows[:, 0], np.zeros(len(rows), dtype=np.int64)
    )
    assert made.products[0].tolist() == [[3_000_000 * 2**60] * 2] * 2
    assert made.statistics().moment.tolist() == [[3_000_000.0]]


def test_sums_are_close_to_those_of_floating_point():
    random = np.random.default_rng(1)
    rows, rewards = rows_of(random, 5_000, 4, 3.0)
    cells = random.integers(0, 3, 5_000)
    scale = Scale.of([3.0] * 4, 5.0, whole=[False] * 4)
    exact = ExactSums.zero(3, scale).added(Vectors.of(rows), rewards, cells).statistics()
    floating = Statistics.zero(3, 4).add(rows, rewards, cells)
    for name in ("gram", "moment", "squares", "count"):
        np.testing.assert_allclose(getattr(exact, name), getattr(floating, name), rtol=1e-5)


def test_what_is_taken_out_leaves_nothing_behind():
    random = np.random.default_rng(2)
    rows, rewards = rows_of(random, 50, 3, 1e6)
    cells, scale = random.integers(0, 2, 50), Scale.of([1e6] * 3, 5.0, whole=[False] * 3)
    before = ExactSums.zero(2, scale).added(Vectors.of(rows[:20]), rewards[:20], cells[:20])
    more = before.added(Vectors.of(rows[20:]), rewards[20:], cells[20:])
    assert same(more.added(Vectors.of(rows[20:]), rewards[20:], cells[20:], times=-1), before)


@given(st.floats(1e-30, 1e30))
def test_a_power_uses_nearly_all_bits(largest):
    assert 2.0 ** (BITS - 1) <= largest * 2.0 ** power(largest) <= 2.0**BITS


def test_a_number_beyond_its_bound_is_refused():
    scale = Scale.of([1.0, 1.0], 1.0, whole=[False, False])
    with refused("invalid-argument", field="column 1"):
        scale.rounded(np.array([[1.0, 2.5]]), np.array([0.0]))
    wrong, zero = Vectors.of(np.array([[1.0, 2.5]])), ExactSums.zero(1, scale)
    with refused("invalid-argument", field="column 1"):
        zero.added(wrong, np.zeros(1), np.zeros(1, dtype=np.int64))
    # Nobody looks at a unit that is skipped.
    assert same(zero.added(wrong, np.zeros(1), np.full(1, -1)), zero)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.bool_])
def test_numbers_of_any_type_have_the_sums_of_their_values(kind):
    zero, cells = ExactSums.zero(1, Scale.of([1.0], 1.0, whole=[False])), np.zeros(3, dtype=int)
    rows, rewards = np.array([[0], [1], [1]], dtype=kind), np.array([1, 0, 1], dtype=kind)
    wanted = zero.added(Vectors.of(rows.astype(float)), rewards.astype(float), cells)
    assert same(zero.added(Vectors.of(rows), rewards.astype(float), cells), wanted)
    assert same(zero.added(Vectors.of(rows), rewards, cells), wanted)
    assert (zero.scale.rounded(rows, rewards) == zero.scale.rounded(rows * 1.0, rewards)).all()


@pytest.mark.parametrize("kind", [str, complex, object])
def test_what_is_no_number_is_refused_by_name(kind):
    zero, cells = ExactSums.zero(1, Scale.of([1.0], 1.0, whole=[False])), np.zeros(2, dtype=int)
    with refused("invalid-argument", field="rewards"):
        zero.added(Vectors.of(np.ones((2, 1))), np.ones(2).astype(kind), cells)
    with refused("invalid-argument", field="vectors"):
        zero.added(Vectors.of(np.ones((2, 1)).astype(kind)), np.ones(2), cells)


@pytest.mark.parametrize("value", [1e308, -1e308, np.inf, np.nan])
def test_a_number_beyond_all_bounds_is_refused_without_a_warning(value):
    # A warning is an error here.
    with refused("invalid-argument", field="column 0"):
        Scale.of([1.0], 1.0, whole=[False]).rounded(np.array([[value]]), np.zeros(1))


@pytest.mark.parametrize(("cells", "received"), [([0], "[1, 2] of them"), ([0, 1], "-1 to 1")])
def test_what_does_not_go_together_is_refused(cells, received):
    zero = ExactSums.zero(1, Scale.of([1.0], 1.0, whole=[False]))
    with refused("invalid-argument", field="cells", received=received):
        zero.added(Vectors.of(np.ones((2, 1))), np.ones(2), np.array(cells))
