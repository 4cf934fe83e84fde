"""Families of outcomes: what is observed of a unit whose mean reward is known."""

from typing import Literal, get_args

import numpy as np
from numpy.random import Generator

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

#: "gaussian": the mean plus normal noise. "bernoulli": yes or no. "poisson": a count.
Family = Literal["gaussian", "bernoulli", "poisson"]


def require_family(family: object, noise: object) -> None:
    """Refuse an unknown family and a noise that is no standard deviation."""
    arguments.choice("family", family, get_args(Family))
    arguments.number("noise", noise, at_least=0)  # type: ignore[arg-type]


def noise_of(family: str, means: Floats, random: Generator, noise: float = 1.0) -> Floats:
    """Draw outcomes with these means, shape (n, K); return them less their means.

    Gaussian noise is the same for all actions, shape (n,), with the standard deviation `noise`;
    in other families it depends on the action, shape (n, K).

    >>> means = np.array([[0.0, 1.0], [1.0, 0.5]])
    >>> means + noise_of("bernoulli", means, np.random.default_rng(1))
    array([[0., 1.],
           [1., 0.]])
    """
    if family == "gaussian":
        return noise * random.standard_normal(len(means))
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
