"""Objects that cannot be compared with an earlier run are refused by name, before any work."""

import importlib
import json
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

import seqbatch
from seqbatch.environments import Uniform
from seqbatch.grids import GridRule
from seqbatch.policies import SBUCB
from seqbatch.simulation import Line, resumable_tasks
from seqbatch.simulation.resumable_tasks import fingerprint
from tests.refusals import refused
from tests.studies import runs_of


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
        runs_of(environments={"u": Uniform(dim=2, actions=2)}, horizons=[100], trials=1,
              policies={"a": Line(Locked(), GridRule(kind="uniform"))},
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


#: A user's module, its helper, and changes of what the first one uses of both.
USED = {
    "mine": """
import threading
import numpy as np
import polars
import helpers
from helpers import third
from seqbatch.policies import SBPE

LOCK = threading.Lock()
FACTOR = 2.0
TABLE = {"a": np.arange(3), "b": [1, 2]}
UNUSED = 1

def twice(x):
    return x * FACTOR

def use(x):
    def inner(y):
        return helpers.first(y) + twice(y) + TABLE["b"][0] + np.sum(y)
    with LOCK:
        return inner(x) if isinstance(x, SBPE) else polars.Series([third(x)])

class Plain:
    def method(self):
        return use(self)

    @property
    def attribute(self):
        return twice(self)
""",
    "helpers": """
BASE = 7

def first(x):
    return second(x)

def second(x):
    return x + BASE

def third(x):
    return first(x) * 3 if x else use_again(x)

def use_again(x):
    return third(x - 1)

def unused(x):
    return 0
""",
}
CHANGES = {
    "a global number": ("mine", "FACTOR = 2.0", "FACTOR = 2.5"),
    "a cell of a global array": ("mine", "np.arange(3)", "np.arange(3) + 1"),
    "a helper beside it": ("mine", "x * FACTOR", "x / FACTOR"),
    "a default of a helper": ("mine", "def twice(x)", "def twice(x=1)"),
    "a number that a helper's helper uses": ("helpers", "BASE = 7", "BASE = 8"),
    "a helper's helper": ("helpers", "x + BASE", "x - BASE"),
    "a helper that was imported by name": ("helpers", "* 3", "* 4"),
}
IGNORED = {
    "a global number that is not used": ("mine", "UNUSED = 1", "UNUSED = 2"),
    "a function that is not used": ("helpers", "return 0", "return 1"),
}


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Return a function that imports the modules anew, after a change of their text."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(module="mine", old="", new=""):
        for name, text in USED.items():
            (tmp_path / f"{name}.py").write_text(text.replace(old, new) if name == module else text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("mine")

    yield made
    for name in USED:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_function_uses_by_name_counts(imported, change):
    before = fingerprint(imported().use)
    assert fingerprint(imported(*CHANGES[change]).use) != before
    assert fingerprint(imported().use) == before


@pytest.mark.parametrize("change", IGNORED)
def test_what_a_function_does_not_use_may_change(imported, change):
    before = fingerprint(imported().use)
    assert fingerprint(imported(*IGNORED[change]).use) == before


@pytest.mark.parametrize("change", [name for name in CHANGES if "helper's" in name])
def test_what_methods_use_in_other_modules_counts(imported, change):
    before = fingerprint(imported().Plain())
    assert fingerprint(imported(*CHANGES[change]).Plain()) != before
    assert fingerprint(imported().Plain()) == before


REGISTRY = {}


def registered(function):
    REGISTRY[function.__name__] = function
    return function


@registered
def one(x):
    return REGISTRY["other"](x)


@registered
def other(x):
    return one(x) if x else registered


class Shared:
    """A class whose method uses an instance of it."""

    def method(self):
        return SHARED


SHARED = Shared()


def test_functions_that_use_each_other_and_the_table_that_holds_them():
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(REGISTRY)
    assert fingerprint(SHARED)


def test_a_run_of_another_version_is_not_resumed(tmp_path, monkeypatch):
    given = {
        "environments": {"u": Uniform(dim=2, actions=2)}, "horizons": [100], "trials": 1,
        "policies": {"a": Line(SBUCB(gamma=1.0), GridRule(kind="uniform"))}, "out": tmp_path,
    }  # fmt: skip
    runs_of(**given)
    assert json.loads((tmp_path / "run.json").read_text())["seqbatch"] == seqbatch.__version__
    monkeypatch.setattr(resumable_tasks, "version", lambda _: "9.9")
    with refused("invalid-argument", field="out"):
        runs_of(**given)
