"""Adaptive experiments whose feedback comes in a few batches."""

from typing import TYPE_CHECKING

from seqbatch.errors import SeqbatchError
from seqbatch.public_names import on_first_use

if TYPE_CHECKING:
    from seqbatch import allocation as allocation
    from seqbatch import campaign as campaign
    from seqbatch import checks as checks
    from seqbatch import datasets as datasets
    from seqbatch import engine as engine
    from seqbatch import environments as environments
    from seqbatch import grids as grids
    from seqbatch import inference as inference
    from seqbatch import lab as lab
    from seqbatch import planning as planning
    from seqbatch import policies as policies
    from seqbatch import simulation as simulation
    from seqbatch import storage as storage
    from seqbatch import theory as theory
    from seqbatch.client import AsyncClient as AsyncClient
    from seqbatch.client import Client as Client
    from seqbatch.core import Contexts as Contexts
    from seqbatch.core import Estimate as Estimate
    from seqbatch.core import Problem as Problem
    from seqbatch.core import Statistics as Statistics
    from seqbatch.grids import Grid as Grid
    from seqbatch.learner import Learner as Learner

__version__ = "0.2.0"

__all__ = [
    "Contexts",
    "Estimate",
    "Grid",
    "Learner",
    "Problem",
    "SeqbatchError",
    "Statistics",
    "__version__",
    "grids",
    "policies",
    "theory",
]

#: Imported on first use, since some take a while and some need an extra to be installed; the
#: latter are not in ``__all__``, which ``import *`` would import.
ROOMS = (
    "allocation", "campaign", "checks", "datasets", "engine", "environments", "grids", "inference",
    "lab", "planning", "policies", "simulation", "storage", "theory",
)  # fmt: skip

#: The module of each class, also imported on first use; the clients of a service need httpx.
CLASSES = {
    "AsyncClient": "client", "Client": "client", "Contexts": "core", "Estimate": "core",
    "Grid": "grids", "Learner": "learner", "Problem": "core", "Statistics": "core",
}  # fmt: skip


if not TYPE_CHECKING:  # a type-checker would take every misspelt name for one of these
    __getattr__ = on_first_use(__name__, CLASSES, rooms=ROOMS)


def __dir__() -> list[str]:
    # What a tab shows: what has a page of reference, and none of what this module itself uses.
    return sorted({*__all__, *ROOMS, *CLASSES, "core", "errors"})
