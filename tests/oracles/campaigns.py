"""Small campaigns as the oracles of inference take them: waves are lists of rows."""

import numpy as np

KINDS = ("normal", "binary", "common", "amount", "negative")


def waves_of(seed=0, sizes=(60, 50, 70), K=3, P=3, kind="normal", missing=0.2, from_wave=0):
    """Return waves, the first one uniform; outcomes are missing by feature from `from_wave` on.

    Binary outcomes are 1 for about 10% of units, common ones for about 90%; amounts are 0 for
    most; negative ones are amounts of which some are returned.
    """
    random = np.random.default_rng([KINDS.index(kind), seed])
    waves = []
    for m, n in enumerate(sizes):
        wave = []
        for _ in range(n):
            x = [1.0, *random.standard_normal(P - 1).tolist()]
            z = x[1] if P > 1 else 0.0
            pull = np.exp((m > 0) * (0.8 * z + 0.2) * np.arange(K))
            p = 0.06 + (1 - 0.06 * K) * pull / pull.sum()
            a = int(min((random.random() > p.cumsum()).sum(), K - 1))
            y = outcome(random, kind, z, a, m)
            gone = missing * 2 / (1 + np.exp(-z * (1 if a else -1)))
            cluster = int(random.integers(max(n // 3, 1)))
            row = {"x": x, "a": a, "p": p.tolist(), "y": y, "cluster": cluster}
            row["half"] = "right" if x[-1] > 0 else "left"
            if m >= from_wave and random.random() < gone:
                row["y"] = None
            wave.append(row)
        waves.append(wave)
    return waves


def outcome(random, kind, z, a, m):
    if kind == "normal":
        return float(2 + 0.3 * m + z * (1 + 0.4 * a) + 0.4 * a + random.standard_normal())
    rate = min(max(0.1 + 0.03 * z + 0.03 * a, 0.02), 0.5)
    event = random.random() < rate
    if kind == "binary":
        return float(event)
    if kind == "common":
        return float(not event)
    size = float(random.lognormal(0, 1)) * event
    return -size if kind == "negative" and random.random() < 0.2 else size
