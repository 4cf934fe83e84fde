"""The campaign report: its first page, who should get which action, and all sections."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from seqbatch.campaign.views.findings import RuleAnswer
from seqbatch.campaign.views.findings_text import clear, placed
from seqbatch.campaign.views.flow import flow
from seqbatch.campaign.views.lift_pictures import lift_pictures
from seqbatch.campaign.views.recommendation import given_shares
from seqbatch.campaign.views.report_conduct import (
    allocation,
    assumed,
    audit,
    methods,
    planned_and_done,
    stopping,
)
from seqbatch.campaign.views.report_pictures import Predicted, predictions
from seqbatch.campaign.views.report_results import (
    Material,
    ReportedFeature,
    metrics,
    nothing,
    outcomes,
    quality,
    value,
)
from seqbatch.campaign.views.status import or_close
from seqbatch.campaign.views.tree import tree_tables
from seqbatch.display import counted, number, percent
from seqbatch.document import (
    Document,
    Heading,
    Part,
    Picture,
    Section,
    Table,
)

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
# The first page: the decision and its two charts.


def first_page(of: Material) -> Section:
    """Return the decision with its charts: at most one printed page."""
    decision = of.found.decision
    if of.now.condition == "open":
        decision = replace(decision, facts=(*decision.facts, ("Next", _go_on(of))))
    parts = decision.parts()
    # Pictures stand before the last part, the facts.
    return Section("answer", "Decision", [*parts[:-1], *lift_pictures(of.found), *parts[-1:]])


def _go_on(of: Material) -> str:
    now = of.now
    which = f"wave {now.wave} of {len(now.sizes)}"
    return {
        "assign": f"Assign actions to the {of.found.measure.of}s of {which}.",
        "record": f"Wait for the outcomes of {which}, and record them. {or_close(now)}".rstrip(),
        "close": f"Close {which}: its outcomes are recorded, and the policy can learn from them.",
    }.get(of.step or "", f"Continue with {which}.")


# ----------------------------------------------------------------------
# The whole report.


def report(of: Material, *, appendix: bool = False) -> Document:
    """Return the report; `appendix` shows all sections, which otherwise open on demand."""
    return Document(
        title=of.found.decision.title,
        first=first_page(of),
        appendix=appendix,
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
            "findings": of.found.plain(),
        },
    )  # fmt: skip


def closed_report(of: Material, wave: int, codes: Mapping[str, str]) -> Document:
    """Return the report of a masked campaign for its committee, with the names of the actions."""
    made = report(of, appendix=True)
    told = ", ".join(f"{code} is {name}" for code, name in codes.items())
    first = replace(
        made.first,
        parts=[
            "For the committee alone. The campaign stays masked for all others: its record has "
            f"only the verdict of this look. {told}.",
            *made.first.parts,
        ],
    )
    title = f"Closed report of campaign {of.found.name} after wave {wave}"
    return replace(made, title=title, first=first)
