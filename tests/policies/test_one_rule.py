"""One rule, several readers: each assigns as the policy itself does, or refuses by name.

Over every policy of the package, at parameters that are not the defaults, through several batches,
with ties, with actions that have no outcomes, and with eligibility where the reader has it.
"""

import pickle
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.draws import draws as draws_of
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.events import current
from seqbatch.core import Contexts, Problem
from seqbatch.policies import Feedback, registry
from seqbatch.policies.choice import pick
from seqbatch.simulation.device.assignment import Rules
from seqbatch.simulation.device.backend import backend
from seqbatch.simulation.device.trials import require_readable
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.campaign.warehouses import in_duckdb
from tests.cases import thorough
from tests.refusals import refused

# Policies that may lock in are readable, too.
pytestmark = [
    pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning"),
    pytest.mark.filterwarnings("ignore::seqbatch.errors.DoubtWarning"),
]

K, DIM = 4, 3
THETA = np.random.default_rng(3).standard_normal((K, DIM)).round(2)
#: What each policy is tried with; the registry has no policy that is not here.
SETTINGS = {
    "SBPE": (
        {"first": "uniform", "unknown": "avoid"},
        {"ties": "random"},
        {"first": "uniform", "estimate": "pooled", "last": "greedy"},
    ),
    "BPE": (
        {"split": "needed"},
        {"first": "uniform", "ties": "random", "unknown": "avoid"},
    ),
    "RBGL": ({"ridge": 0.3, "first": "uniform", "ties": "random", "unknown": "avoid"},),
    "LBGL": ({"scale": 0.02, "unknown": "avoid"}, {"scale": 0.02, "first": "fixed"}),
    "JointRidge": (
        {"start": 0, "ties": "random"},
        {"first": "fixed", "last": "greedy"},
        {"start": 0, "estimate": "averaged"},
    ),
    "SBUCB": (
        {"gamma": 0.7, "ridge": 0.4},
        {"gamma": 0.3, "first": "uniform", "ties": "random"},
        {"gamma": 0.9, "noise": "outcomes", "estimate": "pooled", "first": "uniform"},
    ),
    "LinUCB": ({"gamma": 0.7, "ridge": 0.4}, {"gamma": 0.3, "first": "uniform", "ties": "random"}),
    "SupSBUCB": (
        {"gamma": 0.7, "ridge": 0.4, "explore": "widest"},
        {"gamma": 0.3, "explore": "first", "first": "uniform", "ties": "random"},
    ),
    "ThompsonSampling": (
        {"samples": 16, "scale": 0.3, "ridge": 2.0},
        {"samples": 16, "first": "uniform", "ties": "random"},
        {"samples": 16, "scale": "outcomes", "estimate": "pooled", "last": "greedy"},
        {"samples": 16, "objective": "choose"},
        {"samples": 16, "objective": "choose", "ties": "random"},
    ),
    "Lookahead": ({"after": 300, "ridge": 0.4}, {"after": 2_000, "ties": "random"}),
    "EpsilonGreedy": (
        {"epsilon": 0.3, "ridge": 2.0, "ties": "random"},
        {"epsilon": 0.2, "first": "uniform", "unknown": "avoid"},
    ),
    "UniformRandom": ({},),
    "FixedAction": ({"action": 1},),
    "Oracle": ({"ties": "random"},),
}
CASES = [(kind, number) for kind, some in SETTINGS.items() for number in range(len(some))]
#: Whom a reader refuses.
NOT_ON_A_DEVICE = {"SupSBUCB", "EpsilonGreedy", "Lookahead"}
NOT_IN_SQL = {"SupSBUCB", "EpsilonGreedy", "ThompsonSampling", "Lookahead"}
NOT_IN_CAMPAIGNS = {"Oracle"}
NOT_SHARED = {"Lookahead"}
COMPILED = {"SBUCB", "SupSBUCB", "LinUCB"}
EVERY = pytest.mark.parametrize(("kind", "number"), CASES)
ELIGIBLE = pytest.mark.parametrize("masked", [False, True], ids=["everything", "eligible"])


def test_every_policy_is_tried():
    assert set(SETTINGS) == set(registry.kinds())
    policies = {kind: registry.kinds()[kind] for kind in SETTINGS}
    assert {kind for kind, made in policies.items() if "replay" in vars(made)} == COMPILED


def made(kind, number, layout="block", theta=THETA):
    parameters = SETTINGS[kind][number]
    if kind == "Oracle":
        parameters = {**parameters, "theta": theta[0] if layout == "shared" else theta}
    return registry.make(kind, **parameters)


