"""Conformance checks for policies and environments, the package's own or a user's.

>>> from seqbatch import checks
>>> from seqbatch.environments import Sphere
>>> from seqbatch.policies import RBGL
>>> checks.check_policy(RBGL(ridge=2.0))
>>> checks.check_environment(Sphere(dim=3, actions=2))

What breaks a rule gets an error that says which one and how. With pytest, run each check as a test
of its own::

    @pytest.mark.parametrize("check", checks.POLICY_CHECKS, ids=lambda check: check.__name__)
    def test_my_policy(check):
        check(MyPolicy(...))
"""

from seqbatch.checks.environments import (
    ENVIRONMENT_CHECKS,
    EnvironmentCheckError,
    check_environment,
)
from seqbatch.checks.policies import (
    POLICY_CHECKS,
    PolicyCheckError,
    check_policy,
    own_policies,
)

__all__ = [
    "ENVIRONMENT_CHECKS",
    "POLICY_CHECKS",
    "EnvironmentCheckError",
    "PolicyCheckError",
    "check_environment",
    "check_policy",
    "own_policies",
]
