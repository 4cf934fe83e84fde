"""What a spec means, in the words that the command line and the protocol have for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from seqbatch.campaign import Validated
from seqbatch.campaign.deciding.stopping_words import unlooked
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.steps.creating import Prepared
from seqbatch.campaign.views.constraint_words import constraints_said
from seqbatch.campaign.views.policy_words import plainly
from seqbatch.campaign.views.protocol import protocol
from seqbatch.campaign.views.reporting.document import Heading, Items, Section
from seqbatch.display import Table, counted

#: What is of interest before there is a campaign; the rest of a protocol is about its record.
SECTIONS = ("question", "units", "waves", "assignment", "outcomes", "analysis")


@dataclass(frozen=True)
class Told:
    """A part of a section, by what it is: "paragraph", "heading", "items" or "table"."""

    kind: str
    part: object


@dataclass(frozen=True)
class NewWords:
    """A campaign that could be created.

    Parameters
    ----------
    name
        What it is called.
    summary, first_wave
        What will happen, in short and in the first wave.
    sections
        What a protocol would say of it, each with its title.
    """

    name: str
    summary: Sequence[str]
    first_wave: Sequence[str]
    sections: Sequence[tuple[str, Sequence[Told]]]


def words_of(prepared: Prepared, found: Validated, file: str, who: str) -> NewWords:
    """Return what a spec that was checked with a file of units means."""
    now = prepared.now
    sizes = ", ".join(f"{size:,}" for size in now.sizes)
    kind = "expected wave" if now.spec.grid.calendar else "wave"
    names = ", ".join(action.name for action in now.actions)
    better = {"max": "more", "min": "less"}[now.spec.reward.direction]
    summary = [
        f"{counted(len(now.actions), 'action')}: {names}.",
        f"Compared with: {now.spec.control or now.actions[0].name}.",
        f"Learned from: {now.spec.reward.label}; {better} is better.",
        f"{counted(len(now.sizes), kind)} of {sizes} units.",
        f"{plainly(now.policy).capitalize()}.",
        *constraints_said(now.spec),
        *(f"Note: {line}." for line in unlooked(now)),
    ]
    at = datetime.now(UTC).isoformat()
    declared = Event(
        sequence=1, kind="create", at=at, who=who, why="", counts={}, payload=prepared.payload,
        rows_hash="", previous="", hash="",
    )  # fmt: skip
    told = {section.key: section for section in protocol([declared]).sections}
    sections = [(told[key].title, _parts(told[key])) for key in SECTIONS]
    return NewWords(now.name, summary, _first_wave(prepared, found, file), sections)


def _first_wave(prepared: Prepared, found: Validated, file: str) -> list[str]:
    now = prepared.now
    said = []
    if found.units is not None:
        said.append(f"{file}: {counted(found.units, 'unit')} can be assigned.")
    if not now.spec.grid.calendar:
        said.append(f"The first wave has room for {counted(now.sizes[0], 'unit')}.")
    if found.left_over:
        said.append(
            f"It has no room for {found.left_over:,} of the file: assigning can draw as many as "
            "fit, at random, and leave the others for later waves."
        )
    if now.policy.get("first") == "uniform":
        share = f"1 in {len(now.actions)}"
        said.append(f"Nothing is known yet, so that each action is drawn with probability {share}.")
    return said


def _parts(section: Section) -> list[Told]:
    kinds = ((Heading, "heading"), (Items, "items"), (Table, "table"))
    return [
        Told(next((name for kind, name in kinds if isinstance(part, kind)), "paragraph"), part)
        for part in section.parts
    ]
