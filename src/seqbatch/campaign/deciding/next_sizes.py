"""The sizes of the waves to come, proposed from what was learned: where a spec is adaptive."""

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from seqbatch.campaign.record.situation import Situation
from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.asked import MOST_MISSING, conduct_of, model_of
from seqbatch.planning.effects import EffectLaw, law_of, several
from seqbatch.planning.model import Model
from seqbatch.planning.replanning import Proposal, propose

#: With more parameters than these in all, a proposal would take longer than anybody waits.
MOST_PARAMETERS = 400
#: What is left of a column's variance beside other columns, below which it repeats them.
REPEATED = 1e-6


def proposed(now: Situation, state: Any) -> Proposal | None:
    """Propose sizes for the waves after the one that is being closed; None where nothing is to.

    Parameters
    ----------
    now
        Where the campaign stood when the wave was closed.
    state
        What the policy knows after it.
    """
    ahead = now.sizes[now.wave :]
    if not now.spec.grid.adaptive or len(ahead) < 2 or not hasattr(state, "evidence"):
        return None
    known = reduce(Statistics.merge, state.evidence)
    if not (known.gram[:, 0, 0].sum() > 0 and (known.squares > 0).any()):
        return None
    known = _of_columns(known, independent(known.gram.sum(axis=0)))
    if known.cells * known.dim > MOST_PARAMETERS:
        return None
    wanted = now.spec.grid.plan or {}
    noises = several("noise", wanted.get("noise", 1.0))
    law = law_of(wanted.get("effect"), wanted.get("effect_spread"), noises)
    try:
        return propose(
            _model(now, known, wanted, law),
            law,
            seen=now.assigned,
            statistics=known,
            sizes=ahead,
            min_batch=wanted.get("min_batch", 1),
            max_batch=wanted.get("max_batch"),
            # A seed of its own for every wave, whatever else the campaign's seed draws.
            seed=wanted.get("seed", 0) + now.wave,
        )
    except InvalidArgumentError:
        # Fewer outcomes than parameters: too little to propose anything from.
        return None


def _model(now: Situation, known: Statistics, wanted: dict[str, Any], law: EffectLaw) -> Model:
    """Return what was assumed before the first outcome, for the columns that say something."""
    actions, noises = len(now.active), several("noise", wanted.get("noise", 1.0))
    model = model_of(actions, known.dim - 1, None, law, noises, wanted.get("kappa"))
    # As many outcomes will be missing as were so far.
    missing = min(max(1 - int(known.count.sum()) / now.assigned, 0.0), MOST_MISSING)
    conduct = conduct_of(actions, now.spec.randomised, now.floor, missing, wanted.get("delay", 0))
    return replace(model, conduct=conduct)


def independent(gram: Floats) -> Integers:
    """Return the columns that do not repeat those before them, the constant first.

    All levels of a category beside an intercept are one column too many, which changes no choice.
    """
    left, kept = np.array(gram, dtype=np.float64), list[int]()
    # Below this a variance is what rounding leaves of a column that does not vary.
    least = 1e-12 * np.diag(left)
    for column in range(len(left)):
        variance = left[column, column]
        if variance > least[column]:
            kept.append(column)
            left = left - np.outer(left[:, column], left[column]) / variance
        if column == 0:
            # What repeats others is judged by the variance, once the means are explained.
            least = np.maximum(least, REPEATED * np.diag(left))
    return np.array(kept, dtype=np.int64)


def _of_columns(known: Statistics, columns: Integers) -> Statistics:
    return Statistics(
        known.gram[:, columns][:, :, columns], known.moment[:, columns], known.squares, known.count
    )
