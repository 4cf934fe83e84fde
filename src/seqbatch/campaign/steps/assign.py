"""Assign actions to the units of a file, optionally drawing them from a longer list."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial as partial_call
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.decision import Balanced, JointDecision, decide
from seqbatch.campaign.decide.draws import draws, lots
from seqbatch.campaign.decide.erased_units import ErasedUnits
from seqbatch.campaign.files.carried import require_free
from seqbatch.campaign.files.column_values import decoded
from seqbatch.campaign.files.csv import CsvDialect
from seqbatch.campaign.files.formats import has_ending
from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.files.units import UnitPiece, UnitsToAssign, read_units
from seqbatch.campaign.files.writing import SplitWriter, Writer, require_table, split_targets
from seqbatch.campaign.record.codec import frozen_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import (
    Decided,
    EarlierDecisions,
    assignments,
    joined,
    no_assignments,
)
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.store import Change, Store, UnitChunk
from seqbatch.campaign.steps.unknown_ids import SAMPLE, NewIds
from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Integers, Places
from seqbatch.display import counted
from seqbatch.errors import (
    CampaignStateError,
    Doubt,
    InvalidArgumentError,
    OutputError,
    Remedy,
    RowProblem,
    StoreError,
)
from seqbatch.policies.base import BasePolicy
from seqbatch.timed_steps import timed

# ----------------------------------------------------------------------
# Decide for the units of one piece of a file, store the decisions, and build the answers.


#: Decisions for zero units.
NOBODY = Decided(
    actions=np.zeros(0, dtype=np.int64),
    scores=np.zeros(0),
    probabilities=np.zeros((0, 0)),
    randomised=np.zeros(0, dtype=np.bool_),
    groups=np.zeros(0, dtype=np.int64),
)


@dataclass(frozen=True)
class Claimed:
    """A piece of the file, split into units assigned before and new units.

    Parameters
    ----------
    units, given, carried
        The unit ids, the columns to store, and the columns to copy.
    old, earlier
        Rows assigned before, and their waves and decisions.
    fresh, state
        Rows to decide for, and the policy's state.
    chunk, first
        The number of the new units' chunk, and the number of the first new unit.
    """

    units: pa.Array
    given: pa.Table
    carried: pa.Table
    old: Places
    earlier: tuple[Integers, Decided] | None
    fresh: Places
    state: Any
    chunk: int
    first: int


@dataclass(frozen=True)
class Answered:
    """The result for one piece: its number of rows, the answers, and the new decisions.

    `before` says for each answer whether the unit had its action before.
    """

    rows: int
    table: pa.Table | None
    before: Bools
    chunk: UnitChunk | None
    decided: Decided
    clipped: dict[str, int]


@dataclass(frozen=True)
class PieceDecider:
    """Decides for the pieces of a file; holds what all pieces share.

    Parameters
    ----------
    change, now
        The transaction, and the campaign's state before it.
    policy
        The policy that decides.
    together
        The joint decisions for all new units; None if each unit is decided on its own.
    bare
        Whether answers leave out scores and probabilities.
    """

    change: Change
    now: Situation
    policy: BasePolicy
    together: Balanced | None
    bare: bool

    def answered(self, piece: Claimed) -> Answered:
        """Decide for new units, store the decisions, and build the answers; thread-safe."""
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
            return Answered(len(piece.units), None, np.zeros(0, np.bool_), None, NOBODY, {})
        back = np.argsort(fits, kind="stable")
        answer = joined([each for each in pieces if len(each.actions)]).take(back)
        units = piece.units if len(fits) == len(piece.units) else piece.units.take(fits[back])
        names = [action.name for action in self.now.actions]
        table = assignments(
            self.now.spec.unit, units, np.concatenate(waves)[back], answer, names,
            masked=self.bare,
        )  # fmt: skip
        if piece.carried.num_columns:
            table = with_carried(table, piece.carried.take(fits[back]), self.now.spec.unit)
        new = NOBODY if chunk is None else decided
        before = np.repeat([True, False], [len(piece.old), len(piece.fresh)])[back]
        return Answered(len(piece.units), table, before, chunk, new, clipped)

    def _decide(self, piece: Claimed) -> tuple[UnitChunk, Decided, dict[str, int]]:
        """Decide for the new units of a piece, and make the chunk to store."""
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


# ----------------------------------------------------------------------
# Draw a wave's units at random from a list of all units; the order of the list does not matter.
#
# Every unit without an action gets a lot, which is a keyed hash of its id. The units with the
# lowest lots are drawn until the wave is full. The list is read twice: first to find the highest
# lot drawn, then to take the units.


class Drawing:
    """One draw within the transaction of its assign.

    Parameters
    ----------
    change, now
        The transaction, and the campaign's state before it.
    everybody
        The checked list of all units.
    """

    def __init__(self, change: Change, now: Situation, everybody: UnitsToAssign) -> None:
        self._change = change
        self._now = now
        self._everybody = everybody
        #: The number of units without an action, and of units from earlier waves (skipped).
        self.fresh = self.earlier = 0
        #: The highest lot drawn; None if no unit is drawn.
        self.limit: int | None = None
        # Without an open wave, an empty file of answers would look like a wave's answers.
        now.require_open()
        self._room = _room(now)
        # Units of the open wave get their answers again; a user who lost the file can repeat
        # the call.
        self._first = sum(now.units[: now.wave - 1])
        self._find_limit()

    @property
    def drawn(self) -> int:
        """How many units are drawn."""
        return min(self.fresh, self._room)

    def pieces(self) -> Iterator[UnitPiece]:
        """Yield the drawn units, and the units that are already in the open wave."""
        left = self.drawn
        for piece in self._everybody.pieces():
            units = piece.ids
            numbers = self._change.numbers(units)
            fresh = np.flatnonzero(numbers < 0)
            chosen = fresh[:0]
            if self.limit is not None:
                chosen = fresh[self._lots(units, fresh) <= np.uint64(self.limit)]
            # Two lots are equal with probability 2^-64; the cut keeps the wave's size exact.
            chosen = chosen[:left]
            left -= len(chosen)
            kept = np.sort(np.concatenate([chosen, np.flatnonzero(numbers >= self._first)]))
            if len(kept):
                yield piece.take(kept)

    def _find_limit(self) -> None:
        lowest = np.zeros(0, dtype=np.uint64)
        for units in (piece.ids for piece in self._everybody.pieces()):
            numbers = self._change.numbers(units)
            fresh = np.flatnonzero(numbers < 0)
            self.fresh += len(fresh)
            self.earlier += int(((numbers >= 0) & (numbers < self._first)).sum())
            lowest = np.concatenate([lowest, self._lots(units, fresh)])
            if len(lowest) > self._room:
                # However long the list is, memory holds at most one wave and one piece.
                lowest = np.partition(lowest, max(self._room - 1, 0))[: self._room]
        if len(lowest):
            self.limit = int(lowest.max())

    def _lots(self, units: pa.Array, rows: Integers) -> AnyArray:
        spec, before = self._now.spec, self._now.assigned
        drawn = units.take(rows)
        return lots(spec.seed, self._now.name, drawn, before=before, by=spec.draws)


def _room(now: Situation) -> int:
    """Return how many more units fit in the open wave."""
    if now.left is None:
        raise CampaignStateError(
            f"campaign {now.name} has calendar waves, which have no fixed size, so the number "
            "of units to draw is not known. Give only the units of this wave, without drawing.",
            code="wave-without-size",
        )
    return now.left


# ----------------------------------------------------------------------
# Assign the units of a checked file: decide for the new units, and answer for all of them.


@dataclass(frozen=True)
class Assigned:
    """The result of a call of assign.

    Parameters
    ----------
    wave
        The open wave, or the last wave if all are closed.
    assigned, repeated, left_over
        The number of units that got an action now, that already had one, and that did not fit in
        the wave or were not drawn.
    left
        How many more units fit in the wave; None for calendar waves.
    actions
        How many of the units assigned now got each action.
    randomised
        How many of them got an action drawn uniformly at random.
    clipped
        How many of their values were clipped to a bound, for each column with any.
    event
        The number of the event; None if there were no new units.
    table
        The answers, unless they were written to a file.
    doubts
        Suspicious ids in the file: ids that differ only by case, surrounding spaces, leading zeros
        or Unicode form. They still count as different units.
    read_as
        How a CSV file was read, if its format is unusual.
    drawn_from, earlier
        If the wave was drawn: the number of units that could be drawn, and the number of listed
        units from earlier waves, which get no answer here. `drawn_from` is None without a draw.
    before
        Whether each unit of the table had its action before this call; None without a table.
    limits
        The shadow prices of limits that were reached (`prices`, `budget_price`) and their unit
        (`prices_in`, "score" or "log"); None if nothing limits how often actions are given.
    """

    wave: int
    assigned: int
    repeated: int
    left_over: int
    left: int | None
    actions: dict[str, int]
    randomised: int
    clipped: dict[str, int]
    event: int | None
    table: pa.Table | None = None
    before: Bools | None = field(default=None, repr=False, compare=False)
    doubts: tuple[Doubt, ...] = ()
    read_as: str = ""
    drawn_from: int | None = None
    earlier: int = 0
    limits: dict[str, Any] | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The doubts in words."""
        return tuple(each.text() for each in self.doubts)

    def plain(self) -> dict[str, Any]:
        """Return the fields by name, with doubts as warnings."""
        own = {name: each for name, each in vars(self).items() if name not in ("doubts", "before")}
        return {**own, "warnings": self.warnings}


