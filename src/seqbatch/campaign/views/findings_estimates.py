"""Compute findings: lifts, value of the run, looks, segments, the rule to run next, drift."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from seqbatch.campaign.decide.action_counts import SMALL
from seqbatch.campaign.decide.logged_waves import (
    NOTHING,
    FewEvents,
    Logged,
    PlannedWave,
    few_events,
    few_events_of_one,
    information,
    logged,
    planned_waves,
    shares_of,
)
from seqbatch.campaign.decide.stopping import inflated, looks_taken
from seqbatch.campaign.record.current_situation import Situation, events_until, situation
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.views.findings import (
    Answer,
    DriftAnswer,
    Findings,
    Measure,
    RuleAnswer,
    RunAnswer,
    SegmentAnswer,
    SplitAnswer,
    StoppingAnswer,
    WaveAnswer,
    metric_rows,
    quality,
)
from seqbatch.campaign.views.findings_text import assumptions, notes
from seqbatch.core import arguments
from seqbatch.core.arrays import Bools
from seqbatch.display import counted
from seqbatch.inference import (
    AsRun,
    Declared,
    Gain,
    GainOverRandom,
    Interval,
    Lift,
    Mean,
    Pooled,
    Rows,
    WaveSummary,
    boundaries,
    drift,
    estimate_wave,
    gain_over_best,
    judge_next_rule,
    naive_lift,
    pool,
    pool_by_size,
    simultaneous_lifts,
    strongest_splits,
    summarise,
    within_segments,
)
from seqbatch.inference.contrasts import Contrast, all_contrasts
from seqbatch.inference.doubly_robust_scores import Evidence
from seqbatch.inference.intervals import unknown
from seqbatch.inference.logged_units import Moments
from seqbatch.inference.looks import repeated
from seqbatch.inference.segments import adjusted_p_values

if TYPE_CHECKING:
    from seqbatch.inference.summary import Missing


# ----------------------------------------------------------------------
# Estimates of actions and of the run, in the reward's own sign.


NOT_ALL = "In some wave not every unit could get it, or no outcome was recorded."


@dataclass(frozen=True, eq=False)
class Asking:
    """The summaries of a campaign's waves, and the estimates computed from them.

    Parameters
    ----------
    data
        The units.
    summaries, waves
        The summaries of the waves that count, and each wave's plan, which was fixed in advance.
    level
        The coverage of intervals.
    """

    data: Logged
    summaries: tuple[WaveSummary, ...]
    waves: Sequence[PlannedWave]
    level: float

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The actions, the control first."""
        return tuple(self.data.now.actions[number].name for number in self.data.order)

    @property
    def less(self) -> bool:
        """Whether a lower outcome is better."""
        return self.data.now.spec.reward.sign < 0

    def shares(self, contrast: Contrast) -> tuple[float, ...]:
        """Return each wave's share of the variance, which was fixed in advance."""
        return shares_of(contrast, self.summaries, self.waves, self.data.segment(contrast))

    def means(self) -> tuple[Answer, ...]:
        """Return every action's mean outcome if all units got it."""
        evidence, now = self.summaries[-1].evidence, self.data.now
        found = []
        for place, name in enumerate(self.names):
            answer = self._answer(place, Mean(place), f"mean of {name}")
            few = few_events_of_one(evidence, now.actions, self.data.order, place, less=self.less)
            found.append(replace(answer, few=_said(few, answer)))
        return tuple(found)

    def lifts(self) -> tuple[Answer, ...]:
        """Return the lift of every other action over the control."""
        evidence, now = self.summaries[-1].evidence, self.data.now
        found = []
        for place, together in enumerate(self._together(), start=1):
            about = self.lift_name(place)
            naive = naive_lift(evidence, place, level=self.level)
            few = few_events(evidence, now.actions, self.data.order, place, less=self.less)
            answer = self._answer(place, Lift(place), about)
            found.append(
                replace(
                    answer,
                    together=named(together, about),
                    naive=named(naive, f"naive {about}"),
                    few=_said(few, answer),
                )
            )
        return tuple(found)

    def lift_name(self, place: int) -> str:
        """Return the label of an action's lift."""
        return f"lift of {self.names[place]} over {self.names[0]}"

    def _together(self) -> Sequence[Interval]:
        """Return lifts with simultaneous intervals, by Dunnett or Bonferroni."""
        others = range(1, len(self.names))
        if all(wave.share is not None for wave in self.waves) and not self.data.restricted:
            return simultaneous_lifts(self.summaries, self.shares(Lift(1)), level=self.level)
        level = 1 - (1 - self.level) / len(others)
        wide = [self._pooled(Lift(a), level=level) for a in others]
        return [replace(one, level=self.level) for one in wide]

    def _pooled(self, contrast: Contrast, *, level: float) -> Interval:
        shares, segment = self.shares(contrast), self.data.segment(contrast)
        return pool(self.summaries, contrast, shares, level=level, segment=segment)

    def _among(self, contrast: Contrast) -> float:
        """Return the share of units that could get the contrast's actions."""
        if (segment := self.data.segment(contrast)) is None:
            return 1.0
        asked = sum(
            one.segments[segment].units for one in self.summaries if segment in one.segments
        )
        return asked / sum(one.overall.units for one in self.summaries)

    def _answer(self, place: int, contrast: Contrast, about: str) -> Answer:
        shares = self.shares(contrast)
        pooled = self._pooled(contrast, level=self.level)
        segment = self.data.segment(contrast)
        found = [estimate_wave(one, contrast, segment) for one in self.summaries]
        used = [(w, e) for w, e in zip(self.data.waves, found, strict=True) if e is not None]
        weights: dict[int, float] = {}
        if isinstance(pooled, Pooled):
            # Waves with a share of 0 have no weight and were not pooled.
            shown = [w for w, s, e in zip(self.data.waves, shares, found, strict=True) if e and s]
            weights = dict(zip(shown, pooled.weights, strict=True))
        return Answer(
            action=self.names[place],
            interval=named(pooled, about),
            waves=tuple(
                WaveAnswer(
                    wave=wave,
                    units=one.units,
                    interval=named(one.interval(self.level), f"{about} in wave {wave}"),
                    effective=one.effective,
                    weight=weights.get(wave, 0.0),
                )
                for wave, one in used
            ),
            among=self._among(contrast),
            same_p=pooled.same_p if isinstance(pooled, Pooled) else 1.0,
            by_size=pooled.by_size if isinstance(pooled, Pooled) else float("nan"),
        )

    def run(self) -> RunAnswer:
        """Return the value of the run, and its gains over simpler policies."""
        gains = [self._gain(Gain(place), self.summaries) for place in range(len(self.names))]
        last = self.waves[-1].active
        same = [
            summary
            for summary, wave in zip(self.summaries, self.waves, strict=True)
            if wave.active == last
        ]
        among = tuple(sorted(self.data.order.index(number) for number in last))
        singles = [self._gain(Gain(place), same) for place in among]
        best = self._over(gain_over_best(singles, level=self.level, less=self.less), same)
        random = self._over(self._gain(GainOverRandom(among), same), same)
        value = pool_by_size(self.summaries, AsRun(), level=self.level)
        return RunAnswer(
            value=named(value, "mean outcome as run"),
            over_random=named(random, "gain of the run over random assignment"),
            over_actions={
                name: named(gain, f"gain of the run over {name} for all units")
                for name, gain in zip(self.names, gains, strict=True)
            },
            over_best=named(best, "gain of the run over the best single action"),
        )

    def _over(self, gain: Interval, same: Sequence[WaveSummary]) -> Interval:
        """Return a gain with a note that names its waves if it does not cover all of them."""
        if len(same) == len(self.summaries):
            return gain
        waves = counted(len(same), "wave")
        note = f"Only the {waves} with the same actions as the last wave count."
        return replace(gain, note=f"{gain.note} {note}".strip())

    def _gain(self, contrast: Contrast, summaries: Sequence[WaveSummary]) -> Interval:
        """Return a gain over all given waves; unknown if any wave cannot be used."""
        made = pool_by_size(summaries, contrast, level=self.level)
        if isinstance(made, Pooled) and len(made.waves) == len(summaries):
            return made
        return unknown(contrast.name, level=self.level, note=NOT_ALL)


