"""Metrics in findings: the means and lifts of each, its guardrail, and both in words and tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqbatch.campaign.decide.wave_doubts import few_of
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.spec.metrics import Guardrail
from seqbatch.display import cell, enumerated, percent
from seqbatch.document import Table
from seqbatch.inference import Guarded, Interval

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Answer, Findings


@dataclass(frozen=True, kw_only=True)
class GuardrailAnswer:
    """What the evidence says about a guardrail under one action.

    Parameters
    ----------
    action
        The action.
    code
        Whether the guardrail is kept; programs should read it.
    interval
        The mean, or the lift if the bound is relative, with the level at which Holm's method judged
        it: it is on one side of the bound if and only if the code says so.
    adjusted_p
        The p-value of the bound, adjusted by Holm's method over all guardrails and actions.
    """

    action: str
    code: Guarded
    interval: Interval
    adjusted_p: float


@dataclass(frozen=True, kw_only=True)
class MetricAnswer:
    """A metric's mean under each action, its lifts over the control, and its guardrail.

    Parameters
    ----------
    measure
        What the numbers are.
    recorded, absent, absent_value
        How many units have a recorded value; how many count as absent, and as what.
    means, lifts
        Answers by action, as those of the objective: means with the control first.
    rail, guardrail
        The declared guardrail, and what the evidence says about it under each action.
    shown
        Whether the metric is shown by itself; not if the objective is this metric and shows it.
    """

    measure: Measure
    recorded: int
    absent: int
    absent_value: float | None
    means: "tuple[Answer, ...]"
    lifts: "tuple[Answer, ...]"
    rail: Guardrail | None = None
    guardrail: tuple[GuardrailAnswer, ...] = ()
    shown: bool = True

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.measure.name

    def guarded(self, action: str) -> GuardrailAnswer | None:
        """Return what is known about the guardrail under an action; None if it has no bound."""
        return next((one for one in self.guardrail if one.action == action), None)


def guardrail_codes(metrics: Iterable[MetricAnswer], action: str) -> dict[str, Guarded]:
    """Return the verdict of each guardrail under an action, by the metric's name."""
    found = {metric.name: metric.guarded(action) for metric in metrics}
    return {name: one.code for name, one in found.items() if one is not None}


# ----------------------------------------------------------------------
# Tables and sentences.


#: The verdicts in words, to follow a metric's name.
WORDS = {
    Guarded.KEPT: "kept",
    Guarded.BROKEN: "BROKEN",
    Guarded.NOT_CLEAR: "not clear yet",
    Guarded.TOO_FEW: "too few events to judge",
}
WORST_FIRST = (Guarded.BROKEN, Guarded.NOT_CLEAR, Guarded.TOO_FEW, Guarded.KEPT)


def metric_tables(found: "Findings") -> list[Table]:
    """Return a table of means and lifts for each metric that is shown by itself."""
    return [_table(found, metric) for metric in found.metrics if metric.shown and metric.means]


def _table(found: "Findings", metric: MetricAnswer) -> Table:
    measure, level = metric.measure, percent(found.level)
    lifts = {lift.action: lift for lift in metric.lifts}
    rows = []
    for mean in metric.means:
        lift = lifts.get(mean.action)
        row = [mean.action, *measure.cells(mean.interval)]
        row += measure.cells(lift.interval) if lift is not None else ("", "", "")
        if metric.rail is not None:
            judged = metric.guarded(mean.action)
            row.append("" if judged is None else WORDS[judged.code])
        rows.append(row)
    guarded = ("guardrail",) if metric.rail is not None else ()
    columns = ("action", "mean", f"{level} from", "to", f"over {found.control}",
               f"lift {level} from", "lift to", *guarded)  # fmt: skip
    return Table(_title(found, metric), columns, rows, words=("action", *guarded))


def _title(found: "Findings", metric: MetricAnswer) -> str:
    measure = metric.measure
    if metric.rail is None:
        return f"{measure.head}; {measure.wanted}"
    allowed = measure.allowed(metric.rail, found.control, brief=True)
    return f"{measure.head}; guardrail: {allowed}"


def metric_notes(found: "Findings") -> list[str]:
    """Say what the numbers of metrics rest on, and why some are missing."""
    told: dict[str, list[str]] = {}
    for metric in found.metrics:
        if metric.shown:
            for said in _notes(found, metric):
                told.setdefault(said, []).append(metric.name)
    return [f"{enumerated(names)}: {said}" for said, names in told.items()]


