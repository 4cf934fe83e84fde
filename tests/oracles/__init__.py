"""Slow, literal versions of the paper's pseudocode, one unit at a time, in its own long form.

Contexts are always (T, K, d) with one parameter of length d; solves are explicit; data are kept as
lists of rows. Nothing here imports seqbatch. Inner products use exact summation, so that actions
whose scores are equal on paper are equal here whatever block of the long vector they stand in.

The encoder, weighted means and fits are those of a campaign, as its documentation has them.
"""

import math

import numpy as np


def inner(x, y):
    return math.fsum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))


def lowest_best(scores):
    return scores.index(max(scores))


def random_best(scores, draw):
    tied = [a for a, score in enumerate(scores) if score == max(scores)]
    return tied[min(int(draw * len(tied)), len(tied) - 1)]


def best(scores, ties, draw):
    return lowest_best(scores) if ties == "lowest" else random_best(scores, draw)


def uniform_action(options, draw):
    return options[min(int(draw * len(options)), len(options) - 1)]


def tries(first, options, before):
    """Whether a unit may get an action that no unit of earlier batches got; then it is random."""
    return first is None and any(action not in before for action in options)


def allowed(eligible, t, K):
    """The actions that unit t may get, in order; all without a table of who may get what."""
    return [a for a in range(K) if eligible is None or eligible[t][a]]


def batches(ends):
    start = 0
    for end in ends:
        yield range(start, end)
        start = end


def minimum_norm(rows, rewards, d):
    """Least squares from the raw rows; what the SVD leaves of exact zeros is cleared."""
    if not rows:
        return np.zeros(d)
    theta = np.linalg.lstsq(np.array(rows), np.array(rewards), rcond=None)[0]
    theta[np.abs(theta) < 1e-12] = 0.0
    return theta
