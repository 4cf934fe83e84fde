"""The command `init`: write a commented spec that fits a file of units."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqbatch.cli.campaign import (
    Dedupe,
    Delimiter,
    Encoding,
    Force,
    Format,
    Sheet,
    SkipRows,
    names_in,
)
from seqbatch.cli.campaign_plan import sizes_of
from seqbatch.cli.console import (
    Json,
    dump,
    kindly,
    say,
    say_next,
    say_read_as,
    show,
    waiting,
)
from seqbatch.cli.messages import STORE, command, reading_options
from seqbatch.cli.rehearse import app
from seqbatch.display import counted
from seqbatch.document import Table
from seqbatch.errors import InvalidArgumentError

__all__ = ["app"]

if TYPE_CHECKING:
    from seqbatch.campaign.spec.template import FirstSpec

#: Maximum number of columns named in a line; the spec lists all of them.
NAMED = 12


@app.command()
def init(
    units: Annotated[
        str | None,
        typer.Argument(help="File of units to infer the spec from (default: an example)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("spec.toml"),
    name: Annotated[str, typer.Option(help="Name of the campaign.")] = "my-campaign",
    actions: Annotated[
        str, typer.Option(help="Actions, separated by commas.")
    ] = "nothing,offer A,offer B",
    control: Annotated[
        str | None,
        typer.Option(help="Action that the others are compared with (default: the first)."),
    ] = None,
    maximise: Annotated[
        str | None, typer.Option(help="Column of the outcome file that should become higher.")
    ] = None,
    minimise: Annotated[
        str | None, typer.Option(help="Column of the outcome file that should become lower.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Kind of this column: yes/no, count or amount (default: amount)."),
    ] = None,
    unit_of_measure: Annotated[
        str | None, typer.Option(help="Unit of measure of this column, such as EUR or visits.")
    ] = None,
    absent: Annotated[
        float | None,
        typer.Option(help="What a unit without a row counts as, such as 0 (default: missing)."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="What several rows of one unit mean: sum, count, any, first, last or max "
            "(default: they are refused)."
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="Cost of an action, for example mail=0.08; repeat for several."),
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Currency of costs and values, such as EUR.")
    ] = None,
    value: Annotated[
        float | None,
        typer.Option(help="What one unit of the column is worth, in the currency."),
    ] = None,
    less_costs: Annotated[
        bool | None,
        typer.Option(help="Whether costs are subtracted from the objective (profit)."),
    ] = None,
    purpose: Annotated[
        str,
        typer.Option(
            help="Purpose: earn (what the campaign earns) or choose (one action for all at "
            "the end)."
        ),
    ] = "earn",
    after: Annotated[
        int,
        typer.Option(help="Number of units that will get the final rule afterwards (roll-out)."),
    ] = 0,
    waves: Annotated[
        str | None,
        typer.Option(
            help="Number of waves (default: 3, or as planned), or their sizes, separated by commas."
        ),
    ] = None,
    randomised: Annotated[
        float | None,
        typer.Option(help="Share of units that always get a random action (default: 0.1)."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Let the planner choose the wave sizes (needs --base-rate and --smallest-lift, or "
            "--spread).",
        ),
    ] = False,
    base_rate: Annotated[
        str | None,
        typer.Option(
            help="For the plan, if the outcome is yes or no: how often it is yes without any "
            "action, such as 4%."
        ),
    ] = None,
    smallest_lift: Annotated[
        str | None,
        typer.Option(
            help="For the plan: the smallest lift that matters, such as 0.5pp (percentage points), "
            "or in the outcome's unit with --spread."
        ),
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(
            help="For the plan, if the outcome is an amount or a count: the mean of those who are "
            "not 0."
        ),
    ] = None,
    spread: Annotated[
        str | None, typer.Option(help="For the plan: their standard deviation.")
    ] = None,
    zeros: Annotated[
        str | None,
        typer.Option(
            help="For the plan: the share of zeros, such as 90%; with few zeros, --spread alone "
            "will do."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns that may become features, separated by commas (default: all that can)."
        ),
    ] = None,
    max_features: Annotated[
        int | None,
        typer.Option(
            help="Largest number of features; those that tell most are kept. A category has one "
            "for each level."
        ),
    ] = None,
    total: Annotated[
        int | None,
        typer.Option("--units", help="Total number of units (default: the file's rows)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random draws (default: a random one).")
    ] = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_rows: SkipRows = 0,
    dedupe: Dedupe = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a commented spec that fits a file of units; with a plan, also its truth to rehearse.

    Example: seqbatch campaign init units.csv --actions "none,offer A" --maximise revenue
    """
    with kindly(as_json=as_json):
        from seqbatch.campaign.files.reading import Source
        from seqbatch.campaign.rehearsal.example_truth import truth_beside, write_example
        from seqbatch.campaign.rehearsal.rehearsal import rehearsable
        from seqbatch.campaign.spec.template import write_spec
        from seqbatch.output_files import require_target

        truth, file = truth_beside(out), None
        if plan:
            require_target(truth, force=force)
        if units is not None:
            file = Source(
                units,
                file_format=file_format,
                delimiter=delimiter,
                encoding=encoding,
                sheet=sheet,
                skip_rows=skip_rows,
                dedupe=dedupe,
            )
        with waiting("planning the waves" if plan else "reading the file"):
            made = write_spec(
                out, file, force=force, name=name, control=control,
                actions=[action.strip() for action in actions.split(",")],
                **_about(maximise, minimise), unit_of_measure=unit_of_measure, absent=absent,
                rows=rows, costs=_costs(cost or ()), currency=currency, value=value,
                less_costs=less_costs, purpose=purpose_of(purpose, after),
                **_stated(kind=kind, seed=seed, randomised=randomised), **_waves(waves),
                units_in_all=total, plan=plan, base_rate=base_rate,
                smallest_lift=smallest_lift, mean=mean, spread=spread, zeros=zeros,
                max_features=max_features,
                columns=None if columns is None else names_in(columns),
            )  # fmt: skip
        if made.assumed is not None:
            write_example(truth, rehearsable(out).now, made.assumed, force=force)
    written = str(out) if made.assumed is None else f"{out} and {truth}"
    files = [] if units is None or units == "-" else [units, *reading_options(made.draft.reading)]
    then = command("validate", str(out), *files, store=STORE)
    say_read_as(made.read_as)
    if as_json:
        dump({"out": str(out), **_plain(made), "next": then})
        return
    _show_draft(made)
    unsure = ", ".join(each.column for each in made.draft.columns if each.asks)
    say(f"Wrote {written}.{f' Check these columns first: {unsure}.' if unsure else ''}")
    say_next(then)


