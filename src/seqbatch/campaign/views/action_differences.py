"""How different the actions are, by feature: scales of a partially pooled regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from seqbatch.campaign.decide.decision_tree import dividers
from seqbatch.core import Statistics
from seqbatch.core.arrays import Bools, Floats
from seqbatch.core.joint_regression import JointSums
from seqbatch.core.pooled_regression import pooled_regression
from seqbatch.document import Table
from seqbatch.inference.summary import statistics_by_wave

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Findings
    from seqbatch.campaign.views.findings_estimates import Asking


@dataclass(frozen=True, kw_only=True)
class FeatureDifference:
    """How different the actions are by one feature.

    Parameters
    ----------
    feature
        The feature; "" for the average unit.
    spread
        How far what an action brings lies from what all actions bring, typically: the standard
        deviation between actions. For a feature, of what its values add to that, over units.
    """

    feature: str
    spread: float


#: The most columns of a model whose scales are estimated.
MOST_COLUMNS = 100


def action_differences(asking: "Asking") -> tuple[FeatureDifference, ...]:
    """Return how different the actions are: for the average unit, then by feature."""
    waves = statistics_by_wave(asking.summaries)
    met = np.sum([wave.count for wave in waves], axis=0) > 0
    columns = asking.data.columns
    if met.sum() < 2 or len(columns.names) > MOST_COLUMNS:
        return ()
    sums = net_sums(waves, np.array(asking.data.charges), met)
    scales = asking.scale * pooled_regression(sums, constant=0).scales
    features = [one.feature for one in dividers(asking.data.now.encoder(), columns)]
    places = [(one.name, list(one.columns)) for one in features]
    covered = {place for _, own in places for place in own}
    # Products of features and hashed cells go by their own names.
    places += [
        (name, [place])
        for place, name in enumerate(columns.names)
        if place and place not in covered
    ]
    made = [(name, sqrt(float((scales[own] ** 2).sum()))) for name, own in places]
    return (
        FeatureDifference(feature="", spread=float(scales[0])),
        *(
            FeatureDifference(feature=name, spread=spread)
            for name, spread in sorted(made, key=lambda one: -one[1])
        ),
    )


def net_sums(waves: Sequence[Statistics], charges: Floats, met: Bools) -> JointSums:
    """Return the sums of outcomes less costs, of some actions, with a level for each wave."""
    net = [
        Statistics(
            wave.gram[met],
            (wave.moment - charges[:, None] * wave.gram[:, 0])[met],
            (wave.squares - 2 * charges * wave.moment[:, 0] + charges**2 * wave.count)[met],
            wave.count[met],
        )
        for wave in waves
    ]
    return JointSums.of(net, constant=0, levels=range(1, len(waves)))


#: The most features in the table.
MOST_SHOWN = 10


def differences_table(found: "Findings") -> Table:
    """Return how different the actions are, the features with the largest differences first."""
    measure = found.measure
    rows = [
        [one.feature or f"for the average {measure.of}", f"{measure.scale * one.spread:.2g}"]
        for one in found.differences[: 1 + MOST_SHOWN]
    ]
    title = "How different the actions are, by feature"
    columns = ("feature", f"standard deviation of {measure.column}")
    return Table(title, columns, rows if len(rows) > 1 else [], words=("feature",))
