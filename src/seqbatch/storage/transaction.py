"""Several changes of one campaign in one transaction.

A campaign's calls begin and end a transaction each. Handed a :class:`Together` for a store, they
are parts of a longer one: a part that fails leaves nothing, the others stay, and all of them are
kept when the whole ends well. So an answer can be kept with the change that it answers for, and
calls that arrive together share the time that a disk takes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import sqlalchemy as sa

from seqbatch.campaign.record.store import Tombstone
from seqbatch.storage.rows import View
from seqbatch.storage.stores import SQLStore


class SharedTransaction:
    """A store for the calls of one campaign, whose changes are parts of one transaction.

    The transaction begins with the first change: what a call checks before, it checks without
    keeping others waiting.

    Parameters
    ----------
    store
        The store.
    begun
        Called with the connection when the transaction has begun and the campaign is locked.
    parts
        Whether a change that fails leaves the others; otherwise it must end the whole.
    """

    def __init__(
        self,
        store: SQLStore,
        *,
        begun: Callable[[sa.Connection], None] | None = None,
        parts: bool = True,
    ) -> None:
        self.parts = parts
        self._store = store
        self._begun = begun
        self._stack = ExitStack()
        self._view: View | None = None

    def __enter__(self) -> "SharedTransaction":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def connection(self) -> sa.Connection | None:
        """The transaction's connection; None where no change was begun."""
        return None if self._view is None else self._view.connection

    @property
    def label(self) -> str:
        """What to call the store in front of people, without any secret."""
        return self._store.label

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it is kept in, which nothing else may be written to."""
        return self._store.files

    @property
    def defaults(self) -> Mapping[str, str]:
        """What a spec that says nothing of these fields means in this store."""
        return self._store.defaults

    def names(self) -> list[str]:
        """Return the names of all campaigns, in the order of their creation."""
        return self._store.names()

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of campaigns that were deleted, in the order of their deletion."""
        return self._store.tombstones()

    @contextmanager
    def create(self, name: str) -> Iterator[View]:
        """Begin a campaign; a name that is taken raises CampaignStateError."""
        view = self._opened(self._stack.enter_context(self._store.create(name)))
        with self._part(view):
            yield view

    def begin(self, name: str) -> sa.Connection:
        """Begin the transaction now; return its connection."""
        if self._view is None:
            self._opened(self._stack.enter_context(self._store.change(name)))
        assert self._view is not None
        return self._view.connection

    @contextmanager
    def change(self, name: str) -> Iterator[View]:
        """Begin a part of the transaction."""
        self.begin(name)
        assert self._view is not None
        with self._part(self._view):
            yield self._view

    @contextmanager
    def read(self, name: str) -> Iterator[View]:
        """Open a view of the campaign: within the transaction, once there is one."""
        if self._view is not None:
            yield self._view
            return
        with self._store.read(name) as view:
            yield view

    def close(self) -> None:
        """Do nothing: the database stays open for others."""

    def _opened(self, view: View) -> View:
        self._view = view
        if self._begun is not None:
            self._begun(view.connection)
        return view

    @contextmanager
    def _part(self, view: View) -> Iterator[None]:
        if not self.parts:
            yield
            return
        try:
            with self._store.part(view):
                yield
        except BaseException:
            view.forget()
            raise
