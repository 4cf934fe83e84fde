"""The report's results: outcomes, the value of the run, metrics and data quality."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import isclose, sqrt

from seqbatch.campaign.decide.action_counts import SMALL
from seqbatch.campaign.decide.campaign_waves import ModelColumns
from seqbatch.campaign.record.current_situation import Situation, events_until, situation
from seqbatch.campaign.record.events import utc_now
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.spec.plan import planned
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_estimates import findings, waves_of
from seqbatch.campaign.views.findings_text import EQUAL, NONE_YET, placed
from seqbatch.campaign.views.interim import status_as_recorded
from seqbatch.campaign.views.metrics import guardrail_lines, metric_notes, metric_tables
from seqbatch.campaign.views.report_pictures import Bar, intervals
from seqbatch.campaign.views.selected_action import selected_sentence
from seqbatch.campaign.views.status import (
    Status,
    Step,
    absences,
    clipped_text,
    next_step,
    rows_so_far,
    status,
)
from seqbatch.display import number, percent
from seqbatch.document import Items, Part, Picture, Section
from seqbatch.inference import Interval
from seqbatch.inference.estimates import ENOUGH
from seqbatch.planning import Plan

# ----------------------------------------------------------------------
# The material of a report, gathered at one event.


#: Features are shown within this many standard deviations of their mean.
AROUND = 1.5
#: Below this p-value, waves count as different, as in the notes of the findings.
DIFFERENT = 0.01


@dataclass(frozen=True)
class ReportedFeature:
    """A column of the model, in its original units.

    Parameters
    ----------
    name, place
        The column's name, and its position among the model's columns.
    mean, spread
        The mean and the standard deviation in the first wave.
    low, high
        The range shown; 0 and 1 for a binary column.
    binary
        Whether all values are 0 or 1.
    """

    name: str
    place: int
    mean: float
    spread: float
    low: float
    high: float
    binary: bool


@dataclass(frozen=True, kw_only=True)
class Material:
    """Everything a report needs about a campaign, as of one event.

    Parameters
    ----------
    found, status, now, events
        The findings, the status, the situation, and all events.
    step
        The next step; None if the report shows an earlier time.
    features
        The model's columns without the constant and products; empty without outcomes.
    """

    found: Findings
    status: Status
    now: Situation
    events: Sequence[Event]
    step: Step | None
    features: tuple[ReportedFeature, ...]

    @cached_property
    def created(self) -> Situation:
        """The campaign as it was created."""
        return situation(self.events[:1])

    @cached_property
    def plan(self) -> Plan | None:
        """The plan behind the waves' sizes, recomputed; None if there is none."""
        grid = self.created.spec.grid
        made = None if grid.plan is None else planned(self.created.spec, grid.plan)
        # Another version may plan differently; comparing with its plan would be unfair.
        return made if made is not None and made.grid.sizes == self.created.sizes else None

    def units(self, count: int) -> str:
        """Return a count with the word for units: "1,200 customers"."""
        word = self.found.measure.of
        return f"{count:,} {word if count == 1 else word + 's'}"


def gathered(
    store: Store, name: str, *, at_event: int | None = None, at: datetime | None = None
) -> Material:
    """Gather a report's material, as of now or right after event number `at_event`.

    `at` is the time of the analysis; see :func:`~.findings_estimates.findings`.
    """
    with store.read(name) as reader:
        events = events_until(reader.events(), at_event)
    # Everything is read as of the same event, even if the campaign changes meanwhile.
    last = len(events)
    at = at or (utc_now() if at_event is None else None)
    found = findings(store, name, at_event=last, at=at, tree=True)
    now = situation(events)
    features: tuple[ReportedFeature, ...] = ()
    if found.rule is not None:
        with store.read(name) as reader:
            features = _features(now, waves_of(reader, now, events).columns)
    return Material(
        found=found,
        status=status(store, name, at_event=last),
        now=now,
        events=events,
        step=next_step(store, name) if at_event is None else None,
        features=features,
    )


