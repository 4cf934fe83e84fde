"""Access control: authentication by token, and which campaigns a token may see."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from seqbatch.service import roles
from seqbatch.service.call_limits import Settings, WrongTokens
from seqbatch.service.problems import ProblemError
from seqbatch.storage import tokens
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token

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
    request.state.owner = token.name
    request.app.state.rate.require(token.id)
    roles.require(token, request.method, request.scope["route"].path)
    name = request.path_params.get("name")
    if name is not None:
        require_sight(token, name)
    _require_known_parameters(request)
    return token


def _require_known_parameters(request: Request) -> None:
    """Refuse unknown parameters: a misspelled one would be ignored."""
    route = request.scope["route"].dependant
    parts = (route, *route.dependencies)
    known = {each.alias for part in parts for each in part.query_params}
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
