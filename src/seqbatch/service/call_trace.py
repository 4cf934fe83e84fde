"""Traces of calls: their slow steps for the log, and spans of OpenTelemetry where it is installed.

Traces are sent only if one of the usual environment variables asks for it. A span has a call's
method, route, status, campaign and request id, or the name of a step: no token, seed, query, body
or cell, and no message of an error.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import entry_points
from typing import Any

from starlette.types import Scope

from seqbatch.service.call_log import LOGGER
from seqbatch.timed_steps import heard_by

#: The environment variables that ask for traces.
EXPORTER = "OTEL_TRACES_EXPORTER"
ASKING = (EXPORTER, "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: A step that takes longer is named in the log of its call, in seconds.
SLOW_STEP = 0.5
#: Errors are recorded by their status alone: their messages may quote cells.
_PLAIN: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}


def start_traces() -> None:
    """Set up OpenTelemetry as its environment variables say, if one of them asks for traces."""
    asked = next((name for name in ASKING if os.environ.get(name)), None)
    if asked is None or _set_up():
        return
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        LOGGER.warning(
            f'{asked} is set, but there are no traces: pip install "seqbatch[telemetry]"'
        )
        return
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "seqbatch")
    # These read all other variables: the address, headers, resource, sampler and batches.
    provider = TracerProvider()
    for exporter in entry_points(group="opentelemetry_traces_exporter"):
        if exporter.name in _exporters():
            provider.add_span_processor(BatchSpanProcessor(exporter.load()()))
    trace.set_tracer_provider(provider)


def _exporters() -> list[str]:
    """Return the names of the exporters that the environment asks for, as packages call them."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf").partition("/")[0]
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol).partition("/")[0]
    names = os.environ.get(EXPORTER, "otlp").split(",")
    return [f"otlp_proto_{protocol}" if name.strip() == "otlp" else name.strip() for name in names]


def _set_up() -> bool:
    """Return whether something has set up OpenTelemetry in this process."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return False
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class CallTrace:
    """The steps of one call, and its span.

    Attributes
    ----------
    steps
        The seconds of its steps by name, without quick ones.
    """

    def __init__(self, span: Any, tracer: Any) -> None:
        self.steps: Counter[str] = Counter()
        self._span, self._tracer = span, tracer

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step."""
        began = time.perf_counter()
        tracer = self._tracer
        try:
            with nullcontext() if tracer is None else tracer.start_as_current_span(name, **_PLAIN):
                yield
        finally:
            if (seconds := time.perf_counter() - began) >= SLOW_STEP:
                self.steps[name] += seconds  # type: ignore[assignment]

    def end(self, *, method: str, route: str, status: int, campaign: str) -> None:
        """Complete the span of a call that has ended."""
        if self._span is None:
            return
        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.request.method", method)
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if campaign:
            self._span.set_attribute("seqbatch.campaign", campaign)
        if status >= 500:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR)


@contextmanager
def traced(scope: Scope, request: str) -> Iterator[CallTrace]:
    """Trace a call: yield its trace, which hears all steps in this context."""
    if not _set_up():
        trace = CallTrace(None, None)
        with heard_by(trace.step):
            yield trace
        return
    from opentelemetry import propagate
    from opentelemetry.trace import SpanKind, get_tracer

    tracer = get_tracer("seqbatch")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    kept = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
    with tracer.start_as_current_span(
        "call", context=propagate.extract(kept), kind=SpanKind.SERVER,
        attributes={"seqbatch.request": request}, **_PLAIN,
    ) as span:  # fmt: skip
        trace = CallTrace(span, tracer)
        with heard_by(trace.step):
            yield trace
