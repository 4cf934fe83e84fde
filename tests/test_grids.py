"""Grids keep their rules for every size, and give the published values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch import grids
from seqbatch.errors import InvalidGridError
from seqbatch.grids import GridRule
from tests.refusals import refused

dims = st.integers(1, 60)
ratios = st.floats(1, 1e9)
counts = st.integers(1, 12)


def check(grid, units, batches):
    assert len(grid.ends) == grid.batches == batches
    assert grid.ends[-1] == grid.units == units == sum(grid.sizes)
    assert min(grid.sizes) >= 1


def test_ends_of_huge_grids_are_not_rounded_up():
    ends = grids.geometric(units=10**15, dim=1, batches=15).ends
    assert all(abs(end - 10**m) <= 1 for m, end in enumerate(ends, start=1))


@given(units=st.integers(1, 10_000), share=st.floats(0, 1))
def test_uniform(units, share):
    batches = max(1, round(share * units))
    grid = grids.uniform(units=units, batches=batches)
    check(grid, units, batches)
    assert all(end == m * units // batches for m, end in enumerate(grid.ends, start=1))


def recursion(beta, dim, batches):
    ends = [beta * dim]
    while len(ends) < batches:
        ends.append(beta * math.sqrt(ends[-1]))
    return ends


@given(dim=dims, ratio=ratios, batches=counts)
def test_minimax_satisfies_its_recursion_to_one_unit(dim, ratio, batches):
    units = max(math.ceil(dim**2 * ratio), batches)
    grid = grids.minimax(units=units, dim=dim, batches=batches)
    check(grid, units, batches)
    # The last end grows with beta: bisect for the beta that brings it to T.
    low, high = 0.0, float(units)
    for _ in range(200):
        beta = (low + high) / 2
        low, high = (beta, high) if recursion(beta, dim, batches)[-1] < units else (low, beta)
    for m, (end, exact) in enumerate(
        zip(grid.ends, recursion(high, dim, batches), strict=True), start=1
    ):
        # Near T the ends are squeezed to leave every batch a unit.
        squeezed = min(max(exact, m), units - (batches - m))
        assert abs(end - squeezed) <= 1 + 1e-9 * units


@given(dim=dims, ratio=ratios, batches=counts, scale=st.floats(0.01, 3))
def test_minimax_with_a_given_scale(dim, ratio, batches, scale):
    units = max(math.ceil(dim**2 * ratio), batches)
    grid = grids.minimax(units=units, dim=dim, batches=batches, scale=scale)
    check(grid, units, batches)
    if batches > 1:
        rho = scale * math.sqrt(units) * (units / dim**2) ** (1 / (2 * (2**batches - 1)))
        wanted = math.floor(rho * dim * (1 + 1e-12))
        assert grid.ends[0] == min(max(wanted, 1), units - batches + 1)


@given(sparsity=dims, ratio=ratios, batches=counts)
def test_sparse(sparsity, ratio, batches):
    units = max(math.ceil(sparsity * ratio), batches)
    grid = grids.sparse(units=units, sparsity=sparsity, batches=batches)
    check(grid, units, batches)
    if batches > 1:
        b = math.sqrt(units * (units / sparsity) ** (1 / (2**batches - 1)))
        wanted = min(max(math.floor(b * math.sqrt(sparsity)), 1), units - batches + 1)
        assert abs(grid.ends[0] - wanted) <= 1


@given(dim=dims, ratio=ratios, batches=counts)
def test_geometric(dim, ratio, batches):
    units = max(math.ceil(dim**2 * ratio), batches)
    grid = grids.geometric(units=units, dim=dim, batches=batches)
    check(grid, units, batches)
    b = (units / dim**2) ** (1 / batches)
    for m, end in enumerate(grid.ends, start=1):
        pushed = m + dim**2 * b**m  # ends pushed apart move by at most one each
        assert end <= pushed * (1 + 1e-9)
        assert end >= min(dim**2 * b**m * (1 - 1e-9) - 1, units - (batches - m))


@given(ends=st.sets(st.integers(1, 500), min_size=1))
def test_batch_of(ends):
    grid = grids.explicit(sorted(ends))
    for unit in range(1, grid.units + 1):
        batch = grid.batch_of(unit)
        start = grid.ends[batch - 2] if batch > 1 else 0
        assert start < unit <= grid.ends[batch - 1]


def test_online():
    assert set(grids.online(units=7).sizes) == {1}


def test_section_6_grids():
    assert grids.minimax(units=50_000, dim=10, batches=2, scale=0.4).ends[0] == math.floor(
        0.4 * math.sqrt(50_000) * 500 ** (1 / 6) * 10
    )
    b = math.sqrt(50_000) * 5_000 ** (1 / 6)
    assert grids.sparse(units=50_000, sparsity=10, batches=2).ends[0] == math.floor(
        b * math.sqrt(10)
    )
    b = (40_428_967 / 1_600) ** (1 / 11)
    avazu = grids.geometric(units=40_428_967, dim=40, batches=11)
    assert avazu.ends[:2] == (math.floor(1_600 * b), math.floor(1_600 * b * b))


def test_published_batch_counts():
    assert grids.adversarial_batches(units=8_124, dim=234) == 3_131
    assert grids.adversarial_batches(units=581_012, dim=378) == 48_219
    assert grids.problem_dependent_batches(units=40_428_967, dim=40) == 11
    for units in range(50_000, 100_001, 5_000):
        assert grids.stochastic_batches(units=units, dim=10) == 2


@given(units=st.integers(1, 10**9), dim=dims)
def test_batch_counts_are_possible(units, dim):
    assert 1 <= grids.adversarial_batches(units=units, dim=dim) <= units
    if units >= dim**2:
        assert 1 <= grids.stochastic_batches(units=units, dim=dim) <= units
        assert 1 <= grids.problem_dependent_batches(units=units, dim=dim) <= units


@pytest.mark.parametrize(
    ("make", "code", "field", "received"),
    [
        (
            lambda: grids.uniform(units=5, batches=6),
            "invalid-grid",
            "batches",
            "6",
        ),
        (lambda: grids.uniform(units=0, batches=1), "invalid-argument", "units", "0"),
        (lambda: grids.uniform(units=5.5, batches=1), "invalid-argument", "units", "5.5"),
        (
            lambda: grids.minimax(units=99, dim=10, batches=2),
            "invalid-grid",
            "units",
            "99",
        ),
        (lambda: grids.geometric(units=99, dim=10, batches=2), "invalid-grid", "units", "99"),
        (lambda: grids.minimax(units=99, dim=0, batches=2), "invalid-argument", "dim", "0"),
        (
            lambda: grids.minimax(units=99, dim=2, batches=2, scale=0.0),
            "invalid-argument",
            "scale",
            "0.0",
        ),
        (lambda: grids.sparse(units=9, sparsity=10, batches=2), "invalid-grid", "units", "9"),
        (lambda: grids.explicit([]), "invalid-grid", "ends", "none"),
        (lambda: grids.explicit([3, 3]), "invalid-grid", "ends", "3 then 3 at batch 2"),
        (lambda: grids.explicit([0, 3]), "invalid-grid", "ends", "0"),
        (lambda: grids.explicit(5), "invalid-grid", "ends", "5"),
        (lambda: grids.explicit([1.5]), "invalid-grid", "ends", "(1.5,)"),
        (lambda: grids.explicit([3]).batch_of(2.5), "invalid-argument", "unit", "2.5"),
        (lambda: grids.explicit([3]).batch_of(4), "invalid-grid", "unit", "4"),
    ],
)
def test_grids_that_cannot_exist(make, code, field, received):
    with refused(code, field=field, received=received):
        make()


def test_too_many_batches_is_a_grid_error():
    with pytest.raises(InvalidGridError):
        grids.uniform(units=5, batches=6)


def test_grid_rules():
    assert GridRule(kind="uniform", batches="adversarial").grid(8_124, 234).batches == 3_131
    halved = GridRule(kind="uniform", batches="adversarial", divide=2).grid(8_124, 234)
    assert halved.batches == 3_131 // 2
    assert GridRule(kind="online").grid(9, 3).batches == 9
    waves = GridRule(kind="explicit", shares=[0.1, 0.35, 1])
    assert waves.grid(2_000, 3).ends == (200, 700, 2_000)
    with refused("invalid-argument", field="shares"):
        GridRule(kind="uniform", shares=[1])
    with refused("invalid-argument", field="scale"):
        GridRule(kind="uniform", batches=3, scale=0.4)
    assert GridRule(kind="uniform").batches == 2
    assert GridRule(kind="sparse", batches="stochastic").grid(50_000, 10).batches == 2
    assert GridRule(kind="geometric", batches="problem-dependent").grid(10**6, 10).batches == 10
    with refused("invalid-argument", field="kind"):
        GridRule(kind="random")
    with refused("invalid-argument", field="batches"):
        GridRule(kind="uniform", batches="many")


@pytest.mark.parametrize(
    ("shares", "received"),
    [
        ((), "none"),
        ([0.5], "[0.5]"),
        ([0.5, 0.1, 1], "[0.5, 0.1, 1.0]"),
        ([0.5, 0.5, 1], "[0.5, 0.5, 1.0]"),
    ],
)
def test_shares_end_increasing_at_one(shares, received):
    with refused("invalid-argument", field="shares", received=received):
        GridRule(kind="explicit", shares=shares)


def test_shares_are_several():
    with refused("invalid-argument", field="shares", received="0.5"):
        GridRule(kind="explicit", shares=0.5)


@pytest.mark.parametrize("given", [{"batches": 2}, {"batches": "stochastic"}, {"divide": 2}])
@pytest.mark.parametrize(("kind", "shares"), [("online", ()), ("explicit", (0.1, 1))])
def test_grids_that_count_their_batches_are_given_no_number(kind, shares, given):
    [(name, value)] = given.items()
    with refused("invalid-argument", field=name, received=repr(value)):
        GridRule(kind=kind, shares=shares, **given)
