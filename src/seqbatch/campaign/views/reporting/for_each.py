"""Who should get what: the rule to run next in words, in numbers and in a small picture."""

from collections.abc import Sequence

from seqbatch.campaign.views.findings import RuleAnswer
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.recommending import clear, given_shares
from seqbatch.campaign.views.reporting.document import Part, Picture, Section
from seqbatch.campaign.views.reporting.learned import nothing
from seqbatch.campaign.views.reporting.material import Feature, Material
from seqbatch.campaign.views.reporting.pictures import Predicted, predictions
from seqbatch.campaign.views.reporting.placed import placed
from seqbatch.display import Table, number

#: How many features are told, and how many are drawn.
TOLD, DRAWN = 5, 2
#: How many actions a picture compares.
ACTIONS = 4


def who_gets_what(of: Material) -> Section:
    """Return the rule to run next, and what is known about differences between units."""
    title = "Who should get what"
    if (why := nothing(of)) is not None:
        return Section("who", title, [why])
    rule = of.found.rule
    parts: list[Part] = []
    if rule is None or not rule.coefficients:
        parts.append("No rule can be made: no action that is still given has an outcome.")
    else:
        parts += _rule(of, rule)
    if of.found.splits:
        sure = [one for one in of.found.splits if one.adjusted_p < 1 - of.found.level]
        parts.append(
            f"Of {len(of.found.splits)} differences between units that the first wave suggested, "
            f"{len(sure) or 'none'} {'is' if len(sure) < 2 else 'are'} clear in the later waves."
        )
    return Section("who", title, [*parts, *placed(of.found)["who"]])


def _rule(of: Material, rule: RuleAnswer) -> list[Part]:
    shares = given_shares(of.found)
    given = [f"{name} to {percent(share)}" for name, share in shares.items()]
    said = (
        f"By the current estimate the best choice is: {', '.join(given)} of {of.found.measure.of}s."
        if given
        else "The current estimate prefers no action."
    )
    gain, measure = rule.gain, of.found.measure
    if gain.known:
        unsure = "" if clear(gain) else " That is not clearly a difference."
        said += (
            f" Expected over {of.found.control} for everybody, judged on the last wave alone: "
            f"{measure.amount(gain.estimate, gain.error)} ({measure.between(gain)}, approximate)."
            f"{unsure}"
        )
    else:
        said += f" What it would bring is not known. {gain.note}"
    if of.found.barred & shares.keys():
        said += " Guardrails have no part in this."
    top = _top(rule)
    if not of.features:
        return [said, "The model has no features: it prefers the same action for everybody."]
    if len(top) < 2:
        return [said]
    strongest = _strongest(of, rule, top)
    return [said, _words(top, strongest), _table(of, rule, top, strongest),
            _picture(of, rule, strongest[:DRAWN])]  # fmt: skip


def _top(rule: RuleAnswer) -> list[str]:
    """Return the actions that have a model, those that the rule gives most first."""
    return sorted(rule.coefficients, key=lambda name: -rule.shares.get(name, 0.0))


def _strongest(of: Material, rule: RuleAnswer, top: Sequence[str]) -> list[Feature]:
    """Return the features in which the two most given actions differ most, by the model."""
    first, second = (rule.coefficients[name] for name in top[:2])
    by = sorted(of.features, key=lambda one: -abs(first[one.place] - second[one.place]))
    return by[:TOLD]


def _words(top: Sequence[str], strongest: Sequence[Feature]) -> str:
    names = ", ".join(one.name for one in strongest[:3])
    return (
        f"What tells most whether {top[0]} or {top[1]} is better for a unit: {names}. The table "
        "says by how much, everything else being equal. This is a model, straight lines fitted to "
        "the outcomes; it has no interval here, and what it says about units unlike those seen is "
        "a guess."
    )


def _table(
    of: Material, rule: RuleAnswer, top: Sequence[str], strongest: Sequence[Feature]
) -> Table:
    first, second = (rule.coefficients[name] for name in top[:2])
    rows = []
    for one in strongest:
        step = 1.0 if one.binary else one.spread
        change = (first[one.place] - second[one.place]) * step / one.spread
        low = 0.0 if one.binary else one.mean
        rows.append([one.name, f"{number(low + step, 3)} instead of {number(low, 3)}",
                     f"{of.found.measure.scale * change:+.2g}"])  # fmt: skip
    title = f"What speaks for {top[0]} rather than {top[1]} (if less than 0: the other way round)"
    if of.found.measure.direction == "min":
        title = f"How {top[0]} differs from {top[1]} (less is better)"
    return Table(title, ("feature", "change", of.found.measure.head), rows,
                 words=("feature", "change"))  # fmt: skip


def _picture(of: Material, rule: RuleAnswer, features: Sequence[Feature]) -> Picture:
    scale = of.found.measure.scale
    names = _top(rule)[:ACTIONS]
    points = [
        Predicted(one.name, value, name, scale * _predicted(rule.coefficients[name], one, value))
        for one in features
        for name in names
        for value in (one.low, one.high)
    ]
    told = "; ".join(
        f"{name} {number(a.outcome, 3)} where {one.name} is {number(a.value, 3)}, "
        f"{number(b.outcome, 3)} where it is {number(b.value, 3)}"
        for one in features
        for name in names
        for a, b in [[p for p in points if (p.feature, p.action) == (one.name, name)]]
    )
    head = of.found.measure.head
    return Picture(
        lambda: predictions(points, title=head),
        f"The model's predictions in {head}: {told}.",
        "The model's predictions for the features that matter most, all others at their average: "
        "the line on top is the better action where more is better, the lowest where less is.",
    )


def _predicted(coefficients: Sequence[float], feature: Feature, value: float) -> float:
    """Return the model's prediction, all other columns at their means, where they are 0."""
    place = (value - feature.mean) / feature.spread
    return coefficients[0] + coefficients[feature.place] * place
