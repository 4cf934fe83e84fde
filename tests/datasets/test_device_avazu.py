"""Rows of Avazu's shape from a device: the host's law, codes and effects, by other draws."""

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from seqbatch.datasets import DeviceAvazu, SyntheticAvazu, avazu_like, fit_theta
from seqbatch.datasets.avazu import HashedRows, hash_codes, murmur3
from seqbatch.datasets.avazu_like import hex_codes, texts
from seqbatch.environments import FeaturePool
from seqbatch.simulation.device.backend import backend
from tests.refusals import refused

ROWS = 60_000


@pytest.fixture(scope="module")
def log():
    return DeviceAvazu(rows=ROWS, device="numpy")


@pytest.mark.parametrize("length", range(1, 14))
def test_hashes_are_murmur3(length):
    texts = np.random.default_rng(length).integers(32, 127, (200, length))
    found = murmur3([texts[:, place] for place in range(length)])
    wanted = [murmurhash3_32(bytes(text.tolist())) for text in texts.astype(np.uint8)]
    assert found.tolist() == wanted


@pytest.mark.parametrize("name", ["device_ip", "site_id", "app_domain"])
def test_codes_are_those_of_the_written_categories(name):
    categories = np.array([0, 1, 17, 400, 558])
    wanted = hash_codes(name, texts(name, categories), 40)
    assert np.array_equal(hex_codes(name, categories, 40), wanted)


def test_rows_have_the_hosts_law(log):
    host = SyntheticAvazu(seed=0).hashed(ROWS)
    here, there = log.dense(np.arange(ROWS)), host.dense(np.arange(ROWS))
    # Means and second moments of both, five standard errors of their difference apart at most.
    for one, other in (
        (here, there),
        (here**2, there**2),
        (here[:, 1:] * here[:, :-1], there[:, 1:] * there[:, :-1]),
    ):
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / ROWS)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 5 * error + 1e-12).all()
    clicks = log._rows[1].mean(), host.click.mean()
    assert abs(clicks[0] - clicks[1]) < 5 * np.sqrt(2 * 0.17 * 0.83 / ROWS)


def test_the_parameter_is_the_regression_on_the_rows(log):
    x, y = log.dense(np.arange(ROWS)), log._rows[1].astype(float)
    wanted = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(log.theta, wanted, atol=1e-9)


def test_a_row_does_not_depend_on_how_many_there_are(log):
    few = DeviceAvazu(rows=100, device="numpy")
    assert np.array_equal(few.dense(np.arange(100)), log.dense(np.arange(100)))
    other = DeviceAvazu(rows=100, device="numpy", seed=1)
    assert not np.array_equal(few.dense(np.arange(100)), other.dense(np.arange(100)))


def test_counts_of_the_hosts_rows_are_their_sums():
    rows = SyntheticAvazu(seed=2).hashed(500)
    place = backend("numpy")
    assert np.array_equal(rows.counts(place), rows.sums(slice(None)))
    assert isinstance(rows, HashedRows)
    pool = FeaturePool(rows=rows, theta=fit_theta(rows))
    assert pool.pool is rows


def test_rows_must_be_a_number_of_rows():
    with refused("invalid-argument", field="rows"):
        DeviceAvazu(rows=0, device="numpy")


def test_rows_do_not_depend_on_how_many_are_drawn_at_a_time(log, monkeypatch):
    monkeypatch.setattr(avazu_like, "usable", lambda _: 512 * 7_777)
    pieces = DeviceAvazu(rows=ROWS, device="numpy")
    assert avazu_like._together(backend("numpy")) == 7_777
    assert np.array_equal(pieces.dense(range(ROWS)), log.dense(range(ROWS)))
    assert np.array_equal(pieces.theta, log.theta)
