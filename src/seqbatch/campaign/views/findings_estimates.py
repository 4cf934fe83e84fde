"""Compute findings: lifts, value of the run, segments, the rule to run next, drift, metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property, partial
from math import comb
from typing import Any

import numpy as np

from seqbatch.campaign.decide.campaign_waves import CampaignWaves
from seqbatch.campaign.decide.erased_units import erased_numbers
from seqbatch.campaign.decide.learning import drift_said
from seqbatch.campaign.decide.logged_waves import (
    Logged,
    PlannedWave,
    logged,
    planned_waves,
    shares_of,
    units_planned,
)
from seqbatch.campaign.decide.stopping import inflated, look_tail, looks_taken
from seqbatch.campaign.decide.wave_doubts import few_of, unrecorded
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.current_situation import Situation, events_until, situation
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.store import Event, Reader, Store
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.views.action_differences import action_differences
from seqbatch.campaign.views.adjusted_lifts import adjusted_lifts
from seqbatch.campaign.views.boosted_trees import trees_answer
from seqbatch.campaign.views.conditional_powers import conditional_powers
from seqbatch.campaign.views.findings import (
    Answer,
    Course,
    DriftAnswer,
    Findings,
    RuleAnswer,
    RunAnswer,
    SegmentAnswer,
    SplitAnswer,
    StoppingAnswer,
    WaveAnswer,
    quality,
)
from seqbatch.campaign.views.findings_text import assumptions, notes
from seqbatch.campaign.views.metrics import GuardrailAnswer, MetricAnswer, guardrail_codes
from seqbatch.campaign.views.recommendation import (
    Recommendation,
    best_given,
    candidates,
    ranked,
)
from seqbatch.campaign.views.selected_action import selected_answer
from seqbatch.campaign.views.tree import tree_answer
from seqbatch.campaign.warehouse.findings_statement import require_sums, summed_waves
from seqbatch.core import arguments
from seqbatch.core.threads import one_thread
from seqbatch.display import counted
from seqbatch.inference import (
    AsRun,
    Bound,
    Declared,
    Gain,
    GainOverRandom,
    Interval,
    Lift,
    Mean,
    Pooled,
    Verdict,
    WaveSummary,
    drift,
    estimate_wave,
    gain_over_best,
    judge_bounds,
    latest_lift,
    naive_lift,
    planned_units_of_next_rule,
    pool,
    pool_by_size,
    simultaneous_lifts,
    strongest_splits,
    verdict,
    within_segments,
)
from seqbatch.inference.boosted_trees import require_trees
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.estimates import WaveEstimate
from seqbatch.inference.intervals import Estimated, unknown
from seqbatch.inference.segments import adjusted_p_values
from seqbatch.timed_steps import timed

# ----------------------------------------------------------------------
# Estimates of actions and of the run, in the objective's own sign, weighted by wave size.


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
    looks
        The error on each side that the stopping rule leaves for the last look; None without looks.
    scale
        The size of one unit of the summaries' outcomes in the numbers to show.
    yes_no
        Whether outcomes are those of a yes/no metric.
    """

    data: CampaignWaves
    summaries: tuple[WaveSummary, ...]
    waves: Sequence[PlannedWave]
    level: float
    looks: float | None = None
    scale: float = 1.0
    yes_no: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The actions, the control first."""
        return tuple(self.data.now.actions[number].name for number in self.data.order)

    @property
    def less(self) -> bool:
        """Whether a lower outcome is better."""
        return self.data.less

    @property
    def tail(self) -> float:
        """The error on each side of one lift, after correction for several actions and looks."""
        return self.error / max(len(self.names) - 1, 1)

    @property
    def error(self) -> float:
        """The error on each side of all lifts together, after correction for looks."""
        return (1 - self.level) / 2 if self.looks is None else self.looks

    @cached_property
    def means(self) -> tuple[Answer, ...]:
        """Every action's mean outcome if all units got it."""
        return tuple(
            self._answer(place, Mean(place), self.mean_name(place))
            for place in range(len(self.names))
        )

    @cached_property
    def single_lifts(self) -> tuple[Answer, ...]:
        """The lift of every other action over the control, each by itself."""
        return tuple(
            self._answer(place, Lift(place), self.lift_name(place))
            for place in range(1, len(self.names))
        )

    def lifts(self) -> tuple[Answer, ...]:
        """Return the same lifts with simultaneous intervals, naive ones, and if they are equal."""
        found = []
        for place, together in enumerate(self.together, start=1):
            about, lift = self.lift_name(place), Lift(place)
            naive = naive_lift(self.summaries[-1], place, level=self.level)
            found.append(
                replace(
                    self.single_lifts[place - 1],
                    together=self.named(together, about),
                    naive=self.named(naive, f"naive {about}"),
                    same=self.named(self._same(lift), f"{about}, if the same in every wave"),
                )
            )
        return tuple(found)

    def mean_name(self, place: int) -> str:
        """Return the label of an action's mean."""
        return f"mean of {self.names[place]}"

    def lift_name(self, place: int) -> str:
        """Return the label of an action's lift."""
        return f"lift of {self.names[place]} over {self.names[0]}"

    def in_first_wave(self, place: int) -> WaveEstimate | None:
        """Return the lift of an action in the first wave, among those who may get it."""
        lift = Lift(place)
        return estimate_wave(self.summaries[0], lift, self.data.segment(lift))

    @cached_property
    def together(self) -> Sequence[Interval]:
        """The lifts with simultaneous intervals: by Dunnett, or by Bonferroni."""
        others = range(1, len(self.names))
        every = len({wave.active for wave in self.waves}) == 1
        if every and not self.data.restricted and self.looks is None:
            return simultaneous_lifts(
                self.summaries, level=self.level, planned=self._planned(Lift(1))
            )
        return [self._wider(self.pooled(Lift(place))) for place in others]

    def _wider(self, lift: Interval) -> Interval:
        """Return a lift's interval with the error that is left for it."""
        if not isinstance(lift, Estimated):
            return lift
        low, high = lift.limits(self.tail)
        return replace(lift, low=low, high=high)

    def _planned(self, contrast: Contrast) -> float:
        segment = self.data.segment(contrast)
        return units_planned(contrast, self.summaries, self.waves, segment)

    def pooled(self, contrast: Contrast, *, rate: float = 0.0) -> Interval:
        """Return a contrast over all units, on the scale of the summaries.

        `rate` is the rate of events that a hypothesis implies, for the rule of events.
        """
        return pool_by_size(
            self.summaries,
            contrast,
            level=self.level,
            segment=self.data.segment(contrast),
            planned=self._planned(contrast),
            yes_no=self.yes_no,
            rate=rate,
        )

    def _same(self, lift: Lift) -> Interval:
        """Return a lift weighted by the shares fixed in advance."""
        segment, planned = self.data.segment(lift), self._planned(lift)
        shares = shares_of(lift, self.summaries, self.waves, segment)
        return pool(
            self.summaries, lift, shares, level=self.level, segment=segment, planned=planned
        )

    def _among(self, contrast: Contrast) -> float:
        """Return the share of units that could get the contrast's actions."""
        if (segment := self.data.segment(contrast)) is None:
            return 1.0
        asked = sum(
            one.segments[segment].units for one in self.summaries if segment in one.segments
        )
        return asked / sum(one.overall.units for one in self.summaries)

    def _answer(self, place: int, contrast: Contrast, about: str) -> Answer:
        pooled, segment = self.pooled(contrast), self.data.segment(contrast)
        found = [estimate_wave(one, contrast, segment) for one in self.summaries]
        used = [(w, e) for w, e in zip(self.data.waves, found, strict=True) if e is not None]
        weights = pooled.weights if isinstance(pooled, Pooled) else (0.0,) * len(used)
        return Answer(
            action=self.names[place],
            interval=self.named(pooled, about),
            waves=tuple(
                WaveAnswer(
                    wave=wave,
                    units=one.units,
                    interval=self.named(one.interval(self.level), f"{about} in wave {wave}"),
                    effective=one.effective,
                    weight=weight,
                )
                for (wave, one), weight in zip(used, weights, strict=True)
                if isinstance(pooled, Pooled)
            ),
            among=self._among(contrast),
            same_p=pooled.same_p if isinstance(pooled, Pooled) else 1.0,
        )

    def run(self) -> RunAnswer:
        """Return the value of the run, and its gains over simpler policies."""
        every = range(len(self.summaries))
        gains = [self._gain(Gain(place), every) for place in range(len(self.names))]
        last = self.waves[-1].active
        same = [place for place, wave in enumerate(self.waves) if wave.active == last]
        among = tuple(sorted(self.data.order.index(number) for number in last))
        singles = [self._gain(Gain(place), same) for place in among]
        best = self._over(gain_over_best(singles, level=self.level, less=self.less), same)
        random = self._over(self._gain(GainOverRandom(among), same), same)
        adaptive = [place for place in same if self._adapts(GainOverRandom(among), place)]
        earned = self._gain(GainOverRandom(among), adaptive) if adaptive else random
        return RunAnswer(
            value=self.named(self.pooled(AsRun()), "mean outcome as run"),
            over_random=self.named(random, "gain of the run over random assignment"),
            over_actions={
                name: self.named(gain, f"gain of the run over {name} for all units")
                for name, gain in zip(self.names, gains, strict=True)
            },
            over_best=self.named(best, "gain of the run over the best single action"),
            adaptive=tuple(self.data.waves[place] for place in adaptive),
            earned=self.named(earned, "gain of the adaptive waves over random assignment"),
        )

    def _adapts(self, random: GainOverRandom, place: int) -> bool:
        """Whether a wave's probabilities differed: if not, the gain is 0 up to rounding."""
        made = estimate_wave(self.summaries[place], random)
        return made is not None and abs(made.estimate) > 1e-9 * made.interval(self.level).error

    def _over(self, gain: Interval, same: Sequence[int]) -> Interval:
        """Return a gain with a note that names its waves if it does not cover all of them."""
        if len(same) == len(self.summaries):
            return gain
        waves = counted(len(same), "wave")
        note = f"Only the {waves} with the same actions as the last wave count."
        return replace(gain, note=f"{gain.note} {note}".strip())

    def _gain(self, contrast: Contrast, places: Sequence[int]) -> Interval:
        """Return a gain over some waves; unknown if any of them cannot be used."""
        summaries = [self.summaries[place] for place in places]
        planned = units_planned(contrast, summaries, [self.waves[place] for place in places])
        made = pool_by_size(summaries, contrast, level=self.level, planned=planned)
        if made.few or (isinstance(made, Pooled) and len(made.waves) == len(summaries)):
            return made
        return unknown(contrast.name, level=self.level, note=NOT_ALL)

    def recommendation(self, found: Findings) -> Recommendation | None:
        """Return what the evidence about the best action that may be given allows to say."""
        best = best_given(found, within=True)
        if best is None:
            few = [lift.interval.few for lift in found.lifts if lift.interval.few]
            if few:
                return Recommendation(code=Verdict.TOO_FEW, few=few[0])
            return Recommendation(code=Verdict.BARRED) if best_given(found) else None
        contrast = Lift(self.names.index(best.action))
        latest = latest_lift(
            self.summaries,
            contrast,
            level=self.level,
            segment=self.data.segment(contrast),
            less=self.less,
        )
        around, second = best.around, self._second(found)
        return Recommendation(
            code=verdict(
                around.low,
                around.high,
                same_p=best.same_p,
                latest_p=latest.p_better,
                tail=self.tail,
                waves=len(best.waves),
                candidates=candidates(found),
                less=self.less,
            ),
            action=best.action,
            lift=around,
            latest=self.named(latest.interval, f"{best.interval.about} in the latest waves"),
            latest_waves=self.data.waves[-latest.waves :],
            same_p=best.same_p,
            by_wave={one.wave: one.interval for one in best.waves},
            second=None if second is None else second[0],
            over_second=None if second is None else second[1],
            guardrails=guardrail_codes(found.metrics, best.action),
        )

    def _second(self, found: Findings) -> tuple[str, Interval] | None:
        """Return the second best action, and the lift of the best one over it.

        The interval covers jointly with those of all pairs of actions: which ones are the best two
        was not known before.
        """
        every = ranked(found, within=True)
        if len(every) < 2 or self.data.restricted:
            return None
        best, second = (self.names.index(one.action) for one in every[:2])
        contrast = pair(best, second)
        if contrast not in self.summaries[-1].contrasts:
            return None
        about = f"lift of {self.names[best]} over {self.names[second]}"
        made, turned = self.pooled(contrast), contrast.action != best
        if not isinstance(made, Estimated):
            return None
        low, high = made.limits(self.error / comb(len(self.names), 2))
        wide = self.named(replace(made, low=low, high=high), about)
        if turned:
            wide = replace(wide, estimate=-wide.estimate, low=-wide.high, high=-wide.low,
                           statistic=-wide.statistic)  # fmt: skip
        return self.names[second], wide

    def named(self, interval: Interval, about: str) -> Interval:
        """Return only the interval of an estimate, with names, and on the scale to show."""
        own = {each.name: getattr(interval, each.name) for each in fields(Interval)}
        if interval.known:
            # With hardly any event, an estimated share may be below 0, where its interval ends.
            own["estimate"] = min(max(interval.estimate, interval.low), interval.high)
        sizes = {name: self.scale * own[name] for name in ("estimate", "error", "low", "high")}
        return Interval(**{**own, **sizes, "about": about})


