"""Limits on calls: the settings of a service, and rate limits of tokens and addresses."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from seqbatch.errors import InvalidArgumentError
from seqbatch.service.problems import ProblemError


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
        How long the head of a request, or a form, may take to arrive.
    read_seconds
        How long a client may read nothing of an answer.
    body_seconds
        How long a body may take to arrive.
    seconds
        How long a plan, findings, a report or an export may take.
    file_seconds
        How long it may take to read and process a file of units or outcomes.
    at_once
        How many of these, and how many files, may run at the same time; further calls must be
        retried later.
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
    read_seconds: float = 60.0
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


# ----------------------------------------------------------------------
# Rate limits


class Rate:
    """Token-bucket rate limits of all API tokens, in one process.

    Parameters
    ----------
    rate
        Calls per second at which a bucket refills.
    burst
        Calls that a full bucket holds.
    clock
        Returns the time in seconds.

    Examples
    --------
    >>> seconds = iter([0.0, 0.0, 0.0, 1.0])
    >>> rate = Rate(1.0, 2, clock=lambda: next(seconds))
    >>> rate.wait("a"), rate.wait("a"), rate.wait("a"), rate.wait("a")
    (0.0, 0.0, 1.0, 0.0)
    """

    #: Number of tokens to remember; tokens without recent calls have full buckets.
    MOST = 10_000

    def __init__(
        self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, token: str, *, take: bool = True) -> float:
        """Take a call from a token's bucket; return 0, or the seconds until one is available."""
        now = self._clock()
        left, since = self._left.pop(token, (float(self._burst), now))
        left = min(left + (now - since) * self._rate, self._burst)
        missing = max(1.0 - left, 0.0)
        if len(self._left) >= self.MOST:
            self._left.pop(next(iter(self._left)))
        # Re-insert the token as the newest, so the least recently used one is dropped first.
        self._left[token] = (left - 1.0 if take and not missing else left, now)
        return missing / self._rate

    def require(self, token: str) -> None:
        """Refuse a call if the token's bucket is empty."""
        if seconds := self.wait(token):
            what = f"{self._rate:g} calls per second, in bursts of at most {self._burst:,}"
            raise _later("too-many", f"this token may make {what}; try again later.", seconds)


class WrongTokens:
    """Limits the wrong tokens from an address, because each costs a look-up in the store.

    Parameters
    ----------
    a_minute
        Wrong tokens that an address may send per minute.
    clock
        Returns the time in seconds.
    """

    def __init__(self, a_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = a_minute
        self._rate = Rate(a_minute / 60, a_minute, clock=clock)

    def require_few(self, address: str) -> None:
        """Refuse an address that has sent too many wrong tokens."""
        if seconds := self._rate.wait(address, take=False):
            what = f"this address sent more than {self._most:,} invalid tokens per minute"
            how = "try again later, with a token that `seqbatch token list` shows as active."
            raise _later("wrong-tokens", f"{what}; {how}", seconds)

    def add(self, address: str) -> None:
        """Count a wrong token."""
        self._rate.wait(address)


def _later(kind: str, text: str, seconds: float) -> ProblemError:
    return ProblemError(429, kind, text, headers={"Retry-After": str(math.ceil(seconds))})
