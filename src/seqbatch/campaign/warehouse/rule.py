"""The rule by which the open wave decides, as numbers: what a statement is made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.campaign.design.date_format import ISO
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.features.categorical import HashedFeature
from seqbatch.core import Contexts
from seqbatch.core.arrays import Floats
from seqbatch.errors import CampaignStateError
from seqbatch.policies.base import BasePolicy, GreedyPolicy, LinearPolicy, Ranking
from seqbatch.policies.bpe import BPE
from seqbatch.policies.sbucb import SBUCB

#: Policies whose rule can be written in SQL.
POLICIES = ("SBPE", "RBGL", "LBGL", "BPE", "SBUCB", "UniformRandom", "FixedAction")


@dataclass(frozen=True)
class Rule:
    """How the open wave decides.

    Parameters
    ----------
    theta
        The parameters that score each action, shape (K, dim).
    root, gamma
        The roots of SBUCB's widths, shape (K, dim, dim), and their multiplier; None and 0 where
        scores are means alone.
    constant
        The policy's probability of each action where it is the same for every unit that may get all
        of them; None where the action of highest score is chosen.
    candidates
        The actions that the choice is among.
    random_ties
        Whether equal scores share the probability, or the lowest action has it.
    intervals
        Into how many intervals a wave is cut whose outcomes enter parts of the evidence of their
        own (BPE), and the number of the first; None where all enter one.
    """

    theta: Floats
    root: Floats | None
    gamma: float
    constant: tuple[float, ...] | None
    candidates: tuple[int, ...]
    random_ties: bool
    intervals: tuple[int, int] | None


def rule_of(now: Situation, state: Any) -> Rule:
    """Return the rule of the open wave; refuse what SQL cannot say, with the reason."""
    require_expressible(now)
    policy, problem = now.made_policy(), state.problem
    chosen, constant = _choice(policy, state)
    ucb = isinstance(policy, SBUCB)
    intervals = None
    if isinstance(policy, BPE):
        even = policy.split == "even"
        pieces = problem.batches if even else problem.batches - state.batch
        intervals = (pieces, 0 if even else state.batch - 1)
    return Rule(
        theta=state.estimates[0].theta,
        root=state.estimates[0].root if ucb else None,
        gamma=policy.multiplier(problem) if isinstance(policy, SBUCB) else 0.0,
        constant=constant,
        candidates=chosen,
        random_ties=isinstance(policy, LinearPolicy) and policy.ties == "random",
        intervals=intervals,
    )


def _choice(policy: BasePolicy, state: Any) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Return the actions that the choice is among, and their probabilities where constant.

    Nobody is asked about a unit: where everybody may get everything, what a policy says without
    looking at scores is the same for all. One unit, of zeros, stands for them.
    """
    K = state.problem.actions
    contexts = Contexts(np.zeros((1, state.problem.dim)), state.problem)
    ranking = Ranking(scores=np.zeros((1, K)), means=np.zeros((1, K)))
    among = policy.candidates(state, contexts, ranking)
    everything = tuple(range(K)) if among is None else tuple(np.flatnonzero(among[0]).tolist())
    blind = not isinstance(policy, LinearPolicy) or (
        state.batch == 1 and (policy.first == "uniform" or isinstance(policy, BPE))
    )
    lost = among is not None and isinstance(policy, GreedyPolicy)
    lost = lost and not policy.known(state)[list(everything)].any()
    if not (blind or lost):
        return everything, None
    _, said = policy.choose(state, contexts, ranking, np.zeros(1))
    return everything, tuple(said[0].tolist())


def require_expressible(now: Situation) -> None:
    """Refuse campaigns whose decisions no statement can make."""
    now.require_open()
    if found := inexpressible(now):
        raise CampaignStateError(
            f"campaign {now.name} cannot be written as SQL: {'; '.join(found)}. Use assign, record "
            "and close."
        )


def inexpressible(now: Situation) -> list[str]:
    """Return what SQL cannot say of a campaign's decisions."""
    spec, parts = now.spec, now.encoder(wave=now.wave).parts
    hashed = [name for name, part in parts.items() if isinstance(part, HashedFeature)]
    dates = [name for name, rules in spec.features.date.items() if rules.format != ISO]
    spelled = [name for name, rules in spec.features.numeric.items() if rules.format]
    reasons = {
        'draws are not by md5, which databases have (declare draws = "md5")': spec.draws != "md5",
        "units are drawn together (a balanced draw, strata, capacities or a budget)": spec.balanced,
        'the actions share one model (model = "shared")': spec.model == "shared",
        "it is masked, and a statement shows every score": now.masked,
        f"the policy is {now.policy['kind']}, not one of {', '.join(POLICIES)}": (
            now.policy["kind"] not in POLICIES
        ),
        f"categories are hashed by blake2 ({', '.join(hashed)})": bool(hashed),
        f"dates are spelled by a format ({', '.join(dates)})": bool(dates),
        f"numbers are spelled by a format ({', '.join(spelled)})": bool(spelled),
    }
    return [reason for reason, there in reasons.items() if there]
