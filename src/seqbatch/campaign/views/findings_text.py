"""Findings in sentences and tables, and the recommendation."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.decide.logged_waves import ENOUGH_EVENTS, ENOUGH_FOR_A_MEAN
from seqbatch.campaign.decide.stopping import inflation_text, look_text
from seqbatch.campaign.record.current_situation import FUTILITY, Situation
from seqbatch.campaign.views.status import violations, wave_list
from seqbatch.display import cell, counted, number, percent
from seqbatch.document import Table
from seqbatch.inference import Interval
from seqbatch.inference.estimates import ENOUGH

if TYPE_CHECKING:
    from seqbatch.campaign.decide.stopping import ActionLook
    from seqbatch.campaign.views.findings import Answer, Findings


# ----------------------------------------------------------------------
# The recommendation: which action to give, and whether a finer rule is worth it.


#: If a rule gives one action to at least this share of units, it counts as one action for all.
NEARLY_ALL = 0.95


def clear(interval: Interval) -> bool:
    """Whether an interval lies on one side of 0."""
    return interval.known and (interval.low > 0 or interval.high < 0)


def around(lift: "Answer") -> Interval:
    """Return the interval shown first: the simultaneous one if there is one."""
    together = lift.together
    return together if together is not None and together.known else lift.interval


def says(found: "Findings", interval: Interval) -> str:
    """Return the verdict of a difference's interval: better, worse or not clear."""
    if not clear(interval):
        return "not clear"
    return "better" if found.measure.better(interval.estimate) else "worse"


def best_given(found: "Findings", *, within: bool = False) -> "Answer | None":
    """Return the best lift among the actions that are still given; only these can be recommended.

    With `within`, consider only the actions that keep within their guardrails.
    """
    sign = 1 if found.measure.direction == "max" else -1
    out = {*found.retired, *(found.barred if within else ())}
    given = [one for one in found.lifts if one.interval.known and one.action not in out]
    return max(given, key=lambda lift: sign * lift.interval.estimate, default=None)


def recommended(found: "Findings", *, ended: bool) -> list[str]:
    """Return which action to give from now on, and whether a finer rule is worth the effort."""
    best = best_given(found)
    if best is None:
        return []
    sure = says(found, around(best))
    keep = f"Keep {found.control}" if ended else f"So far, keep {found.control}"
    if sure == "worse":
        return [f"{keep}: every other action is clearly worse."]
    if sure == "not clear":
        looks = found.stopping.looks
        more = "" if looks and looks[-1].verdict == FUTILITY else " More outcomes may decide it."
        return [
            f"{keep}, unless you have other reasons to change: no action has been shown to be "
            f"better.{more}"
        ]
    if best.action in found.barred:
        return _barred(found, best, keep)
    who = f"every {found.measure.of}{'' if best.among == 1 else ' who may get it'}"
    single = f"Give {best.action} to {who}." if ended else (
        f"So far, {best.action} for {who} looks best.")  # fmt: skip
    return [single, *_finer(found)]


def _barred(found: "Findings", best: "Answer", keep: str) -> list[str]:
    """Say what to do if the best action breaks a guardrail."""
    said = [
        f"Do not give {best.action} to every {found.measure.of} yet: it brings the most, but "
        "violates a guardrail."
    ]
    other = best_given(found, within=True)
    if other is not None and says(found, around(other)) == "better":
        return [*said, f"Among the actions within their guardrails, {other.action} is best."]
    if found.control in found.barred:
        return [*said, f"{found.control} also violates a guardrail."]
    return [*said, f"{keep}: no action within its guardrails has been shown to be better."]


def _finer(found: "Findings") -> list[str]:
    """Say whether it is worth giving different units different actions."""
    shares = given_shares(found)
    if found.rule is None or not found.rule.gain.known or for_everybody(found) is not None:
        return []
    if found.barred & shares.keys():
        return []
    given = ", ".join(f"{name} to {percent(share)}" for name, share in shares.items())
    return [
        f"Giving each {found.measure.of} the action predicted to be best ({given}) "
        f"{expected(found)}"
    ]


def given_shares(found: "Findings") -> dict[str, float]:
    """Return the share of units per action under the rule to run next, the largest first."""
    shares = {} if found.rule is None else found.rule.shares
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    return {name: round(share, 2) for name, share in ordered if share >= 0.005}


def for_everybody(found: "Findings") -> str | None:
    """Return the action that the rule to run next gives to nearly all units, if there is one."""
    shares = given_shares(found)
    return next((name for name, share in shares.items() if share >= NEARLY_ALL), None)


