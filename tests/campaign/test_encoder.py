"""The numbers of the model, column by column, against the documentation taken literally."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign.design.toml import check_spec
from seqbatch.campaign.tables.columns import MISSING, Problems
from seqbatch.campaign.tables.encoder import Encoder, learn_scaling
from tests.oracles import encoder as oracle

NUMBERS = st.floats(-100, 100, allow_subnormal=False)
LEVELS = ["a", "b", "c", "d"]
NUMERIC = st.sampled_from(["raw", "learn", {"mean": 3.0, "sd": 0.7}, {"mean": -2.0, "sd": 8.0}])
CATEGORICAL = st.one_of(
    st.lists(st.sampled_from([*LEVELS, "other"]), min_size=1, max_size=4, unique=True),
    st.integers(1, 5).map(lambda width: {"hash": width}),
)


@st.composite
def feature_sets(draw):
    """Return what a spec may declare under `[features]`."""
    numeric = draw(st.dictionaries(st.sampled_from(["x", "y", "z"]), NUMERIC, max_size=3))
    categorical = draw(st.dictionaries(st.sampled_from(["k", "l"]), CATEGORICAL, max_size=2))
    names = [*numeric, *categorical]
    pairs = st.tuples(*[st.sampled_from(names)] * 2) if names else st.nothing()
    return {
        "intercept": draw(st.booleans()) if names else True,
        "numeric": numeric,
        "categorical": categorical,
        "interactions": draw(st.lists(pairs, max_size=3)) if names else [],
    }


@st.composite
def tables(draw, features, *, other):
    """Return rows that a spec takes: with `other` any text or none, else declared levels alone."""
    columns = dict.fromkeys(features["numeric"], NUMBERS)
    for name, kind in features["categorical"].items():
        if other:
            columns[name] = st.none() | st.sampled_from([*LEVELS, "other", "new"])
        else:
            columns[name] = st.sampled_from(LEVELS if isinstance(kind, dict) else kind)
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=6))


@st.composite
def actions_with_traits(draw):
    """Return actions of one or two features each, some of them still given."""
    traits = draw(st.sampled_from([["price"], ["price", "calls"]]))
    count = draw(st.integers(2, 4))
    made = [{trait: draw(NUMBERS) for trait in traits} for _ in range(count)]
    active = draw(st.sets(st.integers(0, count - 1), min_size=1))
    return made, tuple(sorted(active))


def encoder_of(features, *, other, learned, actions=()):
    """Return the encoder of a spec, as a campaign makes it."""
    declared = [{"name": f"a{n}", "features": traits} for n, traits in enumerate(actions)]
    spec = check_spec({
        "name": "spring",
        "unit": "id",
        "actions": declared[:2] or ["a0", "a1"],
        "model": "shared" if actions else "per-action",
        "features": features,
        "reward": {"column": "reward"},
        "grid": {"sizes": [10]},
        "on_unseen_category": "other" if other else "error",
    })  # fmt: skip
    # Actions beyond the first two were added later.
    later = [type(spec.actions[0]).model_validate(action) for action in declared[2:]]
    return Encoder.of(spec, actions=(*spec.actions, *later), learned=learned)


def prepared(encoder, rows):
    """Return rows as a campaign keeps them after they were checked."""
    columns = {"id": [str(number) for number in range(len(rows))]}
    for name in encoder.features.numeric:
        columns[name] = pa.array([row[name] for row in rows], pa.float64())
    for name in encoder.features.categorical:
        columns[name] = pa.array([row[name] for row in rows], pa.string())
    problems = Problems()
    _, kept = encoder.prepared(pa.RecordBatch.from_pydict(columns), 0, problems)
    assert problems.found == []
    return kept


def learned_for(data, features):
    wanted = [name for name, kind in features["numeric"].items() if kind == "learn"]
    pairs = st.tuples(NUMBERS, st.sampled_from([0.0, 0.5, 3.0]))
    return data.draw(st.none() | st.fixed_dictionaries(dict.fromkeys(wanted, pairs)))


def test_a_case_by_hand():
    features = {
        "intercept": True,
        "numeric": {"age": "learn", "spend": {"mean": 10.0, "sd": 5.0}},
        "categorical": {"zip": ["urban", "rural"]},
        "interactions": [("age", "zip"), ("spend", "age")],
    }
    rows = [
        {"age": 20.0, "spend": 10.0, "zip": "urban"},
        {"age": 30.0, "spend": 20.0, "zip": "rural"},
        {"age": 70.0, "spend": 5.0, "zip": "rural"},
    ]
    before = encoder_of(features, other=False, learned=None)
    learned = learn_scaling(before, [prepared(before, rows)])
    # The mean of 20, 30, 70 is 40; squared gaps of 400, 100 and 900 are 1400 / 3 on average.
    assert learned == {"age": (40.0, pytest.approx(21.602468994692867))}
    encoder = encoder_of(features, other=False, learned={"age": (40.0, 20.0)})
    assert encoder.names == (
        "intercept", "age", "spend", "zip=urban", "zip=rural",
        "age*zip=urban", "age*zip=rural", "spend*age",
    )  # fmt: skip
    assert encoder.encode(prepared(encoder, rows)).tolist() == [
        [1.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0],
        [1.0, -0.5, 2.0, 0.0, 1.0, 0.0, -0.5, -1.0],
        [1.0, 1.5, -1.0, 0.0, 1.0, 0.0, 1.5, -1.5],
    ]
    # Before anything is learned, nothing is made of the age.
    assert not before.encode(prepared(before, rows))[:, [1, 5, 6, 7]].any()
    assert np.array_equal(before.encode(prepared(before, rows))[:, 2], [0.0, 2.0, -1.0])


def test_every_missing_category_is_named_however_it_is_spelt():
    features = {"categorical": {"zip": ["urban", "rural"]}}
    encoder = encoder_of(features, other=False, learned=None)
    given = {"id": ["1", "2", "3", "4"], "zip": ["urban", None, "", "rural"]}
    problems = Problems()
    encoder.prepared(pa.RecordBatch.from_pydict(given), 0, problems)
    assert problems.found == [(2, "zip", MISSING), (3, "zip", MISSING)]


@settings(max_examples=80)
@given(st.data(), feature_sets(), st.booleans())
def test_vectors_and_names_are_the_documented_ones(data, features, other):
    rows, learned = data.draw(tables(features, other=other)), learned_for(data, features)
    encoder = encoder_of(features, other=other, learned=learned)
    wanted = [oracle.encoded(row, features, other=other, learned=learned) for row in rows]
    made = encoder.encode(prepared(encoder, rows))
    assert encoder.names == tuple(name for name, _ in wanted[0])
    assert encoder.dim == len(wanted[0])
    assert made.tolist() == [[number for _, number in row] for row in wanted]
    assert encoder.contexts(made, (0, 1)).tolist() == made.tolist()


@settings(max_examples=40)
@given(st.data(), feature_sets(), actions_with_traits())
def test_a_shared_model_takes_products_with_the_features_of_each_action(data, features, actions):
    traits, active = actions
    rows, learned = data.draw(tables(features, other=True)), learned_for(data, features)
    encoder = encoder_of(features, other=True, learned=learned, actions=traits)
    own = [oracle.encoded(row, features, other=True, learned=learned) for row in rows]
    wanted = [[oracle.with_action(row, traits[action]) for action in active] for row in own]
    made = encoder.contexts(encoder.encode(prepared(encoder, rows)), active)
    assert encoder.names == tuple(name for name, _ in wanted[0][0])
    assert made.tolist() == [
        [[number for _, number in vector] for vector in unit] for unit in wanted
    ]


@settings(max_examples=30)
@given(st.data(), feature_sets(), st.integers(1, 3))
def test_scaling_is_the_mean_and_population_deviation_however_units_come(data, features, step):
    rows = data.draw(tables(features, other=True))
    encoder = encoder_of(features, other=True, learned=None)
    pieces = [prepared(encoder, rows[start : start + step]) for start in range(0, len(rows), step)]
    made, wanted = learn_scaling(encoder, pieces), oracle.scaling(rows, features)
    assert made.keys() == wanted.keys()
    for name, (mean, deviation) in wanted.items():
        assert made[name] == pytest.approx((mean, deviation), rel=1e-9, abs=1e-9)
