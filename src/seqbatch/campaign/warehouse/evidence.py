"""A wave that was summed up elsewhere: learned from, and proven as far as that goes."""

from collections.abc import Sequence
from typing import Any

from seqbatch.campaign.deciding.exact import GroupSums
from seqbatch.campaign.deciding.learning import ended
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.warehouse.dialects import DIALECTS, dialect_of
from seqbatch.campaign.warehouse.result import Row, wave_sums
from seqbatch.campaign.warehouse.rule import rule_of
from seqbatch.campaign.warehouse.statement import header, summed_up

#: What verify says of such waves.
UNPROVEN = (
    "the rows of wave {} are kept elsewhere: its estimate follows from the sums on record, which "
    "are said to come from the campaign's own statement. That they follow from the rows is for who "
    "has the rows to check, by running the statement again"
)


def learned_elsewhere(now: Situation, state: Any, rows: Sequence[Row]) -> Any:
    """Return the state after a wave, by the rows of its result."""
    gathered = GroupSums(now, state)
    gathered.groups = wave_sums(rows, now, state).groups
    return ended(now.made_policy(), state, gathered)


def wrong_statement(now: Situation, state: Any, text: str) -> str:
    """Return why a statement is not the one that sums up the open wave; "" where it is."""
    about = header(text)
    if about.get("what") != "sums" or about.get("dialect") not in DIALECTS:
        return "is no statement of seqbatch campaign sql --what sums"
    if problem := _of_another(now, about):
        return problem
    sql = dialect_of(about["dialect"])
    own = summed_up(now, rule_of(now, state), sql, str(about["units"]), str(about["outcomes"]))
    return "" if own == text else "was changed: the campaign's own statement is another one"


def _of_another(now: Situation, about: dict[str, Any]) -> str:
    """Return whose a statement is, by what it says of itself; "" where it is the open wave's."""
    name, event = about.get("campaign"), about.get("event")
    if (name, event) != (now.name, now.sequence):
        return (
            f"was made for wave {about.get('wave')} of campaign {name!r} after event {event}, not "
            f"for wave {now.wave} of {now.name!r} after event {now.sequence}"
        )
    if about.get("hash") != now.hash:
        return (
            f"was made for another campaign called {name!r}: the hash of its event {event} begins "
            f"with {str(about.get('hash'))[:12]}, here with {now.hash[:12]}"
        )
    return ""


def wrong_evidence(now: Situation, state: Any, said: dict[str, Any]) -> str:
    """Return what is wrong with what a closing says of the rows elsewhere; "" for nothing."""
    if problem := wrong_statement(now, state, said["statement"]):
        return f"the statement {problem}"
    kept = [row["statement"] == said["fingerprint"] for row in said["sums"]]
    return "" if all(kept) else "sums are not those of the statement"
