"""What a user sees of files that are not as they should be, and of those that only look so."""

import contextlib
import errno
import gzip
import io
import os
import sys
import tempfile

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from seqbatch.campaign.decide.outcome_columns import OutcomeColumns
from seqbatch.campaign.decide.row_verdicts import UNFIT, readable
from seqbatch.campaign.files import ids, reading
from seqbatch.campaign.files.date_format import ISO, read_dates
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.template import starting_spec
from seqbatch.cli.app import app
from seqbatch.errors import (
    InvalidFileError,
    SeqbatchError,
)
from seqbatch.storage import open_store
from tests.campaign.files import damaged_files
from tests.campaign.instances import created, outcomes, units
from tests.cases import thorough
from tests.refusals import places, refused

HEADER = "id,age,spend,zip,city\n"
GOOD = "a1,30,5,urban,x\n"


@pytest.fixture
def campaign(tmp_path):
    store = open_store(tmp_path / "c.db")
    yield created(store)
    store.close()


def first_wave_spec():
    return """name = "autumn"\nunit = "id"\nactions = ["none", "mail"]
reward = {column = "visit"}\ngrid = {sizes = [9]}\nfeatures = {numeric = {age = "raw"}}\n"""


def refusal(campaign, path):
    before = campaign.status().state
    with pytest.raises(InvalidFileError) as caught:
        campaign.assign(path)
    assert campaign.status().state == before
    assert len(campaign.events()) == 1
    return caught.value


@pytest.mark.parametrize(("text", "problem"), [
    ("", (0, "", "no-columns")),
    ("\n\n", (0, "", "no-columns")),
    (HEADER, (0, "", "no-rows")),
    ("id,age,spend,zip\na,1,2,urban\n", (0, "city", "no-such-column")),
    ("id,age,spend,zip,city,age\n" + "a,1,2,urban,x,3\n", (0, "age", "repeated-column")),
    (HEADER + GOOD + "a2,NaN,5,urban,x\n", (3, "age", "missing")),
    (HEADER + GOOD + "a2,inf,5,urban,x\n", (3, "age", "out-of-range")),
    (HEADER + "a2,1e300,5,urban,x\n", (2, "age", "out-of-range")),
    (HEADER + "a2,thirty,5,urban,x\n", (2, "age", "not-a-number")),
    (HEADER + "a2,,5,urban,x\n", (2, "age", "missing")),
    (HEADER + "a2,1,5,suburban,x\n", (2, "zip", "unknown-level")),
    (HEADER + "a2,1,5,,x\n", (2, "zip", "missing")),
    (HEADER + ",1,5,urban,x\n", (2, "id", "missing")),
    (HEADER + GOOD + "b,1,2,rural,y\n" + GOOD, (4, "id", "repeated")),
    (HEADER + GOOD + "a2,1,5,urban\n", (3, "", "cell-count")),
    (HEADER + "a\0b,1,5,urban,x\n", (2, "id", "nul-character")),
])  # fmt: skip
def test_a_bad_file_names_line_column_and_reason(campaign, tmp_path, text, problem):
    path = tmp_path / "units.csv"
    path.write_text(text, encoding="utf-8", newline="")
    error = refusal(campaign, path)
    assert problem in places(error)
    assert error.problems[0].reason in str(error)


def test_rows_after_a_ragged_one_keep_their_lines(campaign, tmp_path):
    path = tmp_path / "units.csv"
    lines = [GOOD, "a2,1\n", "a3,1,2\n", "a4,x,5,urban,x\n", "a5\n", "a6,1,5,urban,x,y\n",
             "a7,y,5,urban,x\n"]  # fmt: skip
    path.write_text(HEADER + "".join(lines), encoding="utf-8")
    assert places(refusal(campaign, path)) == [
        (3, "", "cell-count"), (4, "", "cell-count"), (5, "age", "not-a-number"),
        (6, "", "cell-count"), (7, "", "cell-count"), (8, "age", "not-a-number"),
    ]  # fmt: skip


def test_all_problems_are_listed_and_twenty_shown(campaign, tmp_path):
    path = tmp_path / "units.csv"
    path.write_text(HEADER + "".join(f"u{n},x,y,nowhere,c\n" for n in range(50)), encoding="utf-8")
    error = refusal(campaign, path)
    assert len(error.problems) == 150
    assert "150 problems; nothing was assigned" in str(error)
    assert "... and 130 more" in str(error)
    assert places(error)[0] == (2, "age", "not-a-number")


