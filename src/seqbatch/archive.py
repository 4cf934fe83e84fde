"""Serialisation of states to named arrays and plain values, without pickle."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from seqbatch.core import Problem
from seqbatch.core.arrays import AnyArray
from seqbatch.errors import InvalidArgumentError


def flatten(name: str, value: Any, arrays: dict[str, AnyArray], values: dict[str, Any]) -> None:
    """Convert a state to named arrays and plain values; the problem is saved separately."""
    if isinstance(value, Problem):
        return
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise InvalidArgumentError(name, "an array of numbers", f"dtype {value.dtype}")
        arrays[name] = value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            flatten(f"{name}.{field.name}", getattr(value, field.name), arrays, values)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            flatten(f"{name}.{index}", item, arrays, values)
    elif value is None or isinstance(value, bool | int | float | str | np.generic):
        values[name] = value.item() if isinstance(value, np.generic) else value
    else:
        raise InvalidArgumentError(
            name, "made of arrays, numbers, tuples and dataclasses", type(value).__name__
        )


def unflatten(name: str, like: Any, arrays: dict[str, AnyArray], values: dict[str, Any]) -> Any:
    """Rebuild a state with the structure of `like`."""
    if name in arrays:
        return arrays[name]
    if name in values:
        return values[name]
    if isinstance(like, Problem):
        return like
    if isinstance(like, tuple):
        return tuple(
            unflatten(f"{name}.{index}", item, arrays, values) for index, item in enumerate(like)
        )
    if is_dataclass(like) and not isinstance(like, type):
        parts = {
            field.name: unflatten(f"{name}.{field.name}", getattr(like, field.name), arrays, values)
            for field in fields(like)
        }
        return replace(like, **parts)
    raise KeyError(name)


def comes_back(name: str, like: Any, arrays: dict[str, AnyArray], values: dict[str, Any]) -> bool:
    """Return whether the flattened parts rebuild a complete state with the structure of `like`."""
    again: tuple[dict[str, AnyArray], dict[str, Any]] = ({}, {})
    try:
        flatten(name, unflatten(name, like, arrays, values), *again)
    except KeyError:
        return False
    return again[0].keys() == arrays.keys() and again[1].keys() == values.keys()
