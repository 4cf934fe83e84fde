"""What a policy does, for people who run campaigns and not policies."""

from collections.abc import Mapping
from typing import Any

GREEDY = "units get the action that looks best for them so far"
HOPEFUL = (
    "units get the action that may turn out best for them, so that little-known ones are tried"
)

#: What each policy does once something is known.
PLAIN = {
    "SBPE": GREEDY,
    "BPE": GREEDY,
    "RBGL": GREEDY,
    "LBGL": GREEDY,
    "SBUCB": HOPEFUL,
    "LinUCB": HOPEFUL,
    "SupSBUCB": HOPEFUL,
    "ThompsonSampling": "units get each action as often as it is likely to be best for them",
    "EpsilonGreedy": f"{GREEDY}, and a share of them a random one",
    "UniformRandom": "all units get an action at random",
    "FixedAction": "all units get the same action",
}


def plainly(policy: Mapping[str, Any]) -> str:
    """Return what a policy does, in a clause.

    >>> plainly({"kind": "SBPE", "first": "uniform"})
    'the first wave at random, then units get the action that looks best for them so far'
    >>> plainly({"kind": "UniformRandom"})
    'all units get an action at random'
    """
    first = "the first wave at random, then " if policy.get("first") == "uniform" else ""
    return first + PLAIN[policy["kind"]]
