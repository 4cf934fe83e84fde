"""How every kernel is compiled."""

from typing import Any

OPTIONS: dict[str, Any] = {
    # Compiling takes seconds; what it made is kept on disk for later processes.
    "cache": True,
    # Division by zero gives infinity, as in NumPy, and loops need no branch to raise from.
    "error_model": "numpy",
    # Fusing a product and a sum is allowed, reordering sums is not: results must not depend on
    # tiling.
    "fastmath": {"contract"},
    # Nothing here touches a Python object, so threads may run side by side.
    "nogil": True,
}
