"""Small files and specs that ask for too much, and single rows that could stop a campaign."""

import contextlib
import gzip
import re
import sqlite3
import struct
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.campaign.files import unpacked_size
from seqbatch.campaign.record.codec import pack, unpack
from seqbatch.campaign.spec import input_limits
from seqbatch.campaign.spec.toml import check_spec, read_spec
from seqbatch.campaign.steps.create import prepare
from seqbatch.cli.app import app
from seqbatch.errors import (
    InvalidFileError,
    SeqbatchError,
    StoreError,
)
from seqbatch.policies import registry
from seqbatch.storage import open_store
from tests.campaign.fuzzing import Examiner
from tests.campaign.instances import created, outcomes, units
from tests.campaign.specs import about
from tests.refusals import refused

ROOT = Path(__file__).parents[3]
LONG = "x" * 1_000_000
PLAIN = {"name": "s", "unit": "id", "actions": ["a", "b"], **about("y"),
         "grid": {"sizes": [10, 10]}}  # fmt: skip


@pytest.fixture
def campaign(tmp_path):
    store = open_store(tmp_path / "c.db")
    yield created(store)
    store.close()


def arrow(table, path, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table)


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """A process that makes calls, and is watched: what it holds is not the tests' own."""
    made = Examiner(tmp_path_factory.mktemp("apart"))
    yield made
    made.close()


@pytest.mark.slow
def test_an_arrow_file_that_points_past_its_end(tmp_path, apart):
    table = units(20).to_arrow().cast(pa.schema([
        ("id", pa.string()), ("age", pa.float64()), ("spend", pa.float64()), ("zip", pa.string()),
        ("city", pa.string())]))  # fmt: skip
    path = tmp_path / "u.arrow"
    arrow(table, path)
    content, offsets = path.read_bytes(), struct.pack("<3i", 0, 6, 12)
    for offset in (300, 2**30):
        path.write_bytes(content.replace(offsets, struct.pack("<3i", 0, 6, offset), 1))
        assert path.read_bytes() != content
        for call in ("assign", "init"):
            assert "cannot be read as arrow" in apart.ask(call, path)["refused"]


def test_a_table_in_memory_is_validated_too(campaign):
    sink = pa.BufferOutputStream()
    ids = pa.table({"id": ["abcdef", "ghijkl"]})
    with pa.ipc.new_stream(sink, ids.schema) as file:
        file.write_table(ids)
    content = sink.getvalue().to_pybytes()
    damaged = content.replace(struct.pack("<3i", 0, 6, 12), struct.pack("<3i", 0, 6, 300))
    column = pa.ipc.open_stream(damaged).read_all()["id"]
    table = units(2).to_arrow().set_column(0, "id", column)
    with refused("invalid-rows", problem="unreadable"):
        campaign.assign(table)


def test_a_stored_table_is_validated():
    content = pack(pa.table({"id": ["abc", "defg"]}))
    assert unpack(content)["id"].to_pylist() == ["abc", "defg"]
    for place in range(len(content)):
        for value in (0, 1, 0x40, 0xFF):
            damaged = content[:place] + bytes([value]) + content[place + 1 :]
            try:
                unpack(damaged).to_pylist()
            except StoreError:
                continue


