"""What was learned, in sentences that can be forwarded, and what they rest on."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seqbatch.campaign.deciding.few_events import ENOUGH_EVENTS, ENOUGH_FOR_A_MEAN
from seqbatch.campaign.deciding.stopping_words import inflation_text, look_text
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.recommending import (
    around,
    clear,
    expected,
    for_everybody,
    given_shares,
)
from seqbatch.campaign.views.words import violations, wave_list
from seqbatch.display import cell, counted
from seqbatch.inference import Interval
from seqbatch.inference.pooling import ENOUGH

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Answer, Findings

NONE_YET = "No outcomes yet."
EQUAL = "All outcomes so far are equal; there is nothing to compare yet."


def sentences(found: "Findings") -> tuple[str, ...]:
    """Return the answer in a few sentences, the most important first."""
    if not found.known:
        return (NONE_YET if not found.open_wave else f"{NONE_YET} {_open(found.open_wave)}",)
    if found.all_equal:
        return (EQUAL,)
    said = [_headline(found)]
    said += [_also(found, lift) for lift in found.lifts if lift is not found.best]
    said += [*violations(found.metrics), *_rule(found), *_stopping(found)]
    return tuple(said)


def _headline(found: "Findings") -> str:
    """Return the best lift and the gain of the run: the sentence that is forwarded."""
    best = found.best
    if best is None:
        return f"Nothing can be compared with {found.control}: {found.lifts[0].interval.note}"
    lead = compared(found, best.action, around(best)) + among(found, best)
    run = found.run
    if run is None or not run.over_random.known:
        return f"{lead}."
    gain = run.over_random
    # But for rounding nothing, where all probabilities were equal.
    if abs(gain.estimate) <= 1e-9 * gain.error:
        return f"{lead}; all units were assigned at random."
    return f"{lead}; the adaptive run brought {_gain(found, gain)} than random assignment."


def compared(found: "Findings", action: str, interval: Interval) -> str:
    """Say what an action brings over the control, without a full stop."""
    measure = found.measure
    said = f"{measure.amount(interval.estimate, interval.error)} than {found.control}"
    inside = f"({measure.between(interval)}{_together(found)})"
    if clear(interval):
        return f"{action} brings {said} {inside}"
    return f"It is not clear whether {action} differs from {found.control}: {said} {inside}"


def _together(found: "Findings") -> str:
    """Say with what a lift's interval holds together."""
    count = len(found.lifts)
    several = "both comparisons" if count == 2 else f"all {count} comparisons"
    holds = [*([several] if count > 1 else []), *(["all looks"] if found.stopping.looks else [])]
    return f", {' and '.join(holds)} together" if holds else ""


def _gain(found: "Findings", gain: Interval) -> str:
    measure = found.measure
    size = measure.number(abs(gain.estimate), gain.error)
    sure = "" if clear(gain) else f" ({measure.between(gain)})"
    return f"{size} {measure.way(gain.estimate)}{sure}"


def _also(found: "Findings", lift: "Answer") -> str:
    if not lift.interval.known:
        return f"{lift.action} cannot be compared: {lift.interval.note}"
    return f"{compared(found, lift.action, around(lift))}{among(found, lift)}."


def among(found: "Findings", lift: "Answer") -> str:
    """Say of whom a lift is, where that is not everybody."""
    if lift.among == 1:
        return ""
    who = f"the {percent(round(lift.among, 3))} of {found.measure.of}s who may get both"
    return f", among {who}"


def _rule(found: "Findings") -> list[str]:
    """Say what to run next, or why that is not known."""
    rule = found.rule
    if rule is None:
        return []
    if not rule.gain.known:
        return [f"No rule to run next can be judged. {rule.gain.note}"]
    shares = given_shares(found)
    given = ", ".join(f"{name} to {percent(share)} of {found.measure.of}s"
                      for name, share in shares.items())  # fmt: skip
    # What one action brings for everybody is known better from all waves, and was said.
    one = for_everybody(found)
    brings = f"; that {expected(found)}" if one is None else "."
    barred = " Guardrails have no part in this." if found.barred & shares.keys() else ""
    return [f"To run next, by all data: {given}{brings}{barred}"]


def _stopping(found: "Findings") -> list[str]:
    stopping = found.stopping
    if stopping.looks:
        return [look_text(stopping.looks[-1])]
    return [inflation_text(stopping.inflated)] if stopping.inflated else []


def notes(now: Situation, found: "Findings") -> tuple[str, ...]:
    """Return what a reader must know."""
    return (*found.quality.warnings, *_about_actions(now, found), *_about_waves(found),
            *_about_numbers(found))  # fmt: skip


def _about_actions(now: Situation, found: "Findings") -> Iterable[str]:
    if now.masked:
        yield (
            "The control is named in the key alone; while the campaign is masked, codes are "
            f"compared with the first, {found.control}."
        )
    elif not found.control_declared:
        yield f"No control was declared; actions are compared with the first, {found.control}."
    first = {action.name for action in now.spec.actions}
    for name in found.retired:
        yield (
            f"{name} was retired: it is judged by the waves in which it was given alone. Where it "
            "was retired for what was seen, its estimate leans away from what would have followed."
        )
    for name in found.actions:
        if name not in first:
            yield f"{name} was added later: it is judged by the waves in which it was given alone."
    if found.measure.costs:
        yield "What actions cost is part of all numbers."


