"""Trials that choose one action for all units at the end, by exploration sampling until then.

Units have no features: every action has one mean. A batch's units are divided in proportion to
p (1 - p), with p the posterior probability that an action is best, as by Thompson sampling with
``objective="choose"``; before any outcome they are divided equally. At the end the action with the
highest posterior mean is chosen. What it loses, and the probability that it is the best one, are
computed exactly given all outcomes but the last ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.planning.trials.draws import KeptDraws
from seqbatch.planning.trials.greedy_runs import Rates

#: The purpose of the stored normals.
OUTCOMES = 30
#: The policy's prior precision of a mean, in units.
RIDGE = 1.0
#: The points of the quadrature, and its reach in standard deviations.
POINTS, REACH = 32, 6.0
#: A normal with a smaller standard deviation, in steps between points, counts as wider.
NARROWEST = 0.6


def chances_of_best(mean: Floats, spread: Floats) -> Floats:
    """Return the probability that each of several independent normals is the largest.

    Parameters
    ----------
    mean, spread
        Shape (trials, K).

    Examples
    --------
    >>> chances_of_best(np.array([[0.0, 0.0, -9.0]]), np.ones((1, 3))).round(3)
    array([[0.5, 0.5, 0. ]])
    """
    from scipy.special import ndtr

    # What hardly moves is a step.
    spread = np.maximum(spread, 1e-6 * spread.max(axis=1, keepdims=True))
    # Below the highest of all lower ends there is certainly a larger one.
    low = (mean - REACH * spread).max(axis=1)
    high = (mean + REACH * spread).max(axis=1)
    step = (high - low) / (POINTS - 1)
    # Equal steps integrate a normal density exactly, unless it is narrower than a step or so.
    width = np.maximum(spread, NARROWEST * step[:, None])
    places = low[:, None] + step[:, None] * np.arange(POINTS)
    far = (places[:, None, :] - mean[..., None]) / width[..., None]
    below = np.maximum(ndtr(far), 1e-300)
    density = np.exp(-(far**2) / 2) / width[..., None]
    found = (density / below * below.prod(axis=1, keepdims=True)).sum(axis=2)
    chances: Floats = found / found.sum(axis=1, keepdims=True)
    return chances


def exploring_shares(chances: Floats) -> Floats:
    """Return each action's share of the next units, given the probabilities of being best.

    >>> exploring_shares(np.array([[0.6, 0.3, 0.1], [1.0, 0.0, 0.0]])).round(3)
    array([[0.444, 0.389, 0.167],
           [1.   , 0.   , 0.   ]])
    """
    contested = chances * (1 - chances)
    total = contested.sum(axis=1, keepdims=True)
    shares: Floats = np.where(total > 0, contested / np.where(total > 0, total, 1.0), chances)
    return shares


@dataclass(frozen=True, eq=False)
class ChoiceEnsemble:
    """Trials that choose one action at the end.

    Parameters
    ----------
    theta
        The true mean of each action, shape (trials, K).
    noise
        The standard deviation of each trial's noise, shape (trials,).
    draws
        The stored random numbers.
    conduct, gain, weight, strata
        See :class:`~seqbatch.planning.trials.greedy_block_model.BlockEnsemble`.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> theta = np.tile([0.0, 0.1, 0.2], (200, 1))
    >>> trials = ChoiceEnsemble(theta, np.ones(200), KeptDraws(SeedSequence(1)))
    >>> trials.rates([600]).regret.mean(axis=0).round(4)  # nothing, and what is lost at the end
    array([0.    , 0.0181])
    """

    theta: Floats
    noise: Floats
    draws: KeptDraws
    conduct: Conduct = field(default_factory=Conduct)
    gain: Floats | float | None = None
    weight: Floats | float = 1.0
    strata: tuple[int, ...] = (0,)

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.theta)

    def rates(self, sizes: Sequence[int]) -> Rates:
        """Run batches of these sizes; only the unit that gets the chosen action costs anything."""
        trials, actions = self.theta.shape
        noise = self.noise[:, None]
        count, total = np.full(self.theta.shape, RIDGE), np.zeros_like(self.theta)
        late: list[Floats] = []
        for number, (size, blind) in enumerate(
            zip(sizes, self.conduct.blind(len(sizes)), strict=True)
        ):
            shares = np.full(self.theta.shape, 1 / actions)
            if number > self.conduct.delay:
                come = late.pop(0)
                normals = self.draws.normals(OUTCOMES, number, (trials, actions))
                count = count + come
                total = total + come * self.theta + noise * np.sqrt(come) * normals
                if blind < 1:
                    best = chances_of_best(total / count, noise / np.sqrt(count))
                    shares = blind * shares + (1 - blind) * exploring_shares(best)
            late.append(size * self.conduct.returned * shares)
        last = sum(late, np.zeros_like(count))
        chosen = chances_of_best(
            (total + last * self.theta) / (count + last), noise * np.sqrt(last) / (count + last)
        )
        highest = self.theta.max(axis=1)
        weight = np.broadcast_to(self.weight, trials)
        nothing = np.zeros((trials, len(sizes)))
        lost = highest - (chosen * self.theta).sum(axis=1)
        right = np.take_along_axis(chosen, self.theta.argmax(axis=1)[:, None], axis=1)
        return Rates(
            regret=np.column_stack([nothing, lost]),
            best=np.column_stack([nothing, right]),
            weight=weight,
            luck=np.ones(trials),
            uniform=highest - self.theta.mean(axis=1),
            blind=np.zeros(len(sizes) + 1),
            gain=self.gain,
            strata=self.strata,
            after=1,
        )
