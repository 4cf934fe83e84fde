"""Several changes of one campaign in one transaction.

Normally each call of a campaign begins and ends its own transaction. With a
:class:`SharedTransaction` in place of the store, calls become parts of one longer transaction: a
part that fails is rolled back, the others stay, and all of them are committed at the end. This
stores an answer together with its change, and lets concurrent calls share one disk write.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import sqlalchemy as sa

from seqbatch.campaign.record.store import Tombstone
from seqbatch.errors import SeqbatchError
from seqbatch.storage.rows import View
from seqbatch.storage.stores import SQLStore

SPOILED = "a change of the transaction failed, so nothing of it is stored."


class SpoiledTransactionError(SeqbatchError):
    """A change in a transaction of which an earlier change failed, and could not be undone."""


class SharedTransaction:
    """A store for the calls of one campaign, whose changes are parts of one transaction.

    The transaction begins with the first change. Checks that a call makes before its change do not
    block other calls.

    Parameters
    ----------
    store
        The store.
    begun
        Called with the connection once the transaction has begun and the campaign is locked.
    parts
        Whether the other changes survive one that fails; if not, it must end the transaction.

    Attributes
    ----------
    spoiled
        Whether a change failed that is no part of its own: nothing may be committed any more.
    """

    def __init__(
        self,
        store: SQLStore,
        *,
        begun: Callable[[sa.Connection], None] | None = None,
        parts: bool = True,
    ) -> None:
        self.parts, self.spoiled = parts, False
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
        if self.spoiled and error is None:
            error = SpoiledTransactionError(SPOILED)
            self._stack.__exit__(type(error), error, None)
            raise error
        self._stack.__exit__(kind, error, trace)

    @property
    def connection(self) -> sa.Connection | None:
        """The transaction's connection; None before the first change."""
        return None if self._view is None else self._view.connection

    @property
    def label(self) -> str:
        """The store's name for messages, without secrets."""
        return self._store.label

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the store, which nothing else may write to."""
        return self._store.files

    @property
    def defaults(self) -> Mapping[str, str]:
        """The store's defaults for spec fields that are not set."""
        return self._store.defaults

    def names(self) -> list[str]:
        """Return the names of all campaigns in order of creation."""
        return self._store.names()

    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones of deleted campaigns in order of deletion."""
        return self._store.tombstones()

    def schema_differences(self) -> list[tuple[str, str]]:
        """Return each part of the schema that differs from the expected one, and how."""
        return self._store.schema_differences()

    @contextmanager
    def create(self, name: str) -> Iterator[View]:
        """Begin a new campaign; raise CampaignStateError if the name is taken."""
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
        if self.spoiled:
            raise SpoiledTransactionError(SPOILED)
        self.begin(name)
        assert self._view is not None
        with self._part(self._view):
            yield self._view

    @contextmanager
    def read(self, name: str) -> Iterator[View]:
        """Open a view of the campaign, within the transaction if it has begun."""
        if self._view is not None:
            yield self._view
            return
        with self._store.read(name) as view:
            yield view

    def copy(self, name: str, out: Path) -> None:
        """Write a campaign alone to a new SQLite file, as it was before the transaction."""
        self._store.copy(name, out)

    def scrub(self, name: str) -> None:
        """Do nothing: the store is compacted once the transaction has ended."""

    def close(self) -> None:
        """Do nothing: the store stays open."""

    def _opened(self, view: View) -> View:
        self._view = view
        if self._begun is not None:
            self._begun(view.connection)
        return view

    @contextmanager
    def _part(self, view: View) -> Iterator[None]:
        if not self.parts:
            try:
                yield
            except BaseException:
                self.spoiled = True
                raise
            return
        try:
            with self._store.part(view):
                yield
        except BaseException:
            view.forget()
            raise
