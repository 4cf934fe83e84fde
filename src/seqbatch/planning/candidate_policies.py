"""The candidate policies of a plan, compared by simulation on the plan's grid."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.environments.base import generator
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.result_rows import Candidate, Row
from seqbatch.planning.trials.thinned_units import ThinnedTrial
from seqbatch.policies import (
    RBGL,
    SBPE,
    SBUCB,
    JointRidge,
    Lookahead,
    ThompsonSampling,
    design_of,
)
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.estimation import OWN_LEVEL

#: Pure exploitation, the benchmark for the others; its estimates know how large effects are.
EXPLOITATION = "pure exploitation"
#: The policy of campaigns after a first batch by design, and the units that its design is made of.
BY_DESIGN, DESIGNED = "joint ridge after a first batch by design", 500
#: Simulated units per batch: this many per parameter, within bounds. With fewer, a batch would
#: teach too much about its own units, which favours policies that shrink.
UNITS_A_PARAMETER, FEWEST, MOST = 8, 512, 4_096
#: With more actions than this, posterior draws take long, and fewer of them are used.
FEW_ACTIONS = 20
#: With more parameters than this, pooled estimates take long, and are left out.
FEW_PARAMETERS = 60
#: With more parameters per action than this, lookahead takes long, and is left out.
FEW_FEATURES = 4


def usual(model: Model) -> BasePolicy:
    """Return the policy that campaigns use: the plan names it unless another is clearly better."""
    if model.conduct.purpose == "choose":
        return ThompsonSampling(
            objective="choose", scale="outcomes", first="uniform", ties="random"
        )
    if model.layout == "shared":
        return JointRidge(ties="random", estimate="averaged")
    if model.dim == 1:
        return Lookahead(after=model.conduct.after, ties="random")
    # The planner's rows begin with a constant.
    return JointRidge(ties="random", constant=0, waves=OWN_LEVEL, estimate="averaged")


def candidates(model: Model, row: Row, *, seed: int) -> tuple[Candidate, ...]:
    """Compare pure exploitation, whose cost is the row's, with other policies in the same trials.

    The simulation estimates how much more the other policies lose. The policy of campaigns comes
    second.
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
                        _informed(policy, trial) if name == EXPLOITATION else policy,
                        row.sizes,
                        generator(np.random.SeedSequence([seed, n])),
                        most=most,
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


def _candidate(name: str, policy: BasePolicy, row: Row, more: Floats) -> Candidate:
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


def _informed(policy: BasePolicy, trial: ThinnedTrial) -> BasePolicy:
    """Return pure exploitation that knows how large the effects of this trial are."""
    assert isinstance(policy, RBGL)
    return replace(policy, ridge=trial.penalty)


def preferred(compared: Sequence[Candidate]) -> BasePolicy:
    """Return the policy of campaigns, unless the one with the least regret is significantly better.

    The batches are those of pure exploitation, which it becomes as outcomes accumulate.
    """
    # Nobody knows as much as the first one: it is no candidate.
    usual, *others = (one for one in compared[1:] if one.name != BY_DESIGN)
    best = min(others, key=lambda one: one.regret, default=usual)
    # Two standard errors of the difference: the seed must not decide a tie.
    error = math.hypot(best.excess_error, usual.excess_error)
    return best.policy if usual.excess - best.excess > 2 * error else usual.policy


def ucb(model: Model, units: int) -> SBUCB:
    """Return UCB with Lemma 1's multiplier, in units of the noise."""
    noise = max(level for _, level in model.scenarios)
    gamma = theory.confidence_multiplier(units=units, actions=model.actions)
    return SBUCB(gamma=noise * gamma, first="uniform", ties="random")


def _options(model: Model, units: int) -> dict[str, BasePolicy]:
    effect, noise = (model.mean(column) for column in zip(*model.scenarios, strict=True))
    # The true prior's precision, which a user who believes the stated effect would set.
    precision = (noise / model.spread(effect)) ** 2 if effect else 1.0
    campaigns = usual(model)
    thompson = ThompsonSampling(
        scale=noise,
        ridge=precision,
        samples=64 if model.actions <= FEW_ACTIONS else 16,
        first="uniform",
        ties="random",
        last="greedy",
    )
    options: dict[str, BasePolicy] = {
        EXPLOITATION: RBGL(ridge=precision, first="uniform", ties="random"),
        "lookahead" if isinstance(campaigns, Lookahead) else "joint ridge": campaigns,
        "least squares": SBPE(first="uniform", ties="random"),
        "Thompson": thompson,
        "UCB": replace(ucb(model, units), last="greedy"),
    }
    if isinstance(campaigns, JointRidge) and model.layout == "shared":
        # Its design is that of the planner's contexts: another one is needed for real units.
        vectors = np.random.default_rng(0).standard_normal((DESIGNED, model.actions, model.dim))
        design = design_of(vectors)
        options[BY_DESIGN] = replace(campaigns, first="design", design=design)
    if model.layout == "block" and 1 < model.dim <= FEW_FEATURES and model.conduct.after:
        options["lookahead"] = Lookahead(after=model.conduct.after, ties="random")
    if model.layout == "block" and model.dim > 1 and model.actions * model.dim <= FEW_PARAMETERS:
        options["pooled Thompson"] = replace(
            thompson, scale="outcomes", estimate="pooled", constant=0
        )
    return options
