"""The command `plan`: plan an experiment."""

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from seqbatch.cli.campaign import Dedupe, Delimiter, Encoding, Format, Sheet, SkipRows
from seqbatch.cli.campaign_plan import (
    Column,
    Cost,
    Customers,
    Details,
    History,
    Mean,
    SmallestLift,
    Spread,
    Value,
    Zeros,
    campaign_of,
    save,
    show_campaign,
    sizes_of,
)
from seqbatch.cli.console import (
    Json,
    advancing,
    dump,
    kindly,
    present,
    say_files,
    say_read_as,
    show,
    waiting,
)
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from seqbatch.campaign.files.reading import ReadingOptions
    from seqbatch.planning import Plan
    from seqbatch.policies import History as PolicyHistory


# ----------------------------------------------------------------------
# Options, in groups


#: The panel of the researcher's options in the help.
RESEARCH = "For researchers, with --units"

# The experiment.
Units = Annotated[int | None, typer.Option(help="Number of units, T.", rich_help_panel=RESEARCH)]
Actions = Annotated[
    str | None,
    typer.Option(
        help="Number of actions, one of which is the control; or their names, the control first: "
        "none,mail,call (default: the control and the actions with a --cost, or 2)."
    ),
]
Features = Annotated[
    int | None,
    typer.Option(
        help="Number of features of a unit, with one model per action.", rich_help_panel=RESEARCH
    ),
]
SampleFile = Annotated[
    Path | None,
    typer.Option(
        help="File of units like those to come, instead of --features.", rich_help_panel=RESEARCH
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Feature columns of the sample, separated by commas.", rich_help_panel=RESEARCH
    ),
]
Outcomes = Annotated[
    str | None,
    typer.Option(
        help="Outcome and treatment columns of the sample, separated by commas; not features.",
        rich_help_panel=RESEARCH,
    ),
]
Dim = Annotated[
    int | None,
    typer.Option(
        help="Length of each action's vector, with one model, instead of --features.",
        rich_help_panel=RESEARCH,
    ),
]
Sums = Annotated[
    Path | None,
    typer.Option(
        help="File of sums of an earlier campaign (campaign export --what sums) from which this "
        "one starts, instead of --features; its first batch is not random. --actions are then "
        "names.",
        rich_help_panel=RESEARCH,
    ),
]
Drift = Annotated[
    float | None,
    typer.Option(
        help="How far coefficients have drifted since the --sums, in standard deviations of the "
        "noise (default: to be learned).",
        rich_help_panel=RESEARCH,
    ),
]
Contexts = Annotated[
    str,
    typer.Option(
        help="Contexts: stochastic (one population) or adversarial (arbitrary).",
        rich_help_panel=RESEARCH,
    ),
]

# Guesses about the rewards.
Effect = Annotated[
    list[float] | None,
    typer.Option(
        help="Gain per unit of the best action over a random one; repeat for several guesses.",
        rich_help_panel=RESEARCH,
    ),
]
EffectSpread = Annotated[
    float | None,
    typer.Option(
        help="Uncertainty of the guess, as a factor F: two thirds of plausible effects lie between "
        "guess/F and guess x F (1 = certain).",
        rich_help_panel=RESEARCH,
    ),
]
Noise = Annotated[
    list[float] | None,
    typer.Option(
        help="Standard deviation of the reward noise; repeat for several guesses.",
        rich_help_panel=RESEARCH,
    ),
]
BaseRate = Annotated[
    str | None,
    typer.Option(
        help="For a yes/no outcome, instead of --noise: the share of yes without any action, such "
        "as 4%."
    ),
]
Kappa = Annotated[
    float | None,
    typer.Option(
        help="Smallest divided by largest eigenvalue of the contexts' covariance.",
        rich_help_panel=RESEARCH,
    ),
]

