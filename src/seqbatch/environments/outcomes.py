"""Families of outcomes: what is observed of a unit whose mean reward is known."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

#: "gaussian": the mean plus normal noise. "bernoulli": yes or no. "poisson": a count.
Family = Literal["gaussian", "bernoulli", "poisson"]


#: The standard deviation of Gaussian noise: of all actions, of each, or as a function of the means.
Noise = float | Sequence[float] | Callable[[Floats], ArrayLike]


def settled_noise(family: object, noise: Noise, actions: int) -> Noise:
    """Return the noise as plain values; refuse an unknown family, and what is no noise."""
    arguments.choice("family", family, get_args(Family))
    if callable(noise):
        return noise
    if np.ndim(noise):
        each = arguments.floats("noise", noise, (actions,))
        return tuple(arguments.number("noise", float(one), at_least=0) for one in each)
    return arguments.number("noise", noise, at_least=0)  # type: ignore[arg-type]


def noise_of(family: str, means: Floats, random: Generator, noise: Noise = 1.0) -> Floats:
    """Draw outcomes with these means, shape (n, K); return them less their means.

    Gaussian noise is the same for all actions, shape (n,), if it is stated as one standard
    deviation. Otherwise, and in other families, it depends on the action, shape (n, K).

    >>> means = np.array([[0.0, 1.0], [1.0, 0.5]])
    >>> means + noise_of("bernoulli", means, np.random.default_rng(1))
    array([[0., 1.],
           [1., 0.]])
    """
    if family == "gaussian":
        drawn = random.standard_normal(len(means))
        if not callable(noise) and np.ndim(noise) == 0:
            return np.asarray(noise * drawn, dtype=np.float64)
        # One number for all actions, as below, times the deviation of each.
        stated = noise(means) if callable(noise) else noise
        sizes = arguments.floats("noise", np.broadcast_to(stated, means.shape), means.shape)
        if (sizes < 0).any():
            raise InvalidArgumentError("noise", "standard deviations of at least 0", sizes.min())
        return sizes * drawn[:, None]
    low, high = float(means.min(initial=0.0)), float(means.max(initial=0.0))
    most = 1.0 if family == "bernoulli" else 1e15
    if not (low >= 0 and high <= most):
        rule = "probabilities between 0 and 1" if family == "bernoulli" else "rates of at least 0"
        raise InvalidArgumentError(
            "means",
            f"{rule} for {family} outcomes",
            f"{low:g} to {high:g}",
            "GeneralizedLinear turns any numbers into such means.",
        )
    if family == "bernoulli":
        # One number decides for all actions: what a unit does under each is then comparable.
        drawn = (random.random((len(means), 1)) < means).astype(np.float64)
    else:
        drawn = random.poisson(means).astype(np.float64)
    return drawn - means