def _notes(found: "Findings", metric: MetricAnswer) -> Iterable[str]:
    missing = found.units - metric.recorded - metric.absent
    counts = [f"{metric.recorded:,} recorded"]
    if metric.absent:
        counts.append(f"{metric.absent:,} absent and counted as {cell(metric.absent_value)}")
    counts += [f"{missing:,} missing"] if missing else []
    yield f"of {found.units:,} {found.measure.of}s, {', '.join(counts)}."
    if metric.absent_value is None and few_of(metric.recorded, found.units):
        guarded = ", and its guardrail is not judged" if metric.rail is not None else ""
        yield (
            "most units have no value, and may be unlike those that have one: its numbers do not "
            f"speak for them{guarded}. If a unit without a row has the value 0, amend the metric "
            "with absent = 0."
        )
    if metric.absent and not metric.recorded:
        guarded = " and its guardrail is not judged" if metric.rail is not None else ""
        yield f"no value was ever recorded; until one is, its means say nothing{guarded}."
    unknown = {
        one.interval.note for one in (*metric.means, *metric.lifts) if not one.interval.known
    }
    yield from sorted(unknown)


def guardrail_fact(found: "Findings", actions: Sequence[str]) -> str:
    """Say how the guardrails of some actions stand, the worst first; "" if none was judged."""
    said = []
    for metric in found.metrics:
        judged = [one for one in metric.guardrail if one.action in actions]
        if metric.rail is None or not judged:
            continue
        worst = min(judged, key=lambda one: WORST_FIRST.index(one.code))
        allowed = metric.measure.allowed(metric.rail, found.control, brief=True)
        number = (
            f"{_plus(metric, worst)}{metric.measure.signed(worst.interval).partition(' ')[0]} "
            f"{metric.measure.each}, "
            if worst.interval.known
            else ""
        )
        allowed += "" if number else f" per {metric.measure.per}"
        who = f" under {worst.action}" if len(actions) > 1 else ""
        said.append(f"{metric.name} {WORDS[worst.code]}{who} ({number}{allowed})")
    return f"{'; '.join(said)}." if said else ""


def _bounded(found: "Findings", metric: MetricAnswer) -> str:
    assert metric.rail is not None
    allowed = metric.measure.allowed(metric.rail, found.control, brief=True)
    return f"{metric.measure.column} ({allowed})"


def _plus(metric: MetricAnswer, one: GuardrailAnswer) -> str:
    relative = metric.rail is not None and metric.rail.relative
    return "+" if relative and one.interval.estimate > 0 else ""


def guardrail_lines(found: "Findings") -> list[str]:
    """Return one line for each guardrail: what is allowed, and the verdict for each action."""
    lines = []
    for metric in found.metrics:
        if metric.rail is not None and metric.guardrail:
            said = "; ".join(_judged(found, metric, one) for one in metric.guardrail)
            lines.append(f"{_bounded(found, metric)}: {said}.")
    return lines


def _judged(found: "Findings", metric: MetricAnswer, one: GuardrailAnswer) -> str:
    """Return a verdict for one action, with the numbers behind it."""
    who = _named(found, one.action)
    if not one.interval.known:
        return f"{who} {WORDS[one.code]}"
    return f"{who} {WORDS[one.code]}, {_plus(metric, one)}{metric.measure.signed(one.interval)}"


def _named(found: "Findings", action: str) -> str:
    """Return an action's name; that of the control is often a word such as "none"."""
    return f"{action} (control)" if action == found.control else action


def broken_sentences(found: "Findings") -> list[str]:
    """Return a sentence for each broken guardrail and action."""
    return [
        f"Guardrail broken under {_named(found, one.action)}: "
        f"{_measured(found, metric, one.interval)}; allowed is "
        f"{metric.measure.allowed(metric.rail, found.control)}."
        for metric in found.metrics
        if metric.rail is not None
        for one in metric.guardrail
        if one.code is Guarded.BROKEN
    ]


def _measured(found: "Findings", metric: MetricAnswer, interval: Interval) -> str:
    """Return the mean or lift that a guardrail bounds, in words."""
    measure = metric.measure
    if metric.rail is not None and metric.rail.relative:
        amount = measure.amount(interval.estimate, interval.error)
        return f"{amount} than {found.control} ({measure.between(interval)})"
    return measure.level_of(interval)


def broken_names(found: "Findings", action: str) -> str:
    """Return the metrics whose guardrails an action breaks."""
    codes = guardrail_codes(found.metrics, action)
    return enumerated([name for name, code in codes.items() if code is Guarded.BROKEN])