# ----------------------------------------------------------------------
# Differences between units: the rule to run next, segments, splits, and drift.


#: The most columns searched for splits; each one is tried in a pass over all units.
MOST_COLUMNS = 100


def next_rule(asking: "Asking", found: Findings) -> RuleAnswer | None:
    """Return the best rule to run next among the actions that are still given."""
    last, data, given = asking.summaries[-1], asking.data, asking.data.given
    if not (last.evidence.statistics.count[given] > 0).any():
        return None
    design = replace(asking.waves[-1].design, units=last.overall.units)
    judge = partial(
        data.next_rule,
        asking.summaries,
        level=asking.level,
        less=asking.less,
        among=given,
        planned=planned_units_of_next_rule(design),
    )
    made, best, beside = judge(over=0), best_given(found, within=True), None
    if best is not None and found.measure.better(best.interval.estimate):
        over = judge(over=asking.names.index(best.action)).gain
        beside = asking.named(
            over, f"gain of the rule to run next over {best.action} for all units"
        )
    about = f"gain of the rule to run next over {asking.names[0]} for all units"
    return RuleAnswer(
        gain=asking.named(made.gain, about),
        supported=made.supported,
        shares=dict(zip(asking.names, made.shares, strict=True)),
        columns=asking.data.columns.names,
        coefficients={
            name: tuple((asking.scale * own).tolist())
            for name, own, known in zip(
                asking.names, made.rule.coefficients, made.rule.known, strict=True
            )
            if known
        },
        best=None if best is None or beside is None else best.action,
        over_best=beside,
    )