def spelled_once(rows, text):
    """A column of text that a Parquet file spells once."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [text])


def bomb(name, path):
    rows = 65_536
    ids = pa.array([f"{n}" for n in range(rows)])
    table = pa.table({"id": ids, "age": np.ones(rows), "spend": np.ones(rows),
                      "zip": pa.array(["urban"] * rows), "city": spelled_once(rows, LONG),
                      })  # fmt: skip
    if name == "a text spelled once":
        pa.parquet.write_table(table, path)
    elif name == "ids spelled once":
        pa.parquet.write_table(table.set_column(0, "id", spelled_once(rows, LONG)), path)
    elif name == "a batch of zeros":
        zeros = pa.table({name: np.zeros(30_000_000) for name in units(1).columns})
        arrow(zeros, path, compression="zstd")
    elif name == "ragged rows":
        path.write_bytes(gzip.compress(b"id,age,spend,zip,city\n" + b"a\n" * 15_000_000))
    elif name == "one long row":
        path.write_bytes(gzip.compress(b"id,age,spend,zip,city\n" + b"a" * 300_000_000))
    elif name == "very many columns":
        path.write_bytes(gzip.compress(b"a," * 2_000_000 + b"\n1\n"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ending", "reason"), [
    ("a text spelled once", "parquet", "at most"),
    ("ids spelled once", "parquet", "at most"),
    ("ragged rows", "csv.gz", "more than 100,000 rows do not have as many cells"),
    ("one long row", "csv.gz", "header must|a row must have fewer than|field larger"),
    ("very many columns", "csv.gz", "at most 20,000 columns"),
    ("a batch of zeros", "arrow", "must unpack to at most"),
])  # fmt: skip
def test_a_bomb_is_refused_in_little_memory(tmp_path, apart, name, ending, reason):
    path = tmp_path / f"bomb.{ending}"
    bomb(name, path)
    assert path.stat().st_size < 500_000
    for call in ("assign", "init"):
        answer = apart.ask(call, path)
        assert re.search(reason, answer["refused"]), answer["refused"]
        assert answer["memory"] < 1 << 20


def test_ragged_rows_of_outcomes_are_kept_in_one_record(campaign, tmp_path):
    path = tmp_path / "o.csv"
    path.write_text("id,visit\n" + "a\n" * 500)
    campaign.assign(units(10))
    result = campaign.record(path)
    assert (result.quarantined, len(result.held)) == (500, 20)
    with campaign.store.read("spring") as reader:
        assert len(list(reader.outcome_chunks())) == 1


def test_more_rows_than_there_may_be_are_refused(campaign, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked_size, "MOST_ROWS", 1_000)
    frame = units(1_001)
    frame.write_parquet(tmp_path / "u.parquet")
    frame.write_csv(tmp_path / "u.csv")
    for given_ in (frame, tmp_path / "u.parquet", tmp_path / "u.csv"):
        with refused("invalid-rows", problem="too-many-rows"):
            campaign.assign(given_)


def test_long_cells_and_ids_are_named(campaign):
    frame = units(3)
    long = frame.with_columns(city=pl.Series(["a", "x" * 10_001, "b"]))
    with refused("invalid-rows", row=2, column="city", problem="too-long"):
        campaign.assign(long)
    long = frame.with_columns(id=pl.Series(["a", "é" * 501, "b"]))
    with refused("invalid-rows", row=2, column="id", problem="too-long"):
        campaign.assign(long)


def test_a_long_id_is_refused_by_both_stores(store):
    campaign = created(store, **about("visit", row_id="key"))
    with refused("invalid-rows", row=1, column="id", problem="too-long"):
        campaign.assign(units(1).with_columns(id=pl.lit("x" * 2_800)))
    campaign.assign(units(1).with_columns(id=pl.lit("x" * 1_000)))
    rows = pl.DataFrame({"id": ["x" * 1_000] * 2, "visit": [1.0, 1.0], "key": ["k" * 2_800, "a\0"]})
    result = campaign.record(rows)
    assert result.quarantined == 2
    assert "key must have at most 1,000 bytes" in result.held[0][3]


@pytest.mark.parametrize(("changes", "field"), [
    ({"grid": {"sizes": [10**30]}}, "grid.sizes.0"),
    ({"grid": {"sizes": [4 * 10**9, 1]}}, "grid.sizes"),
    ({"grid": {"sizes": [1] * 10_001}}, "grid.sizes"),
    ({"grid": {"calendar": True, "waves": 10**7, "units": 10**8}}, "grid.waves"),
    ({"grid": {"plan": {"units": 10**30}}}, "grid.plan.units"),
    ({"grid": {"plan": {"units": 1000, "batches": 500}}}, "grid.plan.batches"),
    ({"policy": {"kind": "ThompsonSampling", "samples": 10**9}}, "features"),
    ({"policy": {"kind": "ThompsonSampling", "samples": 1e9}}, "policy.samples"),
    ({"actions": [f"a{n}" for n in range(1_001)]}, "actions"),
    ({"features": {"categorical": {"c": [str(n) for n in range(10_001)]}}},
     "features.categorical.c.levels"),
    ({"features": {"categorical": {"c": {"hash": 4096}, "d": {"hash": 4096}},
                   "interactions": [["c", "d"]]}}, "features"),
    ({"features": {"numeric": {"x": {"mean": 1e31, "sd": 1}}}}, "features.numeric.x.scale.mean"),
])  # fmt: skip
def test_a_spec_that_asks_for_too_much(changes, field):
    with refused("invalid-spec", field=field):
        prepare({**PLAIN, **changes})


@pytest.mark.parametrize(("changes", "field"), [
    ({"randomised": True}, "randomised"),
    ({"floor": False}, "floor"),
    ({"required_outcomes": True}, "required_outcomes"),
    ({"seed": True}, "seed"),
    ({"grid": {"sizes": [True, 2]}}, "grid.sizes.0"),
    ({"grid": {"calendar": True, "waves": True, "units": 9}}, "grid.waves"),
    ({"grid": {"calendar": True, "waves": 2, "units": True}}, "grid.units"),
    (about("y", range=[False, True]), "metrics.y.range.0"),
    ({"features": {"numeric": {"x": {"mean": True, "sd": 1}}}}, "features.numeric.x.scale.mean"),
    ({"features": {"numeric": {"x": {"mean": 1, "sd": True}}}}, "features.numeric.x.scale.sd"),
    ({"features": {"categorical": {"x": {"hash": True}}}}, "features.categorical.x.hash"),
    ({"model": "shared", "actions": [{"name": "a", "features": {"p": True}},
                                     {"name": "b", "features": {"p": 2}}]},
     "actions.0.features.p"),
])  # fmt: skip
def test_a_boolean_is_no_number(changes, field):
    with refused("invalid-spec", field=field):
        check_spec({**PLAIN, **changes})


@pytest.mark.parametrize("text", [
    "x = " + "[" * 100_000, "x = " + "{a = " * 100_000, "x" + ".a" * 100_000 + " = 1",
    "[x" + ".a" * 100_000 + "]\n" + "".join(f"k{n} = 1\n" for n in range(50_000)),
    'x = """, "\n" """, {' + "a." * 100_000 + "a = 1}]",
    "x = [" + "[" * 20 + "]" * 21,
])  # fmt: skip
def test_deep_toml_is_refused_at_once(tmp_path, text):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with refused("too-deep"):
        read_spec(path)


@pytest.mark.slow
def test_a_long_spec_and_one_of_very_many_problems(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("#" * 1_000_001)
    with refused("too-long"):
        read_spec(path)
    path.write_text("".join(f"k{n} = 1\n" for n in range(60_000)))
    with refused("invalid-spec", field="name"):
        read_spec(path)


def test_an_amendment_keeps_the_limits(campaign):
    for changes, field in (
        ({"sizes": [1] * 10_001}, "sizes"), ({"sizes": [4 * 10**9, 1]}, "units"),
        ({"units": 10**30}, "units"),
    ):  # fmt: skip
        with refused("invalid-argument", field=field):
            campaign.amend(reason="more", **changes)


#: Numbers that sums, squares, products and quotients go wrong with.
extreme = st.sampled_from(
    [0.999e30, -0.999e30, 1e15, 1.0, 0.0, 1e-8, 1e-30, 1e-150, -1e-160, 1e-300, 5e-324]
)
rows = st.lists(st.tuples(extreme, extreme, extreme, extreme), min_size=5, max_size=5)
POLICIES = [
    *({"kind": name} for name in ("JointRidge", "SBPE", "BPE", "RBGL", "LBGL", "SBUCB")),
    *({"kind": name} for name in ("SupSBUCB", "EpsilonGreedy", "ThompsonSampling")),
    *({"kind": name, "waves": "own level"} for name in ("JointRidge", "SBUCB", "ThompsonSampling")),
    *({"kind": name, "estimate": "pooled"} for name in ("SBPE", "SBUCB", "ThompsonSampling")),
    {"kind": "Lookahead"},
]


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(st.sampled_from(POLICIES), st.booleans(), rows, rows)
@pytest.mark.slow
def test_no_row_that_is_taken_stops_a_campaign(tmp_path_factory, policy, shared, first, second):
    actions = ["a", "b"]
    # Lookahead starts at random by itself, and has a model for each action.
    own = policy["kind"] == "Lookahead"
    shared = shared and not own
    if shared:
        actions = [{"name": "a", "features": {"p": 0.999e30}}, {"name": "b", "features": {"p": -1}}]
    features = {"numeric": {"x": "raw", "z": "raw", "l": "learn"},
                "interactions": [["x", "z"], ["x", "l"], ["l", "l"]]}  # fmt: skip
    spec = {**PLAIN, "actions": actions, "model": "shared" if shared else "per-action",
            "features": features, "grid": {"sizes": [5, 5]},
            "floor": 0.05, "policy": policy if own else {**policy, "first": "uniform"}}  # fmt: skip
    store = open_store(tmp_path_factory.mktemp("c") / "c.db")
    codes = set()
    try:
        campaign = Campaign.create(spec, store=store)
        for wave, given_ in enumerate((first, second)):
            ids = [f"{wave}-{row}" for row in range(5)]
            x, z, learned, y = zip(*given_, strict=True)
            frame = pl.DataFrame({"id": ids, "x": x, "z": z, "l": learned})
            try:
                table = campaign.assign(frame).table
            except InvalidFileError as error:
                codes = {each.code for each in error.problems}
                break
            assert np.isfinite(table["score"].to_numpy()).all()
            assert campaign.record(pl.DataFrame({"id": ids, "y": y})).accepted == 5
            campaign.close()
        # Rows that are refused are so before anything is decided.
        assert codes <= {"out-of-range"}
        assert campaign.verify().sound
    finally:
        store.close()


def test_the_row_that_wedged_a_campaign_is_refused(tmp_path):
    features = {
        "numeric": {"x": "raw", "z": {"mean": 0, "sd": 1e-20}},
        "interactions": [["x", "z"]],
    }
    store = open_store(tmp_path / "c.db")
    campaign = Campaign.create({**PLAIN, "features": features}, store=store)
    frame = pl.DataFrame({"id": ["a", "b"], "x": [1.0, 1e29], "z": [1.0, 1e15]})
    with refused("invalid-rows", row=2, column="x*z", problem="out-of-range"):
        campaign.assign(frame)
    with refused("invalid-rows", row=1, column="x", problem="out-of-range"):
        campaign.assign(frame.with_columns(x=pl.Series([1e70, 1.0])))
    store.close()


def test_numbers_are_checked_by_the_scaling_that_is_learned_meanwhile(tmp_path):
    store = open_store(tmp_path / "c.db")
    numeric = {"x": {"scale": "learn", "clip": False}, "z": "raw"}
    features = {"numeric": numeric, "interactions": [["x", "z"]]}
    spec = {**PLAIN, "features": features, "grid": {"calendar": True, "waves": 3, "units": 9}}
    campaign = Campaign.create(spec, store=store)
    campaign.assign(pl.DataFrame({"id": ["a", "b"], "x": [1e-30, 2e-30], "z": [1.0, 2.0]}))

    def close_meanwhile(doing, _rows):
        if doing == "checking":
            campaign.close(force=True, reason="meanwhile")

    with refused("invalid-rows", row=1, column="x*z", problem="out-of-range"):
        campaign.assign(
            pl.DataFrame({"id": ["c"], "x": [1e10], "z": [1e25]}), report=close_meanwhile
        )
    store.close()


def test_ids_that_look_alike_are_told(campaign):
    ids = ["7", "007", "Ann", "ann ", "e\u0301", "\u00e9", "b"]
    result = campaign.assign(units(7).with_columns(id=pl.Series(ids)))
    [warning] = result.warnings
    assert "'7' and '007'; 'Ann' and 'ann '; 'e\\u0301' and 'é'" in warning
    assert result.table["id"].to_pylist() == ids
    assert campaign.assign(units(20, start=100)).warnings == ()


def test_columns_of_an_export_have_names_of_their_own(tmp_path):
    store = open_store(tmp_path / "c.db")
    names = ["action", "feature action", "outcome wave"]
    spec = {**PLAIN, **about("wave", row_id="event"), "unit": "outcome event",
            "features": {"numeric": dict.fromkeys(names, "raw")}}  # fmt: skip
    campaign = Campaign.create(spec, store=store)
    frame = pl.DataFrame(
        {"outcome event": ["a"], **{name: [float(n)] for n, name in enumerate(names)}}
    )
    campaign.assign(frame)
    campaign.record(pl.DataFrame({"outcome event": ["a"], "wave": [1.0], "event": ["k"]}))
    for what in ("units", "outcomes"):
        campaign.export(tmp_path / f"{what}.parquet", what=what)
        columns = pa.parquet.read_schema(tmp_path / f"{what}.parquet").names
        assert len(set(columns)) == len(columns)
    table = pl.read_parquet(tmp_path / "units.parquet")
    assert table["feature action"][0] == 1.0
    assert table["feature feature action"][0] == 0.0
    store.close()


def test_every_policy_is_among_those_tried():
    tried = {policy["kind"] for policy in POLICIES}
    # These estimate nothing, need one unit a wave, or know the truth.
    assert set(registry.kinds()) - tried == {"FixedAction", "UniformRandom", "LinUCB", "Oracle"}


def test_limits_are_documented():
    page = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
    for value in (input_limits.LONGEST_ID, input_limits.LONGEST_CELL, input_limits.MOST_ROWS,
                  input_limits.MOST_COLUMNS, input_limits.MOST_WAVES, input_limits.MOST_UNITS,
                  input_limits.MOST_ACTIONS,
                  input_limits.MOST_LEVELS, input_limits.LONGEST_SPEC):  # fmt: skip
        assert f"{value:,}" in page


def damaged_stores():
    """Yield what is done to a store, in SQL."""
    for table in ("campaigns", "events", "unit_chunks", "outcome_chunks", "states", "assignments"):
        yield f"DROP TABLE {table}"
        yield f"DELETE FROM {table}"
    for column in ("decided", "given", "first", "count", "wave"):
        for value in ("'text'", "-1", "x'00ff'", "1000000000000000"):
            yield f"UPDATE unit_chunks SET {column} = {value}"
    yield "UPDATE outcome_chunks SET rows = 'text'"
    yield "UPDATE states SET content = x'7b7d0a'"
    yield "UPDATE events SET payload = '[]', counts = '1'"
    yield "UPDATE folds SET content = '{}', event = 'one'"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store with a wave that was assigned and whose outcomes came."""
    path = tmp_path_factory.mktemp("sound") / "c.db"
    store = open_store(path)
    campaign = created(store)
    campaign.record(outcomes(campaign.assign(units(300)).table))
    store.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("damage", list(damaged_stores()))