@dataclass
class Assigning:
    """One call of assign within its transaction.

    Parameters
    ----------
    change
        The transaction.
    logbook
        The logbook that writes the event.
    partial
        Whether to take the first units that fit if there is no room for all.
    draw
        Whether to draw the wave's units from a list of all units.
    file
        The name of the units' file; "" if the units did not come from a file.
    bare
        Whether answers leave out scores and probabilities although the campaign shows them.
    """

    change: Change
    logbook: Logbook
    partial: bool
    draw: bool = False
    file: str = ""
    bare: bool = False
    now: Situation = field(init=False)

    def __post_init__(self) -> None:
        self.now = current(self.change)
        self._policy = self.now.made_policy()
        self._state: Any = None
        self._stored = EarlierDecisions(self.change, self.now)
        self._chunk, _ = self.change.next_chunks()
        self._number = self.now.assigned
        self._hashes: list[str] = []
        self._without: list[Integers] = []
        self._counts = np.zeros(len(self.now.actions), dtype=np.int64)
        self._clipped: Counter[str] = Counter()
        self._changed: Counter[str] = Counter()
        self._fresh = self._new = self._repeated = self._over = self._randomised = 0
        self._drawing: Drawing | None = None
        self._new_ids = NewIds()
        # Joint decisions for all new units; each piece takes its part when it is stored.
        self._together: Balanced | None = None

    def run(
        self,
        source: Source,
        checked: UnitsToAssign,
        out: Writer | SplitWriter | None,
        rest: Writer | None,
        report: Callable[[int], None],
    ) -> Assigned:
        """Decide for every checked unit, and write the answers."""
        checked.require_fit(self.now.encoder(wave=self.now.wave))
        if self.now.erasures:
            self._refuse_erased(source, checked)
        if self.draw:
            self._drawing = Drawing(self.change, self.now, checked)
        if self.now.spec.balanced and self.now.condition == "open":
            self._decide_together(self._drawing or checked)
        names = [action.name for action in self.now.actions]
        # Write the header first: if no unit gets an answer, the file has only the header.
        bare = self.bare or self.now.concealed
        nobody = no_assignments(self.now.spec.unit, names, masked=bare)
        nobody = with_carried(nobody, checked.carried.schema.empty_table(), self.now.spec.unit)
        tables, before, start = [nobody], [np.zeros(0, np.bool_)], 0
        if out is not None:
            out.write(tables[0], unalike=(*self.now.spec.unit, "score", "randomised"))
        deciding = PieceDecider(self.change, self.now, self._policy, self._together, bare)
        claimed = self._claimed((self._drawing or checked).pieces())
        with closing(over(deciding.answered, claimed)) as pieces:
            for answered in pieces:
                start += answered.rows
                report(start)
                self._keep(answered)
                if answered.table is None:
                    continue
                if out is None:
                    tables.append(answered.table)
                    before.append(answered.before)
                else:
                    out.write(answered.table)
        self._refuse_overflow()
        if rest is not None and self._over:
            self._spill(source, rest)
        # The decisions always use the checked units. But if the file changed while it was read,
        # the user meant to assign other units.
        source.require_unchanged()
        event = self._finish(source)
        left, drawing = self.now.left, self._drawing
        return Assigned(
            wave=self.now.last_opened,
            assigned=self._new,
            repeated=self._repeated,
            left_over=self._left_over,
            left=None if left is None else left - self._new,
            actions=dict(zip(names, self._counts.tolist(), strict=True)),
            randomised=self._randomised,
            clipped=dict(self._clipped),
            event=event,
            table=pa.concat_tables(tables) if out is None else None,
            before=np.concatenate(before) if out is None else None,
            doubts=(
                *checked.doubts,
                *self._new_ids.doubts(self.change, before=self.now.assigned),
                *self._few_to_balance(),
                *self._changed_features(),
            ),
            read_as=source.read_as,
            drawn_from=None if drawing is None else drawing.fresh,
            earlier=0 if drawing is None else drawing.earlier,
            limits=None if bare else self._limits,
        )

    def _refuse_erased(self, source: Source, checked: UnitsToAssign) -> None:
        """Refuse a file with erased units: they had an action, and must not get another."""
        erased, rows, start = ErasedUnits.of(self.change, self.now), list[int](), 0
        for piece in checked.pieces():
            rows += (np.flatnonzero(erased.among(piece.ids)) + start + 1).tolist()
            start += len(piece.ids)
        if rows:
            problems = [
                RowProblem(row, self.now.spec.id_name, "is of an erased unit", "erased-unit")
                for row in rows
            ]
            raise source.invalid(
                source.placed(problems), "nothing was assigned", code="erased-units",
                advice=["Leave them out: an erased unit gets no second action."],
            )  # fmt: skip

    def _changed_features(self) -> Iterator[Doubt]:
        """Doubt that the features of repeated units differ from when they were assigned."""
        for name, rows in sorted(self._changed.items()):
            said = (
                f"column {name} of {counted(rows, 'unit')} differs from when they were assigned; "
                "the campaign keeps the values of then, by which their actions were chosen"
            )
            yield Doubt("features-changed", (said,), column=name, rows=rows)

    def _few_to_balance(self) -> Iterator[Doubt]:
        """Doubt that units which come a few at a time are balanced, where that was declared."""
        spec = self.now.spec
        declared = spec.draw == "balanced" or bool(spec.strata)
        before = self.now.units[self.now.last_opened - 1]
        few = 0 < self._new < len(self.now.active)
        if declared and not spec.in_order and few and before:
            said = (
                f"{counted(self._new, 'unit')} came after {before:,} others of the wave: each call "
                "is balanced separately, and calls with fewer units than actions are not. draw = "
                '"blocks" or "minimise" would balance units that come one at a time'
            )
            yield Doubt("few-to-balance", (said,), rows=self._new)

    @property
    def _limits(self) -> dict[str, Any] | None:
        together = self._together
        return None if together is None or together.prices is None else together.plain(self.now)

    @property
    def _left_over(self) -> int:
        if self._drawing is None:
            return self._over
        return self._drawing.fresh - self._drawing.drawn

    def _claimed(self, pieces: Iterable[UnitPiece]) -> Iterator[Claimed]:
        """Yield the pieces of the file, and number their new units."""
        read = 0
        for units, given, carried in pieces:
            numbers, fresh = self._claim(units)
            old = np.flatnonzero(numbers >= 0) if len(numbers) else fresh[:0]
            if len(old) + len(fresh) < len(units):
                without = np.setdiff1d(np.arange(len(units)), np.concatenate([old, fresh]))
                self._without.append(without + read)
            read += len(units)
            if self._over and not self.partial:
                old, fresh = old[:0], fresh[:0]
            # Only this thread queries the database.
            earlier = self._stored.decided(numbers[old]) if len(old) else None
            if len(old):
                changed = self._stored.changed(numbers[old], given.take(old))
                self._changed.update({name: len(rows) for name, rows in changed.items()})
            state = self._known() if len(fresh) else None
            # Check ids only in lists, which people make; programs send single units at high rates.
            if self.file or self.draw:
                self._new_ids.add(units.take(fresh[:SAMPLE]))
            yield Claimed(
                units, given, carried, old, earlier, fresh, state, self._chunk, self._number
            )
            self._chunk += bool(len(fresh))
            self._number += len(fresh)
            self._new += len(fresh)

    def _claim(self, units: pa.Array) -> tuple[Integers, Places]:
        """Number the new units that fit; return all numbers (empty if all are new) and new rows."""
        left = self.now.left
        # A wave without a planned size has room for all units.
        room = len(units) if left is None else max(left - self._new, 0)
        open_now = self.now.condition == "open"
        # Usually all units are new. Trying to number them is faster than querying first.
        if open_now and len(units) <= room and self.change.claim(units, self._number):
            self._fresh += len(units)
            return np.zeros(0, dtype=np.int64), np.arange(len(units))
        numbers = self.change.numbers(units)
        fresh = np.flatnonzero(numbers < 0)
        if len(fresh):
            self.now.require_open()
        self._repeated += len(units) - len(fresh)
        self._fresh += len(fresh)
        self._over += max(len(fresh) - room, 0)
        fresh = fresh[:room]
        if not len(fresh) or (self._over and not self.partial):
            return numbers, fresh
        # The campaign is locked, so no other process can have numbered them since the query.
        if not self.change.claim(units.take(fresh), self._number):
            raise StoreError(
                f"campaign {self.now.name}: these unit ids were claimed by another process. "
                "Nothing was assigned; try again."
            )
        return numbers, fresh

    def _known(self) -> Any:
        """Return the policy's state; it is read once, and only if there are new units."""
        self.now.require_no_stop()
        if self._state is None:
            self._state = frozen_state(self.change, self.now)
        return self._state

    def _decide_together(self, checked: UnitsToAssign | Drawing) -> None:
        """Decide jointly for all new units that fit, before any of them is stored."""
        room = self.now.left
        event = JointDecision(self.now, self._policy)
        for units, given, _ in checked.pieces():
            fresh = np.flatnonzero(self.change.numbers(units) < 0)
            if room is not None:
                fresh = fresh[: max(room - len(event), 0)]
            if len(fresh):
                event.add(units.take(fresh), given.take(fresh), self._known())
        self._together = event.decided() if len(event) else None

    def _keep(self, answered: Answered) -> None:
        """Store the new decisions and count them, in the order of the file."""
        if answered.chunk is None:
            return
        self.change.add_units(answered.chunk)
        self._hashes.append(answered.chunk.hash)
        decided = answered.decided
        self._counts += np.bincount(decided.actions, minlength=len(self._counts))
        self._randomised += int(decided.randomised.sum())
        self._clipped.update(answered.clipped)

    def _spill(self, source: Source, rest: Writer) -> None:
        """Write the units that did not fit, with all the columns of their file."""
        without, start = np.concatenate(self._without), 0
        for batch in source.batches(source.columns(), longest=None, shown=True):
            low, high = np.searchsorted(without, [start, start + batch.num_rows])
            piece = decoded(pa.Table.from_batches([batch]))
            rest.write(piece.take(without[low:high] - start))
            start += batch.num_rows

    def _refuse_overflow(self) -> None:
        if self._over and not self.partial:
            said = (
                f"wave {self.now.wave} of campaign {self.now.name} has room for {self.now.left:,} "
                f"more units; the file has {self._fresh:,} new ones. Nothing was assigned. "
            )
            if not self.now.left:
                advice = (
                    "The wave is full: record its outcomes and close it, then assign the others."
                )
                raise CampaignStateError(said + advice, code="wave-full")
            raise CampaignStateError(
                f"{said}Give fewer units; or draw as many as fit from the list",
                Remedy("draw"),
                ", which is fair whatever its order; or take the first ones that fit",
                Remedy("partial"),
                ".",
                code="too-many-units",
            )

    def _finish(self, source: Source) -> int | None:
        if not self._new:
            return None
        names = [action.name for action in self.now.actions]
        payload: dict[str, Any] = {
            "wave": self.now.wave, "chunks": len(self._hashes), **source.left_out,
        }  # fmt: skip
        if self.file:
            payload["file"] = self.file
            if source.options:
                payload["reading"] = source.options
        if self._drawing is not None and self._drawing.limit is not None:
            # With the list and this lot, the draw can be verified.
            payload["draw"] = {
                "from": self._drawing.fresh, "highest_lot": f"{self._drawing.limit:016x}",
            }  # fmt: skip
        if self._limits is not None:
            payload["limits"] = self._limits
        if self._together is not None and self._together.strata:
            payload["strata"] = self._together.strata
        event = self.logbook.write(
            self.change,
            self.now,
            kind="assign",
            counts={
                "assigned": self._new,
                "repeated": self._repeated,
                "left_over": self._left_over,
                "randomised": self._randomised,
                "actions": dict(zip(names, self._counts.tolist(), strict=True)),
                **({"clipped": dict(self._clipped)} if self._clipped else {}),
            },
            payload=payload,
            rows=self._hashes,
        )
        return event.sequence


