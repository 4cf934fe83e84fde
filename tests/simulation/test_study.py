"""Sweeps are paired, resumable after any death, and the same on one process or two."""

import importlib
import os
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from seqbatch import grids
from seqbatch.environments import FeaturePool, Gaussian, Uniform, WorstCase
from seqbatch.grids import GridRule
from seqbatch.policies import RBGL, SBPE, SBUCB, LinUCB
from seqbatch.simulation import Line, Study, simulate
from seqbatch.simulation.resumable_tasks import fingerprint
from seqbatch.simulation.study import Trial
from seqbatch.simulation.summaries import paired, slopes, summarise
from tests.refusals import refused
from tests.studies import runs_of

TWO = GridRule(kind="minimax", batches=2)


def arguments(**changes):
    return {
        "environments": {
            "uniform": Uniform(dim=3, actions=3),
            "gaussian": Gaussian(dim=3, actions=3),
        },
        "policies": {
            "SBPE": Line(SBPE(), TWO),
            "RBGL": Line(RBGL(), TWO),
            "SBUCB": Line(SBUCB(gamma=0.5), GridRule(kind="uniform", batches=5)),
        },
        "horizons": (500, 1_000, 2_000),
        "trials": 4,
        "seed": 7,
        **changes,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return runs_of(**arguments(), out=tmp_path_factory.mktemp("whole"))


def test_every_run_is_in_the_table(table):
    assert len(table) == 2 * 3 * 3 * 4
    assert table.select("environment", "policy", "units", "trial").is_unique().all()
    assert set(table["batches"]) == {2, 5}
    assert (table["regret"] > 0).all()


@pytest.mark.slow
def test_two_processes_give_the_same_bytes(table, tmp_path):
    runs_of(**arguments(), out=tmp_path / "two", jobs=2)
    again = runs_of(**arguments(), out=tmp_path / "one")
    assert again.equals(table)
    files = [tmp_path / name / "results.parquet" for name in ("one", "two")]
    assert len({file.read_bytes() for file in files}) == 1


def test_adding_an_environment_or_trials_changes_no_other_run(table, tmp_path):
    fewer = arguments(trials=2)
    del fewer["environments"]["gaussian"]
    small = runs_of(**fewer, out=tmp_path)
    kept = table.filter((pl.col("environment") == "uniform") & (pl.col("trial") < 2))
    assert small.equals(kept)


def test_progress_is_reported_and_finished_trials_are_not_repeated(tmp_path, monkeypatch):
    seen = []
    runs_of(**arguments(), out=tmp_path, report=seen.append)
    assert [progress.done for progress in seen] == list(range(9))
    assert seen[-1].total == 8
    monkeypatch.setattr(Trial, "__call__", lambda _: pytest.fail("repeated"))
    again = []
    runs_of(**arguments(), out=tmp_path, report=again.append)
    assert [(p.done, p.resumed) for p in again] == [(8, 8)]


def test_a_folder_with_another_run_is_refused(tmp_path):
    runs_of(**arguments(trials=1), out=tmp_path)
    with refused("invalid-argument", field="out"):
        runs_of(**arguments(trials=1, seed=8), out=tmp_path)


SCRIPT = """
import sys
from tests.studies import runs_of
from tests.simulation.test_study import arguments
if __name__ == "__main__":
    out, jobs = sys.argv[1:]
    show = lambda progress: print(progress.done, flush=True)
    runs_of(**arguments(trials=12), out=out, jobs=int(jobs), report=show)
"""


@pytest.mark.slow
def test_killed_and_resumed_it_ends_in_the_same_bytes(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    path = os.pathsep.join([str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(script)]
    subprocess.run([*command, str(tmp_path / "whole"), "1"], check=True, env=environment,
                   capture_output=True)  # fmt: skip
    killed = tmp_path / "killed"
    for wanted in (5,):
        process = subprocess.Popen(
            [*command, str(killed), "2"], stdout=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        for line in process.stdout:
            if int(line) >= wanted:
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert not (killed / "results.parquet").exists()
    subprocess.run([*command, str(killed), "2"], check=True, env=environment,
                   capture_output=True)  # fmt: skip
    results = [(tmp_path / name / "results.parquet").read_bytes() for name in ("whole", "killed")]
    assert results[0] == results[1]


def made(values, units=(100, 1_000)):
    return pl.DataFrame(
        [
            {"environment": "e", "policy": p, "units": T, "batches": 2, "trial": t, "regret": v}
            for p, by_units in values.items()
            for T, by_trial in zip(units, by_units, strict=True)
            for t, v in enumerate(by_trial)
        ]
    )


def test_summary():
    table = made({"a": [[1.0, 3.0], [5.0, 5.0]]})
    result = summarise(table)
    assert result["mean"].to_list() == [2.0, 5.0]
    assert result["sd"].to_list() == pytest.approx([np.sqrt(2), 0.0])
    # Student's factor for one degree of freedom is 12.706.
    assert (result["high"] - result["mean"]).to_list() == pytest.approx([12.7062, 0.0], rel=1e-4)
    single = summarise(made({"a": [[1.0], [2.0]]}))
    assert single["low"].to_list() == single["high"].to_list() == [None, None]


def test_slopes():
    exact = made({"a": [[10.0, 10.0], [100.0, 100.0]], "b": [[2.0, 4.0], [2.0, 4.0]]})
    result = {row["policy"]: row for row in slopes(exact).iter_rows(named=True)}
    assert result["a"]["slope"] == pytest.approx(1.0)
    assert result["a"]["error"] == pytest.approx(0.0)
    assert result["b"]["slope"] == pytest.approx(0.0, abs=1e-12)
    # The error is what repeating the trials would show.
    random = np.random.default_rng(0)
    values = np.exp(random.normal([[0.0], [np.log(10) / 2]], 0.1, (2, 400)))
    noisy = slopes(made({"a": values.tolist()}))
    spread = 0.1 * np.sqrt(2) / np.log(10) / 20
    assert noisy["error"][0] == pytest.approx(spread, rel=0.1)
    assert abs(noisy["slope"][0] - 0.5) < 4 * spread


def test_slopes_and_their_errors_are_those_of_least_squares_without_each_trial():
    units = (10, 30, 40, 900)
    values = np.random.default_rng(2).uniform(1, 9, (4, 5))

    def slope(trials):
        return np.polyfit(np.log(units), np.log(values[:, trials].mean(axis=1)), 1)[0]

    everybody = list(range(5))
    single = np.array([slope([t for t in everybody if t != left]) for left in everybody])
    error = np.sqrt(4 / 5 * ((single - single.mean()) ** 2).sum())
    [row] = slopes(made({"a": values.tolist()}, units)).iter_rows(named=True)
    assert row["slope"] == pytest.approx(slope(everybody))
    assert row["error"] == pytest.approx(error)


@pytest.mark.slow
def test_the_error_of_a_slope_is_right_for_skewed_values():
    """Against the spread of the slope over many repetitions of the whole."""
    random = np.random.default_rng(1)

    def once():
        return slopes(made({"a": np.exp(random.normal(0, 1, (2, 50))).tolist()}))

    results = [once() for _ in range(300)]
    spread = np.std([result["slope"][0] for result in results])
    claimed = np.mean([result["error"][0] for result in results])
    assert claimed == pytest.approx(spread, rel=0.15)


def test_any_change_of_the_declaration_is_seen(tmp_path):
    rows = np.random.default_rng(0).standard_normal((500, 3))
    other = rows.copy()
    other[250] *= 2  # in the part that a printed array leaves out
    pools = [FeaturePool(rows=r, theta=[1.0, 1.0, 1.0]) for r in (rows, other)]
    line = {"a": Line(SBPE(), TWO)}
    common = {"policies": line, "horizons": [100], "trials": 1, "out": tmp_path}
    runs_of(environments={"pool": pools[0]}, **common)
    with refused("invalid-argument", field="out"):
        runs_of(environments={"pool": pools[1]}, **common)
    assert len(runs_of(environments={"pool": pools[0]}, **{**common, "trials": 3})) == 3


def test_a_plain_class_can_be_resumed(tmp_path):
    class Plain(SBPE):
        pass

    for _ in range(2):
        lines = {"a": Line(Plain(), TWO)}
        environments = {"u": Uniform(dim=2, actions=2)}
        runs_of(
            environments=environments, policies=lines, horizons=[100], trials=1, out=tmp_path
        )  # fmt: skip


def test_a_truncated_part_is_done_again(table, tmp_path):
    runs_of(**arguments(), out=tmp_path)
    part = next((tmp_path / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:50])
    assert runs_of(**arguments(), out=tmp_path).equals(table)


class Broken(SBPE):
    """A policy that fails as its first batch ends."""

    def close(self, state):  # noqa: ARG002
        raise ZeroDivisionError


@pytest.mark.parametrize("environment", [Uniform(dim=3, actions=3), Gaussian(dim=3, actions=3)])
def test_an_error_in_a_trial_names_the_run_and_does_not_hold_the_folder(environment, tmp_path):
    broken = arguments(policies={"fine": SBPE(), "mine": Broken()}, batches=[2], horizons=[1_000])
    with pytest.raises(ZeroDivisionError) as caught:
        runs_of(**broken | {"environments": {"world": environment}}, out=tmp_path)
    assert caught.value.__notes__ == [
        "In the policy mine on 2 batches of 1,000 units.",
        "In world/0.",
    ]
    assert (tmp_path / "run.json").exists()
    runs_of(**arguments(trials=1), out=tmp_path)


def test_a_grid_that_cannot_be_made_is_found_before_any_trial(tmp_path):
    uniform = Line(SBPE(), GridRule(kind="uniform"))
    geometric = Line(SBPE(), GridRule(kind="geometric"))
    with refused("invalid-grid", field="units") as caught:
        runs_of(
            environments={"low": Uniform(dim=2, actions=2), "high": Uniform(dim=20, actions=2)},
            policies={"a": uniform, "b": geometric}, horizons=[300], trials=1, out=tmp_path / "run",
        )  # fmt: skip
    assert caught.value.__notes__ == [
        "In the grid of 'b' at T = 300.",
        "In the environment high.",
    ]
    assert not (tmp_path / "run").exists()


def test_a_policy_that_cannot_begin_is_found_before_any_trial():
    with refused("invalid-argument", field="grid") as caught:
        Study(**arguments(policies={"fine": SBPE(), "one": Line(LinUCB(), TWO)}))
    assert caught.value.__notes__ == [
        "In the policy one on 2 batches of 500 units.",
        "In the environment uniform.",
    ]


def test_tables_of_few_and_many_batches_join(tmp_path):
    rule = GridRule(kind="uniform", batches="adversarial")
    environments = {"b": Uniform(dim=20, actions=2), "a": Uniform(dim=1, actions=2)}
    result = runs_of(environments=environments, policies={"x": Line(SBUCB(), rule)}, horizons=[400],
                   trials=1, out=tmp_path)  # fmt: skip
    assert sorted(map(len, result["ends"])) == [0, result["batches"].min()]


def test_auto_collapses_all_lines_or_none(tmp_path):
    both = {"SBPE": Line(SBPE(), TWO), "SBUCB": Line(SBUCB(), TWO)}
    common = {"environments": {"g": Gaussian(dim=2, actions=2)}, "horizons": [500], "trials": 2}
    mixed = runs_of(**common, policies=both, out=tmp_path / "mixed")
    direct = runs_of(**common, policies=both, out=tmp_path / "direct", method="direct")
    assert mixed.equals(direct)
    alone = runs_of(**common, policies={"SBPE": both["SBPE"]}, out=tmp_path / "alone")
    assert not alone["regret"].equals(direct.filter(pl.col("policy") == "SBPE")["regret"])


def test_paired_differences():
    table = made({"a": [[1.0, 11.0], [5.0, 6.0]], "b": [[2.0, 12.0], [5.0, 8.0]]})
    result = paired(table, base="a")
    assert result["policy"].to_list() == ["b", "b"]
    assert result["difference"].to_list() == [1.0, 1.0]
    assert result["error"].to_list() == pytest.approx([0.0, 1.0])


OWN = """
from dataclasses import dataclass, replace
from seqbatch.policies import SBPE
SIGN = 1
@dataclass(frozen=True, kw_only=True)
class Own(SBPE):
    def rank(self, state, contexts):
        ranking = super().rank(state, contexts)
        return replace(ranking, scores=SIGN * ranking.scores)
"""


def own_policy(module, text, tmp_path, monkeypatch):
    """Return a policy of a user's module, or of their notebook, which has no file."""
    if module == "__main__":
        namespace = {"__name__": module}
        exec(text.replace("SIGN *", "-" if "-1" in text else "+"), namespace)
        return namespace["Own"]()
    (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    sys.modules.pop(module, None)
    return importlib.import_module(module).Own()


@pytest.mark.parametrize("module", ["own_policy_module", "__main__"])
def test_a_policy_of_ones_own_that_was_edited_is_another_run(module, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(text):
        policy = own_policy(module, text, tmp_path, monkeypatch)
        return runs_of(environments={"u": Uniform(dim=2, actions=2)}, horizons=[100], trials=1,
                     policies={"a": Line(policy, TWO)}, out=tmp_path / "run")  # fmt: skip

    assert run(OWN).equals(run(OWN))
    with refused("invalid-argument", field="out"):
        run(OWN.replace("SIGN = 1", "SIGN = -1"))


def test_functions_count_by_what_they_do():
    def by(factor):
        return lambda value: factor * value

    different = [by(2), by(3), partial(by, 2), partial(by, 3), np.exp, np.log, {"a"}, {"b"},
                 Path("a"), Path("b"), [].append, "a".join]  # fmt: skip
    assert len(set(map(fingerprint, different))) == len(different)
    assert fingerprint(by(2)) == fingerprint(by(2))
    names = [np.array([f"unit {number}", None], dtype=object) for number in (1, 1, 2)]
    assert [fingerprint(name) == fingerprint(names[0]) for name in names] == [True, True, False]

    def countdown(number):
        return countdown(number - 1) if number else 0

    assert fingerprint(countdown) != fingerprint(by)
    assert fingerprint({"a", "b", "c"}) == fingerprint({"c", "b", "a"})


def test_what_an_object_keeps_of_what_it_computed_is_no_part_of_a_run():
    adversary = WorstCase(ends=(10, 20), dim=4)
    before = fingerprint(adversary)
    assert len(adversary.pairs) == 2
    assert fingerprint(adversary) == before


class Short:
    """A rule that forgets the last unit."""

    def grid(self, units, dim):  # noqa: ARG002
        return grids.explicit([units // 2, units - 1])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (
            {"policies": {"a": Line(SBPE(), Short())}},
            "the grid of 'a'",
        ),
        (
            {"policies": {"a": Line(SBPE(), grids.explicit([9, 500]))}},
            "the rule of 'a'",
        ),
        ({"policies": {"a": (SBPE(), TWO)}}, "policy"),
        ({"policies": {"a": Line(SBPE, TWO)}}, "policy"),
        ({"environments": {"u": Uniform}}, "environment"),
    ],
)
def test_a_line_that_cannot_run_is_refused_by_name(changes, field, tmp_path):
    with refused("invalid-argument", field=field):
        runs_of(**arguments(trials=1, **changes), out=tmp_path)


def test_a_run_names_what_is_wrong_with_it():
    good = {"policy": SBPE(), "environment": Uniform(dim=2, actions=2), "grid": TWO.grid(50, 2)}
    for name, wrong in (
        ("policy", SBPE),
        ("environment", Uniform),
        ("grid", (9, 50)),
        ("seed", -1),
    ):
        with refused("invalid-argument", field=name):
            simulate(**{**good, name: wrong})


def test_a_difference_from_no_line_is_refused():
    table = made({"a": [[1.0, 11.0], [5.0, 6.0]]})
    with refused("invalid-argument", field="base"):
        paired(table, base="c")
