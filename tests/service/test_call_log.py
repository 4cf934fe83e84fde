"""The service's log: what it has of each call, and what it never has."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from seqbatch.service import call_log, call_trace
from seqbatch.service.call_log import LOGGER, Lines
from tests.refusals import refused
from tests.service.running import OUTCOMES, UNITS, running

SEED = 7_123_456_789_012_345


class Kept(logging.Handler):
    """Keeps the lines."""

    def __init__(self, kind):
        super().__init__()
        self.setFormatter(Lines(kind))
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


@pytest.fixture
def log():
    """The lines of a log of all calls, as JSON."""
    handler, before = Kept("json"), (LOGGER.level, LOGGER.propagate)
    LOGGER.addHandler(handler)
    LOGGER.setLevel("DEBUG")
    LOGGER.propagate = False
    yield handler.lines
    LOGGER.removeHandler(handler)
    LOGGER.level, LOGGER.propagate = before


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("log") / "a.db", rate=1e6, burst=10**6) as made:
        made.campaign(seed=SEED)
        yield made


def line_of(log, answer):
    """Return the line of a call, which is written after its answer."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for line in map(json.loads, list(log)):
            if line.get("request") == answer.headers["x-request-id"]:
                return line
        time.sleep(0.002)
    raise AssertionError(log)


def test_a_call_is_one_line_with_its_owner_and_id(service, log):
    answer = service.get("/v1/campaigns/spring", role="viewer")
    assert answer.status_code == 200
    line = line_of(log, answer)
    assert line.pop("time").endswith("+00:00")
    assert line.pop("seconds") >= 0
    assert line.pop("request") == answer.headers["x-request-id"]
    assert line == {
        "level": "info", "event": "call", "method": "GET", "route": "/v1/campaigns/{name}",
        "status": 200, "owner": "viewer", "campaign": "spring",
    }  # fmt: skip
    assert len(log) == 1


def test_a_client_may_choose_a_plain_id(service, log):
    for given, kept in (("order-17", True), ("a" * 65, False), ("a b", False), ('"', False)):
        answer = service.get("/v1/campaigns", headers={"x-request-id": given})
        assert (answer.headers["x-request-id"] == given) == kept
        assert line_of(log, answer)["owner"] == "admin"


def test_failed_sign_ins_have_their_address(service, log):
    wrong = {"authorization": "Bearer sqb_wrong"}
    line = line_of(log, service.client.get("/v1/campaigns", headers=wrong))
    assert (line["event"], line["level"], line["status"]) == ("no valid token", "warning", 401)
    assert line["address"] == "127.0.0.1"
    assert line["owner"] == ""
    line = line_of(log, service.post("/v1/campaigns/spring/close", {"wave": 1}, role="viewer"))
    assert (line["event"], line["owner"]) == ("not permitted", "viewer")


def test_slow_calls_and_monitors_have_levels_of_their_own(service, log, monkeypatch):
    assert line_of(log, service.client.get("/health"))["level"] == "debug"
    monkeypatch.setattr(call_log, "SLOW", 0.0)
    line = line_of(log, service.get("/v1/campaigns"))
    assert (line["event"], line["level"]) == ("slow call", "warning")


def test_no_token_seed_query_or_cell_is_logged(service, log):
    service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
    service.get("/v1/campaigns/spring/units/SECRET-UNIT")
    line_of(log, service.get("/v1/campaigns/spring/findings?level=0.87654"))
    text = "\n".join(log)
    secrets = list(service.secrets.values())
    assert secrets
    for word in (*secrets, str(SEED), "SECRET-UNIT", "0.87654", '"age"', "visit"):
        assert word not in text


def test_an_error_is_logged_as_one(service, log, monkeypatch):
    monkeypatch.setattr(type(service.store), "names", None)
    assert service.get("/v1/campaigns").status_code == 500
    # The server closes the connection, and its answer has no headers of ours.
    until = time.monotonic() + 20
    while not log and time.monotonic() < until:
        time.sleep(0.002)
    line = json.loads(log[-1])
    assert (line["event"], line["level"], line["status"]) == ("call failed", "error", 500)


