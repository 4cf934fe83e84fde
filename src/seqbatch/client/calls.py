"""The service's calls as values: what is asked, and how the answer is read."""

import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from seqbatch.errors import (
    CampaignStateError,
    InvalidArgumentError,
    InvalidSpecError,
    Remedy,
    SeqbatchError,
    StoreError,
    UnknownCampaignError,
)
from seqbatch.output_files import atomically

# ----------------------------------------------------------------------
# Calls of a service as values: what is asked, and how the answer is understood.
#
# The synchronous and the asynchronous client send the same calls.


T = TypeVar("T")
Rows = Any  # a list of dicts, a path, or a table with Arrow's interface

ARROW = "application/vnd.apache.arrow.stream"
#: Media types of files, by the endings of their names.
ENDINGS = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".arrow": "application/vnd.apache.arrow.file",
    ".feather": "application/vnd.apache.arrow.file",
}
#: Answers after which the same call is made again.
AGAIN = frozenset((429, 502, 503, 504))
#: Errors that the library has, by what a service calls them.
KINDS: dict[str, type[SeqbatchError]] = {
    "urn:seqbatch:unknown-campaign": UnknownCampaignError,
    "urn:seqbatch:wrong-state": CampaignStateError,
    "urn:seqbatch:invalid-spec": InvalidSpecError,
    "urn:seqbatch:store-failed": StoreError,
}


