"""Request bodies: JSON of limited size, and files streamed to disk.

Bodies are never decompressed, and paths from a client are never opened.
"""

import asyncio
import hashlib
import math
import shutil
import time
import zipfile
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError

from seqbatch.campaign.files.csv import CsvDialect
from seqbatch.campaign.files.reading import CELLS, NOTHING, ReadingOptions, Source
from seqbatch.campaign.spec.input_limits import MOST_COLUMNS
from seqbatch.errors import InvalidFileError, RowProblem
from seqbatch.service.call_limits import Settings
from seqbatch.service.long_calls import placed
from seqbatch.service.problems import ProblemError, invalid
from seqbatch.storage.answers import PIECE

JSON = "application/json"
#: File formats that a request body may have, by media type.
FILES = {
    "text/csv": "csv", "application/vnd.apache.parquet": "parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.ms-excel": "xls",
}  # fmt: skip
#: Media types of files in answers; the pages answer an uploaded Arrow file with an Arrow file.
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "zip": "application/zip",
}
#: The names of encodings in media types, where they are not Python's.
CHARSETS = {"cp1252": "windows-1252", "latin-1": "iso-8859-1"}
_WHOLE = range(-(2**63), 2**63)

M = TypeVar("M", bound=BaseModel)


def media_type(request: Request) -> str:
    """Return the media type of a request body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_json(request: Request, model: type[M], *, or_file: bool = False) -> tuple[M, str]:
    """Return a validated JSON body, and the hash of its bytes.

    A missing body counts as an empty one, of any media type, if the model has no required field.

    Parameters
    ----------
    request, model
        The request, and the model of its body.
    or_file
        Whether the route also accepts files, which the error message then mentions.
    """
    needed = needs_body(model)
    if needed:
        _require_json(request, or_file=or_file)
    limit = request.app.state.settings.json_bytes
    content = b"".join([piece async for piece in pieces(request, limit)])
    if content or needed:
        _require_json(request, or_file=or_file)
    else:
        content = b"{}"
    try:
        return model.model_validate_json(content), hashlib.sha256(content).hexdigest()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise invalid(found) from None


def needs_body(model: type[BaseModel]) -> bool:
    """Return whether a model has required fields."""
    return any(field.is_required() for field in model.model_fields.values())


def _require_json(request: Request, *, or_file: bool) -> None:
    if media_type(request) != JSON:
        kinds = ", ".join([JSON, *FILES]) if or_file else JSON
        received = media_type(request)[:100] or "no content-type"
        rule = f"the body must be {'one of ' * or_file}{kinds}"
        raise ProblemError(415, "unsupported", f"{rule}; received {received}.")


@dataclass(frozen=True)
class Spooled:
    """A request body in a temporary file: its rows, hash and folder."""

    source: Source
    hashed: str
    folder: Path


@asynccontextmanager
async def spooled(request: Request, reading: ReadingOptions) -> AsyncIterator[Spooled]:
    """Write a body to a file in a temporary folder, which is removed afterwards.

    Parameters
    ----------
    request
        The request.
    reading
        How to read the file.
    """
    file_format = FILES[media_type(request)]
    with own_folder() as folder:
        path, hashed = folder / f"body.{file_format}", hashlib.sha256()
        with path.open("wb") as file:
            async for piece in pieces(request, request.app.state.settings.file_bytes):
                hashed.update(piece)
                await run_in_threadpool(file.write, piece)
        how: ReadingOptions = {**reading, "file_format": file_format}
        source = Source(path, name="body", **how)
        settings: Settings = request.app.state.settings
        await placed(request, lambda: refuse_stated_rows(source, settings))
        yield Spooled(source, hashed.hexdigest(), folder)


def watched(settings: Settings) -> Callable[[str, int], None]:
    """Return a progress callback that ends the call when a file exceeds the limits."""
    until = time.monotonic() + settings.file_seconds

    def report(_doing: str, rows: int) -> None:
        refuse_rows(rows, settings)
        if time.monotonic() > until:
            raise ProblemError(
                503, "too-slow",
                f"the file took longer than {settings.file_seconds:g} seconds; nothing was done. "
                "Split it into several files.",
            )  # fmt: skip

    return report


def refuse_rows(rows: int, settings: Settings) -> None:
    """Refuse a file with too many rows."""
    if rows > settings.file_rows:
        raise ProblemError(
            413, "too-large",
            f"a file must have at most {settings.file_rows:,} rows; received {rows:,} or more; "
            "nothing was done. Split it into several files.",
        )  # fmt: skip


def refuse_stated_rows(source: Source, settings: Settings) -> None:
    """Refuse a Parquet file whose metadata states too many rows, before reading them."""
    try:
        with source:
            refuse_rows(source.stated_rows(), settings)
    except InvalidFileError as error:
        # A damaged file is refused later, when it is known what was not done because of it.
        if error.code == "unreadable-file":
            raise


@contextmanager
def own_folder() -> Iterator[Path]:
    """Create a temporary folder, which is removed afterwards."""
    with TemporaryDirectory(prefix="seqbatch-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def mark_of(file_format: str, source: Source | None = None) -> bytes:
    """Return the byte order mark to put before a file that people will open.

    Without it, spreadsheets read a CSV file in an old encoding and show wrong letters.

    Parameters
    ----------
    file_format
        The format of the file.
    source
        The file that it answers, whose encoding and mark it has, if both are CSV.
    """
    if file_format != "csv":
        return b""
    like = source.dialect if source is not None and source.file_format == "csv" else CsvDialect()
    return BOM_UTF8 if like.encoding == "utf-8" and not like.mark else b""


def answer_type(file_format: str, source: Source) -> str:
    """Return the media type of a file that answers another, in the same encoding if it is text."""
    if file_format != "csv" or source.file_format != "csv":
        return MEDIA_TYPES[file_format]
    encoding = source.dialect.encoding.removesuffix("-le").removesuffix("-be")
    return f"text/csv; charset={CHARSETS.get(encoding, encoding)}"


def zipped(folder: Path, pattern: str) -> Path:
    """Pack files of a folder into an archive in it; the same files give the same bytes."""
    target = folder / "files.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.glob(pattern)):
            entry = zipfile.ZipInfo(file.name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with file.open("rb") as content, archive.open(entry, "w", force_zip64=True) as out:
                shutil.copyfileobj(content, out)
    return target


def sent_file(path: Path, headers: dict[str, str], *, mark: bytes = b"") -> StreamingResponse:
    """Stream a file after a byte order mark. The file is opened now, and may then be removed."""
    file, length = path.open("rb"), path.stat().st_size
    headers = {**headers, "content-length": str(len(mark) + length)}
    return StreamingResponse(pieces_of(file, mark=mark), headers=headers)


def pieces_of(file: BinaryIO, *, mark: bytes = b"") -> Iterator[bytes]:
    """Yield a byte order mark, if any, and the content of a file, then close the file."""
    with file:
        if mark:
            yield mark
        while piece := file.read(PIECE):
            yield piece


async def pieces(
    request: Request, limit: int, *, seconds: float | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield a body as it arrives; refuse it if it is too long, too slow or compressed.

    Parameters
    ----------
    request, limit
        The request, and the most bytes of its body.
    seconds
        How long it may take to arrive; `body_seconds` by default.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise ProblemError(
            415, "unsupported",
            f"the body must not be compressed; received content-encoding {coding[:40]!r}. A "
            "Parquet file may be compressed internally.",
        )  # fmt: skip
    seconds, length = seconds or request.app.state.settings.body_seconds, 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                length += len(piece)
                if length > limit:
                    raise ProblemError(
                        413, "too-large", f"the body must have at most {limit:,} bytes."
                    )
                yield piece
    except TimeoutError:
        raise ProblemError(
            408, "too-slow", f"the body must arrive within {seconds:g} seconds."
        ) from None


def table_of(rows: Sequence[dict[str, Any]], *, what: str) -> pa.Table:
    """Convert JSON rows to a table; each column has a single type.

    >>> table_of([{"unit": "a", "age": 31}, {"unit": "b"}], what="units").to_pydict()
    {'unit': ['a', 'b'], 'age': [31, None]}
    """
    columns, problems = {}, []
    names = names_of(rows)
    # Rows that each have different columns could make a table of a billion empty cells.
    if len(names) * len(rows) > max(CELLS, MOST_COLUMNS):
        rule = f"all rows together must have at most {CELLS // len(rows):,} columns"
        reason = f"{rule}; received {len(names):,}"
        raise InvalidFileError(what, [RowProblem(0, "", reason, "too-many-columns")], NOTHING)
    for name in names:
        cells = [row.get(name) for row in rows]
        # Usually the types alone show that a column is valid, without checking every cell.
        made = _column(cells) if "\0" not in name else None
        if made is None and (problem := _unfit(name, cells)) is not None:
            problems.append(problem)
        else:
            columns[name] = pa.array(cells) if made is None else made
    if problems:
        raise InvalidFileError(what, problems, NOTHING)
    return pa.table(columns)


def names_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns of rows, in order of first appearance.

    >>> names_of([{"unit": "a"}, {"unit": "b", "age": 31}])
    ['unit', 'age']
    """
    same = all(row.keys() == rows[0].keys() for row in rows)
    return list(dict.fromkeys(name for row in (rows[:1] if same else rows) for name in row))


