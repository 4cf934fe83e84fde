"""From a policy's probabilities to what is done, and the exact probability of it.

A share `randomised` of units gets a uniformly random action, for honest measurement. Of the others
every action has at least the probability `floor`: the rest is the policy's. Among a unit's m
eligible actions, of K in all, the probability of action a, whichever way it came about, is
therefore

    randomised / m + (1 - randomised) (K floor / m + (1 - K floor) p_a)

with p_a the policy's own, and that is what is logged. Where everything is eligible, m = K.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.draws import Draws
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.core import Contexts
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.policies import Policy
from seqbatch.policies.capacity import preferred
from seqbatch.policies.choosing import pick, uniformly

#: Units scored together: under a shared model a unit has a vector for each action.
BLOCK = 8_192


@dataclass(frozen=True)
class Weighed:
    """What the policy says of some units, over the actions that are given.

    Parameters
    ----------
    probabilities
        The policy's own, shape (n, K).
    scores
        What it compared, shape (n, K).
    actions
        The one that it chose, shape (n,).
    candidates
        Which actions it chose among, shape (n, K); None for all that the unit may get.
    groups
        The part of the evidence that each unit's outcome enters, -1 for none, shape (n,).
    eligible
        Which actions each unit may get, shape (n, K); None for all of them.
    """

    probabilities: Floats
    scores: Floats
    actions: Integers
    candidates: Bools | None
    groups: Integers
    eligible: Bools | None

    @property
    def worth(self) -> Floats:
        """What is maximised where limits move units, shape (n, K).

        Scores, less where the policy passed an action over; see
        :func:`seqbatch.policies.capacity.preferred`.
        """
        return preferred(self.scores, self.actions, self.candidates)


def weigh(now: Situation, policy: Policy, state: Any, given: pa.Table, draws: Draws) -> Weighed:
    """Ask the policy about units of the open wave; pure, the same however the units are cut.

    Parameters
    ----------
    now
        Where the campaign stands.
    policy, state
        Who decides, by what was known when the wave opened.
    given
        The units' columns.
    draws
        The units' own random numbers.
    """
    encoder, problem = now.encoder(wave=now.wave), now.problem()
    size = problem.size(now.wave)
    own = encoder.encode(given)
    mask = None if encoder.eligibility is None else encoder.eligibility.mask(given)
    pieces = []
    step = BLOCK if encoder.actions else max(len(own), 1)
    for start in range(0, max(len(own), 1), step):
        rows = slice(start, start + step)
        part = draws.take(rows)
        allowed = None if mask is None else mask[rows]
        contexts = Contexts(encoder.contexts(own[rows], now.active), problem, allowed)
        places = np.minimum((part.place * size).astype(np.int64), size - 1)
        said = policy.assign(state, contexts, part.choice, places)
        pieces.append(
            Weighed(
                said.probabilities, said.scores, said.actions, said.candidates, said.groups, allowed
            )
        )
    return gathered(pieces)


def gathered(pieces: list[Weighed]) -> Weighed:
    """Return what was said of units one after another."""
    if len(pieces) == 1:
        return pieces[0]
    masks = [piece.eligible for piece in pieces if piece.eligible is not None]
    passed = [piece.candidates for piece in pieces if piece.candidates is not None]
    return Weighed(
        probabilities=np.concatenate([piece.probabilities for piece in pieces]),
        scores=np.concatenate([piece.scores for piece in pieces]),
        actions=np.concatenate([piece.actions for piece in pieces]),
        candidates=np.concatenate(passed) if passed else None,
        groups=np.concatenate([piece.groups for piece in pieces]),
        eligible=np.concatenate(masks) if masks else None,
    )


def chances(now: Situation, count: int, eligible: Bools | None) -> Floats:
    """Return what randomisation and the floor leave to every action by themselves, (n, K)."""
    options, share = len(now.active), now.randomised
    even = np.full((count, options), 1 / options)
    if eligible is not None:
        even = eligible / eligible.sum(axis=1, keepdims=True)
    own: Floats = (share + (1 - share) * options * now.floor) * even
    return own


def decide(now: Situation, policy: Policy, state: Any, given: pa.Table, draws: Draws) -> Decided:
    """Decide for units of the open wave, each by its own draws; see :func:`weigh`."""
    said = weigh(now, policy, state, given, draws)
    count, options = said.probabilities.shape
    share, floor = now.randomised, now.floor
    # K floors are set aside first, so that every action keeps its own whatever the policy says.
    mixed = floor + (1 - options * floor) * said.probabilities
    even: float | Floats = share / options
    if said.eligible is not None:
        among = said.eligible / said.eligible.sum(axis=1, keepdims=True)
        mixed = options * floor * among + (1 - options * floor) * said.probabilities
        even = share * among
    # Another draw than the one that picks: who is randomised must say nothing about the action.
    randomised = draws.randomised < share
    actions = np.where(
        randomised,
        uniformly(count, options, draws.choice, said.eligible)[0],
        pick(mixed, draws.choice)[0],
    )
    return decided(now, said, actions, even + (1 - share) * mixed, randomised)


def decided(
    now: Situation, said: Weighed, actions: Integers, probabilities: Floats, randomised: Bools
) -> Decided:
    """Return decisions as they are kept: over all actions that there ever were."""
    count = len(actions)
    active = np.array(now.active, dtype=np.int64)
    every = np.zeros((count, len(now.actions)))
    every[:, active] = probabilities
    return Decided(
        actions=active[actions],
        scores=said.scores[np.arange(count), actions],
        probabilities=every,
        randomised=randomised,
        groups=said.groups,
    )
