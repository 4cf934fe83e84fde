"""Sums without rounding need to know beforehand how large numbers can be."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqbatch.campaign.design.spec import Spec


def check_exact(spec: "Spec") -> None:
    """Refuse exact sums of numbers without bounds."""
    if spec.sums != "exact":
        return
    if spec.reward.range is None:
        raise ValueError(
            'sums = "exact" rounds rewards by how large they can be: declare reward.range = '
            "[low, high]"
        )
    rules = {**spec.features.numeric, **spec.features.date}
    open_ended = [
        name for name, rule in rules.items() if rule.range is None and rule.quantiles is None
    ]
    if open_ended:
        raise ValueError(
            f'sums = "exact" rounds numbers by how large they can be: declare range = [low, high] '
            f"of {', '.join(open_ended)}, or clip them at quantiles of the first wave, as in clip "
            "= [0.001, 0.999]"
        )