def test_a_line_of_text_says_the_same_and_stays_one_line():
    record = logging.makeLogRecord({"msg": "call", "levelname": "INFO", "created": 0.0})
    record.call = {"request": "1", "owner": "two\nlines \x1b[31m", "campaign": ""}
    assert Lines("text").format(record) == (
        "1970-01-01T00:00:00.000+00:00 info call request=1 owner=two\\nlines \\x1b[31m"
    )


def test_other_formats_and_levels_are_refused():
    with refused("invalid-argument", field="log-format"):
        call_log.start_log(kind="xml", level="info")
    with refused("invalid-argument", field="log-level"):
        call_log.start_log(kind="json", level="loud")


@pytest.mark.slow
def test_serve_writes_its_log_to_standard_error(tmp_path):
    words = ["serve", "--store", str(tmp_path / "a.db"), "--port", "0"]
    words += ["--log-format", "json", "--log-level", "debug"]
    process = subprocess.Popen(
        [sys.executable, "-m", "seqbatch", *words], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    lines, until = [], time.monotonic() + 60
    for line in process.stderr:
        lines.append(line)
        if "running on" in line or time.monotonic() > until:
            break
    process.send_signal(signal.SIGTERM)
    lines += process.communicate(timeout=60)[1].splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert any("running on" in line["event"] for line in logged)
    assert all({"time", "level", "event"} <= set(line) for line in logged)


def test_slow_steps_are_named_in_the_log_and_quick_ones_are_not(service, log, monkeypatch):
    monkeypatch.setattr(call_trace, "SLOW_STEP", 60.0)
    assert "steps" not in line_of(log, service.get("/v1/campaigns/spring/status"))
    monkeypatch.setattr(call_trace, "SLOW_STEP", 0.0)
    steps = line_of(log, service.get("/v1/campaigns/spring/status"))["steps"]
    assert steps.keys() == {"wait for the store"}
    answer = service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    assert "wait for the group" in line_of(log, answer)["steps"]


def test_traces_are_asked_for_but_opentelemetry_is_not_installed(log, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    call_trace.start_traces()
    assert log == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    call_trace.start_traces()
    said = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but there are no traces: pip install "
    assert json.loads(log[0])["event"] == f'{said}"seqbatch[telemetry]"'


class Span:
    """What a span of OpenTelemetry is told."""

    def __init__(self, spans, name, parent=None):
        self.name, self.parent, self.attributes = name, parent, {}
        spans.append(self)

    def update_name(self, name):
        self.name = name

    def set_attribute(self, name, value):
        self.attributes[name] = value


class Tracer:
    """Makes spans in the way of OpenTelemetry."""

    def __init__(self):
        self.spans, self.open = [], []

    @contextmanager
    def start_as_current_span(self, name, *, record_exception, set_status_on_exception):
        assert not record_exception
        assert not set_status_on_exception
        self.open.append(Span(self.spans, name, self.open[-1] if self.open else None))
        yield self.open[-1]
        self.open.pop()


def test_spans_have_the_call_and_its_steps_and_nothing_else():
    tracer = Tracer()
    with tracer.start_as_current_span(
        "call", record_exception=False, set_status_on_exception=False
    ) as span:
        trace = call_trace.CallTrace(span, tracer)
        with trace.step("learn"), trace.step("commit"):
            pass
        trace.end(method="POST", route="/v1/campaigns/{name}/close", status=200, campaign="spring")
    assert [each.name for each in tracer.spans] == [
        "POST /v1/campaigns/{name}/close", "learn", "commit",
    ]  # fmt: skip
    assert tracer.spans[2].parent is tracer.spans[1]
    assert span.attributes == {
        "http.request.method": "POST", "http.route": "/v1/campaigns/{name}/close",
        "http.response.status_code": 200, "seqbatch.campaign": "spring",
    }  # fmt: skip
    assert not tracer.spans[1].attributes
