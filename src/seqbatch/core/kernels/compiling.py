"""How every kernel is compiled, cached and loaded early."""

import warnings
from functools import cache
from threading import Thread
from typing import Any

from numba import njit


def _keeps() -> bool:
    """Return whether compiled code can be kept on disk; warn where it cannot."""

    def nothing() -> None:
        """Stand for the kernels, which are kept beside it."""

    try:
        njit(cache=True)(nothing)
    except RuntimeError:
        warnings.warn(
            "Compiled code cannot be kept, because neither the package's folder nor the home may "
            "be written: every process compiles for some seconds up to a minute. Name a folder "
            "that may be written in the environment variable NUMBA_CACHE_DIR.",
            stacklevel=2,
        )
        return False
    return True


# No fast mathematics: products and sums as they are written, neither fused nor reordered. Every
# machine then gives the same bits, whatever its vector registers, and what was decided on one can
# be replayed on another.
OPTIONS: dict[str, Any] = {
    # Compiling takes seconds; what it made is kept on disk for later processes, until its own file
    # changes: after a change of these options, what is kept must be removed by hand (*.nbi, *.nbc).
    "cache": _keeps(),
    # Division by zero gives infinity, as in NumPy, and loops need no branch to raise from.
    "error_model": "numpy",
    # Nothing here touches a Python object, so threads may run side by side.
    "nogil": True,
}


@njit(**OPTIONS)
def _nothing() -> None:
    """Do nothing."""


@cache
def load_early() -> None:
    """Begin to load what the first call of any kernel waits for, in a thread of its own.

    It takes half a second, in which whoever needs kernels later can read files.
    """
    Thread(target=_nothing, name="kernels").start()
