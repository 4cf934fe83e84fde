"""Plans for the dashboard: remembered, one at a time for each session, ended when nobody waits."""

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import Request

from seqbatch import planning
from seqbatch.service.answering import bounded
from seqbatch.service.pages.plan_answer import PlanAnswer, answer_of
from seqbatch.service.problems import ProblemError

#: How many questions of a session may wait for one that is being answered.
WAITING = 4
#: How often it is looked whether somebody still waits, in seconds.
LOOKING = 0.1


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a plan is asked; see :func:`seqbatch.planning.plan`."""

    units: int
    actions: int
    features: int
    waves: int | None = None
    effect: float | None = None
    noise: float = 1.0
    randomised: float = 0.0
    missing: float = 0.0
    detect: float | None = None


class EndedError(Exception):
    """Ends a plan that nobody waits for any more."""


@dataclass
class Turn:
    """A session's place to plan in, and how many ask for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asking: int = 0


class Plans:
    """The plans of all sessions.

    Parameters
    ----------
    most
        How many are remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[Question, bool], PlanAnswer] = OrderedDict()
        self._turns: dict[str, Turn] = {}

    async def answer(
        self, request: Request, session: str, question: Question, *, quick: bool
    ) -> PlanAnswer:
        """Return a plan: one that is known, or a new one once the session's others are done."""
        if (found := self._find(question, quick=quick)) is not None:
            return found
        async with self._turn(session), _watched(request) as ended:
            if (found := self._find(question, quick=quick)) is None:
                found = await bounded(request, lambda: _made(question, quick, ended))
                self._keep((question, quick), found)
        return found

    def _find(self, question: Question, *, quick: bool) -> PlanAnswer | None:
        for key in [(question, False), (question, True)][: 2 if quick else 1]:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        return None

    def _keep(self, key: tuple[Question, bool], found: PlanAnswer) -> None:
        self._known[key] = found
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    @asynccontextmanager
    async def _turn(self, session: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(session, Turn())
        if turn.asking > WAITING:
            raise ProblemError(
                429, "busy", "several plans of this session wait already; try again.",
                headers={"Retry-After": "2"},
            )  # fmt: skip
        turn.asking += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.asking -= 1
            if not turn.asking:
                self._turns.pop(session, None)


def _made(question: Question, quick: bool, ended: threading.Event) -> PlanAnswer:
    def going_on(_share: float) -> None:
        if ended.is_set():
            raise EndedError

    try:
        going_on(0.0)
        plan = planning.plan(
            units=question.units, actions=question.actions, features=question.features,
            batches=question.waves, effect=question.effect, noise=question.noise,
            randomised=question.randomised, missing=question.missing, detect=question.detect,
            quick=quick, progress=going_on,
        )  # fmt: skip
        return answer_of(plan)
    except EndedError:
        raise ProblemError(503, "busy", "nobody waited for this plan any more.") from None


@asynccontextmanager
async def _watched(request: Request) -> AsyncIterator[threading.Event]:
    """Say when the client has gone, or was answered otherwise: the plan then ends by itself."""
    ended = threading.Event()

    async def look() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(LOOKING)
        ended.set()

    looking = asyncio.create_task(look())
    try:
        yield ended
    finally:
        ended.set()
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