def declared_segments(asking: "Asking") -> tuple[SegmentAnswer, ...]:
    """Return every lift in every declared segment, with p-values corrected for their number."""
    names = {by: list(levels) for by, levels in asking.data.levels.items()}
    found = [
        (place, one)
        for place in range(1, len(asking.names))
        for one in within_segments(
            asking.summaries,
            Lift(place),
            [asking.data.within(name, place) for name in asking.data.segments],
            level=asking.level,
            planned=[wave.design for wave in asking.waves],
        ).findings
    ]
    # Levels are numbered as units came: sorted by name, they are the same however they came.
    order = list(asking.data.segments)
    found.sort(
        key=lambda pair: (
            pair[0], order.index(pair[1].partition), names[pair[1].partition][pair[1].segment]
        )
    )  # fmt: skip
    adjusted = adjusted_p_values([one.interval for _, one in found])
    return tuple(
        SegmentAnswer(
            action=asking.names[place],
            by=one.partition,
            segment=names[one.partition][one.segment],
            interval=asking.named(one.interval, asking.lift_name(place)),
            adjusted_p=p,
            among=one.among,
            unknown=one.unknown,
        )
        for (place, one), p in zip(found, adjusted, strict=True)
    )


def splits(asking: "Asking") -> tuple[SplitAnswer, ...]:
    """Return the splits that the first wave suggests for its strongest action, tested later."""
    first = {
        place: made.estimate
        for place in range(1, len(asking.names))
        if (made := asking.in_first_wave(place)) is not None
    }
    data = asking.data
    if not first or len(data.columns.names) > MOST_COLUMNS or not isinstance(data, Logged):
        return ()
    best = min if asking.less else max
    place = best(first, key=lambda one: first[one])
    columns = data.columns
    judged = strongest_splits(
        data.each_wave,
        Lift(place),
        labels=columns.names,
        level=asking.level,
        charges=data.charges,
        planned=[wave.design for wave in asking.waves],
        fitted=asking.summaries,
        eligible=(0, place) if data.restricted else (),
    )
    about = asking.lift_name(place)
    return tuple(
        SplitAnswer(
            action=asking.names[place],
            column=columns.names[one.split.column],
            threshold=columns.own_value(one.split.column, one.split.threshold),
            above=asking.named(one.above, f"{about}, above"),
            below=asking.named(one.below, f"{about}, below"),
            difference=asking.named(one.difference, f"{about}, above minus below"),
            adjusted_p=one.adjusted_p,
        )
        for one in judged.splits
    )


