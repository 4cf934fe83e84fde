"""Doubts about a wave's outcomes: metrics with no value or few, and units that are waited for."""

from collections.abc import Mapping

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.display import counted
from seqbatch.errors import Doubt

#: The kinds of doubts, for programs.
UNRECORDED, WAITED_FOR = "metric-not-recorded", "units-waited-for"
MOSTLY_MISSING = "metric-mostly-missing"


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


def mostly_missing(
    now: Situation, wave: int, units: int, recorded: Mapping[str, int]
) -> tuple[Doubt, ...]:
    """Return a doubt for each guarded metric that most units of a wave lack.

    Its file may list those to whom something happened, and nothing says what the others have.
    The metrics of the objective have their own refusal.

    Parameters
    ----------
    now, wave, units, recorded
        As for a metric without any value.
    """
    made = []
    for name, count in recorded.items():
        metric = now.spec.metrics[name]
        if metric.guardrail is None or metric.absent is not None or not few_of(count, units):
            continue
        if metric in now.spec.reward.terms:
            continue
        said = (
            f"only {count:,} of the {units:,} units of wave {wave} have a value of {name}, and "
            "nothing says what the others have. If a unit without a row has the value 0, amend "
            "the metric with absent = 0; otherwise findings do not judge its guardrail"
        )
        made.append(Doubt(MOSTLY_MISSING, (said,), column=metric.column, rows=units - count))
    return tuple(made)


def few_of(recorded: int, units: int) -> bool:
    """Return whether most units lack a value, although some have one.

    >>> few_of(0, 10), few_of(4, 10), few_of(5, 10)
    (False, True, False)
    """
    return 0 < 2 * recorded < units


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