def with_carried(table: pa.Table, carried: pa.Table, unit: Sequence[str]) -> pa.Table:
    """Return assignments with carried columns after the ids."""
    for place, name in enumerate(carried.column_names):
        table = table.add_column(len(unit) + place, name, carried.column(name))
    return table


@dataclass(frozen=True)
class AnswerFile:
    """The file of the answers of an assign.

    Parameters
    ----------
    out
        The file; if None, the result holds the answers.
    file_format
        Its format; needed if the file's name does not show it.
    with_columns
        The columns of the units' file that are copied.
    split_by
        "action" for one file per action; None for one file.
    bare
        Whether to leave out scores and probabilities although the campaign shows them.
    """

    out: str | Path | None = None
    file_format: str | None = None
    with_columns: tuple[str, ...] = ()
    split_by: str | None = None
    bare: bool = False

    def targets(self, now: Situation) -> dict[str, Path]:
        """Return the files to write, by action if there are several."""
        if self.out is None:
            return {}
        names = [action.name for action in now.actions]
        return {"": Path(self.out)} if self.split_by is None else split_targets(self.out, names)

    def check(self, now: Situation) -> None:
        """Refuse columns and ways to split that cannot be written."""
        if self.split_by is not None:
            arguments.choice("split_by", self.split_by, ("action",))
            if self.out is None:
                raise InvalidArgumentError("split_by", "given only with out", self.split_by)
        names = [action.name for action in now.actions]
        bare = self.bare or now.concealed
        taken = no_assignments(now.spec.unit, names, masked=bare).column_names
        require_free(self.with_columns, taken)

    def writer(self, units: Source, now: Situation) -> Writer | SplitWriter | None:
        """Return the writer, in the dialect of the units' file if both are CSV."""
        if self.out is None:
            return None
        made: dict[str, Any] = {"file_format": self.file_format, "dialect": dialect_like(units)}
        if self.split_by is None:
            return Writer(self.out, **made)
        return SplitWriter(self.targets(now), **made)


