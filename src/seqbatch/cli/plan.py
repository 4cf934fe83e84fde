"""The command that plans an experiment."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.console import UNBOUNDED, Json, console, dump, kindly, say_files, show, waiting
from seqbatch.display import visible
from seqbatch.errors import InvalidArgumentError


def plan(
    units: Annotated[int, typer.Option(help="T, the number of units.")],
    actions: Annotated[int, typer.Option(help="K, the number of actions.")],
    features: Annotated[
        int | None, typer.Option(help="How many numbers describe a unit; one model per action.")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Instead of --features: a CSV or Parquet sample of units.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="The sample's feature columns, separated by commas.")
    ] = None,
    outcomes: Annotated[
        str | None,
        typer.Option(
            help="The sample's outcome and treatment columns, separated by commas: no features."
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(help="Instead of --features: length of each action's vector; one model."),
    ] = None,
    batches: Annotated[
        int | None, typer.Option(help="M, the number of batches; left out, it is recommended.")
    ] = None,
    contexts: Annotated[
        str, typer.Option(help="stochastic (one population) or adversarial (arbitrary).")
    ] = "stochastic",
    effect: Annotated[
        list[float] | None,
        typer.Option(
            help="Gain per unit of the best action over a random one; repeat for several guesses."
        ),
    ] = None,
    effect_spread: Annotated[
        float | None,
        typer.Option(
            help="The factor that two effects in three are within of the guess; 1 is certain."
        ),
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(help="Standard deviation of the reward noise; repeat for several guesses."),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option(help="Smallest over largest eigenvalue of the contexts' covariance."),
    ] = None,
    grid: Annotated[
        str, typer.Option(help="tuned (to effect and noise) or paper (needs no guess).")
    ] = "tuned",
    max_batches: Annotated[int | None, typer.Option(help="The most batches in the table.")] = None,
    min_batch: Annotated[int, typer.Option(help="The smallest batch allowed.")] = 1,
    max_batch: Annotated[int | None, typer.Option(help="The largest batch allowed.")] = None,
    first_batch: Annotated[int | None, typer.Option(help="The size of the first batch.")] = None,
    waves: Annotated[
        str | None, typer.Option(help="Sizes of calendar waves, separated by commas.")
    ] = None,
    randomised: Annotated[
        float, typer.Option(help="The share of units that get a random action in any case.")
    ] = 0.0,
    floor: Annotated[
        float, typer.Option(help="The least probability of every action for all other units.")
    ] = 0.0,
    missing: Annotated[
        float, typer.Option(help="The share of outcomes that will never come.")
    ] = 0.0,
    delay: Annotated[
        int,
        typer.Option(help="Batches that outcomes are late: 1 uses those of batch 1 in batch 3."),
    ] = 0,
    batch_cost: Annotated[
        float | None, typer.Option(help="What each batch costs, in units of reward.")
    ] = None,
    within: Annotated[
        float, typer.Option(help="How far below fully online is close enough: 0.05 is 5%.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="The same seed gives the same plan.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="A .png or .svg file for the picture, or .html for a page.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Plan an experiment: how many batches, how large, with which policy, at what cost.

    Example: seqbatch plan --units 50000 --actions 3 --features 12 --out plan.html
    """
    from seqbatch import planning
    from seqbatch.datasets import features_table, table_columns
    from seqbatch.planning.result import PICTURES
    from seqbatch.planning.sample_columns import feature_columns
    from seqbatch.targets import require_target

    with kindly(as_json=as_json):
        if out is not None:
            read = [] if sample is None else [sample]
            require_target(out, force=force, endings=PICTURES, apart_from={"sample": read})
        described: Any = features
        if sample is not None:
            if features is not None:
                raise InvalidArgumentError("features", "left out when --sample is given", features)
            wanted = feature_columns(table_columns(sample), _names(columns), _names(outcomes) or [])
            described = planning.Sample(*features_table(sample, features=wanted))
        elif columns is not None or outcomes is not None:
            given = columns if outcomes is None else outcomes
            raise InvalidArgumentError("columns and outcomes", "given only with --sample", given)
        with waiting("planning"):
            answer = planning.plan(
                units=units,
                actions=actions,
                features=described,
                dim=dim,
                batches=batches,
                contexts=contexts,  # type: ignore[arg-type]
                effect=effect or None,
                effect_spread=effect_spread,
                noise=noise or 1.0,
                kappa=kappa,
                grid=grid,  # type: ignore[arg-type]
                max_batches=max_batches,
                min_batch=min_batch,
                max_batch=max_batch,
                first_batch=first_batch,
                waves=_sizes(waves),
                randomised=randomised,
                floor=floor,
                missing=missing,
                delay=delay,
                batch_cost=batch_cost,
                within=within,
                seed=seed,
            )
        if out is not None:
            answer.save(out, force=force)
    if as_json:
        dump(answer.as_dict())
        return
    text = visible(str(answer), lines=True)
    console.print(text, markup=False, highlight=False, soft_wrap=UNBOUNDED)
    for table in answer.tables():
        show(table)
    if out is not None:
        say_files([out])


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [part.strip() for part in given.split(",")]


def _sizes(waves: str | None) -> list[int] | None:
    if waves is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in waves.split(",")]
    except ValueError:
        raise InvalidArgumentError("waves", "whole numbers separated by commas", waves) from None
