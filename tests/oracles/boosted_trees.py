"""A rule by boosted trees beside the linear rule, one fold and one unit at a time.

The boosted model itself is scikit-learn's; everything around it is literal.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from tests.oracles.inference import ARMS, estimate_of, noise, ridge, within_waves
from tests.oracles.return_model import returned


def levels(waves, rules):
    """Return each wave's level: the mean of what the regression leaves, when levels are free."""
    rest = [
        [
            row["y"] - float(np.dot(row["x"], rules[row["a"]]))
            for row in wave
            if row["y"] is not None
        ]
        for wave in waves
    ]
    return [float(np.mean(one)) if one else 0.0 for one in rest]


def gain(waves, *, costs, less=False, least=160):
    """Return the estimate with its moderated variance; rows have a fold, and are sorted."""
    K, last = len(waves[0][0]["p"]), waves[-1]
    q = [returned(waves, a) for a in range(K)]
    units = []
    for fold in range(5):
        kept = [[row for row in wave if row["fold"] != fold] for wave in waves]
        others = [row for wave in kept for row in wave]
        rules = within_waves(kept)
        level = levels(kept, rules)
        trees = {}
        for a in range(K):
            x = [row["x"][1:] for row in others if row["a"] == a and row["y"] is not None]
            y = [
                row["y"] - level[m]
                for m, wave in enumerate(kept)
                for row in wave
                if row["a"] == a and row["y"] is not None
            ]
            if len(y) >= least:
                model = HistGradientBoostingRegressor(
                    max_iter=60, max_depth=3, min_samples_leaf=40, early_stopping=False,
                    random_state=0,
                )  # fmt: skip
                trees[a] = model.fit(np.array(x), np.array(y))
        models = [ridge(others, a) for a in range(K)]
        rest = [
            row["y"] - float(np.dot(row["x"], models[row["a"]]))
            for row in kept[-1]
            if row["y"] is not None
        ]
        shift = sum(rest) / (len(rest) + 1)
        for row in last:
            if row["fold"] != fold:
                continue
            sign = -1 if less else 1
            linear = [float(np.dot(row["x"], b)) - c for b, c in zip(rules, costs, strict=True)]
            grown = [
                float(trees[a].predict([row["x"][1:]])[0]) - costs[a] if a in trees else linear[a]
                for a in range(K)
            ]
            one, other = (
                max(range(K), key=lambda a, made=made: (sign * made[a], -a))
                for made in (grown, linear)
            )
            G = [float(np.dot(row["x"], b)) + shift for b in models]
            pq = [row["p"][a] * q[a](row["x"]) for a in range(K)]
            if row["y"] is not None:
                G[row["a"]] += (row["y"] - G[row["a"]]) / pq[row["a"]]
            d = [float(a == one) - float(a == other) for a in range(K)]
            cost = float(np.dot(d, costs))
            units.append({"d": d, "G": G, "pq": pq, "cost": cost, "fold": fold, "pi": one})
    made = estimate_of(units, ARMS["next"], noise(waves))
    differ = sum(any(unit["d"]) for unit in units) / len(last)
    return {**made, "cost": float(np.mean([unit["cost"] for unit in units])), "differ": differ}
