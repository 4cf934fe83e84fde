"""Errors as problem documents (RFC 9457)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from seqbatch.errors import (
    BatchRuleError,
    CampaignStateError,
    InvalidArgumentError,
    InvalidFileError,
    InvalidSpecError,
    OutputError,
    Refusal,
    Remedy,
    SeqbatchError,
    StoreError,
    UncertainCommitError,
    UnknownCampaignError,
    Words,
)

# ----------------------------------------------------------------------
# Remedies in terms of API calls


def in_calls(remedy: Remedy) -> str:
    """Return the text of a remedy in terms of API calls, to append to a message.

    >>> in_calls(Remedy("close", force=True, reason=...))
    ': force = true, with a reason.'
    >>> in_calls(Remedy("amend", metrics={"sales": {"format": "1.234,56"}}, reason=...))
    ' an amendment with metrics {"sales": {"format": "1.234,56"}} and a reason'
    """
    match remedy.action:
        case "draw" | "partial":
            return f" ({remedy.action} = true)"
        case "close" | "record-sums" if "force" in remedy.options:
            return ": force = true, with a reason."
        case "delete":
            return ": force = true."
        case "force":
            return " If that is intended, add force = true."
        case "record":
            said = ", ".join(f"{name} = {json.dumps(v)}" for name, v in remedy.options.items())
            return f" ({said})"
        case "dedupe":
            return f': dedupe = "{remedy.options["dedupe"]}" (or "first", or "newest-by COLUMN").'
        case "skip-rows":
            return f": skip_rows = {remedy.options['skip_rows']}."
        case "amend":
            return f" an amendment with {amendment(remedy)}"
        case "overwrite":
            return "."
        case _:
            return ""


def amendment(remedy: Remedy) -> str:
    """Return a text with the fields of an amendment's body, including a reason."""
    fields = {name: value for name, value in remedy.options.items() if name != "reason"}
    said = ", ".join(f"{name} {json.dumps(v, ensure_ascii=False)}" for name, v in fields.items())
    return f"{said} and a reason"


# ----------------------------------------------------------------------
# Problem documents


MEDIA_TYPE = "application/problem+json"
#: Maximum number of listed problems of a file; the text gives their total number.
LISTED = 100

#: The status and type of each kind of error, subclasses first.
KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (UnknownCampaignError, 404, "unknown-campaign"),
    (CampaignStateError, 409, "wrong-state"),
    (BatchRuleError, 409, "wrong-state"),
    (InvalidSpecError, 422, "invalid-spec"),
    (InvalidFileError, 422, "invalid-rows"),
    (InvalidArgumentError, 422, "invalid-argument"),
    (UncertainCommitError, 503, "uncertain-commit"),
    (StoreError, 503, "store-failed"),
    (SeqbatchError, 500, "failed"),
)
TITLES = {
    "unknown-campaign": "Unknown campaign",
    "wrong-state": "The campaign's state does not allow this",
    "invalid-spec": "The spec breaks a rule",
    "invalid-rows": "The rows break rules",
    "invalid-argument": "A value breaks a rule",
    "store-failed": "The store failed",
    "uncertain-commit": "The change may or may not have been stored",
    "failed": "The call failed",
    "invalid-body": "The body breaks a rule",
    "unauthorised": "A valid token is needed",
    "form-refused": "The form cannot be accepted",
    "forbidden": "The token may not do this",
    "not-found": "Nothing found at this address",
    "not-allowed": "Method not allowed at this address",
    "too-large": "The body is too large",
    "too-slow": "The call took too long",
    "busy": "The service is busy",
    "client-gone": "The client disconnected",
    "too-many": "Too many calls with this token",
    "wrong-tokens": "Too many invalid tokens",
    "unsupported": "This file type is not supported",
    "key-reused": "The idempotency key was used for another call",
}


class Place(BaseModel):
    """A problem, and where it is."""

    model_config = ConfigDict(extra="allow")
    reason: str = Field(examples=["must be a number; received 'abc'"])


class RemedyDocument(BaseModel):
    """What can be done instead."""

    action: str = Field(examples=["close"])
    options: dict[str, Any] = Field(
        description="Fields of the body; fill in those that are null.",
        examples=[{"force": True, "reason": None}],
    )


