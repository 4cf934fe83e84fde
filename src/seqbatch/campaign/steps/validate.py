"""Validate a spec and files as create, assign and record would, without storing anything.

Validation uses a temporary store. Its first wave is large enough for the whole file of units, so
the outcomes of all units can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from seqbatch.campaign.files.reading import ReadingOptions, Source, silent, source_of
from seqbatch.campaign.record.events import Logbook
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.spec.input_limits import MOST_UNITS
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps.assign import AnswerFile, Assigned, assign
from seqbatch.campaign.steps.create import (
    NO_STORE,
    Prepared,
    begun,
    first_state,
    keep,
    prepare,
)
from seqbatch.campaign.steps.earlier import Sources
from seqbatch.campaign.steps.record import record
from seqbatch.campaign.steps.recorded import Recorded
from seqbatch.errors import (
    CampaignStateError,
    Doubt,
    InvalidArgumentError,
    InvalidFileError,
    SeqbatchError,
)

#: The campaign for checking outcomes if the units' features are invalid.
IDS_ALONE = "ids-alone"


@dataclass(frozen=True)
class Validated:
    """The result of a validation.

    Parameters
    ----------
    prepared
        The campaign as it would be created; None if the spec breaks a rule.
    units
        How many units the file has; None if it was not read to its end.
    left_over
        How many of them do not fit in the first wave.
    recorded
        The result of recording the outcomes; None if there are none, or they cannot be checked.
    doubts
        What may go wrong with the spec's policy, and suspicious ids in the file of units.
    read_as
        How the file of units was read, if its format is unusual; for the outcome file, see
        `recorded`.
    exists
        The store that already has a campaign of this name, "" if the name is free. If it exists,
        outcomes are checked against its units.
    problems
        Every error that create, assign and record would raise.
    unchecked
        What was not checked because of these errors, and why.
    """

    prepared: Prepared | None = None
    units: int | None = None
    left_over: int = 0
    recorded: Recorded | None = None
    doubts: tuple[Doubt, ...] = ()
    read_as: str = ""
    exists: str = ""
    problems: tuple[SeqbatchError, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The doubts in words."""
        return tuple(each.text() for each in self.doubts)

    @property
    def sound(self) -> bool:
        """Whether nothing would be refused or held."""
        held = self.recorded and self.recorded.conflict + self.recorded.quarantined
        return not (self.problems or held)


