"""What takes long to find out is found out once for each event, and remembered for a while."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.views.reporting.material import Material, gathered
from seqbatch.storage.stores import SQLStore

T = TypeVar("T")


class Memory:
    """The newest answers, by what they are about.

    Events are never changed, and a hash stands for all up to its own: an answer of an event stays
    right.

    Parameters
    ----------
    most
        How many are remembered.
    """

    def __init__(self, most: int = 12) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def get(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what is remembered, or make it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                found: T = self._known[key]
                return found
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return made


async def standing(request: Request, name: str) -> Situation:
    """Return where a campaign stands."""
    return await run_in_threadpool(Campaign(request.app.state.store, name).situation)


def material(memory: Memory, store: SQLStore, now: Situation) -> Material:
    """Return all that there is to say of a campaign as it stands."""
    return memory.get(("now", now.name, now.hash), lambda: gathered(store, now.name))


def learned(memory: Memory, store: SQLStore, now: Situation) -> Material | None:
    """Return what was learned when the last wave was closed; None before that."""
    if not now.closes:
        return None
    at = now.closes[-1]
    # Actions that got their names back are shown by their names.
    if at == now.sequence or now.unmasked:
        return material(memory, store, now)
    with store.read(now.name) as reader:
        key = ("closed", now.name, reader.event(at).hash)
    return memory.get(key, lambda: gathered(store, now.name, at_event=at))
