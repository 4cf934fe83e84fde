"""From a campaign's records to its findings: the data gone through, the questions asked."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from seqbatch.campaign.deciding.balance import SMALL
from seqbatch.campaign.deciding.logged import Logged, logged
from seqbatch.campaign.deciding.pooling_plan import PlannedWave, planned_waves
from seqbatch.campaign.deciding.stopping import looks_taken
from seqbatch.campaign.deciding.stopping_words import inflated
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.situation import Situation, events_until, situation
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.views.answers import Asking
from seqbatch.campaign.views.findings import Findings, StoppingAnswer
from seqbatch.campaign.views.findings_words import assumptions, notes
from seqbatch.campaign.views.for_whom import declared_segments, drifts, next_rule, splits
from seqbatch.campaign.views.guardrails import metric_rows
from seqbatch.campaign.views.looked import allowing_for_looks
from seqbatch.campaign.views.measure import Measure
from seqbatch.campaign.views.quality import quality
from seqbatch.core import arguments
from seqbatch.inference import Declared, GainOverRandom, WaveSummary, summarise
from seqbatch.inference.contrasts import all_contrasts
from seqbatch.inference.model import Evidence
from seqbatch.inference.moments import Moments


def findings(
    store: Store, name: str, *, level: float = 0.95, at_event: int | None = None
) -> Findings:
    """Return what a campaign has taught so far, or had right after event number `at_event`."""
    arguments.number("level", level, above=0.5, at_most=1 - 1e-9)
    with store.read(name) as reader:
        events = events_until(reader.events(), at_event)
        now = current(reader) if at_event is None else situation(events)
        now.require_rows()
        data = logged(reader, now, segments=now.spec.report.segments)
        basis = _basis(now, data, events, level)
        basis["metrics"] = metric_rows(reader, now)
        if not basis["outcomes"]:
            return Findings(**basis)
        found = _answered(data, events, Findings(**basis), level)
    return replace(found, assumptions=assumptions(now, found), notes=notes(now, found))


def _basis(now: Situation, data: Logged, events: Sequence[Event], level: float) -> dict[str, Any]:
    """Return what is known of a campaign before anything is estimated."""
    names = [action.name for action in now.actions]
    ends = np.cumsum(now.units)
    known = [data.known.counts(int(ends[w - 1]) - now.units[w - 1], int(ends[w - 1]))
             for w in data.waves]  # fmt: skip
    open_wave = now.wave if now.condition == "open" and now.units[now.wave - 1] else None
    return {
        "name": now.name,
        "condition": now.condition,
        "level": level,
        "measure": Measure.of_spec(now.spec, binary=False, costs=any(a.cost for a in now.actions)),
        "control": names[data.order[0]],
        "control_declared": now.spec.control is not None,
        "actions": tuple(names[number] for number in data.order),
        "retired": tuple(names[number] for number in sorted(now.retired)),
        "waves": data.waves,
        "skipped": now.skipped,
        "open_wave": open_wave,
        "units": sum(now.units[wave - 1] for wave in data.waves),
        "outcomes": sum(count for count, _ in known),
        "absent": sum(absent for _, absent in known),
        "quality": quality(now, events),
        "late": _late(events),
        "stopping": _stopping(now, events),
    }


def _late(events: Sequence[Event]) -> int:
    """Return how many outcomes of closed waves are newer than the last closing."""
    last = max((place for place, one in enumerate(events) if one.kind == "close"), default=0)
    return sum(one.counts["late"] for one in events[last:] if one.kind == "record")


def _stopping(now: Situation, events: Sequence[Event]) -> StoppingAnswer:
    rule = now.spec.stopping
    return StoppingAnswer(
        rule=rule.rule,
        alpha=rule.alpha,
        looks=looks_taken(events),
        gone_on={event.payload["wave"]: event.why for event in events if event.kind == "continue"},
        inflated=inflated(now, waves=len(now.closes)),
    )


def _answered(data: Logged, events: Sequence[Event], found: Findings, level: float) -> Findings:
    fixed = planned_waves(events)
    waves = [fixed[wave - 1] for wave in data.waves]
    summaries, missing = _summarised(data, waves)
    evidence = summaries[-1].evidence
    sign = data.now.spec.reward.sign
    found = replace(found, missing=missing, measure=_measure(found.measure, evidence, sign))
    if evidence.all_equal:
        return replace(found, all_equal=True)
    asking = Asking(data, summaries, waves, level)
    several = len(data.waves) > 1
    return replace(
        found,
        means=asking.means(),
        lifts=allowing_for_looks(asking, asking.lifts(), found.stopping),
        run=asking.run(),
        rule=next_rule(asking),
        segments=declared_segments(asking),
        splits=splits(asking, missing) if several else (),
        drift=drifts(asking) if several else (),
    )


def _summarised(data: Logged, waves: Sequence[PlannedWave]) -> tuple[tuple[WaveSummary, ...], Any]:
    """Go through the data; again, where outcomes seem to be missing by feature."""
    place = {number: place for place, number in enumerate(data.order)}
    among = {tuple(sorted(place[number] for number in wave.active)) for wave in waves}
    contrasts = all_contrasts(len(data.order)) + tuple(map(GainOverRandom, sorted(among)))
    partitions = [*(Declared(name) for name in data.segments), *data.partitions()]
    made = summarise(data.each_wave, contrasts=contrasts, partitions=partitions)
    if not _missing_by_features(made):
        return made, "by action"
    again = summarise(
        data.each_wave, contrasts=contrasts, partitions=partitions, missing="by features"
    )
    return again, "by features"


def _missing_by_features(summaries: Sequence[WaveSummary]) -> bool:
    """Say whether units whose outcome came back differ from all units in some column."""
    from scipy.special import ndtr

    everybody = reduce(Moments.merge, (one.features for one in summaries))
    statistics = summaries[-1].evidence.statistics
    back = int(statistics.count.sum())
    if not 1 < back < everybody.count or len(everybody.mean) == 1:
        return False
    # The constant's row of the gram matrices holds the sums of all columns.
    mean = statistics.gram.sum(axis=0)[0] / back
    error = np.sqrt(everybody.variance * (1 / back - 1 / everybody.count))
    away = (mean - everybody.mean)[1:] / np.where(error[1:] > 0, error[1:], np.inf)
    return bool(2 * ndtr(-np.abs(away).max()) * len(away) < SMALL)


def _measure(measure: Measure, evidence: Evidence, sign: float) -> Measure:
    """Say whether all outcomes are 0 or 1: then, and only then, their squares sum to their sum."""
    low, high = sorted((sign * evidence.lowest, sign * evidence.highest))
    total = sign * float(evidence.statistics.moment[:, 0].sum())
    binary = low >= 0 and high <= 1 and float(evidence.statistics.squares.sum()) == total
    return replace(measure, binary=binary)
