"""The command `rehearse`: run a spec many times on simulated outcomes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.campaign import (
    Dedupe,
    Delimiter,
    Encoding,
    Force,
    Format,
    Sheet,
    SkipRows,
    Where,
    stored,
)
from seqbatch.cli.console import Json, dump, kindly, present, progress, say, say_files, say_next
from seqbatch.cli.messages import STORE, command, reading_options
from seqbatch.cli.validate import app

__all__ = ["app"]


@app.command()
def rehearse(
    spec: Annotated[Path, typer.Argument(help="TOML file with the spec; see docs/how-to/spec.md.")],
    units: Annotated[
        Path | None,
        typer.Option(help="File of units to draw from (default: made from the spec's features)."),
    ] = None,
    truth: Annotated[
        list[Path] | None,
        typer.Option(help="TOML file that says what outcomes are like; repeat for several."),
    ] = None,
    write_truth: Annotated[
        Path | None,
        typer.Option(help="Write a truth that fits the spec, to be edited; rehearse nothing."),
    ] = None,
    campaigns: Annotated[
        int, typer.Option(min=1, help="Number of campaigns under each truth.")
    ] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed: the same one gives the same result.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    engine: Annotated[
        str, typer.Option(help="Engine: local, dask, ray, dask://HOST:PORT or ray://HOST:PORT.")
    ] = "local",
    parts: Annotated[
        Path | None,
        typer.Option(help="Folder for finished parts; an interrupted rehearsal continues from it."),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(help="File to write: .html, .md or .json; repeat for several."),
    ] = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_rows: SkipRows = 0,
    dedupe: Dedupe = None,
    store: Where = STORE,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run a spec many times on simulated outcomes, to see how often it is right.

    Always where no action differs, with the effect of the spec's plan, and under your truths.

    Example: seqbatch campaign rehearse spec.toml --units customers.csv --truth truth.toml --jobs 2
    """
    files = out or []
    reading: dict[str, Any] = {
        "file_format": file_format, "delimiter": delimiter, "encoding": encoding, "sheet": sheet,
        "skip_rows": skip_rows, "dedupe": dedupe,
    }  # fmt: skip
    if write_truth is not None:
        given = {name: value for name, value in reading.items() if value}
        drawn = [] if units is None else ["--units", str(units), *reading_options(given)]
        _write_truth(spec, write_truth, drawn, store, force=force, as_json=as_json)
        return
    with kindly(as_json=as_json):
        from seqbatch.campaign import rehearse as run
        from seqbatch.campaign.spec.toml import read_spec
        from seqbatch.document import require_format

        for file in files:
            require_format(file, force=force)
        with stored(store) as sources, progress(f"rehearsing {spec.name}") as report:
            made = run(
                spec, units=units, truths=truth or (), campaigns=campaigns, seed=seed, jobs=jobs,
                engine=engine, parts=parts, report=report, sources=sources, **reading,
            )  # fmt: skip
        for file in files:
            made.save(file, force=force)
        declared = read_spec(spec)
    kept = next((file for file in files if file.suffix == ".json"), None)
    words = ["create", str(spec), *(() if kept is None else ("--rehearsal", str(kept)))]
    if declared.masked or declared.interim == "committee":
        words += ["--key", f"{declared.name}.key"]
    then = command(*words, store=store)
    if as_json:
        dump({**made.plain(), "files": [str(file) for file in files], "next": then})
        return
    present(made.document())
    say_files(files)
    if kept is None:
        say("To store the rehearsal with the campaign, write it as JSON: --out rehearsal.json.")
    say_next(then)


def _write_truth(
    spec: Path, out: Path, drawn: Sequence[str], store: str, *, force: bool, as_json: bool
) -> None:
    """Write a truth that fits a spec, and name the command that rehearses it."""
    with kindly(as_json=as_json):
        from seqbatch.campaign.rehearsal.example_truth import write_example
        from seqbatch.campaign.rehearsal.rehearsal import rehearsable

        with stored(store) as sources:
            write_example(out, rehearsable(spec, sources).now, force=force)
    then = command("rehearse", str(spec), *drawn, "--truth", str(out), store=store)
    if as_json:
        dump({"files": [str(out)], "next": then})
        return
    say_files([out])
    say_next(then)
