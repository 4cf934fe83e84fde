"""Whether enough events can have come to tell what an action brings from what it costs.

A cost is known to the last digit, while what makes up for it may be a few sales. Before these have
come, an action that pays for itself looks like a sure loss: its estimate is short by the cost, and
waves with hardly an event show hardly any spread. What counts are the events that there would be
by now if the action just paid for itself, not those there are: an action that brings nothing where
20 sales were needed is a loss. Actions that cost the same have no such trouble.

The usual outcome is taken to be the lowest or the highest there is: sums do not tell of another.
With sales and refunds it is neither, outcomes seem not to be rare, and nothing is held back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from seqbatch.campaign.design.spec import Action
from seqbatch.core.arrays import Floats
from seqbatch.inference.model import Evidence

#: With fewer events at break-even, rules for stopping may err several times too often, and with
#: more they find what harms later or never: docs/few-events.md.
ENOUGH_EVENTS = 20
#: The textbooks' condition for the normal interval of a proportion, for events and for the others.
ENOUGH_FOR_A_MEAN = 10
#: Where so large a share of outcomes would be events, they are not rare: any number will do.
OFTEN = 0.2
#: Whole numbers of events may be missed by rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class FewEvents:
    """An action, and how many events it has, or would have by now at break-even: too few."""

    action: str
    events: int

    def __str__(self) -> str:
        return f"{self.events} of {self.action}"


def few_events(
    evidence: Evidence,
    actions: Sequence[Action],
    order: Sequence[int],
    place: int,
    *,
    enough: int = ENOUGH_EVENTS,
) -> FewEvents | None:
    """Return which of two compared actions has too few events, None where there are enough.

    What makes up for a difference in costs are gains of the dearer action where most outcomes are
    the lowest there is (sales), and losses that the cheaper one has and the dearer one has not
    where most are the highest (complaints, of which fewer are better).

    Parameters
    ----------
    evidence
        The sums over all waves so far.
    actions
        All actions, with their costs.
    order
        Their numbers, in the order of the evidence.
    place
        Which of these is compared with the first.
    enough
        How many events are enough.
    """
    costs = [actions[number].cost for number in order]
    cheaper, dearer = sorted((0, place), key=lambda one: costs[one])
    if costs[cheaper] == costs[dearer]:
        return None
    gains = _expected(evidence, costs, dearer, cheaper, usual=evidence.lowest)
    losses = _expected(evidence, costs, cheaper, dearer, usual=evidence.highest)
    events, fewest = min((gains, dearer), (losses, cheaper))
    if events + ROUNDING >= enough:
        return None
    return FewEvents(actions[order[fewest]].name, int(events + ROUNDING))


def few_events_of_one(
    evidence: Evidence, actions: Sequence[Action], order: Sequence[int], place: int
) -> FewEvents | None:
    """Return how many events an action has, where too few for the interval of its mean, or None.

    Events are outcomes other than the usual one, be that the lowest there is or the highest.
    """
    costs = [actions[number].cost for number in order]
    events = min(
        _came(evidence, costs[place], place, one) for one in (evidence.lowest, evidence.highest)
    )
    if events + ROUNDING >= ENOUGH_FOR_A_MEAN:
        return None
    return FewEvents(actions[order[place]].name, int(events + ROUNDING))


def _came(evidence: Evidence, cost: float, place: int, usual: float) -> float:
    """Return how many events came: (sum d)^2 / sum d^2, which is just that if all are alike."""
    total, squares = _distances(evidence, np.array(cost - usual))
    return float(total[place] ** 2 / squares[place]) if squares[place] > 0 else 0.0


def _expected(
    evidence: Evidence, costs: Sequence[float], place: int, other: int, *, usual: float
) -> float:
    """Return how many events an action would have at break-even: if both brought the same.

    All that came of both actions is divided between them so that `place` has as much more a unit
    as the costs differ by. It is counted in events, each worth sum d^2 / sum d, where d is how far
    an outcome, before costs, is from the usual one: of events that are all alike just that, and
    more where a few large ones make up most of the sum.
    """
    away, worth = _away(evidence, costs, usual)
    count, counts = int(evidence.statistics.count[place]), evidence.statistics.count
    more = abs(costs[place] - costs[other])
    both = int(counts[place] + counts[other])
    least = max((away[place] + away[other] - count * more) / max(both, 1), 0.0)
    share = (least + more) / worth
    return count * share if share < OFTEN else inf


def _away(
    evidence: Evidence, costs: Sequence[float], usual: float
) -> tuple[Sequence[float], float]:
    """Return how far each action's outcomes are from the usual one in all, and an event's worth."""
    total, squares = _distances(evidence, np.array(costs) - usual)
    away = np.abs(total)
    return away.tolist(), float(squares.sum() / away.sum())


def _distances(evidence: Evidence, off: Floats) -> tuple[Floats, Floats]:
    """Return sums of d and d^2 of each action, d an outcome after costs, moved by `off`."""
    sums = evidence.statistics
    total = sums.moment[:, 0] + sums.count * off
    squares = sums.squares + 2 * off * sums.moment[:, 0] + sums.count * off**2
    return total, squares
