"""The path of lasso solutions as the penalty falls: least angle regression."""

from dataclasses import dataclass, field

import numpy as np

from seqbatch.core.arrays import Floats

#: A regressor of which less than this share is not a combination of the active ones stays out.
DEPENDENT = 1e-13


def end_of_path(gram: Floats, moment: Floats, penalty: float) -> Floats:
    """Follow the solutions from theta = 0 down to a penalty; return the last one reached.

    Between two events the solution moves along a straight line, on which the gradients of all
    active regressors have one size: the penalty of that point. Events are a regressor whose
    gradient reaches that size (it joins) and a parameter that reaches 0 (it leaves). Rounding may
    end the path early if regressors are nearly linear combinations of each other.

    Parameters
    ----------
    gram, moment
        The Gram matrix and moment of theta' gram theta / 2 - theta' moment.
    penalty
        The penalty on the sum of absolute parameters at which the path ends.

    Examples
    --------
    >>> end_of_path(np.eye(2), np.array([3.0, -1.0]), 0.5).tolist()
    [2.5, -0.5]
    """
    theta, gradient = np.zeros_like(moment), moment.copy()
    size, active = float(np.abs(gradient).max()), Active(gram)
    active.join(int(np.abs(gradient).argmax()))
    for _ in range(100 * len(moment)):
        if size <= penalty or not active.places:
            break
        direction = active.inverse @ np.sign(gradient[active.places])
        slope = gram[:, active.places] @ direction
        to_join, joins = active.next_join(gradient, slope, size)
        to_leave, leaves = _next_zero(theta[active.places], direction)
        step = min(to_join, to_leave, size - penalty)
        theta[active.places] += step * direction
        gradient -= step * slope
        size = penalty if step == size - penalty else size - step
        if step == to_leave:
            theta[active.places[leaves]] = 0.0
            active.leave(leaves)
        elif step == to_join:
            active.join(joins)
    return theta


def _next_zero(theta: Floats, direction: Floats) -> tuple[float, int]:
    """Return the step after which a parameter is 0, and its place among the active ones."""
    steps = np.full(len(theta), np.inf)
    np.divide(-theta, direction, out=steps, where=direction != 0)
    steps[steps <= 0] = np.inf
    first = int(steps.argmin())
    return float(steps[first]), first


@dataclass(eq=False)
class Active:
    """The regressors with parameters other than 0, and the inverse of their Gram matrix.

    Parameters
    ----------
    gram
        The Gram matrix of all regressors.
    """

    gram: Floats
    places: list[int] = field(default_factory=list)
    inverse: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    #: Linear combinations of the active regressors.
    dependent: set[int] = field(default_factory=set)
    #: The regressor that has just left, or -1: its gradient still has the size of the others'.
    left: int = -1

    def join(self, place: int) -> None:
        """Add a regressor, unless it depends on the others."""
        row = self.gram[place, self.places]
        weights = self.inverse @ row
        own = self.gram[place, place]
        rest = own - row @ weights
        if not rest > DEPENDENT * own:
            self.dependent.add(place)
            return
        inverse = np.empty((len(row) + 1, len(row) + 1))
        inverse[:-1, :-1] = self.inverse + np.outer(weights, weights) / rest
        inverse[:-1, -1] = inverse[-1, :-1] = -weights / rest
        inverse[-1, -1] = 1 / rest
        self.inverse = inverse
        self.places.append(place)

    def leave(self, number: int) -> None:
        """Remove the regressor of this number."""
        others = np.arange(len(self.places)) != number
        column = self.inverse[others, number]
        taken = np.outer(column, column) / self.inverse[number, number]
        self.inverse = self.inverse[np.ix_(others, others)] - taken
        self.left = self.places.pop(number)
        # What depended on it may be independent of the rest.
        self.dependent.clear()

    def next_join(self, gradient: Floats, slope: Floats, size: float) -> tuple[float, int]:
        """Return the step after which a gradient has the size of the active ones, and whose."""
        steps = np.full((2, len(gradient)), np.inf)
        for row, sign in zip(steps, (1, -1), strict=True):
            fall = 1 - sign * slope
            np.divide(size - sign * gradient, fall, out=row, where=fall > 0)
        if self.left >= 0:
            steps[0 if gradient[self.left] > 0 else 1, self.left] = np.inf
            self.left = -1
        nearest = np.maximum(steps.min(axis=0), 0.0)
        nearest[[*self.places, *self.dependent]] = np.inf
        first = int(nearest.argmin())
        return float(nearest[first]), first
