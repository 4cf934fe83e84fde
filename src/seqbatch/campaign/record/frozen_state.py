"""What the policy knows while a wave is open, read once for many calls.

An estimate is frozen from one closing to the next: a process that assigns one unit after another
need not read it each time. It is known by its hash, so that a closing or an amendment in any
process makes every other read the new one.
"""

import threading
from typing import Any

from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader

#: Campaigns whose estimate is remembered, and the longest that is: memory is for other things, too.
MOST, LONGEST = 16, 64 << 20

_lock = threading.Lock()
_known: dict[tuple[str, int], tuple[str, Any]] = {}


def frozen_state(reader: Reader, now: Situation) -> Any:
    """Return what the policy knows in the open wave; nobody may change it."""
    place = (now.name, reader.number)
    wanted = f"{reader.last_state_hash()} {now.policy} {now.problem()}"
    with _lock:
        kept = _known.get(place)
    if kept is not None and kept[0] == wanted:
        return kept[1]
    record = reader.last_state()
    assert record is not None
    state = unpack_state(record.content, now)
    with _lock:
        # One for each campaign: that of a closed wave is let go.
        _known.pop(place, None)
        if len(record.content) <= LONGEST:
            while len(_known) >= MOST:
                _known.pop(next(iter(_known)))
            _known[place] = (wanted, state)
    return state