def drifts(asking: "Asking") -> tuple[DriftAnswer, ...]:
    """Return tests of whether lifts, the level and features are the same in all waves."""
    places = range(1, len(asking.names))
    among = {a: own for a in places if (own := asking.data.segment(Lift(a))) is not None}
    made = drift(asking.summaries, labels=asking.data.columns.names, segments=among)
    names = {Lift(a).name: asking.lift_name(a) for a in places}
    tests = [("lift", names[one.about], one) for one in made.lifts]
    tests += [("level", one.about, one) for one in (made.level,) if one is not None]
    tests += [("feature", one.about, one) for one in made.features]
    return tuple(
        DriftAnswer(kind=kind, about=about, statistic=one.statistic, p=one.p_value)
        for kind, about, one in tests
    )


# ----------------------------------------------------------------------
# From a campaign's records to its findings.


def waves_of(
    reader: Reader,
    now: Situation,
    events: Sequence[Event],
    *,
    segments: Sequence[str] = (),
    at: datetime | None = None,
) -> CampaignWaves:
    """Return a campaign's waves for inference: as rows, or as sums if the rows are elsewhere."""
    if now.spec.rows == "here":
        return logged(reader, now, segments=segments, at=at)
    made = summed_waves(now, events, at=at)
    require_sums(made)
    return made


