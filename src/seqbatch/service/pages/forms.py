"""Forms: read within bounds, applied once, or tried and rolled back."""

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
from seqbatch.service.idempotency import LONGEST_KEY, again, placed, stepped
from seqbatch.service.pages.session import Visitor, require_form_token
from seqbatch.service.problems import ProblemError
from seqbatch.storage import answers
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.transaction import SharedTransaction

# ----------------------------------------------------------------------
# Forms as they are sent: within bounds, made by us for this session, each of them once.


FORM = "application/x-www-form-urlencoded"
#: The longest form without a file, and the most fields of one.
BYTES, FIELDS = 512 << 10, 300
#: The fields that every form carries, and that are no part of what is asked.
CSRF, ONCE = "csrf", "once"
#: What may be one number with thousands or several sizes: 1,500.
UNCLEAR = re.compile(r"(?<!\d)\d{1,3}(?:,\d{3})+(?!\d)")


@dataclass(frozen=True)
class Form:
    """What was filled in.

    Parameters
    ----------
    fields
        Names and values, in the order of the form.
    """

    fields: Sequence[tuple[str, str]] = field(default_factory=list)

    def text(self, name: str, default: str = "") -> str:
        """Return what a field holds, without spaces around it."""
        return next((value for key, value in self.fields if key == name), default).strip()

    def every(self, name: str) -> list[str]:
        """Return what all fields of a name hold: the boxes that were ticked."""
        return [value for key, value in self.fields if key == name]

    def ticked(self, name: str) -> bool:
        """Say whether a box was ticked."""
        return bool(self.text(name))

    def whole(self, name: str) -> int | None:
        """Return a whole number, None where the field is empty."""
        text = self.text(name).replace(",", "").replace(" ", "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise _no_number(name, "a whole number", text) from None

    def number(self, name: str) -> float | None:
        """Return a number, None where the field is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            raise _no_number(name, "a number", text) from None

    def call(self, request: Request, visitor: Visitor) -> IdempotentCall:
        """Return what the answer is kept under: the same form sent again gets it again."""
        key = self.text(ONCE)
        if not 8 <= len(key) <= LONGEST_KEY - 10 or not key.isascii() or not key.isprintable():
            raise ProblemError(422, "form-refused", f"the form must carry its field {ONCE!r}.")
        asked = [(name, value) for name, value in self.fields if name != CSRF]
        said = json.dumps([request.method, request.url.path, asked])
        return IdempotentCall(
            token=visitor.token.id,
            key=kept_key(key),
            request=hashlib.sha256(said.encode()).hexdigest(),
        )


def in_percent(said: str) -> str:
    """Return what is said of a share where it was typed in percent."""
    return f"{said} (1 is 100%)"


def kept_key(once: str) -> str:
    """Return the key of a form's answer, apart from those of clients, which are printable."""
    return f"page\n{once}"


async def read_form(request: Request, visitor: Visitor) -> Form:
    """Return a form that this session was given."""
    form = await read_fields(request)
    require_form_token(visitor.secret, form.text(CSRF))
    return form


async def read_fields(request: Request) -> Form:
    """Return a form, whoever made it."""
    if media_type(request) != FORM:
        raise ProblemError(415, "unsupported", f"the body must be a form of {FORM}.")
    content = b"".join([piece async for piece in pieces(request, BYTES)])
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
# How pages make the steps of a campaign: signed by the token, once for each form.


#: What is added to the key of an answer for a file that came of the same form.
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
    """Make a step of a campaign and lead to the page that says what was done.

    The answer is kept with the change. The same form, sent again by a double click or a reload,
    changes nothing and leads to the same page.

    Parameters
    ----------
    request, visitor, form
        The call, who makes it, and its form.
    name
        The campaign.
    step
        Makes the step; what it returns is kept as JSON.
    did
        What the step is called on that page.
    long
        Whether it reads a file, of which few run at once.
    """
    store, call = request.app.state.store, form.call(request, visitor)

    def made(campaign: Campaign) -> dict[str, Any]:
        return {"did": did, "result": step(campaign)}

    run = partial(stepped, store, name, visitor.token, call, made)
    await (placed(request, run) if long else run_in_threadpool(run))
    return done_at(name, form)


def done_at(name: str, form: Form) -> RedirectResponse:
    """Lead to the page that says what a form has done."""
    return RedirectResponse(f"/campaigns/{name}/done/{form.text(ONCE)}", status_code=303)


async def done_before(request: Request, visitor: Visitor, form: Form) -> bool:
    """Say whether the same form was answered already, and then maybe without what it needs now."""
    call = form.call(request, visitor)
    found = await run_in_threadpool(answers.find, request.app.state.store, call)
    return again(found, call) is not None


def kept(store: SQLStore, visitor: Visitor, once: str, *, part: str = "") -> StoredAnswer:
    """Return the answer that a form of this token got."""
    call = IdempotentCall(token=visitor.token.id, key=kept_key(once) + part, request="")
    found = answers.find(store, call) if once.isprintable() else None
    if found is None:
        raise ProblemError(
            404, "not-found", "there is no such answer, or none any more: they are kept for a week."
        )
    return found


def told(answer: StoredAnswer) -> dict[str, Any]:
    """Return what an answer says."""
    found: dict[str, Any] = json.loads(b"".join(answer.pieces))
    return found


# ----------------------------------------------------------------------
# Steps that are made and taken back: what they would do, and nothing is kept.


T = TypeVar("T")


class _TakenBackError(Exception, Generic[T]):
    """Ends a transaction of which nothing is to be kept but the answer."""

    def __init__(self, result: T) -> None:
        super().__init__()
        self.result = result


def tried(store: SQLStore, name: str, step: Callable[[Campaign], T]) -> T:
    """Return what a step of a campaign would return; whatever it did is taken back.

    Parameters
    ----------
    store
        The store.
    name
        The campaign.
    step
        Makes the step.
    """
    try:
        with SharedTransaction(store) as together:
            raise _TakenBackError(step(Campaign(together, name, who="nobody")))
    except _TakenBackError as done:
        result: T = done.result
        return result
