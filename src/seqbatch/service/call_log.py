"""The service's log: one line for each call that failed, was refused or was slow; or for all.

A line holds what an operator needs to find a call again, and nothing from the campaign: no token,
seed, query, body or cell. The request's id is in the answer as well (`X-Request-ID`), and a client
may choose it.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from starlette.types import Scope

from seqbatch.display import visible
from seqbatch.errors import InvalidArgumentError

LOGGER = logging.getLogger("seqbatch.service")
FORMATS, LEVELS = ("text", "json"), ("debug", "info", "warning", "error")
#: Environment variables of worker processes.
FORMAT, LEVEL = "SEQBATCH_SERVICE_LOG_FORMAT", "SEQBATCH_SERVICE_LOG_LEVEL"
#: A call that takes longer is logged as slow, in seconds.
SLOW = 5.0
#: Refusals that an operator should hear of.
REFUSED = {
    401: "no valid token", 403: "not permitted", 429: "too many calls", 503: "not available",
}  # fmt: skip
#: Calls that monitors make all the time.
MONITORS = ("/health", "/ready", "/metrics")
#: An id that a client may choose for its request.
CHOSEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
HEADER = b"x-request-id"


def request_id(scope: Scope) -> str:
    """Return the client's id of a request, if it is a plain one, or a new one."""
    given = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return given.decode() if CHOSEN.fullmatch(given) else uuid4().hex


def log_call(
    scope: Scope,
    *,
    request: str,
    route: str,
    status: int,
    seconds: float,
    steps: Mapping[str, float],
) -> None:
    """Log a call that has ended, with the seconds of its slow steps."""
    event, level = _kind(route, status, seconds)
    if not LOGGER.isEnabledFor(level):
        return
    state = scope.get("state", {})
    call: dict[str, Any] = {
        "request": request, "method": scope["method"], "route": route, "status": status,
        "seconds": round(seconds, 4), "owner": state.get("owner", ""),
        "campaign": scope.get("path_params", {}).get("name", ""),
    }  # fmt: skip
    if steps:
        call["steps"] = {name: round(own, 4) for name, own in steps.items()}
    if status == 401:
        call["address"] = (scope.get("client") or ("",))[0]
    LOGGER.log(level, event, extra={"call": call})


def _kind(route: str, status: int, seconds: float) -> tuple[str, int]:
    """Return what to call a call in the log, and its level."""
    if status >= 500 and status not in REFUSED:
        return "call failed", logging.ERROR
    if status in REFUSED:
        signing_in = status == 401 and route == "/sign-in"
        return "sign-in failed" if signing_in else REFUSED[status], logging.WARNING
    if seconds > SLOW:
        return "slow call", logging.WARNING
    return "call", logging.DEBUG if route in MONITORS else logging.INFO


class Lines(logging.Formatter):
    """Writes each record as one line, of text or of JSON.

    Parameters
    ----------
    kind
        One of FORMATS.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; a traceback follows in text, and is inside JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        call = getattr(record, "call", {})
        line = {"time": at, "level": record.levelname.lower(), "event": record.getMessage(), **call}
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._kind == "json":
            return json.dumps(line | ({"traceback": trace} if trace else {}), ensure_ascii=False)
        said = " ".join(f"{name}={value}" for name, value in call.items() if value != "")
        head = visible(f"{at} {line['level']} {line['event']} {said}".rstrip())
        return f"{head}\n{trace}" if trace else head


def start_log(*, kind: str, level: str) -> None:
    """Write the log of this process to standard error."""
    for name, value, known in (("log-format", kind, FORMATS), ("log-level", level, LEVELS)):
        if value not in known:
            raise InvalidArgumentError(name, f"one of {', '.join(known)}", repr(value))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(kind))
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
    LOGGER.setLevel(level.upper())
    # The server's own messages about its start and its end are of use to developers alone.
    logging.getLogger("uvicorn").setLevel("INFO" if level == "debug" else "WARNING")