def findings(
    store: Store,
    name: str,
    *,
    level: float = 0.95,
    at_event: int | None = None,
    at: datetime | None = None,
    tree: bool = False,
    boosted_trees: bool = False,
    conditional_power: bool = False,
) -> Findings:
    """Return a campaign's findings, now or right after event number `at_event`.

    With `tree`, fit a tree to all waves but the last, which then judges it. With `boosted_trees`,
    compare the rule to run next with a rule by boosted trees. With `conditional_power`, say what
    the looks to come may show.

    Units without a value of a metric count as absent if their wait was over at the time `at`; by
    default that of the event, or now.
    """
    arguments.number("level", level, above=0.5, at_most=1 - 1e-9)
    if boosted_trees:
        require_trees()
    with store.read(name) as reader:
        events = events_until(reader.events(), at_event)
        now = current(reader) if at_event is None else situation(events)
        if boosted_trees:
            now.require_rows("Boosted trees need them.")
        if at is None and at_event is not None:
            at = datetime.fromisoformat(events[-1].at)
        data = waves_of(reader, now, events, segments=now.spec.report.segments, at=at)
        basis = _basis(now, data, events, level)
        if not basis["outcomes"]:
            return Findings(**basis)
        with one_thread(), timed("estimate"):
            asking = asked(data, events, level, looks=bool(basis["stopping"].looks))
            found = _answered(asking, Findings(**basis), tree=tree)
            if boosted_trees and not found.all_equal:
                found = replace(found, trees=trees_answer(asking))
            if conditional_power:
                found = replace(found, conditional=conditional_powers(now, found.stopping))
        said = (*notes(now, found), *_history(reader, now))
    return replace(found, assumptions=assumptions(now, found), notes=said)


