"""The outcome that a campaign should expect of an action, from its exported units."""

import numpy as np

from tests.oracles import encoder


def vectors(rows, features, learned, traits=None, start=None):
    """Return the vector of each exported unit, with its own action's features if they are given."""
    made = []
    for row in rows:
        columns = encoder.encoded(row, features, other=False, learned=learned, start=start)
        if traits is not None:
            columns = encoder.with_action(columns, traits[row["action"]])
        made.append([number for _, number in columns])
    return np.array(made)


def expected(rows, past, features, *, traits=None, sign=1.0, start=None):
    """Return the score that units should have: their vector times the least-squares fit.

    Parameters
    ----------
    rows
        The units to be scored.
    past
        All units of the waves before, their outcomes under `y`, None where there is none.
    features
        As the spec declares them. Scaling is learned from all of the first wave.
    traits
        Each action's features under a shared model; None where each action has a model of its own.
    sign
        -1 where a low outcome is a good one.
    start
        The day from which days are counted back, where there are dates.
    """
    learned = encoder.learn([row for row in past if row["wave"] == 1], features, start=start)
    known = [row for row in past if row["y"] is not None]
    scores = np.zeros(len(rows))
    for action in {row["action"] for row in rows}:
        mine = [place for place, row in enumerate(rows) if row["action"] == action]
        seen = [row for row in known if traits is not None or row["action"] == action]
        x = vectors(seen, features, learned, traits, start)
        theta = np.linalg.lstsq(x, np.array([sign * row["y"] for row in seen]), rcond=1e-10)[0]
        own = [rows[place] for place in mine]
        scores[mine] = vectors(own, features, learned, traits, start) @ theta
    return scores