def as_recorded(of: Material, last: Event) -> Material:
    """Return material that was read with the key, without the event that is not recorded."""
    return replace(
        of,
        events=of.events[: last.sequence],
        now=replace(of.now, sequence=last.sequence, hash=last.hash),
        status=status_as_recorded(of.status, last),
    )


def _features(now: Situation, columns: ModelColumns) -> tuple[ReportedFeature, ...]:
    return tuple(
        _feature(now, columns, place)
        for place, name in enumerate(columns.names)
        if place and "*" not in name
    )


def _feature(now: Situation, columns: ModelColumns, place: int) -> ReportedFeature:
    name, mean = columns.names[place], columns.own_value(place, 0.0)
    spread = columns.own_value(place, 1.0) - mean
    binary = 0 < mean < 1 and isclose(spread, sqrt(mean * (1 - mean)), rel_tol=1e-2)
    low, high = (0.0, 1.0) if binary else (mean - AROUND * spread, mean + AROUND * spread)
    kept = None if now.learned is None else now.learned.numbers.get(name)
    if kept is not None and not binary:
        low = low if kept.low is None else max(low, kept.low)
        high = high if kept.high is None else min(high, kept.high)
    return ReportedFeature(name, place, mean, spread, low, high, binary)


# ----------------------------------------------------------------------
# Results: outcomes, the value of the run against its plan, metrics, and data quality.


def nothing(of: Material) -> str | None:
    """Say why there are no results to report; None if there are."""
    if not of.found.known:
        return NONE_YET
    return EQUAL if of.found.all_equal else None


def outcomes(of: Material) -> Section:
    """Return the section on every action's mean with its interval, pooled and by wave."""
    title = "Outcomes by action"
    if (why := nothing(of)) is not None:
        return Section("outcomes", title, [why])
    found, measure = of.found, of.found.measure
    known = [mean for mean in found.means if mean.interval.known]
    bars = [Bar.of(measure, mean.action, mean.interval) for mean in known]
    words = f"{measure.head} if every {measure.of} got the action"
    picture = Picture(
        lambda: intervals(bars, title=measure.column),
        f"{words}, with {percent(found.level)} intervals: {'; '.join(b.words for b in bars)}.",
        f"{words[0].upper()}{words[1:]}, with {percent(found.level)} intervals.",
    )
    parts: list[Part] = [picture] if bars else []
    if measure.costs:
        parts.append("All numbers of this section include the costs of actions.")
    parts += [*selected_sentence(found), *placed(found)["outcomes"]]
    if found.means:
        parts.append(
            "Effective outcomes are the number of equally weighted outcomes that would be as "
            f"informative; with fewer than {ENOUGH}, the coverage of intervals has not been "
            "verified."
        )
    return Section("outcomes", title, parts)


def value(of: Material) -> Section:
    """Return the section on the run's value, against simpler policies and against its plan."""
    title = "What the campaign itself brought"
    if (why := nothing(of)) is not None:
        return Section("value", title, [why])
    found = of.found
    parts: list[Part] = [
        "A campaign that learns gives more and more units the actions that work. This section "
        "estimates the value of that while the campaign ran."
    ]
    parts += placed(found)["value"]
    return Section("value", title, [*parts, *_against_plan(of)])