def _history(reader: Reader, now: Situation) -> list[str]:
    """Say what was learned about the history; nothing without one."""
    if now.history is None or not now.closes:
        return []
    record = reader.last_state(before_event=now.sequence + 1)
    assert record is not None
    return drift_said(now, now.made_policy(), unpack_state(record.content, now))


#: What sums do not have.
TAKES_ROWS = ("splits", "tree", "clipped")


def _basis(
    now: Situation, data: CampaignWaves, events: Sequence[Event], level: float
) -> dict[str, Any]:
    """Return the parts of the findings that need no estimate."""
    names = [action.name for action in now.actions]
    known = [data.counts_in(wave) for wave in data.waves]
    doubts = tuple(
        doubt
        for wave in data.waves
        for doubt in unrecorded(now, wave, now.units[wave - 1], data.recorded_in(wave))
    )
    open_wave = now.wave if now.condition == "open" and now.units[now.wave - 1] else None
    return {
        "name": now.name,
        "condition": now.condition,
        "level": level,
        "course": _course(now, events),
        "measure": Measure.of_objective(now.spec),
        "control": names[data.order[0]],
        "control_declared": now.spec.control is not None,
        "actions": tuple(names[number] for number in data.order),
        "retired": tuple(names[number] for number in sorted(now.retired)),
        "waves": data.waves,
        "skipped": now.skipped,
        "open_wave": open_wave,
        "waiting": data.waiting,
        "units": sum(now.units[wave - 1] for wave in data.waves) - _erased(now, data, events),
        "outcomes": sum(count for count, _ in known),
        "absent": sum(absent for _, absent in known),
        "quality": quality(now, events, doubts),
        "late": _late(events),
        "stopping": _stopping(now, events),
        "lacking": () if now.spec.rows == "here" else TAKES_ROWS,
    }


def _erased(now: Situation, data: CampaignWaves, events: Sequence[Event]) -> int:
    """Return how many units of the waves of these findings were erased."""
    numbers = np.array(sorted(erased_numbers(events)), dtype=np.int64)
    return int(np.isin(now.waves_of(numbers), data.waves).sum())


def _course(now: Situation, events: Sequence[Event]) -> Course:
    ended = [event.at[:10] for event in events if event.kind in ("close", "stop", "abort")]
    return Course(
        question=now.spec.question,
        owner=now.spec.owner,
        began=events[0].at[:10],
        ended=ended[-1] if now.condition != "open" and ended else None,
        masked=now.masked,
        wave=now.last_opened,
        sizes=now.sizes,
        units=now.units,
    )


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


