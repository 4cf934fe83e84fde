"""The learner enforces the batch rule, refuses nonsense without changing, and survives saving."""

import json
import os
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.errors import (
    BatchRuleError,
    InvalidArgumentError,
    LearnerFileError,
    RankDeficiencyWarning,
)
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    LinUCB,
    Oracle,
    SupSBUCB,
    ThompsonSampling,
    UniformRandom,
)
from tests.instances import actions_of, instance
from tests.refusals import refused

random = np.random.default_rng(0)
X = random.standard_normal((12, 3))


def learner(policy=None, **changes):
    arguments = {"actions": 2, "dim": 3, "layout": "block", "seed": 4, **changes}
    policy = policy or SBUCB(gamma=0.5, first="uniform")
    return Learner(policy, grids.explicit([4, 9, 12]), **arguments)


def snapshot(made):
    state = made.state
    return (
        made.batch,
        made.units_left,
        [array.tobytes() for array in (state.evidence[0].gram, state.estimates[0].theta)],
        json.dumps(made._random.bit_generator.state),
        [piece.actions.tolist() for piece in made._pending],
    )


def test_the_life_of_a_learner():
    made = learner()
    assert (made.batch, made.units_left, made.finished) == (1, 4, False)
    assert "batch 1 of 3, 4 units left" in repr(made)
    made.assign(X[:1])
    made.assign(X[1:4])
    assert made.units_left == 0
    made.observe([1, 0, 1, 0])
    assert (made.batch, made.units_left) == (2, 5)
    made.assign(X[4:9])
    made.observe(np.ones(5))
    made.assign(X[9:])
    made.observe(np.ones(3))
    assert (made.batch, made.units_left, made.finished) == (4, 0, True)
    assert "finished" in repr(made)
    assert made.estimate.theta.shape == (2, 3)


def before_any(made):
    pass


def after_two(made):
    made.assign(X[:2])


def after_batch_one(made):
    made.assign(X[:4])
    made.observe(np.ones(4))


def when_full(made):
    made.assign(X[:4])


def when_finished(made):
    for low, high in ((0, 4), (4, 9), (9, 12)):
        made.assign(X[low:high])
        made.observe(np.ones(high - low))


BAD_CALLS = [
    (before_any, lambda m: m.observe([]), "no-units", "rewards", None),
    (after_two, lambda m: m.observe([1, 2]), "batch-incomplete", "rewards", None),
    (after_batch_one, lambda m: m.observe(np.ones(4)), "no-units", "rewards", None),
    (after_two, lambda m: m.assign(X[:3]), "batch-full", "contexts", None),
    (when_full, lambda m: m.assign(X[:1]), "batch-full", "contexts", None),
    (when_finished, lambda m: m.assign(X[:1]), "finished", "contexts", None),
    (when_finished, lambda m: m.observe([1.0]), "finished", "rewards", None),
    (before_any, lambda m: m.assign(X[:2, :2]), "invalid-argument", "contexts", "shape (2, 2)"),
    (
        before_any,
        lambda m: m.assign([[1, 2, float("nan")]]),
        "invalid-argument",
        "contexts",
        "nan at index (0, 2)",
    ),
    (when_full, lambda m: m.observe(np.ones(3)), "invalid-argument", "rewards", "shape (3,)"),
    (
        when_full,
        lambda m: m.observe(np.ones((4, 1))),
        "invalid-argument",
        "rewards",
        "shape (4, 1)",
    ),
    (
        when_full,
        lambda m: m.observe([1, 2, np.inf, 3]),
        "invalid-argument",
        "rewards",
        "inf at index (2,)",
    ),
    (when_full, lambda m: m.observe(["a"] * 4), "invalid-argument", "rewards", "list"),
    (after_two, lambda m: m.replay(X, np.ones((12, 2))), "awaiting-outcomes", "contexts", None),
    (before_any, lambda m: m.replay(X[:5], np.ones((5, 2))), "not-whole-batches", "contexts", None),
    (before_any, lambda m: m.replay(X[:0], np.ones((0, 2))), "not-whole-batches", "contexts", None),
    (
        before_any,
        lambda m: m.replay(X[:4], np.ones((4, 3))),
        "invalid-argument",
        "rewards",
        "shape (4, 3)",
    ),
    (
        when_finished,
        lambda m: m.replay(X[:4], np.ones((4, 2))),
        "not-whole-batches",
        "contexts",
        None,
    ),
    (
        before_any,
        lambda m: m.assign(X[:2], eligible=np.eye(2) > 1),
        "invalid-argument",
        "eligible",
        "none in row 0 (2 such rows)",
    ),
    (
        before_any,
        lambda m: m.assign(X[:2], eligible=np.eye(2)),
        "invalid-argument",
        "eligible",
        "ndarray of dtype float64",
    ),
    (
        after_two,
        lambda m: m.assign(X[:1], eligible=[[True]]),
        "invalid-argument",
        "eligible",
        "shape (1, 1)",
    ),
]


