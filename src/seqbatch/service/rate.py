"""How many calls a token may make: a bucket for each, which fills at a steady rate."""

import math
import time
from collections.abc import Callable

from seqbatch.service.problems import ProblemError


class Rate:
    """The buckets of all tokens, in one process.

    Parameters
    ----------
    rate
        Calls a second that a bucket is filled by.
    burst
        Calls that a full one holds.
    clock
        Tells the seconds.

    Examples
    --------
    >>> seconds = iter([0.0, 0.0, 0.0, 1.0])
    >>> rate = Rate(1.0, 2, clock=lambda: next(seconds))
    >>> rate.wait("a"), rate.wait("a"), rate.wait("a"), rate.wait("a")
    (0.0, 0.0, 1.0, 0.0)
    """

    #: Tokens that are remembered: those that made no call lately have full buckets.
    MOST = 10_000

    def __init__(
        self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, token: str, *, take: bool = True) -> float:
        """Take a call out of a token's bucket: 0, or the seconds until there is one in it."""
        now = self._clock()
        left, since = self._left.pop(token, (float(self._burst), now))
        left = min(left + (now - since) * self._rate, self._burst)
        missing = max(1.0 - left, 0.0)
        if len(self._left) >= self.MOST:
            self._left.pop(next(iter(self._left)))
        # Put back as the newest: the one that is dropped first made its last call longest ago.
        self._left[token] = (left - 1.0 if take and not missing else left, now)
        return missing / self._rate

    def require(self, token: str) -> None:
        """Refuse a call for which a token's bucket has nothing left."""
        if seconds := self.wait(token):
            what = f"{self._rate:g} calls a second, and {self._burst:,} at once after a pause"
            raise _later("too-many", f"this token may make {what}; try again later.", seconds)


class WrongTokens:
    """How many wrong tokens may come from an address, each of which the store is asked about.

    Parameters
    ----------
    a_minute
        Wrong tokens of an address, at once or one after another.
    clock
        Tells the seconds.
    """

    def __init__(self, a_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = a_minute
        self._rate = Rate(a_minute / 60, a_minute, clock=clock)

    def require_few(self, address: str) -> None:
        """Refuse an address that has sent too many."""
        if seconds := self._rate.wait(address, take=False):
            what = f"{self._most:,} wrong tokens came from this address within a minute"
            how = "try again later, with a token that `seqbatch token list` shows as active."
            raise _later("wrong-tokens", f"{what}; {how}", seconds)

    def add(self, address: str) -> None:
        """Count one."""
        self._rate.wait(address)


def _later(kind: str, text: str, seconds: float) -> ProblemError:
    return ProblemError(429, kind, text, headers={"Retry-After": str(math.ceil(seconds))})
