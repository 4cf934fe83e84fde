"""The policy registry: look up a policy by name, build it from plain values, describe it."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from textwrap import shorten
from typing import Any, TypeGuard

import numpy as np

from seqbatch import policies
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import BasePolicy, Policy
from seqbatch.policies.history import History


def kinds() -> dict[str, type[BasePolicy]]:
    """Return every policy of the package, by name.

    >>> sorted(kinds())[:3]
    ['BPE', 'EpsilonGreedy', 'FixedAction']
    """
    named = {name: getattr(policies, name) for name in policies.__all__}
    return {
        name: kind
        for name, kind in named.items()
        if isinstance(kind, type) and issubclass(kind, BasePolicy)
    }


def is_own(policy: Policy) -> TypeGuard[BasePolicy]:
    """Return whether a policy is one of this package itself, so that its rule tells all.

    A subclass may rank, choose or estimate in another way than its rule says.
    """
    return type(policy) in kinds().values()


def make(kind: str, **parameters: Any) -> BasePolicy:
    """Return the policy with this name and these parameters.

    >>> make("SBUCB", gamma=0.5)  # doctest: +NORMALIZE_WHITESPACE
    SBUCB(first=None, ties='lowest', last='same', gamma=0.5, ridge=1.0, waves='same level',
          constant=None, estimate='own', noise=1.0)
    """
    known = kinds()
    if kind not in known:
        raise InvalidArgumentError("kind", f"one of {', '.join(known)}", repr(kind))
    own = {field.name: field for field in fields(known[kind]) if field.init}
    rule = f"parameters of {kind} ({', '.join(own)})"
    for name in parameters:
        if name not in own:
            raise InvalidArgumentError("policy", rule, repr(name), field=name)
    for name, field in own.items():
        if field.default is field.default_factory is MISSING and name not in parameters:
            raise InvalidArgumentError("policy", rule, f"no {name!r}")
    return known[kind](**parameters)


def describe(policy: Policy) -> dict[str, Any]:
    """Return a policy's name and all its parameters as plain values.

    >>> describe(make("SBPE"))  # doctest: +NORMALIZE_WHITESPACE
    {'kind': 'SBPE', 'first': None, 'ties': 'lowest', 'last': 'same', 'unknown': 'zero',
     'waves': 'same level', 'constant': None, 'estimate': 'own'}
    """
    described: dict[str, Any] = {"kind": type(policy).__qualname__}
    if isinstance(policy, policies.ModelPolicy):
        return described | policy.described()
    names: list[str] = (
        [field.name for field in fields(policy) if field.init] if is_dataclass(policy) else []
    )
    for name in names:
        value = getattr(policy, name)
        # Long and rare: a policy without them is described without them.
        if name in ("design", "history") and value is None:
            continue
        if isinstance(value, History):
            value = value.plain()
        described[name] = value.item() if isinstance(value, np.generic) else value
    return described


def text(described: Mapping[str, Any]) -> str:
    """Return a described policy as readable text: its name and what differs from the defaults.

    >>> text({"kind": "SBUCB", "gamma": 0.5, "ridge": 1.0})
    'SBUCB(gamma = 0.5)'
    """
    kind = kinds().get(described["kind"])
    usual = {} if kind is None else {field.name: field.default for field in fields(kind)}
    # A parameter can be a table of a thousand numbers: show only its beginning.
    parameters = [
        f"{name} = {shorten(str(value), 60, placeholder=' ...')}"
        for name, value in described.items()
        if name != "kind" and (name not in usual or value != usual[name])
    ]
    return f"{described['kind']}({', '.join(parameters)})" if parameters else described["kind"]


# ----------------------------------------------------------------------
# What a policy does, for readers who run campaigns.


GREEDY = "units get the action that looks best for them so far"
HOPEFUL = "units get the action that may turn out best for them, which tries little-known actions"
CHOOSING = "units get the actions that may still be best, so as to find the best one"

#: What each policy does once something is known.
PLAIN = {
    "SBPE": GREEDY,
    "BPE": GREEDY,
    "RBGL": GREEDY,
    "LBGL": GREEDY,
    "JointRidge": GREEDY,
    "SBUCB": HOPEFUL,
    "LinUCB": HOPEFUL,
    "SupSBUCB": HOPEFUL,
    "Lookahead": "the first wave at random, then units get what they earn and teach most with",
    "ThompsonSampling": "each action is given with its probability of being best for the unit",
    "EpsilonGreedy": f"{GREEDY}, except for a share that gets a random one",
    "UniformRandom": "all units get an action at random",
    "FixedAction": "all units get the same action",
}


def plainly(policy: Mapping[str, Any]) -> str:
    """Return what a policy does, in a clause.

    >>> plainly({"kind": "SBPE", "first": "uniform"})
    'the first wave at random, then units get the action that looks best for them so far'
    >>> plainly({"kind": "UniformRandom"})
    'all units get an action at random'
    >>> plainly({"kind": "ThompsonSampling", "last": "greedy"}).partition(", ")[2]
    'but in the last wave the one that looks best'
    """
    begins = {"uniform": "at random", "design": "where it teaches most"}
    known = begins.get(policy.get("first", ""))
    first = "" if known is None else f"the first wave {known}, then "
    rest = CHOOSING if policy.get("objective") == "choose" else PLAIN[policy["kind"]]
    differs = policy.get("last") == "greedy" and rest != GREEDY
    return first + rest + (", but in the last wave the one that looks best" if differs else "")
