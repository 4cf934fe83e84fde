"""Two workers on one PostgreSQL: what one changes the other knows, and either may die."""

import os
import signal
import sys
import threading
import time
from contextlib import ExitStack

import httpx
import polars as pl
import pytest
from benchmarks.service.servers import serve, sockets

import seqbatch
from seqbatch.campaign import Campaign
from seqbatch.client import NoAnswerError
from seqbatch.storage import open_store, tokens
from tests.service.running import SPEC, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="workers are found by /proc"),
]
ASSIGN = "/v1/campaigns/spring/assignments"


class Pair:
    """A service of two workers, its store and a token."""

    def __init__(self, url):
        self.url = url
        self.store = open_store(url)
        self.secret, _ = tokens.create(self.store, "shop", role="admin")
        self.served = serve(url, 2)
        self.address = f"http://127.0.0.1:{self.served.port}"

    def connection(self, stack):
        headers = {"authorization": f"Bearer {self.secret}"}
        made = httpx.Client(base_url=self.address, headers=headers, timeout=60)
        return stack.enter_context(made)

    def connections(self, stack):
        """Return connections of which each worker has one at least."""
        before, made = self.sockets(), []
        while not all(now > was for was, now in zip(before, self.sockets(), strict=True)):
            made.append(self.connection(stack))
            assert made[-1].get("/health").status_code == 200
            assert len(made) < 200
        return made

    def sockets(self):
        return [sockets(worker) for worker in sorted(self.served.workers())]


@pytest.fixture(scope="module")
def pair(postgres):
    postgres.psql("SET client_min_messages = error; DROP SCHEMA IF EXISTS seqbatch CASCADE;")
    made = Pair(postgres.get_uri())
    yield made
    if made.served.process.poll() is None:
        made.served.end()
    made.store.close()


def test_what_one_worker_closes_the_other_forgets(pair):
    sizes = {"grid": {"sizes": [400, 400]}, "policy": {"kind": "SBPE"}}
    campaign = Campaign.create({**SPEC, **sizes, "name": "spring"}, store=pair.store)
    with ExitStack() as stack:
        lines = pair.connections(stack)
        for wave in (1, 2):
            for number, line in enumerate(lines):
                # Of every wave each worker decides on some, by what it then knows.
                units = [{"unit": f"{wave}-{number}-{n}", "age": 20 + n % 60} for n in range(10)]
                answer = line.post(ASSIGN, json={"units": units}).json()
                assert answer["wave"] == wave
            if wave == 1:
                units = [f"1-{number}-{n}" for number in range(len(lines)) for n in range(10)]
                outcomes = [{"unit": u, "visit": n % 2} for n, u in enumerate(units)]
                lines[0].post("/v1/campaigns/spring/outcomes", json={"outcomes": outcomes})
                body = {"force": True, "reason": "enough"}
                closed = lines[0].post("/v1/campaigns/spring/close", json=body)
                assert closed.status_code == 200, closed.text
    # A decision by what was known before would not be what a replay decides.
    assert campaign.verify().sound


def test_counts_are_those_of_all_workers(pair):
    with ExitStack() as stack:
        lines = pair.connections(stack)
        for line in lines:
            assert line.get("/v1/campaigns/nothing").status_code == 404
        # Each worker tells the others once a second what it has counted.
        for line in lines:
            assert counted(line, least=len(lines)) == len(lines)


def counted(line, *, least):
    """Return how many calls for what is not there were counted, once there are so many."""
    wanted = 'route="/v1/campaigns/{name}",status="404"} '
    for _ in range(600):
        rows = [row for row in line.get("/metrics").text.splitlines() if wanted in row]
        count = sum(int(row.rpartition(" ")[2]) for row in rows)
        if count >= least:
            break
        time.sleep(0.05)
    return count


def test_workers_that_die_are_replaced(pair):
    first = pair.served.workers()
    for worker in first:
        os.kill(worker, signal.SIGKILL)
    with ExitStack() as stack:
        # Nobody else can answer: both are dead, and what listens takes no calls itself.
        assert pair.connection(stack).get("/v1/campaigns").status_code == 200
    for _ in range(600):
        if len(set(pair.served.workers()) - set(first)) == 2:
            return
        time.sleep(0.1)
    raise AssertionError("only one was replaced")


def test_a_signal_to_stop_under_load_loses_nothing(pair, tmp_path):
    """Runs last: it ends the service."""
    campaign = Campaign.create(
        {**SPEC, "name": "autumn", "grid": {"sizes": [5_000, 9]}}, store=pair.store
    )
    said, asked, stopping = {}, set(), threading.Event()

    def ask(first):
        with seqbatch.Client(pair.address, pair.secret, retries=0) as client:
            left = list(range(first, 5_000, 6))
            while left:
                n = left[0]
                asked.add(n)
                units = [{"unit": f"u{n}", "age": n % 80}]
                try:
                    found = client.campaign("autumn").assign(units, key=f"k{n}")
                except NoAnswerError:
                    if stopping.is_set():
                        return
                    # Asked without a pause, workers that begin would have no core to begin on.
                    time.sleep(0.1)
                    continue
                said[n] = (found.event, found.table["action"][0].as_py())
                left.pop(0)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    while len(said) < 60:
        assert all(thread.is_alive() for thread in threads)
        time.sleep(0.01)
    stopping.set()
    assert pair.served.end() == 0
    for thread in threads:
        thread.join(timeout=60)
    # What was acknowledged is there; what was cut off is there whole, or not at all.
    assert len(said) <= campaign.situation().assigned <= len(asked)
    assert campaign.verify().sound
    # The same calls, of the same token, at another process.
    with running(pair.url) as again, seqbatch.Client(again.url, pair.secret) as client:
        for n in sorted(asked):
            units = [{"unit": f"u{n}", "age": n % 80}]
            found = client.campaign("autumn").assign(units, key=f"k{n}")
            answer = (found.event, found.table["action"][0].as_py())
            assert None not in answer
            assert said.get(n, answer) == answer
    assert campaign.situation().assigned == len(asked)
    campaign.export(tmp_path / "units.parquet")
    kept = pl.read_parquet(tmp_path / "units.parquet")["unit"].to_list()
    assert sorted(kept) == sorted(f"u{n}" for n in asked)
    assert campaign.verify().sound
