"""Hashed rows: the same vectors as a literal loop, few bytes, exact sums."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

from seqbatch.datasets import HashedRows, SyntheticAvazu, fit_theta
from seqbatch.datasets.avazu import FEATURES, hash_codes
from tests.refusals import refused

dims = pytest.mark.parametrize("dim", [1, 7, 40, 127])


def literal(frame, dim):
    """The definition, row by row and column by column."""
    vectors = np.zeros((len(frame), dim))
    for i, row in enumerate(frame.iter_rows(named=True)):
        for name in FEATURES:
            h = murmurhash3_32(f"{name}={row[name]}")
            vectors[i, abs(int(h)) % dim] += 1.0 if h >= 0 else -1.0
    return vectors / np.sqrt(dim)


@dims
def test_dense_equals_the_literal_loop(dim):
    log = SyntheticAvazu(seed=5)
    frame, rows = log.frame(300), log.hashed(300, dim=dim)
    np.testing.assert_allclose(rows.dense(np.arange(300)), literal(frame, dim), atol=1e-15)


@dims
def test_dense_equals_scikit_learns_hasher(dim):
    log = SyntheticAvazu(seed=6)
    dicts = log.frame(200).select(FEATURES).to_dicts()
    expected = FeatureHasher(n_features=dim).transform(dicts).toarray() / np.sqrt(dim)
    np.testing.assert_allclose(log.hashed(200, dim=dim).dense(slice(None)), expected, atol=1e-15)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=12), max_size=20), st.integers(1, 127))
def test_any_text_is_hashed_as_scikit_learn_does(values, dim):
    codes = hash_codes("c", values, dim)
    rows = HashedRows(codes[:, None], np.zeros(len(values)), dim)
    expected = np.zeros((len(values), dim))
    for row, value in zip(expected, values, strict=True):
        row[:] = FeatureHasher(n_features=dim).transform([{"c": value}]).toarray()[0]
    np.testing.assert_array_equal(rows.sums(slice(None)), expected)


def test_indices_of_any_shape_and_order():
    rows = SyntheticAvazu().hashed(50)
    every = rows.dense(slice(None))
    picked = np.array([[3, 3], [49, 0], [-1, 7]])
    np.testing.assert_array_equal(rows.dense(picked), every[picked])
    assert rows.dense([]).shape == (0, 40)
    with refused("invalid-argument", field="indices"):
        rows.dense([0.5])
    with pytest.raises(IndexError):
        rows.dense([50])


def test_the_whole_file_would_fit_in_a_gibibyte():
    rows = SyntheticAvazu().hashed(1_000)
    assert rows.codes.dtype == rows.click.dtype == np.uint8
    assert rows.codes.nbytes == 22 * len(rows)
    assert rows.nbytes == 23 * len(rows)
    assert rows.nbytes / len(rows) * 40_428_967 < 2**30


def test_joined_chunks_are_the_whole():
    log = SyntheticAvazu(seed=2)
    whole = log.hashed(90)
    parts = HashedRows.joined(log.hashed(n, start=s) for s, n in [(0, 1), (1, 59), (60, 30)])
    np.testing.assert_array_equal(parts.codes, whole.codes)
    np.testing.assert_array_equal(parts.click, whole.click)


def test_theta_is_the_least_squares_solution(monkeypatch):
    rows = SyntheticAvazu(seed=8).hashed(5_000)
    theta = fit_theta(rows)
    expected = np.linalg.lstsq(rows.dense(slice(None)), rows.click.astype(float))[0]
    np.testing.assert_allclose(theta, expected, rtol=1e-9, atol=1e-11)
    # Sums of whole numbers are exact: no cut changes a bit.
    monkeypatch.setattr(sys.modules["seqbatch.datasets.avazu"], "_CHUNK", 77)
    np.testing.assert_array_equal(fit_theta(rows), theta)
    np.testing.assert_array_equal(fit_theta(rows, rows.click), theta)


def test_a_singular_gram_gives_the_least_norm():
    rows = SyntheticAvazu(seed=8).hashed(25)
    target = np.random.default_rng(0).standard_normal(25)
    expected = np.linalg.pinv(rows.dense(slice(None))) @ target
    np.testing.assert_allclose(fit_theta(rows, target), expected, rtol=1e-6, atol=1e-8)


def test_what_does_not_fit_is_refused():
    codes = np.zeros((2, 22), np.uint8)
    with refused("invalid-argument", field="codes and click"):
        HashedRows(codes, np.zeros(3, np.uint8))
    for dim in (0, 128):
        with refused("invalid-argument", field="dim"):
            HashedRows(codes, np.zeros(2, np.uint8), dim)
    with refused("invalid-argument", field="click"):
        fit_theta(HashedRows(codes, np.zeros(2, np.uint8)), [1.0])
    with refused("invalid-argument", field="the number of rows"):
        fit_theta(HashedRows(codes[:0], np.zeros(0, np.uint8)))
