"""The family of grids, and the search in it."""

import math

import pytest

from seqbatch import grids
from seqbatch.planning.best_grids import family, tune
from seqbatch.planning.request import BatchLimits


@pytest.mark.parametrize("batches", [2, 3, 5])
def test_the_papers_grids_belong_to_the_family(batches):
    units, dim = 1_000_000, 7
    for paper, bend in (
        (grids.geometric(units=units, dim=dim, batches=batches), 1.0),
        (grids.minimax(units=units, dim=dim, batches=batches), 0.5),
    ):
        ends = family(paper.ends[0], bend, units=units, batches=batches)
        assert ends == pytest.approx(paper.ends, rel=2e-3)


def parabola(first, second=None):
    """Return a cost with its least value where the ends are as given."""

    def cost(sizes):
        value = 1 + (math.log(sizes[0]) - math.log(first)) ** 2
        if second is not None:
            value += (math.log(sizes[0] + sizes[1]) - math.log(second)) ** 2
        return value

    return cost


def test_two_ends_are_found():
    sizes, _ = tune(parabola(3_000), BatchLimits(units=100_000), 2, least=10)
    assert sizes[0] == pytest.approx(3_000, rel=0.15)
    sizes, near = tune(parabola(800, 9_000), BatchLimits(units=100_000), 3, least=10)
    assert sizes[0] == pytest.approx(800, rel=0.2)
    assert sizes[0] + sizes[1] == pytest.approx(9_000, rel=0.3)
    again, _ = tune(parabola(800, 9_000), BatchLimits(units=100_000), 3, least=10, start=near)
    assert parabola(800, 9_000)(again) < 1.05
    assert tune(parabola(800, 9_000), BatchLimits(units=100_000), 3, least=10)[0] == sizes


def test_waves_are_moved_until_no_neighbour_is_better():
    waves = (100, 200, 400, 800, 1_600, 3_200)
    limits = BatchLimits(units=sum(waves), waves=waves)
    sizes, _ = tune(parabola(700, 3_100), limits, 3, least=10)
    assert sizes == (700, 2_400, 3_200)