def dialect_like(units: Source) -> CsvDialect | None:
    """Return the dialect of a CSV file, for the files that answer it."""
    return units.dialect if units.file_format == "csv" else None


def assign(
    store: Store,
    name: str,
    logbook: Logbook,
    units: Source,
    *,
    answers: AnswerFile,
    partial: bool,
    draw: bool,
    rest: str | Path | None,
    force: bool,
    report: Callable[[str, int], None],
) -> Assigned:
    """Check a file of units, assign them in one transaction, and publish the answers."""
    _require_one_way(draw=draw, partial=partial, rest=rest)
    with store.read(name) as reader:
        now = current(reader)
    now.require_rows()
    answers.check(now)
    rest_format = None if has_ending(str(rest)) else answers.file_format
    outs = answers.targets(now)
    _require_targets(
        store, units.file, list(outs.values()), rest, formats=(answers.file_format, rest_format),
        force=force,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(units)
        writer = answers.writer(units, now)
        if writer is not None:
            stack.enter_context(writer)
        spill = None
        if rest is not None:
            made = Writer(rest, file_format=rest_format, dialect=dialect_like(units))
            spill = stack.enter_context(made)
        # Check outside the transaction: a large file then does not block other processes.
        counting = partial_call(report, "checking")
        with timed("check the units"):
            checked = stack.enter_context(
                read_units(
                    units, now.encoder(wave=now.wave), counting, strata=now.spec.strata,
                    complete=now.spec.in_order, with_columns=answers.with_columns,
                )
            )  # fmt: skip
        with store.change(name) as change:
            assigning = Assigning(change, logbook, partial, draw, units.file, answers.bare)
            told = partial_call(report, "assigning")
            with timed("decide"):
                result = assigning.run(units, checked, writer, spill, told)
            # Finish the files before the commit: if the disk is full, no unit is assigned.
            for each in (writer, spill):
                if each is not None:
                    each.complete()
        if spill is not None and result.left_over:
            _publish(spill, result, f"the units that did not fit, to {rest}")
        if writer is not None:
            _publish(writer, result, f"the answers, to {', '.join(map(str, outs.values()))}")
        return result


def assign_checked(
    store: Store, name: str, logbook: Logbook, units: UnitsToAssign, source: Source
) -> Assigned:
    """Assign units that were checked before, and return the answers as a table.

    The source stands for their file: a table, which cannot change.
    """
    with source, store.change(name) as change:
        assigning = Assigning(change, logbook, partial=False)
        return assigning.run(source, units, None, None, lambda _: None)


def _require_one_way(*, draw: bool, partial: bool, rest: str | Path | None) -> None:
    if draw and partial:
        raise InvalidArgumentError(
            "draw", "left out if partial is given", "both",
            "Units are drawn from the whole list, or the first ones that fit are taken.",
        )  # fmt: skip
    if draw and rest is not None:
        raise InvalidArgumentError(
            "rest", "left out if draw is given", rest,
            "Give the same list for the next wave: units that already have an action are skipped.",
        )  # fmt: skip


def _publish(writer: Writer | SplitWriter, result: Assigned, what: str) -> None:
    """Publish a file; if that fails, raise an error that says what was assigned."""
    try:
        writer.publish()
    except OSError as error:
        done = "No new units were assigned"
        if result.event is not None:
            done = f"{result.assigned:,} units were assigned (event {result.event})"
        raise OutputError(
            f"{done}, but writing {what}, failed: {error.strerror or error}. Solve that problem "
            "and make the same call again: this is safe, assigns no unit twice and writes the "
            "same answers. If a file was already written, allow it to be overwritten",
            Remedy("overwrite"),
        ) from error


def _require_targets(
    store: Store,
    units: str,
    outs: Sequence[Path],
    rest: str | Path | None,
    *,
    formats: tuple[str | None, str | None],
    force: bool,
) -> None:
    """Refuse to write one file over another, before anything is done."""
    if rest is not None and str(rest) == "-" and any(str(out) == "-" for out in outs):
        raise InvalidArgumentError("rest", "a file other than out", rest)
    apart: dict[str, tuple[str | Path, ...]] = {"the store": store.files}
    if units:
        apart["units"] = (units,)
    for out in outs:
        require_table(out, name="out", file_format=formats[0], force=force, apart_from=apart)
    if rest is not None:
        apart["out"] = tuple(outs)
        require_table(rest, name="rest", file_format=formats[1], force=force, apart_from=apart)
