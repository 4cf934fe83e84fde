"""What outcomes say of effect and noise: how likely they are under each pair of the two.

The law is that of :mod:`seqbatch.planning.model`, one level up: given the effect, every coordinate
of an action's parameters is the actions' common part plus N(0, s^2), and rewards scatter by the
noise. What all actions have in common moves no choice and is no effect, so that the common part is
left open by a law of its own, far wider than the rewards. All of it is normal: the likelihood has a
closed form in the sums of the outcomes.
"""

import math
from dataclasses import replace
from itertools import product

import numpy as np

from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats
from seqbatch.planning.effects import USUAL, EffectLaw
from seqbatch.planning.model import Model

Scenario = tuple[float, float]

#: The prior's spread, as that of a law of effects, is at least this: a guess may be far off, and
#: from here on there are outcomes to correct it.
MISJUDGED = 4.0
#: Effects that are tried: as far from the stated one and from the usual one, in such steps.
REACH, STEP = 128.0, math.sqrt(2.0)
#: Noise levels that are tried, in standard errors from what the residuals show.
NOISE_STEPS = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
#: How many equally plausible scenarios stand for what was learned.
SCENARIOS = 32
#: The common part's standard deviation over that of the rewards.
OPEN = 100.0


def common_spread(known: Statistics, model: Model) -> float:
    """Return the standard deviation of what all actions have in common, 0 in the shared model."""
    if model.layout == "shared":
        return 0.0
    return OPEN * math.sqrt(float(known.squares.sum() / max(known.count.sum(), 1)))


def log_evidence(known: Statistics, *, spread: float, noise: float, common: float) -> float:
    """Return the logarithm of the density of outcomes, on average over all parameters.

    Parameters
    ----------
    known
        The outcomes' sums, one cell per model, in whitened coordinates.
    spread, noise
        The standard deviations of parameters around their common part, and of rewards.
    common
        That of the common part's coordinates; 0 where there is none.
    """
    variance, ratio = noise**2, (noise / spread) ** 2
    system = known.gram + ratio * np.eye(known.dim)
    solved = np.linalg.solve(system, np.concatenate([known.gram, known.moment[..., None]], axis=2))
    explained = float(np.einsum("ai,ai->", known.moment, solved[..., -1]))
    # ln det (I + G / ratio), action by action.
    widths = float(np.linalg.slogdet(system)[1].sum()) - known.moment.size * math.log(ratio)
    count = int(known.count.sum())
    twice = count * math.log(2 * math.pi * variance) + widths
    twice += (float(known.squares.sum()) - explained) / variance
    if common:
        precision = solved[..., :-1].sum(axis=0) / spread**2
        pull = solved[..., -1].sum(axis=0) / spread**2
        opened = precision + np.eye(known.dim) / common**2
        twice += float(np.linalg.slogdet(opened)[1]) + 2 * known.dim * math.log(common)
        twice -= float(pull @ np.linalg.solve(opened, pull))
    return -twice / 2


def learned(known: Statistics, model: Model, law: EffectLaw) -> tuple[Scenario, ...]:
    """Return equally plausible pairs of effect and noise, given the outcomes.

    Of the effect the prior is log-normal around each of the law's guesses, or where nobody made
    one, around the usual share of the noise that the residuals show; of the noise it is flat.
    """
    if not known.squares.sum():
        # Outcomes that are all alike, as if there were no noise: nothing to judge a size by.
        return model.scenarios
    common, noises = common_spread(known, model), _noises(known, model)
    usual = USUAL * float(np.median(noises))
    law = law if law.stated else replace(law, guesses=(usual,))
    pairs = list(product(_effects([*law.guesses, usual]), noises))
    logs = np.array(
        [
            log_evidence(known, spread=model.spread(effect), noise=noise, common=common)
            + _log_prior(effect, law)
            for effect, noise in pairs
        ]
    )
    weights = np.exp(logs - logs.max())
    shares = np.cumsum(weights) / weights.sum()
    # One in the middle of each of as many parts of equal weight: what weighs next to nothing is
    # none.
    found = np.searchsorted(shares, (np.arange(SCENARIOS) + 0.5) / SCENARIOS)
    return tuple(pairs[place] for place in found)


def _effects(near: list[float]) -> Floats:
    """Return the effects to try."""
    low, high = math.log(min(near) / REACH), math.log(max(near) * REACH)
    steps = math.ceil((high - low) / math.log(STEP))
    effects: Floats = np.exp(np.linspace(low, high, steps + 1))
    return effects


def _noises(known: Statistics, model: Model) -> Floats:
    """Return levels around what least squares leaves, or around the stated ones."""
    freedom, left = 0.0, 0.0
    for gram, moment, squares, count in zip(
        known.gram, known.moment, known.squares, known.count, strict=True
    ):
        fit, _, rank, _ = np.linalg.lstsq(gram, moment, rcond=1e-10)
        freedom += max(float(count) - rank, 0.0)
        left += max(float(squares - moment @ fit), 0.0)
    steps = np.array(NOISE_STEPS)
    if freedom and left > 1e-12 * known.squares.sum():
        around: Floats = math.sqrt(left / freedom) * np.exp(steps / math.sqrt(2 * freedom))
        return around
    stated = float(np.exp(np.mean([math.log(noise) for _, noise in model.scenarios])))
    wide: Floats = stated * np.exp(steps)
    return wide


def _log_prior(effect: float, law: EffectLaw) -> float:
    """Return the logarithm of the prior's density of the logarithm, but for a constant."""
    far = np.log(effect / np.array(law.guesses)) / math.log(max(law.spread, MISJUDGED))
    return float(np.logaddexp.reduce(-(far**2) / 2))


def centred(known: Statistics) -> Statistics:
    """Return the sums of rewards less their mean, for rows that begin with the constant 1."""
    mean = float(known.moment[:, 0].sum() / known.count.sum())
    squares = known.squares - 2 * mean * known.moment[:, 0] + mean**2 * known.count
    return replace(
        known,
        moment=known.moment - mean * known.gram[:, :, 0],
        squares=np.maximum(squares, 0.0),
    )
