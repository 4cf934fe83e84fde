"""The commands that run a campaign: init, create, assign, record, close."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    show,
    waiting,
)
from seqbatch.cli.messages import STORE, About, command, in_options
from seqbatch.display import counted
from seqbatch.document import Table
from seqbatch.errors import SeqbatchError
from seqbatch.policies import registry

if TYPE_CHECKING:
    from seqbatch.campaign import Assigned, Campaign, Closed, Recorded
    from seqbatch.campaign.decide.action_counts import ChiSquare
    from seqbatch.campaign.record.current_situation import Situation
    from seqbatch.campaign.spec.template import FirstSpec


# ----------------------------------------------------------------------
# The next command


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


def _words(now: "Situation") -> list[str]:
    from seqbatch.campaign.views.status import step_from

    step = step_from(now)
    words = [step, now.name]
    if step == "assign":
        # Suggest only a file that this campaign has used: other files would be a guess.
        words.append(now.listed if _fits(now.listed, now) else "YOUR-UNITS.csv")
        words += [] if now.left is None else ["--draw"]
        words += ["--out", _new_file("assignments", now.wave)]
    elif step == "sql":
        words += ["--units", "YOUR_TABLE"]
    elif step == "record":
        words.append(f"YOUR-OUTCOMES-{now.wave}.csv")
    elif step == "report":
        words += ["--out", _new_file(now.name, None, ".html")]
    return words


def _fits(file: str, now: "Situation") -> bool:
    """Return whether a file exists and has the columns of a unit."""
    from seqbatch.campaign.files.reading import Source

    if not file or not Path(file).is_file():
        return False
    try:
        with Source(file) as opened:
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
#: Maximum number of columns named in a line; the spec lists all of them.
NAMED = 12
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
        "--format", help="File format: csv, parquet or arrow (default: by the file name)."
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
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


@contextmanager
def opened(name: str, store: str, who: str | None, as_json: bool) -> Iterator["Campaign"]:
    """Open a campaign of an existing store."""
    with kindly(as_json=as_json, about=About(name, store)):
        from seqbatch.campaign import Campaign
        from seqbatch.storage import open_store

        base = open_store(store, create=False)
        try:
            yield Campaign(base, name, who=who)
        finally:
            base.close()


@app.command()
def create(
    spec: Annotated[Path, typer.Argument(help="TOML file with the spec; see docs/campaigns.md.")],
    key: Annotated[
        Path | None, typer.Option(help="File to write the key of a masked campaign to.")
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
        declared = prepare(spec, defaults=defaults_of(store))
        base = open_store(store)
        campaign = Campaign.create(declared, store=base, key=key, who=who)
        now = campaign.situation()
        then = next_command(campaign, store, now)
        # The label hides the password of a database.
        label = base.label
        base.close()
    if as_json:
        made = {"name": now.name, "store": label, "sizes": now.sizes, "policy": now.policy}
        dump({**made, "next": then})
        return
    from seqbatch.campaign.decide.stopping import unlooked
    from seqbatch.campaign.spec.constraints_text import constraints_said
    from seqbatch.policies.registry import plainly

    sizes = ", ".join(f"{size:,}" for size in now.sizes)
    say(f"Created campaign {now.name} in {label}.")
    if now.masked:
        say(
            f"Masked: its actions are called {', '.join(action.name for action in now.actions)}. "
            f"Only {key} says which is which: keep it safe, and away from people who must not know."
        )
    kind = "expected wave" if now.spec.grid.calendar else "wave"
    say(f"{len(now.actions)} actions; {counted(len(now.sizes), kind)} of {sizes} units.")
    say(f"Policy {registry.text(now.policy)}: {plainly(now.policy)}.")
    for line in constraints_said(now.spec):
        say(line)
    for line in unlooked(now):
        say(f"Note: {line}.")
    guessed = now.spec.policy is None and now.spec.grid.plan is None
    if guessed and now.policy["kind"] == "ThompsonSampling" and now.spec.reward.range is None:
        from seqbatch.campaign.views.status import measured

        scale = f"{now.policy['scale']:g}"
        say(
            "No reward.range was declared, so outcomes are assumed to have noise of scale "
            f"{measured(scale, now.spec.reward.unit)}. If that is wrong, declare the range, or a "
            "policy with its scale."
        )
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
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
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
    with opened(name, store, who, as_json) as campaign, counting() as report:
        from seqbatch.campaign.files.reading import Source

        result = campaign.assign(
            Source(units, file_format=file_format, delimiter=delimiter, encoding=encoding),
            out=out,
            partial=partial,
            draw=draw,
            rest=rest,
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
    if as_json:
        if out == "-":
            dump(plain, to_errors=True)
        else:
            dump({**plain, "out": out, "rest": rest if result.left_over else None})
        return
    lines = [f"Wave {result.wave}: {result.assigned:,} units assigned"]
    if not result.assigned:
        lines = ["No new units were assigned"]
    if result.repeated:
        lines[0] += f", {result.repeated:,} already had an action"
    lines[0] += f"; written to {out}."
    shares = ", ".join(f"{action} {count:,}" for action, count in result.actions.items())
    if result.assigned:
        how = " In the first wave, every unit gets a random action." if blind else ""
        lines.append(f"{shares}; {result.randomised:,} of them randomised.{how}")
    lines.extend(said)
    if result.clipped:
        from seqbatch.campaign.views.status import clipped_text

        lines.append(f"{clipped_text(result.clipped)}.")
    if draw:
        lines.append(_draw_text(result))
    elif result.left_over:
        lines.append(f"{result.left_over:,} units did not fit in this wave; written to {rest}.")
    if result.left:
        lines.append(f"The wave has room for {result.left:,} more.")
    for line in lines:
        say(line, to_errors=out == "-")
    say_next(then, to_errors=out == "-")


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen to the rows; record nothing.")
    ] = False,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Record outcomes. Exit code 1: some rows were held (conflicts or quarantined).

    Example: seqbatch campaign record spring outcomes.csv
    """
    with opened(name, store, who, as_json) as campaign, counting() as report:
        from seqbatch.campaign.files.reading import Source
        from seqbatch.campaign.views.status import or_close

        result = campaign.record(
            Source(outcomes, file_format=file_format, delimiter=delimiter, encoding=encoding),
            correct=correct,
            reason=reason,
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
        say_next(then, instead=or_close(now))
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
        f"{result.quarantined:,} quarantined."
    )
    if result.repeats and result.duplicate == result.rows:
        say(
            "Nothing is new: every row was recorded before, "
            f"{result.repeats:,} of them in closed waves. Is this the file of an earlier wave?"
        )
    if result.corrected:
        say(f"{result.corrected:,} of them correct an earlier value, which is kept.")
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
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Close the open wave: check it, update the estimate, open the next wave.

    Example: seqbatch campaign close spring --wave 1
    """
    with opened(name, store, who, as_json) as campaign:
        result = campaign.close(wave=wave, force=force, skip=skip, reason=reason)
        # If an earlier wave is shown again, its proposal may have lapsed.
        now = campaign.situation()
        valid, then = now.proposal is not None, next_command(campaign, store, now)
    if as_json:
        dump({**asdict(result), "next": then})
        return
    show_closed(result)
    if valid and result.proposal is not None and result.proposal.changes:
        say_how_to_adopt(name, store)
    say_next(then)


def say_how_to_adopt(name: str, store: str) -> None:
    """Print how to adopt the proposed sizes, and until when."""
    adopt = command("replan", name, "--adopt", store=store)
    say(f"To adopt the proposal before you assign more units: {adopt}")


def show_closed(result: "Closed") -> None:
    """Print the result of closing a wave."""
    from seqbatch.campaign.decide.replanning import proposal_text
    from seqbatch.campaign.decide.stopping import inflation_text, look_text
    from seqbatch.campaign.views.status import absences, metrics_table, violations

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
        say(f"Outcomes: {absences(recorded, absent, result.absent_value, result.unit)}.")
    if result.absent_earlier:
        say(f"{result.absent_earlier:,} units of earlier waves count as absent from now on.")
    if result.metrics:
        show(metrics_table(result.metrics))
    for violation in violations(result.metrics):
        say(violation)
    say(_missing_text(result.missingness))
    say(_allocation_text(result.allocation))
    if result.late:
        say(f"{counted(result.late, 'late outcome')} of earlier waves entered the estimate.")
    if result.replaced:
        say(f"{counted(result.replaced, 'late outcome')} replaced values assumed for absent units.")
    if result.corrected:
        say(f"{counted(result.corrected, 'correction')} of earlier outcomes entered the estimate.")
    if result.stopping is not None:
        say(look_text(result.stopping))
    if result.inflated is not None:
        say(inflation_text(result.inflated))
    if result.proposal is not None:
        say(proposal_text(result.proposal, result.unit))
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
    reward: Annotated[
        str, typer.Option(help="Column of the outcome file to learn from.")
    ] = "outcome",
    waves: Annotated[
        int | None, typer.Option(help="Number of waves (default: 3, or as planned).")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Let the planner choose the wave sizes (needs --base-rate and --smallest-lift, or "
            "--noise).",
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
            "or in the outcome's unit with --noise."
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="For the plan, if the outcome is an amount or a count: its standard deviation."
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
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a commented spec that fits a file of units.

    Example: seqbatch campaign init units.csv --actions "none,offer A" --reward revenue
    """
    with kindly(as_json=as_json):
        from seqbatch.campaign.files.reading import Source
        from seqbatch.campaign.spec.template import write_spec

        file = None
        if units is not None:
            file = Source(units, file_format=file_format, delimiter=delimiter, encoding=encoding)
        with waiting("planning the waves" if plan else "reading the file"):
            made = write_spec(
                out, file, force=force, name=name, control=control,
                actions=[action.strip() for action in actions.split(",")], reward=reward,
                waves=waves, units_in_all=total, plan=plan, base_rate=base_rate,
                smallest_lift=smallest_lift, noise=noise, max_features=max_features,
                columns=None if columns is None else _listed(columns),
                **({} if seed is None else {"seed": seed}),
            )  # fmt: skip
    files = [] if units is None or units == "-" else [units]
    for option, given in (("--delimiter", delimiter), ("--encoding", encoding)):
        files += [option, given] if files and given is not None else []
    then = command("validate", str(out), *files, store=STORE)
    say_read_as(made.read_as)
    if as_json:
        every = [asdict(column) for column in made.draft.columns]
        unit, sizes = list(made.draft.unit), list(made.sizes)
        plain = {"out": str(out), "unit": unit, "sizes": sizes, "columns": every}
        rules = dict(made.draft.eligible)
        dump({**plain, "eligible": rules, "read_as": made.read_as, "next": then})
        return
    _show_draft(made)
    unsure = ", ".join(each.column for each in made.draft.columns if each.asks)
    say(f"Wrote {out}.{f' Check these columns first: {unsure}.' if unsure else ''}")
    say_next(then)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


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