def test_files_that_only_look_odd(campaign, tmp_path):
    path = tmp_path / "units.csv"
    rows = ['"new\nline",30,5,urban,x', " 007 ,31,6,rural,y", "7,32,7,urban,z",
            "ünïcode ☃,1,2,rural,w", '"comma, quote""",3,4,urban,x']  # fmt: skip
    text = "\ufeff" + HEADER.strip() + "\r\n" + "\r\n".join(rows) + "\r\n"
    path.write_text(text, encoding="utf-8", newline="")
    result = campaign.assign(path)
    expected = ["new\nline", " 007 ", "7", "ünïcode ☃", 'comma, quote"']
    assert result.table["id"].to_pylist() == expected
    out = tmp_path / "answers.csv"
    campaign.assign(path, out=out)
    assert pl.read_csv(out, infer_schema=False)["id"].to_list() == expected
    again = pl.DataFrame({"id": expected, "visit": [1.0] * 5})
    again.write_csv(tmp_path / "o.csv")
    assert campaign.record(tmp_path / "o.csv").accepted == 5


def test_ten_thousand_columns(campaign, tmp_path):
    wide = tmp_path / "wide.csv"
    extra = [f"extra{n}" for n in range(10_000)]
    line = ",".join(["1"] * 10_000)
    wide.write_text(
        HEADER.strip() + "," + ",".join(extra) + "\n" + GOOD.strip() + "," + line + "\n"
    )
    assert campaign.assign(wide).assigned == 1


def test_ten_thousand_features_are_too_many(tmp_path):
    store = open_store(tmp_path / "c.db")
    numeric = {f"x{n}": "raw" for n in range(10_000)}
    with refused("invalid-spec", field="features"):
        created(store, features={"numeric": numeric})
    assert store.names() == []
    store.close()


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "stream.arrow"])
def test_every_format_gives_the_same_answers(campaign, tmp_path, ending):
    frame, path = units(50), tmp_path / f"units.{ending}"
    if ending == "csv":
        frame.write_csv(path)
    elif ending == "csv.gz":
        with pa.output_stream(path) as file:
            file.write(frame.write_csv().encode())
    elif ending == "parquet":
        frame.write_parquet(path)
    else:
        table = frame.to_arrow().cast(pa.schema([
            ("id", pa.string()), ("age", pa.float64()), ("spend", pa.float64()),
            ("zip", pa.string()), ("city", pa.string())]))  # fmt: skip
        maker = pa.ipc.new_stream if "stream" in ending else pa.ipc.new_file
        with maker(path, table.schema) as writer:
            writer.write_table(table)
    result = campaign.assign(path)
    again = campaign.assign(frame)
    assert again.repeated == 50
    assert result.table.equals(again.table)
    for kind in ("csv", "parquet", "arrow"):
        campaign.assign(path, out=tmp_path / f"out.{kind}")
    read = pl.read_csv(tmp_path / "out.csv", schema_overrides={"id": pl.String, "wave": pl.Int32})
    assert read.equals(pl.from_arrow(result.table))
    assert pa.parquet.read_table(tmp_path / "out.parquet").equals(result.table)
    with pa.ipc.open_file(tmp_path / "out.arrow") as reader:
        assert reader.read_all().equals(result.table)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["urban", "rural"])])
def test_categories_of_a_polars_frame(campaign, kind):
    frame = units(50).with_columns(pl.col("zip").cast(kind))
    answers = campaign.assign(frame).table
    assert campaign.assign(units(50)).table == answers


def test_dictionaries_booleans_and_whole_numbers(campaign):
    table = pa.table({
        "id": pa.array([1, 2, 30]),
        "age": pa.array([1, 2, 3], type=pa.int8()),
        "spend": pa.array([True, False, True]),
        "zip": pa.array(["urban", "rural", "urban"]).dictionary_encode(),
        "city": pa.array([5, 6, 5]),
    })  # fmt: skip
    assert campaign.assign(table).table["id"].to_pylist() == ["1", "2", "30"]


@pytest.mark.parametrize(("column", "values", "problem"), [
    ("id", pa.array([1.5, 2.5]), (1, "id", "wrong-type")),
    ("age", pa.array([[1], [2]]), (1, "age", "wrong-type")),
    ("age", pa.array([1.0, None]), (2, "age", "missing")),
    ("zip", pa.array([1.5, 2.5]), (1, "zip", "wrong-type")),
    ("zip", pa.array(["urban", None]), (2, "zip", "missing")),
])  # fmt: skip
def test_columns_of_the_wrong_type(campaign, column, values, problem):
    frame = units(2).to_arrow()
    place = frame.column_names.index(column)
    error = refusal(campaign, frame.set_column(place, column, values))
    assert problem in places(error)


