"""Describe a spec's eligibility rules, limits and balance in words."""

from collections.abc import Iterator, Sequence

from seqbatch.campaign.spec.spec import Spec


def rules_said(spec: Spec) -> list[str]:
    """Return the eligibility rule of each action that has one."""
    return [f"{name}: {rule}" for name, rule in spec.eligible.items()]


def nobody_said(spec: Spec) -> str:
    """Describe what happens to a unit that is eligible for no action."""
    fallback = "is refused" if spec.fallback is None else f"gets {spec.fallback}"
    return (
        "A unit is not eligible if a value that the rule needs is missing. A unit that is "
        f"eligible for no action {fallback}."
    )


def balance_said(spec: Spec, *, over_waves: bool) -> list[str]:
    """Describe how actions are balanced; nothing if draws are independent.

    Parameters
    ----------
    spec
        The spec.
    over_waves
        Whether blocks and minimisation continue from wave to wave.
    """
    if not spec.balanced:
        return []
    if spec.in_order:
        return [*_in_order_said(spec, over_waves=over_waves)]
    within = "" if not spec.strata else f" and within {' and '.join(_chain(spec.strata))}"
    return [
        "Draws are balanced: all units of a file are drawn together, and the number of units "
        f"that get an action, in total{within}, is the expected number rounded up or down. Units "
        "that come in several files or calls are balanced within each of them only."
    ]


def _in_order_said(spec: Spec, *, over_waves: bool) -> Iterator[str]:
    """Describe draws that balance units as they come, without the sizes of blocks.

    Whoever knows the sizes and the earlier actions of a stratum can foresee the end of a block.
    """
    every = "all waves, files and calls" if over_waves else "all files and calls of a wave"
    if spec.draw == "blocks":
        within = f" within each {' x '.join(spec.strata)}" if spec.strata else ""
        yield (
            f"Units are drawn in permuted blocks{within}, in the order in which they come, over "
            f"{every}: a full block has every action equally often. Blocks have the sizes that the "
            "spec declares, in random order."
        )
    else:
        alike = " plus those with the same ".join(spec.strata)
        yield (
            "Units are minimised (Pocock and Simon) in the order in which they come, over "
            f"{every}: an action scores its units with the same {alike}. The "
            "action with the lowest score, or one of them at random, has the probability "
            f"{spec.favour:g}; the others share the rest."
        )
    if over_waves:
        yield (
            "All actions are treated in the same way, and the policy's shares are equal in every "
            "wave: before the first unit comes, every action is equally likely for each unit, and "
            "the logged probability says so. If actions are added or retired, the balance begins "
            "anew."
        )
        return
    yield (
        "Balance starts again with every wave, because the policy's shares may change between "
        "waves, and all actions are treated in the same way. Before a wave "
        "begins, every action is therefore equally likely for each unit that is drawn like this, "
        "and the logged probability says so. If a policy prefers actions, the part of a unit's "
        "probability that all actions have in common is drawn like this, and the rest by itself."
    )


def limits_said(spec: Spec) -> list[str]:
    """Describe capacities, quotas and the budget, one line each."""
    said = [
        f"{name}: {_amounts(one.each_wave, one.total, one.at_least)}"
        for name, one in spec.capacity.items()
    ]
    if spec.budget is not None:
        said.append(f"Budget: {_amounts(spec.budget.each_wave, spec.budget.total, 0)}")
    return said


def constraints_said(spec: Spec, *, over_waves: bool) -> list[str]:
    """Describe the rules, limits and balance in a sentence or two each; see `balance_said`."""
    said = []
    if spec.eligible:
        rules = "; ".join(rules_said(spec))
        said += [f"Some actions are only for some units. {rules}. {nobody_said(spec)}"]
    if limits := limits_said(spec):
        said.append(f"Limits: {'. '.join(limits)}.")
    return [*said, *balance_said(spec, over_waves=over_waves)]


def _chain(strata: Sequence[str]) -> Iterator[str]:
    """Yield the levels at which draws are balanced: the first column, the first two, and so on."""
    for end in range(1, len(strata) + 1):
        yield f"each {' x '.join(strata[:end])}"


def _amounts(each_wave: float | None, total: float | None, at_least: float) -> str:
    said = [
        *([f"at most {each_wave:,g} in each wave"] if each_wave is not None else []),
        *([f"at most {total:,g} in all"] if total is not None else []),
        *([f"at least {at_least:,g} in each wave"] if at_least else []),
    ]
    return "; ".join(said)