def _plain(made: "FirstSpec") -> dict[str, Any]:
    """Return what was written as plain values for JSON."""
    return {
        "unit": list(made.draft.unit),
        "sizes": list(made.sizes),
        "columns": [asdict(column) for column in made.draft.columns],
        "eligible": dict(made.draft.eligible),
        "read_as": made.read_as,
    }


def _stated(**options: Any) -> dict[str, Any]:
    """Return the options that were given; the others have their defaults."""
    return {name: given for name, given in options.items() if given is not None}


def _waves(text: str | None) -> dict[str, Any]:
    """Return the number of waves, or their sizes."""
    sizes = sizes_of(text)
    if sizes is None:
        return {}
    return {"waves": sizes[0]} if len(sizes) == 1 else {"sizes": sizes}


def purpose_of(purpose: str, after: int) -> str | dict[str, int]:
    """Return the purpose as in a spec.

    >>> purpose_of("choose", 0), purpose_of("earn", 100_000)
    ('choose', {'after': 100000})
    """
    if after and purpose != "earn":
        raise InvalidArgumentError("purpose", '"earn" if after is given', purpose)
    return {"after": after} if after else purpose


def _about(maximise: str | None, minimise: str | None) -> dict[str, str]:
    """Return the metric and its better direction."""
    if maximise is not None and minimise is not None:
        raise InvalidArgumentError("minimise", "left out if maximise is given", minimise)
    if minimise is not None:
        return {"metric": minimise, "direction": "min"}
    return {} if maximise is None else {"metric": maximise}


def _costs(texts: Iterable[str]) -> dict[str, float]:
    """Return the costs that were given as ACTION=NUMBER."""
    made = {}
    for text in texts:
        action, _, number = text.rpartition("=")
        try:
            made[action.strip()] = float(number)
        except ValueError:
            rule = "ACTION=NUMBER, such as mail=0.08"
            raise InvalidArgumentError("cost", rule, repr(text)) from None
    return made


def _show_draft(made: "FirstSpec") -> None:
    """Print what became of the columns that are used, and in few lines which ones are not."""
    draft = made.draft
    if not draft.origin:
        return
    rows = [
        (each.column, each.became, each.why) for each in draft.columns if each.became != "left out"
    ]
    columns = ("column", "became", "why")
    show(Table(f"Columns of {draft.origin}", columns, rows, words=columns))
    for action, rule in draft.eligible.items():
        say(f"Who may get {action}: {rule}.")
    for reason, names in draft.left_out().items():
        some, more = ", ".join(names[:NAMED]), len(names) - NAMED
        say(f"Left out ({reason}): {some}{f' and {more} more' if more > 0 else ''}.")
    if made.crowded:
        say(
            f"The model has {counted(made.features, 'feature')}, more than the first wave has "
            "units for each action. --max-features 20 keeps those that tell most."
        )
