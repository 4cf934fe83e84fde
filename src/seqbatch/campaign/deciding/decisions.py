"""From a policy's probabilities to what is done, and the exact probability of it.

A share `holdout` of units gets a uniformly random action, for honest measurement. Of the others
every action has at least the probability `floor`: the rest is the policy's. The probability of
action a, whichever way it came about, is therefore

    holdout / K + (1 - holdout) (floor + (1 - K floor) p_a)

with p_a the policy's own, and that is what is logged.

A greedy policy takes what it knows nothing about to be worth 0, which would be the best there is
where all rewards are negative. Where each action has a model of its own, it therefore chooses
among those that its estimate has outcomes of.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign.draws import Draws
from seqbatch.campaign.situation import Situation
from seqbatch.core import Contexts
from seqbatch.policies import BPE, LBGL, RBGL, SBPE, Decision, EpsilonGreedy, Policy
from seqbatch.policies.base import highest, pick, uniformly

Floats = NDArray[np.float64]
#: Units scored together: under a shared model a unit has a vector for each action.
BLOCK = 8_192


@dataclass(frozen=True)
class Decided:
    """What was decided for some units.

    Parameters
    ----------
    actions
        The number of each unit's action among all actions there ever were, shape (n,).
    scores
        The policy's score of that action, shape (n,).
    probabilities
        Of every action, 0 for a retired one, shape (n, actions).
    holdout
        Whether the unit is measured apart, shape (n,).
    groups
        The part of the evidence that its outcome enters, -1 for none, shape (n,).
    """

    actions: NDArray[np.int64]
    scores: Floats
    probabilities: Floats
    holdout: NDArray[np.bool_]
    groups: NDArray[np.int64]

    def table(self) -> pa.Table:
        """Return the decisions as they are stored."""
        columns: dict[str, Any] = {
            "action": self.actions.astype(np.int16),
            "score": self.scores,
            "holdout": self.holdout,
            "group": self.groups.astype(np.int32),
        }
        for action in range(self.probabilities.shape[1]):
            columns[f"p{action}"] = np.ascontiguousarray(self.probabilities[:, action])
        return pa.table(columns)

    @classmethod
    def of(cls, table: pa.Table) -> "Decided":
        """Return stored decisions."""
        places = range(len(table.column_names) - 4)
        return cls(
            actions=table["action"].to_numpy().astype(np.int64),
            scores=table["score"].to_numpy(),
            probabilities=np.column_stack([table[f"p{a}"].to_numpy() for a in places]),
            holdout=table["holdout"].to_numpy(),
            groups=table["group"].to_numpy().astype(np.int64),
        )

    def take(self, rows: NDArray[np.intp]) -> "Decided":
        """Return the decisions of these units alone."""
        return Decided(
            self.actions[rows],
            self.scores[rows],
            self.probabilities[rows],
            self.holdout[rows],
            self.groups[rows],
        )


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
    places: NDArray[np.int64],
) -> Decided:
    count, options = len(contexts), len(now.active)
    holdout, floor = now.spec.holdout, now.floor
    decision = policy.assign(state, contexts, draws.choice, places)
    own = _preferred(now, policy, state, decision, draws)
    mixed = floor + (1 - options * floor) * own
    held = draws.holdout < holdout
    actions = np.where(
        held, uniformly(count, options, draws.choice)[0], pick(mixed, draws.choice)[0]
    )
    active = np.array(now.active, dtype=np.int64)
    probabilities = np.zeros((count, len(now.actions)))
    probabilities[:, active] = holdout / options + (1 - holdout) * mixed
    return Decided(
        actions=active[actions],
        scores=decision.scores[np.arange(count), actions],
        probabilities=probabilities,
        holdout=held,
        groups=decision.groups,
    )


def _preferred(
    now: Situation, policy: Policy, state: Any, decision: Decision, draws: Draws
) -> Floats:
    """Return the policy's probabilities, a greedy one's among the actions that it knows of."""
    if now.spec.model == "shared" or state.batch == 1:
        return decision.probabilities
    if not isinstance(policy, SBPE | BPE | LBGL | RBGL):
        return decision.probabilities
    # Sample splitting: the estimate in use is of one part of the evidence.
    part = state.batch - 2 if isinstance(policy, BPE) else 0
    known = state.evidence[part].count > 0
    if known.all():
        return decision.probabilities
    count, options = decision.probabilities.shape
    if not known.any():
        return uniformly(count, options, draws.choice)[1]
    scores = np.where(known, decision.scores, -np.inf)
    best = highest(scores, policy.ties, draws.choice)[1]
    explored = policy.epsilon if isinstance(policy, EpsilonGreedy) else 0.0
    mixed: Floats = (1 - explored) * best + explored / options
    return mixed


def joined(pieces: list[Decided]) -> Decided:
    """Return decisions one after another."""
    if len(pieces) == 1:
        return pieces[0]
    return Decided(
        np.concatenate([piece.actions for piece in pieces]),
        np.concatenate([piece.scores for piece in pieces]),
        np.concatenate([piece.probabilities for piece in pieces]),
        np.concatenate([piece.holdout for piece in pieces]),
        np.concatenate([piece.groups for piece in pieces]),
    )
