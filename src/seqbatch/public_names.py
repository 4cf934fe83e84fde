"""Public names of a package that are imported on first use."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def on_first_use(
    package: str, modules: Mapping[str, str], *, rooms: Collection[str] = ()
) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``.

    Parameters
    ----------
    package
        The package's name.
    modules
        The module of each public name, inside the package.
    rooms
        Modules of the package that are public themselves.

    Examples
    --------
    >>> on_first_use("seqbatch", {"Grid": "grids"})("Grid").__name__
    'Grid'
    """

    def found(name: str) -> Any:
        if name in rooms:
            return import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        made = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, made)
        return made

    return found
