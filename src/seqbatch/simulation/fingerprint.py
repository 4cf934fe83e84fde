"""A digest of what defines a run: its values, and the code that a user wrote for it.

A run goes on only as it was declared. An edited policy under the same name and with the same
parameters would otherwise be answered by what the old one did.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from types import CodeType, FunctionType

import numpy as np

Update = Callable[[bytes], None]
PLAIN = bool | int | float | complex | str | bytes | np.generic


def fingerprint(value: object) -> str:
    """Return a digest that differs whenever any field, element or byte of `value` differs.

    It walks dataclasses, mappings, sequences, arrays and functions. Other objects count by their
    class and their own attributes, so that a plain class of a user's resumes too. Of classes that
    are not this package's the code counts: the text of an imported module, and the methods of a
    class in a script or a notebook, whose other lines may change.
    """
    digest = hashlib.blake2b(digest_size=16)
    _digest(value, digest.update)
    return digest.hexdigest()


def _digest(value: object, update: Update, within: tuple[object, ...] = ()) -> None:
    kind = type(value)
    # The type and the closing bracket keep ((1,), 2) apart from (1, (2,)), and 1 from 1.0.
    update(f"{kind.__module__}.{kind.__qualname__}(".encode())
    if value is None or isinstance(value, PLAIN):
        update(repr(value).encode())
    elif any(value is whole for whole in within):
        # A function that calls itself, or an object that is a part of itself.
        update(b"again")
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        update(f"{value.dtype}{value.shape}".encode())
        update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Set):
        # In an order that does not depend on the process.
        _digest(sorted(map(fingerprint, value)), update)
    elif isinstance(value, type):
        update(value.__qualname__.encode())
        _digest_class(value, update)
    else:
        _digest_class(kind, update)
        for part in _parts(value):
            _digest(part, update, (*within, value))
    update(b")")


def _parts(value: object) -> Sequence[object]:
    """Return what an object is made of."""
    kind = type(value)
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, Sequence):
        return value
    if isinstance(value, np.ndarray):
        return value.shape, value.tolist()
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        return value.__code__, value.__defaults__, value.__kwdefaults__, held
    if own := getattr(value, "__dict__", None):
        # What was computed of the others, and kept, is not there before it is asked for.
        kept = [name for name in own if isinstance(getattr(kind, name, None), cached_property)]
        return [part for name in sorted(own.keys() - kept) for part in (name, own[name])]
    # Slots, methods, partial functions and the like: as they would be pickled.
    return (value.__reduce_ex__(2),)


def _digest_class(kind: type, update: Update) -> None:
    """Take in the code of a class and of its bases, as far as a user wrote it."""
    for base in kind.__mro__:
        home = base.__module__
        if home.partition(".")[0] in {"seqbatch", "numpy", *sys.stdlib_module_names}:
            continue
        try:
            # Not of a script or a notebook, which hold more than their classes.
            text = "" if home == "__main__" else inspect.getsource(sys.modules[home])
        except (OSError, TypeError, KeyError):
            text = ""
        _digest(text or _methods(base), update)


def _methods(kind: type) -> list[tuple[str, object]]:
    """Return the code and the plain values that stand in a class."""
    found = []
    for name, part in sorted(vars(kind).items()):
        inner = getattr(part, "fget", None) or getattr(part, "__func__", part)
        if code := getattr(inner, "__code__", None):
            found.append((name, code))
        elif isinstance(part, PLAIN) and not name.startswith("__"):
            found.append((name, part))
    return found
