"""All that a report is made of, gathered at one event."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isclose, sqrt

from seqbatch.campaign.deciding.logged import Columns, logged
from seqbatch.campaign.design.sizes_and_policy import planned
from seqbatch.campaign.record.situation import Situation, events_until, situation
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.views.finding_out import findings
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.next_step import Step, next_step
from seqbatch.campaign.views.status import Status, status
from seqbatch.planning import Plan

#: A feature is shown this many standard deviations around its mean.
AROUND = 1.5


@dataclass(frozen=True)
class Feature:
    """A column of the model in its own numbers.

    Parameters
    ----------
    name, place
        Of the column, and where it is among the model's.
    mean, spread
        In the first wave.
    low, high
        Between which values it is shown; 0 and 1 where it has no others.
    binary
        Whether it is 0 or 1.
    """

    name: str
    place: int
    mean: float
    spread: float
    low: float
    high: float
    binary: bool


@dataclass(frozen=True, kw_only=True)
class Material:
    """A campaign as it stood after its last event here.

    Parameters
    ----------
    found, status, now, events
        What was learned, where it stands in two ways, and all that was done.
    step
        What comes next, None where the campaign is shown as it was earlier.
    features
        The model's columns but for the constant and for products, where there are outcomes.
    """

    found: Findings
    status: Status
    now: Situation
    events: Sequence[Event]
    step: Step | None
    features: tuple[Feature, ...]

    @cached_property
    def created(self) -> Situation:
        """The campaign as it was created."""
        return situation(self.events[:1])

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that the waves' sizes came from, made again; None where there is none."""
        grid = self.created.spec.grid
        made = None if grid.plan is None else planned(self.created.spec, grid.plan)
        # Another version may plan otherwise, and would then judge what was never promised.
        return made if made is not None and made.grid.sizes == self.created.sizes else None

    def units(self, count: int) -> str:
        """Return a count of units by their name: "1,200 customers"."""
        word = self.found.measure.of
        return f"{count:,} {word if count == 1 else word + 's'}"


def gathered(store: Store, name: str, *, at_event: int | None = None) -> Material:
    """Gather all there is to say, as it was right after event number `at_event`."""
    with store.read(name) as reader:
        events = events_until(reader.events(), at_event)
    # All of it is of the same event, whatever is done meanwhile.
    last = len(events)
    found = findings(store, name, at_event=last)
    now = situation(events)
    features: tuple[Feature, ...] = ()
    if found.rule is not None:
        with store.read(name) as reader:
            features = _features(now, logged(reader, now).columns)
    return Material(
        found=found,
        status=status(store, name, at_event=last),
        now=now,
        events=events,
        step=next_step(store, name) if at_event is None else None,
        features=features,
    )


def _features(now: Situation, columns: Columns) -> tuple[Feature, ...]:
    return tuple(
        _feature(now, columns, place)
        for place, name in enumerate(columns.names)
        if place and "*" not in name
    )


def _feature(now: Situation, columns: Columns, place: int) -> Feature:
    name, mean = columns.names[place], columns.own_value(place, 0.0)
    spread = columns.own_value(place, 1.0) - mean
    binary = 0 < mean < 1 and isclose(spread, sqrt(mean * (1 - mean)), rel_tol=1e-2)
    low, high = (0.0, 1.0) if binary else (mean - AROUND * spread, mean + AROUND * spread)
    kept = None if now.learned is None else now.learned.numbers.get(name)
    if kept is not None and not binary:
        low = low if kept.low is None else max(low, kept.low)
        high = high if kept.high is None else min(high, kept.high)
    return Feature(name, place, mean, spread, low, high, binary)
