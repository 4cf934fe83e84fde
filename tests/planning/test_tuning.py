"""The family of grids, what users allow, and the search."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch import grids
from seqbatch.errors import InvalidGridError
from seqbatch.planning.limits import Limits, feasible
from seqbatch.planning.tuning import family, tune


@pytest.mark.parametrize("batches", [2, 3, 5])
def test_the_papers_grids_belong_to_the_family(batches):
    units, dim = 1_000_000, 7
    for paper, bend in (
        (grids.geometric(units=units, dim=dim, batches=batches), 1.0),
        (grids.minimax(units=units, dim=dim, batches=batches), 0.5),
    ):
        ends = family(paper.ends[0], bend, units=units, batches=batches)
        assert ends == pytest.approx(paper.ends, rel=2e-3)


@given(
    units=st.integers(1, 10_000),
    batches=st.integers(1, 6),
    smallest=st.integers(1, 400),
    largest=st.none() | st.integers(1, 5_000),
    first=st.none() | st.integers(1, 3_000),
    where=st.lists(st.floats(-1e4, 2e4), min_size=6, max_size=6),
)
def test_fitted_sizes_keep_to_every_limit(units, batches, smallest, largest, first, where):
    limits = Limits(units=units, smallest=smallest, largest=largest, first=first)
    if not limits.allows(batches):
        return
    sizes = limits.fit(where[:batches])
    assert len(sizes) == batches
    assert sum(sizes) == units
    if first is not None:
        assert sizes[0] == first
        sizes = sizes[1:]
    assert all(size >= smallest for size in sizes)
    assert largest is None or all(size <= largest for size in sizes)


@given(
    waves=st.lists(st.integers(1, 500), min_size=1, max_size=9),
    batches=st.integers(1, 9),
    where=st.lists(st.floats(0, 4_000), min_size=9, max_size=9),
)
def test_batches_end_where_waves_end(waves, batches, where):
    limits = Limits(units=sum(waves), waves=tuple(waves))
    assert limits.allows(batches) == (batches <= len(waves))
    if not limits.allows(batches):
        return
    sizes = limits.fit(where[:batches])
    assert sum(sizes) == sum(waves)
    assert len(sizes) == batches
    total = 0
    for size in sizes:
        assert size > 0
        total += size
        assert total in limits.stops


def parabola(first, second=None):
    """Return a cost with its least value where the ends are as given."""

    def cost(sizes):
        value = 1 + (math.log(sizes[0]) - math.log(first)) ** 2
        if second is not None:
            value += (math.log(sizes[0] + sizes[1]) - math.log(second)) ** 2
        return value

    return cost


def test_two_ends_are_found():
    sizes, _ = tune(parabola(3_000), Limits(units=100_000), 2, least=10)
    assert sizes[0] == pytest.approx(3_000, rel=0.15)
    sizes, near = tune(parabola(800, 9_000), Limits(units=100_000), 3, least=10)
    assert sizes[0] == pytest.approx(800, rel=0.2)
    assert sizes[0] + sizes[1] == pytest.approx(9_000, rel=0.3)
    again, _ = tune(parabola(800, 9_000), Limits(units=100_000), 3, least=10, start=near)
    assert parabola(800, 9_000)(again) < 1.05
    assert tune(parabola(800, 9_000), Limits(units=100_000), 3, least=10)[0] == sizes


def test_waves_are_moved_until_no_neighbour_is_better():
    waves = (100, 200, 400, 800, 1_600, 3_200)
    limits = Limits(units=sum(waves), waves=waves)
    sizes, _ = tune(parabola(700, 3_100), limits, 3, least=10)
    assert sizes == (700, 2_400, 3_200)


def test_what_cannot_be_is_said():
    with pytest.raises(InvalidGridError, match=r"with min_batch = 40; received 3\."):
        feasible(Limits(units=100, smallest=40), [3])
    with pytest.raises(InvalidGridError, match=r"with max_batch = 10; received 1 to 4\."):
        feasible(Limits(units=100, largest=10), range(1, 5))
    assert feasible(Limits(units=100, largest=40), range(1, 6)) == [3, 4, 5]
    assert feasible(Limits(units=100, first=30), range(1, 4)) == [2, 3]
