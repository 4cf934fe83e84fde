"""The tables of methods: policies, what one would write by hand, and libraries."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.quality.peers import PEERS
from benchmarks.quality.players import (
    BestArm,
    ByHand,
    Method,
    PolicyPlayer,
    Setting,
    boosted,
    logistic,
    ridge_by_cv,
)
from seqbatch import policies
from seqbatch.policies import Policy


def _model(setting: Setting) -> Any:
    """Make scikit-learn's logistic regression; ridge where outcomes are numbers."""
    from sklearn.linear_model import LogisticRegression, Ridge

    return LogisticRegression(max_iter=1_000) if setting.yes_or_no else Ridge()


#: The policies, and how each is made from what is known before the first unit. To add one, add a
#: line. SBUCB(paper) has the paper's gamma.
POLICIES: Mapping[str, Callable[[Setting], Policy]] = {
    "JointRidge": lambda _: policies.JointRidge(constant=0, estimate="averaged"),
    "JointRidge, wave levels": lambda _: policies.JointRidge(
        constant=0, estimate="averaged", waves="own level"
    ),
    "JointRidge, cross-validated": lambda _: policies.JointRidge(constant=0),
    "SBPE": lambda _: policies.SBPE(first="uniform"),
    "SBPE, pooled": lambda _: policies.SBPE(first="uniform", estimate="pooled", constant=0),
    "Thompson, pooled, greedy last": lambda _: policies.ThompsonSampling(
        first="uniform", estimate="pooled", constant=0, scale="outcomes", last="greedy"
    ),
    "Thompson, greedy last": lambda _: policies.ThompsonSampling(
        first="uniform", scale="outcomes", last="greedy"
    ),
    "RBGL(1)": lambda _: policies.RBGL(first="uniform"),
    "RBGL(10)": lambda _: policies.RBGL(ridge=10, first="uniform"),
    "SBUCB(paper)": lambda _: policies.SBUCB(first="uniform"),
    "SBUCB(1)": lambda _: policies.SBUCB(gamma=1, first="uniform"),
    "LBGL": lambda _: policies.LBGL(),
    "Thompson(1)": lambda _: policies.ThompsonSampling(scale=1.0, first="uniform"),
    "ModelPolicy, logistic": lambda s: policies.ModelPolicy(_model(s)),
    "Thompson(noise)": lambda s: policies.ThompsonSampling(scale=s.noise, first="uniform"),
}
#: Policies that are told the noise are no defaults.
TOLD = {"Thompson(noise)"}
#: What campaigns use. Others are compared with pure exploitation, and with a test whose best action
#: everybody gets.
DEFAULT, REFERENCE, TEST = "JointRidge", "SBPE", "A/B test"


def _policy(name: str, make: Callable[[Setting], Policy]) -> Method:
    return Method(
        name,
        lambda setting: PolicyPlayer(make(setting), setting),
        "seqbatch",
        linear=name not in {*TOLD, "ModelPolicy, logistic"},
    )


BY_HAND = (
    Method("logistic regressions", lambda s: ByHand(logistic, s), "by hand"),
    Method("ridge by cross-validation", lambda s: ByHand(ridge_by_cv, s), "by hand", linear=True),
    Method(TEST, BestArm, "by hand"),
    Method("boosted trees", lambda s: ByHand(boosted, s), "by hand", seeds=4),
)
OURS = tuple(_policy(name, make) for name, make in POLICIES.items())
METHODS: Mapping[str, Method] = {one.name: one for one in (*OURS, *BY_HAND, *PEERS)}