def test_pipes(campaign, monkeypatch, capfdbinary):
    text = units(5).write_csv().encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    campaign.assign("-", out="-")
    shown = capfdbinary.readouterr().out
    assert shown.count(b"\n") == 6
    assert shown.startswith(b"id,action,wave,score,probability,randomised,p(none)")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_file_name_that_is_not_utf8_is_refused(campaign, tmp_path, ending):
    path = tmp_path / os.fsdecode(b"ao\xc3\xbbt\xff." + ending.encode())
    path.write_bytes(units(3).write_csv().encode())
    spec = tmp_path / os.fsdecode(b"spec\xff.toml")
    spec.write_text(first_wave_spec(), encoding="utf-8")
    for call in (
        lambda: campaign.assign(path),
        lambda: campaign.assign(str(path), out=tmp_path / os.fsdecode(b"out\xff.csv")),
        lambda: campaign.record(path),
        lambda: starting_spec(path),
    ):
        with refused("invalid-rows", problem="file-name", match="août[?]") as caught:
            call()
        assert str(caught.value).encode()
    for words in (["init", path], ["validate", spec, path], ["assign", "spring", path, "--draw"],
                  ["record", "spring", path], ["validate", path]):  # fmt: skip
        given = ["campaign", *map(str, words), "--store", str(tmp_path / "c.db")]
        given = given[:-2] if words[0] in ("init", "validate") else given
        result = CliRunner().invoke(app, given, catch_exceptions=False)
        assert result.exit_code == 2, result.output
    assert len(campaign.events()) == 1


def test_an_unknown_ending_of_a_name_that_is_not_utf8(campaign, tmp_path):
    with refused("invalid-argument", field="file", received="u?.doc"):
        campaign.assign(tmp_path / os.fsdecode(b"u\xff.doc"))