@pytest.mark.parametrize(("prepare", "call", "code", "field", "received"), BAD_CALLS)
def test_a_refused_call_says_why_and_changes_nothing(prepare, call, code, field, received):
    made = learner()
    prepare(made)
    before = snapshot(made)
    with refused(code, field=field, received=received):
        call(made)
    assert snapshot(made) == before


def test_batch_rule_errors_are_their_own_kind():
    with pytest.raises(BatchRuleError):
        learner().observe([])
    with pytest.raises(RuntimeError):
        learner().observe([])


def test_a_failing_policy_uses_up_no_draws():
    class Failing(UniformRandom):
        def assign(self, *arguments):
            if self.fail:
                raise ZeroDivisionError
            return super().assign(*arguments)

    policy = Failing()
    object.__setattr__(policy, "fail", True)
    made = learner(policy)
    with pytest.raises(ZeroDivisionError):
        made.assign(X[:4])
    object.__setattr__(policy, "fail", False)
    straight = learner(UniformRandom()).assign(X[:4])
    assert np.array_equal(made.assign(X[:4]).actions, straight.actions)


@pytest.mark.parametrize(
    ("build", "field", "received"),
    [
        (lambda: learner(policy=SBUCB), "policy", "the class SBUCB"),
        (lambda: learner(policy="sbucb"), "policy", "'sbucb'"),
        (
            lambda: Learner(SBUCB(), [4, 8], actions=2, dim=2),
            "grid",
            "[4, 8]",
        ),
        (lambda: learner(actions=1), "actions", "1"),
        (lambda: learner(seed=-1), "seed", "-1"),
        (lambda: learner(policy=LinUCB()), "grid", "3 batches for 12 units"),
        (lambda: SBUCB(gamma=-1.0), "gamma", "-1.0"),
        (lambda: SBUCB(ridge="2"), "ridge", "'2'"),
        (lambda: SBUCB(gamma=True), "gamma", "True"),
        (lambda: Oracle(theta="abc"), "theta", "'abc'"),
        (lambda: SBUCB(ridge=0), "ridge", "0"),
        (lambda: SBUCB(first="random"), "first", "'random'"),
        (lambda: SBUCB(ties="first"), "ties", "'first'"),
        (lambda: SupSBUCB(explore="any"), "explore", "'any'"),
        (lambda: BPE(split="odd"), "split", "'odd'"),
        (lambda: LBGL(scale=float("nan")), "scale", "nan"),
    ],
)
def test_bad_settings_are_refused(build, field, received):
    with refused("invalid-argument", field=field, received=received):
        build()


