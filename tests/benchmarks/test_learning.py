"""Campaigns by sums are those unit by unit, and the page says what was measured."""

import numpy as np
import pytest
from benchmarks.learning.__main__ import page, sections
from benchmarks.learning.plain_campaign import World, doubling, play
from benchmarks.learning.table import Claim, Measured, Table, against, judged

from seqbatch.core import Contexts, Problem
from seqbatch.policies import RBGL, Feedback, Lookahead, ThompsonSampling

SIZES = doubling(150, 3)


def by_unit(policy, outcomes, draws, means):
    """Play unit by unit: each action's units have its outcomes, in order."""
    K = outcomes.shape[1]
    problem = Problem(ends=tuple(np.cumsum(SIZES).tolist()), actions=K, dim=1, layout="block")
    state, used, missed = policy.begin(problem), [0] * K, 0.0
    for end, size in zip(problem.ends, SIZES, strict=True):
        contexts, places = Contexts.of(np.ones((size, 1)), problem), np.arange(size)
        actions = policy.assign(state, contexts, draws[end - size : end], places).actions
        rewards = []
        for action in actions.tolist():
            rewards.append(outcomes[used[action], action])
            used[action] += 1
            missed += max(means) - means[action]
        groups = np.zeros(size, dtype=np.int64)
        feedback = Feedback(contexts.chosen(actions), actions, groups, np.array(rewards))
        state = policy.close(policy.learn(state, feedback))
    return missed / sum(SIZES), int(state.estimates[0].theta[:, 0].argmax())


@pytest.mark.parametrize(
    "policy",
    [
        RBGL(ridge=4.0, first="uniform"),
        ThompsonSampling(ridge=4.0, samples=64, first="uniform"),
        Lookahead(ridge=4.0, after=400),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_campaign_by_sums_is_the_one_unit_by_unit(policy):
    random = np.random.default_rng(3)
    means, draws = np.array([0.0, 0.2, 0.3]), random.random(150)
    outcomes = means + random.standard_normal((150, 3))
    world = World.of(random, means, outcomes)
    lost = play(policy, SIZES, World(means, world.sums, world.squares, draws), ridge=4.0)
    regret, best = by_unit(policy, outcomes, draws, means)
    assert lost.regret == pytest.approx(regret)
    assert lost.simple == pytest.approx(0.3 - means[best])


def test_changes_are_ratios_of_means_and_a_page_keeps_other_tables(tmp_path):
    base, part = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 1.0, 2.0, 2.0])
    change, error = against(part, base)
    assert change == -50.0
    assert error == pytest.approx(100 * (part - base / 2).std(ddof=1) / 2 / 3)
    claims = [Claim("A", (-5.0, 1.0)), Claim("B", (-1.0, 1.0)), Claim("C", (5.0, 1.0))]
    assert [claim.found for claim in claims] == [1, 0, -1]
    same = [Claim("A", claim.gain) for claim in claims]
    assert judged(same) == [
        "- A: reproduced in 1 of 3 rows, the opposite in 1 (-5.0% to +5.0%).",
    ]
    table = Table("x", "Exploring without features", "{runs:,} runs.",
                  lambda _: Measured(["a", "b"], [["1", "2"]], claims), 10)  # fmt: skip
    made = {table.title: table.section(1_000), "Choosing one action at the end": "## Choosing\n"}
    path = tmp_path / "learning.md"
    path.write_text(page({table.title: made[table.title]}), encoding="utf-8")
    assert sections(path) == {table.title: made[table.title]}
    assert "1,000 runs." in path.read_text(encoding="utf-8")
