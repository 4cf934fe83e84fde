"""Uploaded files, kept between their check and their confirmation."""

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from seqbatch.campaign.files.formats import READ
from seqbatch.campaign.files.reading import ReadingOptions, Source
from seqbatch.campaign.files.repeats import NEWEST
from seqbatch.errors import SeqbatchError
from seqbatch.service.bodies import media_type, pieces, refuse_stated_rows
from seqbatch.service.call_limits import Settings
from seqbatch.service.long_calls import placed
from seqbatch.service.pages.forms import CSRF, FIELDS, Form
from seqbatch.service.pages.session import Visitor, require_form_token
from seqbatch.service.problems import ProblemError
from seqbatch.storage.answers import PIECE

#: Allowed file endings and their formats; none requires decompressing a whole file.
ENDINGS = {ending: kind for ending, kind in READ.items() if not ending.endswith(".gz")}
FIELD_BYTES = 64 << 10
#: The fields that say how to read a file.
READING = ("read", "sheet", "skip_rows", "delimiter", "encoding", "dedupe", "newest_by")
_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Kept:
    """An uploaded file.

    Parameters
    ----------
    fingerprint
        A hash of the file and of how to read it, which identifies the upload.
    sha256
        The SHA-256 of the file.
    name
        The sender's file name, which is only shown and never opened.
    file_format
        csv, parquet, arrow, xlsx or xls.
    size
        Its size in bytes.
    reading
        How to read it.
    path
        Its path on the server.
    """

    fingerprint: str
    sha256: str
    name: str
    file_format: str
    size: int
    reading: ReadingOptions
    path: Path

    @property
    def source(self) -> Source:
        """The file as a data source; messages use the sender's file name."""
        how: ReadingOptions = {**self.reading, "file_format": self.file_format}
        return Source(self.path, name=self.name, **how)


