"""Conformance checks for policies and environments, the package's own or a user's.

>>> from seqbatch import checks
>>> from seqbatch.environments import Sphere
>>> from seqbatch.policies import RBGL
>>> checks.check_environment(Sphere(dim=3, actions=2))
Sphere(dim = 3, actions = 2, layout = shared, noise = 1.0, norm = 1.0) keeps 6 rules:
  description: It has actions, dim, layout, units and instance, and they say what there is.
  shapes: Blocks have the layout's shapes, finite numbers, draws in [0, 1), and an action a unit.
  means: Means are <x, theta> wherever there is a theta.
  determinism: The same seed gives the same instance and units; blocks come in any order.
  seeds differ: Other seeds, and other blocks, give other draws.
  no shared memory: Changing a block changes no later one.
>>> len(checks.check_policy(RBGL(ridge=2.0)).rules)
11

What breaks a rule gets an error that says which one, and what was returned. With pytest, run each
check as a test of its own::

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