@dataclass(frozen=True)
class World:
    """Units of several batches: contexts, every action's reward, draws, and who may get what."""

    problem: Problem
    values: np.ndarray
    table: np.ndarray
    draws: np.ndarray
    eligible: np.ndarray | None

    def contexts(self, rows):
        eligible = None if self.eligible is None else self.eligible[rows]
        return Contexts.of(self.values[rows], self.problem, eligible=eligible)

    def batches(self, policy):
        """Play all batches; yield each one's rows, state and decision. Action 3 teaches nothing."""
        state, start = policy.begin(self.problem), 0
        for end in self.problem.ends:
            rows = slice(start, end)
            contexts, positions = self.contexts(rows), np.arange(end - start)
            decision = policy.assign(state, contexts, self.draws[rows], positions)
            yield rows, state, decision
            chosen = decision.actions
            rewards = self.table[rows][positions, chosen]
            vectors, told = contexts.chosen(chosen), np.flatnonzero(chosen != 3)
            state = policy.learn(
                state, Feedback(vectors[told], chosen[told], decision.groups[told], rewards[told])
            )
            state, start = policy.close(state), end


def world(layout, kind, *, masked):
    random = np.random.default_rng(8)
    ends = tuple(range(1, 41)) if kind == "LinUCB" else (30, 90, 200, 400)
    shape = (ends[-1], DIM) if layout == "block" else (ends[-1], K, DIM)
    values = random.standard_normal(shape)
    # Every third unit has ties: a score of zeros is exactly 0, by whatever sums.
    values[::3] *= 0 if layout == "block" else random.integers(0, 2, (len(values[::3]), K, 1))
    table = random.standard_normal((ends[-1], K)) - 0.5
    eligible = None
    if masked:
        eligible = random.random(table.shape) < 0.6
        eligible[np.arange(len(table)), random.integers(0, K, len(table))] = True
    problem = Problem(ends=ends, actions=K, dim=DIM, layout=layout)
    return World(problem, values, table, random.random(len(table)), eligible)


def refused_layout(kind, number, layout):
    """Return whether a policy is not for the layout, which it must say itself."""
    if kind not in NOT_SHARED or layout != "shared":
        return False
    with refused("invalid-argument", field="layout", match=kind):
        made(kind, number).begin(world(layout, kind, masked=False).problem)
    return True


def require_same(one, other):
    """Compare two decisions in all that they say."""
    for name in ("actions", "probabilities", "scores", "means", "widths", "groups", "stages"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None), name
        assert left is None or left.tobytes() == right.tobytes(), name
    assert np.array_equal(one.candidates, other.candidates)
    assert np.array_equal(one.rules, other.rules)


@EVERY
@ELIGIBLE
@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
def test_numpy(kind, number, masked, layout):
    """The rule alone, sent somewhere else without its policy, decides the same."""
    if refused_layout(kind, number, layout):
        return
    policy, units = made(kind, number, layout), world(layout, kind, masked=masked)
    given = np.zeros(K)
    for rows, state, decision in units.batches(policy):
        rule = pickle.loads(pickle.dumps(policy.rule(state)))
        size = rows.stop - rows.start
        again = rule.decide(units.contexts(rows), units.draws[rows], np.arange(size))
        require_same(again, decision)
        given += np.bincount(again.actions, minlength=K)
        parts = np.full(size, -1)
        for group, start, stop in rule.parts(size):
            parts[start:stop] = group
        if rule.staging is None:
            assert np.array_equal(parts, decision.groups)
        if (constant := rule.constant(K)) is not None and rule.epsilon is None and not masked:
            assert (decision.probabilities == constant).all()
    assert (given > 0).sum() > (kind != "FixedAction" or masked)


@EVERY
@pytest.mark.parametrize("layout", ["shared", "disjoint", "block"])
def test_device(kind, number, layout):
    if refused_layout(kind, number, layout):
        return
    policy, units = made(kind, number, layout), world(layout, kind, masked=False)
    if kind in NOT_ON_A_DEVICE:
        with refused("invalid-argument", field="method", match=kind):
            require_readable(policy, units.problem)
        return
    assert require_readable(policy, units.problem) is policy
    place, unchanged = backend("numpy"), np.eye(DIM)[None]
    for rows, state, decision in units.batches(policy):
        rules = Rules.of(policy.rule(state), units.problem.models, place, unchanged)
        x, draws = units.contexts(rows).rows()[None], units.draws[rows][None]
        found = rules.actions(x, lambda draws=draws: draws, units.problem)[0]
        assert np.array_equal(found, decision.actions), state.batch


@EVERY
@ELIGIBLE
def test_compiled_replay(kind, number, masked):
    if kind not in COMPILED:
        return
    policy, units = made(kind, number), world("block", kind, masked=masked)
    if not policy.published:
        return
    # A replay learns from every unit, those of action 3 included.
    actions, state, start = [], policy.begin(units.problem), 0
    for end in units.problem.ends:
        rows, positions = slice(start, end), np.arange(end - start)
        contexts = units.contexts(rows)
        decision = policy.rule(state).decide(contexts, units.draws[rows], positions)
        rewards = units.table[rows][positions, decision.actions]
        vectors = contexts.chosen(decision.actions)
        state = policy.learn(state, Feedback(vectors, decision.actions, decision.groups, rewards))
        actions.append(decision.actions)
        state, start = policy.close(state), end
    every = slice(0, units.problem.units)
    played = policy.replay(
        policy.begin(units.problem), units.contexts(every), units.table, units.draws
    )
    assert np.array_equal(played[1], np.concatenate(actions))
    assert len(np.unique(played[1])) > 1