def expected(found: "Findings") -> str:
    """Say how much the rule to run next is expected to gain, and whether it beats simpler rules."""
    assert found.rule is not None
    gain, measure = found.rule.gain, found.measure
    lead = (
        f"is expected to bring {measure.amount(gain.estimate, gain.error)} than {found.control} "
        f"for every {measure.of} ({measure.between(gain)}, approximate, from the last wave only)"
    )
    best = best_given(found)
    if best is not None and best.among < 1:
        # Some units may not get this action, so giving it to all units is not an option.
        return f"{lead}."
    if best is None or says(found, around(best)) != "better":
        return f"{lead}.{'' if clear(gain) else f' {_not_shown(found, found.control)}'}"
    # The single action's lift is uncertain as well, so the intervals must not overlap.
    one = around(best)
    beaten = gain.low > one.high if measure.direction == "max" else gain.high < one.low
    return f"{lead}: better than {best.action} for every {measure.of}." if beaten else (
        f"{lead}. {_not_shown(found, best.action)}")  # fmt: skip


def _not_shown(found: "Findings", action: str) -> str:
    return f"It has not been shown that this beats {action} for every {found.measure.of}."


# ----------------------------------------------------------------------
# The findings as tables.


def tables(found: "Findings") -> list[Table]:
    """Return all results as tables; empty tables are left out."""
    return [table for _, table in with_sections(found)]


def with_sections(found: "Findings") -> list[tuple[str, Table]]:
    """Return the tables, each with the report section that it belongs to."""
    made = [
        ("outcomes", _lifts(found)),
        ("outcomes", _means(found)),
        ("value", _run(found)),
        ("who", _rule_table(found)),
        ("who", _segments(found)),
        ("who", _splits(found)),
        ("outcomes", _waves(found)),
        ("stopping", _looks(found)),
        ("quality", _drift(found)),
        ("quality", _quality(found)),
        ("methods", _naive(found)),
    ]
    return [(section, table) for section, table in made if table.rows]


def placed(found: "Findings") -> dict[str, list[Table]]:
    """Return the tables by report section."""
    made: dict[str, list[Table]] = defaultdict(list)
    for section, table in with_sections(found):
        made[section].append(table)
    return made


def _columns(found: "Findings") -> tuple[str, str, str]:
    return (found.measure.head, f"{percent(found.level)} from", "to")


def _lifts(found: "Findings") -> Table:
    looks = bool(found.stopping.looks)
    wider = looks or len(found.lifts) > 1
    rows = []
    for lift in found.lifts:
        row = [lift.action, *found.measure.cells(lift.interval)]
        if wider and lift.together is not None:
            row += found.measure.cells(lift.together)[1:]
        rows.append([*row, p_text(lift.interval.p_value)])
    extra = ("jointly from", "jointly to") if wider else ()
    columns = ("action", *_columns(found), *extra, "p (one look)" if looks else "p")
    title = f"What each action brings over {found.control}"
    if any(lift.among < 1 for lift in found.lifts):
        # These lifts are for different groups of units and cannot be compared with each other.
        columns = (*columns, f"of all {found.measure.of}s")
        shares = [percent(round(lift.among, 3)) for lift in found.lifts]
        rows = [[*row, share] for row, share in zip(rows, shares, strict=True)]
    return Table(title, columns, rows, words=("action",))


def _means(found: "Findings") -> Table:
    rows = [
        [mean.action, *found.measure.cells(mean.interval), len(mean.waves)] for mean in found.means
    ]
    title = "The mean outcome if all units got the action"
    if any(mean.among < 1 for mean in found.means):
        title = "The mean outcome if all units that may get the action did"
    return Table(title, ("action", *_columns(found), "waves"), rows, words=("action",))


def _run(found: "Findings") -> Table:
    if found.run is None:
        return Table("", (), [])
    run = found.run
    every = [run.value, run.over_random, *run.over_actions.values(), run.over_best]
    return _intervals(found, "The campaign as run", every)


def _rule_table(found: "Findings") -> Table:
    if found.rule is None:
        return Table("", (), [])
    rows = [[name, f"{share:.1%}"] for name, share in found.rule.shares.items()]
    title = f"The rule to run next ({found.rule.supported:.1%} of units could have got its action)"
    return Table(title, ("action", "share of units"), rows, words=("action",))


def _intervals(found: "Findings", title: str, intervals: Sequence[Interval]) -> Table:
    rows = [[one.about, *found.measure.cells(one), one.note] for one in intervals]
    columns = ("about", *_columns(found), "note")
    return Table(title, columns, rows, words=("about", "note"))


