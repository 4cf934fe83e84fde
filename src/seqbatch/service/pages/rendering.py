"""Pages from templates: everything escaped, nothing hidden, nothing fetched from elsewhere."""

import hashlib
import secrets
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from seqbatch.display import alike, cell, counted, number, visible

#: What a page may load and where its forms may go: its own server, and pictures within the page.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    # Without its own address a browser would not say where a form comes from.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
STATIC = {"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8"}


def shown(value: Any) -> Any:
    """Return what a template shows of a value: what cannot be seen is written out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def lines(text: str) -> Markup:
    """Return text of several lines, to be shown as such."""
    return Markup("\n").join(visible(line) for line in text.split("\n"))


@cache
def static(file: str) -> bytes:
    """Return a file that pages load."""
    return files(__package__).joinpath("static", file).read_bytes()


@cache
def address(file: str) -> str:
    """Return where a page finds a file; another content has another address."""
    return f"/static/{file}?v={hashlib.sha256(static(file)).hexdigest()[:12]}"


def once() -> str:
    """Return what names one sending of a form, however often it is sent."""
    return secrets.token_urlsafe(18)


@cache
def environment() -> Environment:
    """Return what makes pages of templates."""
    made = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=shown,
    )  # fmt: skip
    made.globals.update(address=address, once=once, counted=counted)
    made.filters.update(cell=cell, number=number, alike=alike, lines=lines)
    return made


def page(request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page.

    Parameters
    ----------
    request
        The call; who is signed in comes with it.
    template
        The template's name.
    status_code
        The answer's status.
    values
        What the template shows.
    """
    visitor = getattr(request.state, "visitor", None)
    text = (
        environment()
        .get_template(template)
        .render({"visitor": visitor, "here": request.url.path, **values})
    )
    return HTMLResponse(text, status_code=status_code, headers=HEADERS)