# ----------------------------------------------------------------------
# SQL and Arrow batches: campaigns whose units all follow the policy.


ACTIONS = ["none", "mail", "call", "visit"]
SPEC = {
    "name": "one",
    "seed": 5,
    "start": "2026-03-01",
    "unit": "id",
    "actions": ACTIONS,
    "draws": "md5",
    "sums": "exact",
    **about("gain", range=[-10, 10]),
    "features": {
        "numeric": {
            name: {"scale": {"mean": 0, "sd": 1}, "clip": False, "range": [-9, 9]} for name in "xy"
        }
    },
}
RULES = {"eligible": {"mail": "x > -0.3", "call": "y > 0", "none": "x < 1"}}


def campaign_of(store, kind, number, *, masked):
    policy = registry.describe(made(kind, number))
    sizes = [1] * 5 if kind == "LinUCB" else [40, 60, 80]
    spec = {**SPEC, **(RULES if masked else {}), "policy": policy, "grid": {"sizes": sizes}}
    return Campaign.create(spec, store=store)


def people(count, wave):
    random = np.random.default_rng(wave)
    ids = [f"{wave}-{number}" for number in range(count)]
    return pl.DataFrame({"id": ids, **{name: random.normal(0, 1, count) for name in "xy"}})


def by_the_policy(store, units):
    """Return what the policy's own `assign` says of the units of the open wave."""
    with store.read("one") as reader:
        now, content = current(reader), reader.last_state().content
    state, encoder = unpack_state(content, now), now.encoder(wave=now.wave)
    given = units.to_arrow().combine_chunks()
    drawn = draws_of(now.spec.seed, now.name, units["id"].to_list(), by="md5")
    size = now.problem().size(now.wave)
    places = np.minimum((drawn.place * size).astype(np.int64), size - 1)
    mask = None if encoder.eligibility is None else encoder.eligibility.mask(given)
    own = encoder.contexts(encoder.encode(given), now.active)
    contexts = Contexts(own, now.problem(), mask)
    decision = now.made_policy().assign(state, contexts, drawn.choice, places)
    # Without a floor and randomised units a campaign draws from the policy's own probabilities.
    actions = pick(decision.probabilities, drawn.choice)[0]
    scores = decision.scores[np.arange(len(actions)), actions]
    return pl.DataFrame(
        {
            "id": units["id"],
            "action": [ACTIONS[action] for action in actions],
            "score": scores,
            **{f"p{action}": decision.probabilities[:, action] for action in range(K)},
            "part": decision.groups,
        }
    )


@pytest.mark.parametrize(("kind", "number", "masked"), [
    (*case, place % 2 == 0) for place, case in enumerate(CASES)
] + thorough(*((*case, place % 2 == 1) for place, case in enumerate(CASES))))  # fmt: skip
def test_sql_and_arrow_batches(tmp_path, kind, number, masked):
    store = open_store(tmp_path / "campaigns.db")
    if kind in NOT_IN_CAMPAIGNS:
        with refused("invalid-spec", field="policy.kind"):
            campaign_of(store, kind, number, masked=masked)
        store.close()
        return
    campaign = campaign_of(store, kind, number, masked=masked)
    if kind in NOT_IN_SQL:
        for reader in (lambda: campaign.sql(units="units"), campaign.rule):
            with refused("not-in-sql", match=kind):
                reader()
        store.close()
        return
    seen = set()
    for wave, size in enumerate(campaign.situation().sizes, start=1):
        units = people(size, wave)
        wanted = by_the_policy(store, units)
        (batch,) = units.to_arrow().combine_chunks().to_batches()
        by_database = in_duckdb(campaign.sql(units="units"), units=units)
        for found in (by_database, pl.DataFrame(campaign.rule().assign(batch))):
            pairs = units.select("id").join(found, on="id", how="left", maintain_order="left")
            for column in wanted.columns:
                assert pairs[column].to_list() == wanted[column].to_list(), (wave, column)
        seen |= set(wanted["action"])
        campaign.assign(units)
        # Nothing comes back of the first wave's last action; all rewards are below 0.
        unknown = wave == 1 and kind != "LinUCB"
        known = wanted.filter(pl.col("action") != "visit") if unknown else wanted
        gains = np.random.default_rng([wave, 1]).normal(-2, 1, len(known)).clip(-9, 0)
        campaign.record(known.select("id").with_columns(gain=pl.Series(gains)))
        campaign.close(force=True, reason="the last action has no outcomes")
    assert len(seen) > (kind != "FixedAction" or masked)
    store.close()
