"""The rule to run next, to apply outside the campaign: as JSON, as SQL, or as a Python program."""

import inspect
import json
from datetime import datetime
from typing import Literal, get_args

from seqbatch.campaign.decide import rule_program
from seqbatch.campaign.decide.next_rule import ExportedRule, RuleKind
from seqbatch.campaign.record.current_situation import Situation, events_until, situation
from seqbatch.campaign.record.store import Event, Reader, Store
from seqbatch.campaign.views.findings_estimates import asked, waves_of
from seqbatch.campaign.views.tree import FittedTree, fit_linear, fit_tree
from seqbatch.campaign.warehouse.dialects import dialect_of
from seqbatch.campaign.warehouse.next_rule import rule_in_sql
from seqbatch.core.threads import one_thread
from seqbatch.errors import CampaignStateError, InvalidArgumentError
from seqbatch.inference.estimates import EQUAL

RuleFormat = Literal["json", "sql", "python"]
#: The coverage of intervals, of which a rule has none.
LEVEL = 0.95


def next_rule(
    store: Store,
    name: str,
    *,
    kind: str,
    file_format: str,
    dialect: str,
    units: str,
    at_event: int | None = None,
    at: datetime | None = None,
) -> str:
    """Return the rule to run next as text.

    Parameters
    ----------
    store, name
        The campaign.
    kind
        ``"linear"``: by the fit to all waves. ``"tree"``: the tree of the findings.
    file_format
        "json", "sql" or "python".
    dialect, units
        For SQL: the dialect, and the table of units.
    at_event, at
        See :func:`~.findings_estimates.findings`.
    """
    for label, value, known in (
        ("kind", kind, get_args(RuleKind)),
        ("file_format", file_format, get_args(RuleFormat)),
    ):
        if value not in known:
            raise InvalidArgumentError(label, f"one of {', '.join(known)}", repr(value))
    sql = dialect_of(dialect)
    sql.table(units)
    with store.read(name) as reader:
        events = events_until(reader.events(), at_event)
        now = situation(events)
        if at is None and at_event is not None:
            at = datetime.fromisoformat(events[-1].at)
        with one_thread():
            exported = _fitted(reader, now, events, kind, at)
    if file_format == "sql":
        return rule_in_sql(exported, sql, units)
    text = json.dumps(exported.plain(), indent=1, ensure_ascii=False)
    return text + "\n" if file_format == "json" else program(text)


def _fitted(
    reader: Reader, now: Situation, events: list[Event], kind: str, at: datetime | None
) -> ExportedRule:
    """Fit the rule, or refuse with the reason why there is none."""
    data = waves_of(reader, now, events, at=at)
    made: ExportedRule | FittedTree | str = "No wave with outcomes is closed."
    if data.waves:
        asking = asked(data, events, LEVEL)
        evidence = asking.summaries[-1].evidence
        if evidence.outcomes and evidence.all_equal:
            made = EQUAL
        elif evidence.outcomes:
            made = fit_linear(asking) if kind == "linear" else fit_tree(asking)
    if isinstance(made, str):
        raise CampaignStateError(
            f"campaign {now.name} has no rule to run next. {made}", code="no-rule"
        )
    return made.exported if isinstance(made, FittedTree) else made


def program(rule: str) -> str:
    """Return a Python program that gives units their actions by a rule, given as JSON."""
    source = inspect.getsource(rule_program)
    blank = 'RULE = "{}"\n'
    assert source.count(blank) == 1
    return source.replace(blank, f"RULE = {rule!r}\n")
