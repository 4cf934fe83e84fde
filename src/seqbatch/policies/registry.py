"""Every policy by its name: find it, make it from plain values, describe it, write it out."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from seqbatch import policies
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import BasePolicy, Policy


def kinds() -> dict[str, type[BasePolicy]]:
    """Return every policy of the package by its name.

    >>> sorted(kinds())[:3]
    ['BPE', 'EpsilonGreedy', 'FixedAction']
    """
    named = {name: getattr(policies, name) for name in policies.__all__}
    return {
        name: kind
        for name, kind in named.items()
        if isinstance(kind, type) and issubclass(kind, BasePolicy)
    }


def make(kind: str, **parameters: Any) -> BasePolicy:
    """Return the policy of a name, with these parameters.

    >>> make("SBUCB", gamma=0.5)
    SBUCB(first='fixed', ties='lowest', gamma=0.5, ridge=1.0)
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
    """Return a policy's name and all of its parameters as plain values.

    >>> describe(make("SBPE"))
    {'kind': 'SBPE', 'first': 'fixed', 'ties': 'lowest', 'unknown': 'zero'}
    """
    described: dict[str, Any] = {"kind": type(policy).__qualname__}
    names: list[str] = [field.name for field in fields(policy)] if is_dataclass(policy) else []
    for name in names:
        value = getattr(policy, name)
        described[name] = value.item() if isinstance(value, np.generic) else value
    return described


def text(described: Mapping[str, Any]) -> str:
    """Return a described policy as a person would write it.

    >>> text({"kind": "SBUCB", "gamma": 0.5, "ridge": 1.0})
    'SBUCB(gamma = 0.5, ridge = 1.0)'
    """
    # A table of a thousand numbers is a parameter too, and shown by its beginning.
    parameters = [
        f"{name} = {shorten(str(value), 60, placeholder=' ...')}"
        for name, value in described.items()
        if name != "kind"
    ]
    return f"{described['kind']}({', '.join(parameters)})"
