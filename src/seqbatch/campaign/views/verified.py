"""What a verification found, and what its parts share: findings, rounding, and the past."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from seqbatch.campaign.record.situation import Situation, history
from seqbatch.campaign.record.store import Event

#: Numbers that differ by less, relative to the largest beside them, were rounded otherwise.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be: the event (0: an index), the place, what differs."""

    event: int
    place: str
    problem: str

    def __str__(self) -> str:
        where = f"event {self.event}" if self.event else "index"
        return f"{where}, {self.place}: {self.problem}"


@dataclass(frozen=True)
class Verified:
    """What a verification looked at, what it found, and what is no damage but should be known.

    Parameters
    ----------
    events
        Events.
    units
        Units that were decided on again; those of a chunk that cannot be read are not among them.
    outcomes
        Rows of outcomes that were read.
    states
        Estimates that were computed again.
    findings, notes
        What is not as it should be, and what is no damage.
    """

    events: int
    units: int
    outcomes: int
    states: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass
class Findings:
    """What was found so far, and by how much numbers differ that were rounded otherwise."""

    found: list[Finding] = field(default_factory=list)
    rounded: float = 0.0

    def add(self, event: int, place: str, problem: str) -> None:
        """Add a finding."""
        # The number of an event may itself be damaged.
        number = event if isinstance(event, int) else 0
        self.found.append(Finding(number, place, problem))

    def guard(self, event: int, place: str, call: Any) -> None:
        """Call, and turn what a damaged record can raise into a finding."""
        try:
            call()
        except Exception as error:
            self.add(event, place, f"cannot be read: {type(error).__name__}: {error}"[:300])

    def beyond_rounding(self, apart: float) -> bool:
        """Say whether numbers that are so far apart differ; what is rounding is noted."""
        if 0 < apart < ROUNDING:
            self.rounded = max(self.rounded, apart)
            return False
        return bool(apart)


class Past:
    """Where the campaign stood after each event.

    Parameters
    ----------
    events
        All of them.

    Attributes
    ----------
    readable
        Whether every event can be read: what cannot be read cannot be replayed.
    """

    def __init__(self, events: list[Event]) -> None:
        self.events, self.readable = events, False
        self._history: Iterator[Situation] = iter(())
        self._now: Situation | None = None

    def read(self) -> None:
        """Find out whether every event can be read."""
        deque(history(self.events), maxlen=0)
        self.readable = True

    def after(self, event: int) -> Situation:
        """Return where the campaign stood after an event.

        Events are asked for in order, or from the start again; one situation is kept, not all.
        """
        if self._now is None or self._now.sequence > event:
            self._history = history(self.events)
            self._now = next(self._history)
        while self._now.sequence < event:
            self._now = next(self._history)
        return self._now
