"""Sweeps: trials x horizons x environments x policies, paired within a trial, with summaries."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.engine import Engine
from seqbatch.environments import Environment
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.policies import Policy
from seqbatch.simulation.collapsed import collapses
from seqbatch.simulation.device import simulate_trials
from seqbatch.simulation.direct import Method, chosen_device, require_instance, simulate_together
from seqbatch.simulation.resumable_tasks import Progress, Row, Task, run_tasks
from seqbatch.simulation.trajectory import Trajectory

if TYPE_CHECKING:
    import polars as pl


# ----------------------------------------------------------------------
# Summaries of the table: means, intervals, slopes, paired differences.


def summarise(table: "pl.DataFrame", *, value: str = "regret") -> "pl.DataFrame":
    """Return mean, standard deviation, trials and a 95% interval of the mean, for each line and T.

    The interval is Student's t interval; with a single trial it is null.
    """
    import polars as pl
    from scipy.special import stdtrit

    grouped = (
        table.group_by("environment", "policy", "units", "batches", maintain_order=True)
        .agg(
            mean=pl.col(value).mean(),
            sd=pl.col(value).std(),
            trials=pl.len(),
        )
        .sort("environment", "policy", "units", maintain_order=True)
    )
    trials = grouped["trials"].to_numpy()
    # With one trial the deviation is null, and with it the interval, whatever the factor.
    factor = stdtrit(np.maximum(trials - 1, 1), 0.975) / np.sqrt(trials)
    half = pl.Series("half", factor) * grouped["sd"]
    return grouped.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half)


def slopes(table: "pl.DataFrame", *, value: str = "regret", over: str = "units") -> "pl.DataFrame":
    """Return each line's slope of log mean value in log T, with its standard error.

    `over` names a column to use instead of T.

    The standard error is the jackknife's over trials: the variation between repetitions of the
    whole sweep. The slope is null if a line's mean is not positive throughout.
    """
    import polars as pl

    rows = []
    for (environment, policy), part in table.group_by("environment", "policy", maintain_order=True):
        # One column per trial: the jackknife leaves them out one by one.
        wide = part.pivot(on="trial", index=over, values=value).sort(over)
        x, y = np.log(wide[over].to_numpy()), wide.drop(over).to_numpy()
        trials = y.shape[1]
        slope = error = None
        if len(x) > 1 and (y.mean(axis=1) > 0).all():
            slope = float(_slopes(x, np.log(y.mean(axis=1))))
            without = (y.sum(axis=1, keepdims=True) - y) / max(trials - 1, 1)
            if trials > 1 and (without > 0).all():
                error = float(np.std(_slopes(x, np.log(without))) * np.sqrt(trials - 1))
        rows.append({"environment": environment, "policy": policy, "slope": slope, "error": error})
    names = ("environment", "policy", "slope", "error")
    kinds = (pl.String, pl.String, pl.Float64, pl.Float64)
    return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)))


def paired(table: "pl.DataFrame", *, base: str, value: str = "regret") -> "pl.DataFrame":
    """Return each line's mean difference from the line `base`, paired by trial, with its error."""
    import polars as pl

    if base not in (known := table["policy"].unique(maintain_order=True).to_list()):
        raise InvalidArgumentError("base", f"one of the table's lines: {known}", repr(base))
    keys = ["environment", "units", "trial"]
    reference = table.filter(pl.col("policy") == base).select(*keys, base=pl.col(value))
    joined = table.filter(pl.col("policy") != base).join(reference, on=keys, maintain_order="left")
    gap = pl.col(value) - pl.col("base")
    return joined.group_by("environment", "policy", "units", maintain_order=True).agg(
        difference=gap.mean(),
        error=(gap.std() / pl.len().sqrt()).fill_null(float("nan")),
        trials=pl.len(),
    )


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return the slope of each column on x, by least squares."""
    off = x - x.mean()
    slopes: Floats = off @ y / (off @ off)
    return slopes


# ----------------------------------------------------------------------
# The sweep.


#: Maximum number of processes that share a GPU: while one closes batches, another computes. Each
#: plans with a share of the GPU's memory (`seqbatch.simulation.device.units`).
SHARING = 3
#: Trials that a device runs in parallel in one task.
TOGETHER = 100


class MakesGrids(Protocol):
    """Your own grid rule, as an alternative to :class:`~seqbatch.grids.GridRule`."""

    def grid(self, units: int, dim: int) -> Grid:
        """Return the grid for `units` units and the paper's dimension d."""


