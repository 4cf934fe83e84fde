"""Simulated environments: contexts and rewards with a known truth, one family per file."""

from seqbatch.environments.adversary import WorstCase
from seqbatch.environments.arrays import ArrayEnvironment, classification, logged_table
from seqbatch.environments.ball import Ball
from seqbatch.environments.base import BLOCK, Block, Environment, Instance
from seqbatch.environments.correlated import CorrelatedGaussian
from seqbatch.environments.delayed import Delayed
from seqbatch.environments.drifting import Drifting
from seqbatch.environments.gaussian import Gaussian
from seqbatch.environments.general import GeneralEnvironment
from seqbatch.environments.generalized_linear import GeneralizedLinear
from seqbatch.environments.linear import LinearEnvironment
from seqbatch.environments.misspecified import Misspecified
from seqbatch.environments.pool import FeaturePool
from seqbatch.environments.restricted import Restricted
from seqbatch.environments.sphere import Sphere
from seqbatch.environments.student import StudentT
from seqbatch.environments.uniform import Uniform

__all__ = [
    "BLOCK",
    "ArrayEnvironment",
    "Ball",
    "Block",
    "CorrelatedGaussian",
    "Delayed",
    "Drifting",
    "Environment",
    "FeaturePool",
    "Gaussian",
    "GeneralEnvironment",
    "GeneralizedLinear",
    "Instance",
    "LinearEnvironment",
    "Misspecified",
    "Restricted",
    "Sphere",
    "StudentT",
    "Uniform",
    "WorstCase",
    "classification",
    "logged_table",
]


def __dir__() -> list[str]:
    return __all__
