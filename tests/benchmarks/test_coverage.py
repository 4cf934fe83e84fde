"""Coverage is measured by a run that a wrong formula does not survive."""

import numpy as np
import polars as pl
import pytest
from benchmarks.coverage import study
from benchmarks.coverage.study import NAIVE, POOLED, Coverage, measure_campaign
from benchmarks.coverage.worlds import POLICIES, WORLDS, Cell, panel, simulate_campaign

from seqbatch.inference import doubly_robust_scores as scores
from seqbatch.inference import estimates
from seqbatch.lab import Options, reproduce
from tests.lab.test_lab import check_files

FIRST = "pooled lifts cover at least 93.5%"
WIDTH = "pooled intervals are narrower than the first wave's own"
SMALL = "pooled lifts cover at least 92%"


def verdicts(tmp_path, campaigns=120):
    made = Coverage()
    table = made.run(Options(out=tmp_path, quick=True, trials=campaigns))
    return {claim.text: claim.held for claim in made.claims(table)}


@pytest.mark.slow
def test_the_quick_run_finds_nothing_wrong(tmp_path):
    assert False not in verdicts(tmp_path).values()


@pytest.mark.slow
def test_a_halved_standard_error_is_found(tmp_path, monkeypatch):
    right = estimates.student

    def halved(about, estimate, variance, df, **options):
        return right(about, estimate, variance / 4, df, **options)

    monkeypatch.setattr(estimates, "student", halved)
    found = verdicts(tmp_path)
    assert found[FIRST] is False
    assert found[SMALL] is False


@pytest.mark.slow
def test_a_missing_inverse_probability_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(scores, "inverse_weights", lambda rows, returned: 1 / returned.of(rows))
    assert verdicts(tmp_path)[FIRST] is False


@pytest.mark.slow
def test_wrong_weights_are_found(tmp_path, monkeypatch):
    """By size alone: any weights fixed in advance cover, these at more than twice the width."""
    monkeypatch.setattr(estimates, "pooling_weight", lambda _, wave: wave.units)
    assert verdicts(tmp_path)[WIDTH] is False


def test_files_and_resumption(tmp_path, monkeypatch):
    settings = [Cell(units=300), Cell(units=300, world="clusters of five")]
    monkeypatch.setattr(study, "cells", lambda: settings)
    monkeypatch.setattr(study, "PART", 3)
    seen = []
    files = reproduce(Coverage(), Options(out=tmp_path, trials=6, report=seen.append))
    check_files(files, "coverage")
    table = pl.read_parquet(files[0])
    assert set(table["campaigns"]) == {6}
    assert {POOLED, NAIVE} < set(table["quantity"])
    assert table["share"].is_between(0, 1).all()
    assert "6 campaigns or more in each of 2 cells" in files[5].read_text(encoding="utf-8")
    # A longer run goes on from a shorter one.
    folder = tmp_path / "coverage" / "run"
    longer = Coverage().run(Options(out=folder, trials=9, report=seen.append))
    assert set(longer["campaigns"]) == {9}
    assert seen[-1].resumed == 4
    assert seen[-1].total == 6


def test_there_are_enough_cells_of_every_kind():
    settings = study.cells()
    assert len(set(settings)) == len(settings) >= 40
    for name, wanted in {
        "policy": set(POLICIES),
        "world": set(WORLDS),
        "waves": {2, 3, 5},
        "units": {600, 3_000, 30_000},
        "missing": {"nobody", "anybody", "by feature"},
    }.items():
        assert wanted <= {getattr(cell, name) for cell in settings}


@pytest.mark.parametrize("name", WORLDS)
def test_true_lifts_are_those_of_the_population(name):
    means = WORLDS[name].means(panel()).mean(axis=0)
    assert means[1:] - means[0] == pytest.approx(WORLDS[name].lifts, abs=2e-3)


@pytest.mark.parametrize("name", WORLDS)
def test_outcomes_have_the_means_they_are_drawn_with(name):
    world, means = WORLDS[name], np.full(200_000, 0.2)
    drawn = world.draws(np.random.default_rng(0), means)
    assert drawn.mean() == pytest.approx(0.2, abs=0.015)


@pytest.mark.parametrize("policy", POLICIES)
def test_logged_probabilities_are_those_of_the_draws(policy):
    cell = Cell(policy=policy, units=30_000)
    for rows in simulate_campaign(cell, np.random.default_rng(1)).waves:
        lowest = cell.randomised / 3 + (1 - cell.randomised) * cell.floor
        assert rows.probabilities.min() >= lowest - 1e-12
        taken = np.eye(3)[rows.actions]
        gap = (taken - rows.probabilities).mean(axis=0)
        assert np.abs(gap).max() < 4 * np.sqrt(0.25 / rows.count)
        assert rows.returned.mean() == pytest.approx(0.8, abs=0.02)


def test_a_fifth_is_missing_by_feature_too():
    cell = Cell(missing="by feature", units=30_000)
    for rows in simulate_campaign(cell, np.random.default_rng(1)).waves:
        assert rows.returned.mean() == pytest.approx(0.8, abs=0.07)
        control = rows.actions == 0
        assert np.corrcoef(rows.returned[control], rows.features[control, 1])[0, 1] < -0.2


def test_a_campaign_is_measured_in_every_way():
    measures, effective = measure_campaign(Cell(), np.random.default_rng(0))
    names = [one.name for one in measures]
    assert names.count(POOLED) == 2
    assert len(set(names)) == 14
    assert effective > 20
