"""Seals: a campaign's newest hash, kept elsewhere, proves that its history was not cut short.

The hash chain links every event to those before it. But nothing inside a database can show that its
last events were cut off, or that an older copy replaced it. A seal shows both if it is kept where
the database's operator cannot change it: the event that it names must still exist, with the same
hash. The same holds for the tombstones of deleted campaigns. A signed seal also shows who made it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from seqbatch.campaign.record.current_situation import situation
from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.record.store import Reader, Store, Tombstone
from seqbatch.errors import InvalidArgumentError, InvalidFileError, RowProblem
from seqbatch.output_files import atomically

NEEDED = 'signing needs the package cryptography: pip install "seqbatch[signing]"'


@dataclass(frozen=True, kw_only=True)
class Seal:
    """A campaign's newest event and size at one moment, optionally signed.

    Parameters
    ----------
    campaign
        The campaign's name.
    event, hash
        The number and the hash of the newest event.
    units, waves
        The number of assigned units, and of closed waves.
    deleted, tombstone
        The number of the store's deleted campaigns, and the hash of the newest tombstone ("" if
        none was deleted).
    at
        The time of the seal, in UTC.
    key, signature
        The public key and the signature of all fields above, in hexadecimal; empty if not signed.
    """

    campaign: str
    event: int
    hash: str
    units: int
    waves: int
    deleted: int
    tombstone: str
    at: str
    key: str = ""
    signature: str = ""

    def content(self) -> bytes:
        """Return the bytes to sign: everything but the signature."""
        return canonical({**asdict(self), "signature": ""}).encode()

    def write(self, path: str | Path) -> None:
        """Write the seal to a file."""
        with atomically(path) as partial:
            partial.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> "Seal":
        """Read a seal from a file."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            kinds = {name: type(value) for name, value in found.items()}
            if kinds != {field.name: field.type for field in fields(cls)}:
                raise ValueError("its values do not have the names and types of a seal")
            return cls(**found)
        except (ValueError, AttributeError, OSError) as error:
            reason = f"must be a seal of a campaign: {error}"
            problem = RowProblem(0, "", reason, "not-a-seal")
            raise InvalidFileError(str(path), [problem], "nothing was compared") from None


def seal(store: Store, name: str, *, key: str | Path | None = None) -> Seal:
    """Return the seal of a campaign's current state, signed if a private key file is given."""
    with store.read(name) as reader:
        # From the events: the fold may have been changed.
        now = situation(reader.events())
    tombstones = store.tombstones()
    made = Seal(
        campaign=now.name,
        event=now.sequence,
        hash=now.hash,
        units=now.assigned,
        waves=len(now.closes),
        deleted=len(tombstones),
        tombstone=tombstones[-1].hash if tombstones else "",
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return made if key is None else _signed(made, Path(key))


def broken(
    reader: Reader,
    tombstones: Sequence[Tombstone],
    seal: Seal,
    *,
    signer: str | Path | None = None,
) -> list[str]:
    """List the ways in which a campaign contradicts a seal; empty if it does not.

    Parameters
    ----------
    reader
        The campaign's reader; its hash chain is verified elsewhere.
    tombstones
        The tombstones of the store, in order; their hash chain is verified elsewhere.
    seal
        The seal made earlier.
    signer
        The file of a public key; the seal must be signed with the matching private key.
    """
    found = []
    if seal.campaign != reader.name:
        found.append(f"the seal is of campaign {seal.campaign!r}, not of {reader.name!r}")
    last = reader.last_event()
    newest = 0 if last is None else last.sequence
    if newest < seal.event:
        found.append(
            f"the seal is of event {seal.event}, but the newest event here is {newest}: the last "
            "events were removed, or this is an older copy"
        )
    elif reader.event(seal.event).hash != seal.hash:
        found.append(f"event {seal.event} is not the one that was sealed: its hash differs")
    if len(tombstones) < seal.deleted:
        found.append(
            f"the seal counts {seal.deleted} deleted campaigns, but the store has "
            f"{len(tombstones)} tombstones: some were removed, or this is an older copy"
        )
    elif seal.deleted and tombstones[seal.deleted - 1].hash != seal.tombstone:
        found.append(
            f"tombstone {seal.deleted} is not the one that was sealed: a record of a deleted "
            "campaign was changed"
        )
    if seal.signature and not _holds(seal):
        found.append("the signature does not match the seal: it was changed after it was signed")
    if signer is not None and (not seal.signature or seal.key != _public(Path(signer))):
        found.append(f"the seal was not signed by the owner of {signer}")
    return found


def _signed(made: Seal, path: Path) -> Seal:
    private = _key(path, private=True)
    made = replace(made, key=private.public_key().public_bytes_raw().hex())
    return replace(made, signature=private.sign(made.content()).hex())


def _holds(seal: Seal) -> bool:
    ed25519 = _library("cryptography.hazmat.primitives.asymmetric.ed25519")
    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.key))
        public.verify(bytes.fromhex(seal.signature), seal.content())
    except (ValueError, _library("cryptography.exceptions").InvalidSignature):
        return False
    return True


def _public(path: Path) -> str:
    made: str = _key(path, private=False).public_bytes_raw().hex()
    return made


def _key(path: Path, *, private: bool) -> Any:
    """Read an Ed25519 key in OpenSSH or OpenSSL format."""
    serialization = _library("cryptography.hazmat.primitives.serialization")
    kind = "private" if private else "public"
    rule = f"the file of an Ed25519 {kind} key without a passphrase, made by ssh-keygen"
    readers = [getattr(serialization, f"load_{form}_{kind}_key") for form in ("ssh", "pem")]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidArgumentError("key", rule, f"{path}: {error.strerror}") from None
    refused = _library("cryptography.exceptions").UnsupportedAlgorithm
    for read in readers:
        try:
            found = read(content, password=None) if private else read(content)
        except (ValueError, TypeError, refused):
            continue
        # Other key types have no raw form.
        if hasattr(found, f"{kind}_bytes_raw"):
            return found
    raise InvalidArgumentError("key", rule, path)


def _library(name: str) -> Any:
    """Import a module of the cryptography package, which only seals need."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        rule = "left out if cryptography is not installed"
        raise InvalidArgumentError("key", rule, name, NEEDED) from None