# Constraints on the batches.
Batches = Annotated[
    int | None,
    typer.Option(
        help="Number of batches, M (default: recommended by the planner).", rich_help_panel=RESEARCH
    ),
]
GridKind = Annotated[
    str,
    typer.Option(
        help="Grid: tuned (to effect and noise) or paper (needs no guess).",
        rich_help_panel=RESEARCH,
    ),
]
MaxBatches = Annotated[
    int | None,
    typer.Option(help="Largest number of batches in the table.", rich_help_panel=RESEARCH),
]
MinBatch = Annotated[
    int | None,
    typer.Option(
        help="Smallest allowed batch. With a delay the default is 1% of the units.",
        rich_help_panel=RESEARCH,
    ),
]
MaxBatch = Annotated[
    int | None, typer.Option(help="Largest allowed batch.", rich_help_panel=RESEARCH)
]
FirstBatch = Annotated[
    int | None, typer.Option(help="Size of the first batch.", rich_help_panel=RESEARCH)
]
Waves = Annotated[
    str | None,
    typer.Option(
        help="Number of waves (with --customers), or the sizes of calendar waves, separated by "
        "commas."
    ),
]
BatchCost = Annotated[
    float | None,
    typer.Option(help="Cost of each batch, in units of reward.", rich_help_panel=RESEARCH),
]
Within = Annotated[
    float,
    typer.Option(
        help="Acceptable loss compared with fully online, where 0.05 is 5%.",
        rich_help_panel=RESEARCH,
    ),
]

# Assignments outside the policy's choices.
Randomised = Annotated[
    float | None,
    typer.Option(
        help="Share of units that always get a random action (default: 0, with --customers 0.1)."
    ),
]
Floor = Annotated[
    float,
    typer.Option(
        help="Minimum probability of each action for all other units.", rich_help_panel=RESEARCH
    ),
]
Missing = Annotated[float, typer.Option(help="Share of outcomes that will never arrive.")]
Delay = Annotated[
    int,
    typer.Option(help="Delay of outcomes in batches: with 1, batch 3 uses those of batch 1."),
]
Eligible = Annotated[
    str | None,
    typer.Option(
        help="Share of units eligible for each action, separated by commas.",
        rich_help_panel=RESEARCH,
    ),
]
Capacity = Annotated[
    str | None,
    typer.Option(
        help="Largest share of each batch for each action, separated by commas; 1 is no limit.",
        rich_help_panel=RESEARCH,
    ),
]

After = Annotated[
    int,
    typer.Option(
        help="Units that will get the final rule afterwards; the plan weighs both (earn now and "
        "roll out).",
    ),
]

Purpose = Annotated[
    str,
    typer.Option(
        help="Purpose: earn (what the experiment earns) or choose (one action for all at the "
        "end; plans for simple regret).",
    ),
]

# The effect to detect.
Detect = Annotated[
    float | None,
    typer.Option(
        help="Lift over the control to detect; finds the smallest randomised share for it.",
        rich_help_panel=RESEARCH,
    ),
]
Power = Annotated[
    str | None,
    typer.Option(
        help="Probability with which the smallest lift (with --units: --detect) must be found, "
        "such as 80%: more customers then get a random action."
    ),
]

