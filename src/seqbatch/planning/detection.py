"""Which lifts a plan detects: precision, power, probability of stopping early, and their text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from seqbatch.display import counted, number, percent_cut, plural
from seqbatch.document import Table
from seqbatch.inference import (
    PlanOfShares,
    chances_to_stop,
    detectable_lift,
    plan_of_shares,
    planned_path,
)
from seqbatch.inference.planned_precision import average_error, planned_variances
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.number_of_batches import Noun
from seqbatch.policies.base import BasePolicy

# ----------------------------------------------------------------------
# Precision and power.
#
# A lift is the difference between an action's and control's mean reward over all units. The model
# is symmetric in the actions: the numbers hold for every lift, whichever action is control.


#: A look is left out if the next one adds less than this share of information.
NOTHING = 0.01
#: The one-sided error of all looks and lifts together.
ALPHA = 0.025
#: The resolution of randomised shares.
STEP = 1e-3


@dataclass(frozen=True, kw_only=True)
class PlannedLook:
    """The precision of a lift after a batch, and the probability of stopping there.

    Parameters
    ----------
    batch, units
        The batch, and the number of units assigned by then.
    information
        The information fraction by then.
    error
        The standard error of the pooled lift, which looks use.
    obrien_fleming, pocock
        The probability that this look or an earlier one finds a lift of the assumed size, with
        either spending function. All lifts over control share the error, as in a campaign.
    """

    batch: int
    units: int
    information: float
    error: float
    obrien_fleming: float
    pocock: float


@dataclass(frozen=True, kw_only=True)
class Detection:
    """The precision of every lift over control, at the end and at earlier looks.

    Parameters
    ----------
    error
        The standard error of a lift over all units, after all batches.
    lift_80, lift_90
        The lifts that are then detected with 80 and 90% power, two-sided at 5% for all lifts over
        control together.
    effect
        The lift assumed at the looks.
    looks
        One after each informative batch, unless the next one adds almost nothing.
    comparisons
        The number of lifts over control.
    counting, batches
        The number of informative batches, and of all batches; without randomisation, later batches
        are not informative.
    """

    error: float
    lift_80: float
    lift_90: float
    effect: float
    looks: tuple[PlannedLook, ...]
    comparisons: int
    counting: int
    batches: int

    @property
    def early(self) -> tuple[float, float]:
        """The probabilities of stopping before the last look, with either spending rule."""
        if len(self.looks) < 2:
            return 0.0, 0.0
        return self.looks[-2].obrien_fleming, self.looks[-2].pocock


def detection(
    model: Model, sizes: Sequence[int], policy: BasePolicy, *, lift: float | None = None
) -> Detection:
    """Return what batches of these sizes will detect.

    The looks assume `lift`; by default a lift as large as the middle effect.
    """
    lift = lift or model.middle
    shares = shares_of(model, sizes, policy)
    path, error = _path(model, shares), _error(model, sizes, policy)
    ends = list(accumulate(shares.sizes))
    places = _apart(shares.information)
    times = [shares.information[place] for place in places]
    means = [lift / path[place] for place in places]
    comparisons = model.actions - 1
    # Until an action is shown to be better, the group-sequential Holm procedure gives all of them
    # the same part of the error.
    brien, pocock = (
        list(accumulate(chances_to_stop(times, means, rule=rule, alpha=ALPHA / comparisons)))
        for rule in ("obrien-fleming-spending", "pocock-spending")
    )
    looks = tuple(
        PlannedLook(
            batch=place + 1,
            units=ends[place],
            information=shares.information[place],
            error=path[place],
            obrien_fleming=brien[look],
            pocock=pocock[look],
        )
        for look, place in enumerate(places)
    )
    return Detection(
        error=error,
        lift_80=detectable_lift(error, power=0.8, comparisons=comparisons),
        lift_90=detectable_lift(error, power=0.9, comparisons=comparisons),
        effect=lift,
        looks=looks,
        comparisons=comparisons,
        counting=len(shares.sizes),
        batches=len(sizes),
    )


def planned_lift(model: Model, sizes: Sequence[int], policy: BasePolicy, *, power: float) -> float:
    """Return the lift that batches of these sizes detect with this power."""
    error = _error(model, sizes, policy)
    return detectable_lift(error, power=power, comparisons=model.actions - 1)


def planned_power(model: Model, sizes: Sequence[int], policy: BasePolicy, *, lift: float) -> float:
    """Return the probability with which batches of these sizes detect a lift."""
    error = _error(model, sizes, policy)
    # A lift of so many standard errors is detected in half of the cases.
    even = detectable_lift(1.0, power=0.5, comparisons=model.actions - 1)
    return NormalDist().cdf(lift / error - even)


def least_share(
    model: Model, sizes: Sequence[int], policy: BasePolicy, *, lift: float, power: float
) -> float | None:
    """Return the least randomised share, at least the model's, that detects a lift.

    Return None if not even randomising all units suffices.
    """
    found = partial(_found, model, sizes, policy, lift, power)
    low, high = round(model.conduct.randomised / STEP), round(1 / STEP)
    if not found(1.0):
        return None
    if found(model.conduct.randomised):
        return model.conduct.randomised
    # Power increases with the share: bisect.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle * STEP) else (middle, high)
    return round(high * STEP, 3)


def units_needed(model: Model, policy: BasePolicy, *, lift: float, power: float) -> int:
    """Return how many units would detect a lift if all of them were randomised."""
    all_random = _randomised(model, 1.0)

    def enough(units: int) -> bool:
        return planned_lift(all_random, [units], policy, power=power) <= lift

    # Without the cost of fitting a model, the error falls with the root of the units: a lower
    # start.
    each = planned_lift(all_random, [10**12], policy, power=power) * 1e6
    low = ceil((each / lift) ** 2 * (1 - 1e-9)) - 1
    high = 2 * low + 2
    while not enough(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _found(
    model: Model,
    sizes: Sequence[int],
    policy: BasePolicy,
    lift: float,
    power: float,
    share: float,
) -> bool:
    return planned_lift(_randomised(model, share), sizes, policy, power=power) <= lift


def _randomised(model: Model, share: float) -> Model:
    return replace(model, conduct=replace(model.conduct, randomised=share))


def informative(model: Model, batches: int) -> bool:
    """Return whether every action has a chance in some batch."""
    return bool(model.conduct.chance or _blind(model, batches))


def _blind(model: Model, batches: int) -> int:
    """Return how many first batches are assigned uniformly at random."""
    shares = model.conduct.blind(batches, informed=model.past is not None)
    return int(np.cumprod(shares >= 1).sum())


def shares_of(model: Model, sizes: Sequence[int], policy: BasePolicy) -> PlanOfShares:
    """Return the shares of the informative batches.

    If nothing is random after the first batches, units with and without an action differ
    systematically there, and these batches are not informative about its lift.
    """
    conduct = model.conduct
    blind = _blind(model, len(sizes))
    counting = sizes if conduct.chance else sizes[:blind]
    return plan_of_shares(
        counting,
        actions=model.actions,
        randomised=conduct.randomised,
        floor=conduct.floor,
        policy=policy.sharing,
        ends_greedily=policy.ends_greedily,
        uniform=blind,
    )


def _path(model: Model, shares: PlanOfShares) -> tuple[float, ...]:
    """Return the standard error of a pooled lift after each informative batch."""
    return planned_path(shares, **_outcomes(model))


def _error(model: Model, sizes: Sequence[int], policy: BasePolicy) -> float:
    """Return the standard error of a lift over the units of all informative batches."""
    shares = shares_of(model, sizes, policy)
    return average_error(shares.sizes, planned_variances(shares, **_outcomes(model)))


def _outcomes(model: Model) -> dict[str, Any]:
    """Return how much outcomes and lifts vary, for the precision of lifts."""
    # A lift is the difference of two parameters per direction; in one direction it does not vary.
    directions = model.dim - (1 if model.layout == "block" else 0)
    between = model.mean([model.spread(effect) ** 2 for effect, _ in model.scenarios])
    noise = sqrt(model.mean([noise**2 for _, noise in model.scenarios]))
    return {
        "actions": model.actions,
        "columns": model.dim,
        "noise": noise,
        "returned": model.conduct.returned,
        "lift_variance": 2 * directions * between,
    }


def _apart(information: Sequence[float]) -> list[int]:
    """Return the indices of looks that differ in information, always including the last."""
    places = [len(information) - 1]
    for place in reversed(range(len(information) - 1)):
        if information[place] < (1 - NOTHING) * information[places[0]]:
            places.insert(0, place)
    return places


# ----------------------------------------------------------------------
# Text and table.


def describe_detection(
    found: Detection, *, asked: float | None, power: float, noun: Noun = "batch"
) -> str:
    """Return a text on what will be detected.

    Parameters
    ----------
    found
        The precision and power.
    asked, power
        The lift to detect, if any, and the required power.
    noun
        What the text calls a batch.
    """
    text = (
        f"What will be detected: each lift over control has a standard error of "
        f"{number(found.error, 3)}. A lift of {number(found.lift_80, 3)} is detected with 80% "
        f"power, and one of {number(found.lift_90, 3)} with 90% (two-sided at 5%"
        f"{_together(found)}, one look at the end)."
    )
    if asked is not None:
        text += (
            f" The randomised share is the smallest that detects a lift of {number(asked, 3)} with "
            f"{percent_cut(power)} power."
        )
    what = ", as large as the effect assumed below" if asked is None else ""
    return text + _counting(found, noun) + _stopping(found, what, noun)


def _counting(found: Detection, noun: Noun) -> str:
    """Return which batches are not informative, and why; empty if all are."""
    if found.counting == found.batches:
        return ""
    first = (
        f"the first {noun} counts"
        if found.counting == 1
        else f"the first {found.counting} {plural(noun)} count"
    )
    return (
        f" Only {first}: without randomised units or a floor, later {plural(noun)} cannot show a "
        "lift."
    )


def _stopping(found: Detection, what: str, noun: Noun) -> str:
    """Return how likely early stopping is, if there is a look before the last.

    `what` describes the assumed lift.
    """
    if len(found.looks) < 2:
        return ""
    chances = " or ".join(
        f"{chance:.0%} ({name})"
        for chance, name in zip(found.early, ("O'Brien-Fleming", "Pocock"), strict=True)
    )
    looks = counted(len(found.looks) - 1, "look")
    return (
        f" If an action's lift is {number(found.effect, 3)}{what}, {looks} before the last "
        f"{noun} would detect it with probability {chances}; the looks"
        f"{' and lifts' if found.comparisons > 1 else ''} share the error."
    )


def _together(found: Detection) -> str:
    """Say how many lifts have the error together, if there are several."""
    if found.comparisons == 1:
        return ""
    count = "both" if found.comparisons == 2 else f"all {found.comparisons}"
    return f" for {count} lifts together"


def detection_table(found: Detection, *, noun: Noun = "batch") -> Table:
    """Return the looks as a table."""
    return Table(
        f"The lift over control, {noun} by {noun}: its standard error, and the probability that a "
        f"lift of {number(found.effect, 3)} has been detected by then",
        (noun, "units", "information", "error", "O'Brien-Fleming", "Pocock"),
        [
            (
                one.batch,
                one.units,
                f"{one.information:.1%}",
                number(one.error, 3),
                f"{one.obrien_fleming:.1%}",
                f"{one.pocock:.1%}",
            )
            for one in found.looks
        ],
    )
