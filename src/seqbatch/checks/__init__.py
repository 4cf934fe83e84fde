"""Conformance checks for policies and environments: the package's and your own.

>>> from seqbatch import checks
>>> from seqbatch.environments import Sphere
>>> from seqbatch.policies import RBGL
>>> checks.check_environment(Sphere(dim=3, actions=2))
Sphere(dim = 3, actions = 2, layout = shared, noise = 1.0, norm = 1.0) keeps 7 rules:
  description: The attributes actions, dim, layout, units and instance exist and are valid.
  shapes: Blocks have the layout's shapes, finite numbers, draws in [0, 1), eligible actions.
  means: Means are <x, theta>, in an environment that states a theta.
  noise: Noise averages to 0 under every action, within 6 standard errors.
  determinism: The same seed gives the same instance and units; blocks may be drawn in any order.
  seeds differ: Different seeds and different blocks give different draws.
  no shared memory: Modifying a block does not change later blocks.
>>> len(checks.check_policy(RBGL(ridge=2.0)).rules)
11

If a rule is broken, the error says which one and what was returned. With pytest, run each check as
a separate test::

    @pytest.mark.parametrize("check", checks.POLICY_CHECKS, ids=lambda check: check.__name__)
    def test_my_policy(check):
        check(MyPolicy(...))
"""

from seqbatch.checks.cases import PolicyCheckError
from seqbatch.checks.environments import (
    ENVIRONMENT_CHECKS,
    EnvironmentCheckError,
    check_environment,
)
from seqbatch.checks.policies import (
    POLICY_CHECKS,
    check_policy,
    own_policies,
)
from seqbatch.checks.report import CheckReport

__all__ = [
    "ENVIRONMENT_CHECKS",
    "POLICY_CHECKS",
    "CheckReport",
    "EnvironmentCheckError",
    "PolicyCheckError",
    "check_environment",
    "check_policy",
    "own_policies",
]


def __dir__() -> list[str]:
    return __all__
