"""Group commit: small calls for one campaign that arrive together share a transaction.

While one transaction is written to disk, further calls wait in their campaign's queue, and the next
transaction takes all of them. Units from the same caller are assigned in one call and one event,
and each request is answered with its own rows. If the group is refused, its transaction is rolled
back. A second transaction then tries each request separately, and one that fails does not affect
the others.
"""

import asyncio
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import polars as pl
import pyarrow as pa
import sqlalchemy as sa

from seqbatch.campaign import Assigned, Campaign
from seqbatch.errors import SeqbatchError, StoreError
from seqbatch.service.bodies import JSON, table_of
from seqbatch.service.idempotency import again, plain
from seqbatch.service.metrics import Metrics
from seqbatch.service.problems import ProblemError
from seqbatch.service.roles import sight
from seqbatch.storage import answers
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token
from seqbatch.storage.transaction import SharedTransaction
from seqbatch.timed_steps import timed

#: Maximum calls and rows per transaction: enough to share a disk write, few enough to stay fast.
MOST_CALLS, MOST_ROWS = 256, 20_000
#: Up to this many rows, plain Python writes JSON faster than the bulk writer.
FEW = 64


@dataclass(eq=False)
class Small:
    """A small call that waits in its campaign's queue.

    Parameters
    ----------
    token
        The caller's token, which signs the event.
    call
        The key under which its answer is stored; None to not store it.
    rows
        The units or outcomes of the call.
    step
        Makes this call alone, and returns the answer.
    joins
        The units' columns: calls with equal columns may be assigned together; None for never.
    future
        Receives the answer, in the call's event loop.
    """

    token: Token
    call: IdempotentCall | None
    rows: Sequence[dict[str, Any]]
    step: Callable[[Campaign], StoredAnswer]
    future: "asyncio.Future[StoredAnswer]"
    joins: tuple[str, ...] | None = None
    made: StoredAnswer | Exception | None = None

    @property
    def kind(self) -> tuple[Any, ...]:
        """The properties that calls must share to be combined."""
        return self.token.id, self.joins


class Groups:
    """The queues of all campaigns; one thread at a time processes each queue."""

    def __init__(self, store: SQLStore, metrics: Metrics, *, threads: int = 8) -> None:
        self._store = store
        self._metrics = metrics
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Small]] = defaultdict(deque)
        self._running: set[str] = set()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="group")

    async def answered(self, name: str, small: Small) -> StoredAnswer:
        """Put a call into its campaign's queue; return its answer.

        The call is made even if the client disconnects.
        """
        with self._lock:
            self._waiting[name].append(small)
            if name not in self._running:
                self._running.add(name)
                self._threads.submit(self._work_off, name)
        with timed("wait for the group"):
            return await small.future

    def close(self) -> None:
        """Finish all waiting calls."""
        self._threads.shutdown(wait=True)

    def _work_off(self, name: str) -> None:
        while not self._rests(name):
            group = list[Small]()
            try:
                self._transaction(name, group)
            except Exception as error:
                group = group or self._next(name)
                for small in group:
                    small.made = error
            self._answer(group)

    def _transaction(self, name: str, group: list[Small]) -> None:
        """Move waiting calls into the group and make them, together or one by one."""
        try:
            with SharedTransaction(self._store, parts=False) as together:
                # Take the group only after the campaign is locked: calls that arrived during the
                # wait join it. Calls that another worker answered meanwhile get that answer.
                together.begin(name)
                group += self._next(name)
                _make(group, name, together, self._store)
        except RefusedError:
            with SharedTransaction(self._store) as together:
                _make(group, name, together, self._store)

    def _rests(self, name: str) -> bool:
        """Mark a queue as idle if it is empty; return whether it is."""
        with self._lock:
            if self._waiting[name]:
                return False
            self._running.discard(name)
            del self._waiting[name]
            return True

    def _next(self, name: str) -> list[Small]:
        """Return the next calls of a queue, within the limits of a transaction."""
        with self._lock:
            waiting, group, rows = self._waiting[name], list[Small](), 0
            while waiting and len(group) < MOST_CALLS:
                rows += len(waiting[0].rows)
                if group and rows > MOST_ROWS:
                    break
                group.append(waiting.popleft())
            return group

    def _answer(self, group: Sequence[Small]) -> None:
        """Answer all calls of a finished transaction at once, to wake the event loop only once."""
        self._metrics.add("group_transactions_total", 1)
        self._metrics.add("group_calls_total", len(group))
        for loop, some in groupby(group, key=lambda small: small.future.get_loop()):
            loop.call_soon_threadsafe(_deliver, list(some))


def _deliver(group: Sequence[Small]) -> None:
    for small in group:
        # The client may have disconnected.
        if small.future.done():
            continue
        if isinstance(small.made, StoredAnswer):
            small.future.set_result(small.made)
        else:
            assert small.made is not None
            small.future.set_exception(small.made)