def test_errors_survive_pickling_between_processes():
    error = InvalidArgumentError("units", "positive", -1, "Try again.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "units must be positive; received -1. Try again."


@pytest.mark.parametrize(
    "policy",
    [SBUCB(gamma=0.4, ridge=2.0, first="uniform", ties="random"), SupSBUCB(gamma=0.2), BPE()],
    ids=lambda policy: type(policy).__name__,
)
@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
def test_save_and_load_at_every_unit(policy, tmp_path):
    """Saved and loaded after every single unit, a run ends in the same bits."""
    case = instance(2, "disjoint", units=60, batches=3)
    straight, decisions = case.run(policy, cut=False)
    made, path, start = case.learner(policy), tmp_path / "learner.npz", 0
    actions = []
    for end in case.ends:
        for t in range(start, end):
            actions.append(int(made.assign(case.contexts[t : t + 1]).actions[0]))
            made.save(path)
            made = Learner.load(path)
        made.observe(case.table[np.arange(start, end), actions[start:end]])
        start = end
    assert actions == actions_of(decisions).tolist()
    assert made.policy == policy
    for ours, theirs in zip(made.state.evidence, straight.state.evidence, strict=True):
        assert ours.gram.tobytes() == theirs.gram.tobytes()
    for ours, theirs in zip(made.state.estimates, straight.state.estimates, strict=True):
        assert ours.theta.tobytes() == theirs.theta.tobytes()


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "learner"
    made = learner()
    made.save(path)
    old = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    made.assign(X[:2])
    with pytest.raises(OSError, match="disk full"):
        made.save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_no_learners_are_refused(tmp_path):
    path = tmp_path / "learner"
    learner().save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"hello", whole[: len(whole) // 2], whole[:-100] + bytes(100)):
        path.write_bytes(damaged)
        with refused("not-a-learner"):
            Learner.load(path)
    np.savez(path.with_suffix(".npz"), a=np.ones(3))
    with pytest.raises(LearnerFileError):
        Learner.load(path.with_suffix(".npz"))
    with pytest.raises(FileNotFoundError):
        Learner.load(tmp_path / "missing")


def test_a_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "learner"
    made = learner()
    made.assign(X[:4])
    made.save(path)
    whole = path.read_bytes()
    place = whole.index(X[0].tobytes()) + 3
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(LearnerFileError):
        Learner.load(path)


def test_a_compression_that_there_is_not_is_noticed(tmp_path):
    path = tmp_path / "learner"
    learner().save(path)
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"PK\x01\x02") + 10] = 99  # an archive's directory names the compression
    path.write_bytes(whole)
    with refused("not-a-learner"):
        Learner.load(path)


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "learner"
    monkeypatch.setattr("seqbatch.learner_file.FORMAT", 5)
    learner().save(path)
    monkeypatch.undo()
    with refused("other-format"):
        Learner.load(path)


def test_rank_deficiency_is_warned_of_once_and_visible():
    made = learner(SBPE(first="fixed"))
    made.assign(X[:4])
    with pytest.warns(RankDeficiencyWarning, match=r"SBPE: model 1 has rank 0 of 3 after 0 units"):
        made.observe(np.ones(4))
    assert made.estimate.rank.tolist() == [3, 0]
    made.assign(X[4:9])
    made.observe(np.ones(5))  # a second warning would be an error here


def test_bpe_never_touches_data_outside_its_interval():
    """Change the rewards outside T^(m): the actions of batch m + 1 do not change."""
    case = instance(3, "shared", units=2_000, batches=4)
    M = len(case.ends)
    _, decisions = case.run(BPE(), cut=False)
    groups = np.concatenate([decision.groups for decision in decisions])
    starts = [0, *case.ends[:-1]]
    for m in range(1, M):
        used = np.zeros(len(case.table), dtype=bool)
        for earlier in range(1, m + 1):
            n = case.ends[earlier - 1] - starts[earlier - 1]
            low, high = (m - 1) * n // M, m * n // M
            used[starts[earlier - 1] + low : starts[earlier - 1] + high] = True
        assert np.array_equal(used[: case.ends[m - 1]], groups[: case.ends[m - 1]] == m - 1)
        # Outcomes of batch m outside T^(m); earlier outcomes also steer earlier actions.
        others = np.flatnonzero(~used)
        others = others[(others >= starts[m - 1]) & (others < case.ends[m - 1])]
        table = case.table.copy()
        table[others] += 1e3
        changed = type(case)(case.layout, case.contexts, case.long, table, case.grid, case.seed)
        _, again = changed.run(BPE(), cut=False)
        assert np.array_equal(again[m].actions, decisions[m].actions)
        table[np.flatnonzero(used)[-1]] += 1e3
        _, moved = changed.run(BPE(), cut=False)
        assert not np.array_equal(moved[m].actions, decisions[m].actions)


