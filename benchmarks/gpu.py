"""What a GPU makes of the lab: speed, agreement with the processor, and the same bits twice.

`make gpu` runs it on a machine that has one and prints the table that docs/gpu.md quotes. Figures 2
and 3 are timed as processes of their own, from start to table, after one that fills the caches of
compiled code. Pictures are left out: they are drawn from the table by the processor.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from seqbatch import grids
from seqbatch.core.arrays import Floats
from seqbatch.environments import Environment, FeaturePool, Gaussian, StudentT, Uniform
from seqbatch.grids import GridRule
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    FixedAction,
    Policy,
    ThompsonSampling,
)
from seqbatch.simulation import Line
from seqbatch.simulation.device import simulate_trials, units
from seqbatch.simulation.study import SHARING, DeviceTrials, Trial

DEVICE = os.environ.get("SEQBATCH_DEVICE", "cuda")
#: Smaller everywhere, to see that the program runs on a machine without a GPU.
SMALL = DEVICE != "cuda"
JOBS = min(os.cpu_count() or 1, 12)
OUT = Path(os.environ.get("OUT", "out/gpu"))
MARKS = np.zeros(0, dtype=np.int64)
DEVICE_TRIALS, CPU_TRIALS = (40, 20) if SMALL else (1_000, 100)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def machine() -> dict[str, Any]:
    """Name what the figures were measured on."""
    if DEVICE == "numpy":
        return {"device": "NumPy", "numpy": np.__version__}
    import torch

    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "processor"
    return {"device": name, "torch": torch.__version__, "cores": os.cpu_count()}


def rates() -> dict[str, float]:
    """Return millions of units a second of one policy, 50 trials side by side."""
    units = 2**15 if SMALL else 2**22
    grid = grids.explicit([units // 100, units // 10, units])
    world = Gaussian(dim=10, actions=10)
    cases: dict[str, tuple[Policy, bool]] = {
        "greedy": (SBPE(), True),
        "greedy, last batch not learned": (SBPE(), False),
        "UCB": (SBUCB(gamma=1.0), True),
    }
    trials = 2 if SMALL else 50
    found = {}
    for name, (policy, learn_last) in cases.items():

        def run(policy: Policy = policy, learn_last: bool = learn_last) -> None:
            simulate_trials(
                [(policy, grid)],
                world,
                seeds=[SeedSequence(trial) for trial in range(trials)],
                checkpoints=MARKS,
                device=DEVICE,
                learn_last=learn_last,
            )

        run()
        found[name] = trials * units / min(timed(run)[0] for _ in range(3)) / 1e6
    return found


def pool() -> FeaturePool:
    from seqbatch.datasets import SyntheticAvazu, fit_theta

    rows = SyntheticAvazu(seed=1).hashed(20_000)
    return FeaturePool(rows=rows, theta=fit_theta(rows), actions=2, noise=0.1)


def repeats() -> dict[str, bool]:
    """Say whether the same seed gives the same bits, and blocks of another size too in a pool."""

    def regret(world: Environment) -> Floats:
        grid = grids.explicit([2_000, 20_000, 100_000])
        policies: list[Policy] = [BPE(), LBGL(scale=0.002), SBUCB(gamma=1.0)]
        runs = [(policy, grid) for policy in policies]
        seeds = [SeedSequence(trial) for trial in range(4)]
        made = simulate_trials(runs, world, seeds=seeds, checkpoints=MARKS, device=DEVICE)
        return np.array([[run.regret for run in trial] for trial in made])

    rows, law = pool(), StudentT(dim=10, actions=10)
    first = regret(rows)
    most, units.MOST_TRIALS = units.MOST_TRIALS, 2**13
    smaller = regret(rows)
    units.MOST_TRIALS = most
    return {
        "a law, twice": bool(np.array_equal(regret(law), regret(law))),
        "a pool, twice": bool(np.array_equal(first, regret(rows))),
        "a pool, in blocks of another size": bool(np.array_equal(first, smaller)),
    }


def twins() -> dict[str, float]:
    """Compare the fused kernel of a pool with the array operations that do the same."""

    def played() -> list[Any]:
        units.device_pool.cache_clear()
        grid = grids.explicit([2_000, 20_000, 100_000])
        policies: list[Policy] = [BPE(), RBGL(), LBGL(scale=0.002), FixedAction(action=1)]
        runs: list[tuple[Policy, grids.Grid]] = [(policy, grid) for policy in policies]
        seeds = [SeedSequence(trial) for trial in range(4)]
        made = simulate_trials(runs, rows, seeds=seeds, checkpoints=MARKS, device=DEVICE)
        return [run for trial in made for run in trial]

    rows = pool()
    one, kernel = played(), units.pool_kernel
    units.pool_kernel = lambda *_: None
    other = played()
    units.pool_kernel = kernel
    units.device_pool.cache_clear()
    pairs = list(zip(one, other, strict=True))
    return {
        "actions that differ, of 1.6 million": float(
            sum(np.abs(a.counts - b.counts).sum() // 2 for a, b in pairs)
        ),
        "largest difference of regret": max(
            float(np.abs(a.regret - b.regret).max()) for a, b in pairs
        ),
        "largest difference of estimates": max(
            float(np.nanmax(np.abs(a.error - b.error))) for a, b in pairs
        ),
    }


def cells() -> list[tuple[str, Environment, str, Line, int]]:
    """Return 40 cells of policy, law and horizon."""
    few = GridRule(kind="minimax", batches=3)
    lines = {
        "SBPE": Line(SBPE(first="uniform"), few),
        "BPE": Line(BPE(first="uniform"), few),
        "LBGL": Line(LBGL(scale=0.01), few),
        "SBUCB": Line(SBUCB(gamma=0.5, first="uniform"), few),
        "Thompson": Line(ThompsonSampling(scale=0.5, samples=32), few),
    }
    laws: dict[str, Environment] = {
        "Gaussian": Gaussian(dim=5, actions=4),
        "uniform, disjoint": Uniform(dim=3, actions=3, layout="disjoint"),
        "Student t": StudentT(dim=5, actions=4),
        "pool": pool(),
    }
    return [
        (f"{law}/{name}/{units}", world, name, line, units)
        for law, world in laws.items()
        for name, line in lines.items()
        for units in (2_000, 10_000)
    ]


def measured(task: Callable[[], list[dict[str, Any]]]) -> list[float]:
    import warnings

    warnings.simplefilter("ignore")  # small first batches leave directions open, as on any device
    return [row["regret"] for row in task()]


def agreement() -> dict[str, Any]:
    """Compare the device's mean regret with the processor's, on trials of other seeds."""
    step = 250 if not SMALL else DEVICE_TRIALS
    tasks: dict[str, dict[str, list[Any]]] = {}
    for name, world, label, line, horizon in cells():
        shared = (name, world, ((label, line),), (horizon,))
        tasks[name] = {
            "device": [
                DeviceTrials(*shared, range(start, start + step), 1, DEVICE, True)
                for start in range(0, DEVICE_TRIALS, step)
            ],
            "cpu": [Trial(*shared, trial, 2, "direct", True) for trial in range(CPU_TRIALS)],
        }
    spawn = get_context("spawn")
    with (
        ProcessPoolExecutor(min(SHARING, JOBS), mp_context=spawn) as device,
        ProcessPoolExecutor(JOBS, mp_context=spawn) as cpu,
    ):
        workers = {"device": device, "cpu": cpu}
        futures = {
            name: {
                kind: [workers[kind].submit(measured, task) for task in some]
                for kind, some in both.items()
            }
            for name, both in tasks.items()
        }
        found = {
            name: {
                kind: np.array([value for future in some for value in future.result()])
                for kind, some in both.items()
            }
            for name, both in futures.items()
        }
    scores = {name: _score(both["device"], both["cpu"]) for name, both in found.items()}
    values = np.array(list(scores.values()))
    return {
        "cells": len(values),
        "mean z^2": float((values**2).mean()),
        "largest |z|": float(np.abs(values).max()),
        "z": scores,
    }


def _score(one: Floats, other: Floats) -> float:
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    return float((one.mean() - other.mean()) / error)


FIGURE = """
import sys, time, warnings
from pathlib import Path
from statistics import median
warnings.simplefilter("ignore")
from seqbatch.lab import EXPERIMENTS, Options
name, out, trials, quick, jobs, device, fused = sys.argv[1:]
if fused == "no":
    from seqbatch.simulation.device import pools
    pools.pool_kernel = lambda *_: None
