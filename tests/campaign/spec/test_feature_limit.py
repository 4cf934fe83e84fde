"""At most so many features: which columns are kept, and what a plan can have."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.spec.feature_limit import SeenColumn
from seqbatch.campaign.spec.template import Choices, first_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.planning.request import most_features
from tests.refusals import refused

ROWS = 600


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    random = np.random.default_rng(5)
    age = random.integers(18, 90, ROWS)
    pl.DataFrame(
        {
            "id": [f"C{row}" for row in range(ROWS)],
            "age": age,
            "decade": age // 10,
            "spend": random.exponential(20, ROWS).round(2),
            "rare": ["yes" if row % 60 == 0 else "no" for row in range(ROWS)],
            "even": ["yes" if row % 2 else "no" for row in range(ROWS)],
            "shop": [f"shop {row % 40}" for row in range(ROWS)],
            "region": random.choice(["north", "south", "west"], ROWS),
            "mostly empty": [str(row % 7) if row % 50 == 0 else "" for row in range(ROWS)],
        }
    ).write_csv(tmp_path_factory.mktemp("limit") / "units.csv")
    return tmp_path_factory.getbasetemp() / "limit0" / "units.csv"


def kept(path, **choices):
    made = first_spec(path, Choices(**choices))
    spec = parse_spec(made.text)
    dim = Encoder.of(spec, actions=spec.actions, learned=None).dim
    assert made.features == dim - 1
    return set(spec.features.columns), dim - 1, {each.column: each for each in made.draft.columns}


def test_what_tells_most_for_its_size_is_kept(path):
    everything, dim, _ = kept(path)
    assert "decade" in everything
    assert dim > 40
    assert kept(path, max_features=dim)[0] == everything
    found, dim, became = kept(path, max_features=3)
    assert found == {"age", "spend", "even"}
    assert became["shop"].code == "limit"
    # The decade is known from the age, and hardly any flag is yes: a category of four tells more.
    found, dim, _ = kept(path, max_features=7)
    assert found == {"age", "spend", "even", "region"}
    assert dim == 7
    assert kept(path, max_features=1)[0] in ({"age"}, {"spend"})


def differences_by_pairs(column, same):
    """Compare all pairs of rows that agree in another column, literally."""
    total, pairs = 0.0, 0
    for one in range(len(same)):
        for other in range(len(same)):
            if one != other and same[one] == same[other]:
                pairs += 1
                if column.ranks is None:
                    total += column.groups[one] != column.groups[other]
                else:
                    total += 6 * (column.ranks[one] - column.ranks[other]) ** 2
    return total / pairs if pairs else 0.0


def test_what_a_column_tells_by_all_pairs_of_rows():
    random = np.random.default_rng(1)
    number, level = random.random(80), random.integers(0, 4, 80)
    tenths = np.minimum((number * 10).astype(int), 9)
    ranks = np.argsort(np.argsort(number)) / 80
    columns = [SeenColumn(tenths, ranks), SeenColumn(level), SeenColumn(level // 2)]
    for one in columns:
        assert one.differences() == pytest.approx(differences_by_pairs(one, np.zeros(80)))
        for other in columns:
            expected = differences_by_pairs(one, other.groups)
            assert one.differences(other.groups) == pytest.approx(expected)
    assert columns[0].differences() == pytest.approx(1.0, abs=0.03)
    assert columns[0].differences(tenths) < 0.03
    assert columns[2].differences(level) == 0
    assert columns[1].differences(level // 2) == pytest.approx(0.5, abs=0.05)
    # Rows that are alone with their value agree with no other row.
    assert columns[1].differences(np.arange(80)) == 0


def test_only_chosen_columns_become_features(path):
    found, _, became = kept(path, columns=["spend", "region"])
    assert found == {"spend", "region"}
    assert became["age"].code == "not-chosen"
    with refused("invalid-argument", field="columns", received="nowhere"):
        first_spec(path, Choices(columns=["nowhere"]))


def test_a_chosen_column_that_can_be_no_feature_is_named(tmp_path):
    units = {"id": ["a", "b", "c"], "land": ["DE"] * 3, "name": ["Ann", "Bo", "Bo"]}
    pl.DataFrame(units).write_csv(tmp_path / "units.csv")
    with refused("invalid-argument", field="columns"):
        first_spec(tmp_path / "units.csv", Choices(columns=["land"]))
    # What is left out by its name alone is a feature if you say so.
    made = first_spec(tmp_path / "units.csv", Choices(columns=["name"]))
    assert made.draft.columns[2].became == "categorical"
    made = first_spec(tmp_path / "units.csv", Choices())
    assert made.draft.columns[2].code == "personal"


@pytest.mark.parametrize("actions", [2, 3, 4, 50])
def test_a_plan_has_as_many_features_as_it_can(actions):
    from seqbatch.planning.request import law_of, model_of, require_answerable

    most = most_features(actions)
    law = law_of(None, None, [1.0])
    require_answerable(model_of(actions, most, None, law, [1.0], None))
    with refused("invalid-argument"):
        require_answerable(model_of(actions, most + 1, None, law, [1.0], None))


def test_without_a_limit_a_plan_sets_one(path):
    actions = [f"offer {place}" for place in range(50)]
    known = {"plan": True, "spread": 20.0, "sizes": (1_000,), "actions": actions}
    found, dim, became = kept(path, **known)
    # With 50 actions, 26 features and the constant.
    assert dim <= 27
    assert became["shop"].code == "limit"
    assert "shop" not in found
