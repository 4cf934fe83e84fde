"""Which lift a plan detects: precision, power, and early stopping."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import ceil, sqrt

from seqbatch.display import counted, number, percent_cut
from seqbatch.document import Table
from seqbatch.inference import (
    PlanOfShares,
    chances_to_stop,
    detectable_lift,
    plan_of_shares,
    planned_path,
)
from seqbatch.planning.model import Model
from seqbatch.policies import ThompsonSampling
from seqbatch.policies.base import LinearPolicy

# ----------------------------------------------------------------------
# What a plan will detect: how precisely a lift will be known, and whether a look finds it.
#
# A lift is an action's mean reward less control's, over all units. In the model all actions are
# alike, so that whichever is control, the numbers are those of every lift.


#: Where the next look adds less than this share to the information, there is none.
NOTHING = 0.01
#: Randomised shares are found to this.
STEP = 1e-3


@dataclass(frozen=True, kw_only=True)
class PlannedLook:
    """What is known of a lift after a batch, and whether it stops the campaign.

    Parameters
    ----------
    batch, units
        After which batch, and how many units were assigned by then.
    information
        The fraction of all information that is in by then.
    error
        The standard error of the lift.
    obrien_fleming, pocock
        The chance that this look or an earlier one found a lift of the assumed effect's size, by
        either spending rule.
    """

    batch: int
    units: int
    information: float
    error: float
    obrien_fleming: float
    pocock: float


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What is known of every lift over control in the end, and on the way.

    Parameters
    ----------
    error
        The standard error of a lift when all batches are in.
    lift_80, lift_90
        The lifts that are then found with 80 and 90% power, two-sided at 5%.
    effect
        The lift that the looks are about.
    looks
        One after each batch that counts, unless the next adds next to nothing.
    counting, batches
        How many batches count, and how many there are; later ones leave nothing to chance.
    """

    error: float
    lift_80: float
    lift_90: float
    effect: float
    looks: tuple[PlannedLook, ...]
    counting: int
    batches: int

    @property
    def early(self) -> tuple[float, float]:
        """The chances to stop before the last look, by O'Brien and Fleming's rule and Pocock's."""
        if len(self.looks) < 2:
            return 0.0, 0.0
        return self.looks[-2].obrien_fleming, self.looks[-2].pocock


def detection(
    model: Model, sizes: Sequence[int], policy: LinearPolicy, *, lift: float | None = None
) -> Detection:
    """Return what batches of these sizes will detect.

    Looks are about `lift`, or where there is none a lift as large as the middle effect.
    """
    lift = lift or model.middle
    shares = shares_of(model, sizes, policy)
    path = _path(model, shares)
    ends = list(accumulate(shares.sizes))
    places = _apart(shares.information)
    times = [shares.information[place] for place in places]
    means = [lift / path[place] for place in places]
    brien, pocock = (
        list(accumulate(chances_to_stop(times, means, rule=rule)))
        for rule in ("obrien-fleming", "pocock")
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
        error=path[-1],
        lift_80=detectable_lift(path[-1], power=0.8),
        lift_90=detectable_lift(path[-1], power=0.9),
        effect=lift,
        looks=looks,
        counting=len(shares.sizes),
        batches=len(sizes),
    )


def planned_lift(
    model: Model, sizes: Sequence[int], policy: LinearPolicy, *, power: float
) -> float:
    """Return the lift that batches of these sizes find with this power."""
    return detectable_lift(_path(model, shares_of(model, sizes, policy))[-1], power=power)


def least_share(
    model: Model, sizes: Sequence[int], policy: LinearPolicy, *, lift: float, power: float
) -> float | None:
    """Return the least randomised share, from the model's own, with which a lift is found.

    None where not even randomising all units is enough.
    """
    found = partial(_found, model, sizes, policy, lift, power)
    low, high = round(model.conduct.randomised / STEP), round(1 / STEP)
    if not found(1.0):
        return None
    if found(model.conduct.randomised):
        return model.conduct.randomised
    # What is found grows with the share: halve where it starts.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle * STEP) else (middle, high)
    return round(high * STEP, 3)


