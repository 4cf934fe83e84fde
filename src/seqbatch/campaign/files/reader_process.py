"""Read binary files in a child process: a damaged file ends the child, not the caller.

Libraries that decode binary files can crash, hang or run out of memory when a file is damaged. A
child process imports little and stays ready. It forks for each file that it reads, with limits on
memory and time: one file cannot affect the next.
"""

import atexit
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from seqbatch.campaign.files import unpacked_size
from seqbatch.errors import CampaignError

#: The seconds that the child may take for one piece of a file, ...
SECONDS = 60.0
#: ... plus this many for each byte of a workbook, whose sheet is read before its first piece.
SECONDS_PER_BYTE = 5e-6
#: The bytes of memory that the child may use for a file, ...
MEMORY = 2 << 30
#: ... plus this many for each byte of the file: its rows may have to be unpacked at once.
MEMORY_PER_BYTE = 16
#: The number of children that wait for the next file.
KEPT = 4
#: The bytes that a pipe holds, where the system allows it: fewer switches between processes.
PIPE = 1 << 20
#: The milliseconds of a day.
DAY = 86_400_000
#: A frame is a letter, the length of its content, and the content.
FRAME = struct.Struct("<cQ")
ANSWER, PIECE = b"a", b"p"
#: The format of workbooks in a request; the file itself shows its kind.
EXCEL = "excel"
#: The advice at the end of messages about files that cannot be read.
AGAIN = "write the file again, or save it as CSV"

Kind = Literal["refused", "damaged", "unreadable"]


