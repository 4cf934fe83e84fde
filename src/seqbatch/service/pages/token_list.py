"""The page of tokens and roles: admins create and revoke tokens; a secret is shown once."""

from datetime import UTC, date, datetime, time

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from seqbatch.errors import InvalidArgumentError
from seqbatch.service.pages.forms import Form, read_form
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.problems import ProblemError
from seqbatch.service.roles import ABOUT
from seqbatch.storage import tokens
from seqbatch.storage.stores import SQLStore

router = APIRouter(include_in_schema=False)


@router.get("/tokens")
async def listed(request: Request, visitor: Visiting) -> Response:
    """List all tokens, without their secrets."""
    return await _shown(request, visitor)


@router.post("/tokens")
async def create(request: Request, visitor: Visiting) -> Response:
    """Create a token, and show its secret on this page alone: it is not stored.

    The form and its session make the secret. A form sent twice shows the same one.
    """
    _require_all(visitor)
    form = await read_form(request, visitor)
    try:
        secret, made = await run_in_threadpool(
            lambda: _created(request.app.state.store, visitor, form)
        )
    except InvalidArgumentError as error:
        return await _shown(request, visitor, form=form, refused=str(error))
    return await _shown(request, visitor, secret=secret, made=made)


@router.post("/tokens/revoke")
async def revoke(request: Request, visitor: Visiting) -> Response:
    """Revoke a token; it opens nothing any more, and its sessions end."""
    _require_all(visitor)
    form = await read_form(request, visitor)
    if form.text("id") == visitor.token.id:
        raise ProblemError(
            422, "invalid-argument",
            "this is the token you signed in with: sign in with another one to revoke it.",
        )  # fmt: skip
    await run_in_threadpool(tokens.revoke, request.app.state.store, form.text("id"))
    return RedirectResponse("/tokens", status_code=303)


def _require_all(visitor: Visitor) -> None:
    """Refuse a token for some campaigns: it could make one for all of them."""
    if visitor.token.campaigns:
        raise ProblemError(
            403, "forbidden", "only an admin of all campaigns may see and change tokens."
        )


def _created(store: SQLStore, visitor: Visitor, form: Form) -> tuple[str, tokens.Token]:
    names = tuple(dict.fromkeys(form.every("campaign")))
    for name in names:
        if name not in store.names():
            raise InvalidArgumentError("campaign", "the name of a campaign", repr(name))
    seed = f"token\n{visitor.secret}\n{form.once}".encode()
    return tokens.create(
        store, form.text("name"), role=form.text("role"), campaigns=names,
        expires=_end_of(form.text("expires")), seed=seed,
    )  # fmt: skip


def _end_of(day: str) -> datetime | None:
    """Return the end of a day in UTC; None for no day."""
    if not day:
        return None
    try:
        return datetime.combine(date.fromisoformat(day), time.max, UTC)
    except ValueError:
        raise InvalidArgumentError("expires", "a day such as 2030-12-31", repr(day)) from None


async def _shown(
    request: Request,
    visitor: Visitor,
    *,
    secret: str = "",
    made: tokens.Token | None = None,
    form: Form | None = None,
    refused: str = "",
) -> Response:
    _require_all(visitor)
    store: SQLStore = request.app.state.store
    now = datetime.now(UTC)
    every = await run_in_threadpool(lambda: tokens.listed(store))
    return page(
        request, "tokens.html", status_code=422 if refused else 200, secret=secret, made=made,
        refused=refused, typed=form or Form(), roles=ABOUT,
        campaigns=await run_in_threadpool(store.names),
        tokens=[(one, one.state(now)) for one in reversed(every)],
    )  # fmt: skip
