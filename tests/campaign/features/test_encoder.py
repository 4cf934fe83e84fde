"""The numbers of the model, column by column, against the documentation taken literally."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign.features.encoder import Encoder, Room, learn, vectors
from seqbatch.campaign.features.learned_scales import LearnedFeatures
from seqbatch.campaign.files.column_values import Problems
from seqbatch.campaign.spec.toml import check_spec
from tests.campaign.specs import about
from tests.oracles import encoder as oracle

START = datetime.date(2026, 3, 1)
#: Eighths: no sum of them is rounded, and none is too close to another to be scaled up.
NUMBERS = st.integers(-800, 800).map(lambda eighths: eighths / 8)
LEVELS = ["a", "b", "c", "d"]
SCALES = st.sampled_from(["raw", "learn", {"mean": 3.0, "sd": 0.7}, {"mean": -2.0, "sd": 8.0}])
MISSING = st.sampled_from(["refuse", "mean", "median", -3.5])
SHARES = st.sampled_from([0.0, 0.05, 0.5, 1.0])
CLIPS = st.sampled_from([False, [0.001, 0.999], [0.2, 0.7], [0.0, 0.5]])
RULES = {"missing": MISSING, "indicator": SHARES}
BOUNDED = st.one_of(
    st.fixed_dictionaries({}, optional={**RULES, "clip": CLIPS}),
    st.fixed_dictionaries({"range": st.just([-5.0, 20.0])}, optional=RULES),
)
NUMERIC = st.one_of(
    SCALES,
    st.builds(lambda rules, scale: {"scale": scale, **rules}, BOUNDED, SCALES),
)
PARTS = st.lists(st.sampled_from(["days", "weekday", "month"]), min_size=1, unique=True)
DATE = st.builds(lambda rules, parts: {**rules, "parts": parts}, BOUNDED, PARTS)
BOOLEAN = st.sampled_from(["refuse", "level", True, False])
DECLARED = st.lists(
    st.sampled_from([*LEVELS, "other", "missing"]), min_size=1, max_size=4, unique=True
)
CATEGORICAL = st.one_of(
    DECLARED,
    st.fixed_dictionaries(
        {"hash": st.integers(1, 5)}, optional={"missing": st.sampled_from(["refuse", "level"])}
    ),
    st.fixed_dictionaries(
        {"levels": DECLARED},
        optional={
            "least": st.integers(0, 3),
            "other": st.booleans(),
            "missing": st.sampled_from(["refuse", "level"]),
        },
    ),
)


@st.composite
def feature_sets(draw):
    """Return what a spec may declare under `[features]`."""
    made = {
        "numeric": draw(st.dictionaries(st.sampled_from(["x", "y", "z"]), NUMERIC, max_size=3)),
        "date": draw(st.dictionaries(st.sampled_from(["s", "t"]), DATE, max_size=1)),
        "boolean": draw(st.dictionaries(st.sampled_from(["u", "v"]), BOOLEAN, max_size=2)),
        "categorical": draw(st.dictionaries(st.sampled_from(["k", "l"]), CATEGORICAL, max_size=2)),
    }
    names = [name for kind in made.values() for name in kind]
    pairs = st.tuples(*[st.sampled_from(names)] * 2) if names else st.nothing()
    return {
        "intercept": draw(st.booleans()) if names else True,
        **made,
        "interactions": draw(st.lists(pairs, max_size=3)) if names else [],
    }


def cells(name, features, *, other):
    """Return what a spec takes in one column."""
    if (kind := features["numeric"].get(name)) is not None:
        accepts = isinstance(kind, dict) and kind.get("missing", "refuse") != "refuse"
        return st.none() | NUMBERS | st.just(1e9) if accepts else NUMBERS | st.just(1e9)
    if (kind := features["date"].get(name)) is not None:
        days = st.dates(datetime.date(2019, 1, 1), datetime.date(2027, 1, 1))
        return st.none() | days if kind.get("missing", "refuse") != "refuse" else days
    if (kind := features["boolean"].get(name)) is not None:
        return st.booleans() if kind == "refuse" else st.none() | st.booleans()
    kind = features["categorical"][name]
    kind = kind if isinstance(kind, dict) else {"levels": kind}
    anything = "hash" in kind or kind.get("other", other)
    levels = [*LEVELS, "other", "missing", "new"] if anything else kind["levels"]
    accepts = kind.get("missing") == "level"
    return st.none() | st.sampled_from(levels) if accepts else st.sampled_from(levels)


@st.composite
def tables(draw, features, *, other, least=1, most=6):
    """Return rows that a spec takes."""
    names = [n for kind in ("numeric", "date", "boolean", "categorical") for n in features[kind]]
    columns = {name: cells(name, features, other=other) for name in names}
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=least, max_size=most))


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
        "start": START,
        **about("reward"),
        "grid": {"sizes": [10]},
        "on_unseen_category": "other" if other else "error",
    })  # fmt: skip
    # Actions beyond the first two were added later.
    later = [type(spec.actions[0]).model_validate(action) for action in declared[2:]]
    return Encoder.of(spec, actions=(*spec.actions, *later), learned=learned)


def prepared(encoder, rows):
    """Return rows as a campaign keeps them after they were checked."""
    columns = {"id": [str(number) for number in range(len(rows))]}
    for name, part in encoder.parts.items():
        columns[name] = pa.array([row[name] for row in rows], part.kept)
    problems = Problems()
    _, kept = encoder.prepared(pa.RecordBatch.from_pydict(columns), 0, problems)
    assert problems.found == []
    return kept


def learned_from(encoder, rows, *, step=None):
    """Return what rows teach, taken in pieces."""
    step = step or len(rows)
    pieces = [prepared(encoder, rows[start : start + step]) for start in range(0, len(rows), step)]
    return learn(encoder, lambda: pieces, units=len(rows))


def learned_for(data, features, *, other):
    """Return nothing, or what some first wave taught."""
    if data.draw(st.booleans()):
        return None
    rows = data.draw(tables(features, other=other, most=8))
    return learned_from(encoder_of(features, other=other, learned=None), rows)


def plain(learned):
    return None if learned is None else learned.plain()


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
    age = learned_from(before, rows).numbers["age"]
    # The mean of 20, 30, 70 is 40; squared gaps of 400, 100 and 900 are 1400 / 3 on average.
    assert (age.mean, age.sd) == (40.0, pytest.approx(21.602468994692867))
    # Three values are too few for one of them to lie beyond a quantile of 0.001.
    assert (age.low, age.high, age.clipped) == (20.0, 70.0, 0)
    numbers = {"age": {"low": 20.0, "high": 70.0, "fill": 0.0, "mean": 40.0, "sd": 20.0,
                       "indicator": False}}  # fmt: skip
    learned = LearnedFeatures.of({"numbers": numbers, "rare": {}})
    encoder = encoder_of(features, other=False, learned=learned)
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


def test_what_is_missing_is_named_with_the_setting_that_accepts_it():
    features = {
        "categorical": {"zip": ["urban", "rural"]}, "numeric": {"age": "learn"},
        "boolean": {"member": "refuse"}, "date": {"since": "iso"},
    }  # fmt: skip
    encoder = encoder_of(features, other=False, learned=None)
    given = {"id": ["1", "2", "3", "4"], "zip": ["urban", None, "", "rural"],
             "age": ["1", "NA", "", "-"], "member": ["yes", "no", "?", "JA"],
             "since": ["2026-01-31", None, "2026-01-31", "2025-12-01"]}  # fmt: skip
    problems = Problems()
    encoder.prepared(pa.RecordBatch.from_pydict(given), 0, problems)
    assert {each.code for each in problems.found} == {"missing"}
    assert [(each.row, each.column) for each in problems.found] == [
        (2, "age"), (3, "age"), (4, "age"), (2, "since"), (3, "member"), (2, "zip"), (3, "zip"),
    ]  # fmt: skip


@given(st.data(), feature_sets(), st.booleans())
def test_vectors_and_names_are_the_documented_ones(data, features, other):
    rows = data.draw(tables(features, other=other))
    learned = learned_for(data, features, other=other)
    encoder = encoder_of(features, other=other, learned=learned)
    options = {"other": other, "learned": plain(learned), "start": START}
    wanted = [oracle.encoded(row, features, **options) for row in rows]
    made = encoder.encode(prepared(encoder, rows))
    assert encoder.names == tuple(name for name, _ in wanted[0])
    assert encoder.dim == len(wanted[0])
    assert made.tolist() == [[number for _, number in row] for row in wanted]
    assert encoder.contexts(made, (0, 1)).tolist() == made.tolist()


def test_a_retired_action_leaves_the_others_their_features():
    features = {"numeric": {"age": "raw"}, "intercept": False}
    traits = [{"price": 1.0}, {"price": 2.0}, {"price": 5.0}]
    encoder = encoder_of(features, other=False, learned=None, actions=traits)
    [unit] = encoder.contexts(np.array([[3.0]]), (0, 2))
    assert unit.tolist() == [[3.0, 3.0], [3.0, 15.0]]


@settings(max_examples=60)
@given(st.data(), feature_sets(), actions_with_traits())
def test_a_shared_model_takes_products_with_the_features_of_each_action(data, features, actions):
    traits, active = actions
    rows = data.draw(tables(features, other=True))
    learned = learned_for(data, features, other=True)
    encoder = encoder_of(features, other=True, learned=learned, actions=traits)
    options = {"other": True, "learned": plain(learned), "start": START}
    own = [oracle.encoded(row, features, **options) for row in rows]
    wanted = [[oracle.with_action(row, traits[action]) for action in active] for row in own]
    made = encoder.contexts(encoder.encode(prepared(encoder, rows)), active)
    assert encoder.names == tuple(name for name, _ in wanted[0][0])
    assert made.tolist() == [
        [[number for _, number in vector] for vector in unit] for unit in wanted
    ]


@settings(max_examples=150)
@given(st.data(), feature_sets(), st.booleans())
def test_what_is_learned_is_the_documented_thing(data, features, other):
    rows = data.draw(tables(features, other=other, most=12))
    encoder = encoder_of(features, other=other, learned=None)
    made, wanted = learned_from(encoder, rows).plain(), oracle.learn(rows, features, start=START)
    assert made["rare"] == wanted["rare"]
    assert made["numbers"].keys() == wanted["numbers"].keys()
    for name, number in wanted["numbers"].items():
        for setting, value in number.items():
            near = value if value is None else pytest.approx(value, rel=1e-12)
            assert made["numbers"][name][setting] == near


@settings(max_examples=100)
@given(st.data(), feature_sets(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_neither_order_nor_pieces_have_a_part_in_what_is_learned(data, features, step, random):
    rows = data.draw(tables(features, other=True, most=20))
    encoder = encoder_of(features, other=True, learned=None)
    whole = learned_from(encoder, rows)
    random.shuffle(rows)
    assert learned_from(encoder, rows, step=step) == whole


def test_learning_some_columns_at_a_time_changes_nothing(monkeypatch):
    features = {"numeric": {name: {"missing": "median"} for name in "abcde"}}
    encoder = encoder_of(features, other=False, learned=None)
    rng = np.random.default_rng(3)
    rows = [dict(zip("abcde", rng.normal(size=5).tolist(), strict=True)) for _ in range(50)]
    whole = learned_from(encoder, rows)
    monkeypatch.setattr("seqbatch.campaign.features.encoder.AT_ONCE", 120)
    assert learned_from(encoder, rows, step=7) == whole


def test_outliers_are_counted_and_moved_to_the_quantiles_of_the_first_wave():
    features = {"numeric": {"x": "learn", "y": {"scale": "raw", "range": [0, 10]}}}
    before = encoder_of(features, other=False, learned=None)
    first = [{"x": float(n), "y": 1.0} for n in range(2_000)]
    first[0]["x"] = -1e9
    learned = learned_from(before, first)
    # Two of 2,000 values lie beyond each quantile, the outlier among them.
    assert (learned.numbers["x"].low, learned.numbers["x"].high) == (2.0, 1997.0)
    assert learned.numbers["x"].clipped == 4
    assert learned.numbers["x"].mean == pytest.approx(999.5)
    encoder = encoder_of(features, other=False, learned=learned)
    given = prepared(encoder, [{"x": 1e9, "y": 11.0}, {"x": 1997.0, "y": -1.0}, *first[5:9]])
    assert encoder.clipped(given) == {"x": 1, "y": 2}
    made = encoder.encode(given)
    assert made[0].tolist() == [*made[1, :2], 10.0]
    assert made[1, 2] == 0.0
    # What is declared holds from the start; what is learned not before it is.
    assert before.clipped(given) == {"y": 2}


def test_an_indicator_comes_where_enough_is_missing():
    features = {"numeric": {"x": {"missing": "mean", "indicator": 0.3}}}
    before = encoder_of(features, other=False, learned=None)
    for missing, indicator in ((3, False), (4, True)):
        rows = [{"x": None}] * missing + [{"x": float(n)} for n in range(10 - missing)]
        encoder = encoder_of(features, other=False, learned=learned_from(before, rows))
        assert encoder.names == ("intercept", "x", "x missing")
        made = encoder.encode(prepared(encoder, rows))
        assert made[0].tolist() == [1.0, 0.0, float(indicator)]


def test_a_level_that_is_rare_in_the_first_wave_is_another_for_good():
    features = {"categorical": {"k": {"levels": ["a", "b"], "least": 2, "missing": "level"}}}
    before = encoder_of(features, other=False, learned=None)
    learned = learned_from(before, [{"k": "a"}, {"k": "a"}, {"k": "b"}, {"k": None}])
    assert learned.rare == {"k": ("b",)}
    encoder = encoder_of(features, other=False, learned=learned)
    assert encoder.names == ("intercept", "k=a", "k=b", "k=other", "k=missing")
    made = encoder.encode(prepared(encoder, [{"k": "b"}] * 5 + [{"k": None}, {"k": "a"}]))
    assert made[:, 1:].argmax(axis=1).tolist() == [2] * 5 + [3, 0]


@settings(max_examples=100)
@given(st.data(), feature_sets())
def test_directions_are_those_that_many_units_show(data, features):
    learned = learned_from(
        encoder_of(features, other=True, learned=None),
        data.draw(tables(features, other=True, least=3, most=12)),
    )
    encoder = encoder_of(features, other=True, learned=learned)
    used, most = encoder.directions()
    made = encoder.encode(prepared(encoder, data.draw(tables(features, other=True, most=30))))
    assert np.linalg.matrix_rank(made) <= most <= used <= encoder.dim
    assert made.any(axis=0).sum() <= used


@pytest.mark.parametrize(("features", "wanted"), [
    ({"numeric": {"x": "raw"}}, (2, 2)),
    ({"categorical": {"k": ["a", "b", "c"]}}, (4, 3)),
    ({"categorical": {"k": ["a", "b", "c"]}, "intercept": False}, (3, 3)),
    ({"categorical": {"k": ["a", "b"], "l": ["a", "b"]}}, (5, 3)),
    ({"categorical": {"k": ["a", "b"]}, "numeric": {"x": "raw"}, "interactions": [["k", "x"]]},
     (6, 4)),
    ({"categorical": {"k": ["a", "b"], "l": ["a", "b", "c"]}, "interactions": [["k", "l"]]},
     (12, 6)),
    ({"boolean": {"u": "level"}}, (3, 3)),
])  # fmt: skip
def test_columns_that_repeat_others_by_their_making_are_told(features, wanted):
    assert encoder_of(features, other=False, learned=LearnedFeatures()).directions() == wanted


@settings(max_examples=50)
@given(st.data(), feature_sets())
def test_vectors_for_sums_are_the_same(data, features):
    learned = learned_for(data, features, other=True)
    encoder = encoder_of(features, other=True, learned=learned)
    given = prepared(encoder, data.draw(tables(features, other=True)))
    made = vectors(encoder, given, Room())
    wide = np.zeros((given.num_rows, encoder.dim))
    # Each piece takes the place of the one before it.
    for start in range(0, len(wide), 3):
        some = slice(start, min(start + 3, len(wide)))
        wide[some, made.columns] = made.numbers(some).T
    for marks in made.marks:
        wide[np.arange(len(wide)), marks] += 1.0
    assert wide.tobytes() == encoder.encode(given).tobytes()