@dataclass(frozen=True)
class Line:
    """A line of the comparison: a policy and the rule that makes its grid."""

    policy: Policy
    rule: MakesGrids


@dataclass(frozen=True)
class Trial:
    """One trial in one environment: every line at every horizon, on the same units."""

    environment_name: str
    environment: Environment
    lines: tuple[tuple[str, Line], ...]
    horizons: tuple[int, ...]
    trial: int
    seed: int
    method: Method
    learn_last: bool

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.environment_name}/{self.trial}"

    def __call__(self) -> list[Row]:
        """Run every line at every horizon."""
        cases = _cases(self.environment, self.lines, self.horizons)
        # All or none: expected and realised regret are not comparable.
        collapsible = all(collapses(line.policy, self.environment) for _, line in self.lines)
        method = "direct" if self.method == "auto" and not collapsible else self.method
        runs = simulate_together(
            [(policy, grid) for _, policy, grid in cases],
            self.environment,
            seed=_place(self.seed, self.environment_name, self.trial),
            method=method,
            learn_last=self.learn_last,
        )
        return _rows(self.environment_name, self.trial, cases, runs)


@dataclass(frozen=True)
class DeviceTrials:
    """Consecutive trials in one environment, in parallel on a device."""

    environment_name: str
    environment: Environment
    lines: tuple[tuple[str, Line], ...]
    horizons: tuple[int, ...]
    trials: range
    seed: int
    device: str
    learn_last: bool

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.environment_name}/{self.trials.start}-{self.trials.stop - 1}"

    def __call__(self) -> list[Row]:
        """Run every line at every horizon in each trial."""
        cases = _cases(self.environment, self.lines, self.horizons)
        together = simulate_trials(
            [(policy, grid) for _, policy, grid in cases],
            self.environment,
            seeds=[_place(self.seed, self.environment_name, trial) for trial in self.trials],
            checkpoints=np.zeros(0, dtype=np.int64),
            device=self.device,
            learn_last=self.learn_last,
        )
        return [
            row
            for trial, runs in zip(self.trials, together, strict=True)
            for row in _rows(self.environment_name, trial, cases, runs)
        ]


Case = tuple[str, Policy, Grid]


def _cases(
    environment: Environment, lines: Sequence[tuple[str, Line]], horizons: Sequence[int]
) -> list[Case]:
    """Return every line at every horizon, with its grid."""
    dim = environment.dim * (1 if environment.layout == "shared" else environment.actions)
    return [
        (name, line.policy, _grid(name, line, units, dim))
        for name, line in lines
        for units in horizons
    ]


def _grid(name: str, line: Line, units: int, dim: int) -> Grid:
    """Return a line's grid, which must end at the horizon, because the table refers to it."""
    try:
        grid = line.rule.grid(units, dim)
    except InvalidArgumentError as error:
        error.add_note(f"In the grid of {name!r} at T = {units:,}.")
        raise
    if not isinstance(grid, Grid) or grid.units != units:
        raise InvalidArgumentError(
            f"the grid of {name!r}", f"a Grid that ends at the horizon, {units}", repr(grid)
        )
    return grid


def _place(seed: int, environment: str, trial: int) -> SeedSequence:
    """Return a trial's seed."""
    # By name, not by position: adding an environment changes no other environment's trials.
    name = hashlib.blake2b(environment.encode(), digest_size=8).digest()
    return SeedSequence(seed, spawn_key=(int.from_bytes(name), trial))


