"""Simulation of policies in environments: single runs, sweeps of many trials, and summaries."""

from seqbatch.simulation.direct import simulate, simulate_together
from seqbatch.simulation.resumable_tasks import Progress, run_tasks
from seqbatch.simulation.sweep import Line, paired, slopes, summarise, sweep
from seqbatch.simulation.trajectory import Trajectory

__all__ = [
    "Line",
    "Progress",
    "Trajectory",
    "paired",
    "run_tasks",
    "simulate",
    "simulate_together",
    "slopes",
    "summarise",
    "sweep",
]