def _about_waves(found: "Findings") -> Iterable[str]:
    if found.open_wave is not None:
        yield _open(found.open_wave)
    if found.skipped:
        yield f"Nothing is learned from {wave_list(found.skipped)}, as was said at the closing."
    if found.late:
        yield (
            f"Since the last closing {counted(found.late, 'outcome')} of closed waves came or "
            "changed: estimates and intervals have them; looks, and tests at a closing, do not."
        )
    if found.absent:
        yield f"{found.absent:,} units without a row count as declared."
    thin = sorted({one.wave for mean in found.means for one in mean.waves
                   if one.effective < ENOUGH})  # fmt: skip
    if thin:
        yield (
            f"Fewer than {ENOUGH} effective outcomes of some action in {wave_list(thin)}: for so "
            "few it has not been shown that intervals cover."
        )
    if few := [mean.few for mean in found.means if mean.few]:
        yield (
            f"Few events, that is outcomes other than the usual one: {', '.join(few)}. With fewer "
            f"than {ENOUGH_FOR_A_MEAN} the interval of a mean is surer than it should be."
        )
    for lift in found.lifts:
        if lift.few:
            yield (
                f"The interval of the {lift.interval.about} is surer than so few events allow: if "
                f"both brought the same after costs there would be {lift.few} by now, and it takes "
                f"{ENOUGH_EVENTS}."
            )
    late = sorted({one.wave for lift in found.lifts for one in lift.waves if not one.weight})
    if late:
        yield (
            f"Wave {', '.join(map(str, late))} came after all that was planned had been counted: "
            "it has no part in the pooled numbers. Look at it alone."
        )
    for lift in found.lifts:
        if lift.same_p < 0.01 and len(lift.waves) > 1:
            size = found.measure.number(lift.by_size, lift.interval.error)
            yield (
                f"The {lift.interval.about} differs between waves (p = {lift.same_p:.1g}): look at "
                f"the waves one by one. Averaged by their sizes it is {size} "
                f"{found.measure.head}."
            )


def _about_numbers(found: "Findings") -> Iterable[str]:
    moved = [one.about for one in found.drift if one.kind == "feature" and one.p < 0.01]
    if moved:
        some = ", ".join(moved[:5]) + (", ..." if len(moved) > 5 else "")
        yield f"Units were not alike in all waves: {some}."
    if found.measure.direction == "min":
        yield "Less is better: a difference below 0 is an improvement."
    if found.missing == "by features":
        yield (
            "Outcomes are missing more often for some kinds of units; that was taken into account "
            "by the features."
        )


def _open(wave: int) -> str:
    return f"Wave {wave} is open; its outcomes count once it is closed."


def assumptions(now: Situation, found: "Findings") -> tuple[tuple[str, str], ...]:
    """Return what was assumed, each with what would break it."""
    gone = found.units - found.outcomes
    told: list[tuple[str, str]] = [
        (
            "Units got the action that was assigned, by the logged probabilities.",
            "Lists that were changed by hand; units that did not get what they should: then a lift "
            "is that of assigning the action.",
        ),
        (
            "What one unit gets changes no other unit's outcome.",
            "Units that talk to each other, or compete for the same stock.",
        ),
        (
            "Each wave's part in the pooled estimate was fixed before its outcomes.",
            "Sizes, actions or the end of the campaign chosen by what was seen, beyond the "
            "declared rule.",
        ),
        (
            "An action's mean is an average over the waves.",
            "Effects that change with time: see whether waves differ.",
        ),
    ]
    if gone:
        by = "features and action" if found.missing == "by features" else "the action"
        told.append(
            (
                f"Which {gone:,} outcomes are missing depends on {by} alone.",
                "Units that stay silent because of their outcome.",
            )
        )
    if found.absent and now.absent is not None:
        told.append(
            (
                f"Units without a row had the outcome {cell(now.absent)}.",
                "Rows that are lost, or still to come.",
            )
        )
    if now.spec.cluster is None:
        told.append(("Units are independent.", "Several units of one person: declare cluster."))
    else:
        told.append(
            (
                f"Units of different {now.spec.cluster} are independent.",
                "Larger groups that share their fate; fewer than 30 clusters.",
            )
        )
    return tuple(told)


def remarks(found: "Findings") -> list[str]:
    """Return what stands below the tables."""
    said = [f"Note: {note}" for note in found.notes]
    said += [f"Assumed: {what} What would break it: {how}" for what, how in found.assumptions]
    return said


def basis(found: "Findings") -> str:
    """Say what the findings rest on, in one line."""
    waves = counted(len(found.waves), "wave")
    return (
        f"Campaign {found.name} ({found.condition}): {waves}, {counted(found.units, 'unit')}, "
        f"{counted(found.outcomes, 'outcome')}."
    )
