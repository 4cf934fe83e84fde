"""Interim results: who may see them, and a status and events without them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.history import PLAIN_COUNTS, RESULTS, public
from seqbatch.errors import CampaignStateError, Remedy

if TYPE_CHECKING:
    from seqbatch.campaign.views.status import Status


@dataclass(frozen=True)
class Sight:
    """What a caller may see of a campaign.

    Parameters
    ----------
    results
        Results: means, lifts, counts by action, scores and probabilities.
    interim
        Results also before the end of a campaign that withholds them.
    seed
        The seed of a campaign that neither is masked nor withholds results, or has ended and is
        unmasked.
    every_seed
        The seed of every campaign.
    """

    results: bool = True
    interim: bool = False
    seed: bool = True
    every_seed: bool = False

    def hides(self, now: Situation) -> bool:
        """Return whether results are hidden."""
        return not self.results or (now.withheld and not self.interim)

    def shows_seed(self, now: Situation) -> bool:
        """Return whether the seed is shown, with which actions can be foreseen."""
        guarded = now.spec.masked or now.spec.interim == "committee"
        # Nothing is left to foresee or to hide once the campaign has ended and is unmasked.
        guarded = guarded and not (now.ended and now.unmasked)
        return self.every_seed if guarded else self.seed

    def require_results(self, now: Situation) -> None:
        """Refuse to show results that are hidden."""
        if not self.results:
            raise CampaignStateError(
                f"the results of campaign {now.name} are not shown to this caller.", code="withheld"
            )
        if self.hides(now):
            raise CampaignStateError(
                f"campaign {now.name} withholds its results until it has ended "
                '(interim = "committee"): before that, only the committee sees them, with the key',
                Remedy("key"),
                " or the role committee. The status shows how far it is.",
                code="withheld",
            )


#: The sight of a caller of the library or of the command line.
USUAL = Sight()
#: The sight of the holder of a campaign's key.
WITH_KEY = Sight(interim=True, every_seed=True)


def status_as_recorded(status: "Status", last: Event) -> "Status":
    """Return a status that was read with the key, with the newest event that is recorded."""
    return replace(status, events=last.sequence, hash=last.hash)


def status_without_results(status: "Status") -> "Status":
    """Return a status with sums over all actions only."""
    return replace(
        status, actions=(), metrics={}, limits=(), worth=(), notes=(), proposal=None, withheld=True
    )


def shown_events(events: Sequence[Event], now: Situation, sight: Sight) -> list[Event]:
    """Return events with the fields that a caller may see.

    Parameters
    ----------
    events
        The events.
    now
        The campaign's current situation: results of earlier events are withheld, too.
    sight
        What the caller may see.
    """
    hidden, seed = sight.hides(now), sight.shows_seed(now)
    return [_shown(event, hidden=hidden, seed=seed) for event in events]


def _shown(event: Event, *, hidden: bool, seed: bool) -> Event:
    made = event if seed else public(event)
    if not hidden:
        return made
    kept = {name: each for name, each in public(event).payload.items() if name not in RESULTS}
    if seed and "spec" in kept:
        kept["spec"] = event.payload["spec"]
    counts = {
        name: count
        for name, count in event.counts.items()
        if name in PLAIN_COUNTS and (name == "clipped" or not isinstance(count, dict))
    }
    return replace(event, payload=kept, counts=counts)
