"""Decide for the units of one piece of a file, keep that, and make their answers; by any thread."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.balanced import Balanced
from seqbatch.campaign.deciding.decisions import decide
from seqbatch.campaign.deciding.draws import draws
from seqbatch.campaign.record.events import sealed
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Change, UnitChunk
from seqbatch.campaign.tables.assignments import Decided, assignments, joined
from seqbatch.core.arrays import Integers, Places
from seqbatch.policies import Policy

#: The decisions of no units.
NOBODY = Decided(
    actions=np.zeros(0, dtype=np.int64),
    scores=np.zeros(0),
    probabilities=np.zeros((0, 0)),
    randomised=np.zeros(0, dtype=np.bool_),
    groups=np.zeros(0, dtype=np.int64),
)


@dataclass(frozen=True)
class Claimed:
    """A piece of the file, and what is to be done with its units.

    Parameters
    ----------
    units, given
        The piece.
    old, earlier
        Rows that were assigned before, and the waves and decisions of then.
    fresh, state
        Rows that are to be decided on, and what the policy knows.
    chunk, first
        The numbers of their chunk and of the first of them.
    """

    units: pa.Array
    given: pa.Table
    old: Places
    earlier: tuple[Integers, Decided] | None
    fresh: Places
    state: Any
    chunk: int
    first: int


@dataclass(frozen=True)
class Answered:
    """What became of a piece: its rows, the answers, and what is new among them."""

    rows: int
    table: pa.Table | None
    chunk: UnitChunk | None
    decided: Decided
    clipped: dict[str, int]


@dataclass(frozen=True)
class Deciding:
    """What is the same for all pieces of a file.

    Parameters
    ----------
    change, now
        The transaction, and where the campaign stood before it.
    policy
        Who decides.
    together
        The decisions of units that were decided on together; None where each is by itself.
    """

    change: Change
    now: Situation
    policy: Policy
    together: Balanced | None

    def answered(self, piece: Claimed) -> Answered:
        """Decide where nothing was decided yet, keep that, and make the answers; by any thread."""
        pieces, waves, rows = [NOBODY], [piece.old[:0]], [piece.old[:0]]
        chunk, clipped = None, dict[str, int]()
        if piece.earlier is not None:
            when, decided = piece.earlier
            pieces, waves, rows = [decided], [when], [piece.old]
        if len(piece.fresh):
            chunk, decided, clipped = self._decide(piece)
            pieces.append(decided)
            waves.append(np.full(len(piece.fresh), self.now.wave))
            rows.append(piece.fresh)
        fits = np.concatenate(rows)
        if not len(fits):
            return Answered(len(piece.units), None, None, NOBODY, {})
        back = np.argsort(fits, kind="stable")
        answer = joined([each for each in pieces if len(each.actions)]).take(back)
        units = piece.units if len(fits) == len(piece.units) else piece.units.take(fits[back])
        names = [action.name for action in self.now.actions]
        table = assignments(
            self.now.spec.unit, units, np.concatenate(waves)[back], answer, names,
            masked=self.now.masked,
        )  # fmt: skip
        new = NOBODY if chunk is None else decided
        return Answered(len(piece.units), table, chunk, new, clipped)

    def _decide(self, piece: Claimed) -> tuple[UnitChunk, Decided, dict[str, int]]:
        """Decide for the new units of a piece, and keep what is to be kept of them."""
        units, given, spec = piece.units, piece.given, self.now.spec
        if len(piece.fresh) < len(units):
            units, given = units.take(piece.fresh), given.take(piece.fresh)
        if self.together is None:
            drawn = draws(spec.seed, spec.name, units, by=spec.draws, lots=False)
            decided = decide(self.now, self.policy, piece.state, given, drawn)
        else:
            start = piece.first - self.now.assigned
            decided = self.together.decided.take(np.arange(start, start + len(units)))
        place: dict[str, Any] = {
            "event": self.now.sequence + 1, "chunk": piece.chunk, "first": piece.first,
        }  # fmt: skip
        chunk = UnitChunk(
            **place,
            wave=self.now.wave,
            count=len(units),
            given=self.change.kept(given, kind="units", **place),
            decided=self.change.kept(decided.table(), kind="decisions", **place),
            hash="",
        )
        clipped = self.now.encoder(wave=self.now.wave).clipped(given)
        return sealed(self.change.name, chunk), decided, clipped