def _answered(asking: Asking, found: Findings, *, tree: bool) -> Findings:
    data, summaries = asking.data, asking.summaries
    found = replace(
        found,
        scarce=_scarce(data, summaries),
        spread=summaries[-1].events.log_spread,
        metrics=metrics(asking, found),
    )
    if summaries[-1].evidence.all_equal:
        return replace(found, all_equal=True)
    several = len(data.waves) > 1
    found = replace(
        found,
        means=asking.means,
        lifts=adjusted_lifts(asking, found.stopping, asking.lifts()),
        run=asking.run(),
        segments=declared_segments(asking),
        splits=splits(asking) if several else (),
        drift=drifts(asking) if several else (),
        tree=tree_answer(asking) if tree else None,
        differences=action_differences(asking),
    )
    return replace(
        found,
        rule=next_rule(asking, found),
        recommendation=asking.recommendation(found),
        selected=selected_answer(asking, found),
    )


def asked(
    data: CampaignWaves, events: Sequence[Event], level: float, *, looks: bool = False
) -> Asking:
    """Return the summaries of a campaign's waves; `looks` tells if a rule has looked at them."""
    fixed = planned_waves(events)
    waves = [fixed[wave - 1] for wave in data.waves]
    tail = look_tail(waves, (1 - level) / 2) if looks else None
    summaries = _summarised(data, fixed)
    spec = data.now.spec
    yes_no = any(data.is_objective(one) and one.kind == YES_NO for one in spec.metrics.values())
    return Asking(data, summaries, waves, level, tail, spec.reward.scale, yes_no)


def _summarised(data: CampaignWaves, waves: Sequence[PlannedWave]) -> tuple[WaveSummary, ...]:
    partitions = [*(Declared(name) for name in data.segments), *data.partitions()]
    return data.summaries(data.contrasts(wave.active for wave in waves), partitions)


def pair(one: int, other: int) -> Lift:
    """Return the lift that compares two actions."""
    return Lift(max(one, other), min(one, other))


#: More than this share of an action's units are of a kind whose outcomes hardly ever come back.
MANY_SCARCE = 0.01


def _scarce(data: CampaignWaves, summaries: Sequence[WaveSummary]) -> tuple[str, ...]:
    """Return the actions of which hardly any outcome came back for some kinds of units."""
    units, few = summaries[-1].evidence.assigned, np.sum([one.scarce for one in summaries], axis=0)
    names = [data.now.actions[number].name for number in data.order]
    return tuple(
        name
        for name, assigned, gone in zip(names, units.tolist(), few.tolist(), strict=True)
        if gone > MANY_SCARCE * assigned
    )


# ----------------------------------------------------------------------
# Metrics: the same estimates for each of them, and guardrails judged together.


def metrics(asking: Asking, found: Findings) -> tuple[MetricAnswer, ...]:
    """Return the means and lifts of every metric, and whether their guardrails are kept."""
    asked = {
        name: _about_metric(asking, metric) for name, metric in asking.data.now.spec.metrics.items()
    }
    counts = {
        name: _counts(asking.data, metric, found)
        for name, metric in asking.data.now.spec.metrics.items()
    }
    judged = _guardrails(asked, _unjudged(asking, counts, found.units))
    return tuple(
        MetricAnswer(
            measure=Measure.of_metric(asking.data.now.spec, metric),
            **counts[name],
            absent_value=metric.absent,
            means=asked[name].means,
            lifts=asked[name].single_lifts,
            rail=metric.guardrail,
            guardrail=judged.get(name, ()),
            shown=not (asking.data.is_objective(metric) and _shows_metric(asking.data)),
        )
        for name, metric in asking.data.now.spec.metrics.items()
    )


def _shows_metric(data: CampaignWaves) -> bool:
    """Whether the objective's numbers are those of its metric, in its unit and before costs."""
    reward = data.now.spec.reward
    return reward.plain and not reward.less_costs


