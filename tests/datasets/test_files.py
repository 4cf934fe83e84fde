"""Files are found where they should be, checked once, and refused when they are wrong."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from seqbatch.datasets import DamagedDatasetError, MissingDatasetError, files
from seqbatch.errors import SeqbatchError
from tests.refusals import refused

CONTENT = b"some,data\n1,2\n"
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))
    monkeypatch.setitem(files.PUBLIC_FILES, "toy", files.PublicFile("toy.csv", SHA))
    return tmp_path


def test_plain_and_compressed_files_are_found_and_checked(folder):
    packed = folder / "toy.csv.gz"
    packed.write_bytes(gzip.compress(CONTENT))
    assert files.public("toy") == packed
    plain = folder / "toy.csv"
    plain.write_bytes(CONTENT)
    assert files.public("toy") == plain


def test_a_missing_file_says_what_to_do(folder):
    with pytest.raises(MissingDatasetError) as caught:
        files.public("toy")
    for part in ("toy.csv", "toy.csv.gz", SHA, str(folder), "export SEQBATCH_DATA="):
        assert part in str(caught.value)
    assert isinstance(caught.value, SeqbatchError)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_wrong_checksum_says_expected_and_found(folder):
    (folder / "toy.csv").write_bytes(CONTENT + b"3,4\n")
    with pytest.raises(DamagedDatasetError) as caught:
        files.public("toy")
    assert SHA in str(caught.value)
    assert hashlib.sha256(CONTENT + b"3,4\n").hexdigest() in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("harm", [lambda b: b[:-9], lambda b: b[:12] + b"\xff" * (len(b) - 12)])
def test_a_broken_gzip_file_is_damaged(folder, harm):
    (folder / "toy.csv.gz").write_bytes(harm(gzip.compress(CONTENT)))
    with refused("damaged-dataset"):
        files.public("toy")


def test_an_unchanged_file_is_hashed_once_and_a_changed_one_again(folder, monkeypatch):
    path = folder / "toy.csv"
    path.write_bytes(CONTENT)
    reads = []
    opened = files.opened
    monkeypatch.setattr(files, "opened", lambda p: reads.append(p) or opened(p))
    files.public("toy")
    files.public("toy")
    assert reads == [path]
    path.write_bytes(CONTENT.replace(b"1", b"9"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(DamagedDatasetError):
        files.public("toy")
    assert reads == [path, path]


def test_without_the_variable_data_is_looked_in_and_no_other_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(files.VARIABLE, raising=False)
    here = tmp_path / "work"
    (here / "data").mkdir(parents=True)
    monkeypatch.chdir(here)
    beside = tmp_path / "shared" / "data"
    beside.mkdir(parents=True)
    (beside / "toy.csv").write_bytes(b"not this one")
    with pytest.raises(files.MissingDatasetError):
        files.find(["toy.csv"])
    (here / "data" / "toy.csv").write_bytes(b"this one")
    assert files.find(["toy.csv"]) == Path("data") / "toy.csv"
