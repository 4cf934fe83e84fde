"""Objects that cannot be compared with an earlier run are refused by name, before any work."""

import random
import re
import subprocess
import sys
import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial, update_wrapper

import numpy as np
import polars as pl
import pytest
from numba import njit

from seqbatch.environments import Uniform
from seqbatch.grids import GridRule
from seqbatch.policies import SBUCB
from seqbatch.simulation import Line, sweep
from seqbatch.simulation.resumable_tasks import fingerprint
from tests.refusals import refused


class Locked(SBUCB):
    """A policy that keeps what no run can compare."""

    def __init__(self):
        super().__init__(gamma=1.0)
        object.__setattr__(self, "lock", threading.Lock())


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


@dataclass(frozen=True, slots=True)
class Compact:
    """Fields in slots."""

    field: int


class Extended(Compact):
    """Fields in slots, and others beside them."""

    def __init__(self, field):
        super().__init__(field)
        self.__dict__["other"] = 1


def scale(factor, value):
    """Return a product."""
    return factor * value


SCRIPT = """
import random, re
from numba import njit
from seqbatch.simulation.resumable_tasks import fingerprint
print(*map(fingerprint, (re.compile("a+", re.I), random.Random(3), njit(lambda x: x + 1))))
"""


@pytest.mark.parametrize(
    "make",
    [
        lambda n: re.compile("ab"[n]),
        lambda n: re.compile("a", (re.I, re.M)[n]),
        lambda n: random.Random(n),
        lambda n: np.random.default_rng(n),
        lambda n: partial(scale, n),
        lambda n: update_wrapper(partial(scale, n), scale),
        lambda n: partial(scale, n).__call__,
        lambda n: Slotted(n),
        lambda n: Extended(n),
        lambda n: Extended(n).__eq__,
        lambda n: defaultdict((int, list)[n], a=1),
        lambda n: deque([1], maxlen=n + 1),
        lambda n: np.ma.array([1, 2], mask=[n, 0]),
        lambda n: np.array([n, None], dtype=object),
        lambda n: pl.DataFrame({"a": [n]}),
        lambda n: njit((lambda x: x + 1, lambda x: x + 2)[n]),
    ],
)
def test_what_differs_within_an_object_is_seen_wherever_it_is_kept(make):
    assert fingerprint(make(0)) == fingerprint(make(0))
    assert fingerprint(make(0)) != fingerprint(make(1))


def test_another_process_finds_the_same():
    first, second = (
        subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True).stdout
        for _ in range(2)
    )
    assert first == second != b""


def test_a_policy_that_cannot_be_compared_is_named(tmp_path):
    with refused(
        "invalid-argument",
        match=r"^_thread\.lock in tests\.simulation\.test_fingerprint\.Locked in .*\.Line ",
    ):
        sweep(environments={"u": Uniform(dim=2, actions=2)}, horizons=[100], trials=1,
              lines={"a": Line(Locked(), GridRule(kind="uniform"))},
              out=tmp_path / "run")  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_what_refuses_to_be_taken_apart_is_named_wherever_it_is():
    generator = (number for number in range(3))

    def use():
        return generator

    held = r"^builtins\.generator in .*"
    for value, holder in ((use, "<locals>.use"), (Slotted([{"a": generator}]), "Slotted")):
        with refused("invalid-argument", match=f"{held}{holder} "):
            fingerprint(value)


def test_a_variable_that_is_not_set_is_named():
    def scaled(value):
        return later * value

    with refused("invalid-argument", match=r"^later in .*<locals>\.scaled "):
        fingerprint(scaled)
    later = 2
    assert scaled(1) == later
    assert fingerprint(scaled)


def test_a_chain_of_objects_is_refused_in_words():
    chain = None
    for _ in range(5_000):
        chain = Slotted(chain)
    with refused("invalid-argument", field="the settings of a run"):
        fingerprint(chain)
