"""For whom: the rule to run next, declared segments, splits that were found, and drift."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from seqbatch.campaign.views.findings import DriftAnswer, RuleAnswer, SegmentAnswer, SplitAnswer
from seqbatch.core.arrays import Bools
from seqbatch.inference import (
    Declared,
    Lift,
    Mean,
    Rows,
    WaveSummary,
    drift,
    estimate_wave,
    judge_next_rule,
    strongest_splits,
    within_segments,
)
from seqbatch.inference.segments import adjusted_p_values

#: Splits are looked for among at most so many columns: a pass over all units tries each of them.
MOST_COLUMNS = 100

if TYPE_CHECKING:
    from seqbatch.campaign.views.answers import Asking
    from seqbatch.inference.summary import Missing


def next_rule(asking: "Asking") -> RuleAnswer | None:
    """Return the rule to run next among the actions that are still given."""
    last = _among_active(asking)
    if not last.evidence.statistics.count.any():
        return None
    made = judge_next_rule(_ActiveRows(asking), last, level=asking.level)
    about = f"gain of the rule to run next over {asking.names[0]} for everybody"
    return RuleAnswer(
        gain=asking.own(made.gain, about),
        supported=made.supported,
        shares=dict(zip(asking.names, made.shares, strict=True)),
        columns=asking.data.columns.names,
        coefficients={
            name: tuple((asking.sign * own).tolist())
            for name, own, known in zip(
                asking.names, made.rule.coefficients, made.rule.known, strict=True
            )
            if known
        },
    )


def _among_active(asking: "Asking") -> WaveSummary:
    """Return the last summary without the outcomes of retired actions: no rule may give them."""
    last, active = asking.summaries[-1], _active(asking)
    statistics = last.evidence.statistics
    kept = replace(statistics, count=np.where(active, statistics.count, 0))
    return replace(last, evidence=replace(last.evidence, statistics=kept))


def _active(asking: "Asking") -> Bools:
    """Return which actions are still given, in the order of all."""
    data = asking.data
    return np.array([number not in data.now.retired for number in data.order])


@dataclass(frozen=True, eq=False)
class _ActiveRows:
    """The last wave, in which outcomes of retired actions do not count, as in its summary."""

    asking: "Asking"

    def __iter__(self) -> Iterator[Rows]:
        active = _active(self.asking)
        for rows in self.asking.data.each_wave[-1]:
            yield replace(rows, outcomes=np.where(active[rows.actions], rows.outcomes, np.nan))


def declared_segments(asking: "Asking") -> tuple[SegmentAnswer, ...]:
    """Return every lift within every declared segment, corrected for how many there are."""
    partitions = [Declared(name) for name in asking.data.segments]
    names = {by: list(levels) for by, levels in asking.data.levels.items()}
    found = [
        (place, one)
        for place in range(1, len(asking.names))
        for one in within_segments(
            asking.summaries,
            Lift(place),
            asking.shares(Lift(place)),
            partitions,
            level=asking.level,
        ).findings
    ]
    adjusted = adjusted_p_values([one.interval for _, one in found])
    return tuple(
        SegmentAnswer(
            action=asking.names[place],
            by=one.partition,
            segment=names[one.partition][one.segment],
            interval=asking.own(one.interval, asking.lift_name(place)),
            adjusted_p=p,
        )
        for (place, one), p in zip(found, adjusted, strict=True)
    )


def splits(asking: "Asking", missing: "Missing") -> tuple[SplitAnswer, ...]:
    """Return the splits that the first wave suggests for its strongest action, judged later."""
    first = {
        place: made.estimate
        for place in range(1, len(asking.names))
        if (made := estimate_wave(asking.summaries[0], Lift(place))) is not None
    }
    if not first or len(asking.data.columns.names) > MOST_COLUMNS:
        return ()
    place = max(first, key=lambda one: first[one])
    columns = asking.data.columns
    judged = strongest_splits(
        asking.data.each_wave,
        Lift(place),
        asking.shares(Lift(place)),
        labels=columns.names,
        level=asking.level,
        missing=missing,
        fitted=asking.summaries,
    )
    about = asking.lift_name(place)
    return tuple(
        SplitAnswer(
            action=asking.names[place],
            column=columns.names[one.split.column],
            threshold=columns.own_value(one.split.column, one.split.threshold),
            above=asking.own(one.above, f"{about}, above"),
            below=asking.own(one.below, f"{about}, below"),
            difference=asking.own(one.difference, f"{about}, above less below"),
            adjusted_p=one.adjusted_p,
        )
        for one in judged.splits
    )


def drifts(asking: "Asking") -> tuple[DriftAnswer, ...]:
    """Return tests that means, lifts and features are the same in all waves."""
    columns = asking.data.columns.names
    made = drift(asking.summaries, asking.shares(Mean(0)), labels=columns)
    named = {Mean(a).name: f"mean of {name}" for a, name in enumerate(asking.names)}
    named |= {Lift(a).name: asking.lift_name(a) for a in range(1, len(asking.names))}
    outcomes = [("outcome", named[one.about], one) for one in made.outcomes]
    features = [("feature", one.about, one) for one in made.features]
    return tuple(
        DriftAnswer(kind=kind, about=about, statistic=one.statistic, p=one.p_value)
        for kind, about, one in outcomes + features
    )
