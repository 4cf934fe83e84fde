"""How pages make the steps of a campaign: signed by the token, once for each form."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from seqbatch.campaign import Campaign
from seqbatch.service.answering import again, placed, stepped
from seqbatch.service.pages.forms import ONCE, Form, kept_key
from seqbatch.service.pages.visitors import Visitor
from seqbatch.service.problems import ProblemError
from seqbatch.storage import answers
from seqbatch.storage.answers import Answer, Call
from seqbatch.storage.stores import SQLStore

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


def kept(store: SQLStore, visitor: Visitor, once: str, *, part: str = "") -> Answer:
    """Return the answer that a form of this token got."""
    call = Call(token=visitor.token.id, key=kept_key(once) + part, request="")
    found = answers.find(store, call) if once.isprintable() else None
    if found is None:
        raise ProblemError(
            404, "not-found", "there is no such answer, or none any more: they are kept for a week."
        )
    return found


def told(answer: Answer) -> dict[str, Any]:
    """Return what an answer says."""
    found: dict[str, Any] = json.loads(b"".join(answer.pieces))
    return found
