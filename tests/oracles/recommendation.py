"""The verdict on the action with the largest size-weighted lift, read off the table."""

from tests.oracles.inference import estimates, everybody


def tail_of(K, alpha=0.05):
    """Return the one-sided tail of the bounds of K - 1 lifts."""
    return alpha / 2 / (K - 1)


def verdict(low, high, p_recent=None, p_change=None, tail=0.025, above=1):
    """Return the code; p_recent and p_change are None after one wave: the bounds decide alone.

    `above` counts the actions whose bounds are above 0, this one included if its are.
    """
    if p_change is None:
        if low > 0:
            return "give"
        return "worse" if high < 0 else "not-clear"
    changed = p_change < 0.05
    if low > 0 and not changed and p_recent * above < 0.10:
        return "give"
    if low > 0 and changed and p_recent * above < 0.025:
        return "give-changed"
    if low > 0 and not changed:
        return "unconfirmed"
    if low <= 0 <= high and changed and p_recent < tail:
        return "better-now"
    if changed:
        return "changed"
    return "worse" if high < 0 else "not-clear"


def recent_waves(waves, action, keep=everybody):
    """Return how many last waves hold 20% of all units and 10 effective outcomes of both."""
    sizes = [sum(map(keep, wave)) for wave in waves]
    effective = [
        [one["effective"] for one in estimates(waves, "mean", a, keep)] for a in (action, 0)
    ]
    for last in range(1, len(waves) + 1):
        enough = all(sum(one[-last:]) >= 10 for one in effective)
        if sum(sizes[-last:]) >= 0.2 * sum(sizes) and enough:
            return last
    return len(waves)
