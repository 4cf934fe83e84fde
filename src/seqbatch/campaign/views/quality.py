"""What came in, wave by wave, and what is suspicious about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from seqbatch.campaign.deciding.balance import SMALL
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event


@dataclass(frozen=True, kw_only=True)
class WaveQuality:
    """A closed wave, as its closing saw it.

    Parameters
    ----------
    wave
        Its number.
    assigned, observed, absent
        Units, recorded outcomes, and units that count as absent, by action.
    expected
        Units by the logged probabilities, by action.
    allocation_p, missing_p
        The tests of the sample ratio, and of outcomes missing alike under every action; None where
        there was nothing to test.
    """

    wave: int
    assigned: dict[str, int]
    observed: dict[str, int]
    absent: dict[str, int]
    expected: dict[str, float]
    allocation_p: float | None
    missing_p: float | None

    @property
    def units(self) -> int:
        """How many units."""
        return sum(self.assigned.values())

    @property
    def outcomes(self) -> int:
        """How many recorded outcomes."""
        return sum(self.observed.values())

    def missing_share(self, action: str) -> float | None:
        """The share of an action's units without an outcome, absent ones not counted."""
        units = self.assigned.get(action, 0)
        gone = units - self.observed.get(action, 0) - self.absent.get(action, 0)
        return gone / units if units else None


@dataclass(frozen=True, kw_only=True)
class Quality:
    """All waves, and rows and values that needed attention.

    Parameters
    ----------
    waves
        The closed waves.
    clipped
        Values of each column that were moved to a bound.
    conflicts, quarantined
        Rows of outcome files that are held.
    """

    waves: tuple[WaveQuality, ...]
    clipped: dict[str, int]
    conflicts: int
    quarantined: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what must be looked into before anything is believed."""
        said = []
        for one in self.waves:
            if one.allocation_p is not None and one.allocation_p < SMALL:
                said.append(
                    f"Wave {one.wave}: actions were not given as often as the logged probabilities "
                    f"say (p = {one.allocation_p:.1g}). Nothing here can be trusted before that is "
                    "explained."
                )
            if one.missing_p is not None and one.missing_p < SMALL:
                said.append(
                    f"Wave {one.wave}: when it was closed, outcomes were missing more often under "
                    f"some actions than under others (p = {one.missing_p:.1g}). If who is missing "
                    "has to do with the outcome, lifts are off."
                )
        return tuple(said)


def quality(now: Situation, events: Sequence[Event]) -> Quality:
    """Gather what the closings of waves saw."""
    found = []
    unmasked = [event.payload["codes"] for event in events if event.kind == "unmask"]
    codes: dict[str, str] = unmasked[0] if unmasked else {}
    for event in events:
        if event.kind == "close":
            told = event.payload
            by_action = {
                part: {codes.get(name, name): number for name, number in told[part].items()}
                for part in ("assigned", "observed", "absent", "expected")
            }
            found.append(
                WaveQuality(
                    wave=told["wave"],
                    **by_action,
                    allocation_p=told["allocation"]["p"],
                    missing_p=told["missingness"]["p"],
                )
            )
    return Quality(
        waves=tuple(found),
        clipped=now.clipped,
        conflicts=now.conflicts,
        quarantined=now.quarantined,
    )
