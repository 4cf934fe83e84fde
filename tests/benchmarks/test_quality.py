"""The quality study: equal information for everybody, scores, lock-in, replays, and its page."""

import sys

import numpy as np
import pytest
from benchmarks.quality import page, study
from benchmarks.quality.__main__ import main
from benchmarks.quality.methods import BY_HAND, METHODS, OURS, TEST
from benchmarks.quality.page import compared, paired, scores_of
from benchmarks.quality.players import PolicyPlayer, Setting
from benchmarks.quality.study import Part, Quality, Replay, Results, draws_of, ends_of, locked
from benchmarks.quality.worlds import CONFIRMATION, SIXTEEN, TINY, WORLDS, Units

from benchmarks import peers
from seqbatch.datasets import LoggedExperiment
from seqbatch.lab import Options
from seqbatch.policies import UniformRandom

LINEAR = "tiny linear"


def test_the_quick_study_prints_its_page_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for module in (study, page):
        # Few plans: they take longest.
        monkeypatch.setattr(module, "WAVES", (2, 3))
    monkeypatch.setattr("sys.argv", ["quality", "--quick", "--seeds", "2", "--methods", "SBPE",
                                     "RBGL(1)"])  # fmt: skip
    main()
    printed = capsys.readouterr().out
    assert "## Two worlds, 3 doubling waves" in printed
    heads = "| method | score | beside SBPE | rank | worst | seconds |"
    assert heads in printed.splitlines()
    assert "*Visits*" not in printed
    assert not (tmp_path / "docs").exists()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("parts/*")}
    # Another method leaves what is done as it is.
    monkeypatch.setattr("sys.argv", [*sys.argv, "RBGL(10)"])
    main()
    printed = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in printed.splitlines()].count("| RBGL(10)") == 2
    after = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("parts/*")}
    assert before.items() <= after.items()
    assert len(after) > len(before)


def test_the_compact_table_is_of_the_same_campaigns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = {name: METHODS[name] for name in ("SBPE", "A/B test")}
    monkeypatch.setattr(peers, "METHODS", few)
    monkeypatch.setattr("sys.argv", ["peers", "--quick", "--seeds", "2"])
    peers.main()
    printed = capsys.readouterr().out
    assert not (tmp_path / "docs").exists()
    played = Quality([*TINY], [*few], seeds=2, log=False, common=True).run(
        Options(out=tmp_path / "out" / "quality")
    )
    [test] = [one for one in compared(scores_of(played.campaigns, TINY)) if one.name == TEST]
    cells = f"| A/B test | by hand | {100 - test.mean:.1f} | {-test.ahead:+.1f} |"
    assert cells in printed


def test_outcomes_that_are_late_or_missing_are_lost_to_all():
    units = WORLDS["late and missing"].draw(1, 0)
    wave = slice(100, 700)
    known = units.known(wave)
    assert 0.2 < known.mean() < 0.7
    # The last unit is known only if it has no delay.
    late = np.arange(100, 700) + units.delay[wave] + 1 > 700
    np.testing.assert_array_equal(known, ~late)
    assert units.known(slice(0, 6_000)).mean() == pytest.approx(0.8 * 0.95, abs=0.03)


def test_worlds_of_the_page():
    assert len(SIXTEEN) == 16
    assert len(CONFIRMATION) == 9
    assert not set(SIXTEEN) & set(CONFIRMATION)


@pytest.mark.parametrize("name", [*TINY, "wine", "steps", "interactions", *CONFIRMATION])
def test_a_world_is_what_it_says(name):
    world = WORLDS[name]
    units, again, other = world.draw(1, 0), world.draw(1, 0), world.draw(1, 1)
    np.testing.assert_array_equal(units.outcomes, again.outcomes)
    assert not np.array_equal(units.outcomes, other.outcomes)
    assert units.outcomes.shape == units.means.shape == (world.units, world.actions)
    assert set(units.rows[:, 0]) == {1.0}
    assert np.abs(units.rows[:, 1:].std(axis=0) - 1).max() < 0.3
    assert world.yes_or_no == bool(np.isin(units.outcomes, (0, 1)).all())
    gap = (units.outcomes - units.means).mean(axis=0)
    assert np.abs(gap).max() < (1 if name == "shocks" else 5 * units.noise / world.units**0.5)


def test_everybody_has_the_same_first_wave():
    world = TINY["tiny logistic"]
    units, ends = world.draw(3, 0), ends_of(world.units, 3, "doubling")
    setting = Setting(ends, world.actions, units.rows.shape[1], True, units.noise, 1)
    rows, draws = units.rows[: ends[0]], draws_of(3, 0, world.units)[: ends[0]]
    first = PolicyPlayer(UniformRandom(), setting).choose(rows, draws)
    for method in (*OURS, *BY_HAND):
        np.testing.assert_array_equal(method.make(setting).choose(rows, draws), first)


def test_a_campaign_by_hand():
    """An A/B test, then the action with the highest mean, unit by unit."""
    world, seed, ends = TINY[LINEAR], 5, (40, 80, 140)
    units, draws = world.draw(seed, 0), draws_of(seed, 0, world.units)
    earned = [[], []]
    for unit in range(ends[0]):
        action = int(draws[unit] * 2)
        earned[action].append(units.outcomes[unit, action])
    best = int(np.mean(earned[1]) > np.mean(earned[0]))
    actions = [int(draws[unit] * 2) if unit < ends[0] else best for unit in range(world.units)]
    gained = sum(units.means[t, a] - units.means[t].mean() for t, a in enumerate(actions))
    most = sum(units.means[t].max() - units.means[t].mean() for t in range(world.units))
    [row] = Part(LINEAR, TEST, 3, "equal", ends, seed, 0, 1)()
    assert row["score"] == pytest.approx(100 * gained / most)


