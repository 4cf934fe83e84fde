"""Capacity limits: adjusts a policy's decision to limits on how many units get each action."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from seqbatch.allocation import Limits, limited, rounded
from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.rule import Decision

#: By how much an action is ranked below the policy's choice if it scores no less than that, as a
#: fraction of the spread of the unit's scores.
MARGIN = 1e-6


def within(
    decision: Decision, limits: Limits, *, eligible: Bools | None, key: int | bytes
) -> Decision:
    """Return the decision with actions and probabilities whose counts always satisfy the limits.

    Scores, means and groups are unchanged. The actions are drawn with the returned probabilities,
    and each action's count is its expectation rounded up or down.

    Parameters
    ----------
    decision
        The policy's decision without limits.
    limits
        Limits for the units of this decision; see :func:`limits_of`.
    eligible
        Which actions each unit may get; None for all.
    key
        The key of the random draw: the same key gives the same actions.
    """
    if not len(decision):
        return decision
    worth = preferred(decision.scores, decision.actions, decision.candidates)
    table = limited(worth, decision.probabilities, limits, eligible=eligible)
    drawn = rounded(table.probabilities, key=key)
    prices = table.prices if table.prices_in == "score" else None
    return replace(
        decision,
        actions=drawn.actions,
        probabilities=drawn.probabilities,
        prices=prices,
        samples=None,
    )


def limits_of(capacity: Limits | Mapping[int, int], actions: int) -> Limits:
    """Return limits rounded to whole numbers, from `Limits` or from a mapping action -> units.

    >>> limits_of({1: 500}, 3).at_most
    array([ inf, 500.,  inf])
    """
    if isinstance(capacity, Limits):
        bounds = capacity.over(actions)
        return replace(capacity, at_most=np.floor(bounds.most), at_least=np.ceil(bounds.least))
    if not isinstance(capacity, Mapping):
        rule = "Limits, or a mapping from actions to the most units of each"
        raise InvalidArgumentError("capacity", rule, repr(capacity))
    most = np.full(actions, np.inf)
    for action, units in capacity.items():
        place = arguments.integer("an action of capacity", action, at_least=0)
        if place >= actions:
            raise InvalidArgumentError("an action of capacity", f"below {actions}", place)
        most[place] = arguments.integer(f"capacity[{place}]", units, at_least=0)
    return Limits(at_most=most)


def preferred(scores: Floats, actions: Integers, candidates: Bools | None = None) -> Floats:
    """Return scores under which every unit's chosen action is its highest.

    A policy may use more than its scores: it may eliminate actions, avoid actions without outcomes,
    or play one regardless of scores. With the returned scores, limits move only as many units as
    necessary, those that lose least, and use actions that the policy passed over last. Each unit's
    row depends on that unit alone.

    >>> scores = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    >>> passed = np.array([[True, True, True], [True, True, True], [False, True, True]])
    >>> preferred(scores, np.array([0, 1, 1]), passed).round(3)
    array([[ 3.,  2.,  1.],
           [ 2.,  2.,  1.],
           [-1.,  2.,  1.]])
    """
    units = np.arange(len(scores))
    own = scores[units, actions][:, None]
    spread = scores.max(axis=1, keepdims=True) - scores.min(axis=1, keepdims=True)
    scale = np.where(spread > 0, spread, np.maximum(np.abs(own), 1.0))
    worth = np.where(scores >= own, own - MARGIN * scale, scores)
    if candidates is not None:
        worth = np.where(candidates, worth, worth.min(axis=1, keepdims=True) - scale)
    worth[units, actions] = own[:, 0]
    return worth