def named(interval: Interval, about: str) -> Interval:
    """Return only the interval of an estimate, with names in place of numbers."""
    own = {each.name: getattr(interval, each.name) for each in fields(Interval)}
    return Interval(**{**own, "about": about})


def _said(few: FewEvents | None, answer: Answer) -> str | None:
    """Return the warning about too few events, if there is an interval to warn about."""
    return None if few is None or not answer.interval.known else str(few)


# ----------------------------------------------------------------------
# Lifts under a stopping rule: intervals that allow for every look.


#: Cap on the boundary of looks that spend almost no error; larger values make no difference.
FARTHEST = 8.0


def allowing_for_looks(
    asking: Asking, lifts: Sequence[Answer], stopping: StoppingAnswer
) -> tuple[Answer, ...]:
    """Return lifts with simultaneous intervals that hold at all looks of the declared rule.

    An interval for a single look covers too rarely if a campaign stops when it looks good. The
    intervals are adjusted by Bonferroni over the actions. Without a look, the lifts are unchanged.
    """
    if not stopping.looks:
        return tuple(lifts)
    return tuple(
        _repeated(asking, Lift(place), lift, stopping, parts=len(lifts))
        for place, lift in enumerate(lifts, start=1)
    )


def _repeated(
    asking: Asking, contrast: Lift, lift: Answer, stopping: StoppingAnswer, *, parts: int
) -> Answer:
    if not lift.interval.known:
        return lift
    waves = asking.data.waves
    at = dict(zip(waves, information(asking.shares(contrast)), strict=True))
    looks = [one.wave for one in stopping.looks if lift.action not in one.merged]
    looked = sorted({at[w] for w in (*looks, waves[-1]) if w in at})
    times = [time for before, time in zip((0.0, *looked), looked, strict=False)
             if time > before + NOTHING]  # fmt: skip
    tail = (1 - asking.level) / 2 / parts
    bound = min(boundaries(times, rule=stopping.rule, alpha=tail)[-1], FARTHEST)
    return replace(lift, together=repeated(lift.interval, bound, level=asking.level))


