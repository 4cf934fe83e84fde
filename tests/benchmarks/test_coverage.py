"""Coverage is measured by a run that a wrong formula does not survive.

`tests/mutants/coverage.toml` declares the wrong formulas; each of them fails the first test here.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from benchmarks.coverage import study
from benchmarks.coverage.__main__ import main
from benchmarks.coverage.cells import NORMAL, Cell, Outcome, amounts, cells, yes
from benchmarks.coverage.measures import (
    ACTION,
    BY_SHARES,
    BY_SIZE,
    CONTROL,
    GIVEN,
    INTERVALS,
    JOINT,
    LATEST,
    NAIVE,
    NEXT,
    OVER_CONTROL,
    OVER_RANDOM,
    VALUE,
    VERDICTS,
    Printed,
    measure,
    measure_campaign,
)
from benchmarks.coverage.page import page
from benchmarks.coverage.real import (
    RealCell,
    printed_intervals,
    real_cells,
    run_campaign,
    run_real,
    section,
    verdict_flags,
)
from benchmarks.coverage.study import Coverage, estimate, planned_events, together
from benchmarks.coverage.worlds import (
    draw,
    expectations,
    expected,
    mean_size,
    population,
    rates,
    simulate_campaign,
)

from seqbatch.lab import Options, reproduce
from seqbatch.storage import open_store
from tests.lab.test_lab import check_files


@pytest.mark.slow
def test_the_quick_study_finds_nothing_wrong(tmp_path):
    made = Coverage()
    table = made.run(Options(out=tmp_path, quick=True))
    failed = [(one.source, one.text, one.measured) for one in made.claims(table) if not one.held]
    # With few campaigns most claims are not decided; none may fail.
    decided = [one for one in made.claims(table) if one.held is not None]
    assert [one for one in decided if one.held is False] == []
    assert len(decided) >= 3, failed


#: What findings and the study both print, whatever was declared.
BOTH = {CONTROL, ACTION, BY_SHARES, VALUE, OVER_CONTROL, OVER_RANDOM, NEXT}


@pytest.mark.parametrize("cell", real_cells(), ids=RealCell.describe)
def test_findings_print_what_the_study_measures(cell, tmp_path):
    """The study would say nothing about the product if its numbers came another way."""
    store = open_store(tmp_path / "campaigns.db")
    made = [run_campaign(cell, store, f"c{seed}", np.random.default_rng(seed)) for seed in (1, 2)]
    store.close()
    for run in made:
        # The plan of the study's cell has all waves; a campaign that stopped has fewer.
        if len(run.waves) < cell.world.waves:
            continue
        printed, flags = measure(run.simulated)
        theirs = {one.name: (one.low, one.high) for one in printed}
        mine = {one.name: (one.low, one.high) for one in printed_intervals(run)}
        names = {*BOTH, BY_SIZE, JOINT} if cell.stopping == "none" else BOTH
        if cell.less:
            # The study's rule to run next, and its verdict, are for outcomes of which more is good.
            names = names - {NEXT}
        for name in names & theirs.keys():
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-9, err_msg=name)
        if cell.stopping == "none" and not cell.less:
            given = {flag.name: flag.happened for flag in flags}[GIVEN]
            assert {flag.name: flag.happened for flag in verdict_flags(run)}["give"] == given


def test_truth_of_a_real_campaign(tmp_path):
    world = replace(NORMAL, lifts=((0.9, 0.3, 0.0),), level=(0.0, 1.0, 2.0), units=300)
    store = open_store(tmp_path / "campaigns.db")
    run = run_campaign(RealCell(world=world), store, "one", np.random.default_rng(0))
    store.close()
    true = {one.name: one.truth for one in printed_intervals(run)}
    assert true[BY_SIZE] == pytest.approx(0.25 * 0.9 + 0.35 * 0.3, abs=1e-9)
    assert true[CONTROL] == pytest.approx(1 + 0.35 + 0.8, abs=1e-3)
    given = run.found["recommendation"]["latest_waves"]
    assert given[-1] == 3


def test_the_section_on_real_campaigns(tmp_path, monkeypatch):
    rare = Cell(outcome=yes(0.02), units=300)
    few = [RealCell(world=replace(NORMAL, units=300)),
           RealCell(world=rare, stopping="pocock", less=True)]  # fmt: skip
    table = run_real(Options(out=tmp_path / "out", trials=3), few)
    assert set(table["campaigns"]) == {3}
    text = section(table)
    assert text.startswith("## Through real campaigns")
    assert "3 campaigns or more in each of 2 settings" in text
    assert "| lift, by size | 1 of 2 |" in text
    assert "finds too few events in at most 1.000." in text.replace("\n", " ")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    page_file = tmp_path / "docs" / "coverage.md"
    page_file.write_text("# The study\n\n## Through real campaigns\n\nold\n", encoding="utf-8")
    monkeypatch.setattr("benchmarks.coverage.real.real_cells", lambda: few)
    monkeypatch.setattr("sys.argv", ["coverage", "--real", "--trials", "3"])
    main()
    assert page_file.read_text(encoding="utf-8") == f"# The study\n\n{text}"


def test_files_page_and_resumption(tmp_path, monkeypatch):
    settings = [replace(NORMAL, units=300), Cell(outcome=yes(0.1), units=300, clusters=5)]
    monkeypatch.setattr(study, "cells", lambda: settings)
    monkeypatch.setattr(study, "PART", 3)
    seen = []
    files = reproduce(Coverage(), Options(out=tmp_path, trials=6, report=seen.append))
    check_files(files, "coverage")
    table = pl.read_parquet(files[0])
    assert set(table.filter(quantity=BY_SIZE)["campaigns"]) == {6}
    assert set(INTERVALS) <= set(table["quantity"])
    text = page(table, Coverage().claims(table))
    assert "6 campaigns or more in each of 2 cells" in text
    assert f"{settings[0].describe()} |" in text
    # A longer run goes on from a shorter one.
    folder = tmp_path / "coverage" / "run"
    longer = Coverage().run(Options(out=folder, trials=9, report=seen.append))
    assert set(longer.filter(quantity=BY_SIZE)["campaigns"]) == {9}
    assert seen[-1].resumed == 4
    assert seen[-1].total == 6


def test_there_are_enough_cells_of_every_kind():
    settings = cells()
    assert len({cell.describe() for cell in settings}) == len(settings) >= 80
    for name, wanted in {
        "policy": {"greedy", "UCB", "Thompson"},
        "features": {True, False},
        "actions": {2, 3, 5},
        "waves": {2, 3, 5},
        "units": {600, 2_400, 30_000},
        "constant": {True, False},
        "missing": {
            "none", "20% at random", "40% at random", "by feature",
            "in opposite directions by action",
        },
    }.items():  # fmt: skip
        assert wanted <= {getattr(cell, name) for cell in settings}
    assert {0.013, 0.03, 0.07, 0.22, 0.6, 0.94} <= {
        cell.outcome.rate for cell in settings if cell.outcome.kind == "yes/no"
    }
    assert {0.8, 1.2, 1.6, 2.0} <= {
        cell.outcome.spread for cell in settings if cell.outcome.kind == "amounts"
    }
    assert (0.0, 0.02) in {(cell.randomised, cell.floor) for cell in settings}
    assert any(cell.costs for cell in settings)
    assert any(cell.clusters for cell in settings)


def test_what_changes_is_known():
    assert NORMAL.constant
    assert not replace(NORMAL, level=(0, 1, 2)).constant
    assert replace(NORMAL, level=(0, 1, 2)).lifts_constant
    assert not replace(NORMAL, lifts=((0.5, 0.5, 0.0),)).lifts_constant
    assert not replace(NORMAL, moving=(0, 1, 2), slope=0.3).lifts_constant
    # A factor on all rates moves differences of rates, unless there are none.
    assert Cell(outcome=yes(0.1), level=(1, 2, 3)).lifts_constant
    assert not Cell(outcome=yes(0.1), level=(1, 2, 3), lifts=((0.2,),)).lifts_constant


@pytest.mark.parametrize("cell", cells(), ids=Cell.describe)
def test_rates_are_possible_and_lifts_as_declared(cell):
    for wave in range(cell.waves):
        means = expected(cell, wave)
        chances = rates(cell, wave, population(cell, wave))
        if cell.outcome.kind in ("yes/no", "amounts"):
            assert chances.min() > 0
            assert chances.max() < 1
        if cell.moving or cell.outcome.relative:
            continue
        declared = [one[wave % len(one)] for one in cell.lifts]
        found = means.mean(axis=0)
        assert found[1:] - found[0] == pytest.approx(declared, abs=2e-3)


@pytest.mark.parametrize(
    "cell",
    [
        NORMAL,
        replace(NORMAL, outcome=Outcome(by_action=(0.5, 1.0, 2.0))),
        replace(NORMAL, clusters=5),
        Cell(outcome=Outcome(kind="heavy tails")),
        Cell(outcome=Outcome(kind="counts", rate=0.4, spread=0.7)),
        Cell(outcome=yes(0.2)),
        Cell(outcome=yes(0.9)),
        Cell(outcome=yes(0.1), clusters=5),
        Cell(outcome=amounts(0.3, 0.8)),
        Cell(outcome=amounts(0.3, 1.2, cap=2.0)),
        Cell(outcome=Outcome(kind="amounts", rate=0.3, spread=0.5, by_action=(1, 2, 3))),
        Cell(outcome=Outcome(kind="amounts without zeros", spread=0.8)),
    ],
    ids=Cell.describe,
)
def test_outcomes_have_the_means_that_count_as_true(cell):
    random, size = np.random.default_rng(0), 400_000
    x = np.repeat(population(cell, 0)[:1], size, axis=0)
    actions = random.integers(cell.actions, size=size)
    own = np.arange(size), actions
    drawn = draw(cell, random, rates(cell, 0, x)[own], actions)
    means = expectations(cell, 0, x[:1])[0]
    for action in range(cell.actions):
        mine = drawn[actions == action]
        # Units of a cluster share their noise, and heavy tails have a large one.
        error = mine.std() / np.sqrt(len(mine)) * (2 if cell.clusters else 1)
        assert mine.mean() == pytest.approx(means[action], abs=4 * error)


def test_the_mean_of_capped_amounts():
    outcome, random = amounts(0.1, 1.2, cap=3.0), np.random.default_rng(1)
    sizes = np.minimum(random.lognormal(-0.72, 1.2, 1_000_000), 3.0)
    assert mean_size(outcome) == pytest.approx(sizes.mean(), abs=0.004)
    assert mean_size(amounts(0.1, 1.2)) == 1


@pytest.mark.parametrize("policy", ["greedy", "UCB", "Thompson"])
def test_logged_probabilities_are_those_of_the_draws(policy):
    cell = replace(NORMAL, policy=policy, units=30_000, missing="20% at random")
    lowest = cell.randomised / 3 + (1 - cell.randomised) * cell.floor
    for rows in simulate_campaign(cell, np.random.default_rng(1)).waves:
        assert rows.probabilities.min() >= lowest - 1e-12
        taken = np.eye(3)[rows.actions]
        gap = (taken - rows.probabilities).mean(axis=0)
        assert np.abs(gap).max() < 4 * np.sqrt(0.25 / rows.count)
        assert rows.returned.mean() == pytest.approx(0.8, abs=0.02)


def test_a_feature_moves_and_outcomes_are_lost_by_it():
    cell = replace(NORMAL, moving=(0.0, 0.5, 1.0), units=30_000,
                   missing="in opposite directions by action")  # fmt: skip
    for wave, rows in enumerate(simulate_campaign(cell, np.random.default_rng(1)).waves):
        assert rows.features[:, 1].mean() == pytest.approx(0.5 * wave, abs=0.05)
        for action, way in ((0, -1), (1, 1)):
            given = rows.actions == action
            tied = np.corrcoef(rows.returned[given], rows.features[given, 1])[0, 1]
            assert way * tied > 0.15


def test_truth_is_weighted_by_size():
    cell = replace(NORMAL, lifts=((0.9, 0.3, 0.0),), costs=(0.0, 0.1), level=(0.0, 1.0, 2.0))
    run = simulate_campaign(cell, np.random.default_rng(0))
    assert run.lift(1) == pytest.approx(0.25 * 0.9 + 0.35 * 0.3 - 0.1, abs=1e-9)
    assert run.lift(1, range(1, 3)) == pytest.approx(0.35 / 0.75 * 0.3 - 0.1, abs=1e-9)
    printed = {one.name: one for one in measure_campaign(cell, np.random.default_rng(0))[0]}
    assert printed[CONTROL].truth == pytest.approx(1 + 0.35 + 0.8, abs=1e-3)


def test_a_campaign_is_measured_in_every_way():
    printed, flags = measure_campaign(NORMAL, np.random.default_rng(0))
    assert {one.name for one in printed} == set(INTERVALS)
    assert len(flags) == 4 + len(VERDICTS)
    without, _ = measure_campaign(NORMAL, np.random.default_rng(0), jointly=False)
    assert {one.name for one in without} == set(INTERVALS) - {JOINT}


def test_misses_and_signs():
    assert Printed(BY_SIZE, 0.1, 0.4, 0.5).above
    assert Printed(BY_SIZE, 0.1, 0.4, 0.0).below
    assert Printed(BY_SIZE, 0.1, 0.4, 0.0).wrong_sign
    assert not Printed(BY_SIZE, 0.1, 0.4, 0.05).wrong_sign
    assert not Printed(CONTROL, 0.1, 0.4, -1.0).wrong_sign


def test_parts_add_up_and_only_valid_cells_are_claimed():
    cell = replace(NORMAL, units=300, level=(0, 1, 2))
    parts = [row for number in range(2) for row in study.CoveragePart(cell, number, 4)()]
    table = together(pl.DataFrame(parts), [cell])
    one = table.filter(quantity=BY_SIZE).row(0, named=True)
    assert (one["campaigns"], one["printed"], one["claimed"]) == (8, 8, True)
    assert one["share"] == 1 - (one["above"] + one["below"]) / 8
    claimed = dict(table.select("quantity", "claimed").iter_rows())
    assert claimed[LATEST]
    # Levels that move leave lifts alone, but shares are claimed only where nothing changes.
    assert not claimed[BY_SHARES]
    assert not claimed[NAIVE]


def test_planned_events_of_a_plan():
    assert np.isnan(planned_events(NORMAL, BY_SIZE))
    few, many = (planned_events(Cell(outcome=yes(0.015), units=n), BY_SIZE) for n in (900, 9_000))
    assert few == pytest.approx(many / 10)
    assert few < study.FEW_EVENTS


def test_an_estimate_of_none_or_all_has_an_error():
    assert estimate(0, 100).error > 0
    assert estimate(100, 100).error > 0
