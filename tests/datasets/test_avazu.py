"""The reader and the generator agree, and neither depends on how the work is cut."""

import gzip
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.datasets import (
    DamagedDatasetError,
    SyntheticAvazu,
    avazu,
    avazu_chunks,
    avazu_like,
    files,
)
from seqbatch.datasets.avazu import COLUMNS, FEATURES, NAMES
from tests.refusals import refused

BLOCK = avazu_like.BLOCK


def same(left, right):
    return np.array_equal(left.codes, right.codes) and np.array_equal(left.click, right.click)


@pytest.fixture(scope="module")
def log():
    return SyntheticAvazu(seed=11)


@pytest.fixture(scope="module")
def whole(log):
    return log.hashed(BLOCK + 500)


@pytest.fixture
def lines(log):
    return log.frame(40).write_csv().splitlines()


def test_columns_are_avazus(log):
    frame = log.frame(3)
    assert tuple(frame.columns) == COLUMNS
    assert len(FEATURES) == 22
    assert (frame.dtypes, frame["id"].n_unique()) == ([pl.String] * 24, 3)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, BLOCK + 499), st.integers(1, 400))
def test_any_range_is_a_cut_of_the_whole(log, whole, start, rows):
    rows = min(rows, len(whole) - start)
    part = log.hashed(rows, start=start)
    np.testing.assert_array_equal(part.codes, whole.codes[start : start + rows])
    np.testing.assert_array_equal(part.click, whole.click[start : start + rows])


def test_another_object_of_the_same_seed_is_the_same_log(log):
    assert same(SyntheticAvazu(seed=11).hashed(300), log.hashed(300))
    assert not same(SyntheticAvazu(seed=12).hashed(300), log.hashed(300))
    assert log.frame(20, start=BLOCK - 10).rows()[12] == log.frame(1, start=BLOCK + 2).rows()[0]


def test_categories_are_heavy_tailed_and_clicks_are_rare(log, whole):
    frame = log.frame(BLOCK)
    for name in ("site_id", "app_id", "device_id"):
        counts = np.sort(frame[name].value_counts()["count"].to_numpy())[::-1]
        assert counts[0] > 0.1 * BLOCK
        assert (counts == 1).sum() > 100
    assert frame["device_ip"].n_unique() > BLOCK / 2
    assert frame["site_category"].n_unique() == 26
    assert frame.group_by("site_id").agg(pl.col("site_domain").n_unique())["site_domain"].max() == 1
    assert 0.1 < whole.click.mean() < 0.3


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back(log, whole, tmp_path, monkeypatch, name):
    plain = tmp_path / "plain.csv"
    log.write(plain, 3_000)
    content = plain.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))
    rows = avazu()
    assert len(rows) == 3_000
    assert np.array_equal(rows.codes, whole.codes[:3_000])
    assert np.array_equal(rows.click, whole.click[:3_000])


def test_writing_goes_on_past_a_block(log, whole, tmp_path):
    log.write(tmp_path / "train.csv", len(whole))
    assert same(avazu(tmp_path / "train.csv"), whole)


@pytest.mark.parametrize("piece", [1, 100, 5_000, 10**9])
def test_rows_do_not_depend_on_the_pieces(log, tmp_path, piece):
    path = tmp_path / "train.csv"
    log.write(path, 60)
    chunks = list(avazu_chunks(path, piece=piece, dim=9))
    assert same(type(chunks[0]).joined(chunks), log.hashed(60, dim=9))
    first = list(avazu_chunks(path, piece=piece, rows=17))
    assert sum(len(chunk) for chunk in first) == 17


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_in_another_order_line_ends_and_no_last_line_end(log, tmp_path, end):
    path = tmp_path / "train.csv"
    table = log.frame(40).select(*reversed(COLUMNS)).with_columns(extra=pl.lit("x"))
    path.write_bytes(table.write_csv().strip().replace("\n", end).encode())
    assert same(avazu(path), log.hashed(40))


def test_memory_while_reading_does_not_grow_with_the_file(log, tmp_path):
    path = tmp_path / "train.csv"
    log.write(path, 20_000)

    def peak(rows):
        """Return the most memory of Python and NumPy: text, lists of values, codes."""
        tracemalloc.start()
        read = sum(len(chunk) for chunk in avazu_chunks(path, rows=rows, piece=1 << 18))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert read == rows
        return most

    # The least of three, because other threads may add theirs to one. Rows that are held would
    # add to each, and make it four times as much.
    assert min(peak(20_000) for _ in range(3)) < 2 * min(peak(5_000) for _ in range(3))


def message_of(tmp_path, lines, **options):
    path = tmp_path / "train.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DamagedDatasetError) as caught:
        avazu(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_missing_column_is_named(tmp_path, lines):
    lines[0] = lines[0].replace("click,", "")
    message = message_of(tmp_path, lines)
    assert "; click not found" in message
    assert "train file" in message


def test_an_empty_value_is_named_with_its_row(tmp_path, lines):
    fields = lines[23].split(",")
    fields[COLUMNS.index("app_id")] = ""
    lines[23] = ",".join(fields)
    assert "app_id is empty in row 23" in message_of(tmp_path, lines)
    path = tmp_path / "train.csv"
    assert len(avazu(path, rows=22)) == 22


def test_a_click_that_is_neither_is_named_with_its_row(tmp_path, lines):
    fields = lines[9].split(",")
    fields[1] = "2"
    lines[9] = ",".join(fields)
    assert "received '2' in row 9" in message_of(tmp_path, lines)


def test_files_that_are_no_logs(tmp_path, lines, monkeypatch):
    assert "at least one row" in message_of(tmp_path, lines[:1])
    assert "id, click, hour" in message_of(tmp_path, ["<html>"])
    assert "CSV file of 24 columns" in message_of(tmp_path, [*lines[:2], lines[2] + ",1,2,3"])
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress("\n".join(lines).encode())[:-20])
    with refused("damaged-dataset"):
        avazu(broken)
    with refused("no-dataset", field="path"):
        avazu(tmp_path / "none.csv")
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "nowhere"))
    with refused("no-dataset"):
        avazu()


def test_wrong_arguments_are_refused_at_the_call(log, tmp_path):
    for options in ({"rows": 0}, {"dim": 200}, {"piece": 0}):
        with refused("invalid-argument", field=next(iter(options))):
            avazu_chunks(tmp_path / "train.csv", **options)
    for call in (log.hashed, log.frame):
        with refused("invalid-argument", field="rows"):
            call(0)
        with refused("invalid-argument", field="start"):
            call(1, start=-1)
    with refused("invalid-argument", field="seed"):
        SyntheticAvazu(seed=-1)
