"""Public data sets: the encoding on small files, and the real files where they are."""

import gzip
import hashlib

import numpy as np
import pytest

from seqbatch.datasets import (
    Labelled,
    LoggedExperiment,
    MissingDatasetError,
    covertype,
    files,
    hillstrom,
    mushroom,
)
from tests.refusals import refused


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Put a small file in the place of a public one."""
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))

    def put(dataset, text):
        name = files.PUBLIC_FILES[dataset].name
        sha = hashlib.sha256(text.encode()).hexdigest()
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        monkeypatch.setitem(files.PUBLIC_FILES, dataset, files.PublicFile(name, sha))

    return put


def real(load, *arguments):
    try:
        return load(*arguments)
    except MissingDatasetError:
        pytest.skip(f"the file of {load.__name__} is not on this machine")


def test_small_mushroom_keeps_every_level_in_order(place):
    rows = [
        ["p", "x", "?", *"abcdefghijklmnopqrst"],
        ["e", "b", "s", *"abcdefghijklmnopqrst"],
        ["p", "x", "f", *"abcdefghijklmnopqrst"],
    ]
    place("mushroom", "".join(",".join(row) + "\n" for row in rows))
    data = mushroom()
    assert data.classes == ("e", "p")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.columns[:5] == (
        *("cap-shape=b", "cap-shape=x"),
        *("cap-surface=?", "cap-surface=f", "cap-surface=s"),
    )
    assert data.features.shape == (3, 25)
    expected = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [0, 1, 0, 1, 0]]) / np.sqrt(22)
    np.testing.assert_allclose(data.features[:, :5], expected)
    np.testing.assert_allclose(data.features[:, 5:], 1 / np.sqrt(22))


def test_small_covertype_is_standardised_then_scaled(place):
    random = np.random.default_rng(3)
    raw = np.hstack([random.integers(0, 900, (6, 10)), random.integers(0, 2, (6, 44))])
    raw[:, 4] = 7
    labels = [5, 2, 5, 1, 2, 2]
    lines = [[*row, label] for row, label in zip(raw.tolist(), labels, strict=True)]
    place("covertype", "".join(",".join(map(str, line)) + "\n" for line in lines))
    data = covertype()
    expected = raw.astype(float)
    for j in range(10):
        column = expected[:, j] - expected[:, j].mean()
        expected[:, j] = column / column.std() if j != 4 else 0.0
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(data.features, expected, rtol=1e-12, atol=1e-14)
    assert data.classes == ("1", "2", "5")
    assert data.labels.tolist() == [2, 1, 2, 0, 1, 1]


HILLSTROM = """recency,history_segment,history,mens,womens,zip_code,newbie,channel,segment,visit,\
conversion,spend
10,2) $100 - $200,142.44,1,0,Surburban,0,Phone,Womens E-Mail,0,0,0
6,3) $200 - $350,329.08,1,1,Rural,1,Web,No E-Mail,1,0,0
2,2) $100 - $200,180.65,0,1,Surburban,1,Web,Mens E-Mail,1,1,29.99
"""


def test_small_hillstrom_is_a_logged_experiment(place):
    place("hillstrom", HILLSTROM.replace("\n", "\r\n"))
    log = hillstrom("spend")
    assert log.names == ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
    assert log.actions.tolist() == [2, 0, 1]
    assert log.rewards.tolist() == [0.0, 0.0, 29.99]
    history = np.log1p([142.44, 329.08, 180.65])
    values = dict(zip(log.columns, log.features.T, strict=True))
    np.testing.assert_allclose(values["log1p(history)"], (history - history.mean()) / history.std())
    np.testing.assert_allclose(values["recency"], np.array([4, 0, -4]) / np.sqrt(32 / 3))
    assert values["intercept"].tolist() == [1, 1, 1]
    assert values["newbie"].tolist() == [0, 1, 1]
    assert values["zip_code=Surburban"].tolist() == [1, 0, 1]
    assert values["channel=Web"].tolist() == [0, 1, 1]
    environment = log.environment()
    assert environment.rewards.tolist() == [[0, 0, 0], [0, 0, 0], [0, 29.99, 0]]
    assert environment.logged.tolist() == [2, 0, 1]
    assert hillstrom().rewards.tolist() == [0, 1, 1]


def test_an_unknown_outcome_is_refused_before_the_file_is_sought(monkeypatch, tmp_path):
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))
    with refused("invalid-argument", field="outcome"):
        hillstrom("clicks")


@pytest.mark.parametrize("load", [mushroom, covertype, hillstrom])
def test_a_missing_file_is_named(load, monkeypatch, tmp_path):
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))
    with refused("no-dataset", match=files.PUBLIC_FILES[load.__name__].sha256):
        load()


def test_real_mushroom():
    data = real(mushroom)
    assert data.features.shape == (8124, 117)
    assert np.bincount(data.labels).tolist() == [4208, 3916]
    assert data.features.dtype == np.float64
    assert data.labels.dtype == np.int64
    np.testing.assert_allclose(np.linalg.norm(data.features, axis=1), 1.0)
    levels = [name.partition("=")[2] for name in np.array(data.columns)[data.features[0] > 0]]
    assert [data.classes[data.labels[0]], *levels] == list("pxsntpfcnkeesswwpwopksu")
    assert (data.features[:, data.columns.index("stalk-root=?")] > 0).sum() == 2480
    environment = data.head(100).environment()
    assert (environment.actions, environment.dim, environment.units) == (2, 117, 100)


@pytest.mark.slow
def test_real_covertype():
    data = real(covertype)
    assert data.features.shape == (581_012, 54)
    assert data.classes == tuple("1234567")
    counts = [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
    assert np.bincount(data.labels).tolist() == counts
    assert data.labels[0] == 4
    assert (data.features[0, 10:14] > 0).tolist() == [True, False, False, False]
    lengths = np.einsum("ij,ij->i", data.features, data.features)
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-12)
    # Indicators are 1 over the row's length, which undoes the last step.
    scale = 1.0 / data.features[:, 10:14].max(axis=1, keepdims=True)
    numbers = data.features[:, :10] * scale
    np.testing.assert_allclose(numbers.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(numbers.std(axis=0), 1.0, rtol=1e-10)


def test_real_hillstrom():
    log = real(hillstrom, "visit")
    assert log.features.shape == (64_000, 12)
    assert log.names == ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
    assert np.bincount(log.actions).tolist() == [21_306, 21_307, 21_387]
    assert log.rewards.sum() == 9_394
    assert hillstrom("conversion").rewards.sum() == 578
    assert hillstrom("spend").rewards.sum() == pytest.approx(67_258.13)
    assert log.names[log.actions[0]] == "Womens E-Mail"
    assert log.environment().actions == 3


def test_labelled_refuses_what_does_not_fit():
    with refused("invalid-argument", field="features"):
        Labelled(np.eye(2), np.array([0, 1, 0]), ("a", "b"), ("x", "y"))
    data = Labelled(np.eye(2), np.array([0, 1]), ("a", "b"), ("x", "y"))
    for n in (0, 3):
        with refused("invalid-argument", field="n"):
            data.head(n)


def test_logged_refuses_what_does_not_fit():
    with refused("invalid-argument", field="rewards"):
        LoggedExperiment(np.eye(2), np.array([0, 1]), np.ones(3), ("a", "b"), ("x", "y"))
    with refused("invalid-argument", field="features"):
        LoggedExperiment(np.eye(2), np.array([0]), np.ones(1), ("a", "b"), ("x", "y"))
    for actions, received in (([0, 2], "2 in row 1"), ([0.5, 1.0], "an array of dtype float64")):
        with refused("invalid-argument", field="actions", received=received):
            LoggedExperiment(np.eye(2), np.array(actions), np.ones(2), ("a", "b"), ("x", "y"))
