"""Settings: the limits on calls."""

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
        The longest body of JSON, and of a file of units or outcomes.
    file_rows
        The most rows of a file.
    body_seconds
        How long a body may take to arrive.
    seconds
        How long a plan, findings, a report or an export may take.
    file_seconds
        How long a file of units or outcomes may take to be read and decided on.
    at_once
        How many of those may run at a time; more are asked to come again.
    rate, burst
        How many calls a second each token may make for long, and at once after a pause. Each worker
        counts for itself.
    wrong_tokens
        How many wrong tokens an address may send a minute. Who uses a right one goes on meanwhile;
        one that was not used lately is not looked at.
    token_seconds
        How long what is known of a token is believed: a revoked one is refused after that.
    session_seconds
        How long somebody stays signed in to the dashboard.
    upload_seconds, uploads
        How long the dashboard keeps a file between its check and its confirmation, and how many of
        them for each session; no more than `file_bytes` for each session in all.
    upload_bytes
        How much it keeps so for all sessions.
    plans
        How many of the dashboard's latest plans are remembered.
    """

    json_bytes: int = 8 << 20
    file_bytes: int = 1 << 30
    file_rows: int = 1_000_000
    body_seconds: float = 300.0
    seconds: float = 120.0
    file_seconds: float = 300.0
    at_once: int = 4
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
        """Return them as a text, for the processes of a service."""
        return json.dumps(vars(self))

    @classmethod
    def of_text(cls, text: str) -> "Settings":
        """Return what :meth:`as_text` made a text of."""
        return cls(**json.loads(text))

    def changed(self, words: Sequence[str]) -> "Settings":
        """Return other settings, by words such as ``"rate=50"``.

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
                raise InvalidArgumentError("limit", f"{name}=N, N a {kind} above 0", repr(word))
        return replace(self, **values)
