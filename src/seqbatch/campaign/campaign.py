"""The Campaign class: create or open a campaign, assign units, record outcomes, close waves.

Steps and views are imported by the methods that need them: a status needs few of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from seqbatch.campaign.record.current_situation import Situation, condition_text
from seqbatch.campaign.record.events import Identity, Logbook, current, this_user, utc_now
from seqbatch.campaign.record.store import Event, Store, Tombstone
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.views.damage import naming_damage
from seqbatch.campaign.views.interim import (
    USUAL,
    WITH_KEY,
    Sight,
    shown_events,
    status_as_recorded,
    status_without_results,
)
from seqbatch.core import arguments
from seqbatch.display import counted
from seqbatch.document import paragraph, require_format, write
from seqbatch.errors import DoubtWarning, InvalidArgumentError
from seqbatch.output_files import require_target

if TYPE_CHECKING:
    from seqbatch.campaign.decide.repeated_rows import EqualRows
    from seqbatch.campaign.decide.stopping import LookTaken
    from seqbatch.campaign.files.reading import ReadingOptions
    from seqbatch.campaign.record.keyed_store import KeyedStore
    from seqbatch.campaign.steps.assign import Assigned
    from seqbatch.campaign.steps.close import Closed
    from seqbatch.campaign.steps.create import Prepared
    from seqbatch.campaign.steps.erase import Erased
    from seqbatch.campaign.steps.look import Looked
    from seqbatch.campaign.steps.record_sums import SumsRecorded
    from seqbatch.campaign.steps.recorded import Recorded
    from seqbatch.campaign.steps.unblind import Unblinded
    from seqbatch.campaign.views.findings import Findings
    from seqbatch.campaign.views.seal import Seal
    from seqbatch.campaign.views.status import Status, Step
    from seqbatch.campaign.views.verify_checks import Verified
    from seqbatch.campaign.warehouse.frozen_rule import FrozenRule
    from seqbatch.planning.proposal import Proposal


def _failure(error: Exception) -> str:
    return f"cannot be read: {type(error).__name__}: {error}"


class Campaign:
    """A real experiment in waves, kept in a store.

    Make one with :meth:`create` or :meth:`open`. The object keeps no state: every call reads the
    campaign from the store, and every call that changes it is one transaction and one event. Any
    number of processes may use the same campaign.

    Parameters
    ----------
    store
        The store of the campaign; see :func:`seqbatch.storage.open_store`.
    name
        The campaign's name.
    who
        The name that signs the events; if None, the user of the process.
    by_token
        Whether `who` is the owner of a token, which the service has checked.
    clock
        Returns the time of an event. The order of events does not depend on it.
    sight
        What the caller may see; by default, all results except those that are withheld.

    Examples
    --------
    >>> import polars as pl
    >>> from tempfile import TemporaryDirectory
    >>> from seqbatch.storage import open_store
    >>> spec = {
    ...     "name": "spring", "seed": 7, "actions": ["none", "mail"], "grid": {"sizes": [4, 4]},
    ...     "metrics": {"visit": {"kind": "yes/no"}}, "objective": {"maximise": "visit"},
    ...     "features": {"numeric": {"age": "raw"}},
    ... }
    >>> folder = TemporaryDirectory()
    >>> campaign = Campaign.create(spec, store=open_store(f"{folder.name}/campaigns.db"))
    >>> units = pl.DataFrame({"unit": ["a", "b", "c", "d"], "age": [31, 45, 28, 60]})
    >>> campaign.assign(units).table["action"].to_pylist()
    ['mail', 'mail', 'none', 'mail']
    >>> outcomes = pl.DataFrame({"unit": ["a", "b", "c", "d"], "visit": [1, 0, 1, 0]})
    >>> campaign.record(outcomes).accepted
    4
    >>> campaign.close().observed
    {'none': 1, 'mail': 3}
    >>> campaign.status()
    <Status of spring: wave 2 of 2, room for 4 more units; 4 units, 4 outcomes; 4 events>
    >>> campaign.status().waves[0]
    WaveStatus(wave=1, size=4, assigned=4, observed=4, closed=True, absent=0)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        who: str | None = None,
        by_token: bool = False,
        clock: Callable[[], datetime] | None = None,
        sight: Sight = USUAL,
    ) -> None:
        self.store = store
        self.name = arguments.text("name", name)
        known_by: Identity = "token" if by_token else "given" if who else "account"
        self._logbook = Logbook(who=who or this_user(), known_by=known_by, clock=clock or utc_now)
        self._sight = sight

    @classmethod
    def create(
        cls,
        spec: str | Path | Mapping[str, Any] | Spec | Prepared,
        *,
        store: Store,
        key: str | Path | None = None,
        rehearsal: str | Path | None = None,
        who: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> Campaign:
        """Create a campaign from a TOML file, from plain values, or from a checked spec.

        Parameters
        ----------
        spec
            The campaign's spec.
        store
            The store for the campaign.
        key
            The only file to which the key of a masked campaign, or of one with withheld results, is
            written; the key says which code is which action.
        rehearsal
            The .json file of a rehearsal of this spec, whose hash the first event keeps.
        who, clock
            The name that signs the events, and the clock.

        Warns
        -----
        DoubtWarning
            If the spec keeps all rules, but something may go wrong, such as a policy that locks in.

        Raises
        ------
        InvalidSpecError
            If the spec breaks a rule; the message quotes the offending lines.
        InvalidArgumentError
            If the rehearsal is of another spec, or was changed.
        CampaignStateError
            If the name is taken.
        """
        from seqbatch.campaign.record.rehearsal_file import RehearsalFile
        from seqbatch.campaign.steps.create import Prepared, create, prepare, with_rehearsal
        from seqbatch.campaign.steps.earlier import Sources

        if isinstance(spec, Prepared):
            prepared = spec
        else:
            sources = Sources(lambda: store)
            prepared = prepare(spec, defaults=store.defaults, sources=sources)
            for doubt in prepared.doubts:
                warnings.warn(DoubtWarning(doubt), stacklevel=2)
        if rehearsal is not None:
            prepared = with_rehearsal(prepared, RehearsalFile.read(rehearsal))
        campaign = cls(store, prepared.now.name, who=who, clock=clock)
        create(store, campaign._logbook, prepared, key=key)
        return campaign

    @classmethod
    def open(
        cls,
        name: str,
        *,
        store: Store,
        who: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> Campaign:
        """Return an existing campaign from the store."""
        campaign = cls(store, name, who=who, clock=clock)
        campaign.situation()
        return campaign

    def __repr__(self) -> str:
        """Return the campaign's status in one line, or why it cannot be read."""
        try:
            now = self.situation()
            where = condition_text(now.condition)
            if where == "open":
                where = f"wave {now.wave} of {len(now.sizes)}"
            said = f"{where}; {counted(now.assigned, 'unit')}; {counted(now.sequence, 'event')}"
        except Exception as error:  # whatever a damaged store can raise
            said = _failure(error)
        return f"<Campaign {self.name} in {self.store.label}: {said}>"

    def _repr_html_(self) -> str:
        try:
            return self.status()._repr_html_()
        except Exception as error:
            return paragraph(f"Campaign {self.name} in {self.store.label}: {_failure(error)}")

    @naming_damage
    def situation(self) -> Situation:
        """Return the campaign's current situation."""
        from seqbatch.campaign.views.status import now

        return now(self.store, self.name)

    @naming_damage
    def events(self) -> list[Event]:
        """Return all events, in order and in full: also the seed, and results that are withheld."""
        from seqbatch.campaign.views.status import events

        return events(self.store, self.name)

    @naming_damage
    def shown_events(self, *, key: str | Path | None = None) -> list[Event]:
        """Return all events, in order, with the fields that the caller may see.

        With the key they have all fields; see :meth:`findings`.
        """
        _, sight = self._seen(key)
        return shown_events(self.events(), self.situation(), sight)

    @naming_damage
    def status(self, *, at_event: int | None = None, key: str | Path | None = None) -> Status:
        """Return the campaign's status, now or right after event number `at_event`.

        The key opens withheld results, and shows the actions of a masked campaign by name.
        """
        from seqbatch.campaign.record.keyed_store import KeyedStore
        from seqbatch.campaign.views.status import status

        store, sight = self._seen(key)
        made = status(store, self.name, at_event=at_event)
        if isinstance(store, KeyedStore) and at_event is None:
            made = status_as_recorded(made, store.before)
        return status_without_results(made) if sight.hides(self.situation()) else made

    def _seen(self, key: str | Path | None) -> tuple[Store, Sight]:
        """Return the store to read from and what may be seen of it, with the key or without."""
        if key is None:
            return self.store, self._sight
        now, found = self.situation(), Key.read(key)
        if not now.key:
            rule = "left out: the campaign is not masked, and its interim results are open"
            raise InvalidArgumentError("key", rule, key)
        found.require_fitting(now.key)
        return (cast("Store", self._opened(found)) if now.masked else self.store), WITH_KEY

    def require_key(self, key: str | Path) -> None:
        """Refuse a key that is not the campaign's."""
        self._seen(key)

    def _opened(self, key: Key) -> KeyedStore:
        """Return a store in which the masked campaign is read with the names of its actions."""
        from seqbatch.campaign.decide.keyed_looks import keyed_looks
        from seqbatch.campaign.record.keyed_store import KeyedStore, unmasking

        with self.store.read(self.name) as reader:
            made: list[LookTaken | None] = []
            if current(reader).spec.stopping.looks:
                made = [one.taken for one in keyed_looks(reader, reader.events(), key)]
            looks = [one.plain() for one in made if one is not None]
            last = reader.events()[-1]
            return KeyedStore(self.store, last, unmasking(reader.name, last, key, looks))

    def _require_results(self) -> None:
        self._sight.require_results(self.situation())

    @naming_damage
    def findings(
        self,
        *,
        level: float = 0.95,
        at_event: int | None = None,
        tree: bool = False,
        boosted_trees: bool = False,
        conditional_power: bool = False,
        key: str | Path | None = None,
    ) -> Findings:
        """Return the results so far, with intervals that are valid after adaptive waves.

        Parameters
        ----------
        level
            The coverage of the intervals.
        at_event
            Show the campaign as it was right after this event; None means now.
        tree
            Also fit a tree of at most four leaves to all waves but the last, which judges it.
        boosted_trees
            Also say whether a rule by boosted trees would have done better than the rule to run
            next. This takes some seconds.
        conditional_power
            Also say how likely the looks to come are to show an action to be better.
        key
            The key opens withheld results, and shows the actions of a masked campaign by name.
        """
        from seqbatch.campaign.views.findings_estimates import findings

        store, sight = self._seen(key)
        sight.require_results(self.situation())
        at = self._logbook.now() if at_event is None else None
        return findings(
            store, self.name, level=level, at_event=at_event, at=at, tree=tree,
            boosted_trees=boosted_trees, conditional_power=conditional_power,
        )  # fmt: skip

    @naming_damage
    def next_rule(
        self,
        *,
        kind: str = "linear",
        file_format: str = "json",
        dialect: str = "duckdb",
        units: str = "units",
        at_event: int | None = None,
    ) -> str:
        """Return the rule to run next as text, to apply to units outside the campaign.

        Parameters
        ----------
        kind
            ``"linear"``: each unit gets the action with the best prediction from all waves.
            ``"tree"``: the tree of ``findings(tree=True)``.
        file_format
            ``"json"``: all that an evaluator needs. ``"sql"``: a statement. ``"python"``: a program
            that reads a CSV file and needs only Python's standard library.
        dialect, units
            For SQL: the dialect (see :meth:`sql`), and the table, as table or schema.table.
        at_event
            Show the campaign as it was right after this event; None means now.

        Raises
        ------
        CampaignStateError
            If there is no such rule, or SQL cannot express it; the message gives the reason.
        """
        from seqbatch.campaign.views.next_rule import next_rule

        self._require_results()
        return next_rule(
            self.store,
            self.name,
            kind=kind,
            file_format=file_format,
            dialect=dialect,
            units=units,
            at_event=at_event,
            at=self._logbook.now() if at_event is None else None,
        )

    @naming_damage
    def next_step(self) -> Step:
        """Return the next call: assign, record, close or look; report if no wave is open."""
        from seqbatch.campaign.views.status import next_step

        return next_step(self.store, self.name)

    @naming_damage
    def verify(
        self,
        *,
        seal: Seal | str | Path | None = None,
        signer: str | Path | None = None,
        key: str | Path | None = None,
    ) -> Verified:
        """Check every hash, and replay every estimate and every decision.

        Parameters
        ----------
        seal
            A seal made earlier, or its file; the event that it names must still exist.
        signer
            The file of a public key; the seal must be signed with the matching private key.
        key
            The key of a masked campaign, with which the looks of its holder are computed again.
        """
        from seqbatch.campaign.views.seal import Seal
        from seqbatch.campaign.views.verify import verify

        if isinstance(seal, str | Path):
            seal = Seal.read(seal)
        found = None if key is None else Key.read(key)
        return verify(self.store, self.name, seal=seal, signer=signer, key=found)

    @naming_damage
    def seal(
        self,
        out: str | Path | None = None,
        *,
        key: str | Path | None = None,
        force: bool = False,
    ) -> Seal:
        """Return a seal: the newest event's hash and the campaign's size, to be kept elsewhere.

        Parameters
        ----------
        out
            The .json file to write.
        key
            The file of an Ed25519 private key that signs the seal.
        force
            Overwrite an existing file.
        """
        from seqbatch.campaign.views.seal import seal

        if out is not None:
            apart = {"the store": self.store.files, "key": () if key is None else (key,)}
            require_target(out, force=force, endings=(".json",), apart_from=apart)
        made = seal(self.store, self.name, key=key)
        if out is not None:
            made.write(out)
        return made

    @naming_damage
    def report(
        self,
        out: str | Path,
        *,
        at_event: int | None = None,
        file_format: str | None = None,
        force: bool = False,
        key: str | Path | None = None,
        appendix: bool = False,
    ) -> Path:
        """Write the report: the decision on one page, with an appendix; return the file.

        Parameters
        ----------
        out
            The file: .html (a page that opens and prints without a network), .md or .json.
        at_event
            Show the campaign as it was right after this event; None means now.
        file_format
            "html", "md" or "json"; needed if the file's name does not show it.
        force
            Overwrite an existing file.
        key
            The key opens withheld results, and shows the actions of a masked campaign by name. Only
            the owner of the file may then read it.
        appendix
            Show the appendix: all numbers, methods and the audit. Otherwise a page has it closed,
            and prints the decision alone; Markdown leaves it out.
        """
        from seqbatch.campaign.record.keyed_store import KeyedStore
        from seqbatch.campaign.views.report import report
        from seqbatch.campaign.views.report_results import as_recorded, gathered

        out = Path(out)
        store, sight = self._seen(key)
        sight.require_results(self.situation())
        made = self._require_format(out, file_format, force=force)
        at = self._logbook.now() if at_event is None else None
        of = gathered(store, self.name, at_event=at_event, at=at)
        if isinstance(store, KeyedStore) and at_event is None:
            of = as_recorded(of, store.before)
        return write(report(of, appendix=appendix), out, file_format=made, private=key is not None)

    @naming_damage
    def protocol(
        self,
        out: str | Path,
        *,
        rehearsal: str | Path | None = None,
        file_format: str | None = None,
        force: bool = False,
    ) -> Path:
        """Write the protocol: the design declared before the first unit; return the file.

        Parameters
        ----------
        out
            The file: .html (a page that opens and prints without a network), .md or .json.
        rehearsal
            The .json file of the spec's rehearsal, whose tables become a section.
        file_format
            "html", "md" or "json"; needed if the file's name does not show it.
        force
            Overwrite an existing file.
        """
        from seqbatch.campaign.record.rehearsal_file import RehearsalFile
        from seqbatch.campaign.views.protocol import protocol

        out = Path(out)
        made = self._require_format(out, file_format, force=force)
        read = None if rehearsal is None else RehearsalFile.read(rehearsal)
        return write(protocol(self.events(), read), out, file_format=made)

    @naming_damage
    def package(
        self,
        out: str | Path,
        *,
        rehearsal: str | Path | None = None,
        force: bool = False,
        key: str | Path | None = None,
    ) -> str:
        """Write everything about the campaign to an archive; return the newest event's hash.

        The archive has spec, protocol, rehearsal, report, findings, the record, a seal, the
        versions of the software, and a script that verifies all of it elsewhere. Only the owner of
        the file may read it. The same record gives the same bytes with the same software.

        Parameters
        ----------
        out
            The .zip file.
        rehearsal
            The .json file of the spec's rehearsal.
        force
            Overwrite an existing file.
        key
            The key of a campaign that is masked or withholds results: its record has the seed. The
            package stays masked.
        """
        from seqbatch.campaign.views.package import package

        given = () if rehearsal is None else (rehearsal,)
        apart = {"the store": self.store.files, "the rehearsal": given}
        target = require_target(out, force=force, endings=(".zip",), apart_from=apart)
        _, sight = self._seen(key)
        return package(self.store, self.name, target, rehearsal=rehearsal, sight=sight)

    def _require_format(self, out: Path, file_format: str | None, *, force: bool) -> str:
        """Return the format of an output file; refuse the store's own files."""
        apart = {"the store": self.store.files}
        return require_format(out, force=force, file_format=file_format, apart_from=apart)

    @naming_damage
    def export(
        self,
        out: str | Path,
        *,
        what: str = "units",
        at_event: int | None = None,
        file_format: str | None = None,
        force: bool = False,
        key: str | Path | None = None,
    ) -> int:
        """Write stored records to a file; return the number of rows.

        Parameters
        ----------
        out
            The file.
        what
            units (with features, decisions and outcomes), outcomes (every version), rows (those
            that outcomes were combined from), held, events; or sums: a .json file from which a
            later campaign can start.
        at_event
            Export the campaign as it was right after this event; None means now.
        file_format
            The file's format; needed if the file's name does not show it.
        force
            Overwrite an existing file.
        key
            The key opens withheld results and the seed, and shows the actions of a masked campaign
            by name.
        """
        from seqbatch.campaign.views.export import export

        store, sight = self._seen(key)
        if what != "events":
            sight.require_results(self.situation())
        return export(
            self.store if what == "events" else store,
            self.name,
            out,
            what=what,
            at_event=at_event,
            file_format=file_format,
            force=force,
            sight=sight,
        )

    @naming_damage
    def assign(
        self,
        units: Any,
        *,
        out: str | Path | None = None,
        partial: bool = False,
        rest: str | Path | None = None,
        draw: bool = False,
        with_columns: Sequence[str] = (),
        split_by: str | None = None,
        out_format: str | None = None,
        force: bool = False,
        report: Callable[[str, int], None] | None = None,
        **reading: Unpack[ReadingOptions],
    ) -> Assigned:
        """Assign actions to units; a unit that already has an action gets the same answer again.

        Parameters
        ----------
        units
            A path, ``"-"``, a PyArrow table, or a Polars or pandas frame.
        out
            The file for the answers; if None, the result holds them. If both files are CSV, the
            answers have the delimiter, the decimal mark and the encoding of the units.
        partial, rest
            Take the first units that fit, and write the others, with all their columns, to `rest`.
        draw
            Draw the wave's units at random from a list of all units, in any order. The answers hold
            only the open wave's units; units of earlier waves are counted and skipped, so you can
            pass the same list for every wave.
        with_columns
            Columns of the units that are copied to the answers, such as names and addresses.
        split_by
            ``"action"`` for one file per action, named after `out`: out-mail.csv, out-none.csv.
        out_format
            The format of the answers; needed if the file's name does not show it.
        force
            Overwrite existing files.
        report
            Called from time to time with the current step and the number of rows done.
        reading
            How to read the file: file_format, delimiter, encoding, sheet, skip_rows and dedupe; see
            :class:`~seqbatch.campaign.files.reading.Source`.

        Raises
        ------
        InvalidArgumentError
            If two of the files are the same, one cannot be written, or one exists already.
        InvalidFileError
            If anything is wrong with the file; nothing is then assigned.
        CampaignStateError
            If the wave has no room, or no wave is open.
        OutputError
            If units were assigned, but a file could not be written.
        """
        from seqbatch.campaign.files.reading import silent, source_of
        from seqbatch.campaign.steps.assign import AnswerFile, assign

        return assign(
            self.store,
            self.name,
            self._logbook,
            source_of(units, **reading),
            answers=AnswerFile(
                out, out_format, tuple(with_columns), split_by, bare=not self._sight.results
            ),
            partial=partial,
            draw=draw,
            rest=rest,
            force=force,
            report=report or silent,
        )

    @naming_damage
    def record(
        self,
        outcomes: Any,
        *,
        correct: bool = False,
        reason: str = "",
        equal_rows: EqualRows | None = None,
        match_ids: bool = False,
        dry_run: bool = False,
        report: Callable[[str, int], None] | None = None,
        **reading: Unpack[ReadingOptions],
    ) -> Recorded:
        """Record outcomes; :mod:`seqbatch.campaign.decide.row_verdicts` decides on each row.

        Parameters
        ----------
        outcomes
            A path, ``"-"``, or a table or frame of PyArrow, Polars or pandas. It needs the column
            of at least one metric; metrics whose column it does not have stay as they are.
        correct, reason
            Whether a new value replaces the known one, and why; the old value is kept on record.
        equal_rows
            What rows mean that equal another one, if no column identifies them: ``"keep"`` counts
            them all, ``"drop"`` counts one of them. None refuses a file with equal rows.
        match_ids
            Match an unknown id to the one unit whose id differs from it only by leading zeros,
            spaces, case or a final ``.0``, as after a spreadsheet.
        dry_run
            Report what would happen to each row, but store nothing.
        report
            Called from time to time with the current step and the number of rows done.
        reading
            How to read the file: file_format, delimiter, encoding, sheet, skip_rows and dedupe; see
            :class:`~seqbatch.campaign.files.reading.Source`.
        """
        from seqbatch.campaign.files.reading import silent, source_of
        from seqbatch.campaign.steps.record import record

        return record(
            self.store,
            self.name,
            self._logbook,
            source_of(outcomes, **reading),
            correct=correct,
            why=reason,
            equal_rows=equal_rows,
            match_ids=match_ids,
            report=report or silent,
            dry_run=dry_run,
        )

    @naming_damage
    def close(
        self,
        *,
        wave: int | None = None,
        force: bool = False,
        skip: bool = False,
        reason: str = "",
    ) -> Closed:
        """Close the open wave: update the estimates and open the next wave.

        Parameters
        ----------
        wave
            The number of the wave to close. A wave that is closed already returns its answer again.
        force
            Close even though units or outcomes are missing.
        skip
            Learn nothing from the wave, now or later; use this if its data cannot be used.
        reason
            The reason for `force` or `skip`.

        Raises
        ------
        CampaignStateError
            If there are too few outcomes, the wave is empty, or no wave is open.
        """
        from seqbatch.campaign.steps.close import close

        hidden = self._sight.hides(self.situation())
        made = close(
            self.store, self.name, self._logbook, wave=wave, force=force, skip=skip, why=reason
        )
        return made.without_results() if hidden else made

    @naming_damage
    def look(
        self,
        key: str | Path,
        *,
        out: str | Path | None = None,
        force: bool = False,
        reason: str = "",
    ) -> Looked:
        """Take the look of the key holder after the last closed wave, which stays masked.

        The event has the verdict alone: "continue", "stop" or "planned end". Repeating the call
        returns the same look, and writes the report again.

        Parameters
        ----------
        key
            The key file of the masked campaign.
        out
            The file of the closed report, for the committee alone (.html, .md or .json): all
            results, with the names of the actions. Only its owner may read it.
        force
            Overwrite an existing file.
        reason
            A remark, which is recorded.

        Raises
        ------
        CampaignStateError
            If the campaign declares no such looks, or no wave is closed.
        """
        from seqbatch.campaign.steps.look import look
        from seqbatch.campaign.views.report import closed_report
        from seqbatch.campaign.views.report_results import as_recorded, gathered

        made = None
        if out is not None:
            out = Path(out)
            made = self._require_format(out, None, force=force)
        looked = look(self.store, self.name, self._logbook, key=key, why=reason)
        if out is not None and made is not None:
            found = Key.read(key)
            store = self._opened(found)
            of = as_recorded(gathered(cast("Store", store), self.name), store.before)
            document = closed_report(of, looked.wave, found.codes)
            write(document, out, file_format=made, private=True)
        return looked

    @naming_damage
    def unblind(self, unit: str | Sequence[str], *, key: str | Path, reason: str) -> Unblinded:
        """Return the action of one unit of a masked campaign, in an emergency.

        The event says who asked, when, why and for which unit, but not the action.

        Parameters
        ----------
        unit
            The unit's id: a text, or one for each of its columns.
        key
            The key file of the masked campaign.
        reason
            The reason.
        """
        from seqbatch.campaign.steps.unblind import unblind

        return unblind(self.store, self.name, self._logbook, unit, key=key, why=reason)

    @naming_damage
    def sql(
        self,
        *,
        what: str = "assign",
        dialect: str = "duckdb",
        units: str | None = None,
        assignments: str | None = None,
        outcomes: str | None = None,
        write: bool = False,
        partial: bool = False,
    ) -> str:
        """Return the open wave's rule as one SQL statement.

        Parameters
        ----------
        what
            ``"assign"``: every unit's action, score and probabilities, as `assign` gives them.
            ``"scaling"``: what is learned about columns from the first wave, for
            :meth:`record_sums`, before its sums.
            ``"sums"``: the sums that the campaign learns from, likewise.
            ``"findings"``: the next sums that findings of closed waves need, likewise.
        dialect
            duckdb, postgres, spark, bigquery, snowflake or trino.
        units, assignments, outcomes
            The tables, as table or schema.table: units only to assign, outcomes only for sums. The
            table of assignments keeps the waves apart: units in it get no action again, and the
            sums are computed from the decisions that it holds.
        write
            Whether the statement is a script that inserts the wave into the table of assignments,
            once; a second run changes nothing. Otherwise it selects what would be inserted.
        partial
            Whether the wave may have fewer units than planned.

        Raises
        ------
        CampaignStateError
            If SQL cannot express the rule; the message gives the reason.
        """
        from seqbatch.campaign.warehouse.findings_statement import next_statement
        from seqbatch.campaign.warehouse.statement import statement

        self._require_results()
        if what == "findings":
            return next_statement(
                self.store, self.name, dialect=dialect, assignments=assignments, outcomes=outcomes
            )
        return statement(
            self.store,
            self.name,
            what=what,
            dialect=dialect,
            units=units,
            assignments=assignments,
            outcomes=outcomes,
            write=write,
            partial=partial,
        )

    @naming_damage
    def rule(self) -> FrozenRule:
        """Return the open wave's rule, to decide for Arrow batches and sum them where they are.

        It gives the same decisions and the same sums as the statements of :meth:`sql`, bit for bit,
        but runs in Python, in any process. It works for every campaign that SQL can express.
        """
        from seqbatch.campaign.warehouse.frozen_rule import frozen_rule

        self._require_results()
        return frozen_rule(self.store, self.name)

    @naming_damage
    def record_sums(
        self, sums: Any, *, statement: str | Path, force: bool = False, reason: str = ""
    ) -> SumsRecorded:
        """Record sums over rows that are kept elsewhere: to close the open wave, or for findings.

        Which of the two follows from the statement. The last sums for findings of a wave take the
        look of the declared stopping rule.

        Parameters
        ----------
        sums
            The result of the statement: a path, ``"-"``, a PyArrow table or a Polars frame.
        statement
            The file with the SQL statement that was run, as :meth:`sql` returned it.
        force, reason
            Close even though units or outcomes are missing, and why.
        """
        from seqbatch.campaign.files.reading import source_of
        from seqbatch.campaign.steps.record_sums import record_sums

        return record_sums(
            self.store,
            self.name,
            self._logbook,
            source_of(sums),
            statement=statement,
            force=force,
            why=reason,
        )

    @naming_damage
    def amend(
        self,
        *,
        reason: str,
        sizes: list[int] | None = None,
        units: int | None = None,
        add: list[str | Mapping[str, Any]] | None = None,
        retire: list[str] | None = None,
        floor: float | None = None,
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
        force: bool = False,
    ) -> Event:
        """Change the campaign between two waves; existing assignments are not changed.

        Parameters
        ----------
        reason
            The reason for the change.
        sizes
            The sizes of all remaining waves; their number may change.
        units
            The total number of units; the remaining waves grow or shrink in proportion.
        add
            Actions to add: names, or names with features if the model is shared.
        retire
            Actions that no unit gets from now on.
        floor
            The smallest probability of each action from now on.
        metrics
            New settings of metrics, by metric, as in a spec: `column`, `format`, `absent`, `after`,
            `rows`, `row_id`, `date`, `date_format` and `within`. They apply to files recorded from
            now on, and to units that count as absent from now on. You may change them within a
            wave, too.
        force
            Amend even though later waves may then give the control to no unit.
        """
        from seqbatch.campaign.steps.amend import amend

        return amend(
            self.store,
            self.name,
            self._logbook,
            why=reason,
            sizes=sizes,
            units=units,
            add=add or (),
            retire=retire or [],
            floor=floor,
            metrics=metrics,
            force=force,
        )

    @naming_damage
    def replan(self, *, adopt: bool = False, reason: str = "") -> Proposal | None:
        """Return the sizes that closing the last wave proposed, or None if it proposed none.

        Parameters
        ----------
        adopt
            Adopt the sizes, which is recorded as an event. Repeating the call returns the same
            answer and changes nothing.
        reason
            The reason; by default, the basis of the proposal.
        """
        from seqbatch.campaign.steps.amend import adopt as adopt_proposal
        from seqbatch.planning.proposal import Proposal

        if adopt:
            return adopt_proposal(self.store, self.name, self._logbook, why=reason)
        now = self.situation()
        return None if now.proposal is None else Proposal.of(now.proposal)

    @naming_damage
    def go_on(self, *, reason: str) -> Event:
        """Continue although the rule declared in `[stopping]` says to stop, or without a look."""
        from seqbatch.campaign.steps.amend import go_on

        return go_on(self.store, self.name, self._logbook, why=reason)

    @naming_damage
    def stop(self, *, reason: str) -> Event:
        """Confirm the stop that the rule declared in `[stopping]` says; this is final.

        Before, the campaign can still be continued; results that are withheld until the end stay
        withheld until then.
        """
        from seqbatch.campaign.steps.amend import stop

        return stop(self.store, self.name, self._logbook, why=reason)

    @naming_damage
    def unmask(self, key: str | Path, *, reason: str) -> Event:
        """Unmask a campaign with its key: from then on, its actions are shown by name."""
        from seqbatch.campaign.steps.unmask import unmask

        return unmask(self.store, self.name, self._logbook, key=key, why=reason)

    @naming_damage
    def abort(self, *, reason: str) -> Event:
        """End the campaign early; you can still record outcomes, but not assign units."""
        from seqbatch.campaign.steps.amend import abort

        return abort(self.store, self.name, self._logbook, why=reason)

    @naming_damage
    def screen(
        self, assessed: int, *, excluded: Mapping[str, int] | None = None, reason: str = ""
    ) -> Event:
        """Record how many units were assessed before they were assigned; returns the event.

        Several screenings add up. The report shows them in the flow of units.

        Parameters
        ----------
        assessed
            The number of units that were assessed.
        excluded
            How many of them were excluded, by rule: ``{"younger than 18": 12}``.
        reason
            A remark, which is recorded.
        """
        from seqbatch.campaign.steps.screen import screen

        return screen(
            self.store, self.name, self._logbook, assessed=assessed, excluded=excluded or {},
            why=reason,
        )  # fmt: skip

    @naming_damage
    def sign(self, meaning: str, *, reason: str = "") -> Event:
        """Sign everything that is recorded so far; returns the event.

        The event has the name, how it is known (the owner of a token, the account that runs the
        process, or as given), and the meaning. Protocol, report and verification show it.

        Parameters
        ----------
        meaning
            What the signature means, such as "approved by the statistician".
        reason
            A remark, which is recorded.
        """
        from seqbatch.campaign.steps.sign import sign

        return sign(self.store, self.name, self._logbook, meaning=meaning, why=reason)

    @naming_damage
    def erase(self, units: Any, *, reason: str, **reading: Unpack[ReadingOptions]) -> Erased:
        """Erase the units of a file: ids, features, decisions and outcomes leave every record.

        Sums that were learned from them stay, and decisions about other units. The store keeps a
        keyed hash of each id, so that `assign` refuses an erased unit, and `record` leaves out its
        rows. Repeating the call changes nothing.

        Parameters
        ----------
        units
            A path, ``"-"``, or a table or frame with the column of the ids.
        reason
            The reason, such as the number of the request. It must not name the person.
        reading
            How to read the file; see :class:`~seqbatch.campaign.files.reading.Source`.
        """
        from seqbatch.campaign.files.reading import source_of
        from seqbatch.campaign.steps.erase import erase

        return erase(self.store, self.name, self._logbook, source_of(units, **reading), why=reason)

    @naming_damage
    def delete(self, *, reason: str, force: bool = False) -> Tombstone:
        """Delete a campaign that has no recorded outcomes; its name becomes free again.

        Only a tombstone remains: the name, the hash of the last event, who deleted it, when and
        why.

        Parameters
        ----------
        reason
            The reason.
        force
            Delete even though units were assigned.
        """
        from seqbatch.campaign.steps.delete import delete

        return delete(self.store, self.name, self._logbook, why=reason, force=force)
