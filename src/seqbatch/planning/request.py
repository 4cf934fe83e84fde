"""The request of a plan: checked arguments, batch limits, effect prior, and the trials for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.random import SeedSequence

from seqbatch import theory
from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError, InvalidGridError
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.conditions import Conduct, Purpose
from seqbatch.planning.trials.draws import KeptDraws
from seqbatch.planning.trials.greedy_runs import Rates
from seqbatch.planning.unit_sample import Sample
from seqbatch.policies import History

# ----------------------------------------------------------------------
# Limits on batches: their sizes, calendar waves, and grids that satisfy both.


Sizes = tuple[int, ...]

#: The default minimum of a batch, as a share of all units, if outcomes are late.
LEAST_WAVE = 0.01


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The user's limits on batches.

    Parameters
    ----------
    units
        The number of remaining units.
    smallest, largest
        The minimum and maximum size of a batch.
    first
        The size of the first batch, if given.
    waves
        The sizes of calendar waves; batches end where waves end. They sum to `units`.
    seen
        The number of units already assigned in a running experiment.
    assumed
        Whether `smallest` is a default, because outcomes are late and no minimum was given.
    opening
        The smallest first batch worth having, as far as the other limits allow: rare events need
        many units.
    """

    units: int
    smallest: int = 1
    largest: int | None = None
    first: int | None = None
    waves: tuple[int, ...] | None = None
    seen: int = 0
    assumed: bool = False
    opening: int = 1

    def allows(self, batches: int) -> bool:
        """Return whether some grid with this many batches satisfies the limits."""
        if self.waves is not None:
            return batches <= len(self.waves)
        if self.first is not None:
            if batches == 1:
                return self.first == self.units
            rest = self.units - self.first
            return self._spans(rest, batches - 1)
        return self._spans(self.units, batches)

    def _spans(self, units: int, batches: int) -> bool:
        most = units if self.largest is None else self.largest
        return self.smallest * batches <= units <= most * batches

    def bind(self, sizes: Sizes) -> bool:
        """Return whether the limits restrict a grid: without them it might have other sizes.

        >>> limits = BatchLimits(units=100, largest=60)
        >>> limits.bind((30, 70)), limits.bind((40, 60)), limits.bind((50, 50))
        (False, True, False)
        """
        if self.waves is not None or self.first is not None:
            return True
        extremes = {self.largest, self.smallest if self.smallest > 1 else None}
        return not extremes.isdisjoint(sizes)

    @property
    def fewest(self) -> int:
        """The smallest number of batches that the largest size allows."""
        if self.largest is None or self.waves is not None:
            return 1
        if self.first is not None and self.first < self.units:
            return 1 + -(-(self.units - self.first) // self.largest)
        return -(-self.units // self.largest)

    def waiting(self, dim: int, most: int) -> "BatchLimits":
        """Return limits for late outcomes if no minimum was given: a hundredth of the units.

        Without a minimum, batches that wait for outcomes would have a single unit.

        Parameters
        ----------
        dim
            The number of parameters per action: a batch has at least as many units.
        most
            The largest number of batches, which the limits still allow.

        Examples
        --------
        >>> BatchLimits(units=5_000).waiting(7, 3).smallest
        50
        >>> BatchLimits(units=300).waiting(7, 3).smallest
        7
        """
        if self.waves is not None:
            return self
        bounds = [self.units // (2 * most)]
        if self.first is not None:
            bounds += [self.first, (self.units - self.first) // (2 * most)]
        if self.largest is not None:
            bounds.append(self.largest)
        smallest = max(1, min(max(dim, math.ceil(LEAST_WAVE * self.units)), *bounds))
        return replace(self, smallest=smallest, assumed=True)

    def fit(self, ends: Sequence[float]) -> Sizes:
        """Return the sizes closest to these ends that satisfy the limits."""
        if self.waves is not None:
            return self._on_waves(ends)
        largest, kept, batches = self.largest or self.units, [0], len(ends)
        for m, end in enumerate(ends, start=1):
            if m == 1 and self.first is not None:
                kept.append(self.first)
                continue
            # Leave later batches no more units than they can hold and no fewer than they need.
            left = batches - m
            low = max(kept[-1] + self.smallest, self.units - left * largest)
            high = min(kept[-1] + largest, self.units - left * self.smallest)
            if m == 1:
                low = max(low, min(self.opening, high))
            kept.append(min(max(round(end), low), high))
        return tuple(after - before for before, after in pairwise(kept))

    def _on_waves(self, ends: Sequence[float]) -> Sizes:
        """Move each end to the nearest wave's end that leaves room for the others."""
        stops = self.stops
        chosen, lowest = [0], 0
        for m, end in enumerate(ends, start=1):
            left = len(ends) - m
            free = range(lowest, len(stops) - left)
            place = len(stops) - 1 if left == 0 else min(free, key=lambda i: abs(stops[i] - end))
            chosen.append(stops[place])
            lowest = place + 1
        return tuple(after - before for before, after in pairwise(chosen))

    @property
    def stops(self) -> list[int]:
        """The ends of the waves."""
        total, stops = 0, []
        for wave in self.waves or ():
            total += wave
            stops.append(total)
        return stops


def feasible(limits: BatchLimits, batches: Sequence[int]) -> list[int]:
    """Return the numbers of batches that the limits allow; raise an error if there are none."""
    allowed = [number for number in batches if limits.allows(number)]
    if not allowed:
        rules = {
            "min_batch": limits.smallest if limits.smallest > 1 else None,
            "max_batch": limits.largest,
            "first_batch": limits.first,
            "waves": limits.waves,
        }
        stated = ", ".join(f"{name} = {rule}" for name, rule in rules.items() if rule is not None)
        wanted = f"{batches[0]}" if len(batches) == 1 else f"{min(batches)} to {max(batches)}"
        raise InvalidGridError(
            "batches",
            f"possible for {limits.units} units" + (f" with {stated}" if stated else ""),
            wanted,
            "Loosen a limit, or request a different number.",
        )
    return allowed


# ----------------------------------------------------------------------
# The prior on the effect: a distribution around a guess, represented by a few points.
#
# The effect of an experiment is unknown. A plan therefore takes a guess as the median of a
# log-normal prior: with probability two thirds, the effect lies between the guess divided and
# multiplied by the spread. A few weighted points represent the prior (Gauss-Hermite quadrature of
# the logarithm), exactly for powers of the logarithm up to the ninth.


#: The default effect as a multiple of the noise: small in psychologists' terms, yet larger than
#: most effects of online experiments.
USUAL = 0.2
#: The spread around the default effect: two thirds of effects lie between a fifteenth and six
#: tenths of the noise, and 19 in 20 between a fiftieth and twice the noise.
UNSTATED_SPREAD = 3.0
#: The spread around a stated effect. With 20,000 units and four batches, a grid for this prior
#: costs 2 to 7% more than the best one if the guess is right, and 1.2 to 1.4 times as much if the
#: effect is four times the guess; a grid for the guess alone costs twice as much there.
STATED_SPREAD = 2.5
#: The number of points that represent a prior.
EFFECT_POINTS = 5
#: The number of events of each action, or of units without one where these are rarer, that a first
#: batch should have: with fewer, sums of yes/no outcomes are far from normal.
FIRST_EVENTS = 10


@dataclass(frozen=True, kw_only=True)
class EffectLaw:
    """The prior on the effect.

    Parameters
    ----------
    guesses
        Equally plausible guesses; a single one may have a spread.
    spread
        The factor around the guess that contains two thirds of effects; 1 if the guess is certain.
    stated
        Whether the user stated the guess; otherwise it is the default.

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
        """Effects and their probabilities."""
        number = EFFECT_POINTS if self.spread > 1 else 1
        places, weights = np.polynomial.hermite_e.hermegauss(number)
        shares = weights / (weights.sum() * len(self.guesses))
        return tuple(
            (float(guess * self.spread**place), float(share))
            for guess in self.guesses
            for place, share in zip(places, shares, strict=True)
        )


def law_of(
    effect: float | Sequence[float] | None,
    spread: float | None,
    noises: Sequence[float],
    base_rate: float | None = None,
) -> EffectLaw:
    """Return the prior described by the arguments of :func:`~seqbatch.planning.plan`."""
    if spread is not None:
        spread = arguments.number("effect_spread", spread, at_least=1)
    if effect is None:
        # A rare outcome hardly changes by a fifth of its noise, which is a multiple of its rate.
        size = float(np.mean(noises)) if base_rate is None else min(base_rate, 1 - base_rate)
        guess = USUAL * size
        return EffectLaw(guesses=(guess,), spread=spread or UNSTATED_SPREAD, stated=False)
    guesses = tuple(several("effect", effect))
    if len(guesses) == 1:
        return EffectLaw(guesses=guesses, spread=spread or STATED_SPREAD)
    if spread is not None and spread > 1:
        raise InvalidArgumentError(
            "effect_spread",
            "left out if several effects are given",
            spread,
            "Several effects already express how uncertain the effect is.",
        )
    return EffectLaw(guesses=guesses)


def several(name: str, value: float | Sequence[float]) -> list[float]:
    """Return one or more positive numbers."""
    # Arrays count as several too, which the type checker cannot infer from np.ndim.
    values: Sequence[float] = list(value) if np.ndim(value) else [value]  # type: ignore[arg-type, list-item]
    if not len(values) or isinstance(value, str):
        raise InvalidArgumentError(name, "a number above 0, or several", repr(value))
    return [arguments.number(name, one, above=0) for one in values]


# ----------------------------------------------------------------------
# Theorem 1's guarantee for equal batches of arbitrary contexts, and when it is vacuous.


@dataclass(frozen=True, kw_only=True)
class Promises:
    """Theorem 1's bounds for one experiment.

    Parameters
    ----------
    units, actions
        T and K.
    dim
        d, over all actions' models together.
    noise
        The standard deviation of the noise; mean rewards lie in [-1, 1] times it.
    """

    units: int
    actions: int
    dim: int
    noise: float

    @property
    def most_lost(self) -> float:
        """The largest possible loss: the range of mean rewards times the number of units."""
        return 2.0 * self.units * self.noise

    def of(self, largest: int) -> float:
        """Return the bound for batches of up to `largest` units; NaN if it is vacuous."""
        # Proved for equal batches: use as many of the largest size as hold all units.
        number = -(-self.units // largest)
        bound = self.noise * theory.sbucb_upper_bound(
            units=number * largest, dim=self.dim, actions=self.actions, batches=number
        )
        return bound if bound < self.most_lost else math.nan

    @property
    def fewest(self) -> int | None:
        """The smallest number of batches with a guarantee; None if there is none."""
        if math.isnan(self.of(1)):
            return None
        low, high = 1, self.units
        # Bisect for the largest batch with a guarantee; a larger one guarantees less.
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (low, middle - 1) if math.isnan(self.of(middle)) else (middle, high)
        return -(-self.units // low)

    @property
    def enough(self) -> int:
        """The number of batches that matches fully online (Corollary 1)."""
        return theory.adversarial_batches_for_online(units=self.units, dim=self.dim)


# ----------------------------------------------------------------------
# Checked arguments: the model, the conduct of the experiment, the limits.


#: With a larger share of missing outcomes, planning makes no sense.
MOST_MISSING = 0.99
#: The table's default number of batches; beyond it, the table has every doubling.
MAX_BATCHES = 8
#: Larger numbers of units are not represented exactly.
MOST_UNITS = 10**15
#: Up to this many multiplications per batch and trial, and this many choices (points x actions x
#: directions), a plan takes less than half a minute.
MOST_WORK, MOST_CHOICES = 2_000_000, 700_000
#: The number of points that represent a batch's units.
CHOICE_POINTS = 512


def model_of(
    actions: int,
    features: int | Sample | None,
    dim: int | None,
    law: EffectLaw,
    noises: Sequence[float],
    kappa: float | None,
) -> Model:
    """Return the model described by the arguments of :func:`~seqbatch.planning.plan`."""
    if (features is None) == (dim is None):
        raise InvalidArgumentError(
            "features or dim",
            "given: exactly one of the two",
            "neither" if dim is None else "both",
            "features is the number of features per unit, with one model per action; dim is the "
            "length of each action's vector, with one model for all.",
        )
    sample = features if isinstance(features, Sample) else None
    if dim is not None:
        length = arguments.integer("dim", dim)
    elif sample is not None:
        length = 1 + sample.dim
    else:
        # The type checker does not see that `features` is neither None nor a sample here.
        length = 1 + arguments.integer("features", features, at_least=0)  # type: ignore[arg-type]
    known = 1.0 if sample is None else sample.kappa
    return Model(
        layout="shared" if dim is not None else "block",
        actions=arguments.integer("actions", actions, at_least=2),
        dim=length,
        scenarios=tuple((effect, noise) for effect, _ in law.points for noise in noises),
        weights=tuple(share / len(noises) for _, share in law.points for _ in noises),
        kappa=known if kappa is None else arguments.number("kappa", kappa, above=0, at_most=1),
        rows=None if sample is None else sample.whitened,
    )


def most_features(actions: int) -> int:
    """Return the largest number of features that a plan can have, with one model per action.

    >>> most_features(3), most_features(50)
    (86, 26)
    """
    most = int((MOST_WORK / actions) ** (1 / 3))
    if MOST_CHOICES // (CHOICE_POINTS * 2 * actions) < actions:
        most = min(most, MOST_CHOICES // (CHOICE_POINTS * actions))
    return max(most - 1, 0)


def require_answerable(model: Model) -> None:
    """Refuse a model whose trials would take too long."""
    block = model.layout == "block"
    models = model.actions if block else 1
    most = int((MOST_WORK / models) ** (1 / 3))
    if model.dim > most:
        raise InvalidArgumentError(
            "features" if block else "dim",
            f"at most {max(most - block, 0)} with {model.actions} actions",
            model.dim - block,
            "A larger plan would take minutes, because its time grows with the cube of this "
            "number. Plan with as many as possible; with more, start with more units than planned.",
        )
    most = MOST_CHOICES // (CHOICE_POINTS * min(2 * model.actions, model.dim))
    if block and model.actions > most:
        raise InvalidArgumentError(
            "actions",
            f"at most {most} with {model.dim - 1} features",
            model.actions,
            "A larger plan would take minutes.",
        )


def conduct_of(
    actions: int,
    randomised: float,
    floor: float,
    missing: float,
    delay: int,
    eligible: Sequence[float] | None = None,
    capacity: Sequence[float | None] | None = None,
    after: int = 0,
    purpose: Purpose = "earn",
) -> Conduct:
    """Return the conduct of the experiment besides the policy's own choices."""
    arguments.choice("purpose", purpose, get_args(Purpose))
    return Conduct(
        eligible=_shares("eligible", eligible, actions),
        capacity=_shares("capacity", capacity, actions),
        randomised=arguments.number("randomised", randomised, at_least=0, at_most=1),
        floor=arguments.number("floor", floor, at_least=0, at_most=1 / actions),
        actions=actions,
        missing=arguments.number("missing", missing, at_least=0, at_most=MOST_MISSING),
        delay=arguments.integer("delay", delay, at_least=0),
        after=arguments.integer("after", after, at_least=0),
        purpose=purpose,
    )


def enough_events(rate: float, conduct: Conduct, units: int) -> int:
    """Return the smallest first batch with enough events of each action, at most half of all units.

    >>> enough_events(0.02, Conduct(actions=3), 20_000)
    1500
    """
    rarer = min(rate, 1 - rate) * conduct.returned
    return min(math.ceil(FIRST_EVENTS * conduct.actions / rarer), max(units // 2, 1))


def require_possible(layout: str, conduct: Conduct, detect: float | None) -> None:
    """Refuse restrictions that the simulation or the formulas do not support, or are infeasible."""
    if conduct.capacity and layout == "shared":
        raise InvalidArgumentError(
            "capacity",
            "left out with dim",
            list(conduct.capacity),
            "How units differ in an action's gain is known only with features.",
        )
    if conduct.restricted and conduct.after:
        raise InvalidArgumentError(
            "after",
            "left out with eligible and capacity",
            conduct.after,
            "The roll-out is taken to give every unit the action that looks best for it.",
        )
    if conduct.restricted and detect is not None:
        raise InvalidArgumentError(
            "detect",
            "left out with eligible and capacity",
            detect,
            "The formulas for standard errors assume that every unit may get every action.",
        )
    if conduct.restricted:
        # Refuses capacities that leave some units without an action.
        _ = conduct.uniform


def require_choice(layout: str, conduct: Conduct, batch_cost: float | None) -> None:
    """Refuse what does not go with the choice of one action for all units at the end."""
    others = {
        "dim": layout == "shared",
        "after": conduct.after,
        "eligible and capacity": conduct.restricted,
        "batch_cost": batch_cost is not None,
    }
    reasons = {
        "dim": "One action for all is chosen by the actions' means: give features.",
        "after": "Without purpose, what the experiment earns and the roll-out count together.",
        "eligible and capacity": "One action is chosen for all units at the end.",
        "batch_cost": "Simple regret is a loss per unit that gets the chosen action.",
    }
    for name, given in others.items():
        if given:
            raise InvalidArgumentError(
                "purpose", f'"earn" if {name} is given', "choose", reasons[name]
            )


def _shares(name: str, values: Sequence[float | None] | None, actions: int) -> tuple[float, ...]:
    """Return one positive share per action, or () if nothing is restricted."""
    if values is None:
        return ()
    if isinstance(values, str) or not np.iterable(values) or len(values) != actions:
        rule = f"{actions} shares above 0 and up to 1, one per action"
        raise InvalidArgumentError(name, rule, repr(values))
    shares = tuple(
        1.0 if value is None else arguments.number(name, value, above=0, at_most=1)
        for value in values
    )
    return shares if min(shares) < 1 else ()


def limits_of(
    units: int,
    min_batch: int | None,
    max_batch: int | None,
    first_batch: int | None,
    waves: Sequence[int] | None,
) -> BatchLimits:
    """Return the limits described by the arguments of :func:`~seqbatch.planning.plan`."""
    T = arguments.integer("units", units)
    if T > MOST_UNITS:
        raise InvalidArgumentError("units", f"at most {MOST_UNITS:.0e}", units)
    smallest = 1 if min_batch is None else arguments.integer("min_batch", min_batch)
    for name, value in (("max_batch", max_batch), ("first_batch", first_batch)):
        if value is not None:
            arguments.integer(name, value)
    if smallest > T:
        raise InvalidGridError("min_batch", f"at most units = {T}", smallest)
    largest = T if max_batch is None else max_batch
    if first_batch is not None and not smallest <= first_batch <= largest:
        raise InvalidGridError(
            "first_batch", f"between {smallest} and {largest}, like every batch", first_batch
        )
    if waves is not None:
        if smallest != 1 or max_batch is not None or first_batch is not None:
            raise InvalidArgumentError(
                "waves",
                "given without min_batch, max_batch and first_batch",
                "waves and one of these",
            )
        if not isinstance(waves, Sequence | np.ndarray) or not len(waves):
            raise InvalidArgumentError("waves", "a list of sizes", repr(waves))
        sizes = tuple(arguments.integer("waves", wave) for wave in waves)
        if sum(sizes) != T:
            raise InvalidGridError("waves", f"sizes that sum to units = {T}", sum(sizes))
        return BatchLimits(units=T, waves=sizes)
    return BatchLimits(units=T, smallest=smallest, largest=max_batch, first=first_batch)


def numbers_of(limits: BatchLimits, batches: int | None, max_batches: int | None) -> list[int]:
    """Return the numbers of batches in the table, including the requested one."""
    if batches is not None and arguments.integer("batches", batches) > limits.units:
        raise InvalidGridError("batches", f"at most units = {limits.units}", batches)
    usual = MAX_BATCHES if limits.waves is None else len(limits.waves)
    if limits.largest is not None:
        usual = max(usual, limits.fewest)
    most = usual if max_batches is None else arguments.integer("max_batches", max_batches)
    most = min(max(most, batches or 1), limits.units)
    numbers = {*range(1, min(most, MAX_BATCHES) + 1), most, limits.fewest}
    doubled = MAX_BATCHES
    while (doubled := 2 * doubled) < most:
        numbers.add(doubled)
    if batches is not None:
        feasible(limits, [batches])
        numbers.add(batches)
    return feasible(limits, sorted(number for number in numbers if number <= most))


# ----------------------------------------------------------------------
# The request, and the trials that answer it.


GridKind = Literal["tuned", "paper"]

#: Grids are tuned on some trials and judged on others.
TUNING, JUDGING = 1, 2
#: The number of trials: the first number over the number of parameters, within the two bounds. With
#: many parameters trials vary less; with few, rare trials that learn nothing must be included.
TRIALS = {
    (TUNING, "shared"): (640, 30, 130),
    (TUNING, "block"): (1_950, 20, 130),
    (JUDGING, "shared"): (10_240, 120, 2_000),
    (JUDGING, "block"): (12_480, 20, 1_000),
}
#: The number of trials times actions if a model has one parameter per action.
SIMPLE = {TUNING: 2_048, JUDGING: 32_768}
#: A quick answer divides the number of trials by this, down to a minimum.
QUICK, FEWEST_QUICK = 4, 20


@dataclass(frozen=True, kw_only=True)
class Request:
    """The checked request of a user, and the trials that answer it.

    Parameters
    ----------
    model, limits
        The model, and the limits on batches.
    numbers
        The numbers of batches in the table.
    batches
        The requested number, if any.
    kind
        Tuned grids or the paper's.
    batch_cost, within, seed, sample
        See :func:`seqbatch.planning.plan`.
    law
        The prior on the effect before the experiment.
    detect, power
        The lift to detect, if any, and the required power.
    quick
        Whether few trials suffice.
    base_rate
        The share of yes without any action, if outcomes are yes or no.
    history
        The sums of an earlier experiment from which this one starts, if there is one.
    draws
        The random draws for each purpose, shared with requests that replace the model.
    """

    model: Model
    limits: BatchLimits
    numbers: Sequence[int]
    batches: int | None
    kind: GridKind
    batch_cost: float | None
    within: float
    seed: int
    sample: Sample | None
    law: EffectLaw
    detect: float | None = None
    power: float = 0.8
    quick: bool = False
    base_rate: float | None = None
    history: History | None = None
    draws: dict[int, KeptDraws] = field(default_factory=dict, repr=False)

    @cached_property
    def tuning(self) -> Trials:
        """The trials on which grids are tuned."""
        return self._ensemble(TUNING)

    @cached_property
    def judging(self) -> Trials:
        """The trials on which grids are judged."""
        return self._ensemble(JUDGING)

    @cached_property
    def _judged(self) -> dict[Sizes, Rates]:
        return {}

    def judged(self, sizes: Sizes) -> Rates:
        """Return the rates of a grid in the judging trials; each grid is run once."""
        if sizes not in self._judged:
            self._judged[sizes] = self.judging.rates(sizes)
        return self._judged[sizes]

    @cached_property
    def _tried(self) -> dict[Sizes, Floats]:
        return {}

    def tried(self, sizes: Sizes) -> Floats:
        """Return a grid's cost in the tuning trials, by scenario."""
        if sizes not in self._tried:
            self._tried[sizes] = self.tuning.rates(sizes).by_scenario(sizes)
        return self._tried[sizes]

    @property
    def units_in_all(self) -> int:
        """The number of units that count: with those of a roll-out; one for a choice at the end."""
        if self.model.conduct.purpose == "choose":
            return 1
        return self.limits.units + self.model.conduct.after

    @property
    def too_short(self) -> bool:
        """Whether there are fewer units than the theorems assume: the square of the parameters."""
        return not self.limits.seen and self.limits.units < self.model.dim**2

    @cached_property
    def possible(self) -> float:
        """The total gain of a perfect assignment over a random one, given the data so far."""
        if self.judging.gain is not None:
            return self.units_in_all * float(np.sum(self.judging.gain))
        rates = self.judging.rates([1])
        return self.units_in_all * float((rates.weight * rates.uniform).mean())

    def _ensemble(self, purpose: int) -> Trials:
        total, least, most = TRIALS[purpose, self.model.layout]
        models = 1 if self.model.layout == "shared" else self.model.actions
        trials = min(most, max(least, total // (models * self.model.dim)))
        if self.model.dim == 1:
            # They are cheap, and few of them lose anything.
            trials = max(trials, SIMPLE[purpose] // self.model.actions)
        if self.quick:
            trials = max(trials // QUICK, FEWEST_QUICK)
        # A multiple of ten: requests with different numbers of scenarios share the same draws.
        trials = 10 * -(-trials // 10)
        # Ten apart: one request's judging trials are never another's tuning trials.
        seed = 10 * self.seed + purpose
        draws = self.draws.setdefault(purpose, KeptDraws(SeedSequence(seed)))
        return self.model.ensemble(trials, seed=seed, draws=draws)

    def all_by_chance(self, batches: int) -> bool:
        """Return whether all batches are assigned entirely at random."""
        informed = self.model.past is not None
        return bool((self.model.conduct.blind(batches, informed=informed) >= 1).all())

    @property
    def promises(self) -> Promises:
        """Theorem 1's guarantees for arbitrary contexts."""
        model = self.model
        return Promises(
            units=self.limits.units,
            actions=model.actions,
            dim=model.dim * (1 if model.layout == "shared" else model.actions),
            noise=max(noise for _, noise in model.scenarios),
        )

    @property
    def least_first(self) -> int:
        """The smallest first batch worth trying: as many outcomes as parameters."""
        models = 1 if self.model.layout == "shared" else self.model.actions
        needed = math.ceil(models * self.model.dim / self.model.conduct.returned)
        return max(2, min(needed, self.limits.units // 4))
