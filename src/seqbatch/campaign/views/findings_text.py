"""Findings in tables, with notes and assumptions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.decide.stopping import inflation_text, look_text
from seqbatch.campaign.record.current_situation import Situation, condition_text
from seqbatch.campaign.spec.spec import rule_name
from seqbatch.campaign.views.action_differences import differences_table
from seqbatch.campaign.views.adjusted_lifts import ERRS, adjusted_sentence
from seqbatch.campaign.views.conditional_powers import conditional_table
from seqbatch.campaign.views.metrics import (
    broken_sentences,
    metric_notes,
    metric_tables,
)
from seqbatch.campaign.views.selected_action import selected_sentence
from seqbatch.campaign.views.status import wave_list
from seqbatch.display import cell, counted, number, percent
from seqbatch.document import Table
from seqbatch.inference import Interval
from seqbatch.inference.estimates import ENOUGH

if TYPE_CHECKING:
    from seqbatch.campaign.decide.stopping import ActionLook
    from seqbatch.campaign.views.findings import Answer, Findings


# ----------------------------------------------------------------------
# What an interval says.


def clear(interval: Interval) -> bool:
    """Whether an interval lies on one side of 0."""
    return interval.known and (interval.low > 0 or interval.high < 0)


def says(found: "Findings", interval: Interval) -> str:
    """Return the verdict of a difference's interval: better, worse or not clear."""
    if not clear(interval):
        return "not clear"
    return "better" if found.measure.better(interval.estimate) else "worse"


# ----------------------------------------------------------------------
# The findings as tables.


def tables(found: "Findings") -> list[Table]:
    """Return all results as tables; empty tables are left out."""
    return [table for _, table in with_sections(found)]


