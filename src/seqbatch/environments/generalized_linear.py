"""Generalised linear rewards over any contexts: logit, probit and Poisson."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.environments.base import OUTCOMES, Block, branch, generator
from seqbatch.environments.outcomes import noise_of
from seqbatch.environments.wrapped import Wrapped, require_common_noise

Link = Literal["logit", "probit", "log"]


@dataclass(frozen=True)
class GeneralizedLinear(Wrapped):
    """Yes/no outcomes or counts, whose mean is a function of the wrapped environment's mean.

    The noise depends on the action. Regret is measured in the new means.

    Parameters
    ----------
    environment
        The environment whose contexts and means are used; its noise is not.
    link
        ``"logit"``, ``"probit"``: outcomes are 0 or 1, with the logistic or the normal distribution
        function as their probability. ``"log"``: counts, Poisson, with the exponential as their
        rate.
    intercept
        Added to the wrapped environment's mean first: -3 makes yes rare.

    Examples
    --------
    >>> from seqbatch.environments import Gaussian
    >>> clicks = GeneralizedLinear(Gaussian(dim=2, actions=3), intercept=-2.0)
    >>> block = clicks.instance(1).block(0)
    >>> np.unique(block.means + block.noise), round(float(block.means.mean()), 2)
    (array([0., 1.]), 0.13)
    """

    link: Link = "logit"
    intercept: float = 0.0

    keeps_means: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("link", self.link, get_args(Link))
        arguments.number("intercept", self.intercept)

    def changed(self, block: Block, seed: SeedSequence, index: int) -> Block:
        """Return the block with new means and outcomes."""
        require_common_noise(self, block)
        means = self._inverse(self.intercept + block.means)
        family = "poisson" if self.link == "log" else "bernoulli"
        random = generator(branch(seed, OUTCOMES, index))
        return replace(block, means=means, noise=noise_of(family, means, random))

    def _inverse(self, values: Floats) -> Floats:
        # Imported here: SciPy takes longer to import than the rest of the environments.
        from scipy.special import expit, ndtr

        functions = {"logit": expit, "probit": ndtr, "log": np.exp}
        return np.asarray(functions[self.link](values), dtype=np.float64)
