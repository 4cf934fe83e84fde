"""What one meets first at a prompt: names, signatures, first arguments, frames."""

import importlib
import inspect
import re
import sys
import types

import numpy as np
import pytest

import seqbatch
from seqbatch import grids, theory
from seqbatch.checks.report import named
from seqbatch.document import Table
from seqbatch.environments import ArrayEnvironment, FeaturePool, Sphere, WorstCase
from seqbatch.policies import RBGL, SBUCB, EpsilonGreedy, FixedAction, LinUCB, Oracle, SupSBUCB
from seqbatch.simulation import simulate
from tests.documents import ROOT
from tests.refusals import refused

#: Modules with a page of reference that are not reached as an attribute of the package.
ELSEWHERE = {"client", "seqbatch", "service"}
#: The longest annotation of a parameter, in characters.
LONGEST = 100
SHORT = (
    "allocation", "checks", "core", "environments", "grids", "inference", "planning", "policies",
    "simulation", "theory",
)  # fmt: skip
#: Modules with a page of reference.
SIGNED = sorted(
    page.stem
    for page in (ROOT / "docs" / "reference").glob("*.md")
    if "::: seqbatch" in page.read_text(encoding="utf-8")
)


def test_a_tab_shows_what_is_public_and_all_of_it():
    shown = set(dir(seqbatch))
    reference = (ROOT / "docs" / "reference").glob("*.md")
    pages = {page.stem for page in reference if "::: seqbatch" in page.read_text(encoding="utf-8")}
    classes = {name for name in shown if name[0].isupper()}
    assert shown - classes - {"__version__"} == pages - ELSEWHERE
    assert classes == {name for name in seqbatch.__all__ if name[0].isupper()} | {
        "AsyncClient", "Client"
    }  # fmt: skip
    assert all(hasattr(seqbatch, name) for name in shown)


@pytest.mark.parametrize("room", sorted(seqbatch.ROOMS))
def test_a_tab_in_a_room_shows_its_public_names(room):
    module = importlib.import_module(f"seqbatch.{room}")
    assert dir(module) == sorted(module.__all__)


def public(room):
    module = importlib.import_module("seqbatch" if room == "seqbatch" else f"seqbatch.{room}")
    for name in getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"]):
        one = getattr(module, name)
        if not getattr(one, "__module__", "").startswith("seqbatch"):
            continue
        if inspect.isclass(one) and not issubclass(one, Exception):
            methods = {
                k: v
                for k, v in inspect.getmembers(one, inspect.isroutine)
                if k[0] != "_" and (getattr(v, "__module__", "") or "").startswith("seqbatch")
            }
            yield from {name: one, **{f"{name}.{k}": v for k, v in methods.items()}}.items()
        elif inspect.isfunction(one):
            yield name, one


@pytest.mark.parametrize("room", SHORT)
def test_signatures_fit_on_a_screen(room):
    long = [
        f"{name}({parameter.name}: {written})"
        for name, one in public(room)
        for parameter in inspect.signature(one).parameters.values()
        if len(written := inspect.formatannotation(parameter.annotation)) > LONGEST
    ]
    assert long == []


@pytest.mark.parametrize("room", SIGNED)
def test_signatures_are_readable(room):
    # The value of a default, or the place of a class, that a reader can do nothing with.
    unreadable = [
        f"{name}{signature}"
        for name, one in public(room)
        if re.search(
            r" at 0x|<class |numpy\._|\b_[a-z]\w*\.", signature := str(inspect.signature(one))
        )
    ]
    assert unreadable == []


def test_the_first_argument_may_be_positional_where_it_is_obvious():
    assert grids.minimax(20_000, dim=5, batches=3) == grids.minimax(units=20_000, dim=5, batches=3)
    assert grids.uniform(9, batches=3).ends == (3, 6, 9)
    assert grids.online(3).ends == (1, 2, 3)
    assert grids.geometric(100_000, dim=10, batches=3).units == 100_000
    assert grids.sparse(100_000, sparsity=10, batches=2).units == 100_000
    assert theory.adversarial_lower_bound(100, dim=2, batches=3) == (
        theory.adversarial_lower_bound(units=100, dim=2, batches=3)
    )
    assert Oracle([1.0, 2.0]) == Oracle(theta=[1.0, 2.0])
    assert FixedAction(2).action == 2
    assert SBUCB(0.5) == SBUCB(gamma=0.5)
    assert (LinUCB(0.5).gamma, SupSBUCB(0.5).gamma) == (0.5, 0.5)
    assert EpsilonGreedy(0.3) == EpsilonGreedy(epsilon=0.3)
    assert grids.GridRule("uniform", batches=4) == grids.GridRule(kind="uniform", batches=4)
    assert WorstCase((10, 20), dim=4).units == 20
    assert FeaturePool(np.eye(3), theta=[1.0, 0.0, 0.0]).dim == 3
    # The others are named: nobody knows their order.
    with pytest.raises(TypeError):
        grids.minimax(20_000, 5, 3)
    with pytest.raises(TypeError):
        FeaturePool(np.eye(3), [1.0, 0.0, 0.0])


def test_frames_say_what_to_install(monkeypatch):
    run = simulate(RBGL(), Sphere(dim=2, actions=3), grids.explicit([50, 200]), seed=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("not-installed", field="to_pandas") as found:
        run.to_pandas()
    assert "pip install pandas" in str(found.value)
    # A stand-in, as pandas is not among what the tests install.
    monkeypatch.setitem(
        sys.modules,
        "pandas",
        types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns)),
    )
    rows, columns = run.to_pandas()
    assert columns[:3] == ["batch", "units", "regret"]
    assert [row["regret"] for row in rows] == run.regret.tolist()
    assert Table("T", ("a", "b"), []).to_pandas() == ([], ["a", "b"])


def test_frames_of_all_libraries_hold_the_same():
    run = simulate(RBGL(), Sphere(dim=2, actions=3), grids.explicit([50, 200]), seed=1)
    assert run.to_polars()["regret"].to_list() == run.regret.tolist()
    assert run.to_arrow()["regret"].to_pylist() == run.regret.tolist()


def test_arrays_are_not_written_out():
    world = ArrayEnvironment(np.ones((500, 2)), np.ones((500, 3)))
    assert repr(world) == "<ArrayEnvironment: 500 units, 3 actions, dim 2, block layout>"
    name = named(world)
    assert "contexts = array of shape (500, 2)" in name
    assert "_arrays" not in name
    assert len(name) < 300
