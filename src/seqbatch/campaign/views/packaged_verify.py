"""Verify a package of a campaign: its files, the chain of events, the seal, and every decision."""

# This file is copied into every package as verify.py. Python's standard library is enough to check
# files, events and seal; with seqbatch installed, every decision and estimate is computed again.

import hashlib
import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

EVENT = ("sequence", "kind", "at", "who", "why", "counts", "payload", "rows_hash", "previous",
         "version")  # fmt: skip


def wrong_files(folder: Path) -> Iterator[str]:
    """Yield the files that are missing or changed."""
    listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    for name, expected in listed.items():
        file = folder / name
        if not file.is_file():
            yield f"{name} is missing"
        elif hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            yield f"{name} was changed: its SHA-256 is not the one in manifest.json"


def wrong_events(folder: Path) -> Iterator[str]:
    """Yield the events whose hash or predecessor is wrong, and whether the seal fits."""
    seal = json.loads((folder / "seal.json").read_text(encoding="utf-8"))
    place = (folder / "record.db").as_uri() + "?mode=ro&immutable=1"
    with closing(sqlite3.connect(place, uri=True)) as record:
        query = f"SELECT {', '.join(EVENT)}, hash FROM events ORDER BY sequence"
        rows = record.execute(query).fetchall()
    previous = ""
    for number, row in enumerate(rows, start=1):
        facts: dict[str, Any] = dict(zip(EVENT, row, strict=False))
        for name in ("counts", "payload"):
            facts[name] = json.loads(facts[name])
        if not facts["version"]:
            del facts["version"]
        if facts["sequence"] != number or facts["previous"] != previous:
            yield f"event {number} does not follow the event before it"
        if digest({"campaign": seal["campaign"], **facts}) != row[-1]:
            yield f"event {number} was changed: its hash is not that of its content"
        previous = row[-1]
    if (len(rows), previous) != (seal["event"], seal["hash"]):
        yield "the newest event is not the one that was sealed"


def digest(facts: dict[str, Any]) -> str:
    """Return the hash of an event's facts."""
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return hashlib.blake2b(len(text).to_bytes(8, "little") + text, digest_size=20).hexdigest()


def wrong_decisions(folder: Path) -> list[str]:
    """Return what is found when every decision is computed again; needs seqbatch."""
    campaigns, storage = import_module("seqbatch.campaign"), import_module("seqbatch.storage")
    seal = json.loads((folder / "seal.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        # Opening a store may write to it.
        copy = shutil.copy(folder / "record.db", scratch)
        store = storage.open_store(copy)
        try:
            campaign = campaigns.Campaign.open(seal["campaign"], store=store)
            made = campaign.verify(seal=folder / "seal.json")
        finally:
            store.close()
    print(f"Replayed: {made.units:,} decisions, {made.states:,} estimates.")
    for note in made.notes:
        print(f"Note: {note}.")
    return [str(finding) for finding in made.findings]


def main(folder: Path) -> int:
    """Verify a package; return 0 if nothing is wrong."""
    found = [*wrong_files(folder)]
    found += wrong_events(folder) if not found else []
    if not found:
        print("Files, events and seal: as they were packaged.")
        made_with = json.loads((folder / "versions.json").read_text(encoding="utf-8"))["seqbatch"]
        try:
            found = wrong_decisions(folder)
        except ImportError:
            print(f"Decisions are not replayed: that takes seqbatch {made_with} or later.")
    for problem in found:
        print(problem)
    print("Verified: no discrepancies." if not found else f"NOT verified: {len(found)}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))
