"""A store that is damaged gives an error that says where, never a traceback."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from seqbatch.campaign.record.store import Store
from seqbatch.campaign.views.verifying import verify
from seqbatch.errors import CampaignStateError, InvalidSpecError, SeqbatchError, StoreError

P = ParamSpec("P")
R = TypeVar("R")


class _Stored(Protocol):
    store: Store
    name: str


S = TypeVar("S", bound=_Stored)


def naming_damage(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Turn what a damaged record makes a call raise into a StoreError that names the record.

    Whatever a call raises that is not an error of this package may come of damage: of a number
    that is text, a row that is gone. The campaign is then verified. What is found is named; where
    nothing is, it was no damage, and the error goes its way.
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
                "changed. Restore the database; verify the campaign to see all there is."
            ) from error

    return guarded


def _found(campaign: _Stored) -> Any:
    """Return the first thing that a verification finds, None where there is none."""
    try:
        return next(iter(verify(campaign.store, campaign.name).findings), None)
    except (StoreError, CampaignStateError, InvalidSpecError) as error:
        return error
