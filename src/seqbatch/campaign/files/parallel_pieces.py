"""Process the pieces of a file in parallel threads."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")
#: The number of items requested before they are needed.
EARLY = 2


def workers() -> int:
    """Return the number of parallel threads: one per core, or OMP_NUM_THREADS."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    cores = os.cpu_count() or 1
    return min(cores, int(said)) if said.isdigit() and int(said) else cores


def over(function: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
    """Yield a function's results for items, in order, computing a few of them ahead.

    The caller's thread iterates over the items. The function must be pure, or at least not write
    to anything that another call reads. If a call fails or the generator is closed, the running
    calls are awaited: nothing continues in the background.

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
    """Yield items that a separate thread requests, a few before the caller needs them.

    The iterator must share nothing with the caller until it is exhausted. If the generator is
    closed, the item in progress is awaited.

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
