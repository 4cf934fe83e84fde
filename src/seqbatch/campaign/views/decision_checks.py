"""What a verification asks of decisions: that they are made again, unit by unit, bit for bit."""

from bisect import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.balanced import Together
from seqbatch.campaign.deciding.decisions import decide
from seqbatch.campaign.deciding.draws import draws, lots
from seqbatch.campaign.record.codec import difference, unpack_state
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader, UnitChunk
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.campaign.tables.texts import as_column
from seqbatch.campaign.views.surplus import NAMED
from seqbatch.campaign.views.verified import ROUNDING, Findings, Past


@dataclass(frozen=True)
class _Waiting:
    """A chunk whose event is not over: its units are decided on together with the others."""

    event: int
    units: pa.Array
    given: Any
    stored: Decided
    known: Any


class DecisionChecks:
    """Decides again for the units of one chunk after another, in their order.

    Parameters
    ----------
    reader, past
        The records, and where the campaign stood.
    findings
        Where differences go.
    """

    def __init__(self, reader: Reader, past: Past, findings: Findings) -> None:
        self._reader, self._past, self._findings = reader, past, findings
        # The events that came with a new state, and the state after one of them.
        turns = ("create", "close", "amend")
        self._turns = [event.sequence for event in past.events if event.kind in turns]
        self._state: tuple[int, Any] | None = None
        # The units of one event that are decided on together.
        self._together: list[_Waiting] = []
        #: Units that were decided on again.
        self.replayed = 0
        # The highest lot of every event that drew its units.
        self._drawn: dict[int, int] = {}

    def open_before(self, event: int) -> bool:
        """Say whether units of an event before this one wait for the rest of theirs."""
        return bool(self._together) and self._together[0].event != event

    def replay(self, chunk: UnitChunk, given: pa.Table, decided: pa.Table) -> None:
        """Look the units of a chunk up in the index, and decide again for them."""
        stored = Decided.of(decided)
        if not given.num_rows == len(stored.actions) == chunk.count:
            rows = f"{given.num_rows:,} units and {len(stored.actions):,} decisions"
            self._findings.add(
                chunk.event, f"unit chunk {chunk.chunk}", f"has {rows}, not {chunk.count}"
            )
            return
        units = as_column(given.column(0))
        numbers = self._reader.numbers(units)
        expected = np.arange(chunk.first, chunk.first + len(units))
        for row in np.flatnonzero(numbers != expected)[:NAMED]:
            problem = f"the index says number {numbers[row]}, not {expected[row]}"
            if numbers[row] < 0:
                problem = "is not in the index"
            self._findings.add(chunk.event, f"unit {units[row].as_py()!r}", problem)
        if not self._past.readable or chunk.event > len(self._past.events):
            return
        now = self._past.after(chunk.event - 1)
        if chunk.wave != now.wave:
            self._findings.add(
                chunk.event, f"unit chunk {chunk.chunk}", f"is not of wave {now.wave}"
            )
        self._lots(chunk.event, now, units)
        drawn = draws(now.spec.seed, now.name, units, by=now.spec.draws, lots=False)
        if (known := self._known(now)) is None:
            return
        if now.spec.balanced:
            self._together.append(_Waiting(chunk.event, units, given, stored, known))
        else:
            again = decide(now, now.made_policy(), known, given, drawn)
            self._compare(chunk.event, now, units, stored, again)

    def replay_together(self) -> None:
        """Decide again for the units of one event that were decided on together."""
        waiting, self._together = self._together, []
        if not waiting:
            return
        now = self._past.after(waiting[0].event - 1)
        event = Together(now, now.made_policy())
        for piece in waiting:
            event.add(piece.units, piece.given, piece.known)
        logged = np.concatenate([piece.stored.probabilities for piece in waiting])
        again, start = event.decided(np.ascontiguousarray(logged[:, list(now.active)])), 0
        for piece in waiting:
            rows = np.arange(start, start + len(piece.units))
            self._compare(piece.event, now, piece.units, piece.stored, again.decided.take(rows))
            start += len(piece.units)
        said = self._past.events[piece.event - 1].payload.get("limits")
        if said is not None and again.prices is not None and not _same(said, again.plain(now)):
            problem = f"a replay gives the prices {again.plain(now)}, stored is {said}"
            self._findings.add(piece.event, "limits", problem)

    def _known(self, now: Situation) -> Any:
        """Return what the policy knew, None where it is not on record.

        Only closing and amending change it: one state is kept, as units come in order.
        """
        turn = self._turns[bisect(self._turns, now.sequence) - 1]
        if self._state is None or self._state[0] != turn:
            record = self._reader.last_state(before_event=now.sequence + 1)
            found = None if record is None else unpack_state(record.content, now)
            self._state = turn, found
        return self._state[1]

    def _lots(self, event: int, now: Situation, units: pa.Array) -> None:
        """Draw the units of an event again; who else was on the list is not on record."""
        draw = self._past.events[event - 1].payload.get("draw")
        if draw is None:
            return
        drawn = lots(now.spec.seed, now.name, units, before=now.assigned)
        limit = int(draw["highest_lot"], 16)
        for row in np.flatnonzero(drawn > np.uint64(limit))[:NAMED]:
            place = f"unit {units[row].as_py()!r}"
            self._findings.add(event, place, "has a lot above the highest that was drawn")
        self._drawn[event] = max(self._drawn.get(event, 0), int(drawn.max()))

    def highest_lots(self) -> None:
        """Compare the highest lot of every event with the one that it names."""
        for event, highest in self._drawn.items():
            said = self._past.events[event - 1].payload["draw"]["highest_lot"]
            if highest < int(said, 16):
                problem = f"the highest drawn is said to be {said}, a replay gives {highest:016x}"
                self._findings.add(event, "lots", problem)

    def _compare(
        self, event: int, now: Situation, units: pa.Array, stored: Decided, again: Decided
    ) -> None:
        self.replayed += len(units)
        differs = (
            (again.actions != stored.actions)
            | (again.randomised != stored.randomised)
            | (again.groups != stored.groups)
        )
        for one, two in (
            (again.scores, stored.scores), (again.probabilities, stored.probabilities),
        ):  # fmt: skip
            if self._findings.beyond_rounding(difference(one, two)):
                other = one.view(np.int64) != two.view(np.int64)
                differs |= other if other.ndim == 1 else other.any(axis=1)
        names = [action.name for action in now.actions]
        for row in np.flatnonzero(differs)[:NAMED]:
            problem = (
                f"a replay gives {names[again.actions[row]]} with score {again.scores[row]!r}, "
                f"stored is {names[stored.actions[row]]} with {stored.scores[row]!r}"
            )
            self._findings.add(event, f"unit {units[row].as_py()!r}", problem)


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Say whether two accounts of prices agree, but for rounding."""
    prices, others = ({**each["prices"], "": each["budget_price"] or 0.0} for each in (one, two))
    return (
        one["prices_in"] == two["prices_in"]
        and prices.keys() == others.keys()
        and all(
            abs(price - others[name]) <= ROUNDING * max(1.0, abs(price))
            for name, price in prices.items()
        )
    )
