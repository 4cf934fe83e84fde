"""Threads of linear algebra: products of small matrices are fastest on one."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any


class _Limit:
    """The limit of the whole process, and how many blocks want it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._limits: Any = None

    def begin(self) -> None:
        """Set the limit, unless another block has."""
        from threadpoolctl import threadpool_limits

        with self._lock:
            if not self._blocks:
                self._limits = threadpool_limits(1, user_api="blas")
            self._blocks += 1

    def end(self) -> None:
        """Lift the limit, unless another block wants it."""
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._limits.restore_original_limits()


_LIMIT = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have linear algebra use one thread in the whole process, until the last such block ends.

    After each product of small matrices, further threads wait for the next one in a busy loop: that
    takes more processor time than they save. On one thread, the last digits of sums do not depend
    on how many cores a machine has.

    >>> with one_thread():
    ...     pass
    """
    _LIMIT.begin()
    try:
        yield
    finally:
        _LIMIT.end()
