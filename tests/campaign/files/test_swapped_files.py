"""A file that is replaced or written to while it is read."""

import os

import polars as pl
import pytest

from seqbatch.campaign.files.reading import Source
from tests.campaign.instances import created, outcomes, units
from tests.refusals import refused

FIRST = units(200)
# Other units, a value that no check would pass, and a level that nobody declared.
OTHER = units(200, start=5_000).with_columns(
    age=pl.when(pl.int_range(pl.len()) == 3).then(float("nan")).otherwise(pl.col("age")),
    zip=pl.lit("nowhere"),
)


def write(frame, path):
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


def replaced(path):
    """Put another file in its place, as an export job does."""
    new = path.with_suffix(".new" + path.suffix)
    write(OTHER, new)
    new.replace(path)


def overwritten(path):
    """Write over the file itself, leaving its times as they were."""
    before = path.stat()
    write(OTHER, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swapping(path, swap, when):
    done = []

    def report(doing, _rows):
        if doing == when and not done:
            done.append(doing)
            swap(path)

    return report


@pytest.fixture
def campaign(store):
    return created(store)


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path):
    made = tmp_path / f"units.{request.param}"
    write(FIRST, made)
    return made


@pytest.mark.parametrize("when", ["checking", "assigning"])
@pytest.mark.parametrize("swap", [replaced, overwritten])
def test_a_file_that_changes_while_it_is_read_is_refused(campaign, path, tmp_path, swap, when):
    out = tmp_path / "out.csv"
    with refused("invalid-rows", problem="changed"):
        campaign.assign(path, out=out, report=swapping(path, swap, when))
    assert not out.exists()
    assert len(campaign.events()) == 1
    assert campaign.verify().sound
    write(FIRST, path)
    assert campaign.assign(path, out=out).assigned == 200


@pytest.mark.parametrize("when", ["checking", "assigning"])
def test_what_is_decided_on_is_what_was_checked(campaign, path, monkeypatch, when):
    """Also where the change cannot be seen from outside, nothing unchecked is ever stored."""
    monkeypatch.setattr(Source, "require_unchanged", lambda _: None)
    table = campaign.assign(path, report=swapping(path, replaced, when)).table
    assert table["id"].to_pylist() == FIRST["id"].to_list()
    assert campaign.verify().sound


def test_a_file_that_is_gone_is_refused(campaign, path):
    with refused("invalid-rows", problem="changed"):
        campaign.assign(path, report=swapping(path, os.unlink, "assigning"))
    assert campaign.verify().sound


@pytest.mark.parametrize("when", ["checking", "recording"])
def test_outcomes_that_change_while_they_are_read_are_refused(campaign, tmp_path, when):
    rows = outcomes(campaign.assign(FIRST).table)
    path = tmp_path / "outcomes.csv"
    rows.write_csv(path)

    def more(path):
        with path.open("a") as file:
            file.write("000001,3\n")

    with refused("invalid-rows", problem="changed"):
        campaign.record(path, report=swapping(path, more, when))
    assert [event.kind for event in campaign.events()] == ["create", "assign"]
    with refused("several-rows"):
        campaign.record(path)
