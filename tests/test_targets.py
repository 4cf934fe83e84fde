"""Which files may be written: nothing that is worth keeping is ever written over."""

import os
import socket
from pathlib import Path

import pytest

from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically, require_target


def refused(path, match, **options):
    with pytest.raises(InvalidArgumentError, match=match):
        require_target(path, **options)


def test_a_new_file_may_be_written(tmp_path):
    assert require_target(tmp_path / "new.csv", endings=(".csv",)) == tmp_path / "new.csv"
    refused(tmp_path / "no" / "new.csv", "in a folder that exists.*Create .*no first")
    for impossible in ("a\0b", "a\ud800b"):
        refused(impossible, "a valid file name")


def test_a_plain_file_is_overwritten_by_force_alone(tmp_path):
    file = tmp_path / "old.csv"
    file.write_text("old")
    refused(file, r"out must be a new file; received .*old\.csv, which exists")
    assert require_target(file, force=True) == file


def test_what_is_no_plain_file_is_never_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        for path in (os.devnull, "fifo", "socket"):
            refused(path, "a regular file.*a device, pipe or socket", force=True)
    refused(tmp_path, "must be a file.*a folder", force=True)


@pytest.mark.parametrize("name", ["page.png", "page", "page.html.txt", ".htm.csv"])
def test_another_ending_is_another_kind(tmp_path, name):
    refused(tmp_path / name, r"a \.html or \.htm file", force=True, endings=(".html", ".htm"))
    require_target(tmp_path / "PAGE.HTML", endings=(".html", ".htm"))


def test_a_file_is_known_by_any_of_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kept.db").write_text("x")
    Path("soft.db").symlink_to("kept.db")
    Path("hard.db").hardlink_to("kept.db")
    for name in ("kept.db", "./kept.db", "../" + tmp_path.name + "/kept.db", "soft.db", "hard.db"):
        refused(name, "a file other than the store", force=True,
                apart_from={"the store": [tmp_path / "kept.db"]})  # fmt: skip
    # One that is not there yet, too.
    refused("kept.db-wal", "the store", apart_from={"the store": [tmp_path / "kept.db-wal"]})


def test_a_link_stands_for_its_file(tmp_path):
    file, link = tmp_path / "file.csv", tmp_path / "link.csv"
    file.write_text("old")
    link.symlink_to(file)
    refused(link, "a new file")
    (tmp_path / "null").symlink_to(os.devnull)
    refused(tmp_path / "null", "a regular file", force=True)
    with atomically(require_target(link, force=True)) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert file.read_text() == "new"
