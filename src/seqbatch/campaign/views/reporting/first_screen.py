"""What everybody reads: the answer, one picture, and what to do next, in plain words."""

from seqbatch.campaign.views.findings import Answer, Findings
from seqbatch.campaign.views.findings_words import clear
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.reporting.document import Heading, Items, Part, Picture, Section
from seqbatch.campaign.views.reporting.material import Material
from seqbatch.campaign.views.reporting.pictures import SHAPE_WORDS, Bar, intervals
from seqbatch.campaign.views.words import violations
from seqbatch.display import counted
from seqbatch.inference import Interval

#: With more comparisons than this, the picture tells them one by one and the words sum them up.
MOST_TOLD = 4


def first_screen(of: Material) -> Section:
    """Return the first screen."""
    found = of.found
    parts: list[Part] = [*_told(found), _basis(of)]
    if drawn := [lift for lift in found.lifts if lift.interval.known]:
        parts.append(lifts_picture(found, drawn))
    parts += [Heading("What to do next"), Items(what_to_do(of))]
    if drawn:
        parts.append(_how_to_read(found, several=len(drawn) > 1))
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


def around(lift: Answer) -> Interval:
    """Return the interval that is shown first: right together with all others, where there are."""
    together = lift.together
    return together if together is not None and together.known else lift.interval


def says(found: Findings, interval: Interval) -> str:
    """Return what an interval of a difference says: better, worse or not clear."""
    if not clear(interval):
        return "not clear"
    return "better" if found.measure.better(interval.estimate) else "worse"


def _basis(of: Material) -> str:
    found = of.found
    if not found.known:
        return f"So far {of.units(of.now.assigned)} got an action. The campaign is {_stands(of)}."
    waves = counted(len(found.waves), "wave")
    absent = f", {found.absent:,} of them counted as declared" if found.absent else ""
    return (
        f"This rests on {of.units(found.units)} in {waves} and {counted(found.outcomes, 'outcome')}"
        f"{absent}. The campaign is {_stands(of)}."
    )


def _stands(of: Material) -> str:
    now = of.now
    return f"in wave {now.wave} of {len(now.sizes)}" if now.condition == "open" else now.condition


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
    at_once = ", for all comparisons at once," if several else ""
    return (
        f"How to read this: a {level} interval is made so that{at_once} it holds the true value in "
        f"{level} of campaigns like this one. An action is called clearly better or worse where "
        "its interval lies on one side of no difference."
    )


def what_to_do(of: Material) -> list[str]:
    """Return what to do next, what comes first first."""
    found = of.found
    said = [f"Look into this before anything else: {warning}" for warning in found.quality.warnings]
    said += violations(of.status.metrics)
    if of.now.stop:
        said.append(
            f"The rule that was fixed beforehand says: {of.now.stop}. Going on all the same takes "
            "a reason, which is kept."
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
        "record": f"Wait for the outcomes of {which}, and record them.",
        "close": f"The outcomes of {which} are in: close it, and learn from it.",
    }.get(of.step or "", f"Go on with {which}.")


def recommended(found: Findings, *, ended: bool) -> list[str]:
    """Return which action to give from now on, and whether a finer rule is worth the trouble."""
    best = found.best
    if best is None:
        return []
    sure = says(found, around(best))
    keep = f"Keep {found.control}" if ended else f"So far {found.control} is to be kept"
    if sure == "worse":
        return [f"{keep}: every other action is clearly worse."]
    if sure == "not clear":
        return [
            f"{keep} unless something else speaks for another action: nothing has been shown to be "
            "better. More outcomes would tell more."
        ]
    who = f"every {found.measure.of}"
    single = f"Give {best.action} to {who}." if ended else (
        f"So far {best.action} for {who} looks best.")  # fmt: skip
    return [single, *_finer(found, best)]


def _finer(found: Findings, best: Answer) -> list[str]:
    """Say whether giving different units different actions is worth it."""
    rule, measure = found.rule, found.measure
    given = rule_shares(found)
    if rule is None or not rule.gain.known or len(given) < 2:
        return []
    gain = measure.amount(rule.gain.estimate, rule.gain.error)
    lead = (
        f"Giving each {measure.of} what fits best ({', '.join(given)}) is expected to bring "
        f"{gain} than {found.control} for everybody ({measure.between(rule.gain)}, approximate)"
    )
    worst = rule.gain.low if measure.direction == "max" else -rule.gain.high
    single = best.interval.estimate if measure.direction == "max" else -best.interval.estimate
    if worst > single:
        return [f"{lead}: that is more than {best.action} for everybody."]
    return [f"{lead}. That this beats {best.action} for everybody has not been shown."]


def rule_shares(found: Findings) -> list[str]:
    """Return what the rule to run next gives to how many, the most first."""
    if found.rule is None:
        return []
    shares = sorted(found.rule.shares.items(), key=lambda one: -one[1])
    return [f"{name} to {percent(round(share, 2))}" for name, share in shares if share >= 0.005]
