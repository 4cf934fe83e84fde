"""Wrong types in every parameter of what users make: refused in our words, never in NumPy's."""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from seqbatch import Learner, environments, grids, policies
from seqbatch.core import Statistics
from seqbatch.errors import SeqbatchError
from seqbatch.policies import RBGL, History
from seqbatch.simulation import Coverage

WORLD = environments.Gaussian(dim=2, actions=3, layout="block")
X = np.random.default_rng(0).standard_normal((6, 2))
SUMS = Statistics.zero(2, 2).add(X, np.ones(6), np.array([0, 1, 0, 1, 0, 1]))
#: What a constructor needs, by the parameter's name.
GIVEN = {
    "action": 1, "actions": 3, "arms": 3, "batches": 3, "classes": 2, "contexts": X, "dim": 2,
    "ends": (10, 20), "environment": WORLD, "features": X, "grid": grids.explicit([4]),
    "kind": "minimax", "labels": [0, 1, 0, 1, 0, 1], "model": LinearRegression(),
    "outcomes": np.ones(6), "period": 4, "places": (0, 1), "policy": RBGL(), "rows": X,
    "shares": [1.0, 0.5, 0.5], "size": 0.5, "sparsity": 2, "sums": History.of([SUMS]).sums,
    "theta": [1.0, 2.0], "units": 100,
}  # fmt: skip
#: And where a name means another thing.
OWN = {
    "ArrayEnvironment": {"rewards": np.ones((6, 3))},
    "WorstCase": {"dim": 4},
    "design_of": {"contexts": np.ones((6, 3, 2))},
    "logged_table": {"actions": [0, 1, 2, 0, 1, 2]},
}
WRONG = (
    "text", None, -1, 2.5, float("nan"), [], [1, "a"], {}, object(), True, np.ones((2, 2)), (1, 2),
    1j, int, [[1.0], [1.0, 2.0]],
)  # fmt: skip
#: Made by the library, not by hand.
INNER = {"Block", "Decision", "Environment", "Feedback", "GeneralEnvironment", "Grid", "Instance",
         "LinearEnvironment", "Policy"}  # fmt: skip
MADE = {
    made.__name__: made
    for room in (policies, environments, grids)
    for made in (getattr(room, name) for name in room.__all__ if name not in INNER)
    if callable(made)
} | {"Learner": Learner, "Coverage": Coverage}


def needed(name, parameters):
    """Return values for the parameters without a default."""
    own = OWN.get(name, {})
    return {
        each.name: own.get(each.name, GIVEN.get(each.name, 1.0))
        for each in parameters.values()
        if each.default is each.empty or each.name in own
    }


@pytest.mark.parametrize("name", sorted(MADE))
@pytest.mark.filterwarnings("ignore")
def test_wrong_types_are_refused_in_our_words(name):
    parameters = inspect.signature(MADE[name]).parameters
    base, raw = needed(name, parameters), []
    MADE[name](**base)
    for parameter in parameters:
        for wrong in WRONG:
            try:
                MADE[name](**{**base, parameter: wrong})
            except SeqbatchError:
                continue
            except Exception as error:
                raw.append(f"{parameter}={wrong!r}: {type(error).__name__}: {error}")
    assert raw == []