class RefusedError(SeqbatchError):
    """Ends a transaction whose calls must be tried one by one."""


def _make(group: Sequence[Small], name: str, together: SharedTransaction, store: SQLStore) -> None:
    """Make the calls of a group in one transaction, and store their answers."""
    connection = together.begin(name)
    twins = _twins(group)
    _answered_before(group, connection, store)
    runs = list(_alike([small for small in group if small not in twins]))
    # Most groups are a single run, which is the whole transaction and needs no savepoint.
    together.parts = together.parts or len(runs) > 1
    for some in runs:
        _made(some, name, together)
    for small, other in twins.items():
        small.made = small.made or _twin(small, other)
    _keep(connection, store, [small for small in group if small not in twins])


def _keep(connection: sa.Connection, store: SQLStore, group: Sequence[Small]) -> None:
    """Store the answers of the calls that were made now and have a key."""
    kept = []
    for small in group:
        made = small.made
        if small.call is not None and isinstance(made, StoredAnswer) and not made.request:
            kept.append((small.call, made))
    answers.keep_all(connection, store, kept)


def _answered_before(group: Sequence[Small], connection: sa.Connection, store: SQLStore) -> None:
    """Answer repeated calls with their stored answers."""
    calls = [small.call for small in group if small.call is not None]
    known = answers.found_all(connection, store, calls)
    for small in group:
        if small.call is not None:
            try:
                small.made = again(known.get((small.call.token, small.call.key)), small.call)
            except ProblemError as error:
                small.made = error


def _twins(group: Sequence[Small]) -> dict[Small, Small]:
    """Map each call whose key occurs earlier in the group to that earlier call."""
    first: dict[tuple[str, str], Small] = {}
    twins = {}
    for small in group:
        if small.call is not None:
            other = first.setdefault((small.call.token, small.call.key), small)
            if other is not small:
                twins[small] = other
    return twins


def _twin(small: Small, other: Small) -> StoredAnswer | Exception | None:
    """Return the answer of the call with the same key, if both calls are the same."""
    assert small.call is not None
    assert other.call is not None
    if not isinstance(other.made, StoredAnswer):
        return other.made
    try:
        return again(replace(other.made, request=other.call.request), small.call)
    except ProblemError as error:
        return error


def _alike(group: Sequence[Small]) -> Iterator[list[Small]]:
    """Yield runs of calls that may be combined; a call that must be made alone is its own run."""
    left = [small for small in group if small.made is None]
    for kind, some in groupby(left, key=lambda small: small.kind):
        if kind[1] is not None:
            yield list(some)
        else:
            yield from ([small] for small in some)


def _made(some: list[Small], name: str, together: SharedTransaction) -> None:
    """Make calls as one; if that is refused, make them one by one."""
    token = some[0].token
    campaign = Campaign(together, name, who=token.name, sight=sight(token))
    try:
        if len(some) > 1:
            rows = [row for small in some for row in small.rows]
            _share_out(some, campaign.assign(table_of(rows, what="units")))
            return
    except StoreError:
        raise
    except Exception as error:
        # Each call is then tried alone, and reports its own error.
        if not together.parts:
            raise RefusedError from error
    for small in some:
        try:
            small.made = small.step(campaign)
            if together.spoiled:
                # The call was only tried, or tried again: it must be a separate part.
                raise RefusedError
        except StoreError:
            raise
        except Exception as error:  # no error may fail the other calls
            if not together.parts:
                raise RefusedError from error
            small.made = error


def _share_out(some: list[Small], result: Assigned) -> None:
    """Answer each call with its slice of the combined rows."""
    rows, start = _written(result), 0
    for small in some:
        small.made = _assigned(result, rows[start : start + len(small.rows)])
        start += len(small.rows)


def assigned(result: Assigned) -> StoredAnswer:
    """Return the answer to a call of assign."""
    return _assigned(result, _written(result))


def _written(result: Assigned) -> list[str]:
    """Return each row of an answer as JSON; NaN becomes null."""
    assert result.table is not None
    told = result.table.append_column("repeated", pa.array(result.before))
    if told.num_rows <= FEW:
        return [json.dumps(plain(row), ensure_ascii=False) for row in told.to_pylist()]
    frame = pl.from_arrow(told)
    assert isinstance(frame, pl.DataFrame)
    # Split only at "\n": an id may contain other line separators.
    return frame.write_ndjson().split("\n")[:-1]


def _assigned(result: Assigned, rows: list[str]) -> StoredAnswer:
    head = json.dumps(
        {
            "wave": result.wave,
            "left": result.left,
            "event": result.event,
            "warnings": list(result.warnings),
        }
    )
    content = f'{head[:-1]}, "assignments": [{",".join(rows)}]}}'.encode()
    return StoredAnswer(status=200, headers={"content-type": JSON}, pieces=[content])
