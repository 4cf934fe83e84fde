"""Grids keep to what users allow, and what cannot be is refused."""

from hypothesis import given
from hypothesis import strategies as st

from seqbatch.planning.request import BatchLimits, feasible
from tests.refusals import refused


@given(
    units=st.integers(1, 10_000),
    batches=st.integers(1, 6),
    smallest=st.integers(1, 400),
    largest=st.none() | st.integers(1, 5_000),
    first=st.none() | st.integers(1, 3_000),
    where=st.lists(st.floats(-1e4, 2e4), min_size=6, max_size=6),
)
def test_fitted_sizes_keep_to_every_limit(units, batches, smallest, largest, first, where):
    limits = BatchLimits(units=units, smallest=smallest, largest=largest, first=first)
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
    limits = BatchLimits(units=sum(waves), waves=tuple(waves))
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


def test_what_cannot_be_is_said():
    with refused("invalid-grid", field="batches", received="3"):
        feasible(BatchLimits(units=100, smallest=40), [3])
    with refused("invalid-grid", field="batches", received="1 to 4"):
        feasible(BatchLimits(units=100, largest=10), range(1, 5))
    assert feasible(BatchLimits(units=100, largest=40), range(1, 6)) == [3, 4, 5]
    assert feasible(BatchLimits(units=100, first=30), range(1, 4)) == [2, 3]
