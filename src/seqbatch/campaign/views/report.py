"""The campaign report: its first screen, who should get which action, and all sections."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from seqbatch.campaign.record.current_situation import condition_text
from seqbatch.campaign.views.findings import Answer, Findings, RuleAnswer
from seqbatch.campaign.views.findings_text import clear, placed, says
from seqbatch.campaign.views.flow import flow
from seqbatch.campaign.views.metrics import broken_sentences, guardrail_summary
from seqbatch.campaign.views.recommendation import given_shares, recommended
from seqbatch.campaign.views.report_conduct import (
    allocation,
    assumed,
    audit,
    methods,
    planned_and_done,
    stopping,
)
from seqbatch.campaign.views.report_pictures import (
    SHAPE_WORDS,
    Bar,
    Predicted,
    intervals,
    predictions,
)
from seqbatch.campaign.views.report_results import (
    DIFFERENT,
    Material,
    ReportedFeature,
    metrics,
    nothing,
    outcomes,
    quality,
    value,
)
from seqbatch.campaign.views.status import or_close, wave_list
from seqbatch.campaign.views.tree import tree_tables
from seqbatch.display import counted, number, percent
from seqbatch.document import (
    Document,
    Heading,
    Items,
    Part,
    Picture,
    Section,
    Table,
)
from seqbatch.inference.estimates import ENOUGH

# ----------------------------------------------------------------------
# Who should get what: the rule to run next in words, numbers and a small picture.


#: How many features the text names, and how many the picture shows.
TOLD, DRAWN = 5, 2
#: How many actions the picture compares.
ACTIONS = 4


def who_gets_what(of: Material) -> Section:
    """Return the section on the rule to run next and on differences between units."""
    title = "Who should get what"
    if (why := nothing(of)) is not None:
        return Section("who", title, [why])
    rule = of.found.rule
    parts: list[Part] = []
    if rule is None or not rule.coefficients:
        parts.append("There is no rule to run next: no action still in use has an outcome.")
    else:
        parts += _rule(of, rule)
    if of.found.splits:
        parts.append(_splits(of))
    parts += placed(of.found)["who"]
    if said := of.found.tree_sentences:
        parts += [Heading("In a few words"), *said, *tree_tables(of.found)]
    return Section("who", title, parts)


def _splits(of: Material) -> str:
    """Say how many of the first wave's splits the later waves confirm, or could not test."""
    made, alpha = of.found.splits, 1 - of.found.level
    sure = sum(one.adjusted_p < alpha for one in made)
    untested = sum(not one.difference.known for one in made)
    said = f"The first wave suggested {counted(len(made), 'difference')} between units; "
    if untested == len(made):
        return f"{said}the later waves could test none of them."
    left = f", and could not test {untested}" if untested else ""
    return f"{said}the later waves confirm {sure or 'none'} of them{left}."


def _rule(of: Material, rule: RuleAnswer) -> list[Part]:
    shares = given_shares(of.found)
    given = [f"{name} to {percent(share)}" for name, share in shares.items()]
    said = (
        f"The best choice by the current estimate: {', '.join(given)} of {of.found.measure.of}s."
        if given
        else "The current estimate prefers no action."
    )
    gain, measure = rule.gain, of.found.measure
    if gain.known:
        unsure = "" if clear(gain) else " This difference is not clear."
        said += (
            f" Expected difference from {of.found.control} for every {measure.of}, estimated from "
            f"the last wave only: {measure.amount(gain.estimate, gain.error)} "
            f"({measure.between(gain)}, approximate).{unsure}"
        )
    else:
        said += f" Its gain is not known. {gain.note}"
    if broken := [name for name in shares if name in of.found.barred]:
        said += f" Do not run it yet: {' and '.join(broken)} breaks a guardrail."
    top = _top(rule)
    if not of.features:
        return [said, "The model has no features: it prefers the same action for every unit."]
    if len(top) < 2:
        return [said]
    strongest = _strongest(of, rule, top)
    return [said, _words(top, strongest), _table(of, rule, top, strongest),
            _picture(of, rule, strongest[:DRAWN])]  # fmt: skip


def _top(rule: RuleAnswer) -> list[str]:
    """Return the actions that have a model, ordered by how many units the rule gives them."""
    return sorted(rule.coefficients, key=lambda name: -rule.shares.get(name, 0.0))


def _strongest(of: Material, rule: RuleAnswer, top: Sequence[str]) -> list[ReportedFeature]:
    """Return the features in which the models of the two most given actions differ most."""
    first, second = (rule.coefficients[name] for name in top[:2])
    by = sorted(of.features, key=lambda one: -abs(first[one.place] - second[one.place]))
    return by[:TOLD]


def _words(top: Sequence[str], strongest: Sequence[ReportedFeature]) -> str:
    names = ", ".join(one.name for one in strongest[:3])
    return (
        f"The features that matter most for choosing between {top[0]} and {top[1]}: {names}. The "
        "table shows by how much, all else being equal. These are predictions of a linear model "
        "without intervals; for units unlike those seen so far, they are guesses."
    )


