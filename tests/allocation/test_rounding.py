"""Balanced draws: exact probabilities, counts rounded up or down, in every stratum."""

import hashlib

import numpy as np
import pytest

from seqbatch.allocation import rounded
from seqbatch.allocation.rounding import _changes, whole_parts
from tests.allocation.waves import ONE, SPECIAL, repeated, wrong_waves
from tests.cases import thorough
from tests.oracles.rounding import chooser, law, rounding
from tests.refusals import refused


def tables(count, *, units=8, actions=4, levels=2, seed=0):
    random = np.random.default_rng(seed)
    for _ in range(count):
        shape = (int(random.integers(1, units + 1)), int(random.integers(2, actions + 1)))
        table = random.dirichlet(np.full(shape[1], 0.7), shape[0])
        table[random.random(shape) < 0.25] = 0
        table[table.sum(axis=1) == 0, 0] = 1
        if random.random() < 0.3:
            table[:] = 1
        table /= table.sum(axis=1, keepdims=True)
        yield table, random.random(shape[0]), random.integers(0, 2, (shape[0], levels))


def words(key):
    return [int(word) for word in np.frombuffer(hashlib.sha256(str(key).encode()).digest(), "<u8")]


def plain(weights):
    return [[int(cell) for cell in row] for row in weights]


def test_the_kernel_follows_the_literal_rule():
    for key, (table, lots, strata) in enumerate(tables(150)):
        drawn = rounded(table, key=key, order=lots, strata=strata)
        literal = rounding(plain(whole_parts(table)), lots, strata.tolist(), chooser(words(key)))
        assert tuple(drawn.actions.tolist()) == literal


def test_expectations_are_the_returned_probabilities_exactly():
    for table, lots, strata in tables(60, units=5, actions=3, levels=1, seed=1):
        weights = plain(whole_parts(table))
        outcomes = law(weights, lots, strata.tolist())
        assert sum(outcomes.values()) == 1
        for unit, row in enumerate(weights):
            for action, weight in enumerate(row):
                chance = sum(p for actions, p in outcomes.items() if actions[unit] == action)
                assert chance * ONE == weight


def test_no_pair_within_a_stratum_is_correlated_positively():
    for table, lots, strata in tables(60, units=5, actions=3, levels=1, seed=2):
        weights = plain(whole_parts(table))
        outcomes = law(weights, lots, strata.tolist())
        for i in range(len(weights)):
            for j in range(i):
                for action in range(len(weights[0])):
                    both = sum(p for a, p in outcomes.items() if a[i] == a[j] == action)
                    if strata[i, 0] == strata[j, 0]:
                        assert both * ONE * ONE <= weights[i][action] * weights[j][action]


def test_balanced_strata_can_force_a_positive_correlation_between_them():
    half = ONE // 2
    one, two, three, four = ([half, 0, half], [half, half, 0], [half, half, 0], [half, 0, half])
    outcomes = law([one, two, three, four], [0, 1, 2, 3], [[0], [0], [1], [1]])
    # Each stratum has one of action 0 and all have two of each other one: 0 and 2 go together.
    assert all((actions[0] == 0) == (actions[2] == 0) for actions in outcomes)
    assert len(outcomes) == 2


def test_a_hundred_thousand_draws_have_the_probabilities_that_are_logged():
    random = np.random.default_rng(3)
    table = random.dirichlet(np.ones(3), 12)
    table[3] = [0.5, 0.5, 0.0]
    weights, strata = whole_parts(table), np.repeat([0, 1, 2], 4)
    changes, groups = _changes([strata], 12)
    times = 100_000
    cells, pairs = repeated(weights, np.arange(12), changes, groups, 2, 5, times)
    error = np.sqrt(table * (1 - table) / times)
    assert (np.abs(cells / times - table) <= 4 * error).all()
    assert cells[3, 2] == 0
    product = table[:, None, :] * table[None, :, :]
    same = (strata[:, None] == strata) & np.tri(12, k=-1, dtype=bool)
    excess = pairs / times - product
    assert (excess[same] <= 4 * np.sqrt(product[same] / times)).all()
    # Without balance half of them would lie above.
    assert (excess[same] < 0).mean() > 0.9


