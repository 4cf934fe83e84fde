"""Unblind one unit in an emergency: its action is returned, and the event says who and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seqbatch.campaign.files.ids import joined
from seqbatch.campaign.record.decisions import EarlierDecisions
from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.steps.amend import require_reason
from seqbatch.campaign.steps.unmask import require_masked
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True)
class Unblinded:
    """The action of one unit of a masked campaign.

    Parameters
    ----------
    unit
        The unit's id, one text for each of its columns.
    event, hash
        The number and hash of the event, which does not contain the action.
    action
        The action.
    """

    unit: tuple[str, ...]
    event: int
    hash: str
    action: str = field(repr=False)


def unblind(
    store: Store,
    name: str,
    logbook: Logbook,
    unit: str | Sequence[str],
    *,
    key: str | Path,
    why: str,
) -> Unblinded:
    """Return the action of one unit; the event is stored before the action is known to anybody."""
    require_reason(why)
    found, parts = Key.read(key), (unit,) if isinstance(unit, str) else tuple(unit)
    with store.change(name) as change:
        now = current(change)
        require_masked(now, found)
        now.require_rows()
        if len(parts) != len(now.spec.unit):
            raise InvalidArgumentError("unit", f"its {now.spec.id_name}", " ".join(parts))
        numbers = change.numbers(joined([[part] for part in parts]))
        if numbers[0] < 0:
            raise InvalidArgumentError("unit", "one that has an action", " ".join(parts))
        _, decided = EarlierDecisions(change, now).decided(numbers)
        code = now.actions[int(decided.actions[0])].name
        event = logbook.write(
            change, now, kind="unblind", why=why, payload={"number": int(numbers[0])}
        )
    return Unblinded(parts, event.sequence, event.hash, found.codes[code])
