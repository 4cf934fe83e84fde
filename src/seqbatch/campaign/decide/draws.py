"""Random draws for units, from a keyed hash of the unit id; independent of order and retries.

The key comes from the campaign's seed and name. One hash of the unit's id is cut into parts, each a
number in [0, 1) for one purpose; they are independent of one another and of every other unit's.

There are two hashes. ``"blake2"`` has room for 53 bits of each number. ``"md5"`` is what every
database has: md5 of the key, which is 64 hexadecimal digits, followed by the id. Of its 32 digits
the first 13 are the draw that randomises, the next 13 the one that chooses, the last 6 the place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Literal

import numpy as np

from seqbatch.campaign.files.column_values import Texts, as_list, buffers
from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray, Floats, Places

#: The hashes that draws may come from.
Hash = Literal["blake2", "md5"]
#: Where the digits of an md5 that make the three draws begin and end.
DIGITS = ((0, 13), (13, 26), (26, 32))


@dataclass(frozen=True)
class UnitDraws:
    """Three numbers in [0, 1) for each unit, and its lot.

    Parameters
    ----------
    randomised
        Decides whether the unit's action is drawn uniformly at random, shape (n,).
    choice
        Picks the action, shape (n,).
    place
        Used as the unit's position in its wave (for BPE's sample splitting), shape (n,).
    lot
        64 bits that define the order of units decided jointly, shape (n,).
    """

    randomised: Floats
    choice: Floats
    place: Floats
    lot: AnyArray

    def __len__(self) -> int:
        return len(self.choice)

    def take(self, rows: Places | slice) -> "UnitDraws":
        """Return only the draws of these units."""
        return UnitDraws(self.randomised[rows], self.choice[rows], self.place[rows], self.lot[rows])


def all_of(pieces: Sequence[UnitDraws]) -> UnitDraws:
    """Concatenate draws."""
    return UnitDraws(
        np.concatenate([piece.randomised for piece in pieces]),
        np.concatenate([piece.choice for piece in pieces]),
        np.concatenate([piece.place for piece in pieces]),
        np.concatenate([piece.lot for piece in pieces]),
    )


def draws(
    seed: int, campaign: str, units: Texts, *, by: Hash = "md5", lots: bool = True
) -> UnitDraws:
    """Return the draws of units, by their ids.

    Parameters
    ----------
    seed, campaign
        The seed and name of the campaign, which determine the key.
    units
        The ids.
    by
        The hash.
    lots
        Whether to compute lots; otherwise they may be 0.

    >>> first = draws(7, "spring", ["0001", "1"])
    >>> first.choice.round(4)
    array([0.0515, 0.0461])
    >>> draws(7, "spring", ["1"]).choice.round(4)
    array([0.0461])
    >>> draws(7, "spring", ["1"], by="blake2").choice.round(4)
    array([0.616])
    """
    if by == "md5":
        return _by_md5(seed, campaign, units, lots=lots)
    return _by_blake2(seed, campaign, as_list(units))


def md5_key(seed: int, campaign: str) -> str:
    """Return the key, which is hashed before the id."""
    return sha256(f"{seed}\n{campaign}".encode()).hexdigest()


def lots_key(seed: int, campaign: str, *, before: int) -> str:
    """Return the key of the lots of md5; see :func:`lots`."""
    return md5_key(seed, f"lots\n{before}\n{campaign}")


def marks_key(seed: int, campaign: str) -> str:
    """Return the key of marks."""
    return md5_key(seed, f"marks\n{campaign}")


def marks(seed: int, campaign: str, units: Texts) -> AnyArray:
    """Return 128 bits for each unit, shape (n, 2), which tell units apart.

    >>> marks(7, "spring", ["0001", "1"])[:, 0].tolist()
    [4968063914350772349, 16029807000446422573]
    """
    return _md5_words(marks_key(seed, campaign), units)


def _by_blake2(seed: int, campaign: str, units: Sequence[str]) -> UnitDraws:
    key = blake2b(f"{seed}\n{campaign}".encode(), digest_size=32).digest()
    parts = [blake2b(unit.encode(), key=key, digest_size=32).digest() for unit in units]
    words = np.frombuffer(b"".join(parts), dtype="<u8").reshape(-1, 4)
    # A float between 0 and 1 holds 53 bits.
    numbers = (words[:, :3] >> np.uint64(11)) * 2.0**-53
    randomised, choice, place = (np.ascontiguousarray(numbers[:, part]) for part in range(3))
    return UnitDraws(randomised, choice, place, np.ascontiguousarray(words[:, 3]))


def _by_md5(seed: int, campaign: str, units: Texts, *, lots: bool) -> UnitDraws:
    words = _md5_words(md5_key(seed, campaign), units)
    high, low = words[:, 0], words[:, 1]
    # 13 digits are 52 bits: of the first word, of what is left of it and the second, and the rest.
    randomised = (high >> np.uint64(12)).astype(np.float64) * 2.0**-52
    chosen = ((high & np.uint64(0xFFF)) << np.uint64(40)) | (low >> np.uint64(24))
    place = (low & np.uint64(0xFFFFFF)).astype(np.float64) * 2.0**-24
    lot = np.zeros(len(words), dtype=np.uint64)
    if lots:
        # All 128 bits are used, so the lot needs a separate key and hash.
        lot = _md5_words(md5_key(seed, f"lots\n{campaign}"), units)[:, 0]
    choice = chosen.astype(np.float64) * 2.0**-52
    return UnitDraws(randomised, choice, place, np.ascontiguousarray(lot))


def _md5_words(key: str, units: Texts) -> AnyArray:
    """Return two words of 64 bits for each id, the digits of the hash in their order."""
    # The key is one block of the hash.
    begun = kernels.texts.BEGIN.reshape(4, 1).copy()
    kernels.texts.absorb(
        begun, np.frombuffer(key.encode(), dtype="<u4").astype(np.uint32).reshape(16, 1)
    )
    data, places = buffers(units)
    words = np.empty((len(places) - 1, 2), dtype=np.uint64)
    kernels.texts.hash_after(begun, data, places, words)
    return words


def lots(seed: int, campaign: str, units: Texts, *, before: int, by: Hash = "md5") -> AnyArray:
    """Return the lots of units, 64 bits each; the units with the lowest lots enter a wave.

    Lots use a separate key, so they are independent of the draws that choose actions.

    Parameters
    ----------
    seed, campaign, units
        As for :func:`draws`.
    before
        How many units the campaign had before. It makes the lots of every draw different; otherwise
        units added to the list later would be drawn sooner than units not drawn before.
    by
        The hash.

    >>> lots(7, "spring", ["0001", "1"], before=0).tolist()
    [851510613560153996, 16811030367622204886]
    """
    if by == "md5":
        words = _md5_words(lots_key(seed, campaign, before=before), units)
        return np.ascontiguousarray(words[:, 0])
    key = blake2b(f"lots\n{seed}\n{before}\n{campaign}".encode(), digest_size=32).digest()
    parts = [blake2b(unit.encode(), key=key, digest_size=8).digest() for unit in as_list(units)]
    return np.frombuffer(b"".join(parts), dtype="<u8")
