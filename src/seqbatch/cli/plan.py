"""The command that plans an experiment."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.console import UNBOUNDED, Json, console, kindly, show
from seqbatch.errors import InvalidArgumentError


def plan(
    units: Annotated[int, typer.Option(help="T, how many units there are.")],
    actions: Annotated[int, typer.Option(help="K, how many actions each is decided between.")],
    features: Annotated[
        int | None, typer.Option(help="How many numbers describe a unit; one model an action.")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Instead: a CSV or Parquet sample of units.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="The sample's feature columns, separated by commas.")
    ] = None,
    dim: Annotated[
        int | None, typer.Option(help="Instead: the length of each action's vector; one model.")
    ] = None,
    batches: Annotated[int | None, typer.Option(help="M, if it is settled.")] = None,
    contexts: Annotated[str, typer.Option(help="stochastic or adversarial.")] = "stochastic",
    effect: Annotated[
        list[float] | None,
        typer.Option(help="Gain of the best action over a random one; repeat for several guesses."),
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(help="Standard deviation of a reward; repeat for several guesses."),
    ] = None,
    kappa: Annotated[float | None, typer.Option(help="Condition of the contexts.")] = None,
    grid: Annotated[str, typer.Option(help="tuned, or paper.")] = "tuned",
    max_batches: Annotated[int | None, typer.Option(help="How far the table goes.")] = None,
    min_batch: Annotated[int, typer.Option(help="The smallest batch.")] = 1,
    max_batch: Annotated[int | None, typer.Option(help="The largest batch.")] = None,
    first_batch: Annotated[int | None, typer.Option(help="The first batch's size.")] = None,
    waves: Annotated[
        str | None, typer.Option(help="Sizes of calendar waves, separated by commas.")
    ] = None,
    batch_cost: Annotated[float | None, typer.Option(help="What one more batch costs.")] = None,
    within: Annotated[
        float, typer.Option(help="How much less than fully online may be earned: 0.05 is 5%.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="The same seed gives the same plan.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .html file for the picture.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan an experiment: how many batches, how big, by which policy, at what cost.

    Example: seqbatch plan --units 50000 --actions 3 --features 12 --out plan.html
    """
    from seqbatch import planning
    from seqbatch.datasets import features_table

    with kindly(as_json=as_json):
        if out is not None:
            planning.picture_file(out)
        described: Any = features
        if sample is not None:
            if features is not None:
                raise InvalidArgumentError("features", "left out with --sample", features)
            wanted = None if columns is None else [part.strip() for part in columns.split(",")]
            described = planning.Sample(*features_table(sample, features=wanted))
        elif columns is not None:
            raise InvalidArgumentError("columns", "given with --sample alone", columns)
        answer = planning.plan(
            units=units,
            actions=actions,
            features=described,
            dim=dim,
            batches=batches,
            contexts=contexts,  # type: ignore[arg-type]
            effect=effect or None,
            noise=noise or 1.0,
            kappa=kappa,
            grid=grid,  # type: ignore[arg-type]
            max_batches=max_batches,
            min_batch=min_batch,
            max_batch=max_batch,
            first_batch=first_batch,
            waves=_sizes(waves),
            batch_cost=batch_cost,
            within=within,
            seed=seed,
        )
        if out is not None:
            answer.save(out)
    if as_json:
        print(json.dumps(answer.as_dict(), indent=1))
        return
    console.print(str(answer), markup=False, highlight=False, soft_wrap=UNBOUNDED)
    for table in answer.tables():
        show(table)
    if out is not None:
        print(out)


def _sizes(waves: str | None) -> list[int] | None:
    if waves is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in waves.split(",")]
    except ValueError:
        raise InvalidArgumentError("waves", "whole numbers separated by commas", waves) from None
