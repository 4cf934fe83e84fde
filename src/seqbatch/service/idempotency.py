"""Idempotent calls: a repeated call with the same key gets the same answer."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from typing import Any

import sqlalchemy as sa
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from seqbatch.campaign import Campaign
from seqbatch.errors import CampaignStateError, SeqbatchError
from seqbatch.service.bodies import JSON
from seqbatch.service.problems import ProblemError
from seqbatch.service.roles import sight
from seqbatch.storage import answers
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token
from seqbatch.storage.transaction import SharedTransaction

KEY = "Idempotency-Key"
LONGEST_KEY = 255


class AnsweredError(SeqbatchError):
    """Ends a repeated call that already has a stored answer."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__()
        self.answer = answer


def plain(value: Any) -> Any:
    """Return plain values for JSON; NaN and infinity become None.

    >>> plain({"mean": float("nan"), "waves": (1, 2)})
    {'mean': None, 'waves': [1, 2]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_json(value: Any, *, status: int = 200) -> StoredAnswer:
    """Return a JSON answer."""
    content = json.dumps(plain(value), ensure_ascii=False, allow_nan=False).encode()
    return StoredAnswer(status=status, headers={"content-type": JSON}, pieces=[content])


def call_of(request: Request, token: Token, body: str) -> IdempotentCall | None:
    """Return the identity of an idempotent call; None if the client sent no key."""
    key = request.headers.get(KEY)
    if key is None:
        return None
    if not 1 <= len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise ProblemError(
            422, "invalid-argument",
            f"{KEY} must be 1 to {LONGEST_KEY} printable ASCII characters; received {len(key)}.",
        )  # fmt: skip
    asked = [request.method, request.url.path, request.url.query, body]
    hashed = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    return IdempotentCall(token=token.id, key=key, request=hashed)


def again(found: StoredAnswer | None, call: IdempotentCall) -> StoredAnswer | None:
    """Return the stored answer; refuse a key that was used for a different call."""
    if found is not None and found.request != call.request:
        raise ProblemError(
            422, "key-reused",
            f"{KEY} {call.key!r} was used for a different call; use a new key for a new call.",
        )  # fmt: skip
    return found


def changed(
    store: SQLStore,
    call: IdempotentCall | None,
    change: Callable[[SharedTransaction], StoredAnswer],
) -> StoredAnswer:
    """Make a change and store its answer in one transaction, or return the stored answer.

    Parameters
    ----------
    store
        The store.
    call
        The call under which the answer is stored; None to not store it.
    change
        Makes the change in the store that it receives.
    """
    if call is not None and (found := again(answers.find(store, call), call)):
        return found

    def begun(connection: sa.Connection) -> None:
        # Another call with the same key may have been answered while this one waited.
        if call is not None and (found := again(answers.found(connection, store, call), call)):
            raise AnsweredError(found)

    try:
        with SharedTransaction(store, begun=begun) as together:
            made = change(together)
            if call is not None and together.connection is not None:
                answers.keep(together.connection, call, made)
            return made
    except AnsweredError as known:
        return known.answer
    except CampaignStateError:
        # The campaign may exist because the same call created it.
        if call is not None and (found := again(answers.find(store, call), call)):
            return found
        raise


def stepped(
    store: SQLStore,
    name: str,
    token: Token,
    call: IdempotentCall | None,
    step: Callable[[Campaign], Any],
) -> StoredAnswer:
    """Run one step of a campaign, signed by the token, and answer with its result."""
    seen = sight(token)

    def made(base: SharedTransaction) -> StoredAnswer:
        campaign = Campaign(base, name, who=token.name, by_token=True, sight=seen)
        return as_json(step(campaign))

    return changed(store, call, made)


def sent(answer: StoredAnswer) -> Response:
    """Return the HTTP response of an answer; a long one is streamed in pieces."""
    headers = dict(answer.headers)
    if isinstance(answer.pieces, list):
        return Response(b"".join(answer.pieces), status_code=answer.status, headers=headers)
    return StreamingResponse(_begun(answer), status_code=answer.status, headers=headers)


def _begun(answer: StoredAnswer) -> Iterator[bytes]:
    yield from answer.pieces