class ProblemDocument(BaseModel):
    """What went wrong, why, and what to do (RFC 9457)."""

    type: str = Field(examples=["urn:seqbatch:wrong-state"])
    title: str = Field(examples=["The campaign's state does not allow this"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["wave 1 of campaign spring has room for 0 more units; ..."])
    code: str = Field(
        description="The kind of refusal, for programs; it does not change when the wording does.",
        examples=["wave-full"],
    )
    field: str | None = Field(
        default=None, description="The field, setting or column in question.",
        examples=["reason"],
    )  # fmt: skip
    remedies: list[RemedyDocument] | None = None
    errors: list[Place] | None = None


class ProblemError(SeqbatchError):
    """An answer that is a problem document.

    Parameters
    ----------
    status, kind
        The HTTP status and the type of the problem.
    why
        The text, or the library's error.
    field
        The field that a text is about.
    errors
        The individual errors, each with its place.
    headers
        Headers of the answer.
    hidden
        The store's name, which is removed from the text.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        why: str | Refusal,
        *,
        field: str = "",
        errors: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
        hidden: str = "",
    ) -> None:
        self._refuse(Refusal(kind, (why,), field) if isinstance(why, str) else why)
        self.status = status
        self.kind = kind
        self.errors = errors
        self.headers = headers
        self._hidden = hidden

    def said(self, words: Words) -> str:
        """Return the problem's text; `words` turns remedies into text."""
        text = self.refusal.text(words)
        return text.replace(self._hidden, "the store") if self._hidden else text

    @property
    def detail(self) -> str:
        """The problem's text for API clients."""
        return self.said(in_calls)


def problem_of(error: SeqbatchError, label: str) -> ProblemError:
    """Convert an error of the library to a problem, without the store's name."""
    if isinstance(error, ProblemError):
        return error
    status, kind = next((s, k) for known, s, k in KINDS if isinstance(error, known))
    why, places = error.refusal, None
    if isinstance(error, UnknownCampaignError):
        # The caller may not be allowed to see the names of other campaigns.
        told = "the campaign does not exist, or this token may not see it."
        why = Refusal(error.code, (told,))
    if isinstance(error, OutputError):
        # A call and its answer are one transaction: the library's changes are rolled back.
        told = "the answer could not be written; nothing was done. Make the same call again."
        why = Refusal(error.code, (told,))
    if isinstance(error, InvalidFileError):
        places = error.plain_problems()[:LISTED]
    return ProblemError(status, kind, why, errors=places, hidden=label)


def client_gone() -> ProblemError:
    """Return the problem of a call whose client disconnected before the answer.

    No client sees it. It appears in the counts of answers, with the status that nginx uses.
    """
    return ProblemError(499, "client-gone", "the client disconnected before its answer.")


def invalid(errors: Sequence[Any]) -> ProblemError:
    """Return the problem for values that fail a model's validation."""
    places = [
        {"field": ".".join(str(part) for part in each["loc"]), "reason": each["msg"]}
        for each in errors[:20]
    ]
    said = "; ".join(f"{each['field'] or 'body'}: {each['reason']}" for each in places[:5])
    return ProblemError(
        422, "invalid-body", f"{said}.", field=places[0]["field"] if places else "", errors=places
    )


def document(problem: ProblemError) -> JSONResponse:
    """Return the problem document as a JSON response."""
    content: dict[str, Any] = {
        "type": f"urn:seqbatch:{problem.kind}",
        "title": TITLES[problem.kind],
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
    }
    if problem.field:
        content["field"] = problem.field
    if problem.remedies:
        content["remedies"] = [remedy.plain() for remedy in problem.remedies]
    if problem.errors is not None:
        content["errors"] = problem.errors
    return JSONResponse(
        content, status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers
    )


def handle(app: FastAPI, label: str, answered: Callable[[Request, ProblemError], Response]) -> None:
    """Register handlers that answer every error with a problem document or an error page."""

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, SeqbatchError)
        return answered(request, problem_of(error, label))

    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = {404: "not-found", 405: "not-allowed"}.get(error.status_code, "invalid-body")
        headers = dict(error.headers or {})
        problem = ProblemError(error.status_code, kind, f"{error.detail}.", headers=headers)
        return answered(request, problem)

    async def parameter(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answered(request, invalid(error.errors()))

    async def gone(request: Request, _error: Exception) -> Response:
        return answered(request, client_gone())

    async def unforeseen(request: Request, _error: Exception) -> Response:
        failed = ProblemError(
            500, "failed", "an unexpected error occurred; see the log of the service."
        )
        return answered(request, failed)

    app.add_exception_handler(ProblemError, known)
    app.add_exception_handler(SeqbatchError, known)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(RequestValidationError, parameter)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, unforeseen)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route's problems."""
    said = {
        400: "The body or a parameter cannot be read.",
        401: "No valid token.",
        403: "The token may not do this.",
        404: "The campaign does not exist, or the token may not see it.",
        408: "The body took too long to arrive.",
        409: "The campaign's state does not allow this.",
        413: "The body is too large.",
        415: "The body's content type is not supported.",
        422: "A value breaks a rule.",
        429: "Too many calls; try again after Retry-After seconds.",
        503: "The store failed, or the call took too long; you can repeat the call.",
    }
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    if 413 in statuses:
        statuses = (408, *statuses)
    return {
        status: {"description": said[status], "content": {MEDIA_TYPE: schema}}
        for status in (401, 403, *statuses, 422, 429, 503)
    }