def test_counts_are_their_expectation_rounded_in_every_stratum_at_every_level():
    for key, (table, lots, strata) in enumerate(tables(300, units=40, seed=4)):
        drawn = rounded(table, key=key, order=lots, strata=strata)
        chosen = np.eye(table.shape[1], dtype=int)[drawn.actions]
        whole = whole_parts(table).astype(object)
        assert (drawn.probabilities[np.arange(len(table)), drawn.actions] > 0).all()
        for level in range(3):
            for group in np.unique(strata[:, :level], axis=0):
                inside = (strata[:, :level] == group).all(axis=1)
                counts = chosen[inside].sum(axis=0)
                expected = whole[inside].sum(axis=0)
                assert (counts >= expected // ONE).all()
                assert (counts <= -(-expected // ONE)).all()


@pytest.mark.parametrize("waves", [1_000, *thorough(10_000)])
def test_pathological_waves(waves):
    assert wrong_waves(waves, 3, SPECIAL) == 0


def test_arms_of_a_trial_are_balanced_in_all_and_in_every_centre():
    centres = np.repeat(np.arange(11), 6)
    drawn = rounded(np.full((66, 3), 1 / 3), key=b"trial", strata=centres)
    assert np.bincount(drawn.actions).tolist() == [22, 22, 22]
    for centre in range(11):
        assert np.bincount(drawn.actions[centres == centre]).tolist() == [2, 2, 2]
    other = rounded(np.full((66, 3), 1 / 3), key=b"another", strata=centres)
    assert (other.actions != drawn.actions).any()


def test_the_order_of_rows_does_not_matter():
    random = np.random.default_rng(6)
    table, lots = random.dirichlet(np.ones(4), 500), random.permutation(500).astype(np.uint64)
    strata = random.integers(0, 9, (500, 2))
    drawn = rounded(table, key=8, order=lots, strata=strata)
    mixed = random.permutation(500)
    again = rounded(table[mixed], key=8, order=lots[mixed], strata=strata[mixed])
    assert (again.actions == drawn.actions[mixed]).all()
    assert (again.probabilities == drawn.probabilities[mixed]).all()


def test_probabilities_are_multiples_that_sum_to_one_exactly():
    table = np.array(
        [[0.1, 0.2, 0.7], [1e-300, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0, 1 - 1e-16, 0]]
    )
    drawn = rounded(table, key=1)
    whole = drawn.probabilities * 2.0**52
    assert (whole == np.rint(whole)).all()
    assert (whole.sum(axis=1) == 2.0**52).all()
    assert (drawn.probabilities[table == 0] == 0).all()
    assert np.abs(drawn.probabilities - table).max() < 2.0**-51
    again = rounded(drawn.probabilities, key=1)
    assert (again.probabilities == drawn.probabilities).all()


@pytest.mark.parametrize(
    ("change", "field", "received"),
    [
        ({"probabilities": [[0.5, 0.4]]}, "probabilities", "[0.5, 0.4] in row 0"),
        ({"probabilities": [[1.5, -0.5]]}, "probabilities", "[1.5, -0.5] in row 0"),
        ({"strata": [0.5]}, "strata", "float64 of shape (1,)"),
        ({"order": [1, 2]}, "order", "int64 of shape (2,)"),
        ({"key": 1.5}, "key", "1.5"),
    ],
)
def test_what_cannot_be_rounded_is_refused(change, field, received):
    asked = {"probabilities": [[0.5, 0.5]], "key": 1, **change}
    with refused("invalid-argument", field=field, received=received):
        rounded(asked.pop("probabilities"), **asked)
