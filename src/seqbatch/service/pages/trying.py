"""Steps that are made and taken back: what they would do, and nothing is kept."""

from collections.abc import Callable
from typing import Generic, TypeVar

from seqbatch.campaign import Campaign
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.together import Together

T = TypeVar("T")


class _TakenBackError(Exception, Generic[T]):
    """Ends a transaction of which nothing is to be kept but the answer."""

    def __init__(self, result: T) -> None:
        super().__init__()
        self.result = result


def tried(store: SQLStore, name: str, step: Callable[[Campaign], T]) -> T:
    """Return what a step of a campaign would return; whatever it did is taken back.

    Parameters
    ----------
    store
        The store.
    name
        The campaign.
    step
        Makes the step.
    """
    try:
        with Together(store) as together:
            raise _TakenBackError(step(Campaign(together, name, who="nobody")))
    except _TakenBackError as done:
        result: T = done.result
        return result
