"""Small campaigns for the tests: probabilities that depend on features, as outcomes do."""

import numpy as np

from seqbatch.inference import Rows


def rows_of(random, n, *, K=3, P=3, uniform=False, missing=0.2, clusters=None, effect=0.4):
    """Return units whose probabilities correlate with their outcomes."""
    x = np.column_stack([np.ones(n), random.standard_normal((n, P - 1))])
    pull = np.zeros((n, K)) if uniform else np.outer(x[:, 1], np.arange(K)) * 0.8
    p = np.exp(pull)
    p = 0.06 + (1 - 0.06 * K) * p / p.sum(axis=1, keepdims=True)
    actions = (random.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    y = 2 + x[:, 1] * (1 + effect * actions) + effect * actions + random.standard_normal(n)
    y[random.random(n) < missing] = np.nan
    names = None if clusters is None else random.integers(0, clusters, n)
    groups = {"half": np.where(x[:, 2] > 0, "right", "left")}
    return Rows.of(x, actions, p, y, clusters=names, groups=groups)


def campaign(seed=0, sizes=(60, 50, 70), **options):
    """Return the waves of a campaign, the first one assigned uniformly."""
    random = np.random.default_rng(seed)
    return [rows_of(random, n, uniform=place == 0, **options) for place, n in enumerate(sizes)]


def literal(waves):
    """Return the waves as the oracles want them: lists of dicts."""
    return [
        [
            {
                "x": rows.features[i].tolist(),
                "a": int(rows.actions[i]),
                "p": rows.probabilities[i].tolist(),
                "y": None if np.isnan(rows.outcomes[i]) else float(rows.outcomes[i]),
                "half": str(rows.groups["half"][i]),
            }
            for i in range(rows.count)
        ]
        for rows in waves
    ]


def logged(waves, *, clusters=None):
    """Return the waves of an oracle as rows; `clusters` is the key of a unit's cluster."""
    return [
        Rows.of(
            [row["x"] for row in wave],
            [row["a"] for row in wave],
            [row["p"] for row in wave],
            [np.nan if row["y"] is None else row["y"] for row in wave],
            clusters=[row[clusters] for row in wave] if clusters else None,
            groups={"half": [row["half"] for row in wave]} if "half" in wave[0] else None,
            eligible=[row["could"] for row in wave] if "could" in wave[0] else None,
        )
        for wave in waves
    ]


def cut(rows, ends):
    """Return the rows in pieces."""
    places = np.split(np.arange(rows.count), ends)
    return [rows.some(part) for part in places]
