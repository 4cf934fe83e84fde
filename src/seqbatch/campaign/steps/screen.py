"""Record a screening: how many units were assessed, and how many were excluded by which rule."""

from collections.abc import Mapping

from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError

#: The longest rule, and the most rules of one call.
LONGEST, MOST = 200, 50


def screen(
    store: Store,
    name: str,
    logbook: Logbook,
    *,
    assessed: int,
    excluded: Mapping[str, int],
    why: str,
) -> Event:
    """Record a screening in one transaction; several add up. No unit is named, and none changes."""
    total = arguments.integer("assessed", assessed)
    if len(excluded) > MOST:
        raise InvalidArgumentError("excluded", f"at most {MOST} rules", len(excluded))
    counts = {}
    for rule, number in excluded.items():
        said = rule.strip()
        if not said or len(said) > LONGEST or not said.isprintable():
            wanted = f"rules of 1 to {LONGEST} characters on one line"
            raise InvalidArgumentError("excluded", wanted, repr(rule[:LONGEST]))
        counts[said] = arguments.integer("excluded", number)
    if sum(counts.values()) > total:
        raise InvalidArgumentError(
            "excluded", f"at most {total:,} in total, the number assessed", sum(counts.values())
        )
    with store.change(name) as change:
        return logbook.write(
            change, current(change), kind="screen", why=why,
            counts={"assessed": total, "excluded": counts},
        )  # fmt: skip