def with_sections(found: "Findings") -> list[tuple[str, Table]]:
    """Return the tables, each with the report section that it belongs to."""
    made = [
        ("outcomes", _lifts(found)),
        ("outcomes", _adjusted(found)),
        ("outcomes", _means(found)),
        ("value", _run(found)),
        *(("metrics", table) for table in metric_tables(found)),
        ("who", _rule_table(found)),
        ("who", _segments(found)),
        ("who", _splits(found)),
        ("outcomes", _lifts_by_wave(found)),
        ("outcomes", _means_by_wave(found)),
        ("methods", _same(found)),
        ("stopping", _looks(found)),
        ("stopping", conditional_table(found)),
        ("quality", _drift(found)),
        ("quality", _quality(found)),
        ("methods", differences_table(found)),
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
    return (found.measure.column, f"{percent(found.level)} from", "to")


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
    title = f"What each action brings over {found.control}: {found.measure.head}"
    if any(lift.among < 1 for lift in found.lifts):
        # These lifts are for different groups of units and cannot be compared with each other.
        columns = (*columns, f"of all {found.measure.of}s")
        shares = [percent(round(lift.among, 3)) for lift in found.lifts]
        rows = [[*row, share] for row, share in zip(rows, shares, strict=True)]
    return Table(title, columns, rows, words=("action",))


def _adjusted(found: "Findings") -> Table:
    """Return the adjusted lifts, each beside the plain estimate that the looks tested."""
    measure, end = found.measure, found.stopping.end
    if end is None:
        return Table("", (), [])
    errs = f"plain estimate ({ERRS[end.verdict]})" if end.verdict in ERRS else "plain estimate"
    rows = [
        [lift.action, *measure.cells(lift.adjusted), p_text(lift.adjusted.p_value),
         measure.cells(lift.same)[0]]
        for lift in found.lifts
        if lift.adjusted is not None and lift.same is not None
    ]  # fmt: skip
    together = ", jointly" if len(found.lifts) > 1 else ""
    level = f"{percent(found.level)}{together} from"
    columns = ("action", measure.column, level, "to", "p (all looks)", errs)
    title = "Lifts adjusted for the looks (median-unbiased, by stage-wise ordering)"
    return Table(title, columns, rows, words=("action",))


def _means(found: "Findings") -> Table:
    rows = [
        [mean.action, *found.measure.cells(mean.interval), len(mean.waves)] for mean in found.means
    ]
    who = " that may get it" if any(mean.among < 1 for mean in found.means) else ""
    title = f"Mean {found.measure.head}, if all {found.measure.of}s{who} got the action"
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
    columns: tuple[str, ...] = ("by", "segment", "action", *_columns(found), "p (Holm)")
    if any(one.among < 1 for one in found.segments):
        columns = (*columns, "who may get both")
        shares = [percent(round(one.among, 3)) for one in found.segments]
        rows = [[*row, share] for row, share in zip(rows, shares, strict=True)]
    if any(one.unknown for one in found.segments):
        columns = (*columns, "note")
        rows = [
            [*row, one.interval.note if one.unknown else ""]
            for row, one in zip(rows, found.segments, strict=True)
        ]
    title = f"Lifts over {found.control} in declared segments"
    return Table(title, columns, rows, words=("by", "segment", "action", "note"), keys=3)


def _splits(found: "Findings") -> Table:
    rows = [
        [split_text(one.column, one.threshold), one.action, found.measure.cells(one.above)[0],
         found.measure.cells(one.below)[0], *found.measure.cells(one.difference),
         p_text(one.adjusted_p)]
        for one in found.splits
    ]  # fmt: skip
    columns: tuple[str, ...] = (
        "units with", "action", "their lift", "lift of others", "difference",
        f"{percent(found.level)} from", "to", "p (Holm)",
    )  # fmt: skip
    if not all(one.difference.known for one in found.splits):
        columns = (*columns, "note")
        rows = [
            [*row, "" if one.difference.known else one.difference.note]
            for row, one in zip(rows, found.splits, strict=True)
        ]
    title = "Splits found in the first wave, tested in the later ones"
    return Table(title, columns, rows, words=("units with", "action", "note"), keys=2)


def split_text(column: str, threshold: float) -> str:
    """Say which units lie above a split.

    >>> split_text("age", 41.25), split_text("zip=urban", 0.0)
    ('age above 41.2', 'zip=urban')
    """
    return column if "=" in column and "*" not in column else f"{column} above {threshold:.3g}"


def _lifts_by_wave(found: "Findings") -> Table:
    title = f"What each action brought over {found.control}, wave by wave: {found.measure.head}"
    return _by_wave(found, title, found.lifts) if len(found.waves) > 1 else Table("", (), [])


def _means_by_wave(found: "Findings") -> Table:
    title = f"Mean {found.measure.head}, if all {found.measure.of}s got the action, wave by wave"
    return _by_wave(found, title, found.means)


def _by_wave(found: "Findings", title: str, answers: "Sequence[Answer]") -> Table:
    rows: list[list[Any]] = []
    for answer in answers:
        for one in answer.waves:
            cells = found.measure.cells(one.interval)
            rows.append([one.wave, answer.action, *cells, f"{one.effective:,.0f}"])
    rows.sort(key=lambda row: row[0])
    columns = ("wave", "action", *_columns(found), "effective outcomes")
    return Table(title, columns, rows, words=("action",), keys=2)


def _same(found: "Findings") -> Table:
    rows = [
        [lift.action, *found.measure.cells(lift.same), p_text(lift.same_p)]
        for lift in found.lifts
        if lift.same is not None and lift.same.known and len(lift.waves) > 1
    ]
    columns = ("action", *_columns(found), "p (the same)")
    return Table("Lifts if they were the same in every wave", columns, rows, words=("action",))


def _looks(found: "Findings") -> Table:
    rows = [
        [look.wave, one.action, f"{one.information:.0%}",
         "" if one.statistic is None else f"{one.statistic:.3f}",
         "" if one.boundary is None else f"{one.boundary:.3f}",
         "" if one.futility is None else f"{one.futility:.3f}", *_ends(found, one), look.verdict]
        for look in found.stopping.looks
        for one in look.actions
    ]  # fmt: skip
    columns = ("wave", "action", "information", "statistic", "boundary", "futility",
               "repeated from", "to", "rule says")  # fmt: skip
    title = f"Looks ({rule_name(found.stopping.rule)}, total alpha {found.stopping.alpha:g})"
    return Table(title, columns, rows, words=("action", "rule says"), keys=2)


def _ends(found: "Findings", one: "ActionLook") -> tuple[str, str]:
    """Return a look's repeated interval, or empty texts if it has no bounds."""
    if one.low is None or one.high is None or not one.boundary:
        return "", ""
    error = (one.high - one.low) / 2 / one.boundary
    low, high = (found.measure.number(end, error, digits=2) for end in (one.low, one.high))
    return low, high


#: What the test of each kind reports.
STATISTICS = {"lift": "chi-square {}", "level": "F {}", "feature": "largest shift {} sd"}


def _drift(found: "Findings") -> Table:
    rows = [
        [one.about, STATISTICS[one.kind].format(number(one.statistic, 3)), p_text(one.p)]
        for one in found.drift
    ]
    columns = ("about", "statistic", "p")
    words = ("about", "statistic")
    return Table("The same in all waves?", columns, rows, words=words)


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
#: With a larger standard deviation of log amounts, a cap is proposed.
WIDE = 1.2
EQUAL = "All outcomes so far are equal; there is nothing to compare yet."


def details(found: "Findings") -> list[str]:
    """Return what the appendix says beyond the decision and the tables."""
    best, rule = found.best, found.rule
    said = [*broken_sentences(found), *selected_sentence(found)]
    if best is not None and (adjusted := adjusted_sentence(found, best)):
        said.append(f"{best.action}:{adjusted}")
    if rule is not None and not rule.gain.known:
        said.append(f"The rule to run next cannot be evaluated. {rule.gain.note}")
    return [*said, *_stopping(found)]


def _stopping(found: "Findings") -> list[str]:
    stopping = found.stopping
    if stopping.looks:
        return [look_text(stopping.looks[-1])]
    return [inflation_text(stopping.inflated)] if stopping.inflated else []


def notes(now: Situation, found: "Findings") -> tuple[str, ...]:
    """Return the notes that a reader needs to know."""
    return (*found.quality.warnings, *_about_actions(now, found), *_about_erased(now),
            *_about_waves(found), *_about_numbers(found))  # fmt: skip


def _about_erased(now: Situation) -> Iterable[str]:
    if not now.erased:
        return
    said = f"{counted(now.erased, 'unit')} erased; the estimates leave them out."
    if now.erased_learned:
        said += (
            f" Outcomes of {now.erased_learned:,} of them are still in the sums by which the "
            "policy chose actions, and in the looks so far."
        )
    yield said


def _about_actions(now: Situation, found: "Findings") -> Iterable[str]:
    if now.masked:
        yield (
            "Only the key names the control; while the campaign is masked, codes are compared "
            f"with the first one, {found.control}."
        )
        if now.looked:
            yield (
                "The key holder's looks are not known here: estimates are not adjusted for them, "
                "and intervals are for a single look. Unmask the campaign, or read the findings "
                "with the key."
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
        yield f"All numbers of {found.measure.noun} include the costs of actions; metrics do not."


def _waited_for(waves: Sequence[int]) -> str:
    return (
        f"Left out: {wave_list(waves)}. Units without an outcome do not count as absent there yet, "
        "and those with an outcome, such as buyers, are not like the others."
    )


def _about_waves(found: "Findings") -> Iterable[str]:
    if found.open_wave is not None:
        yield _open(found.open_wave)
    if found.waiting:
        yield _waited_for(found.waiting)
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
    for one in found.lifts:
        if one.same_p < 0.01 and len(one.waves) > 1:
            yield (
                f"The {one.interval.about} differs between waves (p = {one.same_p:.1g}): read the "
                "waves one by one."
            )
    # A lift that changed moves the level, too: then the level by itself says nothing.
    same = all(test.p >= 0.05 for test in found.drift if test.kind == "lift")
    for test in found.drift:
        if test.kind == "level" and test.p < 0.01 and same:
            yield (
                f"Outcomes of all actions moved between waves (p = {test.p:.1g}). Means are "
                "averages over the units of this campaign, not forecasts; differences between "
                "actions are not affected."
            )


def _about_numbers(found: "Findings") -> Iterable[str]:
    moved = [one.about for one in found.drift if one.kind == "feature" and one.p < 0.01]
    if moved:
        some = ", ".join(moved[:5]) + (", ..." if len(moved) > 5 else "")
        yield f"Feature means differ between waves: {some}."
    if found.measure.direction == "min":
        yield "Less is better: a difference below 0 is an improvement."
    if found.spread is not None and found.spread > WIDE and found.measure.cap is None:
        yield (
            f"Amounts differ very much (standard deviation of their logarithms "
            f"{found.spread:.1f}): a few large ones decide the result, and upper limits of means "
            "and of the value may be too low. In your next campaign declare a cap of the metric, "
            "above which amounts count as the cap."
        )
    yield from metric_notes(found)
    for name in found.scarce:
        yield (
            f"For some kinds of units hardly any outcome of {name} came back; what is said about "
            "them rests on the model."
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
            "Estimates are averages over the campaign's units: each wave counts by its size.",
            "Nothing, if effects change between waves; but the average is then no forecast.",
        ),
        (
            "The campaign ended as planned, or by the declared rule.",
            "An end, sizes or actions chosen by looking at outcomes in another way.",
        ),
    ]
    if gone:
        told.append(
            (
                f"Which {gone:,} outcomes are missing depends only on features and action.",
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
        f"Campaign {found.name} ({condition_text(found.condition)}): {waves}, "
        f"{counted(found.units, 'unit')}, {counted(found.outcomes, 'outcome')}. "
        f"Measured: {found.measure.head}; "
        f"{found.measure.wanted}."
    )
