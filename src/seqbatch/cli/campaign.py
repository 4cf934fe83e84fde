"""The commands that run a campaign: init, create, assign, record, close."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seqbatch.cli.console import (
    FOUND,
    Json,
    Visible,
    counting,
    dump,
    kindly,
    say,
    say_next,
    say_read_as,
    say_whole,
    show,
    waiting,
)
from seqbatch.cli.messages import STORE, About, command, in_options, reading_options
from seqbatch.display import counted, sentence
from seqbatch.document import Table
from seqbatch.errors import SeqbatchError

if TYPE_CHECKING:
    from seqbatch.campaign import Assigned, Campaign, Closed, Looked, Recorded
    from seqbatch.campaign.decide.action_counts import ChiSquare
    from seqbatch.campaign.decide.repeated_rows import EqualRows
    from seqbatch.campaign.record.current_situation import Situation
    from seqbatch.campaign.steps.earlier import Sources


# ----------------------------------------------------------------------
# The next command


#: The options of a statement for findings.
FINDINGS = ("--what", "findings", "--assignments", "YOUR_ASSIGNMENTS",
            "--outcomes", "YOUR_OUTCOMES")  # fmt: skip


def next_command(campaign: "Campaign", store: str, now: "Situation | None" = None) -> str | None:
    """Return the next command for a campaign; None if it is unknown.

    Errors while reading a folder or the store are ignored: this command has succeeded, and the
    next one will report them.

    Parameters
    ----------
    campaign
        The campaign.
    store
        Its store, as typed.
    now
        The campaign's situation; None to read it.
    """
    try:
        return command(*_words(now or campaign.situation()), store=store)
    except (SeqbatchError, OSError):
        return None


def say_or_close(now: "Situation", store: str) -> None:
    """Print when the wave can be closed although outcomes are missing, with the command."""
    from seqbatch.campaign.views.status import or_close

    if said := or_close(now):
        say(said)
        say_whole(f"Then: {command('close', now.name, store=store)}")


def _words(now: "Situation") -> list[str]:
    from seqbatch.campaign.views.status import step_from

    step = step_from(now)
    words = [step, now.name]
    if step == "assign":
        # Suggest only a file that this campaign has used: other files would be a guess.
        known = _fits(now.listed, now)
        words += [now.listed, *reading_options(now.reading)] if known else ["YOUR-UNITS.csv"]
        # Units that come one at a time are not chosen at random.
        how = "--partial" if now.spec.in_order else "--draw"
        words += [] if now.left is None else [how]
        words += ["--out", _new_file("assignments", now.wave)]
    elif step == "sql" and (now.condition != "open" or now.look_due):
        words += [*FINDINGS]
    elif step == "sql":
        words += ["--units", "YOUR_TABLE", "--assignments", "YOUR_ASSIGNMENTS", "--write"]
    elif step == "record":
        words.append(f"YOUR-OUTCOMES-{now.wave}.csv")
    elif step == "report":
        words += ["--out", _new_file(now.name, None, ".html")]
    elif step == "stop":
        words += ["--reason", "YOUR REASON"]
    elif step == "look":
        words += ["--key", "YOUR.key", "--out", _new_file("closed-report", now.wave - 1, ".html")]
    return words


def _fits(file: str, now: "Situation") -> bool:
    """Return whether a file exists and has the columns of a unit."""
    from seqbatch.campaign.files.reading import Source

    if not file or not Path(file).is_file():
        return False
    try:
        with Source(file, **now.reading) as opened:
            return set(now.encoder(wave=now.wave).columns) <= set(opened.columns())
    except (SeqbatchError, OSError):
        return False


def _new_file(stem: str, number: int | None, ending: str = ".csv") -> str:
    """Return the name of a file that does not exist yet."""
    names = [stem] if number is None else [stem, f"{stem}-{number}"]
    names += [f"{names[-1]}-{more}" for more in "abcdefgh"]
    return next((f"{name}{ending}" for name in names if not Path(f"{name}{ending}").exists()), "")


# ----------------------------------------------------------------------
# The commands


app = typer.Typer(cls=Visible, help="Run a real experiment in waves.", no_args_is_help=True)

#: Maximum number of held rows to show; `export --what held` writes all of them.
HELD = 5
#: A p-value below this is worth mentioning, although it proves nothing.
UNSURE = 0.05

Name = Annotated[str, typer.Argument(help="Name of the campaign.")]
Where = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="SEQBATCH_STORE",
        help="Store: an SQLite file, postgresql://user@host/database or lake:folder.",
    ),
]
Who = Annotated[
    str | None, typer.Option(help="Name recorded with the event (default: the current user).")
]
Reason = Annotated[str, typer.Option(help="Why; recorded with the event.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="File format: csv, xlsx, xls, parquet or arrow (default: by the name)."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Delimiter of a CSV file (default: detected)."),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a CSV file, such as utf-16 or cp1252 (default: detected)."),
]
Sheet = Annotated[
    str | None,
    typer.Option(help="Sheet of a workbook (default: the first visible one with rows)."),
]
SkipRows = Annotated[
    int, typer.Option(min=0, help="Number of lines, or rows of a sheet, above the header.")
]
Dedupe = Annotated[
    str | None,
    typer.Option(
        metavar="first|last|newest-by COLUMN",
        help="Row of a repeated unit that counts (default: repeats are refused).",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
OpenedBy = Annotated[
    Path | None,
    typer.Option("--key", help="Key file: opens withheld results, and shows actions by name."),
]


@contextmanager
def opened(
    name: str, store: str, who: str | None, as_json: bool, *, doing: str = "working on"
) -> Iterator["Campaign"]:
    """Open a campaign of an existing store; on a terminal, say what takes longer than a second.

    With `doing` = "", the command itself shows its progress.
    """
    shown = waiting(f"{doing} {name}") if doing else nullcontext()
    with kindly(as_json=as_json, about=About(name, store)), shown:
        from seqbatch.campaign import Campaign
        from seqbatch.storage import open_store

        base = open_store(store, create=False)
        try:
            yield Campaign(base, name, who=who)
        finally:
            base.close()


@contextmanager
def stored(store: str) -> Iterator["Sources"]:
    """Open a store only if a spec names an earlier campaign there."""
    from seqbatch.campaign.steps.earlier import Sources
    from seqbatch.storage import open_store

    with ExitStack() as opened_stores:
        yield Sources(lambda: opened_stores.enter_context(closing(open_store(store, create=False))))


@app.command()
def create(
    spec: Annotated[Path, typer.Argument(help="TOML file with the spec; see docs/how-to/spec.md.")],
    key: Annotated[
        Path | None,
        typer.Option(help="File for the key of a masked campaign, or one with withheld results."),
    ] = None,
    rehearsal: Annotated[
        Path | None,
        typer.Option(help="JSON file of a rehearsal of this spec; its hash is recorded."),
    ] = None,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Create a campaign from its spec.

    Example: seqbatch campaign create spec.toml
    """
    with kindly(as_json=as_json):
        from seqbatch.campaign import Campaign
        from seqbatch.campaign.steps.create import prepare
        from seqbatch.storage import defaults_of, open_store

        # Check the spec before opening the store, so a refused spec leaves no file behind.
        with stored(store) as sources:
            declared = prepare(spec, defaults=defaults_of(store), sources=sources)
        base = open_store(store)
        campaign = Campaign.create(declared, store=base, key=key, rehearsal=rehearsal, who=who)
        now, warnings = campaign.situation(), [doubt.text() for doubt in declared.doubts]
        then = next_command(campaign, store, now)
        # The label hides the password of a database.
        label = base.label
        base.close()
    if as_json:
        made = {"name": now.name, "store": label, "sizes": now.sizes, "policy": now.policy}
        dump({**made, "warnings": warnings, "next": then})
        return
    for warning in warnings:
        say(f"seqbatch: {warning}", to_errors=True)
    from seqbatch.campaign.decide.stopping import stopping_said, unlooked
    from seqbatch.campaign.record.earlier_campaign import history_said
    from seqbatch.campaign.spec.constraints_text import constraints_said
    from seqbatch.campaign.spec.measure import objective_said
    from seqbatch.policies.registry import plainly, text

    sizes = ", ".join(f"{size:,}" for size in now.sizes)
    say(f"Created campaign {now.name} in {label}.")
    if now.masked:
        say(
            f"Masked: its actions are called {', '.join(action.name for action in now.actions)}. "
            f"Only {key} tells which code is which action: keep it safe, and away from people who "
            "must not know."
        )
    elif now.withheld:
        say(f"Results are withheld until the end. Only {key} opens them before: keep it safe.")
    kind = "expected wave" if now.spec.grid.calendar else "wave"
    say(f"{len(now.actions)} actions; {counted(len(now.sizes), kind)} of {sizes} units.")
    for line in objective_said(now.spec):
        say(line)
    say(f"Policy {text(now.policy)}: {plainly(now.policy)}.")
    said = (
        *history_said(now.history, now.spec),
        *constraints_said(now.spec, over_waves=bool(now.balanced_since)),
        *stopping_said(now),
    )
    for line in said:
        say(line)
    for line in unlooked(now):
        say(f"Note: {line}.")
    say_next(then)


