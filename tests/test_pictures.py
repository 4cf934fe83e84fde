"""The colours of pictures."""

from seqbatch import pictures, policies
from seqbatch.policies.base import BasePolicy


def test_every_policy_has_a_colour_of_its_own():
    named = {
        name
        for name in policies.__all__
        if isinstance(kind := getattr(policies, name), type) and issubclass(kind, BasePolicy)
    }
    assert named == set(pictures.POLICIES)
    assert len({*pictures.POLICIES.values(), pictures.OTHER}) == len(named) + 1
