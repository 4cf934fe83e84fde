"""Connections that send no request, and clients that disconnect."""

import socket
import threading
import time

import pytest

from seqbatch import planning
from seqbatch.service.connections import OTHERS, _descriptors
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


def test_plans_keep_nothing_else_waiting(tmp_path, monkeypatch):
    stop = threading.Event()

    def slow(*, progress, **_):
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
            while service.post("/v1/plan", plan, role="operator").status_code != 429:
                time.sleep(0.01)
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