def _column(cells: list[Any]) -> pa.Array | None:
    """Convert cells of one type to a column; None if they may be invalid."""
    kinds = set(map(type, cells)) - {type(None)}
    numbers = kinds == {int, float}
    if (len(kinds) > 1 and not numbers) or not kinds <= {str, int, float, bool}:
        return None
    if numbers:
        if any(type(cell) is int and cell not in _WHOLE for cell in cells):
            return None
        cells = [None if cell is None else float(cell) for cell in cells]
    try:
        made = pa.array(cells)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    if pa.types.is_floating(made.type) and not pc.all(pc.is_finite(made)).as_py():
        return None
    return made


def _unfit(name: str, cells: list[Any]) -> RowProblem | None:
    """Return the problem of the first invalid cell of a column."""
    column = name[:100]
    if "\0" in name:
        reason = "a column's name must not contain NUL characters"
        return RowProblem(1, column, reason, "nul-character")
    first: type | None = None
    for row, cell in enumerate(cells, start=1):
        if cell is None:
            continue
        kind = float if isinstance(cell, int) and not isinstance(cell, bool) else type(cell)
        if kind not in (str, float, bool):
            reason = "must be a string, a number, true, false or null"
            return RowProblem(row, column, reason, "wrong-type")
        if kind is float and not (
            math.isfinite(cell) if isinstance(cell, float) else cell in _WHOLE
        ):
            reason = "must be a number that fits in 64 bits"
            return RowProblem(row, column, reason, "out-of-range")
        if first not in (None, kind):
            reason = "must have the same type in all rows: string, number or boolean"
            return RowProblem(row, column, reason, "mixed-types")
        first = kind
    return None
