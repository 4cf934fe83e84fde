"""The history of a policy: sums of an earlier experiment with the same features.

The first batch then need not be random, which is where most regret is. How far the actions may
have drifted since is learned from each batch's outcomes; see :mod:`seqbatch.core.history`. Sums of
two experiments are never just added.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from seqbatch.core import Problem, Statistics, arguments
from seqbatch.core.history import (
    DRIFTS,
    GUESS,
    WeighedFit,
    averaged,
    drifted_fit,
    evidence_alone,
    joint_noise,
    levelled,
    likeliest_ridge,
    weights_of,
)
from seqbatch.core.joint_regression import JointFit, JointSums
from seqbatch.core.pooled_regression import PooledRegression
from seqbatch.errors import InvalidArgumentError

Drift = float | Literal["learn"]
#: The drift is learned from the outcomes.
LEARN: Literal["learn"] = "learn"


@dataclass(frozen=True, eq=False)
class History:
    """The sums of an earlier experiment, and how far to trust them.

    Units must have been assigned at random with probabilities that depend on their features alone.
    Make one with :meth:`of`.

    Parameters
    ----------
    sums
        The sums by action and by batch, each of which may have its own level.
    places
        The row in `sums` of each action of the new experiment; -1 if it is new.
    drift
        ``"learn"``, or the standard deviation by which each coefficient has drifted, in units of
        the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> from seqbatch.core import Statistics
    >>> from seqbatch.policies import JointRidge
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.ones(300), rng.standard_normal(300)])
    >>> actions = rng.integers(0, 2, 300)
    >>> rewards = np.where(actions == 1, x[:, 1], 0.0) + rng.standard_normal(300)
    >>> winter = History.of([Statistics.zero(2, 2).add(x, rewards, actions)])
    >>> policy = JointRidge(constant=0, first="fixed", history=winter)
    >>> spring = Learner(policy, grids.explicit([50, 100]), actions=2, dim=2, layout="block")
    >>> decision = spring.assign(np.array([[1.0, 1.0], [1.0, -1.0]]))
    >>> decision.actions
    array([1, 0])
    """

    sums: JointSums
    places: tuple[int, ...]
    drift: Drift = LEARN

    @classmethod
    def of(
        cls,
        batches: Sequence[Statistics],
        *,
        constant: int | None = None,
        places: Sequence[int] | None = None,
        drift: Drift = LEARN,
    ) -> "History":
        """Return a history from the statistics of each batch, one cell per action.

        Parameters
        ----------
        batches
            The statistics of each batch, or of all of them together.
        constant
            The column that is 1 for every unit; without it, batches have no separate level.
        places
            The cell of each action of the new experiment, -1 if it is new; by default the same
            actions in the same order.
        drift
            See :class:`History`.
        """
        levels = range(len(batches)) if constant is not None else ()
        sums = JointSums.of(batches, constant=constant, levels=tuple(levels))
        return cls(sums, tuple(range(len(sums.count)) if places is None else places), drift)

    def __post_init__(self) -> None:
        if not isinstance(self.sums, JointSums):
            raise InvalidArgumentError("sums", "those of History.of(batches)", repr(self.sums))
        if isinstance(self.places, str) or not isinstance(self.places, Sequence):
            raise InvalidArgumentError("places", "a list of whole numbers", repr(self.places))
        places = tuple(arguments.integer("places", place, at_least=-1) for place in self.places)
        object.__setattr__(self, "places", places)
        known = [place for place in places if place != -1]
        if not all(0 <= place < len(self.sums.count) for place in known):
            rule = f"rows of the history, 0 to {len(self.sums.count) - 1}, or -1 for a new action"
            raise InvalidArgumentError("places", rule, places)
        if len(set(known)) < len(known):
            raise InvalidArgumentError("places", "a different row for each action", places)
        if not isinstance(self.drift, str) or self.drift != LEARN:
            object.__setattr__(self, "drift", arguments.number("drift", self.drift, at_least=0))
        if not self.sums.count.any():
            raise InvalidArgumentError("history", "one with outcomes", "one without any")
        if not all(np.isfinite(values).all() for values in vars(self.sums).values()):
            raise InvalidArgumentError("history", "sums that are finite numbers", "others")

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything in it."""
        made = blake2b(repr((self.places, self.drift)).encode(), digest_size=20)
        for values in vars(self.sums).values():
            made.update(repr(values.shape).encode() + values.tobytes())
        return made.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """Return the number of units, not the sums."""
        return f"<History of {self.sums.count.sum():,.0f} units, drift = {self.drift!r}>"

    def about(self) -> dict[str, Any]:
        """Return which history it is: its units, its drift and its fingerprint."""
        units = float(self.sums.count.sum())
        return {"units": units, "drift": self.drift, "fingerprint": self.fingerprint}

    def plain(self) -> dict[str, Any]:
        """Return plain values, from which :meth:`read` restores the history."""
        sums = {name: values.tolist() for name, values in vars(self.sums).items()}
        return {"sums": sums, "places": list(self.places), "drift": self.drift}

    @classmethod
    def read(cls, plain: "History | Mapping[str, Any]") -> "History":
        """Restore a history from plain values."""
        if isinstance(plain, History):
            return plain
        try:
            given = {name: np.array(plain["sums"][name], float) for name in _NAMES}
            count, dim = given["moment"].shape
            levels = given["level_count"].size // max(count, 1)
            given["crossed"] = given["crossed"].reshape(count, levels, dim)
            for name in ("level_moment", "level_count"):
                given[name] = given[name].reshape(count, levels)
            return cls(JointSums(**given), tuple(plain["places"]), plain["drift"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                "history", "a History or its plain values", f"{type(plain).__name__} ({error})"
            ) from None

    def require(self, problem: Problem) -> None:
        """Refuse a problem that the history does not fit."""
        if problem.layout == "shared":
            raise InvalidArgumentError(
                "layout", "'block' or 'disjoint' with a history, which has sums for each action",
                "'shared'",
            )  # fmt: skip
        if (found := (len(self.places), self.sums.dim)) != (problem.actions, problem.dim):
            raise InvalidArgumentError(
                "history",
                f"one for {problem.actions} actions and vectors of length {problem.dim}",
                f"{found[0]} actions and vectors of length {found[1]}",
            )

    def regression(self, constant: int | None, *, leveled: bool) -> tuple[JointSums, JointFit]:
        """Return the earlier experiment's sums, and their joint ridge regression.

        The last row of the regression is that of an action without outcomes.

        Parameters
        ----------
        constant
            The column that is 1 for every unit.
        leveled
            Whether its batches have their own levels.
        """
        return _regression(self, constant, leveled)


_NAMES = tuple(field.name for field in fields(JointSums))


# Every state of a campaign asks for it, and it is the longest part of an estimate.
@lru_cache(maxsize=8)
def _regression(
    history: History, constant: int | None, leveled: bool
) -> tuple[JointSums, JointFit]:
    sums = history.sums
    seen = np.flatnonzero(sums.level_count.sum(axis=0))[1:] if leveled else np.zeros(0, np.int64)
    kept = JointSums(
        sums.gram, sums.moment, sums.squares, sums.count,
        sums.crossed[:, seen], sums.level_moment[:, seen], sums.level_count[:, seen],
    )  # fmt: skip
    fit, penalty = likeliest_ridge(kept, constant=constant)
    deviations = np.eye(sums.dim) / penalty
    common = np.eye(sums.dim, fit.carried.shape[2])
    return kept, replace(
        fit,
        theta=np.concatenate([fit.theta, fit.common[None]]),
        inner=np.concatenate([fit.inner, deviations[None]]),
        carried=np.concatenate([fit.carried, common[None]]),
    )


def combined(
    history: History,
    *,
    constant: int | None,
    leveled: bool,
    sums: JointSums,
    alone: JointSums,
    fitted: Callable[[], PooledRegression],
) -> tuple[PooledRegression, dict[float | None, float]]:
    """Return the estimate of a policy with a history, and the weight of each drift.

    Parameters
    ----------
    history, constant, leveled
        The history and the settings of the policy.
    sums, alone
        The new experiment's sums: with a level for each batch if they have levels, and with one
        for each but the first.
    fitted
        Returns the estimate without history.
    """
    earlier, prior = history.regression(constant, leveled=leveled)
    variance = joint_noise([earlier, alone])
    learning = history.drift == LEARN and sums.count.any()
    drifts = DRIFTS if learning else (GUESS if history.drift == LEARN else float(history.drift),)
    fits = [drifted_fit(prior, history.places, sums, drift) for drift in drifts]
    logs = [fit.log_evidence(variance) for fit in fits]
    if constant is not None and leveled:
        fits = [levelled(fit, constant) for fit in fits]
    parts = [WeighedFit(1.0, fit) for fit in fits]
    kinds: list[float | None] = [*drifts]
    if learning:
        logs.append(evidence_alone(alone, variance, constant, leveled=leveled))
        without = fitted()
        parts.append(WeighedFit(1.0, without.fit, without.grid))
        kinds.append(None)
    weights = weights_of(logs).tolist()
    weighed = [replace(part, weight=weight) for part, weight in zip(parts, weights, strict=True)]
    return averaged(weighed, variance), dict(zip(kinds, weights, strict=True))