options = Options(out=Path(out), trials=int(trials) or None, quick=quick == "yes",
                  jobs=int(jobs), device=device)
EXPERIMENTS[name].run(options)
print(time.time())
"""


def figure(
    name: str, *, trials: int = 0, quick: bool = False, jobs: int = 1, fused: bool = True
) -> tuple[float, float]:
    """Return the seconds from a process's start to a figure's table, and to the process's end."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / name)
        yes = {True: "yes", False: "no"}
        words = [name, out, str(trials), yes[quick], str(jobs), DEVICE, yes[fused]]
        command = [sys.executable, "-c", FIGURE, *words]
        begun = time.time()
        ended, said = timed(lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE))
        if name == "fig3":
            import polars as pl

            table = pl.read_parquet(Path(out) / "results.parquet")
            kept = table.group_by("policy", "units", maintain_order=True).agg(
                mean=pl.col("regret").mean(), error=pl.col("regret").std() / pl.len().sqrt()
            )
            kept.write_csv(OUT / f"fig3-means{'' if fused else '-plain'}.csv")
    return float(said.stdout) - begun, ended


def figures() -> dict[str, float]:
    """Return the seconds of the two figures."""
    from seqbatch.engine import open_engine
    from seqbatch.lab.figure2 import HORIZONS, Figure2

    found = {"fig3 quick, caches cold": figure("fig3", quick=True)[0]}
    found["fig3"] = figure("fig3", quick=SMALL)[0]
    again = [figure("fig3", quick=SMALL) for _ in range(1 if SMALL else 3)]
    found["fig3, again: median"] = median(table for table, _ in again)
    found["fig3, again: slowest"] = max(table for table, _ in again)
    found["fig3, again: median until the process ended"] = median(ended for _, ended in again)
    found["fig3, array operations alone"] = figure("fig3", quick=SMALL, fused=False)[0]
    horizons = HORIZONS[::5] if SMALL else HORIZONS
    with open_engine(jobs=JOBS) as engine:
        planning = timed(lambda: Figure2().lines(horizons, engine))[0]
    found[f"fig2's planned grids, {JOBS} processes"] = planning
    trials = 5 if SMALL else 1_000
    found[f"fig2, {trials} trials, {JOBS} processes"] = figure(
        "fig2", trials=trials, quick=SMALL, jobs=JOBS
    )[0]
    return found


