"""Compiled kernels: the few loops that BLAS cannot express, compiled on first use and cached.

They are tested against plain Python versions in ``tests/core/test_kernels.py``; kernels that replay
a whole policy are tested against the oracles and against the policy step by step. Kernels do not
check bounds; their callers do.

Numba is imported with the first kernel that is used, not with this package: ``import seqbatch``
stays fast, and code that only makes grids or plans by theorem never waits for a compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqbatch.core.kernels import compiling, exact, texts
    from seqbatch.core.kernels.allocation import (
        movable,
        move,
        near_ties,
        round_table,
        tilt,
        tilted,
        whole_parts,
        whole_sums,
    )
    from seqbatch.core.kernels.regression import (
        accumulate,
        descend,
        factorise,
        ridge_cells,
        ridge_means_cells,
        solve,
    )
    from seqbatch.core.kernels.replay import (
        REFRESH,
        pass_stage,
        replay_online_ucb,
        replay_stages,
        replay_ucb,
    )
    from seqbatch.core.kernels.scoring import (
        best_shares,
        choose_among,
        choose_by_shares,
        mark_highest,
        means,
        means_and_widths,
        mixture_shares,
        signed_counts,
    )
    from seqbatch.core.kernels.trials import (
        NEVER,
        assign_within,
        choose_points,
        choose_restricted_points,
        complete_roots,
        solve_positive,
    )

__all__ = [
    "NEVER",
    "REFRESH",
    "accumulate",
    "assign_within",
    "best_shares",
    "choose_among",
    "choose_by_shares",
    "choose_points",
    "choose_restricted_points",
    "compiling",
    "complete_roots",
    "descend",
    "exact",
    "factorise",
    "mark_highest",
    "means",
    "means_and_widths",
    "mixture_shares",
    "movable",
    "move",
    "near_ties",
    "pass_stage",
    "replay_online_ucb",
    "replay_stages",
    "replay_ucb",
    "ridge_cells",
    "ridge_means_cells",
    "round_table",
    "signed_counts",
    "solve",
    "solve_positive",
    "texts",
    "tilt",
    "tilted",
    "whole_parts",
    "whole_sums",
]

#: Files that callers use by their names, as ``kernels.texts.mark``.
FILES = ("compiling", "exact", "texts")
#: The kernels in each other file.
HOMES = {
    "allocation": (
        "movable",
        "move",
        "near_ties",
        "round_table",
        "tilt",
        "tilted",
        "whole_parts",
        "whole_sums",
    ),
    "regression": (
        "accumulate",
        "descend",
        "factorise",
        "ridge_cells",
        "ridge_means_cells",
        "solve",
    ),
    "replay": (
        "REFRESH",
        "pass_stage",
        "replay_online_ucb",
        "replay_stages",
        "replay_ucb",
    ),
    "scoring": (
        "best_shares",
        "choose_among",
        "choose_by_shares",
        "mark_highest",
        "means",
        "means_and_widths",
        "mixture_shares",
        "signed_counts",
    ),
    "trials": (
        "NEVER",
        "assign_within",
        "choose_points",
        "choose_restricted_points",
        "complete_roots",
        "solve_positive",
    ),
}


if not TYPE_CHECKING:  # a type-checker would take every misspelt name for a kernel

    def __getattr__(name: str) -> Any:
        """Import a kernel's file, and with it numba, on first use."""
        if name in FILES:
            return import_module(f"{__name__}.{name}")
        for file, kernels in HOMES.items():
            if name in kernels:
                globals()[name] = getattr(import_module(f"{__name__}.{file}"), name)
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