def _rows(
    environment: str, trial: int, cases: Sequence[Case], runs: Sequence[Trajectory]
) -> list[Row]:
    """Return one row of the table per run of a trial."""
    return [
        {
            "environment": environment,
            "policy": name,
            "units": grid.units,
            "batches": grid.batches,
            "trial": trial,
            "regret": float(run.regret[-1]),
            "reward": float(run.reward[-1]),
            "error": float(run.error[-1]),
            "eigenvalue": float(run.eigenvalue[-1]),
            # On online grids these lists would be larger than the rest of the table.
            "ends": run.ends.tolist() if grid.batches <= 100 else [],
            "batch_regret": run.regret.tolist() if grid.batches <= 100 else [],
        }
        for (name, _, grid), run in zip(cases, runs, strict=True)
    ]


def sweep(
    *,
    environments: Mapping[str, Environment],
    lines: Mapping[str, Line],
    horizons: Sequence[int],
    trials: int,
    out: str | Path,
    seed: int = 0,
    method: Method = "auto",
    device: str | None = None,
    learn_last: bool = True,
    jobs: int = 1,
    engine: str | Engine = "local",
    report: Callable[[Progress], None] = lambda _: None,
) -> "pl.DataFrame":
    """Run every line at every horizon in every environment, `trials` times.

    The table has one row per run. Within a trial all lines see the same instance. If a sweep was
    interrupted, call it again: finished trials are not repeated, and the table is identical to the
    last byte.

    Parameters
    ----------
    environments, lines
        Mappings by the names used in the table.
    horizons
        Numbers of units T; each is a separate run.
    trials
        The number of trials.
    out
        The folder of the run.
    seed
        The root of the seed tree.
    method, learn_last
        See :func:`seqbatch.simulation.simulate`; ``"auto"`` is collapsed only if every line can be.
    device
        The device on which trials run in parallel; implies the method ``"device"``.
    jobs, engine, report
        See :func:`seqbatch.simulation.resumable_tasks.run_tasks`.
    """
    import polars as pl

    arguments.integer("trials", trials)
    arguments.integer("seed", seed, at_least=0)
    horizons = [arguments.integer("horizons", units) for units in dict.fromkeys(horizons)]
    if not (environments and lines and horizons):
        raise InvalidArgumentError(
            "environments, lines and horizons",
            "not empty",
            f"{len(environments)}, {len(lines)} and {len(horizons)} of them",
        )
    _require_parts(environments, lines)
    for environment in environments.values():
        # Find impossible grids now, not after the trials before them. Each trial builds its grids
        # again: tasks carry rules, because an online grid takes megabytes.
        _cases(environment, tuple(lines.items()), horizons)
    if device is not None and method == "auto":
        method = "device"
    device = chosen_device(method, device)
    if device == "cuda" and engine == "local":
        jobs = min(jobs, SHARING)
    tasks: list[Task] = []
    for name, environment in environments.items():
        shared = (name, environment, tuple(lines.items()), tuple(horizons))
        if device is None:
            tasks += [Trial(*shared, trial, seed, method, learn_last) for trial in range(trials)]
            continue
        for start in range(0, trials, TOGETHER):
            part = range(start, min(start + TOGETHER, trials))
            tasks.append(DeviceTrials(*shared, part, seed, device, learn_last))
    # Without the number of trials, on purpose: a run can be extended by more trials.
    declared = (environments, lines, list(horizons), seed, method, learn_last)
    return run_tasks(
        tasks,
        out=Path(out),
        declaration=declared if device is None else (*declared, device),
        columns={"ends": pl.List(pl.Int64), "batch_regret": pl.List(pl.Float64)},
        jobs=jobs,
        engine=engine,
        report=report,
    )


def _require_parts(environments: Mapping[str, Environment], lines: Mapping[str, Line]) -> None:
    """Check that all parts are environments and lines, before any work is done."""
    for environment in environments.values():
        require_instance(environment)
    for name, line in lines.items():
        if not isinstance(line, Line):
            raise InvalidArgumentError(f"lines[{name!r}]", "a Line(policy, rule)", repr(line))
        if not hasattr(line.rule, "grid"):
            raise InvalidArgumentError(
                f"the rule of {name!r}",
                "a GridRule, or an object with a method grid(units, dim)",
                repr(line.rule),
                'For explicit ends use GridRule(kind="explicit", shares=(0.1, 0.4, 1)).',
            )
