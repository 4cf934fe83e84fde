"""How every kernel is compiled."""

from typing import Any

# No fast mathematics: products and sums as they are written, neither fused nor reordered. Every
# machine then gives the same bits, whatever its vector registers, and what was decided on one can
# be replayed on another.
OPTIONS: dict[str, Any] = {
    # Compiling takes seconds; what it made is kept on disk for later processes, until its own file
    # changes: after a change of these options, what is kept must be removed by hand (*.nbi, *.nbc).
    "cache": True,
    # Division by zero gives infinity, as in NumPy, and loops need no branch to raise from.
    "error_model": "numpy",
    # Nothing here touches a Python object, so threads may run side by side.
    "nogil": True,
}
