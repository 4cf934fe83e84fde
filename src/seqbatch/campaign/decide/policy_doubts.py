"""Doubts about a declared policy: it may be used, but another one is safer."""

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.errors import Doubt
from seqbatch.policies.estimation import EstimatingPolicy

#: A greedy policy with pooled estimates, over more waves than two.
LOCKS_IN = "locks-in"


def policy_doubts(now: Situation) -> tuple[Doubt, ...]:
    """Return what may go wrong with a campaign's policy."""
    policy = now.made_policy()
    if not isinstance(policy, EstimatingPolicy) or not policy.pooling or not policy.greedy:
        return ()
    # The last wave teaches nothing to a later one.
    if len(now.sizes) < 3 or policy.explored:
        return ()
    said = (
        f'policy {now.policy["kind"]} with estimate = "pooled" is greedy and may lock in: if the '
        "first wave makes actions look equally good, the others hardly get any units, and nothing "
        'corrects that (measured: docs/quality.md). Declare kind = "ThompsonSampling" with '
        'estimate = "pooled", which explores until the last wave, or kind = "JointRidge".'
    )
    return (Doubt(LOCKS_IN, (said,)),)
