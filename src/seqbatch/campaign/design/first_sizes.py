"""The sizes of the waves in a first spec: equal ones, or those of a plan, with the reason."""

from seqbatch.campaign.design.toml import parse_spec
from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.display import counted
from seqbatch.planning import plan


def equal_sizes(units: int, waves: int) -> tuple[int, ...]:
    """Return waves of equal size; the last one has what is left.

    >>> equal_sizes(100, 3), equal_sizes(1, 2)
    ((33, 33, 34), (1, 1))
    """
    each = max(units // waves, 1)
    return (*[each] * (waves - 1), max(units - (waves - 1) * each, 1))


def planned_sizes(text: str, units: int, waves: int | None) -> tuple[tuple[int, ...], str]:
    """Return the sizes that a plan for a spec recommends, and why.

    Parameters
    ----------
    text
        The spec, with any sizes.
    units, waves
        How many of each there are; the plan finds the number of waves where None.
    """
    spec = parse_spec(text)
    encoder = Encoder.of(spec, actions=spec.actions, learned=None)
    features = encoder.dim - int(spec.features.intercept)
    made = plan(
        units=units,
        actions=len(spec.actions),
        features=features,
        batches=waves,
        randomised=spec.randomised,
        floor=spec.floor,
    )
    size = f"{counted(units, 'unit')} of {counted(features, 'feature')}"
    # What theory calls a batch is a wave here.
    reason = made.reason.rstrip(".").replace("batches", "waves").replace("batch", "wave")
    noise, [effect] = made.model.scenarios[0][1], made.request.law.guesses
    assumed = (
        f"Assumed: a perfect assignment gains {effect:g} per unit over a random one, give or take "
        f"a factor of {made.request.law.spread:g}, and outcomes "
        f"vary with standard deviation {noise:g}; the planner takes an effect and a noise of your "
        "own"
    )
    return made.grid.sizes, f"by a plan for {size}. {reason}. {assumed}"
