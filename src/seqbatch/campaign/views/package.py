"""Packages: everything about a campaign in one archive, which can be verified elsewhere."""

import hashlib
import json
import platform
import tempfile
import zipfile
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from seqbatch.campaign.record.current_situation import Situation, situation
from seqbatch.campaign.record.rehearsal_file import RehearsalFile
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.views.interim import Sight
from seqbatch.campaign.views.protocol import protocol
from seqbatch.campaign.views.report import report
from seqbatch.campaign.views.report_results import gathered
from seqbatch.campaign.views.seal import Seal
from seqbatch.document import as_html
from seqbatch.errors import CampaignStateError, Remedy, StoreError
from seqbatch.output_files import atomically

#: The packages whose versions may matter for the numbers.
SOFTWARE = ("seqbatch", "numpy", "scipy", "polars", "pyarrow", "pydantic", "sqlalchemy")
#: How often to begin again if the campaign changes meanwhile.
TRIES = 3
README = """\
Package of campaign {name}, as of event {event} ({at}).

To verify it, unpack it and run

    python verify.py

Python 3.11 or later is enough to check files, events and seal. With seqbatch {version} installed,
every decision, estimate and look is computed again.

spec.json       the spec as declared
protocol.html   the design, for a committee, with later changes and signatures
{rehearsal}report.html     the results, how they came about, and the flow of units
findings.json   the results as data
record.db       the record: events, units, decisions, outcomes (SQLite; a store of seqbatch)
seal.json       the hash of the newest event
versions.json   the software that made this package
manifest.json   the SHA-256 of every file
"""


def package(
    store: Store,
    name: str,
    out: Path,
    *,
    rehearsal: str | Path | None,
    sight: Sight,
) -> str:
    """Write the package; return the hash of the newest event in it.

    It is as of that event: the same record gives the same bytes with the same software.
    """
    read = None if rehearsal is None else RehearsalFile.read(rehearsal)
    content = None if rehearsal is None else Path(rehearsal).read_bytes()
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as scratch:
            record = Path(scratch) / "record.db"
            with store.read(name) as reader:
                events = reader.events()
            now = situation(events)
            _require_open(now, sight)
            store.copy(name, record)
            made = _parts(store, events, now, read)
            with store.read(name) as reader:
                if reader.newest()[0] != now.sequence:
                    continue
            if content is not None:
                made["rehearsal.json"] = content
            made["record.db"] = record.read_bytes()
            _write(made, out)
            return now.hash
    raise StoreError(
        f"campaign {name} changed {TRIES} times while it was packaged; nothing was written. Try "
        "again when it is not in use.",
        code="busy",
    )


def _require_open(now: Situation, sight: Sight) -> None:
    """Refuse a package that would show what the caller may not see: results, or the seed."""
    sight.require_results(now)
    if not sight.shows_seed(now):
        raise CampaignStateError(
            f"the record of campaign {now.name} holds its seed, with which actions can be "
            "foreseen. The campaign is masked or withholds results, so only the holder of the key",
            Remedy("key"),
            " or an admin can package it.",
            code="withheld",
        )


def _parts(
    store: Store, events: list[Event], now: Situation, rehearsal: RehearsalFile | None
) -> dict[str, bytes]:
    """Return the files of a package, except for the record."""
    at = datetime.fromisoformat(events[-1].at)
    of = gathered(store, now.name, at_event=now.sequence, at=at)
    # No other campaign is in the package, deleted or not.
    sealed = Seal(
        campaign=now.name, event=now.sequence, hash=now.hash, units=now.assigned,
        waves=len(now.closes), deleted=0, tombstone="", at=events[-1].at,
    )  # fmt: skip
    used = {name: version(name) for name in SOFTWARE}
    line = "rehearsal.json  what the spec would do, before any unit was treated\n"
    told = README.format(
        name=now.name, event=now.sequence, at=events[-1].at[:19], version=used["seqbatch"],
        rehearsal=line if rehearsal is not None else "",
    )  # fmt: skip
    script = files("seqbatch.campaign.views").joinpath("packaged_verify.py")
    return {
        "README.txt": told.encode(),
        "verify.py": script.read_bytes(),
        "spec.json": _json(events[0].payload["spec"]),
        "protocol.html": as_html(protocol(events, rehearsal)).encode(),
        "report.html": as_html(report(of)).encode(),
        "findings.json": _json(of.found.plain()),
        "seal.json": _json(asdict(sealed)),
        "versions.json": _json({**used, "python": platform.python_version()}),
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _write(parts: dict[str, bytes], out: Path) -> None:
    """Write the archive; only its owner may read it, because it has every unit."""
    hashes = {name: hashlib.sha256(parts[name]).hexdigest() for name in sorted(parts)}
    whole = {**parts, "manifest.json": _json({"files": hashes})}
    with atomically(out, private=True) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name in sorted(whole):
            # Without the time of its making, the same files give the same bytes.
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, whole[name])
