"""After a signal to stop, answers end their connections, also those that came in that moment."""

import asyncio
import signal

import httpx

from seqbatch.service import make_app
from seqbatch.service.app import SIGNALS, StopSignal
from seqbatch.storage import open_store


def test_answers_after_a_signal_end_their_connections(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    app = make_app(store)

    async def answers():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            before = await client.get("/health")
            app.state.stopping.begun = True
            return before, await client.get("/health")

    before, after = asyncio.run(answers())
    store.close()
    assert "connection" not in before.headers
    assert after.headers["connection"] == "close"
    assert before.json() == after.json()


def test_signals_are_heard_and_passed_on():
    told, kept = [], {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda number, _frame: told.append(number))
    try:
        for number in SIGNALS:
            stopping = StopSignal()
            with stopping.watched():
                assert not stopping.begun
                signal.raise_signal(number)
                assert stopping.begun
            signal.raise_signal(number)
    finally:
        for number, before in kept.items():
            signal.signal(number, before)
    assert told == [number for number in SIGNALS for _ in "ab"]
