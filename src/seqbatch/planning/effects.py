"""What is known of the effect before an experiment: a law around a guess, as a few points.

Nobody knows the effect that an experiment is to find. A plan therefore takes a guess for the
middle of a log-normal law: the effect is as likely above the guess as below it, and with two
chances in three between the guess divided and multiplied by the law's spread. A few points with
weights stand for the law (Gauss-Hermite quadrature of the logarithm), exact for the powers of the
logarithm up to the ninth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError

#: Without a guess the middle is this times the noise: small, as psychologists call it, yet larger
#: than most of what online experiments find.
USUAL = 0.2
#: Without a guess two effects in three are between a fifteenth and six tenths of the noise, and 19
#: in 20 between a fiftieth and twice the noise: nearly all that anybody would experiment for.
UNSTATED_SPREAD = 3.0
#: Around a guess. With 20,000 units and four batches a grid for this law costs 2 to 7% more than
#: the best one where the guess was right, and 1.2 to 1.4 times as much where the effect is four
#: times the guess; a grid for the guess alone costs twice as much there.
STATED_SPREAD = 2.5
#: How many points stand for a law.
POINTS = 5


@dataclass(frozen=True, kw_only=True)
class EffectLaw:
    """What is known of the effect.

    Parameters
    ----------
    guesses
        Equally plausible ones; around a single one there may be a spread.
    spread
        The factor that two effects in three are within; 1 where the guesses are certain.
    stated
        Whether somebody made the guess; else it is the usual one.

    Examples
    --------
    >>> EffectLaw(guesses=(0.1, 0.3)).points
    ((0.1, 0.5), (0.3, 0.5))
    >>> [(round(e, 3), round(w, 3)) for e, w in EffectLaw(guesses=(0.2,), spread=2.0).points]
    [(0.028, 0.011), (0.078, 0.222), (0.2, 0.533), (0.512, 0.222), (1.449, 0.011)]
    """

    guesses: tuple[float, ...]
    spread: float = 1.0
    stated: bool = True

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Effects, and how likely each is."""
        number = POINTS if self.spread > 1 else 1
        places, weights = np.polynomial.hermite_e.hermegauss(number)
        shares = weights / (weights.sum() * len(self.guesses))
        return tuple(
            (float(guess * self.spread**place), float(share))
            for guess in self.guesses
            for place, share in zip(places, shares, strict=True)
        )


def law_of(
    effect: float | Sequence[float] | None, spread: float | None, noises: Sequence[float]
) -> EffectLaw:
    """Return the law that :func:`~seqbatch.planning.plan`'s arguments describe."""
    if spread is not None:
        spread = arguments.number("effect_spread", spread, at_least=1)
    if effect is None:
        guess = USUAL * float(np.mean(noises))
        return EffectLaw(guesses=(guess,), spread=spread or UNSTATED_SPREAD, stated=False)
    guesses = tuple(several("effect", effect))
    if len(guesses) == 1:
        return EffectLaw(guesses=guesses, spread=spread or STATED_SPREAD)
    if spread is not None and spread > 1:
        raise InvalidArgumentError(
            "effect_spread",
            "left out where several effects are given",
            spread,
            "They say themselves how uncertain the effect is.",
        )
    return EffectLaw(guesses=guesses)


def several(name: str, value: float | Sequence[float]) -> list[float]:
    """Return one or more numbers above 0."""
    # Arrays count as several too, which the checker cannot tell from np.ndim.
    values: Sequence[float] = list(value) if np.ndim(value) else [value]  # type: ignore[arg-type, list-item]
    if not len(values) or isinstance(value, str):
        raise InvalidArgumentError(name, "a number above 0, or several", repr(value))
    return [arguments.number(name, one, above=0) for one in values]