def test_a_replay_by_hand(monkeypatch):
    """Outcomes are known of units whom the log gave the same action; waves are weighted."""
    random = np.random.default_rng(0)
    log = LoggedExperiment(
        np.ones((210, 1)), random.integers(0, 2, 210), random.random(210), ("a", "b"), ("one",)
    )
    monkeypatch.setattr(study, "hillstrom", lambda _: log)
    [row] = Replay("visit", TEST, 4, 0, 1)()
    order = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(2, 0))).permutation(210)
    actions, rewards = log.actions[order], log.rewards[order]
    chosen = (draws_of(4, 0, 210) * 2).astype(int)
    test = {a: [rewards[t] for t in range(30) if chosen[t] == a == actions[t]] for a in (0, 1)}
    chosen[30:] = int(np.mean(test[1]) > np.mean(test[0]))
    value = 0.0
    for start, end in ((0, 30), (30, 90), (90, 210)):
        known = [rewards[t] for t in range(start, end) if chosen[t] == actions[t]]
        value += np.mean(known) * (end - start) / 210
    assert row["value"] == pytest.approx(value)


def test_scores_and_lock_in():
    means = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    units = Units(np.ones((4, 1)), means, means)
    assert units.score(np.array([1, 0, 1, 0])) == 100
    assert units.score(np.array([1, 1, 1, 1])) == 0
    assert locked(means, np.array([1, 1, 1, 1]))
    assert not locked(means, np.array([1, 1, 1, 0]))
    rare = np.array([[0.0, 1.0]] * 8 + [[1.0, 0.0]] * 2)
    assert not locked(rare, np.ones(10, dtype=np.int64))


@pytest.mark.parametrize("grid", ["equal", "doubling"])
def test_no_wave_is_empty(grid):
    ends = ends_of(60, 10, grid)
    assert ends[-1] == 60
    assert min(np.diff((0, *ends))) >= 1


def test_methods_with_few_seeds_are_paired_with_the_same_campaigns():
    scores = {
        "one": {"SBPE": np.array([1.0, 2, 30, 40]), "RBGL(1)": np.array([2.0, 4])},
        "two": {"SBPE": np.array([5.0, 6, 210, 80])},
    }
    by_name = {one.name: one for one in compared(scores)}
    assert by_name["RBGL(1)"].ahead == 1.5
    assert by_name["RBGL(1)"].error == pytest.approx(0.5)
    assert (by_name["RBGL(1)"].worlds, by_name["RBGL(1)"].rank) == (1, 1)
    assert by_name["RBGL(1)"].mean == 18.25 + 1.5
    assert by_name["SBPE"].rank == 1.5
    assert (by_name["SBPE"].worst, by_name["SBPE"].where) == (-1.5, "one")
    assert paired([np.array([1.0, 3])], [np.array([0.0, 0])]) == (2.0, 1.0)


def test_the_page_sets_aims_beside_what_was_reached(monkeypatch):
    import polars as pl

    names, worlds = ("JointRidge", "SBPE", TEST), ("sparse", "wine")
    monkeypatch.setattr(page, "WAVES", (3,))
    campaigns = pl.DataFrame(
        [
            {"world": world, "method": name, "waves": 3, "grid": grid, "number": number,
             "score": 60.0 + place + number, "locked": name == "JointRidge" and grid == "equal"
             and world == "wine" and number == 0, "seconds": 0.25}
            for world in worlds
            for place, name in enumerate(names)
            for grid in ("equal", "doubling", "planned")
            for number in (0, 1)
        ]
    )  # fmt: skip
    replays = pl.DataFrame(
        [
            {"outcome": outcome, "method": name, "number": number, "value": value}
            for outcome in ("visit", "conversion")
            for name, value in zip(names, (0.10, 0.09, 0.11), strict=True)
            for number in (0, 1)
        ]
    )
    made = page.page(Quality(worlds, names, seeds=2), Results(None, campaigns, replays))
    lines = made.splitlines()
    own = "| JointRidge | 60.5 | -1.0 | 3.0 | -1 (wine) | 60.5 "
    assert f"{own}| -1.00 | -1.00 | 0.25 |" in lines
    assert "0.00 to 0.00 (visits) and 0.00 to 0.00 (conversions)" in made.replace("\n", " ")
    assert f"| {TEST} | 62.5 | +1.0 | 1.0 | +1 (wine) | 62.5 |  |  | 0.25 |" in lines
    assert "| a score of 62 or more | 60.5 |" in lines
    assert "| the best mean rank (here 1.0, A/B test) | 3.0 |" in lines
    assert "| never locked in, on any grid | up to 25% |" in lines
    assert "| on the log never behind an A/B test | -1.00 and -1.00 |" in lines
    assert "| JointRidge | 60/25 | 60/0 | 60/0 |" in lines
    assert "| sparse | 62 | 60 | 62 (A/B test) |" in lines
    assert "nothing may be chosen on the others" in made.replace("\n", " ")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_plays(method):
    name = "tiny logistic"
    ends = ends_of(WORLDS[name].units, 3, "equal")
    [row] = Part(name, method, 3, "equal", ends, 1, 0, 1)()
    assert row["score"] <= 100
