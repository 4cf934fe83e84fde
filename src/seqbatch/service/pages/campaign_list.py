"""The list of campaigns: search, order, owners, dates, and what each has shown so far."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.decision import DecisionCode
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.status import ListedCampaign, listed
from seqbatch.errors import CampaignStateError
from seqbatch.service.api_models import Name
from seqbatch.service.long_calls import bounded
from seqbatch.service.pages.rendering import Next, ViewCache, learned, next_of, page, standing
from seqbatch.service.pages.session import Visiting
from seqbatch.storage.stores import SQLStore

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Glance:
    """A campaign in the list, or the reason why it cannot be read.

    Parameters
    ----------
    name, now, next
        Its name, situation and next step.
    began, changed
        The times of its first and its newest event.
    failed
        Why it cannot be read.
    """

    name: str
    now: Situation | None = None
    next: Next | None = None
    began: str = ""
    changed: str = ""
    failed: str = ""

    @property
    def owner(self) -> str:
        """Who answers for it, as declared."""
        return (self.now.spec.owner or "") if self.now is not None else ""

    @property
    def question(self) -> str:
        """What it is to answer, as declared."""
        return (self.now.spec.question or "") if self.now is not None else ""

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.now is not None and self.now.condition != "open"

    def has(self, words: str) -> bool:
        """Return whether every word is in the name, the question or the owner."""
        text = f"{self.name} {self.question} {self.owner}".lower()
        return all(word in text for word in words.lower().split())


#: The orders of the list: a label, and the key by which campaigns are sorted.
ORDERS: dict[str, tuple[str, Callable[[Glance], Any]]] = {
    "next": ("Open first", lambda one: one.ended),
    "changed": ("Latest change first", lambda one: _descending(one.changed)),
    "began": ("Newest first", lambda one: _descending(one.began)),
    "name": ("Name", lambda one: one.name.lower()),
    "owner": ("Owner", lambda one: (not one.owner, one.owner.lower())),
}


def _descending(text: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in text)


@router.get("/")
async def campaigns(
    request: Request,
    visitor: Visiting,
    search: Annotated[str, Query(max_length=100)] = "",
    order: str = "next",
) -> Response:
    """List the campaigns that the token may see, open ones first unless another order is chosen."""
    store: SQLStore = request.app.state.store
    order = order if order in ORDERS else "next"

    def found() -> tuple[int, list[Glance]]:
        names = [name for name in store.names() if visitor.token.sees(name)]
        every = [_glance(store, each) for each in reversed(listed(store, names))]
        return len(every), sorted((one for one in every if one.has(search)), key=ORDERS[order][1])

    total, shown = await run_in_threadpool(found)
    memory: ViewCache = request.app.state.headlines
    return page(
        request, "campaigns.html", campaigns=shown, total=total, search=search, order=order,
        orders={name: label for name, (label, _) in ORDERS.items()},
        headlines={one.name: memory.known(_key(one.now)) for one in shown if one.now is not None},
    )  # fmt: skip


def _glance(store: SQLStore, found: ListedCampaign) -> Glance:
    if found.now is None:
        return Glance(found.name, failed=found.told(store))
    with store.read(found.name) as reader:
        first, last = (reader.event(number) for number in (1, found.now.sequence))
    return Glance(found.name, found.now, next_of(found.now), *_days(first, last))


def _days(*events: Event) -> tuple[str, ...]:
    return tuple(event.at for event in events)


def _key(now: Situation) -> tuple[Any, ...]:
    """Return the key of a headline, which changes only as a wave is closed or names are shown."""
    return (now.name, now.closes[-1] if now.closes else 0, now.unmasked)


@router.get("/campaigns/{name}/headline")
async def headline(request: Request, name: Name, visitor: Visiting) -> Response:
    """Return in one sentence what the closed waves showed; it is computed once for each wave.

    The list asks for it after it is shown, so that it never waits for an estimate.
    """
    state = request.app.state
    now = await standing(request, name)
    try:
        visitor.sight.require_results(now)
    except CampaignStateError:
        return PlainTextResponse("")
    if now.spec.rows == "elsewhere" or not now.closes:
        return PlainTextResponse("")

    def said() -> str:
        made = learned(state.memory, state.store, now)
        return "" if made is None else _headline(made.found)

    text = await bounded(request, lambda: state.headlines.get(_key(now), said))
    return PlainTextResponse(text)


def _headline(found: Findings) -> str:
    """Return the decision, with the lift if it is one that counts."""
    made = found.decision
    if made.lift is None or made.code not in (DecisionCode.GIVE, DecisionCode.CHOOSE):
        return made.lead
    lift = found.measure.amount(made.lift.estimate, made.lift.error)
    return f"{made.lead} {lift} than {found.control}."
