"""Run policies in environments: one trajectory, many, and what they say together."""

from seqbatch.simulation.loop import simulate, simulate_together
from seqbatch.simulation.summary import paired, slopes, summarise
from seqbatch.simulation.sweep import GridRule, Line, sweep
from seqbatch.simulation.tasks import Progress, run_tasks
from seqbatch.simulation.trajectory import Trajectory

__all__ = [
    "GridRule",
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
