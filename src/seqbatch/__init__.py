"""Adaptive experiments whose feedback comes in a few batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqbatch import grids, policies, theory
from seqbatch.core import Contexts, Estimate, Problem, Statistics
from seqbatch.errors import SeqbatchError
from seqbatch.grids import Grid
from seqbatch.learner import Learner

if TYPE_CHECKING:
    from seqbatch import allocation as allocation
    from seqbatch import campaign as campaign
    from seqbatch import checks as checks
    from seqbatch import datasets as datasets
    from seqbatch import engine as engine
    from seqbatch import environments as environments
    from seqbatch import inference as inference
    from seqbatch import lab as lab
    from seqbatch import planning as planning
    from seqbatch import simulation as simulation
    from seqbatch import storage as storage
    from seqbatch.client import AsyncClient as AsyncClient
    from seqbatch.client import Client as Client

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

#: Imported when first asked for, since some take a while and some need an extra to be installed;
#: for the latter's sake they are not in ``__all__``, which ``import *`` would import.
ROOMS = (
    "allocation", "campaign", "checks", "datasets", "engine", "environments", "inference", "lab",
    "planning", "simulation", "storage",
)  # fmt: skip


#: The clients of a service, which need httpx.
CLIENTS = ("AsyncClient", "Client")


if not TYPE_CHECKING:  # a type-checker would take every misspelt name for one of these

    def __getattr__(name: str) -> Any:
        """Import a room of the library on first use, so that ``seqbatch.planning`` just works."""
        if name in ROOMS:
            return import_module(f"{__name__}.{name}")
        if name in CLIENTS:
            return getattr(import_module(f"{__name__}.client"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # What a tab shows: what has a page of reference, and none of what this module itself uses.
    return sorted({*__all__, *ROOMS, *CLIENTS, "core", "errors"})
