"""A report about a campaign: what was learned, how sure that is, and how it came about."""

from pathlib import Path

from seqbatch.atomic import atomically
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.views.reporting.conduct import allocation, audit, planned_and_done, stopping
from seqbatch.campaign.views.reporting.document import Document
from seqbatch.campaign.views.reporting.first_screen import first_screen, what_to_do
from seqbatch.campaign.views.reporting.for_each import who_gets_what
from seqbatch.campaign.views.reporting.formats import FORMATS
from seqbatch.campaign.views.reporting.learned import metrics, outcomes, quality, value
from seqbatch.campaign.views.reporting.material import Material, gathered
from seqbatch.campaign.views.reporting.methods import assumed, methods
from seqbatch.errors import InvalidArgumentError
from seqbatch.targets import require_target


def require_report(
    out: Path, *, store: Store, force: bool = False, file_format: str | None = None
) -> str:
    """Return the format of a report, or refuse a file that cannot be written."""
    if file_format is not None and file_format not in FORMATS:
        raise InvalidArgumentError("file_format", f"one of {', '.join(FORMATS)}", file_format)
    endings = () if file_format else tuple(f".{ending}" for ending in FORMATS)
    require_target(out, force=force, endings=endings, apart_from={"the store": store.files})
    return file_format or out.suffix.lower().removeprefix(".")


def write_report(
    store: Store, name: str, out: Path, *, file_format: str, at_event: int | None = None
) -> Path:
    """Write a report to a file, whole or not at all; return the file."""
    text = FORMATS[file_format](document(gathered(store, name, at_event=at_event)))
    with atomically(out) as partial:
        partial.write_text(text, encoding="utf-8")
    return out


def document(of: Material) -> Document:
    """Return all that a report says."""
    return Document(
        title=f"Campaign {of.found.name}",
        first=first_screen(of),
        sections=[
            section(of)
            for section in (
                planned_and_done, allocation, outcomes, who_gets_what, value, metrics, quality,
                stopping, audit, methods, assumed,
            )
        ],
        data={
            "campaign": of.found.name,
            "event": of.now.sequence,
            "hash": of.now.hash,
            "next": what_to_do(of),
            "findings": of.found.plain(),
        },
    )  # fmt: skip
