"""Connections that send no request, and clients that disconnect."""

import asyncio
import contextlib
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from seqbatch import planning
from seqbatch.campaign import Campaign
from seqbatch.service.connections import OTHERS, Connection, _descriptors
from seqbatch.service.routes import health
from tests.service.running import running
from tests.service.test_serving import run


def connected(service):
    host, _, port = service.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def closed(connection):
    """Whether the service closes a connection, after an answer or without one."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def answers(service):
    """Whether the service answers others, some of whom it may have to turn away."""
    for _ in range(100):
        with contextlib.suppress(httpx.TransportError):
            return service.client.get("/health").status_code == 200
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nhost: x\r\n",
        b"POST /v1/plan HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n",
    ],
    ids=["nothing", "half a head", "a head without its body"],
)
def test_a_request_that_never_ends_is_closed(tmp_path, sent):
    with running(tmp_path / "campaigns.db", head_seconds=0.2) as service:
        with connected(service) as connection:
            connection.sendall(sent)
            if b"content-length" in sent:
                # It has no token: it is answered at once, and its body is not waited for.
                assert b"401" in connection.recv(1 << 16)
                connection.sendall(b"x")
            assert closed(connection)
        assert service.client.get("/health").status_code == 200


def test_bytes_that_trickle_in_do_not_keep_a_connection_open(tmp_path):
    def trickle(connection):
        for letter in b"GET /health HTTP/1.1\r\nx: " + b"y" * 1000:
            connection.sendall(bytes([letter]))
            time.sleep(0.02)

    with (
        running(tmp_path / "campaigns.db", head_seconds=0.3) as service,
        connected(service) as connection,
        pytest.raises(ConnectionError),
    ):
        trickle(connection)


def test_half_open_connections_do_not_keep_others_out(tmp_path):
    with running(tmp_path / "campaigns.db", connections=5, head_seconds=60) as service:
        held = [connected(service) for _ in range(20)]
        for connection in held:
            connection.sendall(b"GET /health HTTP/1.1\r\n")
        assert service.client.get("/health").status_code == 200
        # The oldest ones had to go.
        assert closed(held[0])
        for connection in held:
            connection.close()


def form(length):
    return (
        "POST /sign-in HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n"
        f"content-type: application/x-www-form-urlencoded\r\n\r\n{'x' * length}"
    ).encode()


def test_forms_that_never_end_do_not_keep_others_out(tmp_path):
    with running(tmp_path / "campaigns.db", connections=5, head_seconds=60) as service:
        held = [connected(service) for _ in range(20)]
        for connection in held:
            connection.sendall(form(1))
        assert answers(service)
        for connection in held:
            connection.close()


def test_a_form_must_arrive_as_soon_as_a_head(tmp_path):
    with running(tmp_path / "campaigns.db", head_seconds=0.2) as service:
        with connected(service) as connection:
            connection.sendall(form(1))
            assert b"408" in connection.recv(1 << 16)
        assert service.client.get("/health").status_code == 200


def test_answers_that_nobody_reads_do_not_keep_others_out(tmp_path):
    asked = b"GET /static/style.css HTTP/1.1\r\nhost: x\r\n\r\n" * 400
    with running(tmp_path / "campaigns.db", connections=5, read_seconds=60) as service:
        held = [connected(service) for _ in range(8)]
        for connection in held:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(asked)
        assert answers(service)
        for connection in held:
            connection.close()


class Transport(asyncio.Transport):
    """A connection to a client that reads nothing."""

    aborted = False

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.aborted


@pytest.mark.parametrize("reads", [True, False])
def test_an_answer_must_be_read(reads):
    async def paused():
        config = uvicorn.Config(lambda *_: None)
        made = Connection(config, ServerState(), {}, head_seconds=60, read_seconds=0.01, most=10)
        transport = Transport()
        made.connection_made(transport)
        made.pause_writing()
        if reads:
            made.resume_writing()
        await asyncio.sleep(0.05)
        made._stop_waiting()
        return transport.aborted

    assert asyncio.run(paused()) is not reads


def test_a_slow_call_survives_the_wait_for_heads(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "plan", lambda **_: time.sleep(0.5) or 1 / 0)
    with running(tmp_path / "campaigns.db", head_seconds=0.1) as service:
        assert service.post("/v1/plan", {"units": 100, "actions": 2}).status_code == 500


def test_there_are_descriptors_for_everything_else():
    assert 1 <= _descriptors(10**6) <= 10**6 - OTHERS
    assert _descriptors(10) == 10


def test_a_plan_ends_when_its_client_has_gone(tmp_path, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(*, progress, **_):
        begun.set()
        try:
            while True:
                progress(0.5)
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(planning, "plan", endless)
    with running(tmp_path / "campaigns.db") as service:
        body = b'{"units": 100, "actions": 2}'
        head = (
            "POST /v1/plan HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {service.token('viewer')}\r\ncontent-length: {len(body)}\r\n"
        )
        with connected(service) as connection:
            connection.sendall(head.encode() + b"\r\n" + body)
            assert begun.wait(20)
        assert ended.wait(20)


def test_views_keep_no_file_waiting(tmp_path, monkeypatch):
    begun, stop = threading.Event(), threading.Event()

    def slow(*_, **__):
        begun.set()
        stop.wait(20)
        return SimpleNamespace(plain=dict)

    monkeypatch.setattr(Campaign, "findings", slow)
    with running(tmp_path / "campaigns.db", at_once=1, seconds=30) as service:
        service.campaign()
        service.token("viewer")
        service.token("operator")
        path = "/v1/campaigns/spring/findings"
        waiting = threading.Thread(target=lambda: service.get(path, role="viewer"), daemon=True)
        waiting.start()
        try:
            assert begun.wait(20)
            assert service.get(path, role="operator").status_code == 429
            sent = service.call(
                "POST", "/v1/campaigns/spring/assignments", role="operator",
                content=b"unit,age\na,30\n", headers={"content-type": "text/csv"},
            )  # fmt: skip
            assert sent.status_code == 200
        finally:
            stop.set()
            waiting.join()


def test_a_store_that_does_not_answer_is_looked_at_once(tmp_path, monkeypatch):
    stop, looks = threading.Event(), []
    monkeypatch.setattr(health, "PATIENCE", 0.2)
    with running(tmp_path / "campaigns.db") as service:
        monkeypatch.setattr(service.store, "names", lambda: looks.append(1) or stop.wait(20))
        try:
            codes = [service.client.get("/ready").status_code for _ in range(4)]
            assert codes == [503] * 4
            assert len(looks) == 1
        finally:
            stop.set()


def test_plans_keep_nothing_else_waiting(tmp_path, monkeypatch):
    begun, stop = threading.Event(), threading.Event()

    def slow(*, progress, **_):
        begun.set()
        stop.wait(20)
        progress(1.0)

    monkeypatch.setattr(planning, "plan", slow)
    with running(tmp_path / "campaigns.db", at_once=1, plans_at_once=1, seconds=30) as service:
        service.campaign()
        service.token("viewer")
        plan = {"units": 100, "actions": 2}
        waiting = threading.Thread(
            target=lambda: service.post("/v1/plan", plan, role="viewer"), daemon=True
        )
        waiting.start()
        try:
            assert begun.wait(20)
            assert service.post("/v1/plan", plan, role="operator").status_code == 429
            assert service.get("/v1/campaigns/spring/status", role="operator").status_code == 200
        finally:
            stop.set()
            waiting.join()


def test_a_client_that_hangs_up_is_no_failure_of_the_service(tmp_path, caplog):
    with running(tmp_path / "campaigns.db") as service:
        service.campaign()
        head = (
            "POST /v1/campaigns/spring/outcomes HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n"
            f"content-type: text/csv\r\nauthorization: Bearer {service.token('operator')}\r\n\r\n"
        )
        with connected(service) as connection:
            connection.sendall(head.encode() + b"unit,visit\n")
            time.sleep(0.3)
        for _ in range(200):
            counted = service.get("/metrics", role="viewer").text
            if '/outcomes"' in counted:
                break
            time.sleep(0.02)
        [line, *_] = [line for line in counted.splitlines() if '/outcomes"' in line]
        assert '"499"' in line
        assert "Traceback" not in caplog.text


@pytest.mark.parametrize("text", ["shop.example", "10.0.0.300", "10.0.0.1/8", "*"])
def test_a_proxy_is_named_by_its_address(tmp_path, text):
    said = run("serve", "--store", tmp_path / "campaigns.db", "--proxy", text, code=2).output
    assert "proxy must be an IP address or a network" in said


def test_other_addresses_are_believed_from_declared_proxies_only(tmp_path):
    wrong = {"authorization": f"Bearer sqb_{'x' * 40}"}
    for proxies, last in (([], 429), (["127.0.0.1"], 401)):
        options = {"proxy_headers": True, "forwarded_allow_ips": proxies} if proxies else {}
        with running(tmp_path / "campaigns.db", wrong_tokens=3, server=options) as service:
            codes = [
                service.client.get(
                    "/v1/campaigns", headers={**wrong, "x-forwarded-for": f"10.0.0.{place}"}
                ).status_code
                for place in range(5)
            ]
            assert codes[-1] == last
