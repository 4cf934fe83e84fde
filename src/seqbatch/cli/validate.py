"""The command `validate`: try a spec and files without keeping anything."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqbatch.cli.campaign import (
    Dedupe,
    Delimiter,
    Encoding,
    Format,
    Sheet,
    SkipRows,
    Where,
    advised,
    show_held,
)
from seqbatch.cli.console import (
    BAD_INPUT,
    FOUND,
    Json,
    complain,
    complain_of,
    counting,
    dump,
    kindly,
    plain_error,
    say,
    say_next,
    say_read_as,
    say_whole,
)
from seqbatch.cli.messages import STORE, About, command, reading_options
from seqbatch.cli.views import app
from seqbatch.display import counted

__all__ = ["app"]

if TYPE_CHECKING:
    from seqbatch.campaign import Validated


@app.command()
def validate(
    spec: Annotated[Path, typer.Argument(help="TOML file with the spec; see docs/how-to/spec.md.")],
    units: Annotated[str | None, typer.Argument(help="File of units.")] = None,
    outcomes: Annotated[str | None, typer.Argument(help="File of outcomes of these units.")] = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_rows: SkipRows = 0,
    dedupe: Dedupe = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Check a spec and its files as create, assign and record would, and write nothing.

    Exit code 1: rows of outcomes would be held; 2: something would be refused.

    Example: seqbatch campaign validate spec.toml units.csv
    """
    with kindly(as_json=as_json), counting() as report, TemporaryDirectory() as folder:
        from seqbatch.campaign import validate as run
        from seqbatch.storage import open_store

        scratch = open_store(Path(folder) / "scratch.db")
        existing = open_store(store, create=False) if _there(store) else None
        try:
            found = run(
                spec, units, outcomes, scratch=scratch, existing=existing, report=report,
                file_format=file_format, delimiter=delimiter, encoding=encoding, sheet=sheet,
                skip_rows=skip_rows, dedupe=dedupe,
            )  # fmt: skip
        finally:
            scratch.close()
            if existing is not None:
                existing.close()
    then = None
    if found.sound and found.prepared is not None:
        now = found.prepared.now
        words = ["status", now.name] if found.exists else ["create", str(spec)]
        if now.key and not found.exists:
            words += ["--key", f"{now.name}.key"]
        then = command(*words, store=store)
    if as_json:
        dump({**_plain(found, store), "next": then})
    else:
        _show(found, units)
        if then is not None and not found.exists:
            read = {
                "file_format": file_format, "delimiter": delimiter, "encoding": encoding,
                "sheet": sheet, "skip_rows": skip_rows, "dedupe": dedupe,
            }  # fmt: skip
            options = reading_options({name: value for name, value in read.items() if value})
            drawn = [] if units in (None, "-") else ["--units", str(units), *options]
            _lead_to_rehearsal(found, spec, drawn, store)
        say_next(then)
    if found.problems:
        raise typer.Exit(BAD_INPUT)
    if not found.sound:
        raise typer.Exit(FOUND)


def _lead_to_rehearsal(found: "Validated", spec: Path, drawn: list[str], store: str) -> None:
    """Name the command that rehearses the spec, or the one that writes what it needs."""
    from seqbatch.campaign.rehearsal.example_truth import truth_beside
    from seqbatch.campaign.rehearsal.rehearsal import refusals
    from seqbatch.campaign.rehearsal.undeclared_truths import truth_of_plan

    assert found.prepared is not None
    if refusals(found.prepared.now.spec):
        return
    truth, said = truth_beside(spec), "To see first how often it would be right: "
    if truth.exists():
        drawn += ("--truth", str(truth))
    elif truth_of_plan(found.prepared.now) is None:
        drawn += ("--write-truth", str(truth))
        said = "To see first how often it would be right, write down what outcomes may be like: "
    say_whole(f"{said}{command('rehearse', str(spec), *drawn, store=store)}")


def _there(store: str) -> bool:
    path, _, elsewhere = store.removeprefix("sqlite:///").removeprefix("lake:").partition("?")
    return "://" in path or bool(elsewhere) or Path(path).exists()


def _plain(found: "Validated", store: str) -> dict[str, Any]:
    now = None if found.prepared is None else found.prepared.now
    about = None if now is None else About(now.name, store)
    tried = found.recorded
    return {
        "sound": found.sound,
        "spec": now and {"name": now.name, "sizes": now.sizes, "policy": now.policy},
        "exists": bool(found.exists),
        "units": found.units,
        "left_over": found.left_over,
        "warnings": found.warnings,
        "read_as": found.read_as,
        "outcomes": tried and {**tried.plain(), "advice": advised(tried, about)},
        "problems": [plain_error(problem) for problem in found.problems],
        "unchecked": found.unchecked,
    }


def _show(found: "Validated", units: str | None) -> None:
    if found.prepared is not None:
        from seqbatch.campaign.decide.stopping import stopping_said
        from seqbatch.campaign.spec.measure import objective_said

        now = found.prepared.now
        sizes = ", ".join(f"{size:,}" for size in now.sizes)
        say(f"Campaign {now.name}: {len(now.actions)} actions; waves of {sizes} units.")
        for line in (*objective_said(now.spec), *stopping_said(now)):
            say(line)
        if found.exists:
            say(
                f"It already exists in {found.exists}: outcomes are checked against its units, and "
                "this spec no longer has any effect on it."
            )
    for read_as in (found.read_as, found.recorded.read_as if found.recorded else ""):
        say_read_as(read_as)
    for warning in found.warnings:
        say(f"seqbatch: {warning}", to_errors=True)
    if found.units is not None:
        can = f"{units}: {counted(found.units, 'unit')} can be assigned"
        # The outcomes were tried in a temporary campaign, which has no units yet.
        say(f"{can}, except those that already have an action." if found.exists else f"{can}.")
    if found.left_over and not found.exists:
        in_order = found.prepared is not None and found.prepared.now.spec.in_order
        how = "--partial takes the first that fit" if in_order else "--draw draws as many as fit"
        say(f"The first wave has no room for {found.left_over:,} of them: assign {how}.")
    if found.recorded is not None:
        say(
            f"Outcomes: {found.recorded.accepted:,} would be accepted, "
            f"{found.recorded.duplicate:,} duplicate, {found.recorded.conflict:,} conflict, "
            f"{found.recorded.quarantined:,} quarantined."
        )
        if found.recorded.held:
            show_held(found.recorded, "Rows that would be held")
    for problem in found.problems:
        complain_of(problem)
    for line in found.unchecked:
        complain(f"not checked: {line}.")
    if found.sound:
        say("No problems found. Nothing was written.")
