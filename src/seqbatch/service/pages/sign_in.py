"""The sign-in page, sign-out, and static files."""

import secrets
from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from seqbatch.service.call_limits import Settings
from seqbatch.service.pages.forms import CSRF, read_fields, read_form
from seqbatch.service.pages.rendering import STATIC, page, static
from seqbatch.service.pages.session import (
    GUEST,
    SESSION,
    Visiting,
    Visitor,
    cookie,
    form_token,
    require_form_token,
    require_own_origin,
    set_cookie,
)
from seqbatch.service.pages.uploads import Uploads
from seqbatch.service.problems import ProblemError
from seqbatch.storage import tokens
from seqbatch.storage.tokens import Token

router = APIRouter(include_in_schema=False)

YEAR = 365 * 24 * 3600


@router.get("/static/{file}")
async def static_file(file: str) -> Response:
    """Return a static file; its URL changes with its content."""
    if file not in STATIC:
        raise ProblemError(404, "not-found", "this file does not exist.")
    headers = {"content-type": STATIC[file], "cache-control": f"public, max-age={YEAR}, immutable"}
    return Response(static(file), headers=headers)


@router.get("/sign-in")
async def sign_in_page(request: Request) -> Response:
    """Show the sign-in form, and set the cookie that it belongs to."""
    return _sign_in_page(request, local(request.query_params.get("next", "/")))


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Start a session for a token."""
    require_own_origin(request)
    form = await read_fields(request)
    require_form_token(cookie(request, GUEST), form.text(CSRF))
    wanted, access = local(form.text("next", "/")), request.app.state.access
    token: Token | None = await access.token(form.text("token"), request)
    if token is None:
        said = "This token is invalid, expired or revoked."
        return _sign_in_page(request, wanted, said=said, status=401)
    # Limit the rate, because every session is written to the store.
    request.app.state.rate.require(token.id)
    answer = RedirectResponse(wanted, status_code=303)
    seconds = _seconds(request.app.state.settings, token)
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    store = request.app.state.store
    secret = await run_in_threadpool(lambda: tokens.begin_session(store, token, until=until))
    # End the session that this one replaces: its cookie is lost, so it could not be signed out.
    if before := cookie(request, SESSION):
        await _end(request, Visitor(token, before))
    set_cookie(request, answer, SESSION, secret, seconds=seconds)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, visitor: Visiting) -> Response:
    """End the session, and delete its uploads."""
    await read_form(request, visitor)
    await _end(request, visitor)
    answer = RedirectResponse("/sign-in", status_code=303)
    set_cookie(request, answer, SESSION, "")
    return answer


async def _end(request: Request, visitor: Visitor) -> None:
    uploads: Uploads = request.app.state.uploads
    await run_in_threadpool(tokens.end_session, request.app.state.store, visitor.secret)
    await run_in_threadpool(uploads.drop, visitor.key)


def local(path: str) -> str:
    r"""Return a path of this service; "/" for a path that leads to another site.

    >>> local("/campaigns/spring"), local("//example.org"), local("/\\example.org"), local("x:y")
    ('/campaigns/spring', '/', '/', '/')
    """
    fine = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if fine and "\\" not in path else "/"


def _sign_in_page(request: Request, wanted: str, *, said: str = "", status: int = 200) -> Response:
    guest = cookie(request, GUEST) or secrets.token_urlsafe(24)
    answer = page(
        request, "sign_in.html", status_code=status, csrf=form_token(guest), next=wanted, said=said
    )
    set_cookie(request, answer, GUEST, guest, seconds=3600)
    return answer


def _seconds(settings: Settings, token: Token) -> float:
    """Return the duration of a session: the allowed time, but no longer than its token."""
    if not token.expires:
        return settings.session_seconds
    left = datetime.fromisoformat(token.expires) - datetime.now(UTC)
    return min(settings.session_seconds, left.total_seconds())
