"""The least randomised share with which a plan detects a lift."""

from collections.abc import Callable
from dataclasses import replace

from seqbatch.display import counted, number
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.assumed import percent
from seqbatch.planning.best_grids import best_grids
from seqbatch.planning.detection import least_share, planned_lift, units_needed
from seqbatch.planning.limits import Sizes
from seqbatch.planning.policy_candidates import GREEDY
from seqbatch.planning.request import Request
from seqbatch.planning.result import Plan
from seqbatch.policies.base import LinearPolicy


def detecting(request: Request, lift: float, answer: Callable[[Request], Plan]) -> Plan:
    """Return the plan with the least randomised share that detects a lift.

    The more units are randomised, the smaller are the first batches of the best grid: the share is
    raised until the grid that belongs to it detects the lift.

    Parameters
    ----------
    request
        What was asked for; its randomised share is the least that is tried.
    lift
        To be detected, with the request's power.
    answer
        Makes a plan.
    """
    # Whatever the batches, not more can be known than if all units were randomised in one.
    _enough(request, (request.limits.units,), GREEDY, lift)
    while True:
        made = answer(request)
        share = _enough(request, made.grid.sizes, made.policy, lift)
        if share <= request.model.conduct.randomised:
            return made
        request = _raised(request, share, made, lift)


def _raised(request: Request, share: float, made: Plan, lift: float) -> Request:
    """Return the request with a share whose own best grid, of as many batches, is enough."""
    fewer = [number for number in request.numbers if number <= made.batches]
    while share > request.model.conduct.randomised:
        conduct = replace(request.model.conduct, randomised=share)
        request = replace(request, model=replace(request.model, conduct=conduct))
        sizes = best_grids(replace(request, numbers=fewer))[made.batches]
        share = _enough(request, sizes, made.policy, lift)
    return request


def _enough(request: Request, sizes: Sizes, policy: LinearPolicy, lift: float) -> float:
    """Return the least share that is enough on these batches, or say that none is."""
    model, power = request.model, request.power
    share = least_share(model, sizes, policy, lift=lift, power=power)
    if share is not None:
        return share
    everyone = replace(model, conduct=replace(model.conduct, randomised=1.0))
    least = planned_lift(everyone, sizes, policy, power=power)
    needed = units_needed(model, policy, lift=lift, power=power)
    raise InvalidArgumentError(
        "detect",
        f"at least {number(least, 3)}, the lift that {counted(request.limits.units, 'unit')} show "
        f"with {percent(power)} power if all of them are randomised",
        lift,
        f"No plan with these units can; about {counted(needed, 'unit')} would, all randomised.",
    )
