"""A campaign, as its user holds it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from seqbatch.campaign.files.reading import source_of
from seqbatch.campaign.record.events import Logbook, this_user, utc_now
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event, Store, Tombstone
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps.amend import abort, amend, delete, go_on, unmask
from seqbatch.campaign.steps.amend import adopt as adopt_proposal
from seqbatch.campaign.steps.assign import Assigned, assign
from seqbatch.campaign.steps.close import Closed, close, record_sums
from seqbatch.campaign.steps.create import Prepared, create, prepare
from seqbatch.campaign.steps.record import Recorded, record
from seqbatch.campaign.views.export import export
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_estimates import findings
from seqbatch.campaign.views.protocol import protocol
from seqbatch.campaign.views.report import report
from seqbatch.campaign.views.report_results import gathered
from seqbatch.campaign.views.seal import Seal, seal
from seqbatch.campaign.views.status import Status, Step, events, next_step, now, status
from seqbatch.campaign.views.verify import naming_damage, verify
from seqbatch.campaign.views.verify_checks import Verified
from seqbatch.campaign.warehouse.frozen_rule import FrozenRule, frozen_rule
from seqbatch.campaign.warehouse.statement import statement
from seqbatch.core import arguments
from seqbatch.display import counted
from seqbatch.document import paragraph, require_format, write
from seqbatch.output_files import require_target
from seqbatch.planning.replanning import Proposal


def silent(doing: str, rows: int) -> None:
    """Report nothing."""


def _failure(error: Exception) -> str:
    return f"cannot be read: {type(error).__name__}: {error}"


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
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store = store
        self.name = arguments.text("name", name)
        self._logbook = Logbook(who=who or this_user(), clock=clock)

    @classmethod
    def create(
        cls,
        spec: str | Path | Mapping[str, Any] | Spec | Prepared,
        *,
        store: Store,
        key: str | Path | None = None,
        who: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> "Campaign":
        """Begin a campaign: a TOML file, the same as plain values, or what was checked already.

        Parameters
        ----------
        spec
            What is declared.
        store
            Where the campaign is kept.
        key
            The file that the key of a masked campaign is written to, and nowhere else: which code
            stands for which action.
        who, clock
            Who signs, and what time it is.

        Raises
        ------
        InvalidSpecError
            Where the spec breaks a rule; the offending lines are quoted.
        CampaignStateError
            Where the name is taken.
        """
        prepared = spec if isinstance(spec, Prepared) else prepare(spec, defaults=store.defaults)
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
        clock: Callable[[], datetime] = utc_now,
    ) -> "Campaign":
        """Return a campaign that is in the store."""
        campaign = cls(store, name, who=who, clock=clock)
        campaign.situation()
        return campaign

    def __repr__(self) -> str:
        """Say where the campaign stands, or why that cannot be said."""
        try:
            now = self.situation()
            where = now.condition
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
        """Return where the campaign stands."""
        return now(self.store, self.name)

    @naming_damage
    def events(self) -> list[Event]:
        """Return everything that was done, in order."""
        return events(self.store, self.name)

    @naming_damage
    def status(self, *, at_event: int | None = None) -> Status:
        """Return where the campaign stands, or stood right after event number `at_event`."""
        return status(self.store, self.name, at_event=at_event)

    @naming_damage
    def findings(self, *, level: float = 0.95, at_event: int | None = None) -> Findings:
        """Return what was learned so far, with intervals that hold after adaptive waves.

        Parameters
        ----------
        level
            The coverage of the intervals.
        at_event
            As it was right after this event; now where None.
        """
        return findings(self.store, self.name, level=level, at_event=at_event)

    @naming_damage
    def next_step(self) -> Step:
        """Return which call comes next: assign, record, close, or report where no wave is open."""
        return next_step(self.store, self.name)

    @naming_damage
    def verify(
        self, *, seal: Seal | str | Path | None = None, signer: str | Path | None = None
    ) -> Verified:
        """Check every hash, and replay every estimate and every decision.

        Parameters
        ----------
        seal
            A seal made earlier, or its file: the event that it names must still be there.
        signer
            The file of a public key whose owner must have signed the seal.
        """
        if isinstance(seal, str | Path):
            seal = Seal.read(seal)
        return verify(self.store, self.name, seal=seal, signer=signer)

    @naming_damage
    def seal(
        self,
        out: str | Path | None = None,
        *,
        key: str | Path | None = None,
        force: bool = False,
    ) -> Seal:
        """Return the newest event's hash with what it stands for, to be kept elsewhere.

        Parameters
        ----------
        out
            A file to write it to, .json.
        key
            The file of an Ed25519 private key to sign it with.
        force
            Overwrite a file that is there.
        """
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
    ) -> Path:
        """Write what was learned, how sure that is and how it came about; return the file.

        Parameters
        ----------
        out
            The file: .html (a page that opens and prints without a network), .md or .json.
        at_event
            As it was right after this event; now where None.
        file_format
            "html", "md" or "json", where the file's name does not say it.
        force
            Overwrite a file that is there.
        """
        out = Path(out)
        made = self._require_format(out, file_format, force=force)
        document = report(gathered(self.store, self.name, at_event=at_event))
        return write(document, out, file_format=made)

    @naming_damage
    def protocol(
        self, out: str | Path, *, file_format: str | None = None, force: bool = False
    ) -> Path:
        """Write what was declared before the first unit, for a committee to read; return the file.

        Parameters
        ----------
        out
            The file: .html (a page that opens and prints without a network), .md or .json.
        file_format
            "html", "md" or "json", where the file's name does not say it.
        force
            Overwrite a file that is there.
        """
        out = Path(out)
        made = self._require_format(out, file_format, force=force)
        return write(protocol(self.events()), out, file_format=made)

    def _require_format(self, out: Path, file_format: str | None, *, force: bool) -> str:
        """Return the format of a file that may be written: not one of the store's own files."""
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
    ) -> int:
        """Write what is stored to a file; return how many rows.

        Parameters
        ----------
        out
            The file.
        what
            units (with features, decisions and outcomes), outcomes (every version), held, events.
        at_event
            As it was right after this event; now where None.
        file_format
            The file's format, where its name does not say it.
        force
            Overwrite a file that is there.
        """
        return export(
            self.store,
            self.name,
            out,
            what=what,
            at_event=at_event,
            file_format=file_format,
            force=force,
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
        file_format: str | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        out_format: str | None = None,
        force: bool = False,
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
        draw
            Draw the wave's units from a list of everybody, whatever its order. The answers hold the
            open wave's units alone; those of earlier waves are counted and passed over, so that
            the same list can be handed over for every wave.
        file_format, out_format
            The files' formats, where their names do not say them.
        delimiter, encoding
            How a CSV file is spelled: ``";"`` or ``"semicolon"``, ``"utf-16"``; found in the file
            where None.
        force
            Overwrite files that are there.
        report
            Called now and then with what is being done and the rows done.

        Raises
        ------
        InvalidArgumentError
            Where two of the files are the same, one cannot be written, or one is there already.
        InvalidFileError
            Where anything is wrong with the file: nothing is then assigned.
        CampaignStateError
            Where the wave has no room, or no wave is open.
        OutputError
            Where units were assigned, but a file could not be written.
        """
        return assign(
            self.store,
            self.name,
            self._logbook,
            source_of(units, file_format=file_format, delimiter=delimiter, encoding=encoding),
            out=out,
            partial=partial,
            draw=draw,
            rest=rest,
            out_format=out_format,
            force=force,
            report=report,
        )

    @naming_damage
    def record(
        self,
        outcomes: Any,
        *,
        correct: bool = False,
        reason: str = "",
        dry_run: bool = False,
        file_format: str | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        report: Callable[[str, int], None] = silent,
    ) -> Recorded:
        """Record outcomes; :mod:`seqbatch.campaign.decide.row_verdicts` decides on each row.

        Parameters
        ----------
        outcomes
            A path, ``"-"``, a PyArrow table or a Polars frame.
        correct, reason
            Whether another value replaces the known one, and why; the old one is kept.
        dry_run
            Say what would become of the rows, and keep nothing.
        file_format
            The file's format, where its name does not say it.
        delimiter, encoding
            How a CSV file is spelled: ``";"`` or ``"semicolon"``, ``"utf-16"``; found in the file
            where None.
        report
            Called now and then with what is being done and the rows done.
        """
        return record(
            self.store,
            self.name,
            self._logbook,
            source_of(outcomes, file_format=file_format, delimiter=delimiter, encoding=encoding),
            correct=correct,
            why=reason,
            report=report,
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
        """End the open wave: re-estimate and open the next.

        Parameters
        ----------
        wave
            The wave that is meant. One that is closed already gets its answer again.
        force
            Close even though units or outcomes are missing.
        skip
            Learn nothing from the wave, now or later: the way out where its data cannot be used.
        reason
            Why, with either of them.

        Raises
        ------
        CampaignStateError
            Where outcomes are too few, the wave is empty, or none is open.
        """
        return close(
            self.store, self.name, self._logbook, wave=wave, force=force, skip=skip, why=reason
        )

    @naming_damage
    def sql(
        self,
        *,
        what: str = "assign",
        dialect: str = "duckdb",
        units: str,
        outcomes: str | None = None,
    ) -> str:
        """Return the open wave's rule as one statement for a database.

        Parameters
        ----------
        what
            ``"assign"``: every unit's action, score and probabilities, as `assign` gives them.
            ``"sums"``: what the wave teaches, for :meth:`record_sums`.
        dialect
            duckdb, postgres, spark, bigquery, snowflake or trino.
        units, outcomes
            The tables, as table or schema.table; outcomes for sums alone.

        Raises
        ------
        CampaignStateError
            Where SQL cannot say the rule; the reason is named.
        """
        return statement(
            self.store, self.name, what=what, dialect=dialect, units=units, outcomes=outcomes
        )

    @naming_damage
    def rule(self) -> FrozenRule:
        """Return the open wave's rule, to decide and sum up Arrow batches wherever they are.

        It is to :meth:`sql` what our own kernels are to a database: the same decisions and the same
        sums, bit for bit, of any campaign that SQL can say.
        """
        return frozen_rule(self.store, self.name)

    @naming_damage
    def record_sums(
        self, sums: Any, *, statement: str | Path, force: bool = False, reason: str = ""
    ) -> Closed:
        """Close the open wave of a campaign whose rows are kept elsewhere.

        Parameters
        ----------
        sums
            The result of the statement: a path, ``"-"``, a PyArrow table or a Polars frame.
        statement
            The file of the statement that was run, as :meth:`sql` returned it.
        force, reason
            Close even though units or outcomes are missing, and why.
        """
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
        absent: float | None = None,
        after: str | None = None,
        reward_format: str | None = None,
        metric_formats: Mapping[str, str] | None = None,
        force: bool = False,
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
        absent, after
            What a unit without an outcome counts as when its wave is closed, from the open wave on,
            and how long after its assignment at the earliest. This may also be changed within a
            wave.
        reward_format, metric_formats
            How numbers are spelled in the outcome files that are recorded from now on, by an
            example as in a spec; those of metrics by column. This may be changed at any time.
        force
            Amend even though no unit is then sure to get the control.
        """
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
            absent=absent,
            after=after,
            reward_format=reward_format,
            metric_formats=metric_formats,
            force=force,
        )

    @naming_damage
    def replan(self, *, adopt: bool = False, reason: str = "") -> Proposal | None:
        """Return the sizes that closing the last wave proposed, None where there are none.

        Parameters
        ----------
        adopt
            Make them the campaign's, by an event of their own. Once they are, the same call gets
            the same answer, and changes nothing.
        reason
            Why; what the proposal rests on, where left out.
        """
        if adopt:
            return adopt_proposal(self.store, self.name, self._logbook, why=reason)
        now = self.situation()
        return None if now.proposal is None else Proposal.of(now.proposal)

    @naming_damage
    def go_on(self, *, reason: str) -> Event:
        """Go on although the rule declared in `[stopping]` says to stop."""
        return go_on(self.store, self.name, self._logbook, why=reason)

    @naming_damage
    def unmask(self, key: str | Path, *, reason: str) -> Event:
        """Bring back the key of a masked campaign: its actions have their names from then on."""
        return unmask(self.store, self.name, self._logbook, key=key, why=reason)

    @naming_damage
    def abort(self, *, reason: str) -> Event:
        """End the campaign early; outcomes may still be recorded, nothing is assigned any more."""
        return abort(self.store, self.name, self._logbook, why=reason)

    @naming_damage
    def delete(self, *, reason: str, force: bool = False) -> Tombstone:
        """Delete a campaign that has no outcomes on record; its name is free again.

        Everything goes but a tombstone: the name, the hash of the last event, who, when and why.

        Parameters
        ----------
        reason
            Why.
        force
            Delete even though units were assigned.
        """
        return delete(self.store, self.name, self._logbook, why=reason, force=force)
