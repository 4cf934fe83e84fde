"""What a plan's arguments describe: a model, a conduct, limits; checked."""

from collections.abc import Sequence

import numpy as np

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError, InvalidGridError
from seqbatch.planning.effects import EffectLaw
from seqbatch.planning.limits import Limits, feasible
from seqbatch.planning.model import Model
from seqbatch.planning.sample import Sample
from seqbatch.planning.trials.conduct import Conduct

#: With more outcomes missing than this share there is nothing to plan.
MOST_MISSING = 0.99
#: How far the table goes by default; beyond that, it has every doubling.
MAX_BATCHES = 8
#: More units than these are not counted exactly.
MOST_UNITS = 10**15
#: Systems of this many multiplications for a batch of one trial take less than half a minute in
#: all, and so do choices of this many points, actions and directions.
MOST_WORK, MOST_CHOICES = 2_000_000, 700_000
#: How many points stand for a batch's units.
POINTS = 512


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
    most = MOST_CHOICES // (POINTS * min(2 * model.actions, model.dim))
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
