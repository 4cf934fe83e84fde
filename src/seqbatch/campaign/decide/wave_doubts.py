"""Doubts about a wave's outcomes: a metric without any value, and units that are waited for."""

from collections.abc import Mapping

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.display import counted
from seqbatch.errors import Doubt

#: The kinds of doubts, for programs.
UNRECORDED, WAITED_FOR = "metric-not-recorded", "units-waited-for"


def unrecorded(
    now: Situation, wave: int, units: int, recorded: Mapping[str, int]
) -> tuple[Doubt, ...]:
    """Return a doubt for each metric that has no value in a wave, although others have some.

    Its file may never have been recorded, and every unit counts as the metric's absent value.

    Parameters
    ----------
    now
        The campaign's state, with the metrics.
    wave, units
        The wave, and the number of its units.
    recorded
        The number of values of each metric that were recorded in the wave.
    """
    if not any(recorded.values()):
        return ()
    made = []
    for name in recorded:
        metric = now.spec.metrics[name]
        if metric.absent is None or recorded[name]:
            continue
        wait = metric.after or metric.within
        when = f", {wait} after its assignment" if wait else ""
        said = (
            f"wave {wave} has no recorded value of {name}: each of its {counted(units, 'unit')} "
            f"counts as {metric.absent:g}{when}. If its file was never recorded, record it: its "
            "rows replace these values"
        )
        made.append(Doubt(UNRECORDED, (said,), column=metric.column, rows=units))
    return tuple(made)


def waited_for(now: Situation, wave: int, units: int, missing: int) -> tuple[Doubt, ...]:
    """Return a doubt if units of a closed wave have no outcome and do not count as absent yet.

    Parameters
    ----------
    now
        The campaign's state, with the metrics.
    wave, units, missing
        The wave, the number of its units, and of those that are waited for.
    """
    if not missing or now.absent is None:
        return ()
    said = (
        f"{missing:,} of the {units:,} units of wave {wave} have no outcome and do not count as "
        f"{now.absent:g} before {now.spec.reward.after} after their assignment. Until then, means "
        "and differences of this wave would be about units with an outcome alone, such as buyers"
    )
    return (Doubt(WAITED_FOR, (said,), rows=missing),)
