"""The commands: serve and token; a service that is killed, and clients that try again."""

import os
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
from benchmarks.service.servers import held
from typer.testing import CliRunner

import seqbatch
from seqbatch.campaign import Campaign
from seqbatch.cli.app import app
from seqbatch.service import Settings
from seqbatch.service import app as service
from seqbatch.storage import open_store, tokens
from tests.service.running import SPEC, serving


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_tokens_are_made_listed_and_revoked(tmp_path):
    store = tmp_path / "campaigns.db"
    made = run("token", "create", "shop", "--role", "operator", "--campaign", "spring",
               "--store", store)  # fmt: skip
    secret = made.stdout.splitlines()[0]
    assert tokens.well_formed(secret)
    assert "No such campaign yet: spring." in made.stderr
    listed = run("token", "list", "--store", store, "--json").stdout
    assert "shop" in listed
    assert secret not in listed
    run("token", "create", "shop", "--role", "viewer", "--store", store, code=2)
    run("token", "create", "other", "--role", "owner", "--store", store, code=2)
    run("token", "create", "other", "--role", "viewer", "--expires", "soon", "--store", store,
        code=2)  # fmt: skip
    run("token", "revoke", "shop", "--store", store)
    assert "revoked" in run("token", "list", "--store", store).stdout
    run("token", "revoke", "nobody", "--store", store, code=2)


@pytest.mark.parametrize(
    ("expires", "days"), [("12h", 0.5), ("90d", 90), ("2w", 14), ("never", None)]
)
def test_when_a_token_ends(tmp_path, expires, days):
    store = tmp_path / "campaigns.db"
    run("token", "create", "shop", "--role", "viewer", "--expires", expires, "--store", store)
    opened = open_store(store)
    [token] = tokens.listed(opened)
    opened.close()
    if days is None:
        assert token.expires == ""
        return
    from datetime import datetime

    ends, made = datetime.fromisoformat(token.expires), datetime.fromisoformat(token.created)
    assert (ends - made).total_seconds() == pytest.approx(days * 86_400, abs=2)


class Served:
    """A service in a process of its own, at a port of its own."""

    def __init__(self, store):
        self.held = held()
        self.port = self.held.getsockname()[1]
        self.store = store
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [
            sys.executable, "-c", "from seqbatch.cli import main; main()", "serve", "--store",
            str(self.store), "--port", str(self.port),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def wait(self):
        for _ in range(1200):
            try:
                return httpx.get(f"{self.url}/ready").raise_for_status()
            except httpx.TransportError:
                assert self.process.poll() is None, "it did not start"
                time.sleep(0.05)
        raise AssertionError("it does not answer")

    def end(self, how):
        os.kill(self.process.pid, how)
        _, said = self.process.communicate(timeout=60)
        return said

    def close(self):
        self.held.close()
        return self.end(signal.SIGTERM)


@pytest.mark.slow
def test_a_service_that_is_killed_loses_nothing_and_does_nothing_twice(tmp_path):
    path = tmp_path / "campaigns.db"
    store = open_store(path)
    campaign = Campaign.create({**SPEC, "grid": {"sizes": [400, 400]}}, store=store)
    secret, _ = tokens.create(store, "shop", role="operator")
    served = Served(path)
    answers, over = {}, threading.Event()
    try:
        served.wait()

        def ask(first):
            with seqbatch.Client(served.url, secret, retries=30) as client:
                for n in range(first, 80, 4):
                    if over.is_set():
                        return
                    # The event is null where the unit was there already: it never is.
                    found = client.campaign("spring").assign([{"unit": f"u{n}", "age": n % 80}])
                    answers[f"u{n}"] = (found.event, found.table["action"][0].as_py())

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for share in (20, 50):
            # In the middle of calls, however long it takes to start; one may be done before others.
            while len(answers) < share:
                assert any(thread.is_alive() for thread in threads)
                time.sleep(0.005)
            served.end(signal.SIGKILL)
            served.start()
        # They end by themselves: a call is made again only so often.
        for thread in threads:
            thread.join()
    finally:
        over.set()
        said = served.close()
    assert len(answers) == 80, said
    assert None not in {event for event, _ in answers.values()}
    assert campaign.situation().assigned == 80
    assert campaign.verify().sound
    out = tmp_path / "units.csv"
    campaign.export(out)
    import polars as pl

    kept = dict(pl.read_csv(out).select("unit", "action").iter_rows())
    assert kept == {unit: action for unit, (_, action) in answers.items()}
    store.close()


def test_the_first_start_says_how_to_make_a_token_and_a_signal_ends_it(tmp_path):
    served = Served(tmp_path / "campaigns.db")
    try:
        served.wait()
        assert httpx.get(f"{served.url}/health").json() == {"status": "ok"}
        assert httpx.get(f"{served.url}/v1/campaigns").status_code == 401
    finally:
        said = served.close()
    assert "seqbatch token create YOUR-NAME --role admin" in said


def test_a_store_of_a_later_version_is_refused_untouched(tmp_path):
    import sqlalchemy as sa

    path = tmp_path / "campaigns.db"
    store = open_store(path)
    with store.transaction(write=True) as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    before = path.read_bytes()
    result = run("serve", "--store", path, code=2)
    assert "9999" in result.output
    assert path.read_bytes() == before


#: An address at which no server answers.
DOWN = "postgresql://nobody@127.0.0.1:1/none"


def test_a_worker_starts_before_its_server_and_answers_503(monkeypatch, tmp_path):
    monkeypatch.setenv(service.STORE, DOWN)
    monkeypatch.setenv(service.SETTINGS, Settings().as_text())
    monkeypatch.setenv(service.FOLDER, str(tmp_path))
    with serving(service.from_environment()) as url:
        assert httpx.get(f"{url}/health").status_code == 200
        secret = {"authorization": f"Bearer {tokens.new()}"}
        for path in ("/ready", "/v1/campaigns"):
            answer = httpx.get(f"{url}{path}", headers=secret)
            assert (answer.status_code, answer.json()["code"]) == (503, "store-unreachable")
            assert "127.0.0.1" not in answer.json()["detail"].partition(":")[0]


def test_serve_says_that_the_server_cannot_be_reached(monkeypatch):
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: None)
    for name in (service.STORE, service.SETTINGS, service.FOLDER):
        # The command sets them for its workers.
        monkeypatch.setenv(name, "")
    assert "answered with 503" in run("serve", "--store", DOWN, "--workers", 2).output
    # A store that can never be served still ends the command.
    assert run("serve", "--store", "mysql://x", code=2)
