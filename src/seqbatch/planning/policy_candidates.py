"""The candidate policies, run on the plan's grid."""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from seqbatch import theory
from seqbatch.environments.base import generator
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning.limits import Sizes
from seqbatch.planning.model import Model
from seqbatch.planning.result import Candidate
from seqbatch.policies import SBPE, SBUCB, ThompsonSampling
from seqbatch.policies.base import LinearPolicy

#: How many units stand for a batch.
MOST = 512


def candidates(model: Model, sizes: Sizes, *, seed: int) -> tuple[Candidate, ...]:
    """Run pure exploitation, Thompson sampling and UCB in the same trials."""
    # Trials cost more and differ less in many dimensions.
    number = min(128, max(24, 400 // model.dim))
    trials = model.thinned(number, seed=seed)
    options = _options(model, sum(sizes))
    with warnings.catch_warnings():
        # A first batch that leaves directions open is part of what is compared.
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        totals = {
            name: np.array(
                [
                    trial.regret(
                        policy, sizes, generator(np.random.SeedSequence([seed, n])), most=MOST
                    )
                    for n, trial in enumerate(trials)
                ]
            )
            for name, policy in options.items()
        }
    base = next(iter(totals.values()))
    root = math.sqrt(number)
    return tuple(
        Candidate(
            name=name,
            policy=options[name],
            regret=float(values.mean()),
            error=float(values.std(ddof=1)) / root,
            excess=float((values - base).mean()),
            excess_error=float((values - base).std(ddof=1)) / root,
        )
        for name, values in totals.items()
    )


def preferred(made: Sequence[Candidate]) -> LinearPolicy:
    """Return the policy of least regret; the first unless another is significantly better."""
    best = min(made, key=lambda one: one.regret)
    # Two standard errors of the paired difference: a tie must not be decided by the seed.
    clearly = best.excess < -2 * best.excess_error
    return best.policy if clearly else made[0].policy


def ucb(model: Model, units: int) -> SBUCB:
    """Return UCB with Lemma 1's multiplier, in units of the noise."""
    noise = max(level for _, level in model.scenarios)
    gamma = theory.confidence_multiplier(units=units, actions=model.actions)
    return SBUCB(gamma=noise * gamma, first="uniform", ties="random")


def _options(model: Model, units: int) -> dict[str, LinearPolicy]:
    effect, noise = (float(np.mean(column)) for column in zip(*model.scenarios, strict=True))
    # With the true prior's precision: what a user who believes the stated effect would set.
    thompson = ThompsonSampling(
        scale=noise,
        ridge=(noise / model.spread(effect)) ** 2 if effect else 1.0,
        samples=64,
        first="uniform",
        ties="random",
    )
    return {
        "pure exploitation": SBPE(first="uniform", ties="random"),
        "Thompson": thompson,
        "UCB": ucb(model, units),
    }
