"""The sizes of the waves in a first spec: equal ones, or those of a plan, with the reason."""

from seqbatch.campaign.design.toml import parse_spec
from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.display import counted
from seqbatch.planning import Plan, plan


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
    made = plan(units=units, actions=len(spec.actions), features=features, batches=waves)
    return made.grid.sizes, _reason(made, features, asked=waves is not None)


def _reason(made: Plan, features: int, *, asked: bool) -> str:
    row, online = made.row, made.online
    share, wanted = row.earned / online.earned, 1 - made.within
    said = f"by a plan for {counted(made.grid.units, 'unit')} of {counted(features, 'feature')}: "
    if asked:
        said += f"{made.batches} waves, as asked for,"
    elif share >= wanted:
        said += f"the smallest number of waves that earns {wanted:.0%} of what new estimates after "
        said += "every unit would earn; it"
    else:
        said += f"no number of waves in the plan's table earns {wanted:.0%} of what new estimates "
        said += "after every unit would earn; this one"
    if asked:
        return f"{said} earn {share:.0%} of what new estimates after every unit would earn"
    return f"{said} earns {share:.0%}"
