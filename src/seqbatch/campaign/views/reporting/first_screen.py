"""What everybody reads: the answer, one picture, and what to do next, in plain words."""

from seqbatch.campaign.views.findings import Answer, Findings
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.next_step import or_close
from seqbatch.campaign.views.recommending import around, recommended, says
from seqbatch.campaign.views.reporting.document import Heading, Items, Part, Picture, Section
from seqbatch.campaign.views.reporting.material import DIFFERENT, Material
from seqbatch.campaign.views.reporting.pictures import SHAPE_WORDS, Bar, intervals
from seqbatch.campaign.views.words import measured, violations, wave_list
from seqbatch.display import cell, counted
from seqbatch.inference.pooling import ENOUGH

#: With more comparisons than this, the picture tells them one by one and the words sum them up.
MOST_TOLD = 4
#: Above this share of units without an outcome whoever reads the answer must know.
MUCH_MISSING = 0.2


def first_screen(of: Material) -> Section:
    """Return the first screen."""
    found = of.found
    parts: list[Part] = [*_told(found), _basis(of)]
    if drawn := [lift for lift in found.lifts if lift.interval.known]:
        parts.append(lifts_picture(found, drawn))
    parts += [Heading("What to do next"), Items(what_to_do(of))]
    if drawn:
        parts += [_how_to_read(found, several=len(drawn) > 1), *cautions(found)]
    return Section("answer", "The answer", parts)


def _told(found: Findings) -> list[str]:
    """Return the sentences about actions; those about rules and looks have their own places."""
    if not found.known or found.all_equal or not found.lifts:
        return list(found.sentences[:1])
    about = 1 + sum(lift is not found.best for lift in found.lifts)
    if about <= MOST_TOLD:
        return list(found.sentences[:about])
    kinds = [says(found, around(lift)) for lift in found.lifts if lift is not found.best]
    counts = [
        f"{kinds.count(kind)} {words}"
        for kind, words in (("better", "clearly better"), ("worse", "clearly worse"),
                            ("not clear", "not clearly different"))
        if kind in kinds
    ]  # fmt: skip
    return [
        found.sentences[0],
        f"Of the other {len(kinds)} actions, compared with {found.control}: {', '.join(counts)}.",
    ]


def _basis(of: Material) -> str:
    found = of.found
    if not found.known:
        return f"So far {of.units(of.now.assigned)} got an action. The campaign is {_stands(of)}."
    waves = counted(len(found.waves), "wave")
    absent = ""
    if found.absent:
        absent = f", {found.absent:,} of them counted as {_absent(of)} because no row came for them"
    return (
        f"This rests on {of.units(found.units)} in {waves} and {counted(found.outcomes, 'outcome')}"
        f"{absent}. The campaign is {_stands(of)}."
    )


def _absent(of: Material) -> str:
    value = of.status.absent_value
    return "declared" if value is None else measured(cell(value), of.status.unit)


def _stands(of: Material) -> str:
    now = of.now
    if now.condition == "open":
        return f"in wave {now.wave} of {len(now.sizes)}"
    why = [event.why for event in of.events if event.kind == "abort"]
    return f"aborted, with the reason: {why[-1]}" if why else now.condition


def lifts_picture(found: Findings, lifts: list[Answer]) -> Picture:
    """Draw what actions bring over the control, the best on top."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    lifts = sorted(lifts, key=lambda lift: sign * lift.interval.estimate)
    bars = [
        Bar.of(measure, lift.action, around(lift), says=says(found, around(lift))) for lift in lifts
    ]
    title = f"{measure.head}, compared with {found.control}"
    wanted = "less is better" if measure.direction == "min" else "more is better"
    shapes = [SHAPE_WORDS[kind] for kind in SHAPE_WORDS if any(bar.says == kind for bar in bars)]
    return Picture(
        lambda: intervals(bars, title=title, zero=found.control),
        f"{title} ({wanted}), with {percent(found.level)} intervals: "
        f"{'; '.join(bar.words for bar in bars)}.",
        f"Difference from {found.control} in {measure.head}; {wanted}. The line is the "
        f"{percent(found.level)} interval, the dashed line no difference; {', '.join(shapes)}.",
    )


def _how_to_read(found: Findings, *, several: bool) -> str:
    level = percent(found.level)
    stops = found.stopping.looks
    holds = [*(["for all comparisons at once"] if several else []),
             *(["whenever the rule stops the campaign"] if stops else [])]  # fmt: skip
    at_once = f", {' and '.join(holds)}," if holds else ""
    return (
        f"How to read this: a {level} interval is made so that{at_once} it holds the true value in "
        f"{level} of campaigns like this one. An action is called clearly better or worse where "
        "its interval lies on one side of no difference."
    )


def cautions(found: Findings) -> list[str]:
    """Return what weakens the answer, which whoever reads it alone must know."""
    means = [one for mean in found.means for one in mean.waves]
    thin = sorted({one.wave for one in means if one.effective < ENOUGH})
    moved = [one.action for one in found.lifts if len(one.waves) > 1 and one.same_p < DIFFERENT]
    said = []
    if thin:
        said.append(
            f"Careful: some action has few outcomes in {wave_list(thin)}. For so few it has not "
            "been shown that intervals hold as often as they say."
        )
    if scarce := [one.few for one in found.means if one.few]:
        said.append(
            f"Careful: few events have come ({', '.join(scarce)}). Intervals of such means are "
            "surer than they should be."
        )
    if few := [one.action for one in found.lifts if one.few]:
        said.append(
            f"Careful: too few events to weigh what {', '.join(few)} brings against the difference "
            "in costs. Such an interval is surer than it should be."
        )
    gone = 1 - found.outcomes / found.units
    if gone > MUCH_MISSING:
        said.append(
            f"Careful: {gone:.0%} of {found.measure.of}s have no outcome. The numbers are about "
            "everybody only if who is missing has nothing to do with what the outcome would be"
            f"{', beyond what the features tell' if found.missing == 'by features' else ''}."
        )
    if moved:
        said.append(
            f"Careful: what {', '.join(moved)} brings was not the same in all waves. The numbers "
            "above are averages; look at the waves one by one."
        )
    return said


def what_to_do(of: Material) -> list[str]:
    """Return what to do next, what comes first first."""
    found = of.found
    said = [f"Look into this before anything else: {warning}" for warning in found.quality.warnings]
    said += violations(of.status.metrics)
    if of.now.stop:
        going = " Going on all the same takes a reason, which is kept."
        said.append(
            f"The rule that was fixed beforehand says: {of.now.stop}."
            f"{going if of.now.condition == 'open' else ''}"
        )
    elif of.now.condition == "open":
        said.append(_go_on(of))
    if found.known and not found.all_equal:
        said += recommended(found, ended=of.now.condition != "open" or bool(of.now.stop))
    return said or ["Nothing can be recommended from this campaign."]


def _go_on(of: Material) -> str:
    now = of.now
    which = f"wave {now.wave} of {len(now.sizes)}"
    return {
        "assign": f"Go on: give the {of.found.measure.of}s of {which} their actions.",
        "record": f"Wait for the outcomes of {which}, and record them. {or_close(now)}".rstrip(),
        "close": f"The outcomes of {which} are in: close it, and learn from it.",
    }.get(of.step or "", f"Go on with {which}.")
