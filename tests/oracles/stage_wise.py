"""Stage-wise ordering and classical boundaries: a Brownian path on a grid, and bisection."""

import functools
import math

import numpy as np
from scipy.stats import norm

#: The path's values, which a rule of trapezoids integrates over.
GRID = np.linspace(-12, 12, 2_401)
WIDTH = GRID[1] - GRID[0]


@functools.cache
def spread(deviation):
    """Return the density of an increment from each value of the grid to each other one."""
    return norm.pdf(GRID[:, None] - GRID, scale=deviation) * WIDTH


def crossing(times, lows, highs, drift):
    """Return the probability of being above the upper boundary first, look by look."""
    density, chances, before = None, [], 0.0
    for time, low, high in zip(times, lows, highs, strict=True):
        deviation = round(math.sqrt(time - before), 12)
        start = GRID + drift * (time - before)
        if density is None:
            chances.append(norm.sf(high * math.sqrt(time), loc=drift * time, scale=deviation))
            density = norm.pdf(GRID, loc=drift * time, scale=deviation)
        else:
            above = norm.sf(high * math.sqrt(time), loc=start, scale=deviation)
            chances.append(float(density @ above) * WIDTH)
            moved = np.interp(GRID - drift * (time - before), GRID, spread(deviation) @ density)
            density = moved
        inside = _inside(low * math.sqrt(time), high * math.sqrt(time))
        density, before = density * inside, time
    return chances


def _inside(low, high):
    """Return how much of each cell of the grid lies between two values."""
    ends = np.clip(GRID[:, None] + np.array([-0.5, 0.5]) * WIDTH, low, high)
    return np.diff(ends, axis=1)[:, 0] / WIDTH


def at_least_as_high(times, highs, z, drift):
    """Return P(crossed before) + P(reached the last look, with a statistic of z or more)."""
    return sum(crossing(times, [-high for high in highs] + [-math.inf], [*highs, z], drift))


def drift_with(chance, times, highs, z):
    """Return the drift with which a result at least as high has this probability."""
    low, high = -15.0, 15.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        few = at_least_as_high(times, highs, z, middle) < chance
        low, high = (middle, high) if few else (low, middle)
    return (low + high) / 2


def constant(looks, power, alpha=0.025):
    """Return Wang and Tsiatis' constant for equal looks: boundaries c t^power spend alpha."""
    times = [place / looks for place in range(1, looks + 1)]
    low, high = 1.0, 4.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        bounds = [middle * time**power for time in times]
        few = sum(crossing(times, [-math.inf] * looks, bounds, 0.0)) < alpha
        low, high = (low, middle) if few else (middle, high)
    return (low + high) / 2
