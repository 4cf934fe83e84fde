"""How a file was named by the person who handed it over."""

from pathlib import Path
from typing import Any


def named(given: Any) -> str:
    """Return a file's name as it was given; "" for a table in memory and for a pipe.

    >>> named("data/units.csv"), named("-"), named({"unit": ["a"]})
    ('data/units.csv', '', '')
    """
    return str(given) if isinstance(given, str | Path) and str(given) != "-" else ""
