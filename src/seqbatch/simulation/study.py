"""Studies: policies x environments x numbers of batches x horizons x trials, paired in a trial."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.engine import Engine
from seqbatch.environments import Environment
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid, GridRule
from seqbatch.learner import require_playable
from seqbatch.policies import Policy
from seqbatch.simulation import study_file
from seqbatch.simulation.collapsed import collapses
from seqbatch.simulation.device import simulate_trials
from seqbatch.simulation.direct import (
    Method,
    chosen_device,
    named_in_errors,
    require_instance,
    simulate_together,
)
from seqbatch.simulation.line import Line
from seqbatch.simulation.measures import Measure, measured
from seqbatch.simulation.resumable_tasks import Report, Row, Task, run_tasks
from seqbatch.simulation.study_result import StudyResult
from seqbatch.simulation.trajectory import Trajectory, problem_of

#: Maximum number of processes that share a GPU: while one closes batches, another computes. Each
#: plans with a share of the GPU's memory (`seqbatch.simulation.device.units`).
SHARING = 3
MINIMAX = GridRule("minimax")
#: Trials that a device runs in parallel in one task.
TOGETHER = 100


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
    measures: tuple[tuple[str, Measure], ...] = ()

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
        seed = _place(self.seed, self.environment_name, self.trial)
        runs = simulate_together(
            [(policy, grid) for _, policy, grid in cases],
            self.environment,
            seed=seed,
            method=method,
            learn_last=self.learn_last,
            names=[name for name, _, _ in cases],
            keep_log=bool(self.measures),
        )
        rows = _rows(self.environment_name, self.trial, cases, runs)
        if self.measures:
            instance = self.environment.instance(seed)
            for row, run, (name, _, grid) in zip(rows, runs, cases, strict=True):
                with named_in_errors(name, grid):
                    row |= measured(dict(self.measures), run, instance)
        return rows


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
#: The columns of the table of runs, beside measures.
COLUMNS = (
    "environment", "policy", "units", "batches", "trial", "regret", "simple_regret", "reward",
    "error", "eigenvalue", "ends", "batch_regret",
)  # fmt: skip


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
            "simple_regret": run.simple_regret,
            "reward": float(run.reward[-1]),
            "error": float(run.error[-1]),
            "eigenvalue": float(run.eigenvalue[-1]),
            # On online grids these lists would be larger than the rest of the table.
            "ends": run.ends.tolist() if grid.batches <= 100 else [],
            "batch_regret": run.regret.tolist() if grid.batches <= 100 else [],
        }
        for (name, _, grid), run in zip(cases, runs, strict=True)
    ]


# ----------------------------------------------------------------------
# The study.


@dataclass(frozen=True, kw_only=True)
class Study:
    """Policies in environments, on grids of several numbers of batches and units, many times.

    Within a trial all policies see the same instance: comparisons are paired. Impossible parts are
    refused when the study is declared.

    Parameters
    ----------
    environments
        The environments, by the names used in the results.
    policies
        The policies by name: each a policy, or a `Line` of a policy and its own rule for grids.
    horizons
        Numbers of units T; each is a separate run.
    batches
        Numbers of batches M, or rules such as ``"stochastic"``, which replace the grid's own;
        each is a separate run of every policy without an own rule.
    grid
        The rule for the grids of policies without an own one.
    trials
        The number of trials.
    seed
        The root of the seed tree.
    method, learn_last
        See :func:`seqbatch.simulation.simulate`; ``"auto"`` is collapsed only if every policy can
        be. Without learning from the last batch, simple regret is unknown.
    device
        The device on which trials run in parallel; implies the method ``"device"``.
    measures
        Further values of each run, by name: functions of the trajectory, whose `rows` are its log,
        and the instance, such as :class:`Coverage`. They need the method ``"direct"``.

    Examples
    --------
    >>> from seqbatch.environments import Sphere
    >>> from seqbatch.policies import RBGL, SBPE
    >>> study = Study(
    ...     environments={"sphere": Sphere(dim=3, actions=3)},
    ...     policies={"SBPE": SBPE(), "RBGL": RBGL()},
    ...     horizons=[500],
    ...     batches=[2, 3],
    ...     trials=4,
    ... )
    >>> study.run()
    <StudyResult: 2 policies in 1 environment, 2 or 3 batches, 500 units; 4 trials>
    """

    environments: Mapping[str, Environment]
    policies: Mapping[str, Policy | Line]
    horizons: Sequence[int]
    batches: Sequence[int | str] = ()
    grid: GridRule = MINIMAX
    trials: int = 20
    seed: int = 0
    method: Method = "auto"
    device: str | None = None
    learn_last: bool = True
    measures: Mapping[str, Measure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments.integer("trials", self.trials)
        arguments.integer("seed", self.seed, at_least=0)
        for name in ("environments", "policies", "measures"):
            if not isinstance(getattr(self, name), Mapping):
                rule = 'a mapping from names, for example {"mine": ...}'
                raise InvalidArgumentError(name, rule, repr(getattr(self, name)))
        for name in ("horizons", "batches"):
            given = getattr(self, name)
            if isinstance(given, int | str) or not isinstance(given, Sequence):
                rule = "a list of numbers, for example [1000, 4000]"
                raise InvalidArgumentError(name, rule, repr(given))
        for name in ("environments", "policies", "horizons"):
            if not getattr(self, name):
                raise InvalidArgumentError(name, "not empty", "none")
        units = [arguments.integer("horizons", T) for T in dict.fromkeys(self.horizons)]
        object.__setattr__(self, "horizons", tuple(units))
        object.__setattr__(self, "batches", tuple(dict.fromkeys(self.batches)))
        object.__setattr__(self, "device", self._device())
        self._require_parts()
        self._require_measures()

    def _require_measures(self) -> None:
        for name, measure in self.measures.items():
            if not callable(measure) or isinstance(measure, type):
                rule = "a function of a trajectory and an instance, for example Coverage()"
                raise InvalidArgumentError(f"measures[{name!r}]", rule, repr(measure))
            if name in COLUMNS:
                rule = f"named otherwise than {', '.join(COLUMNS)}"
                raise InvalidArgumentError("measures", rule, repr(name))
        if self.measures and self.method not in ("auto", "direct"):
            rule = "'auto' or 'direct' with measures, which need a log"
            raise InvalidArgumentError("method", rule, repr(self.method))

    def _device(self) -> str | None:
        """Return the device on which trials run; None for the processor."""
        implied = self.device is not None and self.method == "auto"
        return chosen_device("device" if implied else self.method, self.device)

    def _require_parts(self) -> None:
        """Check that all parts fit together, before any work is done."""
        for environment in self.environments.values():
            require_instance(environment)
        if not isinstance(self.grid, GridRule):
            raise InvalidArgumentError("grid", "a GridRule", repr(self.grid))
        for name, line in self.lines:
            if not hasattr(line.rule, "grid"):
                raise InvalidArgumentError(
                    f"the rule of {name!r}",
                    "a GridRule, or an object with a method grid(units, dim)",
                    repr(line.rule),
                    'For explicit ends use GridRule("explicit", shares=(0.1, 0.4, 1)).',
                )
        for name, environment in self.environments.items():
            try:
                self._require_cases(environment)
            except Exception as error:
                error.add_note(f"In the environment {name}.")
                raise

    def _require_cases(self, environment: Environment) -> None:
        """Find grids and policies that are impossible in an environment.

        Each trial builds its grids again: tasks carry rules, because an online grid takes
        megabytes.
        """
        seen: set[tuple[str, Grid]] = set()
        for name, policy, grid in _cases(environment, self.lines, self.horizons):
            with named_in_errors(name, grid):
                require_playable(policy, grid)
                problem = problem_of(environment, grid)
                if (name, grid) in seen:
                    rule = "such that no two of them give the same grid"
                    raise InvalidArgumentError("batches", rule, repr(list(self.batches)))
                if grid.units == self.horizons[0]:
                    policy.begin(problem)
            seen.add((name, grid))

    @property
    def lines(self) -> tuple[tuple[str, Line], ...]:
        """Every policy with each of its rules for grids."""
        rules = [self.grid]
        if self.batches:
            rules = [replace(self.grid, batches=batches) for batches in self.batches]
        return tuple(
            line
            for name, policy in self.policies.items()
            for line in (
                [(name, policy)]
                if isinstance(policy, Line)
                else [(name, Line(policy, rule)) for rule in rules]
            )
        )

    def run(
        self,
        out: str | Path | None = None,
        *,
        jobs: int = 1,
        engine: str | Engine = "local",
        report: Report | None = None,
    ) -> StudyResult:
        """Run what is not done yet; return the results.

        If a run was interrupted, call it again: finished trials are not repeated, and the table is
        identical to the last byte. A run can be extended by more trials.

        Parameters
        ----------
        out
            The folder of the run; None for a temporary one, which cannot be resumed.
        jobs, engine, report
            See :func:`seqbatch.simulation.run_tasks`.
        """
        if out is None:
            with TemporaryDirectory() as folder:
                return self.run(folder, jobs=jobs, engine=engine, report=report)
        import polars as pl

        if self.device == "cuda" and engine == "local":
            jobs = min(jobs, SHARING)
        # Without the number of trials, on purpose: a run can be extended by more.
        declared = (self.environments, self.lines, self.horizons, self.seed, self.method)
        table = run_tasks(
            self._tasks(),
            out=Path(out),
            declaration=(*declared, self.learn_last, self.device, *self._own),
            columns={"ends": pl.List(pl.Int64), "batch_regret": pl.List(pl.Float64)},
            jobs=jobs,
            engine=engine,
            report=report,
        )
        place = pl.col("environment").replace_strict(
            {name: n for n, name in enumerate(self.environments)}
        )
        kinds = {name: type(line.policy).__name__ for name, line in self.lines}
        expected = {name: getattr(own, "expected", None) for name, own in self.measures.items()}
        return StudyResult(table.sort(place, maintain_order=True), kinds, expected)

    @property
    def _own(self) -> tuple[object, ...]:
        """What belongs to the declaration of a run only if there are measures."""
        return (self.measures,) if self.measures else ()

    def _tasks(self) -> list[Task]:
        """Return all trials: first the first of every environment, which finds what cannot run."""
        lines, horizons = self.lines, tuple(self.horizons)
        if self.device is None:
            return [
                Trial(
                    name, environment, lines, horizons, trial, self.seed, self.method,
                    self.learn_last, tuple(self.measures.items()),
                )
                for trial in range(self.trials)
                for name, environment in self.environments.items()
            ]  # fmt: skip
        parts = [
            range(start, min(start + TOGETHER, self.trials))
            for start in range(0, self.trials, TOGETHER)
        ]
        return [
            DeviceTrials(
                name, environment, lines, horizons, part, self.seed, self.device, self.learn_last
            )
            for part in parts
            for name, environment in self.environments.items()
        ]

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Return the study that a TOML file declares."""
        return cls(**study_file.read(Path(path)))

    def save(self, path: str | Path) -> Path:
        """Write the study to a TOML file that `load` reads and `seqbatch simulate` runs.

        Own classes are named by their dotted paths: they must be in an importable module. Numbers
        of arrays are written in full.
        """
        return study_file.write(self, Path(path))
