"""A file is the old one or the new one, and nothing else is left in its folder."""

import os
import subprocess
import sys

import pytest

from seqbatch.output_files import atomically


def test_the_new_file_takes_the_place_of_the_old_one(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    with atomically(target) as partial:
        partial.write_text("new")
        assert partial.parent == tmp_path
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def _interrupted(target):
    with atomically(target) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("target", ["file", "missing"])
def test_a_block_that_fails_changes_nothing(tmp_path, target):
    (tmp_path / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path / target)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_disk_that_fails_changes_nothing(tmp_path, monkeypatch):
    target = tmp_path / "file"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"), atomically(target) as partial:
        partial.write_text("new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["none/x.csv", "x" * 250])
def test_the_error_names_what_was_asked_for(tmp_path, monkeypatch, name):
    # A folder that is not there, and a name whose partial file has too long a one.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="cannot be written") as error, atomically(name) as partial:
        partial.write_text("")
    assert error.value.filename == name
    assert ".partial" not in str(error.value)


def test_what_a_killed_process_left_is_swept(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    target = tmp_path / "out.csv"
    left = [tmp_path / f"out.csv.{dead.pid}-1.partial", tmp_path / f"out.csv.{10**12}-1.partial"]
    kept = [tmp_path / f"out.csv.{os.getpid()}-9.partial", tmp_path / f"x.csv.{dead.pid}-1.partial"]
    for path in (*left, *kept):
        path.write_text("half")
    with atomically(target) as partial:
        partial.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([target, *kept])


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    target = tmp_path / "key.json"
    for mode in (0o600, 0o640, 0o444):
        target.unlink(missing_ok=True)
        target.write_text("old")
        target.chmod(mode)
        with atomically(target) as partial:
            partial.write_text("new")
            # Others cannot read it while it is written.
            assert partial.stat().st_mode & 0o777 == 0o600
        assert target.stat().st_mode & 0o777 == mode
        assert target.read_text() == "new"


def test_the_folder_is_synced_after_the_rename(tmp_path, monkeypatch):
    target, synced = tmp_path / "file", []
    monkeypatch.setattr(
        "seqbatch.output_files.sync", lambda path: synced.append((path, target.exists()))
    )
    with atomically(target) as partial:
        partial.write_text("new")
    assert synced == [(partial, False), (tmp_path, True)]
