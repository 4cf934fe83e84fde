"""The policies: one file per algorithm, each deciding which action every unit gets."""

from seqbatch.policies.base import Feedback, Policy
from seqbatch.policies.bpe import BPE
from seqbatch.policies.design import design_of
from seqbatch.policies.epsilon_greedy import EpsilonGreedy
from seqbatch.policies.fixed_action import FixedAction
from seqbatch.policies.history import History
from seqbatch.policies.joint_ridge import JointRidge
from seqbatch.policies.lbgl import LBGL
from seqbatch.policies.linucb import LinUCB
from seqbatch.policies.lookahead import Lookahead
from seqbatch.policies.model_policy import ModelPolicy
from seqbatch.policies.oracle import Oracle
from seqbatch.policies.rbgl import RBGL
from seqbatch.policies.rule import Decision
from seqbatch.policies.sbpe import SBPE
from seqbatch.policies.sbucb import SBUCB
from seqbatch.policies.supsbucb import SupSBUCB
from seqbatch.policies.thompson import ThompsonSampling
from seqbatch.policies.uniform_random import UniformRandom

__all__ = [
    "BPE",
    "LBGL",
    "RBGL",
    "SBPE",
    "SBUCB",
    "Decision",
    "EpsilonGreedy",
    "Feedback",
    "FixedAction",
    "History",
    "JointRidge",
    "LinUCB",
    "Lookahead",
    "ModelPolicy",
    "Oracle",
    "Policy",
    "SupSBUCB",
    "ThompsonSampling",
    "UniformRandom",
    "design_of",
]


def __dir__() -> list[str]:
    return __all__