def test_a_damaged_store_gives_errors_and_nothing_worse(tmp_path, sound, damage):
    path = tmp_path / "c.db"
    raw = sqlite3.connect(path)
    with contextlib.closing(sqlite3.connect(sound)) as whole:
        whole.backup(raw)
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(damage)
    raw.commit()
    raw.close()
    store = open_store(path)
    campaign = Campaign(store, "spring")
    calls = [
        campaign.status, campaign.events, campaign.close, campaign.verify,
        lambda: campaign.assign(units(5)),
        lambda: campaign.export(tmp_path / "out.parquet"),
        lambda: campaign.amend(reason="try", floor=0.01),
    ]  # fmt: skip
    failed = 0
    for call in calls:
        try:
            failed += not getattr(call(), "sound", True)
        except SeqbatchError:
            failed += 1
    assert failed
    store.close()


def test_a_store_that_is_cut_off(tmp_path):
    path = tmp_path / "c.db"
    store = open_store(path)
    created(store)
    store.close()
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(StoreError):
        Campaign.open("spring", store=open_store(path))


def test_a_database_that_cannot_keep_every_text_is_refused(postgres):
    postgres.psql(
        "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';"
    )
    with refused("wrong-encoding"):
        open_store(postgres.get_uri("latin"))


@pytest.mark.slow
def test_the_command_line_warns_of_ids_and_refuses_a_folder(tmp_path, campaign, monkeypatch):
    assert campaign.status().wave == 1
    monkeypatch.chdir(tmp_path)
    units(2).with_columns(id=pl.Series(["7", "07"])).write_csv("u.csv")

    def run(*words):
        return CliRunner().invoke(app, ["campaign", *words, "--store", "c.db"])

    made = run("assign", "spring", "u.csv", "--out", "out.csv")
    assert made.exit_code == 0
    assert "'7' and '07'" in made.stderr.replace("\n", " ")
    for call in (("report", "spring"), ("assign", "spring", "u.csv"), ("export", "spring")):
        made = run(*call, "--out", ".")
        assert made.exit_code == 2, made.stderr
        assert "Traceback" not in made.stderr
