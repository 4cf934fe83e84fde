"""The clients: a whole campaign, frames in and out, errors, and calls that are made again."""

import asyncio
import inspect
import sqlite3
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import polars as pl
import pytest

import seqbatch
from seqbatch.campaign import rehearse
from seqbatch.campaign.rehearsal import rehearsal
from seqbatch.client import AsyncRemoteCampaign, RemoteCampaign, ServiceError
from seqbatch.service import rehearsals
from tests.campaign.files.workbooks import write_workbook
from tests.refusals import refused
from tests.service.running import OUTCOMES, SPEC, UNITS, running


@pytest.fixture
def service(tmp_path):
    with running(tmp_path / "campaigns.db") as made:
        yield made


@pytest.fixture
def client(service):
    with seqbatch.Client(service.url, service.token("admin")) as made:
        yield made


def test_a_campaign(client, tmp_path):
    assert client.validate(SPEC, UNITS)["sound"]
    campaign = client.create(SPEC)
    one = campaign.assign(UNITS[:1])
    assert one.table.num_rows == 1
    assert one.left == 3
    assert one.table["repeated"].to_pylist() == [False]
    frame = pl.DataFrame(UNITS).with_columns(note=pl.lit("x", dtype=pl.Categorical))
    every = campaign.assign(frame)
    assert every.table["unit"].to_pylist() == list("abcd")
    assert every.table["action"].to_pylist()[:1] == one.table["action"].to_pylist()
    file = tmp_path / "outcomes.csv"
    pl.DataFrame(OUTCOMES).write_csv(file)
    assert campaign.record(file, dry_run=True).event is None
    assert campaign.record(file).accepted == 4
    assert campaign.record(OUTCOMES).duplicate == 4
    told = campaign.assign([{**UNITS[0], "age": 99}, *UNITS[1:]])
    assert told.table["repeated"].to_pylist() == [True] * 4
    assert "column age of 1 unit differs" in told.warnings[0]
    assert campaign.close(wave=1)["wave"] == 1
    assert campaign.status()["wave"] == 2
    assert campaign.findings()["decision"]["lead"]
    assert campaign.next_rule().startswith("{")
    assert campaign.report(tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert campaign.protocol(tmp_path / "p.md", file_format="md").exists()
    assert campaign.package(tmp_path / "p.zip").read_bytes()[:2] == b"PK"
    exported = campaign.export(tmp_path / "units.parquet", file_format="parquet")
    assert pl.read_parquet(exported).height == 4
    assert campaign.amend(reason="more", sizes=[9])["kind"] == "amend"
    signed = campaign.sign(meaning="approved by the statistician")
    assert (signed["who"], signed["payload"]["known_by"]) == ("admin", "token")
    assert campaign.abort(reason="enough")["kind"] == "abort"
    kinds = [event["kind"] for event in campaign.events()]
    assert kinds == ["create", "assign", "assign", "record", "close", "amend", "sign", "abort"]
    assert [found["name"] for found in client.campaigns()] == ["spring"]


def test_a_unit_is_erased_and_neither_answer_nor_upload_is_kept_of_it(tmp_path):
    upload = tmp_path / "uploads" / "session" / "units.csv"
    with (
        running(tmp_path / "campaigns.db", folder=tmp_path) as service,
        seqbatch.Client(service.url, service.token("admin")) as client,
    ):
        campaign = client.create(SPEC)
        campaign.assign(UNITS)
        campaign.record(OUTCOMES)
        upload.parent.mkdir()
        upload.write_text("unit\nb\n")
        refusal = service.post(
            "/v1/campaigns/spring/erase",
            {"units": [{"unit": "b"}], "reason": "request 12"},
            role="operator",
        )
        assert refusal.status_code == 403
        made = campaign.erase([{"unit": "b"}], reason="request 12")
        assert (made["units"], made["rows"], made["event"]) == (1, 1, 4)
        assert not upload.exists()
        with closing(sqlite3.connect(tmp_path / "campaigns.db")) as raw:
            assert raw.execute("SELECT count(*) FROM answers").fetchone() == (0,)
        assert campaign.erase([{"unit": "b"}], reason="request 12")["event"] is None
        with pytest.raises(ServiceError, match="is of an erased unit"):
            campaign.assign(UNITS)
        again = campaign.record(OUTCOMES)
        assert (again.duplicate, again.erased) == (3, 1)
        event = campaign.events()[-1]
        assert (event["kind"], event["why"], event["who"]) == ("erase", "request 12", "admin")
        assert event["counts"] == {"units": 1, "rows": 1}
        seen = service.get("/v1/campaigns/spring/events", role="viewer").json()["events"][-1]
        assert not seen["payload"].keys() & {"numbers", "marks", "salt"}


def test_a_rehearsal_goes_on_over_several_calls(client, monkeypatch):
    monkeypatch.setattr(rehearsals, "SLICE", -1.0)
    monkeypatch.setattr(rehearsal, "PART", 1)
    spec = {**SPEC, "grid": {"sizes": [20, 20]}}
    truth = {"none": 0.3, "mail": 0.6, "spread": {"sd": 0.3}}
    told = []
    options = {"truths": [truth], "campaigns": 2, "seed": 2}
    made = client.rehearse(spec, UNITS, **options, report=lambda *done: told.append(done))
    # A part for each call: two of each of two truths.
    assert told == [(done, 4) for done in range(1, 4)]
    same = rehearse(spec, units=pl.DataFrame(UNITS), **options)
    assert {**made, "units": same.data["units"], "hash": same.hash} == same.plain()
    campaign = client.create(spec, rehearsal=made)
    assert campaign.events()[0]["payload"]["rehearsal"]["hash"] == made["hash"]
    with pytest.raises(ServiceError, match="of another spec"):
        client.create({**spec, "name": "other"}, rehearsal=made)
    with pytest.raises(ServiceError, match="changed since"):
        client.create({**spec, "name": "spring"}, rehearsal={**made, "campaigns": 9})


def test_workbooks_and_carried_columns(client, tmp_path):
    campaign = client.create(SPEC)
    rows = [["Spring", None, None], ["unit", "mail", "age"]]
    rows += [[unit, f"{unit}@x.org", 31] for unit in "abca"]
    path = write_workbook(tmp_path / "u.xlsx", rows)
    with refused("invalid-rows"):
        campaign.assign(path)
    found = campaign.assign(path, skip_rows=1, dedupe="last", with_columns=["mail"])
    assert found.table["mail"].to_pylist() == ["b@x.org", "c@x.org", "a@x.org"]
    again = [{"unit": "a", "age": 1}, {"unit": "a", "age": 2}]
    assert campaign.assign(again, dedupe="first").table.num_rows == 1
    with refused("invalid-argument", field="sheet"):
        campaign.assign(again, sheet="Data")
    outcomes = write_workbook(tmp_path / "o.xlsx", [["unit", "visit"], ["a", 1], ["a", 0]])
    assert campaign.record(outcomes, dedupe="last").accepted == 1


def test_a_file_is_warned_of_as_rows_are(client):
    units = [{"unit": unit, "age": 30} for unit in ("é1", "É1")]
    [said] = client.create({**SPEC, "name": "rows"}).assign(units).warnings
    assert "differ" in said
    assert client.create({**SPEC, "name": "file"}).assign(pl.DataFrame(units)).warnings == (said,)


def test_the_asynchronous_client(service, tmp_path):
    async def whole():
        async with seqbatch.AsyncClient(service.url, service.token("admin")) as client:
            campaign = await client.create(SPEC)
            asked = [campaign.assign([unit]) for unit in UNITS]
            answers = await asyncio.gather(*asked)
            file = tmp_path / "outcomes.csv"
            pl.DataFrame(OUTCOMES).write_csv(file)
            recorded = await campaign.record(file)
            return answers, recorded, await campaign.close(), await campaign.events()

    answers, recorded, closed, events = asyncio.run(whole())
    assert [answer.table["unit"].to_pylist() for answer in answers] == [[u] for u in "abcd"]
    assert recorded.accepted == 4
    assert closed["wave"] == 1
    assert events[-1]["kind"] == "close"


def test_errors_are_those_of_the_library(client):
    with refused("unknown-campaign"):
        client.campaign("nothing").status()
    with refused("invalid-spec", field="actions"):
        client.create({**SPEC, "actions": 7})
    campaign = client.create(SPEC)
    with refused("no-units"):
        campaign.close()
    with refused("invalid-rows", field="age") as caught:
        campaign.assign([{"unit": "a", "age": "old"}])
    assert caught.value.status == 422
    assert caught.value.problem["errors"][0]["column"] == "age"
    with refused("unauthorised"), seqbatch.Client(client.url, "x") as other:
        other.campaigns()


def test_a_call_whose_answer_is_lost_is_made_again_and_once(service):
    """A proxy passes calls on, and drops the first answers."""
    dropped = []

    class Dropping(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() != "host"
            }
            answer = httpx.post(f"{service.url}{self.path}", content=body, headers=headers)
            if len(dropped) < 2:
                dropped.append(self.headers["idempotency-key"])
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_args):
            pass

    service.campaign()
    proxy = HTTPServer(("127.0.0.1", 0), Dropping)
    thread = Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{proxy.server_port}"
        with seqbatch.Client(address, service.token("admin")) as client:
            found = client.campaign("spring").assign(UNITS)
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(timeout=10)
    assert len(dropped) == 2
    assert len(set(dropped)) == 1
    # Asked anew, it would find all units assigned already, and have no event.
    assert found.event == 2


