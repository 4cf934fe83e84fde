"""The family of grids, the search in it, and the search over all sizes."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch import grids
from seqbatch.core import Statistics
from seqbatch.planning import plan, replan
from seqbatch.planning.best_grids import family, free, search, shaped, tune
from seqbatch.planning.replanning import propose
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


def late(delay):
    """Return the cost of grids if a unit loses less, the more outcomes are known when it comes."""

    def cost(sizes):
        total = 0.0
        for place, size in enumerate(sizes):
            known = sum(sizes[: max(place - delay, 0)])
            total += size / (1 + known / 4)
        return total

    return cost


def literally_best(cost, limits, batches):
    """Return the least cost of all grids within the limits, tried one by one."""
    costs = []
    for cuts in combinations(range(1, limits.units), batches - 1):
        sizes = tuple(after - before for before, after in pairwise((0, *cuts, limits.units)))
        if limits.fit([float(end) for end in np.cumsum(sizes)]) == sizes:
            costs.append(cost(sizes))
    return min(costs)


@pytest.mark.parametrize(
    ("batches", "delay", "limited"),
    [
        (3, 1, {}),
        (4, 1, {}),
        (5, 1, {}),
        (4, 2, {}),
        (5, 1, {"smallest": 4}),
        (4, 1, {"largest": 20}),
        (4, 1, {"first": 12}),
        (4, 0, {"largest": 20}),
        (4, 0, {"smallest": 8}),
        (4, 1, {"waves": (2, 4, 2, 6, 6, 10, 10, 5, 5)}),
    ],
)
def test_the_search_finds_the_best_of_all_grids(batches, delay, limited):
    limits, cost = BatchLimits(units=50 if batches < 5 else 30, **limited), late(delay)
    found, _ = search(cost, limits, batches, least=2, delay=delay)
    assert cost(found[0]) <= 1.02 * literally_best(cost, limits, batches)


@given(
    ends=st.lists(st.floats(0, 400), min_size=4, max_size=4),
    smallest=st.integers(1, 40),
    largest=st.none() | st.integers(120, 400),
    seed=st.integers(0, 9),
)
def test_free_sizes_keep_to_the_limits_and_never_cost_more(ends, smallest, largest, seed):
    limits = BatchLimits(units=400, smallest=smallest, largest=largest)
    wanted = np.random.default_rng(seed).uniform(20, 200, 4)
    start = limits.fit(sorted(ends))

    def cost(sizes):
        return 1 + float(((np.array(sizes) - wanted) ** 2).sum())

    sizes = free(cost, start, limits)
    assert cost(sizes) <= cost(start)
    assert limits.fit([float(end) for end in np.cumsum(sizes)]) == sizes


def test_batches_wait_for_late_outcomes_as_briefly_as_allowed():
    limits = BatchLimits(units=10_000, smallest=20)
    assert shaped(100, 1.0, limits, 5, 1) == (100, 20, 880, 20, 8_980)
    # The batch to spare waits after the first one, or after the second.
    assert shaped(100, 1.0, limits, 6, 1) == (100, 20, 20, 860, 20, 8_980)
    assert shaped(100, 1.0, limits, 6, 1, after=1) == (100, 20, 880, 20, 20, 8_960)
    # Nothing is known in time: there is nothing to wait for.
    assert shaped(100, 1.0, limits, 2, 1) == (100, 9_900)


def test_only_the_family_is_searched_if_nothing_keeps_the_best_grid_out_of_it():
    for limits in (BatchLimits(units=100_000), BatchLimits(units=100_000, smallest=50)):
        sizes, near = tune(parabola(800, 9_000), limits, 3, least=10)
        assert not limits.bind(sizes)
        assert search(parabola(800, 9_000), limits, 3, least=10) == ([sizes], near)


#: Grids from a long search (`python -m benchmarks.grid_search`).
LONG = [
    (
        {"features": 6, "effect": 1, "effect_spread": 2.5, "batches": 3, "min_batch": 1},
        (166, 1, 4_833),
    ),
    ({"features": 2, "effect": 0.3, "batches": 5, "min_batch": 75}, (175, 75, 689, 75, 3_986)),
]


@pytest.mark.parametrize(("asked", "best"), LONG)
def test_plans_with_late_outcomes_match_a_long_search(asked, best):
    rest = {"delay": 1, "max_batches": asked["batches"], "compare": False}
    made = plan(**{"effect_spread": 1, **asked}, units=5_000, actions=3, **rest)
    assert made.row.regret <= 1.02 * made.request.judged(best).total(best)[0]


def test_the_rest_of_an_experiment_with_late_outcomes_is_planned_with_short_waits():
    before = plan(
        units=6_000, actions=2, features=1, effect=0.3, delay=1, max_batches=3, compare=False
    )
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(60), rng.standard_normal(60)])
    actions = rng.integers(0, 2, 60)
    rewards = 0.3 * actions * rows[:, 1] + rng.standard_normal(60)
    known = Statistics.zero(cells=2, dim=2).add(rows, rewards, actions)
    again = replan(before, seen=60, statistics=known, batches=3, max_batches=3, min_batch=1)
    for sizes in ((400, 1, 5_539), (800, 1, 5_139)):
        assert again.row.regret <= 1.02 * again.request.judged(sizes).total(sizes)[0]
    asked = {"seen": 60, "statistics": known, "sizes": (1_980, 1_980, 1_980)}
    proposal = propose(before.model, before.request.law, **asked)
    assert proposal.sizes[1] < 200
    assert proposal.saving > 0.2 * proposal.regret


@pytest.mark.usefixtures("few_trials")
def test_batches_that_wait_have_a_hundredth_of_the_units_unless_a_minimum_is_given():
    asked = {"units": 5_000, "actions": 3, "features": 6, "effect": 1, "batches": 3,
             "max_batches": 3, "delay": 1, "compare": False}  # fmt: skip
    made = plan(**asked)
    assert min(made.grid.sizes) == made.request.limits.smallest == 50
    assert "every batch has at least 50 units" in str(made)
    free = plan(**asked, min_batch=1)
    assert min(free.grid.sizes) < 7
    assert "at least" not in str(free)
    assert not plan(**{**asked, "delay": 0}).request.limits.assumed


@given(
    units=st.integers(1, 10_000), dim=st.integers(1, 60), most=st.integers(1, 200),
    largest=st.none() | st.integers(1, 10_000), first=st.none() | st.integers(1, 10_000),
)  # fmt: skip
def test_the_default_minimum_leaves_every_number_of_batches_possible(
    units, dim, most, largest, first
):
    limits = BatchLimits(units=units, largest=largest, first=first)
    waiting = limits.waiting(dim, most)
    for number in range(1, most + 1):
        assert waiting.allows(number) == limits.allows(number)
