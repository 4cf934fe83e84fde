"""A request: what the user asked for, checked, with the trials that answer it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError, InvalidGridError
from seqbatch.planning.effects import EffectLaw
from seqbatch.planning.limits import Limits, Sizes, feasible
from seqbatch.planning.model import Model
from seqbatch.planning.promises import Promises
from seqbatch.planning.sample import Sample
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.conduct import Conduct
from seqbatch.planning.trials.draws import Draws
from seqbatch.planning.trials.greedy import Rates

GridKind = Literal["tuned", "paper"]

#: With more outcomes missing than this share there is nothing to plan.
MOST_MISSING = 0.99
#: How far the table goes by default; beyond that, it has every doubling.
MAX_BATCHES = 8
#: More units than these are not counted exactly.
MOST_UNITS = 10**15
#: Grids are tuned on some trials and judged on others.
TUNING, JUDGING = 1, 2
#: How many trials there are of each: this over the number of parameters, within bounds. With many
#: parameters trials differ less; with few, rare trials that learn nothing must be among them.
TRIALS = {
    (TUNING, "shared"): (640, 30, 130),
    (TUNING, "block"): (1_950, 20, 130),
    (JUDGING, "shared"): (10_240, 120, 2_000),
    (JUDGING, "block"): (12_480, 20, 1_000),
}
#: Systems of this many multiplications for a batch of one trial take half a minute in all.
MOST_WORK = 2_000_000
#: How many points stand for a batch's units.
POINTS = 512
#: Where all of a model is one number an action: this over the actions.
SIMPLE = {TUNING: 2_048, JUDGING: 32_768}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for, checked, and the trials that answer it.

    Parameters
    ----------
    model, limits
        The world, and what the user allows.
    numbers
        The numbers of batches in the table.
    batches
        The number requested, if any.
    kind
        Tuned grids or the paper's.
    batch_cost, within, seed, sample
        See :func:`seqbatch.planning.plan`.
    law
        What was known of the effect before the experiment.
    detect, power
        The lift to be detected, if any, and with which power.
    draws
        What was drawn for each purpose: the same for this request and those that replace its model.
    """

    model: Model
    limits: Limits
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
    draws: dict[int, Draws] = field(default_factory=dict, repr=False)

    @cached_property
    def tuning(self) -> Trials:
        """The trials that grids are tuned on."""
        return self._ensemble(TUNING)

    @cached_property
    def judging(self) -> Trials:
        """The trials that grids are judged on."""
        return self._ensemble(JUDGING)

    @cached_property
    def _judged(self) -> dict[Sizes, Rates]:
        return {}

    def judged(self, sizes: Sizes) -> Rates:
        """Return what a grid costs in the trials for judging; each grid is run once."""
        if sizes not in self._judged:
            self._judged[sizes] = self.judging.rates(sizes)
        return self._judged[sizes]

    @cached_property
    def _tried(self) -> dict[Sizes, Floats]:
        return {}

    def tried(self, sizes: Sizes) -> Floats:
        """Return what a grid costs in the trials for tuning, scenario by scenario."""
        if sizes not in self._tried:
            self._tried[sizes] = self.tuning.rates(sizes).by_scenario(sizes)
        return self._tried[sizes]

    @cached_property
    def possible(self) -> float:
        """What a perfect assignment gains over a random one, in total, given what is known."""
        if self.judging.gain is not None:
            return self.limits.units * float(np.sum(self.judging.gain))
        rates = self.judging.rates([1])
        return self.limits.units * float((rates.weight * rates.uniform).mean())

    def _ensemble(self, purpose: int) -> Trials:
        total, least, most = TRIALS[purpose, self.model.layout]
        models = 1 if self.model.layout == "shared" else self.model.actions
        trials = min(most, max(least, total // (models * self.model.dim)))
        if self.model.dim == 1:
            # They cost next to nothing, and few of them lose anything.
            trials = max(trials, SIMPLE[purpose] // self.model.actions)
        # As many for all numbers of scenarios that the same draws are to serve.
        trials = 10 * -(-trials // 10)
        # Ten apart, so that one request's trials for judging are never another's for tuning.
        seed = 10 * self.seed + purpose
        draws = self.draws.setdefault(purpose, Draws(SeedSequence(seed)))
        return self.model.ensemble(trials, seed=seed, draws=draws)

    @property
    def promises(self) -> Promises:
        """What Theorem 1 says where contexts are arbitrary."""
        model = self.model
        return Promises(
            units=self.limits.units,
            actions=model.actions,
            dim=model.dim * (1 if model.layout == "shared" else model.actions),
            noise=max(noise for _, noise in model.scenarios),
        )

    @property
    def least_first(self) -> int:
        """The smallest first batch worth trying: as many outcomes as there are parameters."""
        models = 1 if self.model.layout == "shared" else self.model.actions
        needed = math.ceil(models * self.model.dim / self.model.conduct.returned)
        return max(2, min(needed, self.limits.units // 4))


def model_of(
    actions: int,
    features: int | Sample | None,
    dim: int | None,
    law: EffectLaw,
    noises: Sequence[float],
    kappa: float | None,
) -> Model:
    """Return the world that :func:`~seqbatch.planning.plan`'s arguments describe."""
    if (features is None) == (dim is None):
        raise InvalidArgumentError(
            "features or dim",
            "given: exactly one of the two",
            "neither" if dim is None else "both",
            "features is how many numbers describe a unit, with one model per action; dim is the "
            "length of each action's vector, with one model for all.",
        )
    sample = features if isinstance(features, Sample) else None
    if dim is not None:
        length = arguments.integer("dim", dim)
    elif sample is not None:
        length = 1 + sample.dim
    else:
        # The checker does not see that `features` is neither None nor a sample here.
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


def require_answerable(model: Model) -> None:
    """Refuse a model so large that its trials would take longer than anybody waits."""
    block = model.layout == "block"
    models = model.actions if block else 1
    most = int((MOST_WORK / models) ** (1 / 3))
    if model.dim > most:
        raise InvalidArgumentError(
            "features" if block else "dim",
            f"at most {max(most - block, 0)} with {model.actions} actions",
            model.dim - block,
            "A plan for more would take minutes, as its time grows with the cube of their number. "
            "Plan with as many as possible; with more, first batches must be longer.",
        )
    most = MOST_WORK // (POINTS * min(2 * model.actions, model.dim))
    if block and model.actions > most:
        raise InvalidArgumentError(
            "actions",
            f"at most {most} with {model.dim - 1} features",
            model.actions,
            "A plan for more would take minutes.",
        )


def conduct_of(
    actions: int,
    randomised: float,
    floor: float,
    missing: float,
    delay: int,
    eligible: Sequence[float] | None = None,
    capacity: Sequence[float | None] | None = None,
) -> Conduct:
    """Return what happens beside the policy's own choices."""
    return Conduct(
        eligible=_shares("eligible", eligible, actions),
        capacity=_shares("capacity", capacity, actions),
        randomised=arguments.number("randomised", randomised, at_least=0, at_most=1),
        floor=arguments.number("floor", floor, at_least=0, at_most=1 / actions),
        actions=actions,
        missing=arguments.number("missing", missing, at_least=0, at_most=MOST_MISSING),
        delay=arguments.integer("delay", delay, at_least=0),
    )


def require_possible(layout: str, conduct: Conduct, detect: float | None) -> None:
    """Refuse restrictions that the trials or the formulas do not know, or that nobody can keep."""
    if conduct.capacity and layout == "shared":
        raise InvalidArgumentError(
            "capacity",
            "left out with dim",
            list(conduct.capacity),
            "Only with features is it known how units differ in what an action gains.",
        )
    if conduct.restricted and detect is not None:
        raise InvalidArgumentError(
            "detect",
            "left out with eligible and capacity",
            detect,
            "The formulas for standard errors take every unit to be eligible for every action.",
        )
    if conduct.restricted:
        # Refuses capacities that leave some units without an action.
        _ = conduct.uniform


def _shares(name: str, values: Sequence[float | None] | None, actions: int) -> tuple[float, ...]:
    """Return a share above 0 for each action, or () where none restricts anything."""
    if values is None:
        return ()
    if isinstance(values, str) or not np.iterable(values) or len(values) != actions:
        rule = f"{actions} shares above 0 and up to 1, one for each action"
        raise InvalidArgumentError(name, rule, repr(values))
    shares = tuple(
        1.0 if value is None else arguments.number(name, value, above=0, at_most=1)
        for value in values
    )
    return shares if min(shares) < 1 else ()


def limits_of(
    units: int,
    min_batch: int,
    max_batch: int | None,
    first_batch: int | None,
    waves: Sequence[int] | None,
) -> Limits:
    """Return what :func:`~seqbatch.planning.plan`'s arguments allow of the batches."""
    T = arguments.integer("units", units)
    if T > MOST_UNITS:
        raise InvalidArgumentError("units", f"at most {MOST_UNITS:.0e}", units)
    smallest = arguments.integer("min_batch", min_batch)
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
        if min_batch != 1 or max_batch is not None or first_batch is not None:
            raise InvalidArgumentError(
                "waves",
                "given without min_batch, max_batch and first_batch",
                "waves and one of these",
            )
        if not isinstance(waves, Sequence | np.ndarray) or not len(waves):
            raise InvalidArgumentError("waves", "a list of sizes", repr(waves))
        sizes = tuple(arguments.integer("waves", wave) for wave in waves)
        if sum(sizes) != T:
            raise InvalidGridError("waves", f"sizes that add up to units = {T}", sum(sizes))
        return Limits(units=T, waves=sizes)
    return Limits(units=T, smallest=smallest, largest=max_batch, first=first_batch)


def numbers_of(limits: Limits, batches: int | None, max_batches: int | None) -> list[int]:
    """Return the table's numbers of batches, including the one requested."""
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
