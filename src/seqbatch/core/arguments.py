"""Checks of function arguments: each returns the value in a plain type or raises an error."""

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing import SupportsFloat, SupportsIndex

#: Larger magnitudes would overflow when squared and summed over any realistic number of units.
LARGEST = 1e120


def integer(name: str, value: "SupportsIndex", *, at_least: int = 1) -> int:
    """Return `value` as an int of at least `at_least`."""
    rule = f"a whole number of at least {at_least}"
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(name, rule, repr(value)) from None
    # True and False are integers to Python, but as a count they are a mistake.
    if isinstance(value, bool) or number < at_least:
        raise InvalidArgumentError(name, rule, repr(value))
    return number


def number(
    name: str,
    value: "SupportsFloat",
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """Return `value` as a finite float within the stated bounds."""
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("above", above), ("at least", at_least), ("at most", at_most))
        if math.isfinite(bound)
    ]
    rule = "a finite number" + (f" {' and '.join(bounds)}" if bounds else "")
    try:
        # float() would accept all of these: True as 1 and "3" as 3.
        if isinstance(value, bool | np.bool_ | str | bytes):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(name, rule, repr(value)) from None
    if not (math.isfinite(result) and result > above and at_least <= result <= at_most):
        raise InvalidArgumentError(name, rule, repr(value))
    return result


def text(name: str, value: object) -> str:
    """Return `value` if it is text that any file and any database can store."""
    rule = "text without NUL characters or unpaired surrogates"
    if not isinstance(value, str) or "\0" in value:
        raise InvalidArgumentError(name, rule, repr(value))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(name, rule, repr(value)) from None
    return value


def choice(name: str, value: object, options: Sequence[str]) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise InvalidArgumentError(name, f"one of {allowed}", repr(value))
    return value


def floats(
    name: str, values: ArrayLike, shape: tuple[int | str, ...], *, advice: str = ""
) -> Floats:
    """Return `values` as a finite float64 array in C order with the given shape.

    A string in `shape` matches any length. The array is copied only if its type or memory order
    requires it.
    """
    array = numeric(name, values)
    _shaped(name, array, shape, advice)
    # One pass finds NaN, infinity and values that would overflow: any comparison with NaN is false.
    if array.size and not (array.min() > -LARGEST and array.max() < LARGEST):
        where = tuple(int(i) for i in np.argwhere(~(np.abs(array) < LARGEST))[0])
        raise InvalidArgumentError(
            name,
            f"finite and smaller than {LARGEST:g} in absolute value",
            f"{array[where]} at index {where}",
            "Remove, impute or rescale such values first.",
        )
    return array


def bools(name: str, values: ArrayLike, shape: tuple[int | str, ...]) -> Bools:
    """Return `values` as a boolean array in C order; arrays of numbers are refused."""
    array = _array(name, values)
    if array.dtype.kind != "b":
        raise InvalidArgumentError(
            name,
            "an array of True and False",
            f"{type(values).__name__} of dtype {array.dtype}",
            "Compare first, for example `ages >= 18`, or convert with .astype(bool).",
        )
    _shaped(name, array, shape)
    return np.ascontiguousarray(array)


def actions(name: str, values: ArrayLike, units: int, below: int) -> Integers:
    """Return one action per unit. Nothing is rounded: 0.7 is refused, not read as action 0."""
    array = _array(name, values)
    rule = f"whole numbers between 0 and {below - 1}, one for each of {units} units"
    if array.shape != (units,):
        raise InvalidArgumentError(name, rule, f"shape {array.shape}")
    if units and array.dtype.kind not in "iu":
        hint = "Convert whole numbers or booleans with .astype(int)."
        raise InvalidArgumentError(name, rule, f"an array of dtype {array.dtype}", hint)
    wrong = np.flatnonzero((array < 0) | (array >= below))
    if len(wrong):
        raise InvalidArgumentError(name, rule, f"{array[wrong[0]]} in row {wrong[0]}")
    return array.astype(np.int64)


def _array(name: str, values: ArrayLike) -> AnyArray:
    try:
        return np.asarray(values)
    except ValueError:
        rule = "an array, with rows of the same length"
        raise InvalidArgumentError(name, rule, type(values).__name__) from None


def _shaped(name: str, array: AnyArray, shape: tuple[int | str, ...], advice: str = "") -> None:
    wanted = "(" + ", ".join(str(length) for length in shape) + ("," * (len(shape) == 1)) + ")"
    fits = array.ndim == len(shape) and all(
        isinstance(length, str) or length == actual
        for length, actual in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(
            name, f"an array of shape {wanted}", f"shape {array.shape}", advice
        )


def numeric(name: str, values: ArrayLike) -> Floats:
    """Return `values` as float64 in C order, whatever their magnitude; refuse non-numbers."""
    try:
        raw: AnyArray = np.asarray(values)
        # Object, string and complex arrays would be converted silently or fail much later.
        if raw.dtype.kind not in "fiub":
            raise TypeError
        return np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        received = f"{type(values).__name__}"
        if isinstance(values, np.ndarray):
            received += f" of dtype {values.dtype}"
        raise InvalidArgumentError(name, "an array of real numbers", received) from None
