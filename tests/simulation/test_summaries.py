"""Summaries of studies: ranks, differences and slopes by hand, simple regret against the truth."""

import numpy as np
import polars as pl
import pytest

from seqbatch import grids
from seqbatch.document import Table
from seqbatch.environments import (
    ArrayEnvironment,
    Gaussian,
    GeneralEnvironment,
    Sphere,
    logged_table,
)
from seqbatch.grids import GridRule
from seqbatch.policies import RBGL, SBPE, SBUCB, FixedAction, ModelPolicy, UniformRandom
from seqbatch.simulation import Line, Study, StudyResult, simulate
from tests.charts import marked, spec
from tests.refusals import refused


def runs(*rows):
    """A table of runs from (environment, policy, units, batches, regret by trial)."""
    return pl.DataFrame(
        [
            {
                "environment": environment, "policy": policy, "units": units, "batches": batches,
                "trial": trial, "regret": regret, "simple_regret": regret / 10, "reward": -regret,
                "ends": [units // 2, units], "batch_regret": [regret / 2, regret],
            }
            for environment, policy, units, batches, values in rows
            for trial, regret in enumerate(values)
        ]
    )  # fmt: skip


#: Two policies at M = 2 and 3, and one with an own grid of nine batches.
VARIED = StudyResult(
    runs(
        ("e", "a", 100, 2, [4.0, 6.0]),
        ("e", "b", 100, 2, [7.0, 7.0]),
        ("e", "a", 100, 3, [3.0, 3.0]),
        ("e", "b", 100, 3, [2.0, 3.0]),
        ("e", "own", 100, 9, [2.6, 2.6]),
        ("f", "a", 100, 2, [1.0, 1.0]),
        ("f", "b", 100, 2, [0.0, 1.0]),
        ("f", "a", 100, 3, [1.0, 1.0]),
        ("f", "b", 100, 3, [2.0, 2.0]),
        ("f", "own", 100, 9, [0.0, 0.0]),
    ),
    {"a": "SBPE", "b": "RBGL", "own": "SBUCB"},
)


def by(table, *keys):
    """The rows of a table as dictionaries, by some of their columns."""
    rows = table.to_polars().iter_rows(named=True)
    return {tuple(row[key] for key in keys): row for row in rows}


def test_policies_are_ranked_and_paired_at_the_same_number_of_batches():
    found = by(VARIED.summary(base="a"), "environment", "policy", "batches")
    ranks = {key: row["rank"] for key, row in found.items()}
    assert ranks["e", "a", 2] == 2
    assert ranks["e", "b", 2] == 3
    assert ranks["e", "b", 3] == 1
    assert ranks["e", "own", 9] is None  # it has one beside each of the others' numbers
    row = found["e", "b", 2]
    assert (row["mean"], row["difference"], row["difference_error"]) == (7.0, 2.0, 1.0)
    assert row["error"] == 0.0
    assert found["e", "a", 2]["error"] == pytest.approx(1.0)
    # Student's factor for one degree of freedom is 12.706.
    assert found["e", "a", 2]["high"] == pytest.approx(5 + 12.7062, rel=1e-4)
    # More reward is better.
    rewards = by(VARIED.summary(value="reward"), "environment", "policy", "batches")
    assert {key: row["rank"] for key, row in rewards.items()} == ranks


def test_overall_is_the_mean_over_environments():
    found = by(VARIED.overall(base="a"), "policy", "batches")
    # Ranks of b at M = 2: 3 in e, and 2 in f; of own: 1 in both.
    assert found["b", 2]["rank"] == 2.5
    assert found["own", 2]["rank"] == 1.0
    assert found["own", 3]["rank"] == 1.5
    assert found["b", 2]["difference"] == pytest.approx((2.0 - 0.5) / 2)
    # The errors in e and f are 1 and 1/2.
    assert found["b", 2]["error"] == pytest.approx(np.hypot(1.0, 0.5) / 2)
    assert found["own", 3]["difference"] == pytest.approx((-0.4 - 1.0) / 2)
    assert found["a", 2]["difference"] is None
    with refused("invalid-argument", field="base"):
        VARIED.overall(base="c")


def test_what_is_unknown_has_no_mean_and_no_rank():
    log = logged_table(np.ones((90, 1)), np.arange(90) % 3, np.ones(90), arms=3)
    two = {"a": SBPE(), "b": UniformRandom()}
    study = Study(environments={"log": log}, policies=two, horizons=[20], trials=2)
    result = study.run()
    assert "mean" not in result.summary().columns
    assert "rank" not in result.summary().columns
    assert result.summary(value="reward").to_polars()["mean"].to_list() == [20.0, 20.0]


def test_regret_by_batch():
    found = by(VARIED.by_batch(), "environment", "policy", "batches", "batch")
    assert (found["e", "a", 2, 1]["end"], found["e", "a", 2, 1]["mean"]) == (50, 2.5)
    assert (found["e", "a", 2, 2]["end"], found["e", "a", 2, 2]["mean"]) == (100, 5.0)


def test_slopes_are_those_of_each_number_of_batches_or_units():
    rows = [
        ("e", "a", T, M, [T**0.5 / M, 2 * T**0.5 / M]) for T in (100, 400) for M in (2, 4)
    ]  # fmt: skip
    result = StudyResult(runs(*rows), {"a": "SBPE"})
    over = by(result.slopes(over="batches"), "units")
    assert [over[T,]["slope"] for T in (100, 400)] == pytest.approx([-1.0, -1.0])
    assert [row["slope"] for row in by(result.slopes(), "batches").values()] == pytest.approx(
        [0.5, 0.5]
    )
    with refused("invalid-argument", field="over"):
        result.slopes(over="trial")


def test_tables_go_to_frames_files_and_latex(tmp_path):
    result = StudyResult(runs(("a_b & c", "50%", 100, 2, [1.0, 3.0])), {"50%": "SBPE"})
    table = result.summary()
    assert table.to_polars()["mean"].to_list() == table.to_arrow()["mean"].to_pylist() == [2.0]
    assert result.to_arrow().num_rows == result.to_polars().height == 2
    assert pl.read_csv(table.to_csv(tmp_path / "t.csv"))["mean"].to_list() == [2.0]
    lines = table.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{llrrrrrrrr}"
    assert lines[4].startswith(r"a\_b \& c & 50\% & 100 & 2 & 2 & 2 & 1 &")
    assert [line for line in lines if line.endswith("rule")] == [
        r"\toprule", r"\midrule", r"\bottomrule"
    ]  # fmt: skip
    assert Table("T", ("x",), [(r"\^~{}",)]).to_latex().splitlines()[4] == (
        r"\textbackslash{}\textasciicircum{}\textasciitilde{}\{\} \\"
    )


def test_a_result_is_saved_whole(tmp_path):
    names = {file.name for file in VARIED.save(tmp_path / "new" / "folder")}
    tables = {"results.csv", "summary.csv", "overall.csv", "by-batch.csv", "summary.tex"}
    pictures = {"batches.png", "batches.html", "time.png", "time.html", "simple-regret.png"}
    assert names == tables | pictures


def test_a_policy_with_an_own_grid_is_drawn_beside_each_number_of_batches():
    def drawn(chart, line):
        """The x and y of a line in the first panel."""
        panel = marked(spec(chart)["vconcat"][1], "line")[0]
        x, y = (panel["encoding"][axis]["field"] for axis in "xy")
        return [(row[x], row[y]) for row in panel["data"]["values"] if row["line"] == line]

    assert drawn(VARIED.plot("batches"), "own (SBUCB)") == [(2, 2.6), (3, 2.6)]
    assert drawn(VARIED.plot("batches"), "a (SBPE)") == [(2, 5.0), (3, 3.0)]
    assert drawn(VARIED.plot("time"), "a (SBPE)") == [(0, 0.0), (50, 2.5), (100, 5.0)]
    simple = VARIED.plot("batches", value="simple_regret")
    assert drawn(simple, "a (SBPE)") == [(2, 0.5), (3, pytest.approx(0.3))]
    with refused("invalid-argument", field="value"):
        VARIED.plot("time", value="reward")


# ----------------------------------------------------------------------
# Simple regret.


def test_simple_regret_is_the_loss_of_the_final_rule():
    """Of one action for all units, against the best action of each unit that follows."""
    world = Sphere(dim=2, actions=2, layout="block")
    run = simulate(FixedAction(1), world, grids.explicit([100, 300]), seed=3)
    later = world.instance(3).block(1)
    assert run.simple_regret == pytest.approx((later.best - later.means[:, 1]).mean())
    # An experiment recommends the highest estimated mean: nearly the best after many units.
    learned = simulate(UniformRandom(), world, grids.explicit([20_000]), seed=3)
    assert 0 <= learned.simple_regret < 0.02 < run.simple_regret


def test_simple_regret_of_a_collapsed_run_is_that_of_units():
    world, grid = Gaussian(dim=3, actions=4), grids.explicit([50, 400])
    exact, sampled = (
        np.mean([
            simulate(SBPE(), world, grid, seed=seed, method=method).simple_regret
            for seed in range(150)
        ])
        for method in ("collapsed", "direct")
    )  # fmt: skip
    assert exact == pytest.approx(sampled, rel=0.2)


class Mean:
    """The mean outcome."""

    def fit(self, X, y):  # noqa: ARG002
        self.mean = y.mean()

    def predict(self, X):
        return np.full(len(X), self.mean)


def test_simple_regret_of_models_and_at_the_end_of_data():
    """Twelve units, and no more: the final rule is judged on them."""
    means = np.tile([0.0, 2.0], (12, 1))
    world = ArrayEnvironment(np.ones((12, 1)), means=means, noise=0.1)
    grid = grids.explicit([6, 12])
    explored = ModelPolicy(Mean(), explore="epsilon", epsilon=1.0)
    assert simulate(explored, world, grid, seed=1).simple_regret == 0.0
    assert simulate(FixedAction(0), world, grid, seed=1).simple_regret == 2.0
    unlearned = simulate(RBGL(), world, grid, seed=1, learn_last=False)
    assert np.isnan(unlearned.simple_regret)


def test_a_study_measures_simple_regret(tmp_path):
    study = Study(
        environments={"s": Sphere(dim=2, actions=3)},
        policies={"ucb": SBUCB(gamma=0.5), "own": Line(RBGL(), GridRule("uniform", batches=5))},
        horizons=[200],
        batches=[2, 3],
        trials=2,
    )
    result = study.run(tmp_path)
    runs = result.to_polars()
    assert runs.select("policy", "batches").unique().height == 3
    assert (runs["simple_regret"] >= 0).all()
    assert set(by(result.summary(value="simple_regret"), "policy", "batches")) == {
        ("ucb", 2), ("ucb", 3), ("own", 5)
    }  # fmt: skip
    with refused("invalid-argument", field="batches"):
        Study(
            environments=study.environments, policies=study.policies, horizons=[200],
            batches=[3, "stochastic", 2],
        )  # fmt: skip


def test_general_worlds_are_judged_on_later_units():
    class Late(GeneralEnvironment):
        """The first action is best for the first 4,096 units, then the second."""

        def contexts(self, random, size):
            return random.random((size, self.dim))

        def means(self, contexts, times, truth):  # noqa: ARG002
            return np.column_stack([times < 4_096, times >= 4_096]).astype(float)

    run = simulate(FixedAction(0), Late(dim=1, actions=2), grids.explicit([50]), seed=1)
    assert (run.regret[-1], run.simple_regret) == (0.0, 1.0)
