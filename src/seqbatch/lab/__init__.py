"""The experiments: the paper's figures and a few more, each a declaration and an analysis."""

from seqbatch.lab.batches import Batches
from seqbatch.lab.experiment import Claim, Experiment, Options, reproduce
from seqbatch.lab.figure1 import Figure1
from seqbatch.lab.figure2 import Figure2
from seqbatch.lab.figure3 import Figure3

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Figure1("mushroom"),
        Figure1("covertype"),
        Figure2(),
        Figure3(),
        Batches(),
    )
}

__all__ = [
    "EXPERIMENTS",
    "Batches",
    "Claim",
    "Experiment",
    "Figure1",
    "Figure2",
    "Figure3",
    "Options",
    "reproduce",
]


def __dir__() -> list[str]:
    return __all__
