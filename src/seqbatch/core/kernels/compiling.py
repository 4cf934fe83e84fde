"""How kernels are compiled, cached on disk and preloaded."""

import warnings
from functools import cache
from threading import Thread
from typing import Any

from numba import njit


def _keeps() -> bool:
    """Return whether compiled code can be cached on disk; warn if it cannot."""

    def nothing() -> None:
        """Stand in for the kernels, which are cached in the same place."""

    try:
        njit(cache=True)(nothing)
    except RuntimeError:
        warnings.warn(
            "Compiled code cannot be cached, because neither the package's folder nor the home "
            "folder is writable: every process compiles again, which takes up to a minute. Set the "
            "environment variable NUMBA_CACHE_DIR to a writable folder.",
            stacklevel=2,
        )
        return False
    return True


# No fast math: products and sums are neither fused nor reordered. Every machine then gives the same
# bits, whatever its vector registers, and decisions made on one can be replayed on another.
OPTIONS: dict[str, Any] = {
    # Compiling takes seconds; the result is cached on disk for later processes until its file
    # changes. After a change of these options, remove the cache by hand (*.nbi, *.nbc).
    "cache": _keeps(),
    # Division by zero gives infinity, as in NumPy; loops then need no branch for raising.
    "error_model": "numpy",
    # No kernel touches Python objects, so threads may run in parallel.
    "nogil": True,
}


@njit(**OPTIONS)
def _nothing() -> None:
    """Do nothing."""


@cache
def load_early() -> None:
    """Start loading what the first call of any kernel needs, in a background thread.

    It takes half a second, during which the caller can read files.
    """
    Thread(target=_nothing, name="kernels").start()