def _segments(found: "Findings") -> Table:
    rows = [
        [one.by, one.segment, one.action, *found.measure.cells(one.interval),
         p_text(one.adjusted_p)]
        for one in found.segments
    ]  # fmt: skip
    columns = ("by", "segment", "action", *_columns(found), "p (Holm)")
    title = f"Lifts over {found.control} in declared segments"
    return Table(title, columns, rows, words=("by", "segment", "action"), keys=3)


def _splits(found: "Findings") -> Table:
    rows = [
        [split_text(one.column, one.threshold), one.action, found.measure.cells(one.above)[0],
         found.measure.cells(one.below)[0], *found.measure.cells(one.difference),
         p_text(one.adjusted_p)]
        for one in found.splits
    ]  # fmt: skip
    columns = ("units with", "action", "their lift", "lift of others", "difference",
               f"{percent(found.level)} from", "to", "p (Holm)")  # fmt: skip
    title = "Splits found in the first wave, tested in the later ones"
    return Table(title, columns, rows, words=("units with", "action"), keys=2)


def split_text(column: str, threshold: float) -> str:
    """Say which units lie above a split.

    >>> split_text("age", 41.25), split_text("zip=urban", 0.0)
    ('age above 41.2', 'zip=urban')
    """
    return column if "=" in column and "*" not in column else f"{column} above {threshold:.3g}"


def _waves(found: "Findings") -> Table:
    rows: list[list[Any]] = []
    for mean in found.means:
        for one in mean.waves:
            cells = found.measure.cells(one.interval)
            rows.append([one.wave, mean.action, *cells, f"{one.effective:,.0f}"])
    rows.sort(key=lambda row: row[0])
    columns = ("wave", "action", *_columns(found), "effective outcomes")
    return Table("Wave by wave", columns, rows, words=("action",), keys=2)


def _looks(found: "Findings") -> Table:
    rows = [
        [look.wave, one.action, f"{one.information:.0%}", f"{one.statistic:.3f}",
         "" if one.boundary is None else f"{one.boundary:.3f}",
         "" if one.futility is None else f"{one.futility:.3f}", *_ends(found, one), look.verdict]
        for look in found.stopping.looks
        for one in look.actions
    ]  # fmt: skip
    columns = ("wave", "action", "information", "statistic", "boundary", "futility",
               "repeated from", "to", "rule says")  # fmt: skip
    title = f"Looks ({found.stopping.rule}, total alpha {found.stopping.alpha:g})"
    return Table(title, columns, rows, words=("action", "rule says"), keys=2)


def _ends(found: "Findings", one: "ActionLook") -> tuple[str, str]:
    """Return a look's repeated interval, or empty texts if it has no bounds."""
    if one.low is None or one.high is None or not one.boundary:
        return "", ""
    error = (one.high - one.low) / 2 / one.boundary
    low, high = (found.measure.number(end, error, digits=2) for end in (one.low, one.high))
    return low, high


def _drift(found: "Findings") -> Table:
    rows = [
        [one.about, *_statistic(one.kind, number(one.statistic, 3)), p_text(one.p)]
        for one in found.drift
    ]
    columns = ("about", "chi-square", "largest shift (sd)", "p (Holm)")
    return Table("The same in all waves?", columns, rows, words=("about",))


def _statistic(kind: str, text: str) -> tuple[str, str]:
    """Return a test statistic in the column of its kind: outcomes or features."""
    return ("", text) if kind == "feature" else (text, "")


def _quality(found: "Findings") -> Table:
    rows = [
        [one.wave, action, units, f"{one.expected[action]:,.0f}", one.observed[action],
         one.absent[action], _share(one.missing_share(action)), p_text(one.allocation_p),
         p_text(one.missing_p)]
        for one in found.quality.waves
        for action, units in one.assigned.items()
    ]  # fmt: skip
    columns = ("wave", "action", "units", "expected", "outcomes", "absent", "missing",
               "p (sample ratio)", "p (equally missing)")  # fmt: skip
    title = "Outcomes recorded when each wave was closed"
    return Table(title, columns, rows, words=("action",), keys=2)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _naive(found: "Findings") -> Table:
    every = [lift.naive for lift in found.lifts if lift.naive is not None]
    return _intervals(found, "NOT VALID, for comparison only: what most tools would print", every)


