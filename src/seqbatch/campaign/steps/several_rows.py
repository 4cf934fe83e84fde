"""Several rows of one unit, and equal rows: refusals that ask what they mean."""

from collections.abc import Sequence

from seqbatch.campaign.decide.outcome_columns import NOTHING, OutcomeColumns
from seqbatch.campaign.decide.row_verdicts import SecondRow
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.metrics import COMBINATIONS, SENSIBLE, Metric
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps.row_log import EqualCounts
from seqbatch.display import counted
from seqbatch.errors import InvalidFileError, Part, Remedy, RowProblem


def several_rows_refused(
    source: Source, spec: Spec, seconds: Sequence[SecondRow]
) -> InvalidFileError:
    """Return the refusal of a file with several rows of a unit, if the spec does not allow them."""
    problems = [
        RowProblem(
            each.line,
            spec.metrics[each.metric].column,
            f"unit {each.unit!r} has {each.values[1]:g} here and {each.values[0]:g} in "
            f"{source.place} {each.earlier:,}",
            "several-rows",
        )
        for each in seconds
    ]
    names = list(dict.fromkeys(each.metric for each in seconds))
    advice: list[Part] = []
    for name in names:
        metric = spec.metrics[name]
        ways = SENSIBLE[metric.kind]
        others = [way for way in COMBINATIONS if way not in ways]
        advice.append(
            f"metrics.{name} does not say what several rows of one unit mean. Amend it with "
            f"rows = {_either(ways)}, and record the file again"
            f"{_for_others(metric, others)}.\n"
        )
    advice[-1] = str(advice[-1]).rstrip()
    remedies = [
        Remedy("amend", metrics={name: {"rows": way}}, reason=...)
        for name in names
        for way in SENSIBLE[spec.metrics[name].kind]
    ]
    return source.invalid(problems, NOTHING, code="several-rows", remedies=remedies, advice=advice)


def _either(ways: Sequence[str]) -> str:
    *most, last = (f'"{way}"' for way in ways)
    return f"{', '.join(most)} or {last}"


def _for_others(metric: Metric, others: Sequence[str]) -> str:
    if not others:
        return ""
    kinds = [kind for kind, ways in SENSIBLE.items() if set(others) & set(ways)]
    return f" ({_either(others)} needs a metric of the kind {_either(kinds)}, not {metric.kind})"


def equal_rows_refused(
    source: Source, columns: OutcomeColumns, equal: EqualCounts
) -> InvalidFileError:
    """Return the refusal of a file with equal rows, if only the user knows what they mean."""
    problems = [
        RowProblem(line, "", f"unit {unit!r}: equals {_earlier(source, earlier)}", "equal-rows")
        for line, unit, earlier in equal.examples
    ]
    where = [
        f"{counted(equal.in_file, 'row')} of the file {_verb(equal.in_file)} an earlier row of it"
        if equal.in_file else "",
        f"{counted(equal.in_record, 'row')} {_verb(equal.in_record)} one that was recorded before"
        if equal.in_record else "",
    ]  # fmt: skip
    names = ", ".join(f"metrics.{one.name}" for one in columns.metrics if one.rows)
    advice: list[Part] = [
        f"{'; '.join(filter(None, where))}. No column identifies a row (row_id of {names}), so "
        "only you know whether they are the same order twice or separate orders. Record the file "
        "again: drop them",
        Remedy("record", equal_rows="drop"),
        ", or keep and count them",
        Remedy("record", equal_rows="keep"),
        ". If the file has a column of order ids, declare it as row_id instead: the same order "
        "then counts once, however often it is delivered.",
    ]
    return source.invalid(problems, NOTHING, code="equal-rows", advice=advice)


def _verb(count: int) -> str:
    return "equals" if count == 1 else "equal"


def _earlier(source: Source, line: int) -> str:
    if line < 0:
        return "a row that was recorded before"
    return f"{source.place} {line:,}" if line else f"an earlier {source.place}"