PARTS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
device, rows, found, begun = sys.argv[1], int(sys.argv[2]), {}, time.perf_counter()
def lap(name):
    global begun
    now = time.perf_counter()
    found[name], begun = now - begun, now
import torch
torch.zeros(1, device=device)
lap("importing PyTorch and waking the device")
import numba, polars
from numpy.random import SeedSequence
from seqbatch.lab import figure3
from seqbatch.simulation.device import backend, pools
from seqbatch.simulation.study import DeviceTrials
lap("importing the rest")
world = figure3.AvazuPool(rows, figure3.GENERATED, device)
pools.device_pool(world.instance(SeedSequence(0)).environment, backend.backend(device))
lap("drawing the pool")
lines, horizons = tuple(figure3.Figure3().lines().items()), figure3.HORIZONS
if rows < figure3.POOL:
    horizons = figure3.QUICK_HORIZONS
DeviceTrials(figure3.GENERATED, world, lines, horizons, range(50), 3, device, False)()
lap("the trials")
print(json.dumps(found))
"""


def parts() -> dict[str, float]:
    """Return the seconds of Figure 3's parts, by the kernel, in a process of its own."""
    from seqbatch.lab.figure3 import POOL, QUICK_POOL

    command = [sys.executable, "-c", PARTS, DEVICE, str(QUICK_POOL if SMALL else POOL)]
    subprocess.run(command, check=True, capture_output=True)
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(made.stdout)
    return found


STEPS: dict[str, Callable[[], Any]] = {
    "machine": machine,
    "parts": parts,
    "figures": figures,
    "rates": rates,
    "repeats": repeats,
    "twins": twins,
    "agreement": agreement,
}


def page(found: dict[str, Any]) -> str:
    """Return what was found as the table of docs/gpu.md."""
    lines = [f"On {found['machine']}, by `make gpu`:", "", "| what | measured |", "|---|---|"]
    rows = {f"{name}, seconds": f"{value:.1f}" for name, value in found.get("figures", {}).items()}
    for name, value in found.get("parts", {}).items():
        rows[f"Figure 3's parts: {name}, seconds"] = f"{value:.1f}"
    for name, value in found.get("rates", {}).items():
        rows[f"Gaussian, d = K = 10, {name}: million units a second"] = f"{value:.0f}"
    for name, same in found.get("repeats", {}).items():
        rows[f"the same bits: {name}"] = "yes" if same else "no"
    for name, value in found.get("twins", {}).items():
        rows[f"kernel and array operations: {name}"] = f"{value:.2g}"
    if agreed := found.get("agreement"):
        rows[f"device and processor, {agreed['cells']} cells: mean z^2"] = (
            f"{agreed['mean z^2']:.2f}"
        )
        rows["the same: largest absolute z"] = f"{agreed['largest |z|']:.2f}"
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())]) + "\n"


def main(wanted: list[str]) -> None:
    """Take the steps, and write what they found after each."""
    OUT.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name in wanted or STEPS:
        seconds, found[name] = timed(STEPS[name])
        print(f"{name} ({seconds:.1f} s): {json.dumps(found[name], indent=1)}", flush=True)
        (OUT / "gpu.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    if "machine" in found:
        (OUT / "measured.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
