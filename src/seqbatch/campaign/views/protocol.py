"""The protocol: the campaign's design as declared before its first unit, for a committee."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from math import isfinite, sqrt
from typing import Any

from seqbatch.campaign.decide.logged_waves import planned
from seqbatch.campaign.decide.stopping import LEAST_GAIN, POWER, places_of_looks
from seqbatch.campaign.record.current_situation import Situation, situation
from seqbatch.campaign.record.earlier_campaign import about, history_said
from seqbatch.campaign.record.rehearsal_file import RehearsalFile, design_of
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.constraints_text import (
    balance_said,
    limits_said,
    nobody_said,
    rules_said,
)
from seqbatch.campaign.spec.limits import Capacity
from seqbatch.campaign.spec.measure import Measure, control_name
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.spec.objective import RollOut
from seqbatch.campaign.spec.spec import Spec, rule_name
from seqbatch.campaign.views.history import CHANGES, unblinded_text, what_was_done
from seqbatch.campaign.views.rehearsal import Rehearsal
from seqbatch.campaign.views.report_conduct import REFERENCES
from seqbatch.campaign.views.signatures import signatures
from seqbatch.display import cell, counted, number, percent
from seqbatch.document import Document, Heading, Items, Part, Section, Table
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference import boundaries, detectable_drift, detectable_lift, planned_path
from seqbatch.inference.planned_precision import average_error, planned_variances
from seqbatch.inference.rare_events import ENOUGH_AMOUNTS, ENOUGH_BINARY
from seqbatch.inference.stopping_boundaries import CLASSICAL
from seqbatch.planning.outcome_scale import share_of
from seqbatch.policies.registry import plainly, text

# ----------------------------------------------------------------------
# The analysis plan.


def analysis(now: Situation) -> Iterator[Part]:
    """Yield the declared analysis of the outcomes, for a statistician to read."""
    others = len(now.actions) - 1
    yield (
        "Each wave is estimated separately by doubly robust scores: G(a) = m(a) + 1{A = a} "
        "(Y - m(A)) / (p(A) q(A)), with a model m of the outcomes, the logged probability p "
        "and the share q of outcomes that are recorded. Reported means and lifts are averages over "
        "the campaign's units: each wave counts by its size. Tests of a lift that is the same in "
        "every wave, and the stopping rule, pool waves with shares of the variance that are fixed "
        "here, before the campaign:"
    )
    shares = planned(now).shares
    rows = [[wave, percent(round(share, 4))] for wave, share in enumerate(shares, start=1)]
    yield Table("Shares of the variance", ("wave", "share"), rows)
    several = (
        f" The {others} comparisons have joint coverage, by {_together(now.spec)}."
        if others > 1
        else ""
    )
    yield (
        "Intervals are two-sided with 95% coverage, by Student's t, or, if most outcomes are 0, by "
        f"score limits that allow for few and unequal events.{several}"
    )
    yield from _stopping(now, others)
    yield from _metrics(now)
    if now.spec.report.segments:
        yield (
            f"Declared subgroups: {', '.join(now.spec.report.segments)}; their p-values are "
            "corrected by Holm's method."
        )
    yield (
        "Checked in every wave: whether the actions' shares match the logged probabilities, "
        "whether outcomes are missing equally often under all actions, and whether anything drifts "
        "between waves."
    )
    yield Heading("References")
    yield Items(REFERENCES)


def _metrics(now: Situation) -> Iterator[Part]:
    """Say how metrics and their guardrails are analysed."""
    metrics = now.spec.metrics.values()
    if len(metrics) > 1:
        yield (
            "Every metric is estimated as the objective: its mean under each action and its lift "
            "over the control, before costs, with 95% intervals that each hold by themselves. "
            "Stopping and assignment do not depend on metrics besides the objective."
        )
    if guarded := [metric.name for metric in metrics if metric.guardrail is not None]:
        yield (
            f"Guardrails ({', '.join(guarded)}) are judged for every action, those with a fixed "
            "bound for the control, too. One is kept if the two-sided interval lies on the safe "
            "side of its bound, broken if it lies on the wrong side, and not clear otherwise; the "
            "overall error of all these decisions is 5%, by Holm's method. An action that breaks a "
            "guardrail is not recommended."
        )


def _together(spec: Spec) -> str:
    """Return the method for simultaneous comparisons, chosen as in the findings."""
    if spec.stopping.rule != "none":
        return "Bonferroni's method, at all looks that the rule below allows for"
    if spec.eligible:
        return "Bonferroni's method, because not all of them concern the same units"
    if spec.grid.calendar:
        return "Bonferroni's method, because shares are fixed wave by wave"
    return "Dunnett's method"


def _stopping(now: Situation, others: int) -> Iterator[Part]:
    rule = now.spec.stopping
    if rule.rule == "none":
        yield "No rule for early stopping is declared: results are tested once, at the end."
        return
    times = list(accumulate(planned(now).shares))
    looks, alpha = places_of_looks(times), rule.alpha / 2 / others
    made = boundaries([times[look] for look in looks], rule=rule.rule, alpha=alpha)
    bounds = {look: number(one, 4) for look, one in zip(looks, made, strict=True) if isfinite(one)}
    futile = (
        f", and for futility by bounds for a power of {percent(POWER)}" if rule.futility else ""
    )
    yield (
        f"After each wave the rule {rule_name(rule.rule)} is applied ({_kind(rule.rule)}), with a "
        f"two-sided error of {percent(rule.alpha)} over all looks and actions (group-sequential "
        f"Holm){futile}."
    )
    rows = [
        [place + 1, percent(round(min(time, 1.0), 4)), bounds.get(place, "none")]
        for place, time in enumerate(times)
    ]
    columns = ("after wave", "information", "boundary of the statistic")
    yield Table("Boundaries until a first action has crossed its boundary", columns, rows)
    if small := [str(place + 1) for place in range(len(times)) if place not in looks]:
        yield (
            f"Too small for a separate look (less than {LEAST_GAIN:.2%} of the information), and "
            f"merged with the next or the previous one: {counted(len(small), 'wave')} "
            f"({', '.join(small)})."
        )
    yield (
        "If most outcomes are 0, there is a look only once the plan has about "
        f"{ENOUGH_BINARY} events of each action ({ENOUGH_AMOUNTS} if outcomes are amounts). Before "
        "that, no part of the error is used, and the rule cannot stop the campaign. Costs of "
        "actions are a difference that the lift must exceed."
    )
    if rule.looks:
        yield (
            "The campaign is masked, so the holder of the key takes the look after each wave. The "
            "record has the verdict alone (continue, stop or planned end), and the next wave "
            "opens only then."
        )
    elif now.masked:
        yield (
            "The rule compares with the control, which only the key names: until the campaign is "
            "unmasked, there is no look, and no part of the error is used."
        )


def _kind(rule: str) -> str:
    """Say how a rule sets its boundaries, for a statistician."""
    name = "O'Brien and Fleming's" if rule.startswith("obrien") else "Pocock's"
    if rule in CLASSICAL:
        return f"{name} boundaries for the planned looks; if the plan changes, they are set again"
    return f"a spending function of {name} type by Lan and DeMets"


# ----------------------------------------------------------------------
# The protocol as a document.


#: The powers for which the protocol states a detectable lift.
POWERS = (0.8, 0.9)


def protocol(events: Sequence[Event], rehearsal: RehearsalFile | None = None) -> Document:
    """Return the protocol: what the first event declares, later changes, and the rehearsal."""
    declared = situation(events[:1])
    writing = _Writing(declared, Measure.of_objective(declared.spec))
    return Document(
        title=f"Protocol of campaign {declared.name}",
        first=_first(events[0], writing),
        sections=[
            Section("question", "The question", list(writing.question())),
            Section("units", "The units", list(writing.units())),
            Section("waves", "Waves and sample size", list(writing.waves())),
            Section("assignment", "How units are assigned", list(writing.assignment())),
            Section("outcomes", "What is recorded", list(writing.outcomes())),
            Section("analysis", "How it will be analysed", list(analysis(declared))),
            *_rehearsed(events[0], declared, rehearsal),
            Section("record", "The record", _record(events)),
        ],
        data={"campaign": declared.name, "hash": events[0].hash,
              "spec": declared.spec.model_dump(mode="json", exclude={"seed", "block_sizes"}),
              **({} if declared.history is None else {"history": about(declared.history)})},
    )  # fmt: skip


def _first(created: Event, writing: "_Writing") -> Section:
    now = writing.now
    size = "" if now.spec.grid.calendar else f" of {writing.sizes}"
    said = [
        f"Declared on {created.at[:10]} by {created.who}, before any unit was assigned: "
        f"{counted(len(now.actions), 'action')}, {counted(len(now.sizes), 'wave')}{size} "
        f"{writing.measure.of}s. {_sentence(plainly(now.policy))}.",
        f"Hash of the declaration: {created.hash}. Keep this page: with it you can check later "
        "that the campaign is the one it describes.",
    ]
    if now.masked:
        codes = ", ".join(action.name for action in now.actions)
        said.append(
            f"The campaign is masked: its actions are called {codes}. A separate key "
            f"(fingerprint {now.key}) says which code is which action."
        )
    if now.spec.interim == "committee":
        said.append(
            "Results are withheld until the campaign has ended: before that, only the committee "
            "sees them, with the key."
        )
    return Section("summary", "Summary", said)


class _Writing:
    """The parts of a protocol."""

    def __init__(self, now: Situation, measure: Measure) -> None:
        self.now, self.spec, self.measure = now, now.spec, measure

    @property
    def sizes(self) -> str:
        return ", ".join(f"{size:,}" for size in self.now.sizes)

    def question(self) -> Iterator[Part]:
        spec, measure = self.spec, self.measure
        names = [action.name for action in spec.actions]
        if spec.question is not None:
            yield spec.question
        if spec.owner is not None:
            yield f"Owner: {spec.owner}."
        yield f"Actions: {', '.join(names)}."
        if costs := [f"{a.name} {a.cost:g}" for a in spec.actions if a.cost]:
            where = "counted in the objective" if measure.costs else "in the budget only"
            yield f"Costs per unit, {where}: {', '.join(costs)}."
        yield f"Objective (the primary outcome): {measure.head}; {measure.wanted}."
        if self.now.masked:
            yield (
                f"Null hypotheses: the mean {measure.column}, over all {measure.of}s, is the same "
                "under every action as under the control, which only the key names."
            )
            return
        control = spec.control or names[0]
        others = [name for name in names if name != control]
        first = "" if spec.control else " (the first action, because none was declared)"
        yield f"Control: {control}{first}."
        yield Items(
            [
                f"Null hypothesis {place}: the mean {measure.column}, over all {measure.of}s"
                f"{_may(spec.eligible, name, control)}, is the same under {name} as under "
                f"{control}."
                for place, name in enumerate(others, start=1)
            ]
        )

    def units(self) -> Iterator[Part]:
        spec = self.spec
        yield f"A unit is one {spec.id_name}."
        if spec.cluster is not None:
            yield f"Units of one {spec.cluster} are not independent; standard errors allow for it."
        columns = ", ".join(spec.features.columns)
        yield f"Known before assignment and used by the model: {columns or 'nothing'}."
        if spec.eligible:
            yield Heading("Who may get what")
            yield Items(rules_said(spec))
            yield nobody_said(spec)

    def waves(self) -> Iterator[Part]:
        now, measure = self.now, self.measure
        if self.spec.grid.calendar:
            yield (
                f"{counted(len(now.sizes), 'wave')}, ended by the calendar; "
                f"{sum(now.sizes):,} {measure.of}s are expected in total."
            )
        else:
            yield f"{counted(len(now.sizes), 'wave')} of {self.sizes} {measure.of}s."
        yield (
            "All units of a wave are assigned before any of its outcomes is used. A wave is "
            f"closed when {percent(self.spec.required_outcomes)} of its outcomes are recorded, or "
            "earlier with a recorded reason."
        )
        yield Heading("What will be detected")
        yield from self._precision()

    def _precision(self) -> Iterator[Part]:
        now = self.now
        plan = self.spec.grid.plan or {}
        stated, measured, shown = _noise(plan), self.measure.column, self.measure.scale
        noise, said = stated or 1.0, ""
        if stated is None and self.measure.kind == YES_NO:
            noise, said = 0.5, ", that of a rate of 50%, where yes/no outcomes vary most"
        elif stated is None:
            measured, shown = "standard deviations of the outcome", 1.0
        returned = 1 - float(plan.get("missing", 0.0))
        shares = planned(now)
        model: dict[str, Any] = {
            "actions": len(now.active), "columns": now.encoder().dim, "noise": noise,
            "returned": returned,
        }  # fmt: skip
        error = average_error(shares.sizes, planned_variances(shares, **model))
        yield (
            "A lift over the control will have a standard error of about "
            f"{number(shown * error, 2)} ({measured}; noise {shown * noise:g}{said}, "
            f"{percent(returned)} of outcomes returned, "
            f"{counted(now.encoder().dim, 'column')} in the model)."
        )
        rule, others = self.spec.stopping, len(now.actions) - 1
        title, several, total = "Detectable lifts", [], 0.05
        if rule.rule != "none":
            # Looks pool waves by precision, findings average over units.
            error, total = planned_path(shares, **model)[-1], rule.alpha
            title, several = "Lifts that the looks detect", ["looks"]
        several += ["comparisons"] if others > 1 else []
        together = f" for all {' and '.join(several)} together" if several else ""
        rows = [[percent(p), number(shown * error * self._drift(p), 2)] for p in POWERS]
        title = f"{title}, two-sided at {percent(total)}{together}"
        yield Table(title, ("power", f"lift ({measured})"), rows)
        yield from self._less_precise()

    def _drift(self, power: float) -> float:
        """Return how many standard errors are detected, with the correction of the findings."""
        now, rule, others = self.now, self.spec.stopping, len(self.now.actions) - 1
        if rule.rule != "none":
            times = list(accumulate(planned(now).shares))
            looks = [min(times[place], 1.0) for place in places_of_looks(times)]
            alpha = rule.alpha / 2 / others
            return detectable_drift(looks, rule=rule.rule, alpha=alpha, power=power)
        if self.spec.eligible or self.spec.grid.calendar:
            return detectable_lift(1.0, level=1 - 0.05 / others, power=power)
        return detectable_lift(1.0, power=power, comparisons=others)

    def _less_precise(self) -> Iterator[Part]:
        """Say that eligibility rules and limits make the estimates less precise than stated."""
        if self.spec.eligible:
            yield (
                "These numbers are for actions that every unit may get. Only units that may get "
                "both actions inform a lift: for lifts that involve "
                f"{', '.join(self.spec.eligible)}, divide the error by the square root of the "
                "share of units that may get both."
            )
        if scarce := [name for name, one in self.spec.capacity.items() if _most(one)]:
            yield (
                f"These numbers ignore the limits on {', '.join(scarce)}: an action that a limit "
                "makes rarer has a larger error."
            )

    def assignment(self) -> Iterator[Part]:
        now, spec = self.now, self.spec
        yield f"Policy {text(now.policy)}: {plainly(now.policy)}."
        yield from history_said(now.history, spec)
        if now.history is not None:
            yield (
                f"The sums are those after event {now.history['event']} of that campaign, whose "
                f"hash is {now.history['hash']}; their own is {now.history['fingerprint']}. They "
                "are stored with this campaign, and verification uses them again. Findings do "
                "not: they are about this campaign's units alone."
            )
        yield (
            f"With K = {len(now.actions)} actions, of which a unit may get m, the randomised share "
            f"r = {spec.randomised:g}, the floor f = {now.floor:g} and the policy's probability q, "
            "an action has the probability r/m + (1 - r)(K f/m + (1 - K f) q). It is logged for "
            "every unit and action before the outcome is known."
        )
        yield from self._limits()
        who = "Verification computes it again."
        if spec.rows == "elsewhere":
            who = "The database that keeps the rows computes it; no row is kept here."
        order = "The draw does not depend on the order of units."
        if spec.in_order:
            order = "Blocks and coins follow the order in which units are stored."
        yield (
            f"An action is drawn by a keyed hash ({spec.draws}) of the unit's id, the campaign's "
            "name and its seed. The seed is not printed here, because it would reveal future "
            f"actions. {order} {who}"
        )

    def _limits(self) -> Iterator[Part]:
        yield from balance_said(self.spec, over_waves=bool(self.now.balanced_since))
        said = limits_said(self.spec)
        if said:
            yield Heading("Limits")
            yield Items(said)
            yield (
                "If a limit binds, the policy's q is changed to respect it. If q comes from "
                "scores, a scarce action goes to the units that gain most from it; if actions are "
                "drawn, the nearest table of q in relative entropy is used. The probability that "
                "randomisation gives an action is lowered only if less than that is left. The rest "
                "is spread over the units still to come. The logged probability is that of the "
                "draw, after all these changes."
            )

    def outcomes(self) -> Iterator[Part]:
        reward = self.spec.reward
        yield f"The objective is {self.measure.head}.{_purpose(self.spec)}"
        if reward.range is not None:
            low, high = map(cell, reward.range)
            before = "Before costs it" if self.measure.costs else "It"
            yield (
                f"{before} lies between {low} and {high}: a row outside this range is held, not "
                "used."
            )
        if reward.cap is not None:
            yield f"Amounts above {cell(reward.cap)} count as {cell(reward.cap)}."
        if reward.absent is None:
            yield "A unit without an outcome counts as missing."
        else:
            when = (
                f", but not earlier than {reward.after} after its assignment"
                if reward.after
                else ""
            )
            counts = self.measure.counted_as(reward.absent)
            yield f"A unit without an outcome counts as {counts}{when}."
        yield Items([_metric(self.spec, metric) for metric in self.spec.metrics.values()])


def _rehearsed(
    created: Event, declared: Situation, rehearsal: RehearsalFile | None
) -> Iterator[Section]:
    """Yield what the rehearsal showed; refuse one of another spec."""
    kept = created.payload.get("rehearsal")
    if rehearsal is None:
        if kept is not None:
            said = (
                f"The design was rehearsed before the campaign was created: {kept['campaigns']:,} "
                f"simulated campaigns under each truth, seed {kept['seed']}, with the hash "
                f"{kept['hash']}."
            )
            yield Section("rehearsal", "Rehearsal", [said])
        return
    if kept is None:
        rehearsal.require(design_of(declared.spec), f"campaign {declared.name}")
    elif kept["hash"] != rehearsal.hash:
        raise InvalidArgumentError(
            "rehearsal", f"the rehearsal with which the campaign was created ({kept['hash']})",
            f"another one ({rehearsal.hash})",
        )  # fmt: skip
    yield Section("rehearsal", "Rehearsal", Rehearsal(rehearsal).parts())


def _record(events: Sequence[Event]) -> list[Part]:
    """Return how the record is kept, and what has changed since the declaration."""
    parts: list[Part] = [
        "Every step is recorded as an event with its time, author and reason. Events are chained "
        f"by hashes, starting with {events[0].hash}. Verification computes every decision, "
        "estimate and look again, bit for bit. This page was made with seqbatch "
        f"{version('seqbatch')}."
    ]
    later = [
        f"{event.at[:10]}, {event.kind} (event {event.sequence}): {what_was_done(event)}."
        + (f" Reason: {event.why}" if event.why else "")
        for event in events
        if event.kind in CHANGES
    ]
    if signed := signatures(events):
        parts += [Heading("Signatures"), Items([f"{one.text()}." for one in signed])]
    if said := unblinded_text(events):
        parts.append(said)
    if later:
        return [*parts, Heading("Changed since"), Items(later)]
    return [*parts, "Nothing has changed since the declaration."]


def _noise(plan: Mapping[str, Any]) -> float | None:
    """Return the noise that a plan states, by itself or by a base rate.

    >>> _noise({"noise": 12}), _noise({"base_rate": "50%"}), _noise({})
    (12.0, 0.5, None)
    """
    if "base_rate" in plan:
        rate = share_of("base_rate", plan["base_rate"])
        return sqrt(rate * (1 - rate))
    noise = plan.get("noise")
    return float(noise) if isinstance(noise, int | float) else None


def _may(eligible: dict[str, str], *names: str) -> str:
    return " who may get both" if any(name in eligible for name in names) else ""


def _most(capacity: Capacity) -> bool:
    return capacity.each_wave is not None or capacity.total is not None


def _metric(spec: Spec, metric: Metric) -> str:
    measure = Measure.of_metric(spec, metric)
    said = f"{metric.name} ({metric.kind}, column {metric.column}): {measure.head}"
    if metric.rows is not None:
        said += f"; several rows of a unit: {metric.rows}"
    if metric.within is not None:
        said += f"; rows count within {metric.within} of the assignment"
    if metric.absent is not None:
        said += f"; a unit without a row counts as {measure.counted_as(metric.absent)}"
        said += f" after {metric.after or metric.within}" if metric.wait is not None else ""
    if metric.guardrail is None:
        return f"{said}; {measure.wanted}."
    return f"{said}; guardrail: {measure.allowed(metric.guardrail, control_name(spec))}."


def _sentence(clause: str) -> str:
    return clause[:1].upper() + clause[1:]


def _purpose(spec: Spec) -> str:
    """Say what counts, unless it is what the campaign's own units bring."""
    purpose = spec.objective.purpose
    if isinstance(purpose, RollOut):
        return (
            f" What it brings to the campaign's units counts, and what the final rule brings to "
            f"{counted(purpose.after, 'unit')} afterwards."
        )
    if purpose == "choose":
        return " Only the choice of one action for all units afterwards counts."
    return ""
