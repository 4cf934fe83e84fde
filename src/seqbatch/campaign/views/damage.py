"""Damage: errors that a damaged record causes, as errors that name the record."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from seqbatch.campaign.record.store import Store
from seqbatch.errors import (
    DAMAGED,
    CampaignStateError,
    InvalidSpecError,
    SeqbatchError,
    StoreError,
)

P = ParamSpec("P")
R = TypeVar("R")


class _Stored(Protocol):
    store: Store
    name: str


S = TypeVar("S", bound=_Stored)


def naming_damage(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Turn an error caused by a damaged record into a StoreError that names the record.

    An exception that is not one of this package's may come from damage, such as a missing row or a
    number stored as text. The campaign is then verified. If a record is damaged, the StoreError
    names it; otherwise the original exception is raised.
    """

    @wraps(call)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(self, *args, **kwargs)
        except (SeqbatchError, OSError, KeyboardInterrupt):
            raise
        except Exception as error:
            found = _found(self)
            if found is None:
                raise
            raise StoreError(
                f"{self.store.label}: campaign {self.name} is damaged ({found}). Nothing was "
                "changed. Restore the database; verify the campaign to list all damage.",
                code=DAMAGED,
            ) from error

    return guarded


def _found(campaign: _Stored) -> Any:
    """Return the first finding of a verification, or None."""
    # Imported here: a verification needs all that a campaign can do.
    from seqbatch.campaign.views.verify import verify

    try:
        return next(iter(verify(campaign.store, campaign.name).findings), None)
    except (StoreError, CampaignStateError, InvalidSpecError) as error:
        return error
