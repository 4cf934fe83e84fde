"""Cases of a test that `make test` leaves to `make test-thorough`: more of what others show."""

import pytest


def thorough(*cases):
    """Mark cases as thorough; a tuple has the values of several parameters."""
    spread = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*values, marks=pytest.mark.thorough) for values in spread]