def _table(
    of: Material, rule: RuleAnswer, top: Sequence[str], strongest: Sequence[ReportedFeature]
) -> Table:
    first, second = (rule.coefficients[name] for name in top[:2])
    rows = []
    for one in strongest:
        step = 1.0 if one.binary else one.spread
        change = (first[one.place] - second[one.place]) * step / one.spread
        low = 0.0 if one.binary else one.mean
        rows.append([one.name, f"{number(low + step, 3)} instead of {number(low, 3)}",
                     f"{of.found.measure.scale * change:+.2g}"])  # fmt: skip
    title = f"What favours {top[0]} over {top[1]} (below 0: what favours {top[1]})"
    if of.found.measure.direction == "min":
        title = f"How {top[0]} differs from {top[1]} (less is better)"
    return Table(title, ("feature", "change", of.found.measure.column), rows,
                 words=("feature", "change"))  # fmt: skip


def _picture(of: Material, rule: RuleAnswer, features: Sequence[ReportedFeature]) -> Picture:
    scale = of.found.measure.scale
    names = _top(rule)[:ACTIONS]
    points = [
        Predicted(one.name, value, name, scale * _predicted(rule.coefficients[name], one, value))
        for one in features
        for name in names
        for value in (one.low, one.high)
    ]
    told = "; ".join(
        f"{name} {number(a.outcome, 3)} if {one.name} is {number(a.value, 3)}, "
        f"{number(b.outcome, 3)} if it is {number(b.value, 3)}"
        for one in features
        for name in names
        for a, b in [[p for p in points if (p.feature, p.action) == (one.name, name)]]
    )
    head = of.found.measure.column
    return Picture(
        lambda: predictions(points, title=head),
        f"The model's predictions in {head}: {told}.",
        "The model's predictions for the features that matter most, with all others at their "
        f"average. The {'lowest' if of.found.measure.direction == 'min' else 'highest'} line is "
        "the best action.",
    )


def _predicted(coefficients: Sequence[float], feature: ReportedFeature, value: float) -> float:
    """Return the model's prediction with all other columns at their means, which are 0."""
    place = (value - feature.mean) / feature.spread
    return coefficients[0] + coefficients[feature.place] * place


# ----------------------------------------------------------------------
# The first screen: the answer, one picture, and what to do next.


#: With more comparisons than this, the picture lists them and the text only summarises.
MOST_TOLD = 4
#: Above this share of missing outcomes, the first screen warns the reader.
MUCH_MISSING = 0.2


def first_screen(of: Material) -> Section:
    """Return the first screen."""
    found = of.found
    parts: list[Part] = [*_told(found), _basis(of)]
    if drawn := [lift for lift in found.lifts if lift.interval.known]:
        parts.append(lifts_picture(found, drawn))
    if guarded := guardrail_summary(found):
        parts += [Heading("Guardrails"), Items(guarded)]
    parts += [Heading("What to do next"), Items(what_to_do(of))]
    if drawn:
        parts += [_how_to_read(found, several=len(drawn) > 1), *cautions(found)]
    return Section("answer", "The answer", parts)


def _told(found: Findings) -> list[str]:
    """Return the sentences about actions; rules and looks are covered elsewhere."""
    if not found.known or found.all_equal or not found.lifts:
        return list(found.sentences[:1])
    about = 1 + sum(lift is not found.best for lift in found.lifts)
    if about <= MOST_TOLD:
        return list(found.sentences[:about])
    kinds = [says(found, lift.around) for lift in found.lifts if lift is not found.best]
    counts = [
        f"{kinds.count(kind)} {words}"
        for kind, words in (("better", "clearly better"), ("worse", "clearly worse"),
                            ("not clear", "not clearly different"))
        if kind in kinds
    ]  # fmt: skip
    return [
        found.sentences[0],
        f"The other {len(kinds)} actions, compared with {found.control}: {', '.join(counts)}.",
    ]


def _basis(of: Material) -> str:
    found = of.found
    if not found.known:
        return f"So far {of.units(of.now.assigned)} got an action. The campaign is {_stands(of)}."
    waves = counted(len(found.waves), "wave")
    absent = ""
    if found.absent:
        absent = f", {found.absent:,} of them counted as {_absent(of)} because they have no row"
    return (
        f"This is based on {of.units(found.units)} in {waves} and "
        f"{counted(found.outcomes, 'outcome')}{absent}. It is about {found.measure.head}; "
        f"{found.measure.wanted}. The campaign is {_stands(of)}."
    )


def _absent(of: Material) -> str:
    value = of.status.absent_value
    return "declared" if value is None else of.status.measure.counted_as(value)


def _stands(of: Material) -> str:
    now = of.now
    if now.condition == "open":
        return f"in wave {now.wave} of {len(now.sizes)}"
    why = [event.why for event in of.events if event.kind in ("abort", "stop")]
    said = condition_text(now.condition)
    return f"{said} (reason: {why[-1]})" if why else said


