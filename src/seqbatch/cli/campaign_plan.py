"""A plan in the user's terms on the command line: its options, its page and the next command."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqbatch.cli.console import (
    advancing,
    console,
    dump,
    present,
    say,
    say_files,
    say_next,
    say_read_as,
)
from seqbatch.display import counted
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from seqbatch.planning import CampaignPlan

# ----------------------------------------------------------------------
# Options.


Customers = Annotated[
    int | None,
    typer.Option(help="Number of customers; each gets one action."),
]
SmallestLift = Annotated[
    str | None,
    typer.Option(
        help="Smallest lift that would matter to you: 0.5pp (percentage points), or 0.50EUR."
    ),
]
Value = Annotated[
    str | None,
    typer.Option(help="What one yes is worth, such as 12EUR."),
]
Cost = Annotated[
    list[str] | None,
    typer.Option(
        help="Cost of an action for each customer, such as mail=0.08; repeat for several. A number "
        "alone is the cost of every action but the control."
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        help="For an amount: its mean among customers who spend something, such as 80EUR."
    ),
]
Spread = Annotated[
    str | None,
    typer.Option(help="For an amount: its standard deviation among them."),
]
Zeros = Annotated[
    str | None,
    typer.Option(help="For an amount: the share of customers who spend nothing, such as 96%."),
]
History = Annotated[
    Path | None,
    typer.Option(help="File of past outcomes, from which rate, mean, spread and zeros are read."),
]
Column = Annotated[
    str | None,
    typer.Option(help="Column of the history with the outcomes (default: the only one that fits)."),
]
Details = Annotated[
    bool,
    typer.Option("--details", help="Add the page for statisticians."),
]


# ----------------------------------------------------------------------
# The plan, its files and the next command.


def campaign_of(typed: dict[str, Any]) -> "CampaignPlan":
    """Make a plan in the user's terms."""
    from seqbatch.planning import plan_campaign
    from seqbatch.planning.campaign_terms import costs_of

    sizes = sizes_of(typed["waves"])
    plain = ("power", "missing", "delay", "seed", "after", "purpose")
    asked = {name: typed[name] for name in plain}
    if typed["randomised"] is not None:
        asked["randomised"] = typed["randomised"]
    past = _past(typed)
    with advancing("planning") as progress:
        return plan_campaign(
            customers=typed["customers"],
            actions=actions_of(typed["actions"]),
            waves=sizes[0] if sizes is not None and len(sizes) == 1 else sizes,
            costs=costs_of(typed["cost"] or ()), history=past,
            **{name: typed[name] for name in QUESTION}, **asked, progress=progress,
        )  # fmt: skip


#: The options that describe the outcome.
QUESTION = ("base_rate", "smallest_lift", "value", "mean", "spread", "zeros")


def actions_of(text: str | None) -> int | list[str] | None:
    """Return the number of actions, or their names."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else text.split(",")


def _past(typed: dict[str, Any]) -> Any:
    """Return the outcomes in the history."""
    from seqbatch.campaign.files.reading import Source
    from seqbatch.datasets.past_outcomes import past_outcomes

    if typed["history"] is None:
        if typed["column"] is not None:
            raise InvalidArgumentError("history", "given with --column", "none")
        return None
    reading = ("file_format", "delimiter", "encoding", "sheet", "skip_rows")
    file = Source(typed["history"], **{name: typed[name] for name in reading})
    made = past_outcomes(file, typed["column"])
    if typed["column"] is None:
        say(f"seqbatch: reading the column {made.column} of {file.name}.", to_errors=True)
    if made.customer:
        told = (
            f"adding up the rows of each {made.customer}: {counted(len(made.values), 'customer')}"
        )
        say(f"seqbatch: {told}.", to_errors=True)
    say_read_as(file.read_as)
    return made.values


def save(made: "CampaignPlan", out: Path | None, *, force: bool, details: bool) -> None:
    """Write the page or picture."""
    if out is not None:
        made.save(out, force=force, with_details=details)


def show_campaign(made: "CampaignPlan", typed: dict[str, Any], *, as_json: bool) -> None:
    """Print the page and the next command."""
    then = next_command(made)
    if as_json:
        more = {"details": made.details.as_dict()} if typed["details"] else {}
        dump({**made.as_dict(), **more, "next": then})
        return
    present(made.document())
    if typed["details"]:
        console.print()
        present(made.details.document())
    if made.terms.worthwhile:
        console.print()
        say_next(then)
    if not typed["details"]:
        say("Details for statisticians: --details")
    if typed["out"] is not None:
        say_files([typed["out"]])


def next_command(made: "CampaignPlan") -> str:
    """Return the command that writes a spec with this plan's waves."""
    from seqbatch.planning.campaign_plan import RANDOMISED

    terms = made.terms
    words = [
        "init", "customers.csv", "--waves", ",".join(str(size) for size in made.sizes),
        *([] if made.randomised == RANDOMISED else ["--randomised", f"{made.randomised:.6g}"]),
        "--actions", ",".join(terms.actions),
        *(
            ["--maximise", "purchase", "--kind", "yes/no"]
            if terms.yes_no
            else ["--maximise", "revenue", "--kind", "amount"]
        ),
        "--absent", "0", "--plan", "--smallest-lift", f"{terms.lift:.6g}",
    ]  # fmt: skip
    if terms.yes_no:
        words += ["--base-rate", f"{terms.mean:.6g}"]
    else:
        words += ["--spread", f"{terms.scale.noise:.6g}"]
        words += ["--unit-of-measure", terms.currency] if terms.currency else []
    for action, cost in zip(terms.actions, terms.costs, strict=True):
        words += ["--cost", f"{action}={cost:.6g}"] if cost else []
    words += ["--less-costs"] if any(terms.costs) else []
    if terms.yes_no and terms.value is not None:
        words += ["--value", f"{terms.value:.6g}"]
    words += ["--purpose", "choose"] if made.choosing else []
    words += ["--after", str(made.after)] if made.after else []
    if terms.currency and (terms.yes_no or any(terms.costs)):
        words += ["--currency", terms.currency]
    return f"seqbatch campaign {shlex.join(words)}"


def sizes_of(waves: str | None) -> list[int] | None:
    """Return the whole numbers in a text, separated by commas."""
    if waves is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in waves.split(",")]
    except ValueError:
        raise InvalidArgumentError("waves", "whole numbers separated by commas", waves) from None
