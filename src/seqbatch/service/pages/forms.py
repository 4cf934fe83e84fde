"""Dashboard forms: read with size limits, applied once, or tried and rolled back."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from seqbatch.campaign import Campaign
from seqbatch.service.bodies import media_type, pieces
from seqbatch.service.idempotency import LONGEST_KEY, again, stepped
from seqbatch.service.long_calls import placed
from seqbatch.service.pages.session import Visitor, require_form_token
from seqbatch.service.problems import ProblemError
from seqbatch.storage import answers
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.transaction import SharedTransaction

# ----------------------------------------------------------------------
# Reading forms


FORM = "application/x-www-form-urlencoded"
#: Maximum size of a form without a file, and its maximum number of fields.
BYTES, FIELDS = 512 << 10, 3_000
#: Technical fields of every form, which are not part of its content.
CSRF, ONCE = "csrf", "once"
#: Ambiguous text such as 1,500: a thousands separator, or two sizes.
UNCLEAR = re.compile(r"(?<!\d)\d{1,3}(?:,\d{3})+(?!\d)")
#: A number with marks between its thousands.
GROUPED = re.compile(r"[+-]?\d{1,3}(?:[, ]\d{2,3})*[, ]\d{3}(?:\.\d+)?")


def ungrouped(text: str) -> str:
    """Return a number without the marks between its thousands; other text is unchanged.

    >>> ungrouped("12,500"), ungrouped("1 000 000.5"), ungrouped("2,5")
    ('12500', '1000000.5', '2,5')
    """
    return re.sub("[, ]", "", text) if GROUPED.fullmatch(text) else text


@dataclass(frozen=True)
class Form:
    """The content of a form.

    Parameters
    ----------
    fields
        Names and values, in the order of the form; lines end with a line feed.
    """

    fields: Sequence[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Browsers send every line break as a carriage return and a line feed.
        unix = [(name, value.replace("\r\n", "\n")) for name, value in self.fields]
        object.__setattr__(self, "fields", unix)

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a field, without surrounding spaces."""
        return next((value for key, value in self.fields if key == name), default).strip()

    def every(self, name: str) -> list[str]:
        """Return the values of all fields with a name, such as ticked boxes."""
        return [value for key, value in self.fields if key == name]

    def ticked(self, name: str) -> bool:
        """Return whether a box was ticked."""
        return bool(self.text(name))

    def whole(self, name: str) -> int | None:
        """Return a whole number; None if the field is empty."""
        text = ungrouped(self.text(name))
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise _no_number(name, "a whole number", text) from None

    def number(self, name: str) -> float | None:
        """Return a number; None if the field is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            raise _no_number(name, "a number", text) from None

    @property
    def once(self) -> str:
        """The form's random name, the same whenever it is sent again."""
        key = self.text(ONCE)
        if not 8 <= len(key) <= LONGEST_KEY - 10 or not key.isascii() or not key.isprintable():
            raise ProblemError(422, "form-refused", f"the form must have the field {ONCE!r}.")
        return key

    def call(self, request: Request, visitor: Visitor) -> IdempotentCall:
        """Return the identity of the call: the same form sent again gets the same answer."""
        key = self.once
        asked = [(name, value) for name, value in self.fields if name != CSRF]
        said = json.dumps([request.method, request.url.path, asked])
        return IdempotentCall(
            token=visitor.token.id,
            key=kept_key(key),
            request=hashlib.sha256(said.encode()).hexdigest(),
        )


def in_percent(said: str) -> str:
    """Add to a message about a share that 1 means 100%, for a field in percent."""
    return f"{said} (1 is 100%)"


def kept_key(once: str) -> str:
    """Return the key of a form's answer, which cannot equal a client's printable key."""
    return f"page\n{once}"


async def read_form(request: Request, visitor: Visitor) -> Form:
    """Read a form; refuse it if it was made for another session."""
    form = await read_fields(request)
    require_form_token(visitor.secret, form.text(CSRF))
    return form


