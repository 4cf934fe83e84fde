"""Errors as pages, for those who look at pages; all others get a problem document."""

from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.wording import for_people
from seqbatch.service.problems import TITLES, ProblemError, document

#: Addresses that programs call, whatever they say they accept.
PROGRAMS = ("/v1", "/health", "/ready", "/metrics")


def answered(request: Request, problem: ProblemError) -> Response:
    """Answer with a problem: a page to a browser, a document to a program."""
    path = request.url.path
    if path.startswith(PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        return document(problem)
    if problem.status == 401 and request.method == "GET":
        return _sign_in(request)
    return page(
        request,
        "failed.html",
        status_code=problem.status,
        title=TITLES[problem.kind],
        problem=problem,
        said=for_people(problem.detail),
        name=_campaign(request),
    )


def _sign_in(request: Request) -> Response:
    """Ask for a token; first see whether a link from elsewhere hid that there is a session."""
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        # Browsers keep strict cookies back on links from elsewhere, and send them on the next step.
        return page(request, "arriving.html")
    query = f"?{request.url.query}" if request.url.query else ""
    wanted = urlencode({"next": f"{request.url.path}{query}"})
    return RedirectResponse(f"/sign-in?{wanted}" if wanted != "next=%2F" else "/sign-in", 303)


def _campaign(request: Request) -> str:
    """Return the campaign that a page was about and may be seen, "" where there is none."""
    name = request.path_params.get("name", "")
    visitor = getattr(request.state, "visitor", None)
    return name if visitor is not None and visitor.token.sees(name) else ""