@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
@pytest.mark.parametrize("first", ["fixed", "uniform"])
@pytest.mark.parametrize("ties", ["lowest", "random"])
@pytest.mark.parametrize("kind", [SBUCB, SupSBUCB])
def test_replay_equals_step_by_step_to_the_last_bit(kind, layout, first, ties):
    case = instance(6, layout, units=700, batches=6)
    policy = kind(gamma=0.3, ridge=0.6, first=first, ties=ties)
    stepped, decisions = case.run(policy)
    replayed = case.learner(policy)
    middle = case.ends[1]
    actions = [
        replayed.replay(case.contexts[:middle], case.table[:middle]),
        replayed.replay(case.contexts[middle:], case.table[middle:]),
    ]
    assert replayed.finished
    assert np.array_equal(np.concatenate(actions), actions_of(decisions))
    for ours, theirs in zip(replayed.state.evidence, stepped.state.evidence, strict=True):
        for name in ("gram", "moment", "squares", "count"):
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
    for ours, theirs in zip(replayed.state.estimates, stepped.state.estimates, strict=True):
        assert ours.theta.tobytes() == theirs.theta.tobytes()
        assert ours.root.tobytes() == theirs.root.tobytes()


def test_replay_of_any_policy_goes_batch_by_batch():
    case = instance(7, "block", units=300)
    policy = RBGL(first="uniform")
    replayed = case.learner(policy).replay(case.contexts, case.table)
    assert np.array_equal(replayed, actions_of(case.run(policy)[1]))


def test_a_subclass_does_not_inherit_the_compiled_loop():
    class Contrary(SBUCB):
        def choose(self, state, contexts, ranking, draws):
            actions, probabilities = super().choose(state, contexts, ranking, draws)
            return 1 - actions, probabilities[:, ::-1]

    made = learner(Contrary(gamma=1.0, first="fixed"))
    assert made.replay(X[:4], np.ones((4, 2))).tolist() == [1, 1, 1, 1]


def test_the_learner_keeps_its_own_copy_of_contexts():
    made, other, x = learner(), learner(), X[:4].copy()
    made.assign(x)
    other.assign(X[:4])
    x[:] = 0
    made.observe(np.ones(4))
    other.observe(np.ones(4))
    assert np.array_equal(made.estimate.theta, other.estimate.theta)


def test_draws_are_not_those_of_the_users_own_generator():
    """Contexts drawn from the same seed must not decide the actions."""
    x = np.random.default_rng(7).random((2_000, 1))
    made = Learner(
        UniformRandom(), grids.explicit([2_000]), actions=2, dim=1, layout="block", seed=7
    )
    agree = (made.assign(x).actions == (x[:, 0] >= 0.5)).mean()
    assert 0.45 < agree < 0.55


def test_numpy_numbers_are_as_good_as_pythons(tmp_path):
    policy = SBUCB(gamma=np.float32(0.5), ridge=np.int64(2))
    made = learner(policy, actions=np.int64(2), dim=np.int32(3))
    made.save(tmp_path / "learner")
    assert Learner.load(tmp_path / "learner").policy == SBUCB(gamma=0.5, ridge=2.0)


def test_results_are_the_users_to_change():
    made, other = learner(), learner()
    decision = made.assign(X[:4])
    other.assign(X[:4])
    decision.actions[:] = 1
    made.observe(np.arange(4.0))
    other.observe(np.arange(4.0))
    assert np.array_equal(made.estimate.theta, other.estimate.theta)
    made.estimate.theta[:] = 5
    assert np.array_equal(made.estimate.theta, other.estimate.theta)


