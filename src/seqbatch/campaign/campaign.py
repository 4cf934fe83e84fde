"""A campaign as its user holds it."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import partial as partial_call
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqbatch.campaign import chain
from seqbatch.campaign.amending import Amending
from seqbatch.campaign.answers import Writer
from seqbatch.campaign.assigning import Assigned, Assigning
from seqbatch.campaign.beginning import Beginning, prepare
from seqbatch.campaign.checking import check_units
from seqbatch.campaign.closing import Closed, Closing
from seqbatch.campaign.contract import Event, StateRecord, Store
from seqbatch.campaign.exporting import export
from seqbatch.campaign.files import has_ending, source
from seqbatch.campaign.logbook import Logbook, this_user, utc_now
from seqbatch.campaign.recording import Recorded, Recording
from seqbatch.campaign.situation import Situation, situation
from seqbatch.campaign.spec import Action, Spec
from seqbatch.campaign.standing import Status, status
from seqbatch.campaign.verifying import Verified, verify
from seqbatch.errors import InvalidArgumentError


def silent(doing: str, rows: int) -> None:
    """Report nothing."""


class Campaign:
    """A real experiment in waves, kept in a store.

    Make one with :meth:`create` or :meth:`open`. Nothing is remembered here: every call reads where
    the campaign stands from the store, and every call that changes it is one transaction and one
    event, so that any number of processes may hold the same campaign.

    Parameters
    ----------
    store
        Where it is kept; see :func:`seqbatch.storage.open_store`.
    name
        Its name.
    who
        Who signs the events; the user of the process where None.
    clock
        Tells the time of events. Order never depends on it.

    Examples
    --------
    >>> import polars as pl
    >>> from tempfile import TemporaryDirectory
    >>> from seqbatch.storage import open_store
    >>> spec = {
    ...     "name": "spring", "seed": 7, "actions": ["none", "mail"], "grid": {"sizes": [4, 4]},
    ...     "reward": {"column": "visit", "range": [0, 1]}, "features": {"numeric": {"age": "raw"}},
    ... }
    >>> folder = TemporaryDirectory()
    >>> campaign = Campaign.create(spec, store=open_store(f"{folder.name}/campaigns.db"))
    >>> units = pl.DataFrame({"unit": ["a", "b", "c", "d"], "age": [31, 45, 28, 60]})
    >>> campaign.assign(units).table["action"].to_pylist()
    ['none', 'mail', 'none', 'mail']
    >>> outcomes = pl.DataFrame({"unit": ["a", "b", "c", "d"], "visit": [1, 0, 1, 0]})
    >>> campaign.record(outcomes).accepted
    4
    >>> campaign.close().observed
    {'none': 2, 'mail': 2}
    >>> campaign.status().wave
    2
    >>> folder.cleanup()
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        who: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store = store
        self.name = name
        self._logbook = Logbook(who=who or this_user(), clock=clock)

    @classmethod
    def create(
        cls,
        spec: str | Path | Mapping[str, Any] | Spec | Beginning,
        *,
        store: Store,
        who: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> "Campaign":
        """Begin a campaign: a TOML file, the same as plain values, or what was checked already.

        Raises
        ------
        InvalidSpecError
            Where the declaration breaks a rule; the offending lines are quoted.
        CampaignStateError
            Where the name is taken.
        """
        begin = spec if isinstance(spec, Beginning) else prepare(spec)
        now = begin.now
        campaign = cls(store, now.name, who=who, clock=clock)
        with store.create(now.name) as change:
            state = StateRecord(event=1, wave=0, content=begin.state, hash="")
            hashed = chain.state_hash(now.name, state)
            change.add_state(StateRecord(**{**vars(state), "hash": hashed}))
            campaign._logbook.write(
                change,
                sequence=1,
                previous="",
                kind="create",
                counts={"waves": len(now.sizes), "actions": len(now.actions)},
                payload=begin.payload,
                rows=[hashed],
            )
        return campaign

    @classmethod
    def open(
        cls,
        name: str,
        *,
        store: Store,
        who: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> "Campaign":
        """Return a campaign that is in the store."""
        with store.read(name):
            return cls(store, name, who=who, clock=clock)

    def situation(self) -> Situation:
        """Return where the campaign stands."""
        with self.store.read(self.name) as reader:
            return situation(reader.events())

    def events(self) -> list[Event]:
        """Return everything that was done, in order."""
        with self.store.read(self.name) as reader:
            return reader.events()

    def status(self, *, at: int | None = None) -> Status:
        """Return where the campaign stands, or stood right after event number `at`."""
        with self.store.read(self.name) as reader:
            return status(reader, at=at)

    def verify(self) -> Verified:
        """Check every hash, and replay every estimate and every decision."""
        with self.store.read(self.name) as reader:
            return verify(reader)

    def export(
        self,
        out: str | Path,
        *,
        what: str = "units",
        at: int | None = None,
        kind: str | None = None,
    ) -> int:
        """Write what is stored to a file; return how many rows.

        Parameters
        ----------
        out
            The file.
        what
            units (with features, decisions and outcomes), outcomes (every version), held, events.
        at
            As it was right after this event; now where None.
        kind
            The file's format, where its name does not say it.
        """
        with Writer(out, kind=kind) as writer, self.store.read(self.name) as reader:
            count = export(reader, writer, what=what, at=at)
            writer.publish()
            return count

    def assign(
        self,
        units: Any,
        *,
        out: str | Path | None = None,
        partial: bool = False,
        rest: str | Path | None = None,
        kind: str | None = None,
        out_kind: str | None = None,
        report: Callable[[str, int], None] = silent,
    ) -> Assigned:
        """Give units their actions; units that have one get the same answer again.

        Parameters
        ----------
        units
            A path, ``"-"``, a PyArrow table or a Polars frame.
        out
            Where the answers go; they are in the result where None.
        partial, rest
            Take the first units that fit, and write the others to `rest`, with all their columns.
        kind, out_kind
            The files' formats, where their names do not say them.
        report
            Called now and then with what is being done and the rows done.

        Raises
        ------
        InvalidArgumentError
            Where two of the files are the same.
        InvalidFileError
            Where anything is wrong with the file: nothing is then assigned.
        CampaignStateError
            Where the wave has no room, or no wave is open.
        """
        _require_apart(units, out, rest)
        with ExitStack() as stack:
            opened = stack.enter_context(source(units, kind=kind))
            rest_kind = None if has_ending(str(rest)) else out_kind
            writer = None if out is None else stack.enter_context(Writer(out, kind=out_kind))
            spill = None if rest is None else stack.enter_context(Writer(rest, kind=rest_kind))
            now = self.situation()
            checked = partial_call(report, "checking")
            drawn = check_units(now, opened, now.encoder(wave=now.wave), checked)
            with self.store.change(self.name) as change:
                assigned = partial_call(report, "assigning")
                assigning = Assigning(change, self._logbook, partial)
                result = assigning.run(opened, drawn, writer, spill, assigned)
            if writer is not None:
                writer.publish()
            if spill is not None and result.left_over:
                spill.publish()
            return result

    def record(
        self,
        outcomes: Any,
        *,
        correct: bool = False,
        reason: str = "",
        kind: str | None = None,
        report: Callable[[str, int], None] = silent,
    ) -> Recorded:
        """Take outcomes in; see :mod:`seqbatch.campaign.recording` for what becomes of each row.

        Parameters
        ----------
        outcomes
            A path, ``"-"``, a PyArrow table or a Polars frame.
        correct, reason
            Whether another value replaces the known one, and why; the old one is kept.
        kind
            The file's format, where its name does not say it.
        report
            Called now and then with what is being done and the rows done.
        """
        if correct and not reason:
            raise InvalidArgumentError("reason", "given with a correction", "none")
        with source(outcomes, kind=kind) as opened, self.store.change(self.name) as change:
            recording = Recording(change, self._logbook, correct=correct)
            return recording.run(opened, why=reason, report=partial_call(report, "recording"))

    def close(self, *, wave: int | None = None, force: bool = False, reason: str = "") -> Closed:
        """End the open wave: re-estimate and open the next.

        Parameters
        ----------
        wave
            The wave that is meant. One that is closed already gets its answer again.
        force, reason
            Close although units or outcomes are lacking, and why.

        Raises
        ------
        CampaignStateError
            Where outcomes are too few, the wave is empty, or none is open.
        """
        if force and not reason:
            raise InvalidArgumentError("reason", "given when a wave is closed by force", "none")
        with self.store.change(self.name) as change:
            return Closing(change, self._logbook).run(wave=wave, force=force, why=reason)

    def amend(
        self,
        *,
        reason: str,
        sizes: list[int] | None = None,
        units: int | None = None,
        add: list[str | Mapping[str, Any]] | None = None,
        retire: list[str] | None = None,
        floor: float | None = None,
    ) -> Event:
        """Change the campaign between two waves; what was assigned stays as it is.

        Parameters
        ----------
        reason
            Why.
        sizes
            The sizes of the waves to come, as many as wanted.
        units
            The units of the whole campaign; the waves to come grow or shrink alike.
        add
            Actions to add, by name, or with features where the model is shared.
        retire
            Actions that no unit gets from now on.
        floor
            The least probability of each action from now on.
        """
        _require_reason(reason)
        actions = [_action(action) for action in add or ()]
        with self.store.change(self.name) as change:
            return Amending(change, self._logbook).run(
                why=reason, sizes=sizes, units=units, add=actions, retire=retire or [], floor=floor
            )

    def abort(self, *, reason: str) -> Event:
        """End the campaign early; outcomes may still be recorded, nothing is assigned any more."""
        _require_reason(reason)
        with self.store.change(self.name) as change:
            return Amending(change, self._logbook).abort(why=reason)


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise InvalidArgumentError("reason", "given", repr(reason))


def _require_apart(units: Any, out: str | Path | None, rest: str | Path | None) -> None:
    """Refuse to write one file over another, before anything is done."""
    seen: dict[Path | str, str] = {}
    for what, file in (("units", units), ("out", out), ("rest", rest)):
        if not isinstance(file, str | Path):
            continue
        if str(file) == "-":
            # Standard input is not standard output.
            place: Path | str = "-" if what == "units" else "- for output"
        else:
            place = Path(file).resolve()
        if place in seen:
            rule = f"another file than {seen[place]}"
            raise InvalidArgumentError(what, rule, file, f"Name another with --{what}.")
        seen[place] = what


def _action(given: str | Mapping[str, Any]) -> Action:
    try:
        return Action.model_validate({"name": given} if isinstance(given, str) else given)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"])
        rule = "an action with a name and, under a shared model, finite features"
        raise InvalidArgumentError("add", rule, repr(given), f"{place}: {found['msg']}.") from None