def _against_plan(of: Material) -> list[Part]:
    """Compare the gain over random assignment with the plan's, if the plan can be recomputed."""
    run, measure = of.found.run, of.found.measure
    if run is None or not run.over_random.known or of.plan is None or of.plan.looks_beyond:
        return []
    noises = {noise for _, noise in of.plan.model.scenarios}
    certain = len(noises) == len(of.plan.request.law.guesses) == 1
    if not certain or len(of.found.waves) < len(of.now.sizes):
        return []
    gain = run.over_random
    planned, most = promised(of.plan)
    least = "" if most is None else (
        f" If that is true, no method with these waves could have expected more than "
        f"{number(measure.scale * most, 2)} (by the lower bound on regret).")  # fmt: skip
    sign = 1 if measure.direction == "max" else -1
    seen = Interval(about="", estimate=sign * gain.estimate, error=gain.error, df=gain.df,
                    level=gain.level, low=min(sign * gain.low, sign * gain.high),
                    high=max(sign * gain.low, sign * gain.high))  # fmt: skip
    effect, [noise] = of.plan.model.effect, noises
    return [
        f"Compared with the plan, in {measure.head} over random assignment: planned "
        f"{number(measure.scale * planned, 2)}, measured {measure.signed(seen)}. The plan "
        f"assumed that a perfect choice gains {number(measure.scale * effect, 2)} over a random "
        f"one on average, and noise of {number(measure.scale * noise, 2)}.{least} If the truth "
        "differs, so does the possible gain."
    ]


def promised(plan: Plan) -> tuple[float, float | None]:
    """Return the gain over random assignment that a plan expects, and the largest possible one."""
    effect = plan.model.effect
    lost, bound = plan.row.regret / plan.units, plan.row.lower_bound / plan.units
    return effect - lost, effect - bound if bound == bound else None


def metrics(of: Material) -> Section:
    """Return the section on all metrics: means, lifts and guardrails, one table for each."""
    title = "Metrics and guardrails"
    if (why := nothing(of)) is not None and not of.found.metrics:
        return Section("metrics", title, [why])
    tables, guarded = metric_tables(of.found), guardrail_lines(of.found)
    if not tables and not guarded:
        said = "No metric besides the objective and no guardrail was declared."
        return Section("metrics", title, [said])
    level = percent(of.found.level)
    parts: list[Part] = []
    if tables:
        parts.append(
            "Estimated as the objective, for all units of the campaign: units without a row count "
            f"as declared, and the costs of actions are left out. Each interval has {level} "
            "coverage on its own."
        )
    if guarded:
        parts += [
            "A guardrail is kept if its interval is on the safe side of the bound, and broken if "
            "it is on the wrong side; otherwise it is not clear yet. These intervals are wider: "
            f"all decisions hold together with {level} confidence (Holm).",
            Items(guarded),
        ]
    return Section("metrics", title, [*parts, *tables, Items(metric_notes(of.found))])


def quality(of: Material) -> Section:
    """Return the section on data quality."""
    return Section("quality", "The data", [Items(_checks(of)), *placed(of.found)["quality"]])


def _checks(of: Material) -> list[str]:
    """Return one line per check, whether or not it found a problem."""
    found, status = of.found, of.status
    waves = found.quality.waves
    said = list(found.quality.warnings)
    tested = [one for one in waves if one.allocation_p is not None]
    if tested and all((one.allocation_p or 0) >= SMALL for one in tested):
        said.append("Sample ratio: in every closed wave, the actions' shares are as planned.")
    closed = [wave for wave in status.waves if wave.closed]
    units = sum(wave.assigned for wave in closed)
    absent = sum(wave.absent for wave in status.waves)
    if units:
        gone = units - sum(wave.observed + wave.absent for wave in closed)
        said.append(f"Missing: {gone:,} of {of.units(units)} of closed waves have no outcome "
                    f"({percent(round(gone / units, 3))}).")  # fmt: skip
    if absent:
        recorded = sum(wave.observed for wave in status.waves)
        told = absences(recorded, absent, status.absent_value, status.measure)
        said.append(f"Absent: {told}.")
    if len(found.waves) > 1:
        moved = [one.about for one in found.drift if one.p < DIFFERENT]
        said.append(f"Drift: these differ between waves: {', '.join(moved)}." if moved
                    else "Drift: nothing clearly differs between waves.")  # fmt: skip
    said += rows_so_far(status)
    said.append(f"{clipped_text(status.clipped)}." if status.clipped else "Clipped values: none.")
    elsewhere = {*found.quality.warnings, *metric_notes(found)}
    return [*said, *(note for note in found.notes if note not in elsewhere)]
