"""What was learned, as tables: the same on a terminal, in a notebook and on a page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.views.measure import percent
from seqbatch.display import Table, number
from seqbatch.inference import Interval

if TYPE_CHECKING:
    from seqbatch.campaign.deciding.stopping import ActionLook
    from seqbatch.campaign.views.findings import Findings


def tables(found: "Findings") -> list[Table]:
    """Return all answers as tables; those without a row are left out."""
    return [table for _, table in with_sections(found)]


def with_sections(found: "Findings") -> list[tuple[str, Table]]:
    """Return the same tables, each with the section of a report in which it stands."""
    made = [
        ("outcomes", _lifts(found)),
        ("outcomes", _means(found)),
        ("value", _run(found)),
        ("who", _rule(found)),
        ("who", _segments(found)),
        ("who", _splits(found)),
        ("outcomes", _waves(found)),
        ("stopping", _looks(found)),
        ("quality", _drift(found)),
        ("quality", _quality(found)),
        ("methods", _naive(found)),
    ]
    return [(section, table) for section, table in made if table.rows]


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
    extra = ("all together from", "to together") if wider else ()
    columns = ("action", *_columns(found), *extra, "p (one look)" if looks else "p")
    title = f"What each action brings over {found.control}"
    if any(lift.among < 1 for lift in found.lifts):
        # Lifts of different people are not to be compared with each other.
        columns = (*columns, f"of all {found.measure.of}s")
        shares = [percent(round(lift.among, 3)) for lift in found.lifts]
        rows = [[*row, share] for row, share in zip(rows, shares, strict=True)]
    return Table(title, columns, rows, words=("action",))


def _means(found: "Findings") -> Table:
    rows = [
        [mean.action, *found.measure.cells(mean.interval), len(mean.waves)] for mean in found.means
    ]
    title = "The mean outcome if everybody got it"
    if any(mean.among < 1 for mean in found.means):
        title = "The mean outcome if everybody who may get it did"
    return Table(title, ("action", *_columns(found), "waves"), rows, words=("action",))


def _run(found: "Findings") -> Table:
    if found.run is None:
        return Table("", (), [])
    run = found.run
    every = [run.value, run.over_random, *run.over_actions.values(), run.over_best]
    return _intervals(found, "The campaign as run", every)


def _rule(found: "Findings") -> Table:
    if found.rule is None:
        return Table("", (), [])
    rows = [[name, f"{share:.1%}"] for name, share in found.rule.shares.items()]
    title = f"The rule to run next ({found.rule.supported:.1%} of units had a chance of it)"
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
    title = "Splits suggested by the first wave, judged by the later ones"
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
    title = f"Looks ({found.stopping.rule}, alpha {found.stopping.alpha:g} in all)"
    return Table(title, columns, rows, words=("action", "rule says"), keys=2)


def _ends(found: "Findings", one: "ActionLook") -> tuple[str, str]:
    """Return a look's repeated interval, empty where it has no bounds."""
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
    """Return a statistic in the column of its kind: of outcomes, or of features."""
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
               "p (sample ratio)", "p (missing alike)")  # fmt: skip
    title = "What had come in when each wave was closed"
    return Table(title, columns, rows, words=("action",), keys=2)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _naive(found: "Findings") -> Table:
    every = [lift.naive for lift in found.lifts if lift.naive is not None]
    return _intervals(found, "NOT VALID, for comparison: what most tools would print", every)


def p_text(p: float | None) -> str:
    """Return a p-value as it is shown.

    >>> p_text(0.04321), p_text(0.00001), p_text(None), p_text(0.7)
    ('0.043', '< 0.001', '', '0.70')
    """
    if p is None or p != p:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