# Output.
Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same plan.")]
Out = Annotated[
    Path | None, typer.Option(help="File to write: .png or .svg for a picture, .html for a page.")
]
TradeFile = Annotated[
    Path | None,
    typer.Option(
        help="File to write (.png, .svg or .html): regret against detectable lift, by randomised "
        "share.",
        rich_help_panel=RESEARCH,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


# ----------------------------------------------------------------------
# The command


def plan(
    customers: Customers = None,
    base_rate: BaseRate = None,
    smallest_lift: SmallestLift = None,
    value: Value = None,
    actions: Actions = None,
    cost: Cost = None,
    waves: Waves = None,
    mean: Mean = None,
    spread: Spread = None,
    zeros: Zeros = None,
    history: History = None,
    column: Column = None,
    randomised: Randomised = None,
    power: Power = None,
    after: After = 0,
    purpose: Purpose = "earn",
    missing: Missing = 0.0,
    delay: Delay = 0,
    details: Details = False,
    seed: Seed = 0,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
    file_format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_rows: SkipRows = 0,
    units: Units = None,
    features: Features = None,
    sample: SampleFile = None,
    columns: Columns = None,
    outcomes: Outcomes = None,
    dedupe: Dedupe = None,
    dim: Dim = None,
    sums: Sums = None,
    drift: Drift = None,
    batches: Batches = None,
    contexts: Contexts = "stochastic",
    effect: Effect = None,
    effect_spread: EffectSpread = None,
    noise: Noise = None,
    kappa: Kappa = None,
    grid: GridKind = "tuned",
    max_batches: MaxBatches = None,
    min_batch: MinBatch = None,
    max_batch: MaxBatch = None,
    first_batch: FirstBatch = None,
    floor: Floor = 0.0,
    eligible: Eligible = None,
    capacity: Capacity = None,
    batch_cost: BatchCost = None,
    within: Within = 0.05,
    detect: Detect = None,
    trade: TradeFile = None,
) -> None:
    """Plan a campaign: how many customers in each wave, what is gained, what will be found.

    Example: seqbatch plan --customers 50000 --base-rate 4% --smallest-lift 0.5pp --value 12 EUR
    --cost mail=0.08 --waves 3. Researchers plan in units of reward: seqbatch plan --units 50000
    --actions 3 --features 12 --out plan.html
    """
    typed = locals()
    with kindly(as_json=as_json):
        if customers is not None:
            _require_apart(typed, CAMPAIGN_OPTIONS, "customers", "units")
            _require_targets(out, None, history, force=force)
            campaign = campaign_of(typed)
            save(campaign, out, force=force, details=details)
        else:
            _require_apart(typed, RESEARCH_OPTIONS, "units", "customers")
            _require_targets(out, trade, sample, force=force)
            answer = _answered(_asked(typed), out, trade, force=force)
    if customers is not None:
        show_campaign(campaign, typed, as_json=as_json)
    else:
        _shown(answer, out, trade, as_json=as_json)


#: The options of both kinds of plan, of campaigns alone, and of researchers' plans alone.
BOTH = frozenset(
    {
        "actions", "base_rate", "waves", "randomised", "power", "missing", "delay", "seed", "out",
        "force", "as_json", "file_format", "delimiter", "encoding", "sheet", "skip_rows", "after",
        "purpose",
    }
)  # fmt: skip
CAMPAIGN_OPTIONS = BOTH | {
    "customers", "smallest_lift", "value", "cost", "mean", "spread", "zeros", "history", "column",
    "details",
}  # fmt: skip
RESEARCH_OPTIONS = BOTH | {
    "units", "features", "sample", "columns", "outcomes", "dedupe", "dim", "sums", "drift",
    "batches", "contexts",
    "effect", "effect_spread", "noise", "kappa", "grid", "max_batches", "min_batch", "max_batch",
    "first_batch", "floor", "eligible", "capacity", "batch_cost", "within", "detect", "trade",
}  # fmt: skip


def _require_apart(typed: dict[str, Any], allowed: frozenset[str], own: str, other: str) -> None:
    """Refuse options of the other kind of plan."""
    defaults = {name: one.default for name, one in signature(plan).parameters.items()}
    if typed[own] is None:
        advice = (
            "For a campaign, say how many customers there are: --customers 50000. Researchers say "
            "--units 50000."
        )
        raise InvalidArgumentError("customers", "given", "none", advice)
    for name, given in typed.items():
        if name not in allowed and given not in (defaults[name], [], None):
            advice = (
                f"--{other} plans in units of reward, --{own} in customers and money: use the "
                "options of one of them."
                if own == "customers"
                else f"--{other} plans in customers and money, --{own} in units of reward: use the "
                "options of one of them."
            )
            raise InvalidArgumentError(name, f"left out with --{own}", given, advice)


def _asked(typed: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a researcher's plan."""
    from seqbatch.planning.outcome_scale import share_of

    apart = {
        "sample", "columns", "outcomes", "out", "force", "as_json", "trade", "randomised", "sums",
        "drift",
    }  # fmt: skip
    reading = ("file_format", "delimiter", "encoding", "sheet", "skip_rows", "dedupe")
    names = RESEARCH_OPTIONS - apart - set(reading)
    asked = {name: typed[name] for name in names}
    actions, history = typed["actions"], None
    if typed["sums"] is not None:
        history = _history(typed["sums"], _names(actions), typed["drift"])
        actions = str(len(history.places))
    elif typed["drift"] is not None:
        raise InvalidArgumentError("drift", "given with --sums", typed["drift"])
    if actions is None or not actions.isdecimal():
        given = "none" if actions is None else repr(actions)
        raise InvalidArgumentError("actions", "a whole number with --units", given)
    asked |= {
        "actions": int(actions),
        "history": history,
        "randomised": typed["randomised"] or 0.0,
        "power": 0.8 if typed["power"] is None else share_of("power", typed["power"]),
        "effect": typed["effect"] or None,
        "noise": typed["noise"] or None,
        "features": _described(
            typed["features"], typed["sample"], typed["columns"], typed["outcomes"],
            **{name: typed[name] for name in reading},
        ),
        "waves": sizes_of(typed["waves"]),
        "eligible": _shares("eligible", typed["eligible"]),
        "capacity": _shares("capacity", typed["capacity"]),
    }  # fmt: skip
    return asked


def _history(sums: Path, names: list[str] | None, drift: float | None) -> "PolicyHistory":
    """Return the history in a file of sums, for the named actions or for all of its own."""
    from seqbatch.campaign.record.earlier_campaign import damage, history_of, known_actions
    from seqbatch.campaign.steps.earlier import read_sums

    document, problem = read_sums(sums)
    if document is None or (problem := damage(document)):
        rule = "a file that `campaign export --what sums` wrote"
        raise InvalidArgumentError("sums", rule, f"{sums}, which {problem}")
    known = known_actions(document)
    if names is not None and not set(names) & set(known):
        rule = f"names, some of them those of the sums: {', '.join(known)}"
        raise InvalidArgumentError("actions", rule, ",".join(names))
    return history_of(document, names or known, drift="learn" if drift is None else drift)


# ----------------------------------------------------------------------
# A plan in the researcher's terms.


def _require_targets(
    out: Path | None, trade: Path | None, sample: Path | None, *, force: bool
) -> None:
    """Refuse output files that cannot or must not be written, before the long computation."""
    from seqbatch.output_files import require_target
    from seqbatch.planning.result import PICTURES

    read = [] if sample is None else [sample]
    if out is not None:
        require_target(out, force=force, endings=PICTURES, apart_from={"sample": read})
    if trade is not None:
        others = {"sample": read, "out": [] if out is None else [out]}
        require_target(trade, name="trade", force=force, endings=PICTURES, apart_from=others)


def _described(
    features: int | None,
    sample: Path | None,
    columns: str | None,
    outcomes: str | None,
    **reading: Unpack["ReadingOptions"],
) -> Any:
    """Return the number of features of a unit, or the sample of units."""
    from seqbatch.datasets import features_table, table_columns
    from seqbatch.planning import Sample
    from seqbatch.planning.unit_sample import feature_columns

    if sample is None:
        if columns is not None or outcomes is not None:
            given = columns if outcomes is None else outcomes
            raise InvalidArgumentError("columns and outcomes", "given only with --sample", given)
        return features
    if features is not None:
        raise InvalidArgumentError("features", "left out when --sample is given", features)
    from seqbatch.campaign.files.reading import Source

    file = Source(sample, **reading)
    wanted = feature_columns(table_columns(file), _names(columns), _names(outcomes) or [])
    made = Sample(*features_table(file, features=wanted))
    say_read_as(file.read_as)
    return made


def _answered(
    asked: dict[str, Any], out: Path | None, trade: Path | None, *, force: bool
) -> "Plan":
    """Make the plan, and write the files."""
    from seqbatch import planning

    with advancing("planning") as progress:
        answer = planning.plan(**asked, progress=progress)
    with waiting("drawing"):
        if out is not None:
            answer.save(out, force=force)
        if trade is not None:
            answer.trade.save(trade, force=force)
    return answer


def _shown(answer: "Plan", out: Path | None, trade: Path | None, *, as_json: bool) -> None:
    """Print the plan, and which files were written."""
    if as_json:
        traded = {} if trade is None else {"trade": answer.trade.as_dict()}
        dump({**answer.as_dict(), **traded})
        return
    present(answer.document())
    for table in [] if trade is None else answer.trade.tables():
        show(table)
    written = [file for file in (out, trade) if file is not None]
    if written:
        say_files(written)


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [part.strip() for part in given.split(",")]


def _shares(name: str, given: str | None) -> list[float] | None:
    if given is None:
        return None
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        raise InvalidArgumentError(name, "numbers separated by commas", given) from None
