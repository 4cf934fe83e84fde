"""A rule by boosted trees beside the linear rule: the literal oracle, laws, and what it finds."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from seqbatch.inference import Rows, summarise
from seqbatch.inference.boosted_trees import MarkedRows, require_trees, sample, trees_beside
from tests.inference.campaigns import literal
from tests.oracles import boosted_trees as oracle
from tests.refusals import refused

COSTS = (0.0, 0.3, -0.1)


def hashes(random, count):
    return random.integers(0, 2**64, count, dtype=np.uint64)


def campaign(seed, sizes=(500, 400, 450), *, steps=0.0, missing=0.1, level=0.0):
    """Return waves whose lifts depend on two features together if `steps` is above 0."""
    random, waves = np.random.default_rng(seed), []
    for place, n in enumerate(sizes):
        x = np.column_stack([np.ones(n), random.standard_normal((n, 2))])
        p = np.full((n, 3), 1 / 3) if place == 0 else np.tile([0.5, 0.3, 0.2], (n, 1))
        actions = (random.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
        together = steps * np.sign(x[:, 1] * x[:, 2]) * (actions == 1)
        y = 1 + 0.3 * x[:, 1] * (actions == 2) + together + random.standard_normal(n)
        y[random.random(n) < missing] = np.nan
        ids = hashes(random, n)
        waves.append(MarkedRows(Rows.of(x, actions, p, y + level * place), ids, ids))
    return waves


def beside(waves, **options):
    summaries = summarise([one.rows for one in waves], charges=COSTS)
    units = sum(one.rows.count for one in waves)
    return trees_beside([sample([one], units) for one in waves], summaries[-1], **options)


def numbers(made):
    return made.gain.estimate, made.gain.low, made.gain.high, made.differ, made.units


@pytest.mark.parametrize("less", [False, True])
def test_the_comparison_agrees_with_the_literal_oracle(less):
    waves = [sample([one], 0) for one in campaign(3, sizes=(500, 400, 120), steps=0.4)]
    rows = literal([replace(one.rows, groups={"half": one.ids}) for one in waves])
    for wave, one in zip(rows, waves, strict=True):
        for row, cluster in zip(wave, one.clusters.tolist(), strict=True):
            row["fold"] = cluster % 5
    expected = oracle.gain(rows, costs=COSTS, less=less)
    made = beside(waves, less=less)
    assert 0.05 < made.differ == pytest.approx(expected["differ"])
    assert made.gain.estimate == pytest.approx(expected["theta"] - expected["cost"], rel=1e-7)
    assert made.gain.error**2 == pytest.approx(1.3 * expected["moderated"], rel=1e-7)


def test_neither_order_nor_pieces_nor_a_level_matter():
    waves, random = campaign(4, steps=0.4), np.random.default_rng(0)
    made = numbers(beside(waves))
    summaries = summarise([one.rows for one in waves], charges=COSTS)
    shuffled = [one.some(random.permutation(one.rows.count)) for one in waves]
    cut = [[one.some(np.arange(150)), one.some(np.arange(150, one.rows.count))]
           for one in shuffled]  # fmt: skip
    again = trees_beside([sample(parts, 0) for parts in cut], summaries[-1])
    assert numbers(again) == made
    moved = beside(campaign(4, steps=0.4, level=10.0))
    assert moved.differ == pytest.approx(made[3], abs=0.01)


def test_features_that_act_together_are_found_and_linear_ones_are_not():
    found = beside(campaign(5, sizes=(2_000, 1_500, 2_000), steps=0.6))
    assert found.gain.low > 0
    assert "gain of a rule by boosted trees" in str(found)
    assert beside(campaign(5, sizes=(2_000, 1_500, 2_000))).gain.low < 0


def test_a_sample_is_taken_by_hash_and_keeps_clusters_together():
    random = np.random.default_rng(1)
    [one] = campaign(1, sizes=(4_000,))
    people = hashes(random, 1_000)[random.integers(0, 1_000, 4_000)]
    some = sample([replace(one, clusters=people)], 4_000, most=1_000)
    assert some.rows.count == pytest.approx(1_000, abs=150)
    kept = set(some.clusters.tolist())
    assert set(one.ids[np.isin(people, list(kept))].tolist()) == set(some.ids.tolist())
    assert (np.diff(some.ids.astype(float)) >= 0).all()


def test_what_cannot_be_compared_says_why():
    waves = campaign(2, sizes=(200, 150))
    alone = [replace(one, rows=Rows.of(one.rows.features[:, :1], one.rows.actions,
                                       one.rows.probabilities, one.rows.outcomes))
             for one in waves]  # fmt: skip
    assert beside(alone).gain.note == "There are no features."
    # Too few outcomes of every action for trees: both rules are the linear one.
    assert beside(waves).gain.note == "Both rules give every unit the same action."
    nothing = replace(waves[1].rows, outcomes=np.full(150, np.nan))
    silent = [waves[0], replace(waves[1], rows=nothing)]
    assert beside(silent).gain.note == "The last wave has no outcomes."


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with refused("not-installed", field="boosted_trees", match=r"seqbatch\[trees\]"):
        require_trees()