class ServiceError(SeqbatchError):
    """A call that a service refused.

    Parameters
    ----------
    status
        The status of its answer.
    problem
        What it said: type, title, detail, and where there are places, errors.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        told = str(problem.get("detail", f"the service answered with {status}"))
        super().__init__(told, **_known(problem))
        self.status = status
        self.problem = dict(problem)


@dataclass(frozen=True, kw_only=True)
class AssignedAnswer:
    """What became of units: their wave, the event of the new ones, and the answers as a table.

    `left` is how many units the wave still takes, where the service said it.
    """

    wave: int
    event: int | None
    table: Any
    left: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedAnswer:
    """What became of the rows of outcomes; see :class:`seqbatch.campaign.Recorded`."""

    rows: int
    accepted: int
    duplicate: int
    conflict: int
    quarantined: int
    late: int
    corrected: int
    repeats: int
    held: list[dict[str, Any]]
    reasons: list[dict[str, Any]]
    event: int | None
    read_as: str = ""
    advice: tuple[str, ...] = ()
    formats: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One call.

    Parameters
    ----------
    method, path
        What is asked, and where.
    understood
        Makes the result of an answer.
    params, json
        Its parameters, and a body of JSON.
    file
        Opens a body that is a file, anew each time that it is sent.
    headers
        What else it carries: a call that changes anything has its key here, the same each time.
    """

    method: str
    path: str
    understood: Callable[[httpx.Response], T]
    params: dict[str, Any] = field(default_factory=dict)
    json: Any = None
    file: Callable[[], Iterator[bytes] | bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Return what httpx is to send."""
        params = {name: value for name, value in self.params.items() if value is not None}
        body = {"content": self.file()} if self.file is not None else {"json": self.json}
        sent = {} if self.file is None and self.json is None else body
        return {"params": params, "headers": self.headers, **sent}


def result(call: Call[T], response: httpx.Response) -> T:
    """Return what an answer says, or raise what went wrong."""
    if response.is_success:
        return call.understood(response)
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    kind = KINDS.get(str(problem.get("type")))
    if kind is not None:
        raise kind(str(problem.get("detail")), **_known(problem))
    raise ServiceError(response.status_code, problem)


def _known(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a problem holds for programs: code, field and remedies."""
    remedies = [
        Remedy(each["action"], **{k: ... if v is None else v for k, v in each["options"].items()})
        for each in problem.get("remedies", ())
    ]
    code, field = str(problem.get("code", "")), str(problem.get("field", ""))
    return {"code": code, "field": field, "remedies": remedies}


def pause(attempt: int, response: httpx.Response | None) -> float:
    """Return how many seconds to wait before a call is made again: longer each time, by chance."""
    asked = None if response is None else response.headers.get("retry-after")
    if asked is not None and asked.isdigit():
        return min(float(asked), 30.0)
    return float(random.uniform(0.5, 1.0) * min(0.1 * 2**attempt, 10.0))


def changing(key: str | None) -> dict[str, str]:
    """Return the header that names a call which changes something."""
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def plain(response: httpx.Response) -> Any:
    """Return an answer of JSON as it is."""
    return response.json()


def assigned(response: httpx.Response) -> AssignedAnswer:
    """Return what an answer of assignments says."""
    import pyarrow as pa

    if response.headers["content-type"].startswith("application/json"):
        found = response.json()
        table = pa.Table.from_pylist(found.pop("assignments"))
        return AssignedAnswer(table=table, **{**found, "warnings": tuple(found["warnings"])})
    event = response.headers.get("seqbatch-event")
    return AssignedAnswer(
        wave=int(response.headers["seqbatch-wave"]),
        event=None if event is None else int(event),
        table=pa.ipc.open_file(pa.py_buffer(response.content)).read_all(),
        warnings=tuple(json.loads(response.headers.get("seqbatch-warnings", "[]"))),
    )


def recorded(response: httpx.Response) -> RecordedAnswer:
    """Return what an answer to outcomes says."""
    found = response.json()
    return RecordedAnswer(**{**found, "advice": tuple(found["advice"])})


def written(out: str | Path, content: bytes) -> Path:
    """Write a document to a file."""
    with atomically(out) as partial:
        partial.write_bytes(content)
    return Path(out)


def body_of(rows: Rows, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a call: rows as JSON; a file or a table as a file, options beside it."""
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return {"json": {name: list(rows), **options}}
    said = {key: _spelled(value) for key, value in options.items()}
    if isinstance(rows, str | Path):
        path = Path(rows)
        if path.suffix not in ENDINGS:
            raise InvalidArgumentError("file", f"named with one of {', '.join(ENDINGS)}", path.name)
        headers = {"content-type": ENDINGS[path.suffix]}
        return {"file": lambda: _pieces(path), "params": said, "headers": headers}
    if not hasattr(rows, "__arrow_c_stream__"):
        raise InvalidArgumentError(
            name, "a list of dicts, a path or a table with Arrow's interface", type(rows).__name__
        )
    return {"file": lambda: _stream(rows), "params": said, "headers": {"content-type": ARROW}}


def _spelled(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _stream(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    made = pa.table(table)
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    return bytes(sink.getvalue())


# ----------------------------------------------------------------------
# The calls of one campaign, by the names that its methods have.


class CampaignCalls:
    """Makes the calls of a campaign.

    Parameters
    ----------
    name
        Its name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._base = f"/v1/campaigns/{quote(name, safe='')}"

    def show(self) -> Call[dict[str, Any]]:
        """Show it in short."""
        return Call(method="GET", path=self._base, understood=plain)

    def view(self, what: str, /, **params: Any) -> Call[Any]:
        """Look at status, findings or events."""
        return Call(method="GET", path=f"{self._base}/{what}", params=params, understood=plain)

    def document(self, what: str, /, **params: Any) -> Call[bytes]:
        """Fetch a report, a protocol or an export."""
        return Call(
            method="GET", path=f"{self._base}/{what}", params=params,
            understood=lambda response: response.content,
        )  # fmt: skip

    def assign(
        self, units: Rows, *, partial: bool, draw: bool, key: str | None
    ) -> Call[AssignedAnswer]:
        """Give units their actions."""
        body = body_of(units, "units", {"partial": partial, "draw": draw})
        if "file" in body:
            body["params"]["format"] = "arrow"
        return self._change("assignments", key, body, assigned)

    def record(
        self, outcomes: Rows, *, correct: bool, reason: str, dry_run: bool, key: str | None
    ) -> Call[RecordedAnswer]:
        """Take outcomes in."""
        options = {"correct": correct, "reason": reason, "dry_run": dry_run}
        return self._change("outcomes", key, body_of(outcomes, "outcomes", options), recorded)

    def step(self, what: str, key: str | None, values: Mapping[str, Any]) -> Call[dict[str, Any]]:
        """Close, amend, continue or abort."""
        body = {name: value for name, value in values.items() if value is not None}
        return self._change(what, key, {"json": body}, plain)

    def _change(
        self,
        what: str,
        key: str | None,
        body: dict[str, Any],
        understood: Callable[[httpx.Response], T],
    ) -> Call[T]:
        headers = {**body.pop("headers", {}), **changing(key)}
        return Call(
            method="POST", path=f"{self._base}/{what}", headers=headers, understood=understood,
            **body,
        )  # fmt: skip


def plan(values: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """Plan an experiment."""
    return Call(method="POST", path="/v1/plan", json=dict(values), understood=plain)


def listed() -> Call[list[dict[str, Any]]]:
    """List the campaigns."""
    return Call(
        method="GET", path="/v1/campaigns", understood=lambda found: found.json()["campaigns"]
    )


def validate(
    spec: Mapping[str, Any] | str, units: list[Any] | None, outcomes: list[Any] | None
) -> Call[dict[str, Any]]:
    """Try a spec out."""
    body = {"spec": spec, "units": units, "outcomes": outcomes}
    return Call(method="POST", path="/v1/campaigns/validate", json=body, understood=plain)


def create(spec: Mapping[str, Any] | str, key: str | None) -> Call[dict[str, Any]]:
    """Create a campaign."""
    return Call(
        method="POST", path="/v1/campaigns", json={"spec": spec}, understood=plain,
        headers=changing(key),
    )  # fmt: skip