async def read_fields(request: Request) -> Form:
    """Read a form without checking its session."""
    if media_type(request) != FORM:
        raise ProblemError(415, "unsupported", f"the body must be a form of {FORM}.")
    seconds = request.app.state.settings.head_seconds
    content = b"".join([piece async for piece in pieces(request, BYTES, seconds=seconds)])
    try:
        text = content.decode("ascii")
        fields = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), errors="strict",
            max_num_fields=FIELDS,
        )  # fmt: skip
    except ValueError:
        raise ProblemError(422, "form-refused", "the form cannot be read.") from None
    return Form(fields)


def _no_number(name: str, rule: str, received: str) -> ProblemError:
    return ProblemError(
        422, "invalid-argument", f"{name} must be {rule}; received {received[:100]!r}."
    )


# ----------------------------------------------------------------------
# Applying forms: signed by the token, once per form


#: Suffix of an answer's key for a file that the same form produced.
FILE = "\nfile"


async def do(
    request: Request,
    visitor: Visitor,
    name: str,
    form: Form,
    step: Callable[[Campaign], Any],
    *,
    did: str,
    long: bool = False,
) -> RedirectResponse:
    """Run a step of a campaign and redirect to the page that shows the result.

    The answer is stored with the change. If the same form is sent again by a double click or a
    reload, nothing changes and the redirect leads to the same page.

    Parameters
    ----------
    request, visitor, form
        The request, its visitor and its form.
    name
        The campaign.
    step
        Runs the step; its result is stored as JSON.
    did
        The name of the step on that page.
    long
        Whether it reads a file; only a few such steps run at once.
    """
    store, call = request.app.state.store, form.call(request, visitor)

    def made(campaign: Campaign) -> dict[str, Any]:
        return {"did": did, "result": step(campaign)}

    run = partial(stepped, store, name, visitor.token, call, made)
    await (placed(request, run) if long else run_in_threadpool(run))
    return done_at(name, form)


def done_at(name: str, form: Form) -> RedirectResponse:
    """Redirect to the page that shows the result of a form."""
    return RedirectResponse(f"/campaigns/{name}/done/{form.text(ONCE)}", status_code=303)


async def done_before(request: Request, visitor: Visitor, form: Form) -> bool:
    """Return whether the form was already answered; the file it used may be gone by now."""
    call = form.call(request, visitor)
    found = await run_in_threadpool(answers.find, request.app.state.store, call)
    return again(found, call) is not None


def kept(store: SQLStore, visitor: Visitor, once: str, *, part: str = "") -> StoredAnswer:
    """Return the stored answer to a form of this token."""
    call = IdempotentCall(token=visitor.token.id, key=kept_key(once) + part, request="")
    found = answers.find(store, call) if once.isprintable() else None
    if found is None:
        raise ProblemError(
            404,
            "not-found",
            "this answer does not exist or has expired: answers are kept for a week.",
        )
    return found


def told(answer: StoredAnswer) -> dict[str, Any]:
    """Return the parsed content of an answer."""
    found: dict[str, Any] = json.loads(b"".join(answer.pieces))
    return found


# ----------------------------------------------------------------------
# Trying steps: run, then rolled back


T = TypeVar("T")


class _TakenBackError(Exception, Generic[T]):
    """Rolls back a transaction and carries its result."""

    def __init__(self, result: T) -> None:
        super().__init__()
        self.result = result


def tried(store: SQLStore, name: str, step: Callable[[Campaign], T]) -> T:
    """Return what a step of a campaign would return; its changes are rolled back.

    Parameters
    ----------
    store
        The store.
    name
        The campaign.
    step
        Runs the step.
    """
    try:
        with SharedTransaction(store) as together:
            raise _TakenBackError(step(Campaign(together, name, who="nobody")))
    except _TakenBackError as done:
        result: T = done.result
        return result
