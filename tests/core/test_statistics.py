"""Statistics are a monoid, and any cut of the data gives the same ones."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch import Statistics
from tests.refusals import refused


@st.composite
def data(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, dim, cells = draw(st.integers(0, 60)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return (
        random.standard_normal((n, dim)),
        random.standard_normal(n),
        random.integers(-1, cells, n),
        Statistics.zero(cells, dim),
        random,
    )


def same_bits(left, right):
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("gram", "moment", "squares", "count")
    )


def close(left, right):
    return np.array_equal(left.count, right.count) and all(
        np.allclose(getattr(left, name), getattr(right, name), rtol=1e-12, atol=1e-12)
        for name in ("gram", "moment", "squares")
    )


@settings(max_examples=60)
@given(data())
def test_any_split_gives_the_same_bits(case):
    rows, rewards, cells, zero, random = case
    whole = zero.add(rows, rewards, cells)
    cuts = np.sort(random.integers(0, len(rows) + 1, 4))
    pieces = zero
    for part in np.split(np.arange(len(rows)), cuts):
        pieces = pieces.add(rows[part], rewards[part], cells[part])
    assert same_bits(whole, pieces)


@settings(max_examples=60)
@given(data())
def test_merge_is_associative_and_commutative_with_a_unit(case):
    rows, rewards, cells, zero, random = case
    parts = np.array_split(random.permutation(len(rows)), 3)
    a, b, c = (zero.add(rows[part], rewards[part], cells[part]) for part in parts)
    assert close(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert close(a.merge(b).merge(c), zero.add(rows, rewards, cells))
    assert same_bits(a.merge(b), b.merge(a))
    assert same_bits(a.merge(zero), a)
    assert close(a.merge(b).subtract(b), a)


def test_add_leaves_the_original_alone():
    zero = Statistics.zero(1, 2)
    zero.add(np.ones((3, 2)), np.ones(3), np.zeros(3, dtype=np.int64))
    assert same_bits(zero, Statistics.zero(1, 2))


def test_errors_say_what_is_wrong():
    zero = Statistics.zero(2, 3)
    with refused("invalid-argument", field="cells", received="0 to 2"):
        zero.add(np.ones((2, 3)), np.ones(2), np.array([0, 2]))
    with refused("invalid-argument", field="other", received="1 cells and dimension 3"):
        zero.merge(Statistics.zero(1, 3))
    with refused("invalid-argument", field="rows"):
        zero.add(np.ones((2, 40)), np.ones(2), np.array([0, 1]))
    with refused("invalid-argument", field="rewards"):
        zero.add(np.ones((2, 3)), np.ones(1), np.array([0, 1]))
    with refused("invalid-argument", field="cells", received="shape (1,)"):
        zero.add(np.ones((2, 3)), np.ones(2), np.array([0]))
    one = zero.add(np.ones((1, 3)), np.ones(1), np.array([1]))
    with refused("invalid-argument", field="other", received="counts [0, 1]"):
        zero.subtract(one)