class Uploads:
    """The uploaded files of all sessions, kept for a limited time.

    Parameters
    ----------
    folder
        The folder of the files, shared by all workers.
    settings
        The limits on their age, number and size.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings

    def keep(self, key: str, file: BinaryIO, name: str) -> Kept:
        """Keep a file for a session; its oldest files make room."""
        self.forget()
        if sum(map(_size, self._folder.glob("*/*"))) > self._settings.upload_bytes:
            raise ProblemError(
                429, "busy",
                "too many uploads are waiting to be confirmed; try again later.",
                headers={"Retry-After": "60"},
            )  # fmt: skip
        own, kind, hashed = self._folder / key, _format(name), hashlib.sha256()
        with _partial(own) as out:
            while piece := file.read(PIECE):
                hashed.update(piece)
                out.write(piece)
            size = out.tell()
        try:
            source = Source(out.name, name=name, file_format=kind)
            refuse_stated_rows(source, self._settings)
        except SeqbatchError:
            Path(out.name).unlink()
            raise
        sha256 = hashed.hexdigest()
        path = own / f"{sha256}.{kind}"
        kept = Kept(sha256, sha256, name, kind, size, {}, path)
        Path(out.name).replace(kept.path)
        return self._noted(own, kept)

    def read_as(self, key: str, file: Kept, reading: ReadingOptions) -> Kept:
        """Keep a file to be read in another way, too; both expire when it was to expire."""
        Source(file.path, name=file.name, **reading)
        own = self._folder / key
        said = f"{file.sha256} {json.dumps(reading, sort_keys=True)}"
        fingerprint = hashlib.sha256(said.encode()).hexdigest()
        path = own / f"{fingerprint}.{file.file_format}"
        with suppress(FileExistsError):
            path.hardlink_to(file.path)
        return self._noted(own, replace(file, fingerprint=fingerprint, reading=reading, path=path))

    def _noted(self, own: Path, kept: Kept) -> Kept:
        """Write the note about a file, and make room for it."""
        with _partial(own) as note:
            note.write(json.dumps({**asdict(kept), "path": kept.path.name}).encode())
        # Other calls see either no note or a whole one.
        Path(note.name).replace(own / f"{kept.fingerprint}.json")
        self._make_room(own, kept.fingerprint)
        return kept

    def find(self, key: str, fingerprint: str) -> Kept:
        """Return a session's file; refuse if it has been removed."""
        told = self._folder / key / f"{fingerprint}.json"
        proper = len(fingerprint) == 64 and _DIGITS.issuperset(fingerprint)
        if proper and (found := _note(told)) is not None:
            path = told.parent / found.pop("path")
            if path.is_file() and _age(path) < self._settings.upload_seconds:
                return Kept(**found, path=path)
        raise ProblemError(
            404, "not-found",
            "this upload has expired or belongs to another session: uploads are kept for "
            f"{self._settings.upload_seconds / 60:g} minutes. Nothing was done. Upload the file "
            "again.",
        )  # fmt: skip

    def drop(self, key: str, fingerprint: str = "*") -> None:
        """Delete a session's file, or all of its files."""
        for path in (self._folder / key).glob(f"{fingerprint}.*"):
            path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Delete files that are too old."""
        for path in self._folder.glob("*/*"):
            if _age(path) >= self._settings.upload_seconds:
                path.unlink(missing_ok=True)
        for own in self._folder.glob("*"):
            if _age(own) >= self._settings.upload_seconds:
                with suppress(OSError):
                    own.rmdir()

    def clear(self) -> None:
        """Delete all files of all sessions."""
        for path in self._folder.glob("*/*"):
            path.unlink(missing_ok=True)

    def _make_room(self, own: Path, newest: str) -> None:
        notes = [note for path in sorted(own.glob("*.json"), key=_age) if (note := _note(path))]
        room = self._settings.file_bytes
        for place, note in enumerate(notes):
            room -= note["size"]
            if note["fingerprint"] != newest and (place >= self._settings.uploads or room < 0):
                self.drop(own.name, note["fingerprint"])


async def read_upload(
    request: Request, visitor: Visitor, *, field: str = "file"
) -> tuple[Form, Kept]:
    """Read a form with a file; return the file, kept for the session, and the other fields.

    The file is streamed to disk, within the limits of file bodies.
    """
    parts = await _parts(request)
    try:
        every = parts.multi_items()
        form = Form([(name, value) for name, value in every if isinstance(value, str)])
        _require_texts(form)
        require_form_token(visitor.secret, form.text(CSRF))
        file = parts.get(field)
        if not isinstance(file, UploadFile) or not file.filename:
            raise ProblemError(422, "invalid-argument", "no file was chosen. Choose one.")
        uploads: Uploads = request.app.state.uploads
        name = Path(file.filename.replace("\\", "/")).name[:200]
        kept = await placed(request, lambda: uploads.keep(visitor.key, file.file, name))
    finally:
        await parts.close()
    return form, kept


def reading_of(form: Form, before: ReadingOptions) -> ReadingOptions:
    """Return how to read a file: as the pressed button or the fields of a form say."""
    said: dict[str, Any] = {
        name: form.text(name) or None
        for name in ("sheet", "delimiter", "encoding", "dedupe")
        if any(key == name for key, _ in form.fields)
    }
    if (rows := form.whole("skip_rows")) is not None:
        said["skip_rows"] = rows
    if text := form.text("read"):
        said = _pressed(text)
    if said.get("dedupe") == NEWEST:
        said["dedupe"] = f"{NEWEST} {form.text('newest_by')}"
    made: ReadingOptions = {**before, **said}  # type: ignore[typeddict-item]
    return made


def _pressed(text: str) -> dict[str, Any]:
    """Return the options of a button."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    known = {"sheet": str, "delimiter": str, "dedupe": str, "skip_rows": int}
    if isinstance(said, dict) and all(type(said[n]) is known.get(n) for n in said):
        return said
    raise ProblemError(422, "form-refused", "the button that was pressed cannot be read.")


async def _parts(request: Request) -> FormData:
    if media_type(request) != "multipart/form-data":
        raise ProblemError(415, "unsupported", "the body must be a form of multipart/form-data.")
    parser = MultiPartParser(
        request.headers,
        pieces(request, request.app.state.settings.file_bytes),
        max_files=1, max_fields=FIELDS, max_part_size=FIELD_BYTES,
    )  # fmt: skip
    try:
        return await parser.parse()
    except (MultiPartException, UnicodeError) as error:
        raise ProblemError(422, "form-refused", f"the form cannot be read: {error}.") from None


def _require_texts(form: Form) -> None:
    """Refuse invalid text: the sender may name a charset that produces lone surrogates."""
    try:
        "".join(value for _, value in form.fields).encode()
    except UnicodeError:
        raise ProblemError(422, "form-refused", "the form cannot be read.") from None


def _format(name: str) -> str:
    found = next((kind for end, kind in ENDINGS.items() if name.lower().endswith(end)), None)
    if found is None:
        raise ProblemError(
            415, "unsupported",
            f"the file's name must end with one of {', '.join(ENDINGS)}; received {name!r}. Save "
            "another spreadsheet as .xlsx first; unpack a compressed file.",
        )  # fmt: skip
    return found


def _partial(own: Path) -> Any:
    """Open a new file in a session's folder, which may be empty and just being removed."""
    while True:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return NamedTemporaryFile(dir=own, suffix=".partial", delete=False)


def _note(path: Path) -> dict[str, Any] | None:
    """Return the note about a file; None if another call has deleted it."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _size(path: Path) -> int:
    """Return the size of an uploaded file, without the notes stored beside it."""
    try:
        return 0 if path.suffix == ".json" else path.stat().st_size
    except FileNotFoundError:  # deleted by another call
        return 0


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