# ----------------------------------------------------------------------
# Differences between units: the rule to run next, segments, splits, and drift.


#: The most columns searched for splits; each one is tried in a pass over all units.
MOST_COLUMNS = 100


def next_rule(asking: "Asking") -> RuleAnswer | None:
    """Return the best rule to run next among the actions that are still given."""
    last = _among_active(asking)
    if not last.evidence.statistics.count.any():
        return None
    made = judge_next_rule(_ActiveRows(asking), last, level=asking.level, less=asking.less)
    about = f"gain of the rule to run next over {asking.names[0]} for all units"
    return RuleAnswer(
        gain=named(made.gain, about),
        supported=made.supported,
        shares=dict(zip(asking.names, made.shares, strict=True)),
        columns=asking.data.columns.names,
        coefficients={
            name: tuple(own.tolist())
            for name, own, known in zip(
                asking.names, made.rule.coefficients, made.rule.known, strict=True
            )
            if known
        },
    )


def _among_active(asking: "Asking") -> WaveSummary:
    """Return the last summary without the outcomes of retired actions, which no rule may give."""
    last, active = asking.summaries[-1], _active(asking)
    statistics = last.evidence.statistics
    kept = replace(statistics, count=np.where(active, statistics.count, 0))
    return replace(last, evidence=replace(last.evidence, statistics=kept))


def _active(asking: "Asking") -> Bools:
    """Return which of all actions are still given."""
    data = asking.data
    return np.array([number not in data.now.retired for number in data.order])


@dataclass(frozen=True, eq=False)
class _ActiveRows:
    """The last wave's rows, without the outcomes of retired actions, as in its summary."""

    asking: "Asking"

    def __iter__(self) -> Iterator[Rows]:
        active = _active(self.asking)
        for rows in self.asking.data.each_wave[-1]:
            yield replace(rows, outcomes=np.where(active[rows.actions], rows.outcomes, np.nan))


def declared_segments(asking: "Asking") -> tuple[SegmentAnswer, ...]:
    """Return every lift in every declared segment, with p-values corrected for their number."""
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
            interval=named(one.interval, asking.lift_name(place)),
            adjusted_p=p,
        )
        for (place, one), p in zip(found, adjusted, strict=True)
    )


def splits(asking: "Asking", missing: "Missing") -> tuple[SplitAnswer, ...]:
    """Return the splits that the first wave suggests for its strongest action, tested later."""
    first = {
        place: made.estimate
        for place in range(1, len(asking.names))
        if (made := estimate_wave(asking.summaries[0], Lift(place))) is not None
    }
    if not first or len(asking.data.columns.names) > MOST_COLUMNS:
        return ()
    best = min if asking.less else max
    place = best(first, key=lambda one: first[one])
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
            above=named(one.above, f"{about}, above"),
            below=named(one.below, f"{about}, below"),
            difference=named(one.difference, f"{about}, above minus below"),
            adjusted_p=one.adjusted_p,
        )
        for one in judged.splits
    )


def drifts(asking: "Asking") -> tuple[DriftAnswer, ...]:
    """Return tests of whether means, lifts and features are the same in all waves."""
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


# ----------------------------------------------------------------------
# From a campaign's records to its findings.


def findings(
    store: Store, name: str, *, level: float = 0.95, at_event: int | None = None
) -> Findings:
    """Return a campaign's findings, now or right after event number `at_event`."""
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
    """Return the parts of the findings that need no estimate."""
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
    """Return how many outcomes of closed waves arrived after the last closing."""
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
    found = replace(found, missing=missing, measure=_measure(found.measure, evidence))
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
    """Summarise the waves; do so again if missing outcomes seem to depend on features."""
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
    """Say whether units with an outcome differ from all units in some column."""
    from scipy.special import ndtr

    everybody = reduce(Moments.merge, (one.features for one in summaries))
    statistics = summaries[-1].evidence.statistics
    back = int(statistics.count.sum())
    if not 1 < back < everybody.count or len(everybody.mean) == 1:
        return False
    # The constant's row of a Gram matrix holds the sums of all columns.
    mean = statistics.gram.sum(axis=0)[0] / back
    error = np.sqrt(everybody.variance * (1 / back - 1 / everybody.count))
    away = (mean - everybody.mean)[1:] / np.where(error[1:] > 0, error[1:], np.inf)
    return bool(2 * ndtr(-np.abs(away).max()) * len(away) < SMALL)


def _measure(measure: Measure, evidence: Evidence) -> Measure:
    """Detect 0/1 outcomes: only for these does the sum of squares equal the sum."""
    within = evidence.lowest >= 0 and evidence.highest <= 1
    total = float(evidence.statistics.moment[:, 0].sum())
    binary = within and float(evidence.statistics.squares.sum()) == total
    return replace(measure, binary=binary)
