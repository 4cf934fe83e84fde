"""Exploration sampling (Kasy and Sautmann 2021), for yes/no outcomes and no features."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import beta


def chances_of_being_best(units, successes):
    """P(action a is best) under Beta(1, 1) priors: the integral of f_a times all other F_b."""
    laws = [beta(1 + yes, 1 + n - yes) for n, yes in zip(units, successes, strict=True)]

    def chance(a):
        def density(rate):
            others = [law.cdf(rate) for b, law in enumerate(laws) if b != a]
            return laws[a].pdf(rate) * np.prod(others)

        middle, spread = laws[a].mean(), laws[a].std()
        low, high = max(middle - 9 * spread, 0.0), min(middle + 9 * spread, 1.0)
        return quad(density, low, high, points=[middle], epsabs=1e-10)[0]

    return np.array([chance(a) for a in range(len(laws))])


def shares(chances):
    """q_a = p_a (1 - p_a) / sum_b p_b (1 - p_b); p itself if one action is surely best."""
    if max(chances) == 1:
        return list(chances)
    total = sum(p * (1 - p) for p in chances)
    return [p * (1 - p) / total for p in chances]
