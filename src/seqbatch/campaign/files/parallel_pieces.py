"""Pieces of a file, processed by threads."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")
#: Items that are asked for before they are needed.
EARLY = 2


def workers() -> int:
    """Return how many threads work at once: one a core, or as many as OMP_NUM_THREADS says."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    cores = os.cpu_count() or 1
    return min(cores, int(said)) if said.isdigit() and int(said) else cores


def over(function: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
    """Yield what a function makes of items, in their order, a few of them ahead.

    Items are asked for by the caller's own thread. The function must be pure, or write to nothing
    that another call of it reads. Where a call fails, or the generator is closed, those that were
    begun are waited for: nothing goes on behind the caller's back.

    >>> list(over(abs, [-3, 2, -1]))
    [3, 2, 1]
    """
    count = workers()
    if count < 2:
        yield from map(function, items)
        return
    pool, begun = ThreadPoolExecutor(count), deque[Future[R]]()
    try:
        for item in items:
            begun.append(pool.submit(function, item))
            if len(begun) > count:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield items that a thread of their own asks for, a few before the caller wants them.

    Whoever makes them must share nothing with the caller until they are over. Where the generator
    is closed, an item that was begun is waited for.

    >>> list(ahead(iter([-3, 2, -1])))
    [-3, 2, -1]
    """
    if workers() < 2:
        yield from items
        return
    pool, end = ThreadPoolExecutor(1), object()
    try:
        begun = deque(pool.submit(next, items, end) for _ in range(EARLY))
        while (item := begun.popleft().result()) is not end:
            begun.append(pool.submit(next, items, end))
            yield cast(T, item)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