class Endless(io.RawIOBase):
    """A pipe that never ends, or whose disk is full after a while."""

    def __init__(self, full_after=None):
        self.left, self.read_so_far = full_after, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        if self.left is not None and self.read_so_far > self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.read_so_far += len(buffer)
        buffer[:] = (b"7,7,7,7\n" * (len(buffer) // 8 + 1))[: len(buffer)]
        return len(buffer)


def test_an_endless_pipe_is_refused_and_its_copy_removed(campaign, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(reading, "MOST_PIPED", 3_000_000)
    given = Endless(full_after=50_000_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
    before = set(tmp_path.iterdir())
    with refused("invalid-rows", problem="too-large", match=r"standard input.*\n.*3,000,000 bytes"):
        campaign.assign("-")
    assert given.read_so_far < 8_000_000
    assert set(tmp_path.iterdir()) == before


def test_a_pipe_that_cannot_be_copied_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Endless(full_after=3_000_000)))
    before = set(tmp_path.iterdir())
    source = Source("-")
    with pytest.raises(OSError, match="No space left"):
        source.__enter__()
    assert set(tmp_path.iterdir()) == before


def test_a_pipe_may_be_as_long_as_allowed(monkeypatch):
    monkeypatch.setattr(reading, "MOST_PIPED", 8)
    for text, taken in ((b"id\n1234\n", True), (b"id\n12345\n", False)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        found = contextlib.nullcontext() if taken else refused("invalid-rows", problem="too-large")
        with found, Source("-") as source:
            assert source.columns() == ["id"]


def test_files_that_cannot_be(campaign, tmp_path):
    assert places(refusal(campaign, tmp_path / "none.csv")) == [(0, "", "no-such-file")]
    with refused("invalid-argument", field="file"):
        campaign.assign(tmp_path / "units.ods")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 not really")
    assert places(refusal(campaign, broken)) == [(0, "", "unreadable")]
    mixed = tmp_path / "mixed.csv"
    mixed.write_bytes(HEADER.encode() + "é,1,2,urban,ö\n".encode() + b"\xe9,1,2,urban,x\n")
    assert "cannot be read as csv: it is UTF-8 except for 1 bytes" in str(refusal(campaign, mixed))


def test_an_unseen_category_may_be_another_level(tmp_path):
    store = open_store(tmp_path / "c.db")
    campaign = created(store, on_unseen_category="other", grid={"sizes": [3, 3]})
    frame = units(3).with_columns(zip=pl.Series(["urban", "moon", "sun"]))
    table = campaign.assign(frame).table
    assert "zip=other" in campaign.situation().encoder().names
    campaign.record(outcomes(table))
    campaign.close()
    assert campaign.verify().sound
    store.close()


def test_another_level_is_none_for_a_column_of_the_wrong_type(tmp_path):
    store = open_store(tmp_path / "c.db")
    campaign = created(store, on_unseen_category="other", grid={"sizes": [3, 3]})
    frame = units(3).with_columns(zip=pl.Series([1.5, 2.5, 3.5]))
    with refused("invalid-rows", row=1, column="zip", problem="wrong-type"):
        campaign.assign(frame)
    store.close()


def test_a_level_may_be_called_other(tmp_path):
    store = open_store(tmp_path / "c.db")
    categorical = {"zip": ["urban", "other"]}
    campaign = created(store, on_unseen_category="other", features={"categorical": categorical})
    assert campaign.situation().encoder().names == ("intercept", "zip=urban", "zip=other")
    frame = units(3).with_columns(zip=pl.Series(["other", "moon", "sun"]))
    campaign.assign(frame)
    assert campaign.verify().sound
    store.close()


def test_constant_and_collinear_columns_work_and_are_said(tmp_path):
    store = open_store(tmp_path / "c.db")
    numbers = {"age": "learn", "twin": "learn", "spend": "learn"}
    campaign = created(store, features={"numeric": numbers}, policy={"kind": "SBPE"})
    for start, count in ((0, 300), (300, 200)):
        frame = units(count, start=start).with_columns(spend=pl.lit(0.1), twin=pl.col("age") * 2)
        campaign.record(outcomes(campaign.assign(frame).table))
        campaign.close()
    notes = " ".join(campaign.status().notes)
    assert "column spend was constant in the first wave" in notes
    assert "of none, mail, call (rank 2 of 3)" in notes
    assert campaign.verify().sound
    last = {row.action: row.units for row in campaign.status().actions if row.wave == 2}
    assert last["call"] > 120
    store.close()


def test_a_failed_write_leaves_the_old_file(campaign, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    with pytest.raises(InvalidFileError):
        campaign.assign(pl.DataFrame({"id": ["a"]}), out=out, force=True)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_a_pipe_gets_nothing_where_nothing_was_assigned(campaign, monkeypatch, capfdbinary):
    monkeypatch.setattr(reading, "CHUNK", 256)
    with refused("too-many-units"):
        campaign.assign(units(310), out="-")
    assert capfdbinary.readouterr().out == b""


def test_a_compressed_file_repeats_byte_for_byte(campaign, tmp_path):
    campaign.assign(units(5), out=tmp_path / "a.csv")
    for name in ("b.csv.gz", "c.csv.gz"):
        campaign.assign(units(5), out=tmp_path / name)
    packed = (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "a.csv").read_bytes()
    assert packed == (tmp_path / "c.csv.gz").read_bytes()


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_file_about_nobody_has_its_columns(campaign, tmp_path, kind):
    out = tmp_path / f"out.{kind}"

    def columns():
        with Source(out) as opened:
            assert sum(batch.num_rows for batch in opened.batches(opened.columns())) == 0
            return opened.columns()

    for what in ("held", "outcomes"):
        assert campaign.export(out, what=what, force=True) == 0
        assert columns() == ["event", "line", "id", "visit", "version", "verdict", "reason"]
    assert campaign.export(out, force=True) == 0
    empty = columns()
    campaign.assign(units(300))
    campaign.export(out, force=True)
    with Source(out) as opened:
        assert opened.columns() == empty
    late = units(2, start=400)
    rest = tmp_path / "rest.csv"
    result = campaign.assign(late, partial=True, out=out, rest=rest, force=True)
    assert (result.assigned, result.left_over) == (0, 2)
    assert columns() == empty[:9]
    assert campaign.assign(late, partial=True).table.column_names == empty[:9]


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_the_rest_keeps_its_columns_and_its_own_format(campaign, tmp_path, kind):
    frame = units(310).with_columns(note=pl.col("id") + " ☃", day=pl.date(2024, 1, 2))
    rest = tmp_path / f"rest.{kind}"
    result = campaign.assign(
        frame, partial=True, out=tmp_path / "o", rest=rest, out_format="parquet"
    )
    assert result.left_over == 10
    with Source(rest) as opened:
        assert opened.columns() == frame.columns
        left = pa.Table.from_batches(opened.batches(["id", "note"]))
    assert left.to_pydict() == frame[300:].select("id", "note").to_dict(as_series=False)
    assert campaign.assign(rest, partial=True).left_over == 10


def test_a_column_of_lists_is_no_csv(campaign, tmp_path):
    frame = units(310).with_columns(many=pl.lit([1, 2]))
    with refused("invalid-argument", field="file"):
        campaign.assign(frame, partial=True, rest=tmp_path / "rest.csv")
    assert len(campaign.events()) == 1


def test_no_file_is_written_over_another(campaign, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    units(5).write_csv("units.csv")
    before = (tmp_path / "units.csv").read_bytes()
    for out, rest in (
        ("a.csv", tmp_path / "a.csv"), ("./units.csv", None), ("a.csv", "units.csv"), ("-", "-"),
    ):  # fmt: skip
        with refused("invalid-argument"):
            campaign.assign("units.csv", out=out, partial=True, rest=rest)
    assert (tmp_path / "units.csv").read_bytes() == before
    assert len(campaign.events()) == 1


def of_every_type():
    """Tables of units in which one column after another has one type after another."""
    frame = units(damaged_files.ROWS).to_arrow()
    for column in damaged_files.COLUMNS:
        for place, name in enumerate(frame.column_names):
            yield frame.set_column(place, name, column)


@pytest.mark.parametrize("part", [0, *thorough(1, 2, 3)])
def test_every_arrow_type_is_read_or_refused(tmp_path, part):
    store = open_store(tmp_path / "c.db")
    features = {"numeric": {"age": "raw"}, "categorical": {"zip": {"hash": 4}},
                "date": {"city": {"format": "iso", "parts": ["month"]}},
                "boolean": {"spend": "level"}}  # fmt: skip
    campaign = created(store, features=features, grid={"calendar": True, "waves": 2, "units": 99})
    for place, table in [*enumerate(of_every_type())][part::4]:
        # The others are features like the second.
        if place % len(table.column_names) < 2:
            with contextlib.suppress(SeqbatchError):
                starting_spec(table)
        with contextlib.suppress(SeqbatchError):
            campaign.assign(table)
    for column in damaged_files.COLUMNS:
        ids = pa.array([f"{n:06d}" for n in range(len(column))])
        for rows in ({"id": ids, "visit": column}, {"id": column, "visit": ids}):
            with contextlib.suppress(SeqbatchError):
                campaign.record(pa.table(rows))
    assert campaign.verify().sound
    store.close()


def test_a_day_with_a_time_of_day_is_that_day(tmp_path):
    day = 86_400_000
    cells = pa.array([19_000 * day + 1, -1, None, 19_001 * day], pa.int64()).view(pa.date64())
    table = pa.table({"id": ["a", "b", "c", "d"], "day": cells})
    with pa.ipc.new_file(tmp_path / "u.arrow", table.schema) as file:
        file.write_table(table)
    for given in (table, tmp_path / "u.arrow"):
        with Source(given) as source:
            [piece] = source.batches(["id", "day"])
        days, missing, wrong = read_dates(piece.column("day"), form=ISO)
        assert [str(each) for each in days] == ["2022-01-08", "1969-12-31", "None", "2022-01-09"]
        assert missing.tolist() == [False, False, True, False]
        assert not wrong


def test_an_unknown_timezone_is_refused():
    times = pa.array([0], pa.int64()).cast(pa.timestamp("s", tz="Mars/Olympus"))
    with (
        Source(pa.table({"t": times})) as source,
        refused("invalid-rows", field="t", match="Mars/Olympus"),
    ):
        list(source.batches(["t"]))


def test_a_first_spec_of_dates_beyond_the_calendar():
    table = pa.table(
        {"id": ["a", "b"], "day": pa.array([2**30, 19_000], pa.int32()).cast(pa.date32())}
    )
    assert "9999-12-31" in starting_spec(table)


#: Days after 1970: the first and the last that are allowed, and days that are not.
ALLOWED, BEYOND = (-719_162, 2_932_896), (-719_163, 2_932_897, 2**31 - 1, -(2**31))


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_ids_that_are_dates_beyond_the_calendar_are_refused(campaign, kind):
    def dated(days):
        numbers = np.array(days) * (1 if kind == pa.date32() else 86_400_000)
        column = pa.array(numbers.astype(f"i{kind.bit_width // 8}")).view(kind)
        return units(len(days)).to_arrow().set_column(0, "id", column)

    for day in BEYOND:
        error = refusal(campaign, dated([0, day]))
        assert places(error) == [(2, "id", "out-of-range")]
        table = pa.table({"id": dated([day])["id"], "visit": [1.0]})
        with Source(table) as source:
            spec = campaign.situation().spec
            columns = OutcomeColumns.of(spec, source)
            judged = readable(spec, columns, next(source.batches(["id", "visit"])))
        assert judged.verdicts.tolist() == [UNFIT]
    for column in ("city", "zip"):
        place = units(1).columns.index(column)
        wrong = units(1).to_arrow().set_column(place, column, dated(BEYOND[:1])["id"])
        assert (1, column, "out-of-range") in places(refusal(campaign, wrong))
    ids = campaign.assign(dated(ALLOWED)).table["id"].to_pylist()
    assert ids == ["0001-01-01", "9999-12-31"]


TIMES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "UTC")]


@pytest.mark.parametrize("kind", [pa.date64(), *TIMES], ids=str)
def test_days_beyond_the_calendar_are_no_other_days(kind):
    # Arrow takes days modulo 2**32: the third would be a day of 2022.
    unit = {"s": 1, "us": 10**6}.get(getattr(kind, "unit", "ms"), 1_000) * 86_400
    days = [2**62 // unit, -(2**62) // unit, min((2**32 + 19_000), 2**62 // unit), 19_000]
    column = pa.array([day * unit for day in days]).view(kind)
    read, missing, wrong = read_dates(column, form=ISO)
    assert sorted(wrong) == [0, 1, 2]
    assert not missing.any()
    assert str(read[3]) == "2022-01-08"
    assert "day" in starting_spec(pa.table({"id": ["a", "b", "c", "d"], "day": column}))


def test_only_some_of_very_many_repeated_ids_are_listed(campaign, tmp_path, monkeypatch):
    monkeypatch.setattr(ids, "LISTED", 3)
    path = tmp_path / "u.csv"
    # Empty lines: rows and lines differ.
    path.write_text(HEADER + "".join(f"u{n % 4},30,5,urban,x\n\n" for n in range(40)))
    error = refusal(campaign, path)
    assert places(error) == [(line, "id", "repeated") for line in (10, 12, 14, 16)]
    reasons = [each.reason for each in error.problems]
    assert reasons[:3] == [f"repeats the id 'u{n}' of line {2 + 2 * n}" for n in range(3)]
    assert reasons[3] == "is the first of 33 more rows that repeat an id"


def test_a_file_of_repeated_ids_is_refused_at_once(campaign):
    looked_up = []
    frame = units(1)
    table = pl.concat([frame] * 200_000).with_columns(age=30.0)
    with Source(table) as source:
        lines, source.lines = source.lines, lambda rows: looked_up.append(len(rows)) or lines(rows)
        error = refusal(campaign, source)
    assert len(error.problems) == ids.LISTED + 1
    assert sum(looked_up) < 3 * ids.LISTED
    assert "198,999 more rows" in error.problems[-1].reason


@pytest.mark.parametrize("scale", [-100, -76, 77, 1_000])
def test_decimals_that_python_does_not_have_are_refused(tmp_path, scale):
    cell = (12_345).to_bytes(16, "little")
    kind = pa.decimal128(5, scale)
    column = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(cell)])
    _, _, wrong = read_dates(column, form=ISO)
    assert [reason.code for reason in wrong.values()] == ["wrong-type"]
    store = open_store(tmp_path / "c.db")
    features = {"numeric": {"age": "raw"}, "date": {"spend": {"format": "iso", "parts": ["month"]}},
                "boolean": {"zip": "level"}, "categorical": {"city": {"hash": 4}}}  # fmt: skip
    campaign = created(store, features=features)
    for place, name in enumerate(units(1).columns):
        table = units(1).to_arrow().set_column(place, name, column)
        with contextlib.suppress(SeqbatchError):
            campaign.assign(table)
        with contextlib.suppress(SeqbatchError):
            starting_spec(table)
    with contextlib.suppress(SeqbatchError):
        campaign.record(pa.table({"id": ["a"], "visit": column}))
    store.close()
