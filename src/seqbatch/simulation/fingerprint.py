"""A digest of what defines a run: its values, and the code that a user wrote for it.

A run goes on only as it was declared. An edited policy under the same name and with the same
parameters would otherwise be answered by what the old one did.
"""

import copyreg
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from types import CodeType, FunctionType

import numpy as np

from seqbatch.errors import InvalidArgumentError

Update = Callable[[bytes], None]
PLAIN = bool | int | float | complex | str | bytes | np.generic
#: Arrays that their type, shape and bytes describe; others, such as masked ones, hold more.
ARRAYS = (np.ndarray, np.memmap)


def fingerprint(value: object) -> str:
    """Return a digest that differs whenever any field, element or byte of `value` differs.

    It walks dataclasses, mappings, sequences, arrays and functions. Other objects count by their
    class and what they would be pickled as: of a plain class its attributes. Of classes that
    are not this package's the code counts: the text of an imported module, and the methods of a
    class in a script or a notebook, whose other lines may change.

    Raises
    ------
    InvalidArgumentError
        Where something in it cannot be told from its like, such as a lock or an open connection,
        where a function uses a variable that is not set yet, or where it is nested too deeply.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        _digest(value, digest.update)
    except RecursionError:
        raise InvalidArgumentError(
            "what defines a run", "nested less deeply than Python's calls may be",
            "objects in objects in objects", "Keep them side by side, as in a list or an array.",
        ) from None  # fmt: skip
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
    elif isinstance(value, np.ndarray) and type(value) in ARRAYS and not value.dtype.hasobject:
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
        for part in _parts(value, within):
            _digest(part, update, (*within, value))
    update(b")")


def _parts(value: object, within: tuple[object, ...]) -> Sequence[object]:
    """Return what an object is made of; errors name it by what it is within."""
    if _plain(value):
        return _elements(value)
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, FunctionType):
        return value.__code__, value.__defaults__, value.__kwdefaults__, _held(value)
    if type(value).__module__.startswith("numba.") and hasattr(value, "py_func"):
        # Compiled: what it is pickled as has an id that is new in every process.
        return value.py_func, getattr(value, "targetoptions", None)
    try:
        return _pickled(value)
    except RecursionError:
        raise
    except Exception as error:
        if parts := _elements(value):
            return parts
        raise InvalidArgumentError(
            " in ".join(_named(each) for each in (value, *reversed(within)) if not _plain(each)),
            "something whose content can be compared, as a run goes on only as it was declared",
            f"what cannot be taken apart ({error})",
            "Make it in the method or function that uses it, instead of keeping it.",
        ) from error


def _elements(value: object) -> Sequence[object]:
    """Return what a container holds, or the attributes of another object."""
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, Sequence):
        return value
    return _attributes(type(value), getattr(value, "__dict__", {}))


def _attributes(kind: type, own: Mapping[str, object]) -> list[object]:
    """Return attributes by name, less what was computed of the others and kept."""
    # It is not there before it is asked for.
    kept = [name for name in own if isinstance(getattr(kind, name, None), cached_property)]
    return [part for name in sorted(own.keys() - kept) for part in (name, own[name])]


def _pickled(value: object) -> list[object]:
    """Return what an object would be made from again in another process.

    Attributes alone would not do: those in slots, the seed of a `random.Random` and what a partial
    function is given are not among them.
    """
    kind = type(value)
    reducer = copyreg.dispatch_table.get(kind)
    reduced = reducer(value) if reducer else value.__reduce_ex__(2)
    if isinstance(reduced, str):
        # Found by its name: a function of C, or one that is kept with its results.
        return [getattr(value, "__module__", None), reduced, *_elements(value)]
    make, given, *rest = reduced
    state, items = (rest[0], rest[1:3]) if rest else (None, [])
    # The class itself is taken in already.
    made_from = list(given[1:]) if getattr(make, "__name__", "") == "__newobj__" else [make, given]
    states = state if isinstance(state, tuple) else (state,)
    for each in states:
        made_from += _attributes(kind, each) if type(each) is dict else [each]
    return [*made_from, *(list(each) for each in items if each is not None)]


def _held(function: FunctionType) -> list[object]:
    """Return what a function uses of the variables of the one around it."""
    held = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held.append(cell.cell_contents)
        except ValueError:
            raise InvalidArgumentError(
                f"{name} in {_named(function)}", "set before the run starts",
                "a variable without a value", "Assign it above the call, or pass it on.",
            ) from None  # fmt: skip
    return held


def _plain(value: object) -> bool:
    """Say whether a value has no name of its own: it only holds others."""
    return type(value) in (tuple, list, dict)


def _named(value: object) -> str:
    """Return what a user calls an object: a function by its name, others by their class."""
    named = value if isinstance(value, FunctionType) else type(value)
    return f"{named.__module__}.{named.__qualname__}"


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
