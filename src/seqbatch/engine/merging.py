"""Merge statistics in a fixed tree."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Value = TypeVar("Value")


def merge_tree(merge: Callable[[Value, Value], Value], values: Iterable[Value]) -> Value:
    """Merge values two by two, neighbours first, until one is left.

    Which are merged with which depends on their number alone: floating point sums have the same
    bits wherever the values were made. Values are merged as they come, and at most one of each
    level of the tree is kept.

    Parameters
    ----------
    merge
        Makes one of two neighbours, the earlier one first.
    values
        At least one.

    Examples
    --------
    >>> merge_tree(lambda left, right: f"({left} {right})", "abcde")
    '(((a b) (c d)) e)'
    """
    kept: list[tuple[int, Value]] = []
    for value in values:
        level = 0
        while kept and kept[-1][0] == level:
            value = merge(kept.pop()[1], value)
            level += 1
        kept.append((level, value))
    if not kept:
        raise ValueError("there is nothing to merge")
    _, value = kept.pop()
    while kept:
        value = merge(kept.pop()[1], value)
    return value