@app.command()
def assign(
    name: Name,
    units: Annotated[str, typer.Argument(help="File of units, or - for standard input.")],
    out: Annotated[str, typer.Option(help="File for the assignments, or - for standard output.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Assign the first units that fit in the wave.")
    ] = False,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw as many units as fit from the file, at random.")
    ] = False,
    rest: Annotated[
        str | None, typer.Option(help="File for the units that do not fit (with --partial).")
    ] = None,
    with_columns: Annotated[
        str | None,
        typer.Option("--with", help="Columns to copy to the assignments, separated by commas."),
    ] = None,
    split_by: Annotated[
        str | None, typer.Option(help="action: write one file per action, named after --out.")
    ] = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_rows: SkipRows = 0,
    dedupe: Dedupe = None,
    out_format: Annotated[
        str | None, typer.Option("--out-format", help="Like --format, for the assignments.")
    ] = None,
    force: Force = False,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Assign an action to each unit; units that already have one keep it.

    Example: seqbatch campaign assign spring units.csv --out assignments.csv
    """
    if partial and rest is None:
        # Named after the file of answers: units left over here belong to the next wave.
        rest = "rest.csv" if out == "-" else str(Path(out).with_name(f"{Path(out).stem}.rest.csv"))
    with opened(name, store, who, as_json, doing="") as campaign, counting() as report:
        from seqbatch.campaign.files.reading import Source

        result = campaign.assign(
            Source(
                units,
                file_format=file_format,
                delimiter=delimiter,
                encoding=encoding,
                sheet=sheet,
                skip_rows=skip_rows,
                dedupe=dedupe,
            ),
            out=out,
            partial=partial,
            draw=draw,
            rest=rest,
            with_columns=names_in(with_columns),
            split_by=split_by,
            out_format=out_format,
            force=force,
            report=report,
        )
        from seqbatch.campaign.decide.capacity_and_budget import worth

        now = campaign.situation()
        then = next_command(campaign, store, now)
        blind = result.wave == 1 and now.made_policy().starts_blind
        said = worth(now, result.limits)
    say_read_as(result.read_as)
    for warning in result.warnings:
        say(f"seqbatch: {warning}", to_errors=True)
    plain = {key: value for key, value in result.plain().items() if key != "table"}
    plain["next"] = then
    files = [out] if split_by is None else _split_files(out, now)
    if as_json:
        if out == "-":
            dump(plain, to_errors=True)
        else:
            written = {"out": out} if split_by is None else {"out": files}
            dump({**plain, **written, "rest": rest if result.left_over else None})
        return
    lines = [f"Wave {result.wave}: {counted(result.assigned, 'unit')} assigned"]
    if not result.assigned:
        lines = ["No new units were assigned"]
    if result.repeated:
        lines[0] += f", {result.repeated:,} already had an action"
    lines[0] += f"; written to {', '.join(files)}."
    shares = ", ".join(f"{action} {count:,}" for action, count in result.actions.items())
    if result.assigned and not now.withheld:
        how = " In the first wave, every unit gets a random action." if blind else ""
        lines.append(f"{shares}; {result.randomised:,} of them randomised.{how}")
    lines.extend(said)
    if result.clipped:
        from seqbatch.campaign.views.status import clipped_text

        lines.append(f"{clipped_text(result.clipped)}.")
    if draw:
        lines.append(_draw_text(result))
    elif result.left_over:
        lines.append(
            f"{counted(result.left_over, 'unit')} did not fit in this wave; written to {rest}."
        )
    if result.left:
        lines.append(f"The wave has room for {result.left:,} more.")
    for line in lines:
        say(line, to_errors=out == "-")
    say_next(then, to_errors=out == "-")


def names_in(text: str | None) -> list[str]:
    """Return names that were typed with commas between them.

    >>> names_in("email, name"), names_in(None)
    (['email', 'name'], [])
    """
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _split_files(out: str, now: "Situation") -> list[str]:
    """Return the files that were written, one for each action."""
    from seqbatch.campaign.files.writing import split_targets

    actions = [action.name for action in now.actions]
    return [str(file) for file in split_targets(out, actions).values()]


def _draw_text(result: "Assigned") -> str:
    if result.left == 0 and not result.assigned:
        return f"Wave {result.wave} already has its units; close it before you draw the next one."
    said = f"{result.assigned:,} of {result.drawn_from:,} drawn"
    if result.left_over:
        said += f"; {result.left_over:,} left for later waves"
    if result.earlier:
        said += f"; {result.earlier:,} were assigned in earlier waves and are not in this file"
    return f"{said}."


@app.command()
def record(
    name: Name,
    outcomes: Annotated[str, typer.Argument(help="File of outcomes, or - for standard input.")],
    correct: Annotated[
        bool, typer.Option("--correct", help="Replace recorded values with the new ones.")
    ] = False,
    reason: Reason = "",
    equal_rows: Annotated[
        str | None,
        typer.Option(
            help="What equal rows without an id mean: keep (separate orders) or drop (repeats)."
        ),
    ] = None,
    match_ids: Annotated[
        bool,
        typer.Option(
            "--match-ids", help="Match ids that lost zeros or gained spaces to their units."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen to the rows; record nothing.")
    ] = False,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_rows: SkipRows = 0,
    dedupe: Dedupe = None,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Record outcomes. Exit code 1: some rows were held (conflicts or quarantined).

    Example: seqbatch campaign record spring outcomes.csv
    """
    with opened(name, store, who, as_json, doing="") as campaign, counting() as report:
        from seqbatch.campaign.files.reading import Source

        result = campaign.record(
            Source(
                outcomes,
                file_format=file_format,
                delimiter=delimiter,
                encoding=encoding,
                sheet=sheet,
                skip_rows=skip_rows,
                dedupe=dedupe,
            ),
            correct=correct,
            reason=reason,
            equal_rows=cast("EqualRows | None", equal_rows),
            match_ids=match_ids,
            dry_run=dry_run,
            report=report,
        )
        now = campaign.situation()
        then = next_command(campaign, store, now)
    about = About(name, store)
    say_read_as(result.read_as)
    if as_json:
        dump({**result.plain(), "advice": advised(result, about), "next": then})
    else:
        _show_recorded(result, now, about)
        if dry_run:
            say("Dry run: nothing was written.")
        say_or_close(now, store)
        say_next(then)
    if result.conflict or result.quarantined:
        raise typer.Exit(FOUND)


