"""Sums over the units of a batch, for all trials: what policies take back."""

from dataclasses import dataclass, field

import numpy as np

from seqbatch.core import Problem, Statistics
from seqbatch.core.arrays import Array, Floats, namespace
from seqbatch.simulation.device.backend import Backend

#: Units whose products are summed by one piece of the device; more pieces keep it busier.
PIECE = 2_048


@dataclass
class Sums:
    """Gram, moment, squares and count of a group, with an axis of trials in front."""

    problem: Problem
    backend: Backend
    scale: float
    parts: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)

    def add(self, vectors: Array, actions: Array, rewards: Array) -> None:
        """Add units: the chosen vectors (trials, n, dim), actions and rewards (trials, n)."""
        xp = namespace(vectors)
        if self.problem.models == 1:
            cells = [(vectors, rewards, None)]
        else:
            masks = [actions == model for model in range(self.problem.models)]
            zero = xp.zeros((), dtype=xp.float64, device=vectors.device)
            cells = [
                (xp.where(mask[..., None], vectors, zero), xp.where(mask, rewards, zero), mask)
                for mask in masks
            ]
        self.parts.append(_stacked([_cell(xp, *cell) for cell in cells], xp))

    def statistics(self, trials: int) -> list[Statistics]:
        """Return each trial's sums, and forget them."""
        if not self.parts:
            nothing = Statistics.zero(self.problem.models, self.problem.dim)
            return [nothing] * trials
        gram, moment, squares, count = (
            self.backend.host(sum(columns[1:], columns[0]))
            for columns in zip(*self.parts, strict=True)
        )
        self.parts.clear()
        gram = _symmetric(gram) * self.scale**2
        return [
            Statistics(gram[t], moment[t] * self.scale, squares[t], count[t].astype(np.int64))
            for t in range(trials)
        ]


def _cell(xp: Array, vectors: Array, rewards: Array, mask: Array) -> tuple[Array, ...]:
    """Sum the units of one model; those of others are zeros."""
    trials, units = rewards.shape
    if mask is None:
        count = xp.full((trials,), float(units), dtype=xp.float64, device=rewards.device)
    else:
        count = xp.sum(xp.astype(mask, xp.float64), axis=1)
    moment = (rewards[:, None, :] @ vectors)[:, 0]
    return _gram(vectors, xp), moment, xp.sum(rewards * rewards, axis=1), count


def _gram(vectors: Array, xp: Array) -> Array:
    """Return the sums of x x', in pieces that are added at the end."""
    trials, units, dim = vectors.shape
    whole = units - units % PIECE
    rest = vectors[:, whole:]
    gram = xp.matrix_transpose(rest) @ rest
    if whole:
        pieces = vectors[:, :whole].reshape(-1, PIECE, dim)
        products = xp.matrix_transpose(pieces) @ pieces
        gram = gram + xp.sum(products.reshape(trials, -1, dim, dim), axis=1)
    return gram


def _stacked(cells: list[tuple[Array, ...]], xp: Array) -> tuple[Array, Array, Array, Array]:
    gram, moment, squares, count = (
        xp.stack(list(columns), axis=1) for columns in zip(*cells, strict=True)
    )
    return gram, moment, squares, count


def _symmetric(gram: Floats) -> Floats:
    return (gram + np.swapaxes(gram, -1, -2)) / 2
