"""The history of a plan: what an earlier experiment teaches, less what its drift makes uncertain.

The earlier coefficients of an action are those of the new experiment plus N(0, w^2) for each, in
units of the noise, as in :mod:`seqbatch.core.history`. With G the earlier sums of x x', they then
teach as much as sums (I + w^2 G)^-1 G without drift, from which the planner's trials start. Effect
and noise are learned from the earlier outcomes, as :func:`~seqbatch.planning.replan` learns them.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from seqbatch.core import Statistics, arguments
from seqbatch.core.arrays import Floats
from seqbatch.core.history import GUESS
from seqbatch.core.joint_regression import free_levels, pseudo_inverse
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.replanning import (
    centred,
    common_spread,
    context_root,
    independent,
    learned,
    of_columns,
    turned,
)
from seqbatch.planning.request import EffectLaw
from seqbatch.planning.trials.greedy_runs import KnownPast
from seqbatch.planning.unit_sample import Sample
from seqbatch.policies import History, JointRidge, ThompsonSampling
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.estimation import OWN_LEVEL
from seqbatch.policies.history import LEARN


def features_of(
    history: History, *, actions: int, features: int | Sample | None, dim: int | None
) -> int:
    """Return the number of features in a plan that starts from a history.

    Columns that the others determine are left out, such as one level of each category.
    """
    if not isinstance(history, History):
        raise InvalidArgumentError("history", "a History", repr(history))
    if len(history.places) != arguments.integer("actions", actions, at_least=2):
        raise InvalidArgumentError("history", f"one for {actions} actions", len(history.places))
    if dim is not None or isinstance(features, Sample):
        name = "features" if dim is None else "dim"
        rule = "left out with a history, which says how units were encoded"
        raise InvalidArgumentError(name, rule, "a sample" if dim is None else dim)
    if features not in (None, history.sums.dim - 1):
        raise InvalidArgumentError(
            "features", f"{history.sums.dim - 1}, as in the history, or left out", features
        )
    return len(independent(history.sums.gram.sum(axis=0))) - 1


def model_from(model: Model, law: EffectLaw, history: History) -> Model:
    """Return the model of an experiment that starts from a history."""
    known = _outcomes(history)
    root = context_root(known, None, model)
    known = centred(turned(known, root))
    drift = GUESS if history.drift == LEARN else float(history.drift)
    gram, moment = drifted(known, drift**2 * root.T @ root)
    past = KnownPast(gram, moment, common_spread(known, model))
    conduct = model.conduct
    if -1 in history.places:
        # Greedy policies would never try a new action: the first batch does.
        conduct = replace(conduct, explored=1.0)
    return replace(
        model, scenarios=learned(known, model, law), weights=(), past=past, conduct=conduct
    )


def _outcomes(history: History) -> Statistics:
    """Return the sums of each action, less the levels of batches, without redundant columns."""
    sums = history.sums
    levels = np.zeros(sums.levels)
    if sums.levels:
        levels, _ = free_levels(sums, pseudo_inverse(sums.gram))
    known = sums.without_levels(levels)
    rows, new = np.array(history.places), np.array(history.places) == -1
    gram, moment, squares, count = (
        np.where(new.reshape(-1, *[1] * (part.ndim - 1)), 0, part[rows])
        for part in (known.gram, known.moment, known.squares, known.count)
    )
    return of_columns(Statistics(gram, moment, squares, count), independent(sums.gram.sum(axis=0)))


def drifted(known: Statistics, drift: Floats) -> tuple[Floats, Floats]:
    """Return the sums x x' and reward times x that teach as much as these after a drift.

    Parameters
    ----------
    known
        The sums.
    drift
        The covariance of the drift of an action's coefficients, in units of the noise.
    """
    loss = np.eye(known.dim) + known.gram @ drift
    gram = np.asarray(np.linalg.solve(loss, known.gram), dtype=np.float64)
    moment = np.asarray(np.linalg.solve(loss, known.moment[..., None]), dtype=np.float64)[..., 0]
    return (gram + gram.transpose(0, 2, 1)) / 2, moment


def usual_from(model: Model, history: History) -> BasePolicy:
    """Return the policy that campaigns with a history use."""
    first: Literal["uniform", "fixed"] = "fixed"
    if model.dim == 1:
        return ThompsonSampling(
            first=first, ties="random", constant=0, last="greedy", estimate="pooled",
            history=history,
        )  # fmt: skip
    if -1 in history.places:
        first = "uniform"
    return JointRidge(first=first, ties="random", constant=0, waves=OWN_LEVEL, history=history)