def _about_metric(asking: Asking, metric: Metric) -> Asking:
    """Return the summaries of a metric; the objective's serve its own metric, before costs."""
    if asking.data.is_objective(metric) and not any(asking.data.charges):
        if asking.scale == 1.0:
            return asking
        # With the estimates that were made before.
        summaries = asking.summaries
    elif asking.data.is_objective(metric):
        free = np.zeros(len(asking.names))
        summaries = tuple(replace(one, charges=free) for one in asking.summaries)
    else:
        partitions = asking.data.eligibility()
        summaries = asking.data.summaries(
            asking.data.plain_contrasts, partitions, metric=metric.name
        )
    yes_no = metric.kind == YES_NO
    return replace(asking, summaries=summaries, looks=None, scale=1.0, yes_no=yes_no)


def _counts(data: CampaignWaves, metric: Metric, found: Findings) -> dict[str, int]:
    """Return how many units have a recorded value, and how many count as absent."""
    if data.is_objective(metric):
        return {"recorded": found.outcomes - found.absent, "absent": found.absent}
    recorded, known = data.counts_of(metric.name)
    return {"recorded": recorded, "absent": known - recorded}


def _unjudged(
    asking: Asking, counts: Mapping[str, Mapping[str, int]], units: int
) -> dict[str, str]:
    """Return why guardrails are not judged, by the metric's name."""
    made = {name: UNRECORDED for name, one in counts.items() if not one["recorded"]}
    for name, metric in asking.data.now.spec.metrics.items():
        if metric.absent is None and few_of(counts[name]["recorded"], units):
            made[name] = MOSTLY_MISSING
    return made


def _guardrails(
    asked: Mapping[str, Asking], unjudged: Mapping[str, str]
) -> dict[str, tuple[GuardrailAnswer, ...]]:
    """Judge all guardrails under all actions together; return the verdicts by metric."""
    family = [
        (name, place, contrast)
        for name, asking in asked.items()
        if (rail := asking.data.now.spec.metrics[name].guardrail) is not None
        for place in range(1 if rail.relative else 0, len(asking.names))
        for contrast in [Lift(place) if rail.relative else Mean(place)]
    ]
    level = next(iter(asked.values())).level
    bounds = [
        _bound(asked[name], name, one, why_not=unjudged.get(name, "")) for name, _, one in family
    ]
    judged = judge_bounds(bounds, level=level)
    made: dict[str, list[GuardrailAnswer]] = {}
    for (name, place, contrast), one in zip(family, judged, strict=True):
        asking = asked[name]
        about = asking.lift_name(place) if isinstance(contrast, Lift) else asking.mean_name(place)
        answer = GuardrailAnswer(
            action=asking.names[place],
            code=one.verdict,
            interval=asking.named(one.interval, about),
            adjusted_p=one.adjusted_p,
        )
        made.setdefault(name, []).append(answer)
    return {name: tuple(answers) for name, answers in made.items()}


#: Why a relative guardrail is not judged in a masked campaign.
MASKED = "Only the key names the control: it is judged once the campaign is unmasked."
#: Why a guardrail is not judged if all units count as absent: the file may never have come.
UNRECORDED = "No value was ever recorded, so it is not judged."
#: Why a guardrail is not judged if most units have no value: recorded ones may be unlike them.
MOSTLY_MISSING = "Most units have no value, so it is not judged."


def _bound(asking: Asking, name: str, contrast: Mean | Lift, *, why_not: str) -> Bound:
    rail = asking.data.now.spec.metrics[name].guardrail
    assert rail is not None
    # At the bound, so many would be events: few of them are evidence, not a lack of it.
    estimate = asking.pooled(contrast, rate=abs(rail.bound) if asking.yes_no else 0.0)
    if rail.relative and asking.data.now.masked:
        estimate = unknown(contrast.name, level=asking.level, note=MASKED)
    if why_not:
        estimate = unknown(contrast.name, level=asking.level, note=why_not)
    return Bound(estimate=estimate, value=rail.bound, upper=rail.upper)
