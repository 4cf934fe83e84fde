"""Settings of the service: limits on calls."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The limits of a service.

    Parameters
    ----------
    json_bytes, file_bytes
        Maximum size of a JSON body, and of a file of units or outcomes.
    file_rows
        Maximum number of rows in a file.
    connections
        How many connections each worker keeps open.
    head_seconds
        How long the head of a request may take to arrive.
    body_seconds
        How long a body may take to arrive.
    seconds
        How long a plan, findings, a report or an export may take.
    file_seconds
        How long it may take to read and process a file of units or outcomes.
    at_once
        How many of these may run at the same time; further calls must be retried later.
    plans_at_once
        How many plans may run at the same time, in addition to these.
    rate, burst
        Calls per second that each token may make in the long run, and at once after a pause. Each
        worker counts separately.
    wrong_tokens
        How many wrong tokens an address may send per minute. Above the limit, the address can still
        use valid tokens that are cached, but other tokens are not checked.
    token_seconds
        How long a token is cached; a revoked token is refused after this time at the latest.
    session_seconds
        How long a dashboard session lasts.
    upload_seconds, uploads
        How long the dashboard keeps an uploaded file until it is confirmed, and how many files per
        session. The files of a session have at most `file_bytes` in total.
    upload_bytes
        Maximum total size of these files for all sessions.
    plans
        How many of the dashboard's latest plans are cached.
    """

    json_bytes: int = 8 << 20
    file_bytes: int = 1 << 30
    file_rows: int = 1_000_000
    connections: int = 1_000
    head_seconds: float = 10.0
    body_seconds: float = 300.0
    seconds: float = 120.0
    file_seconds: float = 300.0
    at_once: int = 4
    plans_at_once: int = 2
    rate: float = 1_000.0
    burst: int = 2_000
    wrong_tokens: int = 100
    token_seconds: float = 5.0
    session_seconds: float = 12 * 3600.0
    upload_seconds: float = 3600.0
    uploads: int = 4
    upload_bytes: int = 4 << 30
    plans: int = 64

    def as_text(self) -> str:
        """Return the settings as text, to pass them to worker processes."""
        return json.dumps(vars(self))

    @classmethod
    def of_text(cls, text: str) -> "Settings":
        """Return the settings from the text of :meth:`as_text`."""
        return cls(**json.loads(text))

    def changed(self, words: Sequence[str]) -> "Settings":
        """Return settings with changes such as ``"rate=50"``.

        >>> Settings().changed(["rate=50", "file_rows=2_000_000"]).file_rows
        2000000
        """
        kinds = {name: type(value) for name, value in vars(Settings()).items()}
        values = {}
        for word in words:
            name, _, value = word.partition("=")
            if name not in kinds:
                raise InvalidArgumentError("limit", f"one of {', '.join(kinds)}", repr(name))
            try:
                values[name] = kinds[name](value)
            except ValueError:
                values[name] = 0
            if not 0 < values[name] < float("inf"):
                kind = "whole number" if kinds[name] is int else "number"
                raise InvalidArgumentError("limit", f"{name}=N with N a {kind} above 0", repr(word))
        return replace(self, **values)