def p_text(p: float | None) -> str:
    """Return a p-value as text.

    >>> p_text(0.04321), p_text(0.00001), p_text(None), p_text(0.7)
    ('0.043', '< 0.001', '', '0.70')
    """
    if p is None or p != p:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


# ----------------------------------------------------------------------
# Sentences, notes and assumptions.


NONE_YET = "No outcomes yet."
EQUAL = "All outcomes so far are equal; there is nothing to compare yet."


def sentences(found: "Findings") -> tuple[str, ...]:
    """Return the results in a few sentences, the most important first."""
    if not found.known:
        return (NONE_YET if not found.open_wave else f"{NONE_YET} {_open(found.open_wave)}",)
    if found.all_equal:
        return (EQUAL,)
    said = [_headline(found)]
    said += [_also(found, lift) for lift in found.lifts if lift is not found.best]
    said += [*violations(found.metrics), *_rule_sentences(found), *_stopping(found)]
    return tuple(said)


def _headline(found: "Findings") -> str:
    """Return the headline: the best lift, and the gain of the run."""
    best = found.best
    if best is None:
        return f"Nothing can be compared with {found.control}: {found.lifts[0].interval.note}"
    lead = compared(found, best.action, around(best)) + among(found, best)
    run = found.run
    if run is None or not run.over_random.known:
        return f"{lead}."
    gain = run.over_random
    # If all probabilities were equal, the gain is 0 up to rounding.
    if abs(gain.estimate) <= 1e-9 * gain.error:
        return f"{lead}; all units were assigned at random."
    return f"{lead}; the adaptive run brought {_gain(found, gain)} than random assignment."


def compared(found: "Findings", action: str, interval: Interval) -> str:
    """State an action's lift over the control, without a full stop."""
    measure = found.measure
    said = f"{measure.amount(interval.estimate, interval.error)} than {found.control}"
    inside = f"({measure.between(interval)}{_together(found)})"
    if clear(interval):
        return f"{action} brings {said} {inside}"
    return f"It is not clear whether {action} differs from {found.control}: {said} {inside}"


def _together(found: "Findings") -> str:
    """Say which other intervals a lift's interval covers jointly with."""
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
    """Say which units a lift is about, if not all of them."""
    if lift.among == 1:
        return ""
    who = f"the {percent(round(lift.among, 3))} of {found.measure.of}s who may get both"
    return f", among {who}"


def _rule_sentences(found: "Findings") -> list[str]:
    """Say which rule to run next, or why none is known."""
    rule = found.rule
    if rule is None:
        return []
    if not rule.gain.known:
        return [f"The rule to run next cannot be evaluated. {rule.gain.note}"]
    shares = given_shares(found)
    given = ", ".join(f"{name} to {percent(share)} of {found.measure.of}s"
                      for name, share in shares.items())  # fmt: skip
    # A single action's value is known better from all waves, and was stated already.
    one = for_everybody(found)
    brings = f"; that {expected(found)}" if one is None else "."
    barred = " This ignores guardrails." if found.barred & shares.keys() else ""
    return [f"To run next, from all data: {given}{brings}{barred}"]


def _stopping(found: "Findings") -> list[str]:
    stopping = found.stopping
    if stopping.looks:
        return [look_text(stopping.looks[-1])]
    return [inflation_text(stopping.inflated)] if stopping.inflated else []


def notes(now: Situation, found: "Findings") -> tuple[str, ...]:
    """Return the notes that a reader needs to know."""
    return (*found.quality.warnings, *_about_actions(now, found), *_about_waves(found),
            *_about_numbers(found))  # fmt: skip


def _about_actions(now: Situation, found: "Findings") -> Iterable[str]:
    if now.masked:
        yield (
            "Only the key names the control; while the campaign is masked, codes are compared "
            f"with the first one, {found.control}."
        )
    elif not found.control_declared:
        yield f"No control was declared; actions are compared with the first one, {found.control}."
    first = {action.name for action in now.spec.actions}
    for name in found.retired:
        yield (
            f"{name} was retired: its estimate uses only the waves in which it was given. If it "
            "was retired because of its results, that estimate is biased."
        )
    for name in found.actions:
        if name not in first:
            yield f"{name} was added later: its estimate uses only the waves in which it was given."
    if found.measure.costs:
        yield "All numbers include the costs of actions."


