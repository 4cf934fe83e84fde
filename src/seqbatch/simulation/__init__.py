"""Simulation of policies in environments: single runs, and studies of many, paired."""

from seqbatch.simulation.direct import simulate, simulate_together
from seqbatch.simulation.line import Line
from seqbatch.simulation.measures import Coverage
from seqbatch.simulation.resumable_tasks import Progress, run_tasks
from seqbatch.simulation.study import Study
from seqbatch.simulation.study_result import StudyResult
from seqbatch.simulation.trajectory import Trajectory

__all__ = [
    "Coverage",
    "Line",
    "Progress",
    "Study",
    "StudyResult",
    "Trajectory",
    "run_tasks",
    "simulate",
    "simulate_together",
]


def __dir__() -> list[str]:
    return __all__