def advised(result: "Recorded", about: About | None) -> list[str]:
    """Return advice about held rows, with commands that can be pasted."""
    return result.advised(partial(in_options, about=about))


def _show_recorded(result: "Recorded", now: "Situation", about: About) -> None:
    """Show the result of recording a file."""
    say(
        f"{counted(result.rows, 'row')}: {result.accepted:,} accepted, "
        f"{result.duplicate:,} duplicate, {result.conflict:,} conflict, "
        f"{result.quarantined:,} quarantined"
        f"{f', {result.outside:,} outside' if result.outside else ''}."
    )
    for remark in result.remarks:
        say(remark)
    if result.repeats and result.duplicate == result.rows:
        say(
            "Nothing is new: every row was recorded before, "
            f"{result.repeats:,} of them in closed waves. Is this the file of an earlier wave?"
        )
    if result.corrected:
        say(f"{counted(result.corrected, 'row')} replaced an earlier value, which is kept.")
    if result.late:
        end = (
            "the next estimate will use them"
            if now.condition == "open"
            else "findings and the report use them, but no later wave will"
        )
        say(f"From closed waves: {counted(result.late, 'outcome')}; {end}.")
    if result.held:
        show_held(result, "Held rows")
    for each in advised(result, about):
        say(each)


def show_held(result: "Recorded", title: str) -> None:
    """Show the first held rows, and the reasons for all of them."""
    columns, kinds = ("line", "unit", "verdict", "reason"), ("verdict", "reason", "rows")
    first = result.held[:HELD]
    if len(first) < result.conflict + result.quarantined:
        show(Table(f"{title} (the first {HELD})", columns, first, words=columns[1:], keys=2))
    else:
        show(Table(title, columns, first, words=columns[1:], keys=2))
    show(Table(f"{title} by reason", kinds, result.reasons, words=kinds[:2]))