def lifts_picture(found: Findings, lifts: list[Answer]) -> Picture:
    """Draw the lifts over the control, the best at the top."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    lifts = sorted(lifts, key=lambda lift: sign * lift.interval.estimate)
    bars = [
        Bar.of(measure, lift.action, lift.around, says=says(found, lift.around)) for lift in lifts
    ]
    title = f"{measure.column}, compared with {found.control}"
    shapes = [SHAPE_WORDS[kind] for kind in SHAPE_WORDS if any(bar.says == kind for bar in bars)]
    return Picture(
        lambda: intervals(bars, title=title, zero=found.control),
        f"{title} ({measure.wanted}), with {percent(found.level)} intervals: "
        f"{'; '.join(bar.words for bar in bars)}.",
        f"Difference from {found.control} in {measure.head}; {measure.wanted}. Solid lines are "
        f"{percent(found.level)} intervals, the dashed line is no difference; {', '.join(shapes)}.",
    )


def _how_to_read(found: Findings, *, several: bool) -> str:
    level = percent(found.level)
    stops = found.stopping.looks
    holds = [*([" for all comparisons at once"] if several else []),
             *([" whenever the rule stops the campaign"] if stops else [])]  # fmt: skip
    return (
        f"How to read this: in {level} of campaigns like this one, {level} intervals contain the "
        f"true value{' and'.join(holds)}. An action is called clearly better or worse if its "
        "interval does not include 0 (no difference)."
    )


def cautions(found: Findings) -> list[str]:
    """Return the warnings that belong next to the answer."""
    means = [one for mean in found.means for one in mean.waves]
    thin = sorted({one.wave for one in means if one.effective < ENOUGH})
    moved = [one.action for one in found.lifts if len(one.waves) > 1 and one.same_p < DIFFERENT]
    said = []
    if thin:
        said.append(
            f"Careful: some action has few outcomes in {wave_list(thin)}. With so few, intervals "
            "have not been shown to be as reliable as stated."
        )
    gone = 1 - found.outcomes / found.units
    if gone > MUCH_MISSING:
        said.append(
            f"Careful: {gone:.0%} of {found.measure.of}s have no outcome. The numbers hold for all "
            f"{found.measure.of}s only if missing outcomes would not differ from recorded ones of "
            f"{found.measure.of}s with the same features."
        )
    if moved:
        said.append(
            f"Careful: the effect of {', '.join(moved)} differs between waves. The numbers above "
            "are averages; read the waves one by one."
        )
    return said


def what_to_do(of: Material) -> list[str]:
    """Return what to do next, in order."""
    found = of.found
    said = [f"Check this first: {warning}" for warning in found.quality.warnings]
    said += broken_sentences(found)
    if of.now.stop:
        going = " Confirm the stop; you can continue only with a reason, which is recorded."
        said.append(
            f"The stopping rule declared beforehand says: {of.now.stop}."
            f"{'' if of.now.ended else going}"
        )
    elif of.now.condition == "open":
        said.append(_go_on(of))
    if found.known and not found.all_equal:
        said += recommended(found, ended=of.now.condition != "open")
    return said or ["This campaign supports no recommendation."]


def _go_on(of: Material) -> str:
    now = of.now
    which = f"wave {now.wave} of {len(now.sizes)}"
    return {
        "assign": f"Continue: assign actions to the {of.found.measure.of}s of {which}.",
        "record": f"Wait for the outcomes of {which}, and record them. {or_close(now)}".rstrip(),
        "close": f"Close {which}: its outcomes are recorded, and the policy can learn from them.",
    }.get(of.step or "", f"Continue with {which}.")


# ----------------------------------------------------------------------
# The whole report.


def report(of: Material) -> Document:
    """Return the report."""
    return Document(
        title=f"Campaign {of.found.name}",
        first=first_screen(of),
        sections=[
            section(of)
            for section in (
                planned_and_done, flow, allocation, outcomes, who_gets_what, value, metrics,
                quality, stopping, audit, methods, assumed,
            )
        ],
        data={
            "campaign": of.found.name,
            "event": of.now.sequence,
            "hash": of.now.hash,
            "next": what_to_do(of),
            "findings": of.found.plain(),
        },
    )  # fmt: skip


def closed_report(of: Material, wave: int, codes: Mapping[str, str]) -> Document:
    """Return the report of a masked campaign for its committee, with the names of the actions."""
    made = report(of)
    told = ", ".join(f"{code} is {name}" for code, name in codes.items())
    first = replace(
        made.first,
        parts=[
            "For the committee alone. The campaign stays masked for everybody else: its record has "
            f"only the verdict of this look. {told}.",
            *made.first.parts,
        ],
    )
    title = f"Closed report of campaign {of.found.name} after wave {wave}"
    return replace(made, title=title, first=first)
