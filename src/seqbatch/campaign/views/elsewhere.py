"""Waves whose rows are kept elsewhere, as status shows them: by what their closings say."""

from collections.abc import Sequence

from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.waves import ActionRow, Wave


def waves_elsewhere(now: Situation, events: Sequence[Event]) -> tuple[Wave, ...]:
    """Return every wave, closed or not."""
    closes = {event.payload["wave"]: event.payload for event in _closes(now, events)}
    made = []
    for number, planned in enumerate(now.sizes, start=1):
        size = None if now.spec.grid.calendar else planned
        said = closes.get(number, {"assigned": {}, "observed": {}, "absent": {}})
        units, seen, absent = (
            sum(said[what].values()) for what in ("assigned", "observed", "absent")
        )
        made.append(Wave(number, size, units, seen, number in closes, absent))
    return tuple(made)


def actions_elsewhere(now: Situation, events: Sequence[Event]) -> tuple[ActionRow, ...]:
    """Return every action in every closed wave; what takes rows to know is left out."""
    sign = now.spec.reward.sign
    return tuple(
        ActionRow(
            wave=said["wave"],
            action=name,
            units=units,
            randomised=said["randomised"][name],
            outcomes=said["observed"][name],
            mean=sign * said["rewards"][name] / known
            if (known := said["observed"][name] + said["absent"][name])
            else None,
            weighted=None,
            least=None,
            absent=said["absent"][name],
        )
        for said in (event.payload for event in _closes(now, events))
        for name, units in said["assigned"].items()
    )


def _closes(now: Situation, events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.kind == "close" and event.sequence <= now.sequence]
