"""Looks at a masked campaign, computed with its key: only the verdict and a seal are recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from seqbatch.campaign.decide.stopping import LookTaken, look
from seqbatch.campaign.record.current_situation import STOP, situation, with_names
from seqbatch.campaign.record.events import canonical, digest
from seqbatch.campaign.record.store import Event, Reader
from seqbatch.campaign.spec.masking import Key

#: The verdicts that all see, besides "stop". The last wave's says nothing: it is the end.
CONTINUE, PLANNED_END = "continue", "planned end"
#: Digits of a number that a seal covers: another machine may round the last ones differently.
DIGITS = 8


@dataclass(frozen=True)
class KeyedLook:
    """The look after a wave; `taken` is None while all outcomes are equal.

    Parameters
    ----------
    wave, taken
        The wave, and the look.
    last
        Whether the wave was the last one.
    """

    wave: int
    taken: LookTaken | None
    last: bool

    @property
    def verdict(self) -> str:
        """The public verdict, which says nothing about any action."""
        if self.last:
            return PLANNED_END
        return STOP if self.taken is not None and self.taken.stops else CONTINUE

    def seal(self, key: Key) -> str:
        """Return a hash of the look with the key's salt, which shows later what was seen."""
        plain = None if self.taken is None else _rounded(self.taken.plain())
        return digest(key.salt.encode(), canonical([self.wave, plain]).encode())


def keyed_looks(reader: Reader, events: Sequence[Event], key: Key) -> list[KeyedLook]:
    """Compute every look that the key holder recorded, and the one that can still be taken.

    A look uses the record as it was when its wave was closed, whatever was recorded since. Looks
    after the campaign was unmasked are those of its closings.
    """
    events = list(takewhile(lambda event: event.kind != "unmask", events))
    now = situation(events)
    waves = [event.payload["wave"] for event in events if event.kind == "look"]
    if now.unlooked:
        waves.append(now.wave - 1)
    made: list[KeyedLook] = []
    for wave in waves:
        before = [one.taken for one in made if one.taken is not None]
        made.append(_computed(reader, events, now.closes[wave - 1], key, before))
    return made


def _computed(
    reader: Reader, events: Sequence[Event], close: int, key: Key, before: Sequence[LookTaken]
) -> KeyedLook:
    """Compute the look after the wave that an event closed, as that closing would have done."""
    earlier = events[: close - 1]
    then, closed = situation(earlier), situation(events[:close])
    learner = replace(then, learned=closed.learned, skipped=closed.skipped)
    named = with_names(learner, key.codes, key.control)
    record = reader.last_state(before_event=close)
    assert record is not None
    taken, _ = look(reader, named, earlier, record, before=before)
    return KeyedLook(then.wave, taken, last=then.wave >= len(then.sizes))


def _rounded(value: Any) -> Any:
    """Return plain values with numbers as texts of some digits."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value