class BinaryFileError(ValueError):
    """A file that cannot be read.

    Parameters
    ----------
    kind
        refused: the file breaks a limit. damaged: its contents are inconsistent. unreadable: it
        made the child crash, hang or run out of memory.
    reason, code
        The reason, for the user, and the code of the limit, for programs.
    """

    def __init__(self, kind: Kind, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.code = code


def memory_for(size: int) -> int:
    """Return the bytes of memory that a file of `size` bytes may use.

    >>> memory_for(100) - memory_for(0)
    1600
    """
    return MEMORY + MEMORY_PER_BYTE * size


def valid(piece: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Return a piece after validating it: offsets in a damaged file may point anywhere."""
    if piece is not None:
        if pa.date64() in piece.schema.types:
            piece.validate()
            columns = [_whole_days(column) for column in piece.columns]
            piece = pa.record_batch(columns, schema=piece.schema)
        piece.validate(full=True)
    return piece


def _whole_days(column: Any) -> Any:
    """Drop the time of day, which some programs write into columns of whole days."""
    if column.type != pa.date64():
        return column
    numbers = column.view(pa.int64())
    days = numbers.fill_null(0).to_numpy(zero_copy_only=False) // DAY * DAY
    return pa.array(days, mask=np.asarray(column.is_null())).view(pa.date64())


# ----------------------------------------------------------------------
# The child's part: answer requests, with a forked process for each file.


def main() -> None:
    """Answer the requests on standard input, one JSON line each, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit("RLIMIT_CORE", 0)
    # Nothing else may write among the answers; standard error leads nowhere.
    answers = os.dup(1)
    os.dup2(2, 1)
    serve = _serve_apart if hasattr(os, "fork") else _serve
    while serve(answers):
        pass


def _serve_apart(answers: int) -> bool:
    """Answer the requests about one file in a forked process; crash if that process crashes."""
    if not (child := os.fork()):
        more = False
        try:
            more = _serve(answers)
        finally:
            # Skip the destructors, which damaged data may crash.
            os._exit(not more)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    return code == 0


def _serve(answers: int) -> bool:
    """Answer requests until an empty line; return False if there are no more."""
    _send(answers, ANSWER, b"{}")
    while (line := sys.stdin.buffer.readline()).strip():
        _respond(json.loads(line), answers)
    return bool(line)


def _respond(request: dict[str, Any], answers: int) -> None:
    path, most = request["path"], request["memory"]
    answer: dict[str, Any] = {}
    try:
        _limit("RLIMIT_DATA", _memory_in_use() + most)
        _limit_time(request["seconds"])
        if request["format"] == EXCEL:
            answer = _send_sheet(request, answers)
        elif request["columns"] is None:
            answer = _description(path, request["format"])
        else:
            for piece in _PIECES[request["format"]](path, request["columns"], request["rows"]):
                _limit_time(request["seconds"])
                _send(answers, PIECE, packed(valid(piece)))
    except BinaryFileError as error:
        answer = {error.kind: str(error), "code": error.code}
    except MemoryError:
        answer = {"unreadable": f"reading it takes more than {most:,} bytes of memory"}
    except Exception as error:
        # Keep the first line: the next ones say where in Arrow's code the error arose.
        said = str(error).partition("\n")[0][:300]
        expected = isinstance(error, pa.ArrowException | OSError | unpacked_size.DamagedStreamError)
        answer = {"damaged": said if expected else f"{type(error).__name__}: {said}"}
    _send(answers, ANSWER, json.dumps(answer).encode())


def _send(answers: int, kind: bytes, content: Any) -> None:
    rest = memoryview(content)
    os.write(answers, FRAME.pack(kind, len(rest)))
    while rest:
        rest = rest[os.write(answers, rest) :]


def packed(piece: pa.RecordBatch) -> Any:
    """Return a piece as an Arrow stream of one batch: each piece has its own category levels."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, piece.schema) as writer:
        writer.write_batch(piece)
    return sink.getvalue()


def _memory_in_use() -> int:
    """Return the bytes of memory that count towards the limit."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _limit_time(seconds: float) -> None:
    """Limit the processor time of the next piece: a child without a parent ends too."""
    _limit("RLIMIT_CPU", int(sum(os.times()[:2]) + 2 * seconds))


def _limit(name: str, most: int) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        which = getattr(resource, name)
        resource.setrlimit(which, (most, resource.getrlimit(which)[1]))


def _description(path: str, file_format: str) -> dict[str, Any]:
    if file_format == "parquet":
        columns = unpacked_size.parquet_columns(path)
        _refuse(unpacked_size.too_many_columns(columns), "too-many-columns")
        file = pa.parquet.ParquetFile(path)
        return {"columns": file.schema_arrow.names, "rows": file.metadata.num_rows}
    with pa.OSFile(path) as file:
        return {"columns": _ipc(file).schema.names, "rows": 0}


def _parquet_pieces(path: str, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    # Read on demand: reading ahead would load the whole file into memory.
    file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    _refuse(unpacked_size.too_many_rows(file.metadata.num_rows), "too-many-rows")
    _refuse(unpacked_size.of_parquet(file, columns, Path(path).stat().st_size), "too-large")
    rows = unpacked_size.rows_at_once(path, file.schema_arrow, columns, rows)
    yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _arrow_pieces(path: str, columns: list[str], _rows: int) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path) as file:
        _refuse(unpacked_size.of_arrow(file), "too-large")
        reader = _ipc(file)
        if hasattr(reader, "num_record_batches"):
            pieces = map(reader.get_batch, range(reader.num_record_batches))
        else:
            pieces = iter(reader)
        for piece in pieces:
            yield piece.select(columns)


_PIECES = {"parquet": _parquet_pieces, "arrow": _arrow_pieces}


def _send_sheet(request: dict[str, Any], answers: int) -> dict[str, Any]:
    """Send the pieces of a sheet; return what else it says."""
    from seqbatch.campaign.files.excel import WorkbookError, sheet_pieces

    pieces = sheet_pieces(request["path"], request["sheet"], request["skip_rows"])
    try:
        while True:
            _send(answers, PIECE, packed(valid(next(pieces))))
    except StopIteration as end:
        said: dict[str, Any] = end.value
        return said
    except WorkbookError as error:
        kind: Kind = "refused" if error.code else "damaged"
        raise BinaryFileError(kind, str(error), error.code) from None


def _ipc(file: Any) -> Any:
    """Open an Arrow file or an Arrow stream."""
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _refuse(reason: str, code: str) -> None:
    if reason:
        raise BinaryFileError("refused", reason, code)


# ----------------------------------------------------------------------
# The caller's part: children that wait for files, and one request for each reading.


@dataclass(frozen=True)
class Description:
    """The columns of a file, and the number of rows that it states; 0 if it states none."""

    columns: list[str]
    rows: int


def describe(path: Path, file_format: str) -> Description:
    """Return the columns of a Parquet or Arrow file, and its stated number of rows."""
    with _reader() as reader:
        return Description(**reader.ask(path, file_format))


def read(path: Path, file_format: str, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield these columns of a Parquet or Arrow file, in pieces of about `rows` rows."""
    with _reader() as reader:
        yield from reader.pieces(path, file_format, columns, rows)


def read_sheet(
    path: Path, sheet: str | None, skip_rows: int
) -> Generator[pa.RecordBatch, None, dict[str, Any]]:
    """Yield the rows of a sheet of a workbook, and return what else it says.

    See :func:`seqbatch.campaign.files.excel.sheet_pieces`.
    """
    with _reader() as reader:
        return (yield from reader.sheet(path, sheet, skip_rows))


#: Start the child without the packages' __init__ files, which import the whole library.
_START = """
import json, sys, types
folder, sys.path[:] = sys.argv[1], json.loads(sys.argv[2])
for name in ("", ".campaign", ".campaign.files", ".campaign.spec", ".core"):
    package = sys.modules["seqbatch" + name] = types.ModuleType("seqbatch" + name)
    package.__path__ = [folder + name.replace(".", "/")]
from seqbatch.campaign.files.reader_process import main
main()
"""


class ReaderProcess:
    """A child process that reads files, one at a time."""

    def __init__(self) -> None:
        #: Whether the child waits for a request.
        self.idle = False
        self._path: Path | None = None
        self._seconds = SECONDS
        self._late = False
        # One thread and plain allocation, so that memory in use is memory needed.
        settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
        start = [sys.executable, "-c", _START, str(Path(__file__).parents[2]), json.dumps(sys.path)]
        try:
            # A session for itself: an interrupt from the keyboard is the caller's to handle.
            self._process = subprocess.Popen(
                start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                bufsize=0, pipesize=PIPE, start_new_session=True, env={**os.environ, **settings},
            )  # fmt: skip
        except OSError as error:
            raise _failed(str(error)) from None
        _children.add(self)
        try:
            self._answer(self._frame())
        except BinaryFileError as error:
            self.end()
            raise _failed(str(error)) from None

    @property
    def alive(self) -> bool:
        """Whether the child is still running."""
        return self._process.poll() is None

    def ask(self, path: Path, file_format: str) -> dict[str, Any]:
        """Return the description of a file."""
        self._request(path, format=file_format, columns=None)
        return self._answer(self._frame())

    def pieces(
        self, path: Path, file_format: str, columns: list[str], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pieces of a file."""
        self._request(path, format=file_format, columns=columns, rows=rows)
        yield from self._received()

    def sheet(
        self, path: Path, sheet: str | None, skip_rows: int
    ) -> Generator[pa.RecordBatch, None, dict[str, Any]]:
        """Yield the pieces of a sheet, and return what else it says."""
        self._request(path, format=EXCEL, sheet=sheet, skip_rows=skip_rows)
        return (yield from self._received())

    def _received(self) -> Generator[pa.RecordBatch, None, dict[str, Any]]:
        while (frame := self._frame())[0] == PIECE:
            yield pa.ipc.open_stream(frame[1], options=_READING).read_next_batch()
        return self._answer(frame)

    def end(self) -> None:
        """End the child, whatever it is doing."""
        self._kill()
        self.close_pipes()
        self._process.wait()
        _children.discard(self)

    def close_pipes(self) -> None:
        """Close this end of the pipes."""
        for pipe in self._pipes:
            pipe.close()

    def disown(self) -> None:
        """Forget the child in a forked process: it belongs to the process that started it."""
        self.close_pipes()
        self._process.returncode = 0

    @property
    def _pipes(self) -> tuple[Any, Any]:
        return self._process.stdin, self._process.stdout

    def _request(self, path: Path, **asked: Any) -> None:
        # The child keeps the folder in which it was started.
        path = path.absolute()
        self._seconds = SECONDS
        if self._path not in (None, path):
            self._write(b"")
            self._answer(self._frame())
        self._path = path
        size = path.stat().st_size
        if asked["format"] == EXCEL:
            self._seconds += SECONDS_PER_BYTE * size
        limits = {"memory": memory_for(size), "seconds": self._seconds}
        self._write(json.dumps({"path": str(path), **asked, **limits}).encode())

    def _write(self, line: bytes) -> None:
        self.idle = False
        rest = memoryview(line + b"\n")
        # A child that has ended is noticed when its answer is read.
        with self._in_time(), suppress(BrokenPipeError):
            while rest:
                rest = rest[self._pipes[0].write(rest) :]

    def _answer(self, frame: tuple[bytes, Any]) -> dict[str, Any]:
        """Return the answer to a request; fail if the file cannot be read."""
        self.idle = True
        answer: dict[str, Any] = json.loads(bytes(frame[1]))
        for failed in ("refused", "damaged", "unreadable"):
            if failed in answer:
                raise BinaryFileError(failed, answer[failed], answer.get("code", ""))
        return answer

    def _frame(self) -> tuple[bytes, Any]:
        with self._in_time():
            kind, length = FRAME.unpack(self._filled(FRAME.size))
            return kind, self._filled(length)

    def _filled(self, length: int) -> Any:
        content = pa.allocate_buffer(length)
        rest = memoryview(content)
        while rest:
            count = self._pipes[1].readinto(rest)
            if not count:
                raise self._ended()
            rest = rest[count:]
        return content

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """End the child if it takes too long."""
        watch = threading.Timer(self._seconds, self._kill, [True])
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _kill(self, late: bool = False) -> None:
        """Kill the child and the process that it forked for a file."""
        self._late = late
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg") and self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()

    def _ended(self) -> BinaryFileError:
        """Return the error for a file that ended the child."""
        code = self._process.wait()
        if self._late:
            reason = f"the reader took more than {self._seconds:.3g} seconds for a part of it"
        else:
            said = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            reason = f"the reader crashed ({said})"
        return BinaryFileError("unreadable", reason)


def _failed(reason: str) -> CampaignError:
    return CampaignError(
        f"the process that reads binary files cannot be started ({reason}). "
        f"Check that {sys.executable} runs and imports pyarrow, or save the file as CSV.",
        code="reader-failed",
    )


_READING = pa.ipc.IpcReadOptions(use_threads=False)
#: The children that run. A strong reference: the one who reads ends its child also where Python
#: collects both at once, in its own order.
_children: set[ReaderProcess] = set()
_waiting: list[ReaderProcess] = []
_lock = threading.Lock()


@contextmanager
def _reader() -> Iterator[ReaderProcess]:
    """Lend a child for one request; end it if the request was not completed."""
    with _lock:
        reader = _waiting.pop() if _waiting else None
    if reader is not None and not reader.alive:
        reader.end()
        reader = None
    reader = reader or ReaderProcess()
    try:
        yield reader
    finally:
        with _lock:
            kept = reader.idle and len(_waiting) < KEPT
            if kept:
                _waiting.append(reader)
        if not kept:
            reader.end()


def _end_all() -> None:
    for reader in list(_children):
        reader.end()


def _forget_all() -> None:
    """Forget all children in a forked process: two processes must not share one."""
    global _lock
    _lock = threading.Lock()
    _waiting.clear()
    for reader in list(_children):
        reader.disown()
    _children.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
