"""The command `seqbatch`, and its research commands: reproduce, simulate, grid."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

import seqbatch
from seqbatch.cli import service, store, warehouse
from seqbatch.cli.console import (
    BAD_INPUT,
    INTERRUPTED,
    UNBOUNDED,
    Json,
    Visible,
    complain,
    console,
    dump,
    kindly,
    progress,
    say_files,
    show,
)
from seqbatch.cli.doctor import doctor
from seqbatch.cli.plan import plan
from seqbatch.document import Table
from seqbatch.errors import InvalidArgumentError

app = typer.Typer(
    cls=Visible,
    help="Adaptive experiments whose feedback comes in a few batches.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes.")]
OnEngine = Annotated[
    str, typer.Option(help="Engine: local, dask, ray, dask://HOST:PORT or ray://HOST:PORT.")
]
app.add_typer(warehouse.app, name="campaign")
app.add_typer(service.app, name="token")
app.add_typer(store.app, name="store")


def _version(wanted: bool) -> None:
    if wanted:
        print(seqbatch.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Adaptive experiments whose feedback comes in a few batches."""


app.command()(plan)
app.command()(service.serve)
app.command()(doctor)


@app.command("policies")
def list_policies(as_json: Json = False) -> None:
    """List the policies, with their parameters and defaults."""
    from seqbatch.policies import registry

    rows = [[name, _first_line(kind), _parameters(kind)] for name, kind in registry.kinds().items()]
    columns = ("policy", "what it is", "parameters")
    show(Table("Policies", columns, rows, words=columns), as_json=as_json)


@app.command("environments")
def list_environments(as_json: Json = False) -> None:
    """List the environments, with their parameters and defaults."""
    from seqbatch import environments as families
    from seqbatch.environments.linear import LinearEnvironment

    rows = [
        [name, _first_line(kind), _parameters(kind)]
        for name in families.__all__
        if isinstance(kind := getattr(families, name), type)
        and hasattr(kind, "instance")
        and kind not in (LinearEnvironment, families.Environment)
    ]
    columns = ("environment", "what it is", "parameters")
    show(Table("Environments", columns, rows, words=columns), as_json=as_json)


@app.command()
def grid(
    units: Annotated[int, typer.Option(help="Number of units, T.")],
    kind: Annotated[
        str, typer.Option(help="Kind of grid: uniform, online, minimax, sparse or geometric.")
    ] = "minimax",
    dim: Annotated[
        int, typer.Option(help="Dimension, d; for sparse, the number of nonzero parameters.")
    ] = 1,
    batches: Annotated[
        str | None,
        typer.Option(
            help="Number of batches, or adversarial, stochastic or problem-dependent; "
            "not for online.",
            show_default="3",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Scale of a minimax grid; 0.4 gives the grid of Section 6.2."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the batches of a grid: where each starts and ends.

    Example: seqbatch grid --units 50000 --dim 10 --batches 3
    """
    from seqbatch.grids import GridRule

    with kindly():
        _require_computed(kind)
        number: int | str | None = int(batches) if batches and batches.isdigit() else batches
        if number is None and kind != "online":
            number = 3
        made = GridRule(kind=kind, batches=number, scale=scale).grid(units, dim)
        [table] = made.tables()
        show(replace(table, title=f"{kind} grid: {table.title}"), as_json=as_json)


def _require_computed(kind: str) -> None:
    """Refuse kinds of grids that this command cannot compute."""
    from seqbatch.grids import KINDS

    computed = [each for each in KINDS if each != "explicit"]
    if kind not in computed:
        raise InvalidArgumentError(
            "kind", f"one of {', '.join(map(repr, computed))}", repr(kind),
            "The ends of an explicit grid are given, not computed: in Python, use "
            "grids.explicit([1000, 3000])." if kind == "explicit" else "",
        )  # fmt: skip


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(help="fig1-mushroom, fig1-covertype, fig2, fig3, batches or all."),
    ],
    trials: Annotated[int | None, typer.Option(min=1, help="Number of trials.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out"),
    jobs: Jobs = 1,
    engine: OnEngine = "local",
    device: Annotated[
        str | None, typer.Option(help="Run fig2 or fig3 on cuda, cpu or numpy; see docs/gpu.md.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce a figure of the paper as a table, a picture and a check of its claims.

    You can interrupt it at any time; the same command resumes it.
    """
    with kindly(extra="lab"):
        from seqbatch.lab import EXPERIMENTS, Options
        from seqbatch.lab import reproduce as run

    if name != "all" and name not in EXPERIMENTS:
        known = ", ".join([*EXPERIMENTS, "all"])
        meant = " or ".join(each for each in EXPERIMENTS if each.startswith(name))
        hint = f" Did you mean {meant}?" if meant else ""
        complain(f"name must be one of {known}; received {name}.{hint}")
        raise typer.Exit(BAD_INPUT)
    files, failed = {}, False
    for wanted in list(EXPERIMENTS) if name == "all" else [name]:
        try:
            with kindly(), progress(wanted) as report:
                options = Options(
                    out=out, trials=trials, quick=quick, jobs=jobs, engine=engine, device=device,
                    report=report,
                )  # fmt: skip
                files[wanted] = [str(file) for file in run(EXPERIMENTS[wanted], options)]
        except typer.Exit as stopped:
            # Missing data of one figure must not prevent the others.
            if stopped.exit_code == INTERRUPTED:
                raise
            failed = True
            continue
        if not as_json:
            _print_markdown(Path(files[wanted][-1]).read_text(encoding="utf-8"))
            say_files(files[wanted])
    if as_json:
        dump(files)
    if failed:
        raise typer.Exit(BAD_INPUT)


def _print_markdown(text: str) -> None:
    # Imported here: its parser takes longer to load than most commands run.
    from rich.markdown import Markdown

    print(text) if UNBOUNDED else console.print(Markdown(text))


@app.command()
def simulate(
    spec: Annotated[
        Path, typer.Argument(help="TOML file that declares the study; see docs/how-to/study.md.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out/simulation"),
    jobs: Jobs = 1,
    engine: OnEngine = "local",
    as_json: Json = False,
) -> None:
    """Run your own study: policies in environments, on grids, at several horizons.

    Example: seqbatch simulate study.toml --jobs 2
    """
    from seqbatch.simulation import Study

    with kindly(), progress(spec.stem) as report:
        result = Study.load(spec).run(out / "run", jobs=jobs, engine=engine, report=report)
        files = result.save(out)
    if as_json:
        dump(result.summary().to_polars().to_dicts())
        return
    for table in result.tables():
        show(table)
    say_files(files)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _parameters(kind: type) -> str:
    parts, types = [], get_type_hints(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        default = parameter.default
        shown = "" if default is inspect.Parameter.empty else f"={default!r}"
        others = [repr(word) for word in _choices(types.get(name)) if word != default]
        parts.append(f"{name}{shown}" + (f" (or {', '.join(others)})" if others else ""))
    return ", ".join(parts)


def _choices(annotation: Any) -> list[str]:
    """Return the words that a parameter takes, also in a union with other types."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [word for part in get_args(annotation) for word in _choices(part)]