class Page(BaseHTTPRequestHandler):
    """Answers every call with a web page, as a sign-in of a network does."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    def do_POST(self):
        self.do_GET()

    def log_message(self, *_args):
        pass


def without_answer(url):
    async def asynchronously():
        async with seqbatch.AsyncClient(url, "x", retries=1) as client:
            await client.campaigns()

    with refused("no-answer") as caught, seqbatch.Client(url, "x", retries=1) as client:
        client.campaign("spring").close(key="again")
    assert caught.value.key == "again"
    assert isinstance(caught.value, ConnectionError)
    with refused("no-answer") as caught:
        asyncio.run(asynchronously())
    assert caught.value.key is None


def test_a_service_that_does_not_answer_is_an_error_of_the_library():
    server = HTTPServer(("127.0.0.1", 0), Page)
    url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        without_answer(url)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
    without_answer(url)


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://", "http://a:port"])
@pytest.mark.parametrize("kind", [seqbatch.Client, seqbatch.AsyncClient])
def test_a_url_that_is_none_is_refused_before_anything_is_sent(url, kind):
    with refused("invalid-argument", field="url", received=url):
        kind(url, "x")


def test_both_clients_have_the_same_methods():
    for one, other in (
        (seqbatch.Client, seqbatch.AsyncClient),
        (RemoteCampaign, AsyncRemoteCampaign),
    ):
        assert _signatures(one) == _signatures(other)


def _signatures(kind):
    return {
        name: str(inspect.signature(method)).replace("Async", "")
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