class Validating:
    """One call of validate."""

    def __init__(
        self, scratch: Store, report: Callable[[str, int], None], sources: Sources
    ) -> None:
        self._scratch = scratch
        self._sources = sources
        self._report = report
        self._logbook = Logbook(who="validate")
        self._problems: list[SeqbatchError] = []
        self._unchecked: list[str] = []
        self._found = Validated()

    def run(
        self, spec: Any, units: Source | None, outcomes: Source | None, *, existing: Store | None
    ) -> Validated:
        """Run all checks that are possible."""
        prepared = self._trying(lambda: prepare(spec, sources=self._sources))
        if prepared is None:
            missed = [file.name for file in (units, outcomes) if file is not None]
            self._unchecked += [f"{file}: correct the spec first" for file in missed]
            return self._finished()
        self._found = replace(self._found, prepared=prepared, doubts=prepared.doubts)
        if existing is not None and prepared.now.name in existing.names():
            self._found = replace(self._found, exists=existing.label)
        judge_here = outcomes if not self._found.exists else None
        if units is not None:
            self._units(prepared, units, judge_here)
        if existing is not None and self._found.exists and outcomes is not None:
            recorded = self._trying(self._record, existing, prepared.now.name, outcomes)
            self._found = replace(self._found, recorded=recorded)
        return self._finished()

    def _units(self, prepared: Prepared, units: Source, outcomes: Source | None) -> None:
        rows = _count(units)
        name = prepared.now.name
        assigned = self._trying(self._assign, _with_room(prepared, rows), units)
        if assigned is not None:
            sizes = prepared.now.sizes
            # Fewer than the file has rows if units are repeated.
            over = 0 if prepared.now.spec.grid.calendar else max(assigned.assigned - sizes[0], 0)
            self._found = replace(
                self._found, units=assigned.assigned, left_over=over,
                doubts=(*prepared.doubts, *assigned.doubts), read_as=assigned.read_as,
            )  # fmt: skip
        if outcomes is None:
            return
        if assigned is None:
            name = self._ids_alone(prepared, units, rows)
        if name:
            recorded = self._trying(self._record, self._scratch, name, outcomes)
            self._found = replace(self._found, recorded=recorded)
        else:
            self._unchecked.append(f"{outcomes.name}: correct the ids of units first")

    def _assign(self, prepared: Prepared, units: Source) -> Assigned:
        keep(self._scratch, self._logbook, prepared)
        return assign(
            self._scratch, prepared.now.name, self._logbook, units, answers=AnswerFile(),
            partial=False, draw=False, rest=None, force=False, report=self._report,
        )  # fmt: skip

    def _ids_alone(self, prepared: Prepared, units: Source, rows: int) -> str:
        """Assign the units by id only; return the campaign's name, or "" if that fails."""
        spec = prepared.now.spec.model_dump(mode="json")
        actions = [{**action, "features": {}} for action in spec["actions"]]
        bare = {
            **spec, "name": IDS_ALONE, "features": {}, "model": "per-action", "actions": actions,
            "control": None, "history": None, "policy": {"kind": "UniformRandom"},
            "grid": {"sizes": [max(rows, 1)]},
        }  # fmt: skip
        try:
            self._assign(prepare(bare), units)
        except (InvalidFileError, CampaignStateError):
            return ""
        return IDS_ALONE

    def _record(self, store: Store, name: str, outcomes: Source) -> Recorded:
        return record(
            store, name, self._logbook, outcomes, correct=False, why="", report=self._report,
            dry_run=True,
        )  # fmt: skip

    def _trying(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call, and collect its error."""
        try:
            return call(*args)
        except SeqbatchError as error:
            self._problems.append(error)
            return None

    def _finished(self) -> Validated:
        return replace(
            self._found, problems=tuple(self._problems), unchecked=tuple(self._unchecked)
        )


def _count(units: Source) -> int:
    """Return how many rows a file has, or 0 if it cannot be read (assign then says why)."""
    try:
        with units:
            return sum(batch.num_rows for batch in units.batches(units.columns()[:1]))
    except SeqbatchError:
        return 0


def _with_room(prepared: Prepared, rows: int) -> Prepared:
    """Return the campaign with a first wave that has room for the whole file."""
    sizes = list(prepared.now.sizes)
    if prepared.now.spec.grid.calendar or rows <= sizes[0] or rows + sum(sizes) > MOST_UNITS:
        return prepared
    payload = {**prepared.payload, "sizes": [rows, *sizes[1:]]}
    now = begun(payload)
    return Prepared(now=now, payload=payload, state=first_state(now))


def validate(
    spec: str | Path | Mapping[str, Any] | Spec,
    units: Any = None,
    outcomes: Any = None,
    *,
    scratch: Store,
    existing: Store | None = None,
    sources: Sources | None = None,
    report: Callable[[str, int], None] | None = None,
    **reading: Unpack[ReadingOptions],
) -> Validated:
    """Check a spec and files as create, assign and record would, and store nothing.

    Parameters
    ----------
    spec, units, outcomes
        As for :meth:`~seqbatch.campaign.Campaign.create`, ``assign`` and ``record``; outcomes are
        checked against the file of units, or against the campaign if it exists.
    scratch
        An empty temporary store.
    existing
        The store in which the campaign will be created, or already exists.
    sources
        Where to find an earlier campaign; by default in `existing`, and in files.
    report
        Called regularly with the current step and the number of rows done.
    reading
        How to read both files; see :class:`~seqbatch.campaign.files.reading.Source`. `dedupe` is
        about the units only.
    """
    files: list[Source | None] = []
    for what, given in (("units", units), ("outcomes", outcomes)):
        if what == "outcomes":
            # Several rows of a unit are what its metrics say, not repeats.
            reading["dedupe"] = None
        made = None if given is None else source_of(given, **reading)
        if made is not None and made.is_pipe:
            raise InvalidArgumentError(what, "a file, since it is read more than once", "-")
        files.append(made)
    if sources is None:
        sources = NO_STORE if existing is None else Sources(lambda: existing)
    return Validating(scratch, report or silent, sources).run(spec, *files, existing=existing)
