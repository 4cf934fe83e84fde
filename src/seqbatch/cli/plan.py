"""The command that plans an experiment."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch.cli import plan_options as options
from seqbatch.cli.console import (
    UNBOUNDED,
    Json,
    advancing,
    console,
    dump,
    kindly,
    say_files,
    show,
    waiting,
)
from seqbatch.display import visible
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from seqbatch.planning import Plan


def plan(
    units: options.Units,
    actions: options.Actions,
    features: options.Features = None,
    sample: options.SampleFile = None,
    columns: options.Columns = None,
    outcomes: options.Outcomes = None,
    dim: options.Dim = None,
    batches: options.Batches = None,
    contexts: options.Contexts = "stochastic",
    effect: options.Effect = None,
    effect_spread: options.EffectSpread = None,
    noise: options.Noise = None,
    kappa: options.Kappa = None,
    grid: options.GridKind = "tuned",
    max_batches: options.MaxBatches = None,
    min_batch: options.MinBatch = 1,
    max_batch: options.MaxBatch = None,
    first_batch: options.FirstBatch = None,
    waves: options.Waves = None,
    randomised: options.Randomised = 0.0,
    floor: options.Floor = 0.0,
    missing: options.Missing = 0.0,
    delay: options.Delay = 0,
    eligible: options.Eligible = None,
    capacity: options.Capacity = None,
    batch_cost: options.BatchCost = None,
    within: options.Within = 0.05,
    detect: options.Detect = None,
    power: options.Power = 0.8,
    seed: options.Seed = 0,
    out: options.Out = None,
    trade: options.TradeFile = None,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Plan an experiment: how many batches, how large, with which policy, at what cost.

    Example: seqbatch plan --units 50000 --actions 3 --features 12 --out plan.html
    """
    asked: dict[str, Any] = {
        "units": units,
        "actions": actions,
        "dim": dim,
        "batches": batches,
        "contexts": contexts,
        "effect": effect or None,
        "effect_spread": effect_spread,
        "noise": noise or 1.0,
        "kappa": kappa,
        "grid": grid,
        "max_batches": max_batches,
        "min_batch": min_batch,
        "max_batch": max_batch,
        "first_batch": first_batch,
        "randomised": randomised,
        "floor": floor,
        "missing": missing,
        "delay": delay,
        "batch_cost": batch_cost,
        "within": within,
        "detect": detect,
        "power": power,
        "seed": seed,
    }
    with kindly(as_json=as_json):
        _require_targets(out, trade, sample, force=force)
        asked["features"] = _described(features, sample, columns, outcomes)
        asked["waves"] = _sizes(waves)
        asked["eligible"] = _shares("eligible", eligible)
        asked["capacity"] = _shares("capacity", capacity)
        answer = _answered(asked, out, trade, force=force)
    _shown(answer, out, trade, as_json=as_json)


def _require_targets(
    out: Path | None, trade: Path | None, sample: Path | None, *, force: bool
) -> None:
    """Refuse files that cannot or must not be written, before anything takes time."""
    from seqbatch.planning.result import PICTURES
    from seqbatch.targets import require_target

    read = [] if sample is None else [sample]
    if out is not None:
        require_target(out, force=force, endings=PICTURES, apart_from={"sample": read})
    if trade is not None:
        others = {"sample": read, "out": [] if out is None else [out]}
        require_target(trade, name="trade", force=force, endings=PICTURES, apart_from=others)


def _described(
    features: int | None, sample: Path | None, columns: str | None, outcomes: str | None
) -> Any:
    """Return how many numbers describe a unit, or the sample to read them from."""
    from seqbatch.datasets import features_table, table_columns
    from seqbatch.planning import Sample
    from seqbatch.planning.sample_columns import feature_columns

    if sample is None:
        if columns is not None or outcomes is not None:
            given = columns if outcomes is None else outcomes
            raise InvalidArgumentError("columns and outcomes", "given only with --sample", given)
        return features
    if features is not None:
        raise InvalidArgumentError("features", "left out when --sample is given", features)
    wanted = feature_columns(table_columns(sample), _names(columns), _names(outcomes) or [])
    return Sample(*features_table(sample, features=wanted))


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
    text = visible(str(answer), lines=True)
    console.print(text, markup=False, highlight=False, soft_wrap=UNBOUNDED)
    tables = [*answer.tables(), *([] if trade is None else answer.trade.tables())]
    for table in tables:
        show(table)
    written = [file for file in (out, trade) if file is not None]
    if written:
        say_files(written)


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [part.strip() for part in given.split(",")]


def _sizes(waves: str | None) -> list[int] | None:
    if waves is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in waves.split(",")]
    except ValueError:
        raise InvalidArgumentError("waves", "whole numbers separated by commas", waves) from None


def _shares(name: str, given: str | None) -> list[float] | None:
    if given is None:
        return None
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        raise InvalidArgumentError(name, "numbers separated by commas", given) from None
