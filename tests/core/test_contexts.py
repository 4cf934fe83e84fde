"""The three layouts behind one face."""

import numpy as np
import pytest

from seqbatch import Contexts, Problem
from seqbatch.core import Statistics, ridge
from tests.instances import long_form
from tests.refusals import refused

random = np.random.default_rng(0)


def problem(layout, dim=3):
    return Problem(ends=(10, 20), actions=4, dim=dim, layout=layout)


@pytest.mark.parametrize("layout", ["disjoint", "block"])
def test_scores_and_chosen_rows_equal_the_dense_form(layout):
    shape = (30, 3) if layout == "block" else (30, 4, 3)
    values = random.standard_normal(shape)
    contexts = Contexts.of(values, problem(layout))
    long = Contexts.of(long_form(values, 4), problem("shared", 12))
    assert np.array_equal(contexts.dense(), long.values)
    actions = random.integers(0, 4, 30)
    rows, rewards = contexts.chosen(actions), random.standard_normal(30)
    block = ridge(Statistics.zero(4, 3).add(rows, rewards, actions), 0.7)
    nothing = np.zeros(30, dtype=np.int64)
    dense = ridge(Statistics.zero(1, 12).add(long.chosen(actions), rewards, nothing), 0.7)
    np.testing.assert_allclose(block.theta.ravel(), dense.theta[0], rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(
        contexts.means_and_widths(block.theta, block.root),
        long.means_and_widths(dense.theta, dense.root),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
@pytest.mark.parametrize("units", [1, 64, 150])
def test_shares_of_being_best(layout, units):
    shape = (units, 3) if layout == "block" else (units, 4, 3)
    values = random.standard_normal(shape)
    values[0] = 0.0  # all actions tie
    contexts = Contexts.of(values, problem(layout))
    thetas = random.standard_normal((50, 1 if layout == "shared" else 4, 3))
    means = np.stack([contexts.means(theta) for theta in thetas], axis=1)
    lowest = np.stack([(means.argmax(axis=2) == a).mean(axis=1) for a in range(4)], axis=1)
    assert np.array_equal(contexts.best_shares(thetas, split_ties=False), lowest)
    tied = means == means.max(axis=2, keepdims=True)
    split = (tied / tied.sum(axis=2, keepdims=True)).mean(axis=1)
    np.testing.assert_allclose(contexts.best_shares(thetas, split_ties=True), split, rtol=1e-12)
    assert contexts.best_shares(thetas, split_ties=True)[0].tolist() == [0.25] * 4
    assert lowest[0].tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
@pytest.mark.parametrize("units", [1, 64, 150])
def test_shares_of_being_best_are_those_of_the_eligible_actions_alone(layout, units):
    shape = (units, 3) if layout == "block" else (units, 4, 3)
    values = random.standard_normal(shape)
    values[0] = 0.0
    eligible = random.random((units, 4)) < 0.5
    eligible[:, 2] |= ~eligible.any(axis=1)
    eligible[0] = [False, True, False, True]
    contexts = Contexts.of(values, problem(layout), eligible=eligible)
    thetas = random.standard_normal((50, 1 if layout == "shared" else 4, 3))
    means = np.stack([contexts.means(theta) for theta in thetas], axis=1)
    means[np.broadcast_to(~eligible[:, None, :], means.shape)] = -np.inf
    lowest = np.stack([(means.argmax(axis=2) == a).mean(axis=1) for a in range(4)], axis=1)
    assert np.array_equal(contexts.best_shares(thetas, split_ties=False), lowest)
    tied = means == means.max(axis=2, keepdims=True)
    split = (tied / tied.sum(axis=2, keepdims=True)).mean(axis=1)
    np.testing.assert_allclose(contexts.best_shares(thetas, split_ties=True), split, rtol=1e-12)
    assert contexts.best_shares(thetas, split_ties=True)[0].tolist() == [0, 0.5, 0, 0.5]


@pytest.mark.parametrize("layout", ["disjoint", "block"])
@pytest.mark.parametrize("units", [1, 150])
def test_shares_of_a_mixture_of_quadratic_rules(layout, units):
    values = random.standard_normal((units, 3) if layout == "block" else (units, 4, 3))
    values[0] = 0.0
    eligible = random.random((units, 4)) < 0.7
    eligible[:, 2] |= ~eligible.any(axis=1)
    eligible[0] = [False, True, False, True]
    contexts = Contexts.of(values, problem(layout), eligible=eligible)
    theta, forms = random.standard_normal((4, 3)), random.standard_normal((5, 4, 3, 3))
    weights = np.array([0.4, 0.0, 0.3, 0.2, 0.1])
    lowest, split = np.zeros((2, units, 4))
    for t in range(units):
        for weight, form in zip(weights, forms, strict=True):
            x = [values[t] if layout == "block" else values[t, a] for a in range(4)]
            scores = np.array([x[a] @ theta[a] + x[a] @ form[a] @ x[a] for a in range(4)])
            best = np.where(eligible[t], scores, -np.inf)
            lowest[t, best.argmax()] += weight
            split[t] += weight * (best == best.max()) / (best == best.max()).sum()
    for wanted, ties in ((lowest, False), (split, True)):
        found = contexts.mixture_shares(theta, forms, weights, split_ties=ties)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with refused("invalid-argument", match="quadratic"):
        contexts.mixture_shares(theta, forms[:, :, :2], weights, split_ties=False)


@pytest.mark.parametrize(
    ("eligible", "received"),
    [
        (np.ones((4, 5), bool), "shape (4, 5)"),
        (np.ones((5, 4)), "ndarray of dtype float64"),
        ([["yes"] * 4] * 5, "list of dtype <U3"),
        (np.eye(5, 4, dtype=bool), "none in row 4"),
        (np.zeros((5, 4), dtype=bool), "none in row 0 (5 such rows)"),
    ],
)
def test_bad_eligibility_is_refused_by_name_rule_and_value(eligible, received):
    with refused("invalid-argument", field="eligible", received=received):
        Contexts.of(np.ones((5, 3)), problem("block"), eligible=eligible)


def test_chosen_is_a_copy():
    values = random.standard_normal((5, 3))
    contexts = Contexts.of(values, problem("block"))
    contexts.chosen(np.zeros(5, dtype=np.int64))[:] = 0
    assert values.all()


@pytest.mark.parametrize(
    ("values", "received"),
    [
        (np.zeros((5, 4)), "shape (5, 4)"),
        (np.zeros(3), "shape (3,)"),
        ([["a", "b", "c"]], "list"),
        (np.array([[1, 2, 1j]]), "ndarray of dtype complex128"),
        ([[1.0, 2.0], [1.0]], "list"),
        (np.array([[0.0, np.nan, 0.0]]), "nan at index (0, 1)"),
        (np.array([[0.0, 0.0, np.inf]]), "inf at index (0, 2)"),
        (
            np.array([[0.0, 0.0, -1e200]]),
            "-1e+200 at index (0, 2)",
        ),
    ],
)
def test_bad_contexts_are_refused_by_name_rule_and_value(values, received):
    with refused("invalid-argument", field="contexts", received=received):
        Contexts.of(values, problem("block"))


@pytest.mark.parametrize(
    ("changes", "field", "received"),
    [
        ({"actions": 1}, "actions", "1"),
        ({"actions": 2.0}, "actions", "2.0"),
        ({"dim": 0}, "dim", "0"),
        (
            {"layout": "wide"},
            "layout",
            "'wide'",
        ),
    ],
)
def test_bad_problems_are_refused(changes, field, received):
    arguments = {"ends": (1, 2), "actions": 2, "dim": 3, "layout": "block", **changes}
    with refused("invalid-argument", field=field, received=received):
        Problem(**arguments)
