"""Dashboard sessions: cookies, the visitor's token, and CSRF protection of forms."""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from seqbatch.campaign.views.interim import Sight
from seqbatch.service import access, roles
from seqbatch.service.problems import ProblemError
from seqbatch.storage import tokens
from seqbatch.storage.tokens import Token

# ----------------------------------------------------------------------
# Visitors, CSRF tokens and cookies


SESSION, GUEST = "seqbatch", "seqbatch-guest"
LONGEST = 100


@dataclass(frozen=True)
class Visitor:
    """A signed-in visitor.

    Parameters
    ----------
    token
        The token used to sign in; its name signs the visitor's changes.
    secret
        The secret in the session cookie.
    """

    token: Token
    secret: str

    @property
    def csrf(self) -> str:
        """The CSRF token of the visitor's forms, unknown to other sites and sessions."""
        return form_token(self.secret)

    @property
    def key(self) -> str:
        """The key under which the session's data are stored."""
        return hashlib.sha256(f"kept {self.secret}".encode()).hexdigest()

    @property
    def sight(self) -> Sight:
        """What the visitor may see of campaigns."""
        return roles.sight(self.token)

    def opens(self, page: str) -> bool:
        """Return whether the visitor may open a page, by its route in the table of roles."""
        return roles.may(self.token, roles.PAGES["GET", page])

    def may(self, permission: str) -> bool:
        """Return whether the visitor's role has a permission."""
        return roles.may(self.token, permission)


async def visitor(request: Request) -> Visitor:
    """Return the signed-in visitor; refuse if there is none or the page is not permitted."""
    if request.method != "GET":
        require_own_origin(request)
    secret, token = cookie(request, SESSION), None
    if secret:
        token = await run_in_threadpool(tokens.find_session, request.app.state.store, secret)
    if token is None:
        raise ProblemError(
            401, "unauthorised",
            "You are not signed in, or your session has ended. Nothing was done. Sign in and try "
            "again.",
        )  # fmt: skip
    found = Visitor(token, secret)
    request.state.visitor, request.state.owner = found, token.name
    request.app.state.rate.require(token.id)
    roles.require(token, request.method, request.scope["route"].path)
    if (name := request.path_params.get("name")) is not None:
        access.require_sight(token, name)
    return found


#: The visitor of a page.
Visiting = Annotated[Visitor, Depends(visitor)]


def form_token(secret: str) -> str:
    """Return the CSRF token for the session with this cookie."""
    return hmac.new(secret.encode(), b"form", hashlib.sha256).hexdigest()


def require_form_token(secret: str, received: str) -> None:
    """Refuse a form that was made for another session."""
    if not secret or not hmac.compare_digest(form_token(secret).encode(), received.encode()):
        raise ProblemError(
            403, "form-refused",
            "this form belongs to another session, or the session has ended. Nothing was done. "
            "Go back, reload the page and send the form again.",
        )  # fmt: skip


def require_own_origin(request: Request) -> None:
    """Refuse a form that was sent from another site."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    if site != "same-origin" or (
        origin is not None and origin.partition("://")[2] != request.headers.get("host")
    ):
        raise ProblemError(
            403, "form-refused",
            "this form was sent by a page of another site. Nothing was done. Behind a proxy, "
            "make sure that it forwards the header Host.",
        )  # fmt: skip


def cookie(request: Request, name: str) -> str:
    """Return the value of one of our cookies; "" if it is missing."""
    found = request.cookies.get(_name(request, name), "")
    return found if len(found) <= LONGEST and found.isascii() else ""


def set_cookie(
    request: Request, answer: Response, name: str, value: str, *, seconds: float = 0
) -> None:
    """Set or delete a cookie that scripts cannot read and other sites cannot send."""
    answer.set_cookie(
        _name(request, name), value, max_age=int(seconds), path="/", httponly=True,
        secure=request.url.scheme == "https", samesite="strict",
    )  # fmt: skip


def _name(request: Request, name: str) -> str:
    # With this prefix, browsers refuse the cookie from other hosts or without TLS.
    return f"__Host-{name}" if request.url.scheme == "https" else name
