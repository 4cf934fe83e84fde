"""Broken policies and environments: each gets an error that says what is wrong."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from seqbatch import checks
from seqbatch.checks import EnvironmentCheckError, PolicyCheckError
from seqbatch.environments import Block, Gaussian
from seqbatch.policies import RBGL

pytestmark = pytest.mark.slow


class Decides(RBGL):
    """Changes what a sound policy decides; `change` says how."""

    def assign(self, state, contexts, draws, positions):
        return self.change(super().assign(state, contexts, draws, positions))


class Nothing(Decides):
    def change(self, decision):  # noqa: ARG002
        return None


class Bare(Decides):
    def change(self, decision):
        return decision.actions


class Lists(Decides):
    def change(self, decision):
        return replace(decision, actions=decision.actions.tolist())


class Fractions(Decides):
    def change(self, decision):
        return replace(decision, actions=decision.actions.astype(float))


class OneTooFew(Decides):
    def change(self, decision):
        return replace(decision, actions=decision.actions[1:])


class Negative(Decides):
    def change(self, decision):
        return replace(decision, actions=decision.actions - 1)


class NoProbabilities(Decides):
    def change(self, decision):
        return replace(decision, probabilities=None)


class OneColumn(Decides):
    def change(self, decision):
        return replace(decision, probabilities=decision.probabilities.max(axis=1))


class Halves(Decides):
    def change(self, decision):
        return replace(decision, probabilities=decision.probabilities / 2)


class Impossible(Decides):
    """Takes an action to which it gave no chance."""

    def change(self, decision):
        return replace(decision, probabilities=np.roll(decision.probabilities, 1, axis=1))


class Unknown(Decides):
    def change(self, decision):
        return replace(decision, probabilities=decision.probabilities * np.nan)


class UnknownScores(Decides):
    def change(self, decision):
        return replace(decision, scores=decision.scores + np.nan)


class ShortMeans(Decides):
    def change(self, decision):
        return replace(decision, means=decision.means[:, :2])


class NoGroups(Decides):
    def change(self, decision):
        return replace(decision, groups=None)


class ManyWidths(Decides):
    def change(self, decision):
        return replace(decision, widths=np.zeros(7))


class Raises(RBGL):
    def assign(self, state, contexts, draws, positions):  # noqa: ARG002
        raise IndexError("index 7 is out of bounds.")


class Signature(RBGL):
    def assign(self, state, contexts):
        return super().assign(state, contexts, None, None)


class NoMemory(RBGL):
    """Forgets to return the state."""

    def learn(self, state, feedback):
        super().learn(state, feedback)


class Unclosed(RBGL):
    def close(self, state):
        return super().close(state).estimates


class Dictionary(RBGL):
    def begin(self, problem):
        return {"state": super().begin(problem)}


class Grows(RBGL):
    """Adds a part to its state with every batch."""

    def close(self, state):
        closed = super().close(state)
        return replace(closed, estimates=closed.estimates * 2)


class LaterNonsense(RBGL):
    """Is sound until the third batch."""

    def assign(self, state, contexts, draws, positions):
        decision = super().assign(state, contexts, draws, positions)
        return replace(decision, means=decision.means * np.nan) if state.batch > 2 else decision


class LaterError(RBGL):
    def assign(self, state, contexts, draws, positions):
        if state.batch > 2:
            return {}[state.batch]
        return super().assign(state, contexts, draws, positions)


class InPlace(RBGL):
    def learn(self, state, feedback):
        state.evidence[0].moment[:] += 1
        return super().learn(state, feedback)


@dataclass(frozen=True, kw_only=True)
class Unspeakable(RBGL):
    """Cannot even be written out."""

    def __repr__(self):
        raise RuntimeError("no words")

    def begin(self, problem):  # noqa: ARG002
        return self


class BadExamples(RBGL):
    examples = ({"rigde": 1.0},)


class HalfAPolicy:
    def begin(self, problem):
        return problem

    def assign(self, *arguments):
        return arguments


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (None, "None: a policy must have begin, assign, learn and close"),
        (HalfAPolicy(), "it lacks learn and close"),
        (lambda problem: problem.dim, "int: 4: a policy must have begin"),
        (lambda: RBGL(), "Raised TypeError"),
        (Nothing(), "assign must return a Decision; returned None"),
        (Bare(), r"assign must return a Decision; returned int64 of shape \(40,\)"),
        (Lists(), r"actions must be int64 of shape \(40,\); returned list"),
        (Fractions(), r"actions must be int64 of shape \(40,\); returned float64"),
        (OneTooFew(), r"actions must be int64 of shape \(40,\); returned int64 of shape \(39,\)"),
        (Negative(), "actions must be int64 between 0 and 2; returned -1 to"),
        (NoProbabilities(), r"probabilities must be float64 of shape \(40, 3\); returned None"),
        (OneColumn(), r"probabilities must be .* returned float64 of shape \(40,\)"),
        (Halves(), r"sum to 1 and allow the chosen action; returned \["),
        (Impossible(), "sum to 1 and allow the chosen action"),
        (Unknown(), r"probabilities must be finite; returned \[nan"),
        (UnknownScores(), "scores must be finite"),
        (ShortMeans(), r"means must be float64 of shape \(40, 3\)"),
        (NoGroups(), r"groups must be int64 of shape \(40,\); returned None"),
        (ManyWidths(), r"widths must be float64 of shape \(40, 3\)"),
        (Raises(), r"assign must .* raise nothing. Raised IndexError: index 7 is out of bounds\.$"),
        (Signature(), "assign must .* raise nothing. Raised TypeError"),
        (NoMemory(), r"learn must return the type that begin returns \(State\); returned None"),
        (Unclosed(), r"close must return the type that begin returns \(State\); returned tuple"),
        (Dictionary(), "begin must return a state that can be saved: state must be made of arrays"),
        (Grows(), "close must return a state with the same parts"),
        (LaterNonsense(), "means must be finite"),
        (LaterError(), "in whatever pieces a batch is assigned. Raised KeyError: 3"),
        (InPlace(), "learn must not modify its arguments"),
        (Unspeakable(), "Unspeakable.*Raised"),
        (BadExamples(), "each of its examples must make a policy"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_broken_policies_are_told_what_is_wrong(policy, message):
    with pytest.raises(PolicyCheckError, match=message):
        checks.check_policy(policy)


@pytest.mark.parametrize("check", checks.POLICY_CHECKS, ids=lambda check: check.__name__)
def test_every_check_alone_raises_the_same_error(check):
    for policy in (None, Nothing(), Lists(), NoMemory(), Raises(), HalfAPolicy()):
        with pytest.raises(PolicyCheckError):
            check(policy)


def test_an_interruption_is_none_of_a_checks_business():
    class Stops(RBGL):
        def begin(self, problem):  # noqa: ARG002
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checks.check_policy(Stops())


def test_a_sound_policy_gets_a_report():
    report = checks.check_policy(RBGL(ridge=2.0))
    text = repr(report)
    assert text.startswith("RBGL(ridge = 2.0) keeps")
    assert len(text.splitlines()) == len(checks.POLICY_CHECKS) + 1 == len(report.rules) + 1
    assert all(rule.endswith(".") for _, rule in report.rules)
    assert "save and load: A learner saved in mid-batch" in text
    assert report._repr_html_().count("<tr>") == len(report.rules) + 1


class World:
    """A sound environment, parts of which are replaced."""

    def __init__(self, **changes):
        self.sound = Gaussian(dim=2, actions=2, layout="block")
        self.actions, self.dim, self.layout, self.units = 2, 2, "block", None
        self.block_parts = {}
        for name, value in changes.items():
            setattr(self, name, value)

    def instance(self, seed):
        return Drawn(self.sound.instance(seed), self.block_parts)


class Drawn:
    def __init__(self, inner, parts):
        self.inner, self.theta, self.parts = inner, inner.theta, parts

    def block(self, index):
        if "block" in self.parts:
            return self.parts["block"]
        block = self.inner.block(index)
        changed = {name: change(getattr(block, name)) for name, change in self.parts.items()}
        return replace(block, **changed)


def world(**parts):
    return World(block_parts=parts)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (None, "it lacks actions and dim and layout and units and instance"),
        (World(actions="two"), "actions must be a whole number of at least 2; it is str: 'two'"),
        (World(dim=None), "dim must be a whole number of at least 1; it is None"),
        (World(units=-3), "units must be a whole number of at least 1; it is int: -3"),
        (World(layout="square"), "layout must be one of .*; it is str: 'square'"),
        (World(instance=lambda _: None), "instance must return an object with theta and block"),
        (World(instance=lambda: None), "instance must accept .* Raised TypeError"),
        (world(block=None), "block must return a Block; returned None"),
        (world(block=Block(1, 2, 3, 4)), "contexts must be an array; it is int: 1"),
        (world(means=list), "means must be an array; it is list"),
        (world(noise=lambda x: x.astype(np.float32)), r"noise must be float64 .* it is float32"),
        (world(means=lambda x: x[:, :1]), r"means must be float64 of shape \(4096, 2\)"),
        (world(contexts=lambda x: x * np.nan), r"contexts must be finite; received \[nan\]"),
        (world(draws=lambda x: x + 1), r"draws must lie in \[0, 1\); they range from 1"),
        (world(means=lambda x: x + 1), "means must be the products of contexts and theta"),
        (
            world(draws=lambda x: x[:9]),
            "a block must hold 4096 units, or all of them if there are fewer; it holds 9",
        ),
        (world(noise=lambda x: x.missing), "block must accept .* Raised AttributeError"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_broken_environments_are_told_what_is_wrong(environment, message):
    with pytest.raises(EnvironmentCheckError, match=message):
        checks.check_environment(environment)


def test_the_unchanged_world_is_sound():
    assert len(checks.check_environment(World()).rules) == len(checks.ENVIRONMENT_CHECKS)


def test_arrays_that_cannot_be_written_to_may_be_shared():
    def frozen(array):
        array.flags.writeable = False
        return array

    checks.check_environment(world(contexts=frozen, means=frozen))
