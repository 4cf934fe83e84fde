"""Randomness that belongs to a unit: a keyed hash of its id, whatever the order or the retry.

The key comes from the campaign's seed and name. One hash of the unit's id is cut into parts, each a
number in [0, 1) for one purpose; they are independent of one another and of every other unit's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Draws:
    """Three numbers in [0, 1) for each unit, and a fingerprint of its id.

    Parameters
    ----------
    holdout
        Says whether the unit is measured apart, shape (n,).
    choice
        Picks the action, shape (n,).
    place
        Stands for the unit's place in its wave (BPE's sample splitting), shape (n,).
    fingerprint
        64 bits of the id's hash, to find repeated ids by, shape (n,).
    """

    holdout: Floats
    choice: Floats
    place: Floats
    fingerprint: Words

    def __len__(self) -> int:
        return len(self.holdout)

    def take(self, rows: NDArray[np.intp] | slice) -> "Draws":
        """Return the draws of these units alone."""
        return Draws(
            self.holdout[rows], self.choice[rows], self.place[rows], self.fingerprint[rows]
        )


def draws(seed: int, campaign: str, units: Sequence[str]) -> Draws:
    """Return the draws of units, by their ids.

    >>> first = draws(7, "spring", ["0001", "1"])
    >>> first.choice.round(4)
    array([0.5583, 0.616 ])
    >>> draws(7, "spring", ["1"]).choice.round(4)
    array([0.616])
    """
    key = blake2b(f"{seed}\n{campaign}".encode(), digest_size=32).digest()
    parts = [blake2b(unit.encode(), key=key, digest_size=32).digest() for unit in units]
    words = np.frombuffer(b"".join(parts), dtype="<u8").reshape(-1, 4)
    # 53 bits are all that a float between 0 and 1 holds.
    numbers = (words[:, :3] >> np.uint64(11)) * 2.0**-53
    return Draws(
        np.ascontiguousarray(numbers[:, 0]),
        np.ascontiguousarray(numbers[:, 1]),
        np.ascontiguousarray(numbers[:, 2]),
        words[:, 3].astype(np.uint64),
    )