@app.command()
def close(
    name: Name,
    wave: Annotated[
        int | None,
        typer.Option(help="Wave to close; if it is closed already, its result is shown again."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Close even if units or outcomes are missing.")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Learn nothing from this wave, now or later.")
    ] = False,
    reason: Reason = "",
    key: Annotated[
        Path | None,
        typer.Option(help="Key file of a masked campaign: take the look of its holder, too."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the closed report (with --key).")
    ] = None,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Close the open wave: check it, update the estimate, open the next wave.

    Example: seqbatch campaign close spring --wave 1
    """
    looked = None
    with opened(name, store, who, as_json, doing="closing the wave of") as campaign:
        if key is not None:
            campaign.require_key(key)
        result = campaign.close(wave=wave, force=force, skip=skip, reason=reason)
        if key is not None:
            looked = campaign.look(key, out=out)
        # If an earlier wave is shown again, its proposal may have lapsed.
        now = campaign.situation()
        valid, then = now.proposal is not None, next_command(campaign, store, now)
    if as_json:
        verdict = {} if looked is None else {"look": plain_look(looked)}
        dump({**asdict(result), "warnings": result.warnings, **verdict, "next": then})
        return
    show_closed(result)
    if looked is not None:
        say_look(looked, out)
    if now.look_due:
        from seqbatch.campaign.views.status import LOOK_DUE

        say(LOOK_DUE.format(wave=now.wave - 1))
    if valid and result.proposal is not None and result.proposal.changes:
        say_how_to_adopt(name, store)
    say_next(then)


def plain_look(looked: "Looked") -> dict[str, Any]:
    """Return a look without its numbers, which only the closed report has."""
    return {name: value for name, value in vars(looked).items() if name != "taken"}


def say_look(looked: "Looked", out: Path | None) -> None:
    """Print the verdict of a look, and where its numbers are."""
    say(f"Look after wave {looked.wave}: {looked.verdict} (event {looked.event}).")
    if out is not None:
        say(f"For the committee alone: {out}")


def say_how_to_adopt(name: str, store: str) -> None:
    """Print how to adopt the proposed sizes, and until when."""
    adopt = command("replan", name, "--adopt", store=store)
    say(f"To adopt the proposal before you assign more units: {adopt}")


def show_closed(result: "Closed") -> None:
    """Print the result of closing a wave."""
    from seqbatch.campaign.decide.replanning import proposal_text
    from seqbatch.campaign.decide.stopping import inflation_text, look_text
    from seqbatch.campaign.decide.wave_doubts import WAITED_FOR
    from seqbatch.campaign.record.held_rows import held_so_far_text, outside_text
    from seqbatch.campaign.steps.close import ALL
    from seqbatch.campaign.views.status import absences, recorded_table

    rows: list[list[Any]] = []
    counts = result.absent_value is not None
    for action, units in result.assigned.items():
        seen, absent = result.observed[action], result.absent[action]
        missing = f"{1 - (seen + absent) / units:.1%}" if units else ""
        beside = [absent] if counts else []
        rows.append([action, units, f"{result.expected[action]:,.1f}", seen, *beside, missing])
    absent_column = ("absent",) if counts else ()
    columns = ("action", "units", "expected", "outcomes", *absent_column, "missing")
    title = f"Wave {result.wave} closed (event {result.event})"
    show(Table(title, columns, rows, words=("action",)))
    if counts:
        recorded, absent = sum(result.observed.values()), sum(result.absent.values())
        say(f"Outcomes: {absences(recorded, absent, result.absent_value, result.measure)}.")
    if result.absent_earlier:
        say(f"{result.absent_earlier:,} units of earlier waves count as absent from now on.")
    if len(result.metrics) > 1:
        show(recorded_table(result.metrics))
    for warning in result.warnings:
        say(sentence(warning))
    withheld = set(result.assigned) == {ALL}
    if not withheld and not any(doubt.kind == WAITED_FOR for doubt in result.doubts):
        say(_missing_text(result.missingness))
    if not withheld:
        say(_allocation_text(result.allocation))
    if result.late:
        say(f"{counted(result.late, 'late outcome')} of earlier waves entered the estimate.")
    if result.replaced:
        say(f"{counted(result.replaced, 'late outcome')} replaced values assumed for absent units.")
    if result.corrected:
        say(f"{counted(result.corrected, 'correction')} of earlier outcomes entered the estimate.")
    if result.held is not None:
        say(held_so_far_text(result.held, result.unknown or 0))
    for within, count in result.outside.items():
        say(outside_text(within, count))
    if result.stopping is not None:
        say(look_text(result.stopping))
    if result.inflated is not None:
        say(inflation_text(result.inflated))
    if result.proposal is not None:
        say(proposal_text(result.proposal, result.measure))
    for note in result.notes:
        say(f"Note: {note}")
    say(f"Hash of event {result.event} (keep a copy): {result.hash}")


def _missing_text(test: "ChiSquare") -> str:
    if test.p is None:
        reason = "none are missing"
        if test.few:
            reason = (
                "too few are missing, or too few arrived, to tell whether they differ by action"
            )
        return f"Missing outcomes: {reason}."
    if test.suspicious:
        return (
            f"Missing outcomes DIFFER by action (p = {test.p:.3g}). Investigate before using these "
            "results."
        )
    sign = "no sign" if test.p >= UNSURE else "no clear sign"
    return f"Missing outcomes: {sign} that they differ by action (p = {test.p:.3g})."


def _allocation_text(test: "ChiSquare") -> str:
    if test.p is None:
        reason = (
            "too few units to test" if test.few else "nothing to test, because no action was random"
        )
        return f"Allocation: {reason}."
    if test.suspicious:
        return (
            f"Allocation does NOT match the logged probabilities (p = {test.p:.3g}). Investigate "
            "before using these results."
        )
    if test.p < UNSURE:
        return f"Allocation: no clear mismatch with the logged probabilities (p = {test.p:.3g})."
    return f"Allocation matches the logged probabilities (p = {test.p:.3g})."
