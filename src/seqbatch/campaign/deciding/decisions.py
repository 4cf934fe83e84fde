"""From a policy's probabilities to what is done, and the exact probability of it.

A share `randomised` of units gets a uniformly random action, for honest measurement. Of the others
every action has at least the probability `floor`: the rest is the policy's. The probability of
action a, whichever way it came about, is therefore

    randomised / K + (1 - randomised) (floor + (1 - K floor) p_a)

with p_a the policy's own, and that is what is logged.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.draws import Draws
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.assignments import Decided, joined
from seqbatch.core import Contexts
from seqbatch.core.arrays import Integers
from seqbatch.policies import Policy
from seqbatch.policies.base import pick, uniformly

#: Units scored together: under a shared model a unit has a vector for each action.
BLOCK = 8_192


def decide(now: Situation, policy: Policy, state: Any, given: pa.Table, draws: Draws) -> Decided:
    """Decide for units of the open wave; pure, and the same however the units are cut.

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
    pieces = []
    step = BLOCK if encoder.actions else max(len(own), 1)
    for start in range(0, len(own), step):
        rows = slice(start, start + step)
        part = draws.take(rows)
        contexts = Contexts(encoder.contexts(own[rows], now.active), problem)
        places = np.minimum((part.place * size).astype(np.int64), size - 1)
        pieces.append(_mixed(now, policy, state, contexts, part, places))
    return joined(pieces)


def _mixed(
    now: Situation,
    policy: Policy,
    state: Any,
    contexts: Contexts,
    draws: Draws,
    places: Integers,
) -> Decided:
    count, options = len(contexts), len(now.active)
    share, floor = now.randomised, now.floor
    decision = policy.assign(state, contexts, draws.choice, places)
    # K floors are set aside first, so that every action keeps its own whatever the policy says.
    mixed = floor + (1 - options * floor) * decision.probabilities
    # Another draw than the one that picks: who is randomised must say nothing about the action.
    randomised = draws.randomised < share
    actions = np.where(
        randomised, uniformly(count, options, draws.choice)[0], pick(mixed, draws.choice)[0]
    )
    active = np.array(now.active, dtype=np.int64)
    probabilities = np.zeros((count, len(now.actions)))
    probabilities[:, active] = share / options + (1 - share) * mixed
    return Decided(
        actions=active[actions],
        scores=decision.scores[np.arange(count), actions],
        probabilities=probabilities,
        randomised=randomised,
        groups=decision.groups,
    )