def test_a_file_is_loaded_with_the_policy_it_was_saved_with(tmp_path):
    path = tmp_path / "learner"
    learner(SBUCB(gamma=0.5)).save(path)
    assert Learner.load(path, policy=SBUCB(gamma=0.5)).policy == SBUCB(gamma=0.5)
    for other in (SBUCB(gamma=0.6), UniformRandom(), LinUCB(gamma=0.5)):
        with refused("other-policy"):
            Learner.load(path, policy=other)


def test_a_state_that_could_not_be_read_back_is_not_saved(tmp_path):
    @dataclass(frozen=True)
    class Growing:
        history: tuple = ()

    class Remembering(UniformRandom):
        def begin(self, problem):
            self.__dict__["plain"] = super().begin(problem)
            return Growing()

        def assign(self, state, contexts, draws, positions):  # noqa: ARG002
            return super().assign(self.plain, contexts, draws, positions)

        def learn(self, state, feedback):
            return Growing((*state.history, float(feedback.rewards.sum())))

        def close(self, state):
            return state

    made = learner(Remembering())
    made.assign(X[:4])
    made.observe(np.ones(4))
    with refused("invalid-argument", field="state"):
        made.save(tmp_path / "learner")
    assert not list(tmp_path.iterdir())


def test_a_replay_that_fails_changes_nothing():
    made = learner(SBPE())
    before = snapshot(made)
    with pytest.raises(RankDeficiencyWarning):  # warnings are errors in these tests
        made.replay(X, np.ones((12, 2)))
    assert snapshot(made) == before


def test_thompson_shares_ties():
    kinds = {
        ties: ThompsonSampling(ties=ties, samples=8, first="fixed") for ties in ("lowest", "random")
    }
    shares = {
        ties: learner(policy).assign(np.zeros((1, 3))).probabilities[0].tolist()
        for ties, policy in kinds.items()
    }
    assert shares == {"lowest": [1.0, 0.0], "random": [0.5, 0.5]}


def test_a_policy_that_answers_wrongly_is_refused():
    class Short(UniformRandom):
        def assign(self, *arguments):
            decision = super().assign(*arguments)
            return replace(decision, actions=decision.actions[:1])

    class Wide(UniformRandom):
        def assign(self, *arguments):
            decision = super().assign(*arguments)
            return replace(decision, actions=decision.actions + 2)

    for policy, field in (
        (Short(), "Short's actions"),
        (Wide(), "Wide's actions"),
    ):
        with refused("invalid-argument", field=field):
            learner(policy).assign(X[:4])


@pytest.mark.parametrize("chosen", [True, False])
def test_a_policy_that_ignores_who_may_get_what_is_refused_by_name(chosen):
    class Unaware(UniformRandom):
        def assign(self, state, contexts, draws, positions):
            free = replace(contexts, eligible=None)
            decision = super().assign(state, free, draws, positions)
            # Without a wrong action, a wrong probability is left.
            return replace(
                decision, actions=decision.actions if chosen else np.ones_like(positions)
            )

    made = learner(Unaware())
    before = snapshot(made)
    part = "actions" if chosen else "probabilities"
    with refused("invalid-argument", field=f"Unaware's {part}"):
        made.assign(X[:4], eligible=np.tile([False, True], (4, 1)))
    assert snapshot(made) == before
    assert len(made.assign(X[:4])) == 4


def test_a_compiled_loop_that_ignores_who_may_get_what_is_refused():
    class Unaware(SBUCB):
        def replay(self, state, contexts, table, draws):
            return super().replay(state, replace(contexts, eligible=None), table, draws)

    made = learner(Unaware())
    before = snapshot(made)
    with refused("invalid-argument", field="Unaware's actions"):
        made.replay(X[:4], np.ones((4, 2)), eligible=np.tile([False, True], (4, 1)))
    assert snapshot(made) == before


def test_a_random_trial_can_be_read():
    made = learner(UniformRandom())
    for low, high in ((0, 4), (4, 9), (9, 12)):
        made.assign(X[low:high])
        made.observe(X[low:high] @ [1.0, 2.0, 3.0])
    np.testing.assert_allclose(made.estimate.theta, [[1.0, 2.0, 3.0]] * 2, rtol=1e-8)
