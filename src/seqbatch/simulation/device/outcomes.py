"""What becomes of some units of all trials under a rule: regret, reward, counts and sums."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core import Problem, Statistics
from seqbatch.core.arrays import AnyArray, Array, Floats, namespace
from seqbatch.simulation.device.assigning import Rules
from seqbatch.simulation.device.units import Units

#: Units whose products are summed by one piece of the device; more pieces keep it busier.
PIECE = 2_048


@dataclass(frozen=True)
class Outcome:
    """Sums over units, with an axis of trials in front.

    Parameters
    ----------
    lost, gained
        Regret and mean reward, shape (trials,).
    counts
        How often each action was taken, shape (trials, K).
    evidence
        Gram, moment, squares and count of each model, as in
        :class:`~seqbatch.core.statistics.Statistics`; None where nobody learns from the units.
    """

    lost: Array
    gained: Array
    counts: Array
    evidence: tuple[Array, Array, Array, Array] | None


def outcome(
    units: Units,
    part: slice,
    rules: Rules,
    problem: Problem,
    *,
    learn: bool,
    known: Array | None = None,
) -> Outcome:
    """Assign units of a block and sum up what comes of it; fused into one kernel where possible.

    `known` are these units' actions, where they were found before.
    """
    if units.fused is not None and units.fused.serves(rules):
        lost, gained, counts, evidence = units.fused(part, rules, learn=learn)
        return Outcome(lost, gained, counts, evidence)
    if known is None:
        x = units.contexts[:, part]
        known = rules.actions(x, lambda: units.draws[:, part], problem)
    return summed(units, part, known, problem, learn=learn)


def summed(units: Units, part: slice, actions: Array, problem: Problem, *, learn: bool) -> Outcome:
    """Sum up what comes of actions, by array operations one after another."""
    x, means = units.contexts[:, part], units.means[:, part]
    xp = namespace(x)
    gained = xp.take_along_axis(means, actions[..., None], axis=-1)[..., 0]
    numbers = xp.arange(problem.actions, device=actions.device)
    evidence = None
    if learn:
        evidence = evidence_of(_chosen(x, actions), actions, gained + units.noise[:, part], problem)
    return Outcome(
        lost=xp.sum(units.best[:, part] - gained, axis=1),
        gained=xp.sum(gained, axis=1),
        counts=xp.sum(xp.astype(actions[..., None] == numbers, xp.int8), axis=1, dtype=xp.int64),
        evidence=evidence,
    )


def evidence_of(
    vectors: Array, actions: Array, rewards: Array, problem: Problem
) -> tuple[Array, Array, Array, Array]:
    """Return the statistics of units: their vectors (trials, n, dim), actions and rewards."""
    xp = namespace(vectors)
    if problem.models == 1:
        everybody = xp.full(rewards.shape, True, dtype=xp.bool, device=rewards.device)
        cells = [_cell(vectors, rewards, everybody)]
    else:
        cells = []
        for model in range(problem.models):
            own = actions == model
            x, y = xp.where(own[..., None], vectors, 0.0), xp.where(own, rewards, 0.0)
            cells.append(_cell(x, y, own))
    gram, moment, squares, count = (
        xp.stack(list(columns), axis=1) for columns in zip(*cells, strict=True)
    )
    return gram, moment, squares, count


def added(parts: Sequence[tuple[Array, ...]]) -> list[Array]:
    """Add up the evidence of parts of the units."""
    return [sum(columns[1:], columns[0]) for columns in zip(*parts, strict=True)]


def statistics(sums: Sequence[AnyArray], shape: Floats) -> Statistics:
    """Return all trials' statistics from their evidence on the host; `shape` is the source's."""
    gram, moment, squares, count = sums
    turned = np.swapaxes(shape, -1, -2)[:, None] @ gram @ shape[:, None]
    cells, dim = count.size, gram.shape[-1]
    return Statistics(
        ((turned + np.swapaxes(turned, -1, -2)) / 2).reshape(cells, dim, dim),
        (moment @ shape).reshape(cells, dim),
        squares.reshape(cells),
        count.reshape(cells),
    )


def _cell(vectors: Array, rewards: Array, own: Array) -> tuple[Array, Array, Array, Array]:
    """Sum the units of one model; those of others are zeros."""
    xp, dim = namespace(vectors), vectors.shape[2]
    # With the reward as one more column, all sums of products come from one pass.
    products = _products(xp.concat([vectors, rewards[..., None]], axis=-1))
    count = xp.sum(xp.astype(own, xp.int8), axis=1, dtype=xp.int64)
    return products[:, :dim, :dim], products[:, dim, :dim], products[:, dim, dim], count


def _products(rows: Array) -> Array:
    """Return the sums of x x', in pieces that are added at the end."""
    xp = namespace(rows)
    trials, units, dim = rows.shape
    whole = units - units % PIECE
    rest = rows[:, whole:]
    result = xp.matrix_transpose(rest) @ rest
    if whole:
        pieces = rows[:, :whole].reshape(-1, PIECE, dim)
        parts = xp.matrix_transpose(pieces) @ pieces
        result = result + xp.sum(parts.reshape(trials, -1, dim, dim), axis=1)
    return result


def _chosen(x: Array, actions: Array) -> Array:
    """Return each unit's vector under its action, shape (trials, n, dim)."""
    if x.shape[2] == 1:
        return x[:, :, 0]
    return namespace(x).take_along_axis(x, actions[:, :, None, None], axis=2)[:, :, 0]
