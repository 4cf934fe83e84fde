"""Limits: the best table by prices, the nearest by tilting, and exact column sums in both."""

import numpy as np
import pytest
import scipy.optimize

from seqbatch.allocation import Limits, limited, rounded
from seqbatch.allocation.count_programme import ALL_NODES
from seqbatch.allocation.prices import Dual
from seqbatch.allocation.sure_counts import REACHES, TABLES
from seqbatch.errors import InvalidArgumentError
from tests.allocation import budgets
from tests.cases import thorough
from tests.oracles.transport import best_value
from tests.refusals import refused

ONE = 1 << 52


def whole(table):
    """Return whole numbers of 2^-52, as Python's own, which have no largest."""
    return (table * 2.0**52).astype(np.int64).astype(object)


def instance(number):
    """Return scores, eligibility and limits, of a kind that the number says."""
    random = np.random.default_rng([14, number])
    units, actions = int(random.integers(3, 50)), int(random.integers(2, 6))
    scores = random.normal(size=(units, actions))
    kind = number % 5
    if kind == 1:
        scores = random.integers(-3, 4, scores.shape).astype(float)
    elif kind == 2:
        scores[:] = scores[0]
    elif kind == 3:
        scores = scores[random.integers(0, 3, units)] * 10 - 50
    elif kind == 4:
        scores = np.exp(3 * scores)
    eligible = np.ones(scores.shape, dtype=bool)
    if number % 3 == 1:
        eligible = random.random(scores.shape) < 0.7
        eligible[np.arange(units), random.integers(0, actions, units)] = True
    most = np.where(random.random(actions) < 0.6, random.integers(0, units + 1, actions), np.inf)
    least = np.where(random.random(actions) < 0.3, random.integers(0, units // 2 + 1, actions), 0)
    if number % 7 == 0:
        most = least = random.multinomial(units, np.full(actions, 1 / actions)).astype(float)
    limits = {"most": most, "least": np.minimum(least, most)}
    if number % 4 == 2:
        limits["costs"] = random.integers(0, 5, actions).astype(float)
        limits["budget"] = float(random.integers(units // 2, 3 * units))
    return scores, eligible, limits


def as_limits(limits):
    names = {"most": "at_most", "least": "at_least"}
    return Limits(**{names.get(name, name): value for name, value in limits.items()})


def chosen(scores, eligible):
    return np.eye(scores.shape[1])[np.where(eligible, scores, -np.inf).argmax(axis=1)]


def within(table, limits):
    """Check the limits in whole numbers, on expected counts and on drawn ones."""
    totals = whole(table).sum(axis=0)
    for total, low, high in zip(totals, limits["least"], limits["most"], strict=True):
        assert total >= int(low * ONE)
        assert high == np.inf or total <= int(high * ONE)
    assert (whole(table).sum(axis=1) == ONE).all()
    for key in range(5):
        counts = np.bincount(rounded(table, key=key).actions, minlength=table.shape[1])
        assert (counts >= np.floor(limits["least"])).all()
        assert (counts <= np.ceil(limits["most"])).all()
        if "budget" in limits:
            # Decimal costs in doubles: 330 may be 330.00000000000006, as the machine adds them up.
            assert counts @ limits["costs"] <= limits["budget"] * (1 + 1e-12)


@pytest.mark.parametrize("block", [0, 1, *thorough(2, 3, 4)])
def test_prices_find_the_best_table(block):
    impossible = 0
    for number in range(block * 50, block * 50 + 50):
        scores, eligible, limits = instance(number)
        best = best_value(scores, eligible, **limits)
        if best is None:
            impossible += 1
            with refused("invalid-argument") as caught:
                limited(scores, chosen(scores, eligible), as_limits(limits), eligible=eligible)
            assert caught.value.field in ("at_most", "at_least", "budget")
            continue
        found = limited(scores, chosen(scores, eligible), as_limits(limits), eligible=eligible)
        assert found.prices_in == "score"
        assert (found.probabilities[~eligible] == 0).all()
        within(found.probabilities, limits)
        scale = abs(best) + 1e-9
        if found.budget_price > 0:
            # Whole counts cost a little less than the budget: no more than their share is lost.
            assert found.value <= best + 1e-6 * scale
            lost = limits["budget"] - found.probabilities.sum(axis=0) @ limits["costs"]
            assert lost < limits["costs"].max() * len(limits["costs"])
        else:
            assert found.value == pytest.approx(best, abs=1e-6 * scale)
    assert impossible < 25


def test_prices_prove_that_nothing_better_exists():
    random = np.random.default_rng(1)
    scores = random.normal(size=(3_000, 5)) + np.arange(5)
    most = np.array([np.inf, 700, 600, 500, 400])
    limits = Limits(at_most=most, costs=[0, 1, 2, 3, 4], budget=4_000)
    found = limited(scores, np.eye(5)[scores.argmax(axis=1)], limits)
    assert found.budget_price > 0
    net = scores - found.prices - found.budget_price * np.arange(5)
    bound = net.max(axis=1).sum() + most[1:] @ found.prices[1:] + 4_000 * found.budget_price
    assert found.value <= bound * (1 + 1e-12)
    # What is lost below the bound is what whole counts leave of the budget, at its price.
    left = 4_000 - found.probabilities.sum(axis=0) @ np.arange(5)
    assert bound - found.value == pytest.approx(left * found.budget_price, abs=1e-5 * bound)


@pytest.mark.parametrize(
    ("units", "actions", "whole"), [(60_000, 4, False), (60_000, 4, True), (500, 14, False)]
)
def test_prices_of_many_units_and_many_actions(units, actions, whole):
    random = np.random.default_rng(7)
    scores = random.normal(size=(units, actions)) + 0.2 * np.arange(actions)
    scores = np.rint(2 * scores) if whole else scores
    most = np.append(np.inf, np.full(actions - 1, units // (actions + 1)))
    found = limited(scores, np.eye(actions)[scores.argmax(axis=1)], Limits(at_most=most))
    bound = (scores - found.prices).max(axis=1).sum() + most[1:] @ found.prices[1:]
    assert found.value == pytest.approx(bound, rel=1e-6)
    within(found.probabilities, {"least": np.zeros(actions), "most": most})


def test_a_price_is_what_one_more_is_worth():
    random = np.random.default_rng(2)
    scores = random.normal(size=(200, 4)) + np.array([0, 1, 1, 1])
    free = np.eye(4)[scores.argmax(axis=1)]
    most = np.array([np.inf, 30, 40, 20])

    def value(limits):
        return limited(scores, free, Limits(at_most=limits)).value

    found = limited(scores, free, Limits(at_most=most))
    for action in (1, 2, 3):
        one = np.eye(4)[action]
        more, last = value(most + one) - found.value, found.value - value(most - one)
        assert more - 1e-6 <= found.prices[action] <= last + 1e-6
        assert more > 0
    assert found.prices[0] == 0


def test_a_quota_that_hurts_has_a_negative_price():
    scores = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    found = limited(scores, [[1, 0]] * 3, Limits(at_least=[0, 1]))
    assert found.probabilities[:, 1].tolist() == [0, 0, 1]
    assert -2 <= found.prices[1] <= -1


def test_equal_units_are_treated_equally():
    scores = np.tile([0.0, 1.0, 1.0], (10, 1))
    found = limited(scores, [[0, 1, 0]] * 10, Limits(at_most=[np.inf, 2, 3]))
    assert found.probabilities == pytest.approx(np.tile([0.5, 0.2, 0.3], (10, 1)), abs=1e-9)


def test_a_table_that_keeps_the_limits_is_left_alone():
    table = [[0.5, 0.5], [0.25, 0.75]]
    found = limited(None, table, Limits(at_most=[2, 2]))
    assert found.probabilities.tolist() == table
    assert found.prices.tolist() == [0, 0]
    assert np.isnan(found.value)
    assert found.prices_in == "log"


def test_the_order_of_rows_does_not_matter():
    random = np.random.default_rng(3)
    lots = random.permutation(300)
    mixed = random.permutation(300)
    scores = random.integers(0, 4, (300, 3)).astype(float)
    for table in (np.eye(3)[scores.argmax(axis=1)], random.dirichlet(np.ones(3), 300)):
        limits = Limits(at_most=[40, 90, np.inf])
        one = limited(scores, table, limits, order=lots)
        two = limited(scores[mixed], table[mixed], limits, order=lots[mixed])
        assert (two.probabilities == one.probabilities[mixed]).all()
        assert (two.prices == one.prices).all()


def test_tilting_multiplies_columns_and_nothing_else():
    random = np.random.default_rng(4)
    table = random.dirichlet(np.ones(4), 500)
    limits = {"most": np.array([60.0, np.inf, 100, np.inf]), "least": np.array([0, 200.0, 0, 0])}
    found = limited(None, table, as_limits(limits))
    within(found.probabilities, limits)
    odds = np.log(found.probabilities / table) + found.prices
    assert np.ptp(odds, axis=1).max() < 1e-6
    assert found.prices[0] > 0 > found.prices[1]
    assert found.prices[3] == 0
    assert found.probabilities.sum(axis=0)[[0, 1, 2]] == pytest.approx([60, 200, 100], rel=1e-9)


def test_zeros_are_filled_only_where_limits_cannot_be_met_otherwise():
    table = np.array([[0.5, 0.5, 0.0]] * 10)
    kept = limited(None, table, Limits(at_most=[2, np.inf, np.inf])).probabilities
    assert (kept[:, 2] == 0).all()
    filled = limited(None, table, Limits(at_most=[2, 2, np.inf])).probabilities
    assert filled.sum(axis=0) == pytest.approx([2, 2, 6])


def test_floors_are_kept_and_limits_bind_the_sum():
    random = np.random.default_rng(5)
    for number in range(60):
        scores, eligible, limits = instance(number)
        limits["most"] = np.where(np.isfinite(limits["most"]), limits["most"] + 5, np.inf)
        floor = 0.2 * eligible / eligible.sum(axis=1, keepdims=True)
        table = eligible * random.random(scores.shape) + 1e-9 * eligible
        table /= table.sum(axis=1, keepdims=True)
        table = chosen(scores, eligible) if number % 2 else table
        try:
            found = limited(scores, table, as_limits(limits), eligible=eligible, floor=floor)
        except InvalidArgumentError:
            continue
        assert (found.probabilities >= floor - 2.0**-51).all()
        assert (found.probabilities[~eligible] == 0).all()
        within(found.probabilities, limits)


def test_pathological_tables_keep_their_limits():
    random = np.random.default_rng(6)
    special = np.array([0.0, 1.0, 1e-300, 1e-17, 2.0**-52, 0.5, 1 / 3, 1 - 1e-16])
    for _ in range(300):
        units, actions = int(random.integers(1, 12)), int(random.integers(2, 5))
        table = random.choice(special, (units, actions)) + 0.0
        table[table.sum(axis=1) == 0, 0] = 1
        table /= table.sum(axis=1, keepdims=True)
        share = random.multinomial(units, np.full(actions, 1 / actions))
        limits = {"most": share + random.integers(0, 2, actions), "least": np.zeros(actions)}
        within(limited(table, table, as_limits(limits)).probabilities, limits)


@pytest.mark.parametrize(
    ("limits", "field", "received"),
    [
        ({"at_most": [1, 1]}, "at_most", "2"),
        ({"at_most": [4, 1]}, "at_most", "1"),
        ({"at_least": [3, 0]}, "at_least", "3"),
        (
            {"costs": [9, 2], "budget": 7},
            "budget",
            "7",
        ),
    ],
)
def test_numbers_that_clash_are_named(limits, field, received):
    eligible = np.array([[True, True], [True, True], [False, True], [False, True]])
    with refused("invalid-argument", field=field, received=received):
        limited(np.zeros((4, 2)), [[0, 1]] * 4, Limits(**limits), eligible=eligible)


@pytest.mark.parametrize(
    ("limits", "field", "received"),
    [
        ({"at_most": [1, -1]}, "at_most", "[1.0, -1.0]"),
        ({"at_least": [np.inf]}, "at_least", "[inf]"),
        ({"at_most": [1, 2], "at_least": [2, 1]}, "at_least", "2 and at_most 1 for action 0"),
        ({"at_most": [1, 2], "costs": [1]}, "limits", "lengths [1, 2]"),
        ({"budget": 3}, "costs", "None"),
        ({"costs": [1], "budget": -3}, "budget", "-3"),
    ],
)
def test_limits_that_mean_nothing_are_refused(limits, field, received):
    with refused("invalid-argument", field=field, received=received):
        Limits(**limits)


def test_arguments_that_do_not_fit_are_refused():
    table, tight = [[1.0, 0.0], [1.0, 0.0]], Limits(at_most=[1, 1])
    with refused("invalid-argument", field="scores"):
        limited(None, table, tight)
    with refused("invalid-argument", field="at_most", received="1 numbers"):
        limited(None, table, Limits(at_most=[1]))
    with refused("invalid-argument", field="probabilities"):
        limited(table, table, tight, eligible=[[False, True], [True, True]])
    with refused("invalid-argument", field="eligible"):
        limited(table, table, tight, eligible=[[1, 1], [1, 1]])
    with refused("invalid-argument", field="floor"):
        limited(table, table, tight, floor=[[0.9, 0.9], [0, 0]])
    with refused("invalid-argument", field="at_most", received="1"):
        limited(table, table, tight, floor=[[0.8, 0], [0.8, 0]])


def test_whole_counts_take_few_steps(monkeypatch):
    """Counts that are all fixed have one price too many: nothing would hold the prices in place."""
    random, taken = np.random.default_rng(0), []
    at = Dual.at
    monkeypatch.setattr(Dual, "at", lambda self, point: taken.append(1) or at(self, point))
    scores = random.normal(size=(3_000, 10))
    eligible = random.random((3_000, 10)) < 0.7
    eligible[:, 0] = True
    chosen = np.eye(10)[np.where(eligible, scores, -np.inf).argmax(axis=1)]
    costs = np.arange(10.0)
    limits = Limits(at_most=[np.inf] + [120] * 9, costs=costs, budget=3_000)
    floor = np.where(eligible, 0.01, 0)
    found = limited(scores, chosen, limits, eligible=eligible, floor=floor)
    counts = whole(found.probabilities).sum(axis=0)
    assert not any(count % ONE for count in counts)
    assert sum(int(cost) * count for cost, count in zip(costs, counts, strict=True)) <= 3_000 * ONE
    assert len(taken) < 1_200


def test_a_cost_on_average_may_be_exceeded_by_what_is_drawn():
    """One unit that may cost 1 on average gets what costs 4 in a quarter of draws, at most."""
    costs, chosen = [0.0, 4.0], [[0.0, 1.0]]
    limits = Limits(costs=costs, budget=5, on_average=1)
    found = limited([[0.0, 9.0]], chosen, limits)
    assert found.probabilities[0] == pytest.approx([0.75, 0.25])
    surely = limited([[0.0, 9.0]], chosen, Limits(costs=costs, budget=3, on_average=1))
    assert surely.probabilities.tolist() == [[1.0, 0.0]]
    with refused("invalid-argument", field="budget"):
        Limits(costs=costs, on_average=1)


def test_limits_are_refused_by_the_names_of_actions():
    limits = Limits(at_most=[1, 1], names=["mail", "call"])
    with refused("invalid-argument", field="at_most"):
        limited(np.zeros((4, 2)), np.full((4, 2), 0.5), limits)
    with refused("invalid-argument", field="at_least"):
        Limits(at_most=[9, 1], at_least=[0, 2], names=["mail", "call"])


def near_the_best(number, kind):
    """Check one random problem; return how near it comes, or None if no table is possible."""
    (scores, eligible, floor, limits), best = budgets.posed(number, kind)
    if best is None:
        with refused("invalid-argument"):
            budgets.solve(scores, eligible, floor, limits)
        return None
    found = budgets.solve(scores, eligible, floor, limits)
    assert 0.98 * best <= found.value <= best * (1 + 1e-9)
    assert (found.probabilities >= floor - 2.0**-51).all()
    assert (found.probabilities[~eligible] == 0).all()
    average = limits.get("on_average", np.inf)
    assert found.probabilities.sum(axis=0) @ limits["costs"] <= average * (1 + 1e-6)
    within(found.probabilities, {name: limits[name] for name in limits if name != "on_average"})
    return found.value / best if best else 1.0


@pytest.mark.parametrize("numbers", [(*range(12), 1216), *thorough([*range(12, 62)])], ids=len)
def test_a_budget_on_a_small_wave_loses_less_than_two_percent(numbers):
    """Whole counts at least cost left budget unspent: one problem in six lost more than 2%."""
    ratios = [near_the_best(number, "free") for number in numbers]
    known = [one for one in ratios if one is not None]
    assert len(known) > 0.8 * len(numbers)
    # The search ends when half a percent may be missing.
    assert min(known) >= 0.995


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("floors", range(3)),
        ("files", range(12)),
        *thorough(("floors", range(3, 10)), ("files", range(12, 52))),
    ],
)
def test_a_budget_with_floors_is_near_the_best_table_that_may_be_drawn_from(kind, numbers):
    """Whole counts are impossible in some of these problems: no count can be below its floor."""
    known = [near_the_best(number, kind) for number in numbers]
    assert sum(one is not None for one in known) >= len(numbers) // 2


@pytest.mark.thorough
def test_a_budget_over_many_actions_takes_few_programmes(monkeypatch):
    """Ten actions took two minutes: ceilings are much too high far from the tables tried."""
    nodes, milp = [], scipy.optimize.milp

    def counted(*arguments, **options):
        found = milp(*arguments, **options)
        nodes.append(found.mip_node_count or 0)
        return found

    monkeypatch.setattr(scipy.optimize, "milp", counted)
    random = np.random.default_rng([5, 60, 10])
    costs = np.append(0.0, np.round(100.0 ** random.random(9), 1))
    scores = random.gamma(1.0, size=(60, 10)) * np.sqrt(costs)
    eligible = random.random(scores.shape) < 0.7
    eligible[:, 0] = True
    free, floor = chosen(scores, eligible), 0.1 * eligible / eligible.sum(axis=1, keepdims=True)
    rest = 0.2 * costs @ free.sum(axis=0)
    limits = Limits(costs=costs, budget=costs @ floor.sum(axis=0) + rest)
    found = limited(scores, free, limits, eligible=eligible, floor=floor)
    assert 2 <= len(nodes) <= TABLES + len(costs) * len(REACHES)
    assert 0 < sum(nodes) <= ALL_NODES
    # No table that keeps the budget on average is worth more than this.
    none, endless = np.zeros(10), np.full(10, np.inf)
    most = best_value(scores, eligible, least=none, most=endless, costs=costs, budget=rest / 0.9)
    most = 0.9 * most + np.vdot(scores, floor)
    assert 0.98 * most <= found.value <= most * (1 + 1e-9)


def test_a_small_wave_spends_what_whole_counts_leave_on_cheaper_actions():
    """Two dear calls do not fit in 19; one call and nine letters do."""
    scores = np.tile([0.0, 1.0, 12.0], (20, 1)) + np.arange(20)[:, None] * [0, 0.01, 0.1]
    limits = Limits(costs=[0, 1, 10], budget=19)
    found = limited(scores, np.eye(3)[[2] * 20], limits)
    assert found.probabilities.sum(axis=0).tolist() == [10, 9, 1]
    again = limited(scores, np.eye(3)[[2] * 20], limits)
    assert (again.probabilities == found.probabilities).all()


def test_equal_units_share_whole_counts_equally():
    limits = Limits(costs=[0, 1, 10], budget=19)
    found = limited(np.tile([0.0, 1.0, 12.0], (20, 1)), np.eye(3)[[2] * 20], limits)
    assert found.probabilities == pytest.approx(np.tile([0.5, 0.45, 0.05], (20, 1)), abs=1e-9)


def test_tilted_tables_keep_their_floors_where_no_count_can_be_whole():
    """Counts are at least 1.2 each: whole ones would cost more than there is."""
    floor = np.full((12, 3), 0.1)
    limits = {"most": np.full(3, np.inf), "least": np.zeros(3), "costs": np.array([0.0, 3, 12])}
    found = limited(
        None, np.full((12, 3), 1 / 3), as_limits({**limits, "budget": 30.0}), floor=floor
    )
    assert (found.probabilities >= floor - 2.0**-51).all()
    within(found.probabilities, {**limits, "budget": 30.0})
