"""How every kernel is compiled, and the names of its arrays' types."""

from typing import Any

# Products and sums as they are written, neither fused nor reordered: every machine then gives the
# same bits, whatever its vector registers, and what was decided on one can be replayed on another.
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True}
