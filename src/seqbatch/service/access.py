"""Access control: authentication by token, and rate limits."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from seqbatch.service import roles
from seqbatch.service.call_limits import Settings
from seqbatch.service.problems import ProblemError
from seqbatch.storage import tokens
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token

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


# ----------------------------------------------------------------------
# Authentication


_bearer = HTTPBearer(
    auto_error=False, description="A token from `seqbatch token create`, as `Bearer sqb_...`."
)


@dataclass(frozen=True)
class CachedToken:
    """A token, and the time until which the cached entry is valid."""

    token: Token
    until: float


class Access:
    """Looks up tokens and caches each for a few seconds.

    Parameters
    ----------
    store
        The store of the tokens.
    settings
        How long a token is cached, and how many wrong ones an address may send.
    """

    MOST = 10_000

    def __init__(self, store: SQLStore, settings: Settings) -> None:
        self._store = store
        self._seconds = settings.token_seconds
        self._wrong = WrongTokens(settings.wrong_tokens)
        self._known: dict[str, CachedToken] = {}

    async def token(self, secret: str, request: Request) -> Token | None:
        """Return the token with this secret; None if it is unknown or no longer valid."""
        address = request.client.host if request.client else ""
        # Reject malformed tokens without a look-up in the store.
        possible = tokens.well_formed(secret)
        if not possible or tokens.hashed(secret) not in self._known:
            self._wrong.require_few(address)
        found = await self._found(secret) if possible else None
        if found is None:
            self._wrong.add(address)
        return found

    async def _found(self, secret: str) -> Token | None:
        kept, now = tokens.hashed(secret), time.monotonic()
        known = self._known.get(kept)
        if known is None or known.until < now:
            self._known.pop(kept, None)
            found = await run_in_threadpool(tokens.find, self._store, secret)
            if found is None:
                return None
            if len(self._known) >= self.MOST:
                self._known.clear()
            known = self._known[kept] = CachedToken(found, now + self._seconds)
        return known.token if known.token.state(datetime.now(UTC)) == "active" else None


async def caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Token:
    """Return the token of a call; refuse calls that the token does not permit."""
    access: Access = request.app.state.access
    token = None
    if given is not None:
        token = await access.token(given.credentials, request)
    if token is None:
        raise ProblemError(
            401, "unauthorised",
            "this needs a token that is neither expired nor revoked, in the header "
            "'Authorization: Bearer sqb_...'. Make one with: seqbatch token create",
            headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip
    request.app.state.rate.require(token.id)
    roles.require(token, request.method, request.scope["route"].path)
    name = request.path_params.get("name")
    if name is not None:
        require_sight(token, name)
    _require_known_parameters(request)
    return token


def _require_known_parameters(request: Request) -> None:
    """Refuse unknown parameters: a misspelled one would be ignored."""
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    odd = next((name for name in given if name not in known or given.count(name) > 1), None)
    if odd is not None:
        there = ", ".join(sorted(known)) or "none"
        raise ProblemError(
            422, "invalid-argument",
            f"each parameter must be one of {there}, given once; received {odd[:100]!r}.",
        )  # fmt: skip


#: The token of a call.
Caller = Annotated[Token, Depends(caller)]


def require_sight(token: Token, campaign: str) -> None:
    """Refuse a campaign outside the token's scope, with the message for an unknown campaign."""
    if not token.sees(campaign):
        raise ProblemError(
            404, "unknown-campaign", "the campaign does not exist, or this token may not see it."
        )