def _about_waves(found: "Findings") -> Iterable[str]:
    if found.open_wave is not None:
        yield _open(found.open_wave)
    if found.skipped:
        yield f"The policy does not learn from {wave_list(found.skipped)}, as declared at closing."
    if found.late:
        yield (
            f"Since the last wave was closed, {counted(found.late, 'outcome')} of closed waves "
            "arrived or changed. Estimates and intervals include them; looks and closing tests do "
            "not."
        )
    if found.absent:
        yield f"{found.absent:,} units without a row count with the declared outcome."
    thin = sorted({one.wave for mean in found.means for one in mean.waves
                   if one.effective < ENOUGH})  # fmt: skip
    if thin:
        yield (
            f"Some action has fewer than {ENOUGH} effective outcomes in {wave_list(thin)}: the "
            "coverage of intervals has not been verified for so few."
        )
    if few := [mean.few for mean in found.means if mean.few]:
        yield (
            f"Few events (outcomes that differ from the usual one): {', '.join(few)}. With fewer "
            f"than {ENOUGH_FOR_A_MEAN}, the interval of a mean is too narrow."
        )
    for lift in found.lifts:
        if lift.few:
            yield (
                f"Too few events to trust the interval of the {lift.interval.about}: at break-even "
                f"there would be {lift.few} so far, and {ENOUGH_EVENTS} are needed."
            )
    late = sorted({one.wave for lift in found.lifts for one in lift.waves if not one.weight})
    if late:
        yield (
            f"Wave {', '.join(map(str, late))} was not planned, so the pooled estimates leave it "
            "out; read it separately."
        )
    for lift in found.lifts:
        if lift.same_p < 0.01 and len(lift.waves) > 1:
            size = found.measure.number(lift.by_size, lift.interval.error)
            yield (
                f"The {lift.interval.about} differs between waves (p = {lift.same_p:.1g}): read "
                f"the waves one by one. Weighted by wave size, it is {size} {found.measure.head}."
            )


def _about_numbers(found: "Findings") -> Iterable[str]:
    moved = [one.about for one in found.drift if one.kind == "feature" and one.p < 0.01]
    if moved:
        some = ", ".join(moved[:5]) + (", ..." if len(moved) > 5 else "")
        yield f"Feature means differ between waves: {some}."
    if found.measure.direction == "min":
        yield "Less is better: a difference below 0 is an improvement."
    if found.missing == "by features":
        yield (
            "Outcomes are missing more often for some kinds of units; the estimates correct for "
            "this with the features."
        )


def _open(wave: int) -> str:
    return f"Wave {wave} is open; its outcomes count once it is closed."


def assumptions(now: Situation, found: "Findings") -> tuple[tuple[str, str], ...]:
    """Return the assumptions, each with what would break it."""
    gone = found.units - found.outcomes
    told: list[tuple[str, str]] = [
        (
            "Units got their assigned action, drawn with the logged probabilities.",
            "Lists changed by hand. If some units did not get their action, a lift is the effect "
            "of assigning it.",
        ),
        (
            "A unit's action does not change another unit's outcome.",
            "Units that talk to each other, or compete for the same stock.",
        ),
        (
            "Each wave's weight in the pooled estimate was fixed before its outcomes were seen.",
            "Sizes, actions or the end of the campaign chosen by looking at outcomes, other than "
            "by the declared rule.",
        ),
        (
            "An action's mean is an average over the waves.",
            "Effects that change over time: check whether waves differ.",
        ),
    ]
    if gone:
        by = "features and action" if found.missing == "by features" else "the action"
        told.append(
            (
                f"Which {gone:,} outcomes are missing depends only on {by}.",
                "Units that do not respond because of their outcome.",
            )
        )
    if found.absent and now.absent is not None:
        told.append(
            (
                f"Units without a row had the outcome {cell(now.absent)}.",
                "Rows that were lost, or have not arrived yet.",
            )
        )
    if now.spec.cluster is None:
        told.append(
            ("Units are independent.", "Several units that belong to one person: declare cluster.")
        )
    else:
        told.append(
            (
                f"Units of different {now.spec.cluster} are independent.",
                "Dependence between clusters; fewer than 30 clusters.",
            )
        )
    return tuple(told)


def remarks(found: "Findings") -> list[str]:
    """Return the remarks below the tables: notes and assumptions."""
    said = [f"Note: {note}" for note in found.notes]
    said += [f"Assumed: {what} What would break it: {how}" for what, how in found.assumptions]
    return said


def basis(found: "Findings") -> str:
    """Describe the data behind the findings in one line."""
    waves = counted(len(found.waves), "wave")
    return (
        f"Campaign {found.name} ({found.condition}): {waves}, {counted(found.units, 'unit')}, "
        f"{counted(found.outcomes, 'outcome')}."
    )