def units_needed(model: Model, policy: LinearPolicy, *, lift: float, power: float) -> int:
    """Return how many units would find a lift if all of them were randomised."""
    everyone = _randomised(model, 1.0)

    def enough(units: int) -> bool:
        return planned_lift(everyone, [units], policy, power=power) <= lift

    # Without the price of fitting a model the error is that of a root: a start from below.
    each = planned_lift(everyone, [10**12], policy, power=power) * 1e6
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
    policy: LinearPolicy,
    lift: float,
    power: float,
    share: float,
) -> bool:
    return planned_lift(_randomised(model, share), sizes, policy, power=power) <= lift


def _randomised(model: Model, share: float) -> Model:
    return replace(model, conduct=replace(model.conduct, randomised=share))


def shares_of(model: Model, sizes: Sequence[int], policy: LinearPolicy) -> PlanOfShares:
    """Return the shares of the batches that count.

    Where nothing is left to chance after the first batches, whoever gets an action there is
    unlike those who do not, and these batches say nothing about its lift.
    """
    conduct = model.conduct
    blind = 1 + conduct.delay
    counting = sizes if conduct.chance else sizes[:blind]
    return plan_of_shares(
        counting,
        actions=model.actions,
        randomised=conduct.randomised,
        floor=conduct.floor,
        policy="thompson" if isinstance(policy, ThompsonSampling) else "greedy",
        uniform=blind,
    )


def _path(model: Model, shares: PlanOfShares) -> tuple[float, ...]:
    """Return the standard error of a lift after each batch that counts."""
    # A lift is the difference of two parameters of each direction, and differs in all but one.
    directions = model.dim - (1 if model.layout == "block" else 0)
    between = model.mean([model.spread(effect) ** 2 for effect, _ in model.scenarios])
    noise = sqrt(model.mean([noise**2 for _, noise in model.scenarios]))
    return planned_path(
        shares,
        actions=model.actions,
        columns=model.dim,
        noise=noise,
        returned=model.conduct.returned,
        lift_variance=2 * directions * between,
    )


def _apart(information: Sequence[float]) -> list[int]:
    """Return the places of looks that differ in information, the last one always."""
    places = [len(information) - 1]
    for place in reversed(range(len(information) - 1)):
        if information[place] < (1 - NOTHING) * information[places[0]]:
            places.insert(0, place)
    return places


# ----------------------------------------------------------------------
# What a plan will detect, in plain words.


def describe_detection(found: Detection, *, asked: float | None, power: float) -> str:
    """Return what will be detected, for a person.

    Parameters
    ----------
    found
        What it is.
    asked, power
        The lift that was to be detected, if any, and with which power.
    """
    text = (
        f"What will be detected: every lift over control has the standard error "
        f"{number(found.error, 3)}, so that a lift of {number(found.lift_80, 3)} is found with 80% "
        f"power and one of {number(found.lift_90, 3)} with 90% (two-sided at 5%, each lift by "
        "itself, one look at the end)."
    )
    if asked is not None:
        text += (
            f" The randomised share is the least that finds {number(asked, 3)} with "
            f"{percent_cut(power)} power."
        )
    what = ", as large as the effect assumed below" if asked is None else ""
    return text + _counting(found) + _stopping(found, what)


def _counting(found: Detection) -> str:
    """Say which batches tell nothing, and why."""
    if found.counting == found.batches:
        return ""
    which = "batch alone counts" if found.counting == 1 else "batches alone count"
    first = "first" if found.counting == 1 else f"first {found.counting}"
    return (
        f" The {first} {which}: later ones leave nothing to chance, and show no lift without "
        "randomised units or a floor."
    )


def _stopping(found: Detection, what: str) -> str:
    """Say how likely it is to stop early, where there is a look before the last.

    `what` says where the lift that is looked for comes from.
    """
    if len(found.looks) < 2:
        return ""
    chances = " or ".join(
        f"{chance:.0%} ({name})"
        for chance, name in zip(found.early, ("O'Brien-Fleming", "Pocock"), strict=True)
    )
    looks = counted(len(found.looks) - 1, "look")
    return (
        f" Where an action's lift is {number(found.effect, 3)}{what}, {looks} before the last "
        f"batch would find it with probability {chances}."
    )


def detection_table(found: Detection) -> Table:
    """Return the looks as people see them."""
    return Table(
        "A lift over control, batch by batch: its standard error, and the chance that a look has "
        f"found a lift of {number(found.effect, 3)} by then",
        ("batch", "units", "information", "error", "O'Brien-Fleming", "Pocock"),
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
