"""How a campaign will be analysed: the part of its protocol that a statistician reads."""

from collections.abc import Iterator
from itertools import accumulate
from math import isfinite

from seqbatch.campaign.deciding.few_events import ENOUGH_EVENTS
from seqbatch.campaign.deciding.pooling_plan import planned
from seqbatch.campaign.deciding.stopping import POWER
from seqbatch.campaign.design.spec import Spec
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.reporting.document import Heading, Items, Part
from seqbatch.campaign.views.reporting.methods import REFERENCES
from seqbatch.display import Table, number
from seqbatch.inference import boundaries


def analysis(now: Situation) -> Iterator[Part]:
    """Yield how the outcomes of a campaign will be analysed, as it was declared."""
    others = len(now.actions) - 1
    yield (
        "Each wave is estimated for itself by doubly robust scores: G(a) = m(a) + 1{A = a} "
        "(Y - m(A)) / (p(A) q(A)), with the model m of the outcomes, the logged probability p "
        "and the share q of outcomes that come back. Waves are pooled with shares of the "
        "variance that are fixed here, before the campaign:"
    )
    shares = planned(now).shares
    rows = [[wave, percent(round(share, 4))] for wave, share in enumerate(shares, start=1)]
    yield Table("Shares of the variance", ("wave", "share"), rows)
    several = (
        f" The {others} comparisons cover together, by {_together(now.spec)}." if others > 1 else ""
    )
    yield f"Intervals are two-sided with 95% coverage, by Student's t.{several}"
    yield from _stopping(now, others)
    if now.spec.report.segments:
        yield (
            f"Subgroups, declared here: {', '.join(now.spec.report.segments)}; corrected by "
            "Holm's method."
        )
    yield (
        "Checked in every wave: that actions were given as often as logged, that outcomes are "
        "missing alike, and that nothing drifts between waves."
    )
    yield Heading("References")
    yield Items(REFERENCES)


def _together(spec: Spec) -> str:
    """The method by which several comparisons cover together; as the findings choose it."""
    if spec.stopping.rule != "none":
        return "Bonferroni's method, at all looks that the rule below allows for"
    if spec.eligible:
        return "Bonferroni's method, since not all of them are about the same units"
    if spec.grid.calendar:
        return "Bonferroni's method, since shares are fixed as waves come"
    return "Dunnett's method"


def _stopping(now: Situation, others: int) -> Iterator[Part]:
    rule = now.spec.stopping
    if rule.rule == "none":
        yield "No rule for stopping early is declared: results are judged once, at the end."
        return
    times = list(accumulate(planned(now).shares))
    bounds = boundaries(times, rule=rule.rule, alpha=rule.alpha / 2 / others)
    futile = (
        f", and for futility by bounds for a power of {percent(POWER)}" if rule.futility else ""
    )
    yield (
        f"After each wave the rule {rule.rule} is applied, with a two-sided error of "
        f"{percent(rule.alpha)} over all looks and actions (group-sequential Holm){futile}."
    )
    rows = [
        [
            wave,
            percent(round(min(time, 1.0), 4)),
            number(bound, 4) if isfinite(bound) else "none",
        ]
        for wave, (time, bound) in enumerate(zip(times, bounds, strict=True), start=1)
    ]
    columns = ("after wave", "information", "boundary of the statistic")
    yield Table("Boundaries for the first action that is shown", columns, rows)
    if len({action.cost for action in now.actions}) > 1:
        yield (
            "An action that costs more or less than the control is judged once it would have at "
            f"least {ENOUGH_EVENTS} events at break-even, where events are rare; before that "
            "nothing is spent on it, and it is no ground to stop."
        )
    if now.masked:
        yield (
            "The rule compares with the control, which is named in the key alone: no look is "
            "taken, and nothing is spent, until the campaign is unmasked."
        )
