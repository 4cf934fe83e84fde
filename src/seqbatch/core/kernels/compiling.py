"""How every kernel is compiled, and the names of its arrays' types."""

from typing import Any

# Fusing a product and a sum is allowed, reordering sums is not: results must not depend on tiling.
OPTIONS: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "nogil": True,
}
