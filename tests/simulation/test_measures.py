"""Measures of a study: functions of each run and its log, such as coverage."""

import numpy as np
import pytest

from seqbatch import grids
from seqbatch.environments import ArrayEnvironment, Gaussian, GeneralizedLinear, Sphere
from seqbatch.grids import GridRule
from seqbatch.inference import evaluate
from seqbatch.policies import RBGL, EpsilonGreedy, UniformRandom
from seqbatch.simulation import Coverage, Study, simulate
from seqbatch.simulation.measures import true_means
from tests.refusals import refused

WORLD = Sphere(dim=2, actions=2, layout="block")


def study(**changes):
    given = {
        "environments": {"sphere": WORLD},
        "policies": {"epsilon": EpsilonGreedy(0.3), "uniform": UniformRandom()},
        "horizons": [300],
        "batches": [2, 3],
        "grid": GridRule("uniform"),
        "trials": 3,
        "measures": {"coverage": Coverage(level=0.5), "first action": first_share},
    }
    return Study(**{**given, **changes})


def first_share(run, _instance):
    return float((run.rows.actions == 0).mean())


@pytest.fixture(scope="module")
def result():
    return study().run()


def test_a_measure_sees_each_run_with_its_log(result):
    for row in result.runs.iter_rows(named=True):
        assert row["coverage"] in (0.0, 0.5, 1.0)
        assert 0.2 < row["first action"] < 0.8
    # It changes no run.
    plain = study(measures={}).run()
    assert plain.runs["regret"].to_list() == result.runs["regret"].to_list()
    made = result.summary(value="first action", base="uniform")
    means = dict(zip(made.to_polars()["policy"], made.to_polars()["mean"], strict=False))
    assert set(means) == {"epsilon", "uniform"}
    with refused("invalid-argument", field="value"):
        result.summary(value="eigenvalue")


def test_coverage_is_drawn_with_the_value_expected(result, tmp_path):
    drawn = result.plot("batches", value="coverage").to_dict()
    texts = str(drawn)
    assert "The dashed line is the value expected, 0.5." in texts
    assert "'type': 'rule'" in texts
    assert "dashed line" not in str(result.plot("batches", value="first action").to_dict())
    names = {path.name for path in result.save(tmp_path)}
    assert {"coverage.png", "first action.png"} <= names


def test_coverage_counts_the_intervals_that_hold_the_means():
    instance = WORLD.instance(3)
    run = simulate(
        UniformRandom(), WORLD, grids.uniform(units=400, batches=2), seed=3, keep_log=True
    )
    means = true_means(instance, 400)
    blocks = np.concatenate([instance.block(index).means for index in range(1, 17)])
    assert means == pytest.approx(blocks.mean(axis=0))
    for level in (0.05, 0.6, 0.999):
        found = [evaluate(run.rows, a, level=level).doubly_robust for a in range(2)]
        held = [one.low <= mean <= one.high for one, mean in zip(found, means, strict=True)]
        assert Coverage("doubly_robust", level)(run, instance) == np.mean(held)
    few = ArrayEnvironment(np.ones((60, 1)), means=np.tile([1.0, 3.0], (60, 1)), noise=1.0)
    assert true_means(few.instance(0), 60).tolist() == [1.0, 3.0]
    # An action that the log never could have.
    greedy = simulate(RBGL(first="fixed"), WORLD, grids.explicit([50]), seed=3, keep_log=True)
    assert np.isnan(Coverage()(greedy, instance))


@pytest.mark.slow
def test_intervals_of_a_randomised_experiment_cover():
    world = GeneralizedLinear(Gaussian(dim=2, actions=2, layout="block"))
    made = study(
        environments={"clicks": world}, policies={"uniform": UniformRandom()}, trials=200,
        measures={"coverage": Coverage()},
    ).run()  # fmt: skip
    assert 0.92 < made.runs["coverage"].mean() < 0.98


def test_measures_that_cannot_be_are_refused(tmp_path):
    for measures in ({"regret": Coverage()}, {"a": Coverage}, {"a": 3}, [Coverage()]):
        with refused("invalid-argument"):
            study(measures=measures)
    with refused("invalid-argument", field="method"):
        study(method="collapsed")
    with refused("invalid-argument", field="estimator"):
        study(measures={"coverage": Coverage("plain")}).run()
    with refused("invalid-argument", field="level"):
        Coverage(level=1)
    with refused("invalid-argument"):
        study().save(tmp_path / "study.toml")


def test_a_file_states_measures(tmp_path, result):
    made = study(measures={"coverage": Coverage(level=0.5)})
    text = made.save(tmp_path / "study.toml").read_text()
    assert 'kind = "seqbatch.simulation.Coverage"' in text
    again = Study.load(tmp_path / "study.toml")
    assert again.measures == {"coverage": Coverage(level=0.5)}
    runs = again.run(tmp_path / "runs").runs
    assert runs["coverage"].to_list() == result.runs["coverage"].to_list()
    with refused("invalid-argument", field="out"):
        study(measures={}).run(tmp_path / "runs")
