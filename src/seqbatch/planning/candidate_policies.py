"""The candidate policies of a plan, compared by simulation on the plan's grid."""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.environments.base import generator
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.result_rows import Candidate, Row
from seqbatch.policies import RBGL, SBPE, SBUCB, JointRidge, ThompsonSampling
from seqbatch.policies.base import LinearPolicy

#: Pure exploitation, the benchmark for the others.
GREEDY = SBPE(first="uniform", ties="random")
#: The policy that is chosen unless another is clearly better.
USUAL = "joint ridge"
#: Simulated units per batch: this many per parameter, within bounds. With fewer, a batch would
#: teach too much about its own units, which favours policies that shrink.
UNITS_A_PARAMETER, FEWEST, MOST = 8, 512, 4_096
#: With more actions than this, posterior draws take long, and fewer of them are used.
FEW_ACTIONS = 20


def candidates(model: Model, row: Row, *, seed: int) -> tuple[Candidate, ...]:
    """Compare pure exploitation, whose cost is the row's, with other policies in the same trials.

    The simulation estimates how much more the other policies lose.
    """
    models = 1 if model.layout == "shared" else model.actions
    # With many parameters, trials cost more and vary less.
    number = min(130, max(10, 2_400 // (models * model.dim))) if model.dim > 1 else 256
    trials = model.thinned(number, seed=seed)
    options = _options(model, sum(row.sizes))
    most = min(MOST, max(FEWEST, UNITS_A_PARAMETER * model.dim * models))
    with warnings.catch_warnings():
        # A first batch that leaves directions undetermined is part of the comparison.
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        totals = {
            name: np.array(
                [
                    trial.regret(
                        policy, row.sizes, generator(np.random.SeedSequence([seed, n])), most=most
                    )
                    for n, trial in enumerate(trials)
                ]
            )
            for name, policy in options.items()
        }
    base = next(iter(totals.values()))
    weight = np.array([trial.weight for trial in trials])
    return tuple(
        _candidate(name, options[name], row, weight * (values - base))
        for name, values in totals.items()
    )


def _candidate(name: str, policy: LinearPolicy, row: Row, more: Floats) -> Candidate:
    """Return a policy, given by how much its loss exceeds the row's in each trial."""
    excess = float(more.mean())
    excess_error = float(more.std(ddof=1)) / math.sqrt(len(more))
    return Candidate(
        name=name,
        policy=policy,
        regret=row.regret + excess,
        error=math.hypot(row.error, excess_error),
        excess=excess,
        excess_error=excess_error,
    )


def preferred(compared: Sequence[Candidate]) -> LinearPolicy:
    """Return the joint ridge, unless the policy with the least regret is significantly better.

    Campaigns use it, too: its excess is measured, but its batches are those of pure exploitation,
    which it becomes as outcomes accumulate.
    """
    usual = next(one for one in compared if one.name == USUAL)
    best = min(compared, key=lambda one: one.regret)
    # Two standard errors of the difference: the seed must not decide a tie.
    error = math.hypot(best.excess_error, usual.excess_error)
    return best.policy if usual.excess - best.excess > 2 * error else usual.policy


def ucb(model: Model, units: int) -> SBUCB:
    """Return UCB with Lemma 1's multiplier, in units of the noise."""
    noise = max(level for _, level in model.scenarios)
    gamma = theory.confidence_multiplier(units=units, actions=model.actions)
    return SBUCB(gamma=noise * gamma, first="uniform", ties="random")


def _options(model: Model, units: int) -> dict[str, LinearPolicy]:
    effect, noise = (model.mean(column) for column in zip(*model.scenarios, strict=True))
    # The true prior's precision, which a user who believes the stated effect would set.
    precision = (noise / model.spread(effect)) ** 2 if effect else 1.0
    thompson = ThompsonSampling(
        scale=noise,
        ridge=precision,
        samples=64 if model.actions <= FEW_ACTIONS else 16,
        first="uniform",
        ties="random",
    )
    # In the block layout the planner's rows begin with a constant.
    constant = 0 if model.layout == "block" else None
    joint = JointRidge(ties="random", constant=constant, estimate="averaged")
    return {
        "pure exploitation": GREEDY,
        USUAL: joint,
        "ridge exploitation": RBGL(ridge=precision, first="uniform", ties="random"),
        "Thompson": thompson,
        "UCB": ucb(model, units),
    }
