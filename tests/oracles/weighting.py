"""Weighted means, one unit at a time, from an exported table of units."""

import math


def weighted_mean(outcomes):
    """Return the self-normalised mean of pairs of probability and outcome.

    Each outcome counts 1 / probability: so many units like it there were.
    """
    total = math.fsum(1 / p for p, _ in outcomes)
    return math.fsum(y / p for p, y in outcomes) / total


def action_row(rows, wave, action, *, reward):
    """Return what is to be said of an action in a wave.

    Parameters
    ----------
    rows
        Every unit: `wave`, `action`, `probability`, `randomised`, `p(...)` and the outcome.
    wave, action
        Which of them.
    reward
        The column of the outcomes, None where there is none.
    """
    everyone = [row for row in rows if row["wave"] == wave]
    mine = [row for row in everyone if row["action"] == action]
    seen = [(row["probability"], row[reward]) for row in mine if row[reward] is not None]
    made = {
        "units": len(mine),
        "randomised": sum(row["randomised"] for row in mine),
        "outcomes": len(seen),
        "mean": math.fsum(y for _, y in seen) / len(seen) if seen else None,
        "weighted": None,
        "least": min(row[f"p({action})"] for row in everyone),
    }
    if seen and made["least"] > 0:
        made["weighted"] = weighted_mean(seen)
    return made


def difference(row, control):
    """Return how far an action's mean is from the control's."""
    if row["weighted"] is None or control["weighted"] is None:
        return None
    return row["weighted"] - control["weighted"]
