"""Bodies, names, headers and files that mean no good: each is refused, and nothing is changed."""

import gzip
import io
import json
import socket

import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from tests.campaign.files.damaged_files import crashing
from tests.service.fuzzing import fuzz
from tests.service.running import OUTCOMES, SPEC, UNITS, running

ASSIGN = "/v1/campaigns/spring/assignments"
CSV = {"content-type": "text/csv"}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    limits = {"json_bytes": 200_000, "file_bytes": 1_000_000, "file_rows": 50_000}
    with running(folder / "campaigns.db", **limits) as made:
        made.campaign()
        yield made


def rows(**cells):
    return json.dumps({"units": [{"unit": "a", "age": 1, **cells}]}).encode()


BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"units": [{"unit": "\xff", "age": 1}]}',
    "UTF-16": '{"units": []}'.encode("utf-16"),
    "half a character": b'{"units": [{"unit": "\\ud800", "age": 1}]}',
    "NUL in an id": rows(unit="a\0b"),
    "NUL in a column": rows(**{"a\0b": 1}),
    "NaN": b'{"units": [{"unit": "a", "age": NaN}]}',
    "infinite": b'{"units": [{"unit": "a", "age": 1e999}]}',
    "a huge whole number": b'{"units": [{"unit": "a", "age": ' + b"9" * 5_000 + b"}]}",
    "deep": b'{"units": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep within": b'{"units": [{"unit": "a", "age": ' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001,
    "an object for a number": rows(age={"$gt": 0}),
    "a list for an id": rows(unit=["a"]),
    "an empty id": rows(unit=""),
    "a long id": rows(unit="x" * 150_000),
    "no units": b'{"units": []}',
    "a number for units": b'{"units": 7}',
    "too many units": json.dumps({"units": [{"u": 1}] * 10_001}).encode(),
    "a number for a flag": b'{"units": [{"unit": "a", "age": 1}], "partial": 1}',
    "something else": b'{"units": [{"unit": "a", "age": 1}], "out": "/etc/passwd"}',
    "the same unit twice": json.dumps({"units": [UNITS[0], UNITS[0]]}).encode(),
    "many columns": rows(**{f"c{n}": 1 for n in range(20_001)}),
    "texts among numbers": json.dumps({"units": [UNITS[0], {"unit": "b", "age": "x"}]}).encode(),
    "a path for units": b'{"units": "/etc/passwd"}',
    "columns of each row's own": json.dumps(
        {"units": [{f"{row}-{n}": 1 for n in range(3)} for row in range(3_000)]}
    ).encode(),
    "the same key twice": b'{"units": [{"unit": "a", "age": 1}], "units": []}',
    "a number as long as a book": b'{"units": [{"unit": "a", "age": 1e' + b"9" * 5_000 + b"}]}",
    "a byte order mark": b'\xef\xbb\xbf{"units": [{"unit": "a", "age": 1}]}',
    "a comment": b'{"units": [{"unit": "a", "age": 1}] /* all of them */}',
    "a list of lists": b'{"units": [["a", 1]]}',
    "true for a number": rows(age=True, unit=True),
    "an id of a billion dollars": rows(unit="a" * 1_001),
    "a formula for a number": rows(age="=1+1"),
    "draw and partial": b'{"units": [{"unit": "a", "age": 1}], "partial": true, "draw": true}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_hostile_units(service, body):
    answer = service.call("POST", ASSIGN, content=body, headers=JSON)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert Campaign(service.store, "spring").situation().assigned == 0


def test_columns_of_each_rows_own_are_counted_before_a_table_is_made_of_them(service):
    answer = service.call("POST", ASSIGN, content=BODIES["columns of each row's own"], headers=JSON)
    assert "must have at most 666 columns; received 9,000" in answer.text


def bomb():
    file = io.BytesIO()
    pl.DataFrame({"unit": ["x" * 1_000] * 20_000, "age": 1}).write_parquet(file)
    return file.getvalue()


def many():
    file = io.BytesIO()
    pl.DataFrame({"unit": pl.arange(0, 100_001, eager=True), "age": 1}).write_parquet(file)
    return file.getvalue()


FILES = {
    "too long": (b"unit,age\n" + b"a,1\n" * 300_000, "text/csv", 413),
    "a Parquet bomb": (bomb(), "application/vnd.apache.parquet", 422),
    "more rows than are read": (many(), "application/vnd.apache.parquet", 413),
    "more lines than are read": (b"unit,age\n" + b"a,1\n" * 60_000, "text/csv", 413),
    "a column twice": (b"unit,age,age\na,1,2\n", "text/csv", 422),
    "quotes that never end": (b'unit,age\n"a,1\n' + b"x" * 90_000, "text/csv", 422),
    "gzip": (gzip.compress(b"unit,age\na,1\n"), "text/csv", 422),
    "another encoding": ("unit,age\na\u0000,1\n".encode("utf-32"), "text/csv", 422),
    "half a Parquet": (bomb()[:-20], "application/vnd.apache.parquet", 422),
    "CSV for Parquet": (b"unit,age\na,1\n", "application/vnd.apache.parquet", 422),
    "an Arrow stream": (b"\xff\xff\xff\xff", "application/vnd.apache.arrow.stream", 415),
    "a Parquet that aborts its reader": (
        crashing(pa.table({"unit": ["a", "b"], "age": [1, 2]})),
        "application/vnd.apache.parquet",
        422,
    ),
    "no Parquet": (b"PAR1 nothing PAR1", "application/vnd.apache.parquet", 422),
    "an Arrow file": (b"ARROW1\0\0", "application/vnd.apache.arrow.file", 415),
    "nothing": (b"", "text/csv", 422),
    "NUL": (b"unit,age\na\0b,1\n", "text/csv", 422),
    "a workbook": (b"PK\3\4", "application/vnd.ms-excel", 422),
    "a form": (b"a=1", "application/x-www-form-urlencoded", 415),
    "many parts": (b"--x\r\n", "multipart/form-data; boundary=x", 415),
}


@pytest.mark.parametrize(("content", "kind", "status"), FILES.values(), ids=FILES)
def test_hostile_files(service, content, kind, status):
    answer = service.call("POST", ASSIGN, content=content, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert str(service.store.label) not in answer.text
    assert "seqbatch-" not in answer.text
    assert Campaign(service.store, "spring").situation().assigned == 0


def test_a_file_that_aborts_its_reader_is_named(service):
    content, kind, _ = FILES["a Parquet that aborts its reader"]
    answer = service.call("POST", ASSIGN, content=content, headers={"content-type": kind}).json()
    assert answer["code"] == "unreadable-file"
    assert answer["detail"].startswith("body: ")


def test_nothing_is_decompressed(service):
    body = gzip.compress(json.dumps({"units": UNITS}).encode())
    answer = service.call(
        "POST", ASSIGN, content=body, headers={**JSON, "content-encoding": "gzip"}
    )
    assert answer.status_code == 415


@pytest.mark.parametrize(
    "spec",
    [
        "/etc/passwd", "spec.toml", "x" * 100_001, "a = [" * 5_000, {}, {"name": "../x"}, 7, None,
        {**SPEC, "name": "a/b"}, {**SPEC, "name": ""}, {**SPEC, "grid": {"sizes": [10**30]}},
        {**SPEC, "actions": [f"a{n}" for n in range(2_000)]}, {**SPEC, "masked": True},
    ],
    ids=lambda spec: str(spec)[:30],
)  # fmt: skip
def test_hostile_specs(service, spec):
    answer = service.post("/v1/campaigns", {"spec": spec})
    assert answer.status_code == 422, answer.text
    assert "root:" not in answer.text
    assert service.store.names() == ["spring"]
    if isinstance(spec, str | dict) and len(str(spec)) < 100_000:
        tried = service.post("/v1/campaigns/validate", {"spec": spec})
        assert tried.status_code == 200
        assert tried.json()["sound"] == (isinstance(spec, dict) and "masked" in spec)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/campaigns/%00", "/v1/campaigns/..%2f..%2fetc", "/v1/campaigns/%ff", "//v1/campaigns",
        "/v1/campaigns/spring/", "/v1/campaigns/" + "x" * 5_000, "/v1/campaigns/spring/report.html",
        "/v1/campaigns/spring/report?format=/etc/passwd", "/v1/campaigns/spring/status?at_event=-1",
        "/v1/campaigns/spring/status?at_event=99999999999999999999",
        "/v1/campaigns/spring/status?at_event=7", "/v1/campaigns/spring/findings?level=nan",
        "/v1/campaigns/spring/events?most=1000000", "/v1/campaigns/spring/export?what=tokens",
        "/v1/campaigns/spring/status?who=me", "/docs", "/openapi.json", "/v2/campaigns",
    ],
)  # fmt: skip
def test_hostile_addresses(service, path):
    answer = service.get(path)
    assert answer.status_code in (404, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_never_ends_is_let_go(tmp_path):
    with running(tmp_path / "campaigns.db", body_seconds=0.2) as service:
        host, port = service.url.removeprefix("http://").split(":")
        head = (
            f"POST {ASSIGN} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {service.token('admin')}\r\ncontent-length: 1000\r\n\r\n{{"
        )
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode())
            assert b" 408 " in connection.recv(200)


@pytest.mark.parametrize(
    "head",
    [
        "x: " + "y" * 100_000, "content-length: -1", "content-length: 5\r\ncontent-length: 6",
        "content-length: 5\r\ntransfer-encoding: chunked", "transfer-encoding: gzip",
        "content-type: application/json\r\n x: folded", "a b: c", "host: a\r\nhost: b", "x: \x01",
        "authorization: Bearer \xff\xfe", "idempotency-key: \x7f", "expect: 200-maybe",
    ],
    ids=lambda head: ascii(head[:40]),
)  # fmt: skip
def test_hostile_headers(service, head):
    host, port = service.url.removeprefix("http://").split(":")
    call = (
        f"POST {ASSIGN} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"connection: close\r\n{head}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(call.encode("latin-1"))
        status = int(connection.recv(200).split()[1])
    assert 400 <= status < 500
    assert service.get("/health").status_code == 200


def test_no_answer_names_the_store(service):
    answers = [
        service.post("/v1/campaigns", {"spec": SPEC}),
        service.get("/v1/campaigns/none/status"),
        service.post("/v1/campaigns/spring/close", {}),
    ]
    assert [answer.status_code for answer in answers] == [409, 404, 409]
    for answer in answers:
        assert service.store.label not in answer.text


@pytest.mark.slow
def test_calls_made_up_from_the_schema(tmp_path):
    with running(tmp_path / "campaigns.db") as service:
        service.campaign()
        service.post(ASSIGN, {"units": UNITS})
        service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
        counts = fuzz(service, 60)
        assert sum(counts.values()) >= 60
        assert {200, 422} <= set(counts)
        assert max(counts) < 500
        assert Campaign(service.store, "spring").verify().sound
