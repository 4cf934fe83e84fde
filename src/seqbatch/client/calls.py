"""The calls of the HTTP service as values: requests, and how their answers are read."""

import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote

import httpx

from seqbatch.errors import (
    CampaignStateError,
    InvalidArgumentError,
    InvalidSpecError,
    Remedy,
    SeqbatchError,
    StoreError,
    UncertainCommitError,
    UnknownCampaignError,
)
from seqbatch.output_files import atomically

# ----------------------------------------------------------------------
# Requests and answers, shared by the synchronous and the asynchronous client.


T = TypeVar("T")
Rows = Any  # a list of dicts, a path, or a table with Arrow's interface

PARQUET = "application/vnd.apache.parquet"
#: Media types of files, by the endings of their names.
ENDINGS = {
    ".csv": "text/csv", ".parquet": PARQUET, ".xls": "application/vnd.ms-excel",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}  # fmt: skip
#: The header of a call that changes something.
KEY = "Idempotency-Key"
#: Answers after which the same call is made again.
AGAIN = frozenset((429, 502, 503, 504))
#: Exception classes by the service's problem type.
KINDS: dict[str, type[SeqbatchError]] = {
    "urn:seqbatch:unknown-campaign": UnknownCampaignError,
    "urn:seqbatch:wrong-state": CampaignStateError,
    "urn:seqbatch:invalid-spec": InvalidSpecError,
    "urn:seqbatch:store-failed": StoreError,
    "urn:seqbatch:uncertain-commit": UncertainCommitError,
}


class ServiceError(SeqbatchError):
    """A call that the service refused.

    Parameters
    ----------
    status
        The HTTP status code.
    problem
        The problem document: type, title, detail, and errors for individual places if any.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        told = str(problem.get("detail", f"the service answered with {status}"))
        super().__init__(told, **_known(problem))
        self.status = status
        self.problem = dict(problem)


class NoAnswerError(SeqbatchError, ConnectionError):
    """A call that got no answer, or one that cannot be read; it may have been carried out.

    Parameters
    ----------
    url
        The URL of the service.
    call
        The call.
    why
        What went wrong.
    """

    def __init__(self, url: str, call: "Call[Any]", why: Exception) -> None:
        key = call.headers.get(KEY)
        again = f' Repeat it with key="{key}": then its change is made once.' if key else ""
        super().__init__(
            f"{call.method} {url.rstrip('/')}{call.path} got no answer that can be read "
            f"({type(why).__name__}: {why}). The service may have carried it out.{again}",
            code="no-answer",
        )
        self.key = key


@dataclass(frozen=True, kw_only=True)
class AssignedAnswer:
    """The result of an assignment: wave, event of the new units, and the assignments as a table.

    `left` is the number of units that the wave still accepts, if the service reports it. For units
    sent as a list the table says which were `repeated`: they had their action before this call.
    """

    wave: int
    event: int | None
    table: Any
    left: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedAnswer:
    """The result of recording outcomes; see :class:`seqbatch.campaign.Recorded`."""

    rows: int
    accepted: int
    duplicate: int
    conflict: int
    quarantined: int
    outside: int = 0
    windows: dict[str, list[int]] = field(default_factory=dict)
    unknown: int = 0
    matched: int = 0
    units: int = 0
    late: int
    corrected: int
    repeats: int
    repeated: int = 0
    erased: int = 0
    metrics: tuple[str, ...] = ()
    held: list[dict[str, Any]]
    reasons: list[dict[str, Any]]
    event: int | None
    remarks: tuple[str, ...] = ()
    read_as: str = ""
    advice: tuple[str, ...] = ()
    formats: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One request to the service.

    Parameters
    ----------
    method, path
        The HTTP method and path.
    understood
        Converts the response to the result.
    params, json
        The query parameters, and the JSON body.
    file
        Opens a file to send as the body; called anew for every attempt.
    headers
        Further headers. A call that changes anything has its idempotency key here, the same for
        every attempt.
    """

    method: str
    path: str
    understood: Callable[[httpx.Response], T]
    params: dict[str, Any] = field(default_factory=dict)
    json: Any = None
    file: Callable[[], Iterator[bytes] | bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Return the arguments for httpx."""
        params = {name: value for name, value in self.params.items() if value is not None}
        body = {"content": self.file()} if self.file is not None else {"json": self.json}
        sent = {} if self.file is None and self.json is None else body
        return {"params": params, "headers": self.headers, **sent}


def service_url(url: str) -> str:
    """Return the URL of a service, or refuse it before anything is sent."""
    try:
        made = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        made = httpx.URL("")
    if made.scheme not in ("http", "https") or not made.host:
        rule = 'the URL of a service, such as "http://127.0.0.1:8000"'
        raise InvalidArgumentError("url", rule, url)
    return url


def result(url: str, call: Call[T], response: httpx.Response) -> T:
    """Return the result of a response, or raise the error that it reports."""
    if response.is_success:
        try:
            return call.understood(response)
        except (ValueError, KeyError, TypeError) as error:
            # Something between the client and the service may answer in its place.
            raise NoAnswerError(url, call, error) from error
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
    """Return the seconds to wait before the next attempt: exponential backoff with jitter."""
    requested = None if response is None else response.headers.get("retry-after")
    if requested is not None and requested.isdigit():
        return min(float(requested), 30.0)
    return float(random.uniform(0.5, 1.0) * min(0.1 * 2**attempt, 10.0))


def changing(key: str | None) -> dict[str, str]:
    """Return the idempotency header of a call that changes something."""
    return {KEY: key or uuid.uuid4().hex}


def plain(response: httpx.Response) -> Any:
    """Return the JSON of a response."""
    return response.json()


def assigned(response: httpx.Response) -> AssignedAnswer:
    """Return the assignments of a response."""
    import pyarrow as pa
    import pyarrow.parquet

    if response.headers["content-type"].startswith("application/json"):
        found = response.json()
        table = pa.Table.from_pylist(found.pop("assignments"))
        return AssignedAnswer(table=table, **{**found, "warnings": tuple(found["warnings"])})
    event = response.headers.get("seqbatch-event")
    return AssignedAnswer(
        wave=int(response.headers["seqbatch-wave"]),
        event=None if event is None else int(event),
        table=pa.parquet.read_table(pa.py_buffer(response.content)),
        warnings=tuple(json.loads(response.headers.get("seqbatch-warnings", "[]"))),
    )


def recorded(response: httpx.Response) -> RecordedAnswer:
    """Return the result of recording outcomes."""
    found = response.json()
    return RecordedAnswer(**{**found, "advice": tuple(found["advice"])})


def written(out: str | Path, content: bytes) -> Path:
    """Write a document to a file."""
    with atomically(out) as partial:
        partial.write_bytes(content)
    return Path(out)


#: Options that only files and tables have.
FOR_FILES = ("with", "sheet", "skip_rows")


def body_of(rows: Rows, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a request's body: rows as JSON with options; a file or table with options as query.

    Options that are None are left out.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        if wrong := [key for key in FOR_FILES if key in options]:
            rule = "given only with a file or a table"
            raise InvalidArgumentError(wrong[0], rule, options[wrong[0]])
        return {"json": {name: list(rows), **options}}
    query = {key: _spelled(value) for key, value in options.items()}
    if isinstance(rows, str | Path):
        path = Path(rows)
        if path.suffix not in ENDINGS:
            rule = f"a file whose name ends with one of {', '.join(ENDINGS)}"
            raise InvalidArgumentError("file", rule, path.name)
        headers = {"content-type": ENDINGS[path.suffix]}
        return {"file": lambda: _pieces(path), "params": query, "headers": headers}
    if not hasattr(rows, "__arrow_c_stream__"):
        raise InvalidArgumentError(
            name,
            "a list of dicts, a path or a table with the Arrow stream interface",
            type(rows).__name__,
        )
    return {"file": lambda: _parquet(rows), "params": query, "headers": {"content-type": PARQUET}}


def _spelled(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _parquet(table: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    made, sink = pa.table(table), pa.BufferOutputStream()
    columns = {name: _writable(made[name]) for name in made.column_names}
    pa.parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def _writable(column: Any) -> Any:
    """Return a column as plain text if it is a dictionary or view, which Parquet may not take."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    plain_kinds = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    wanted = plain_kinds.get(str(kind), kind)
    return column if wanted == column.type else pa.array(column.to_pylist(), wanted)


# ----------------------------------------------------------------------
# The calls of one campaign, named like the methods of a campaign.


class HowToRead(TypedDict, total=False):
    """How the service reads a file: the sheet, the rows above the header, and repeated units."""

    sheet: str | None
    skip_rows: int | None
    dedupe: str | None


class CampaignCalls:
    """Builds the requests for one campaign.

    Parameters
    ----------
    name
        The campaign's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._base = f"/v1/campaigns/{quote(name, safe='')}"

    def show(self) -> Call[dict[str, Any]]:
        """Get a summary."""
        return Call(method="GET", path=self._base, understood=plain)

    def view(self, what: str, /, **params: Any) -> Call[Any]:
        """Get the status, findings or events."""
        return Call(method="GET", path=f"{self._base}/{what}", params=params, understood=plain)

    def document(self, what: str, /, **params: Any) -> Call[bytes]:
        """Download a report, a protocol or an export."""
        return Call(
            method="GET", path=f"{self._base}/{what}", params=params,
            understood=lambda response: response.content,
        )  # fmt: skip

    def assign(
        self,
        units: Rows,
        *,
        partial: bool,
        draw: bool,
        with_columns: Sequence[str],
        key: str | None,
        reading: Mapping[str, Any],
    ) -> Call[AssignedAnswer]:
        """Assign actions to units."""
        carried = ",".join(with_columns) or None
        options = {"partial": partial, "draw": draw, "with": carried, **reading}
        body = body_of(units, "units", options)
        if "file" in body:
            body["params"]["format"] = "parquet"
        return self._change("assignments", key, body, assigned)

    def record(
        self,
        outcomes: Rows,
        *,
        correct: bool,
        reason: str,
        equal_rows: str | None,
        match_ids: bool,
        dry_run: bool,
        key: str | None,
        reading: Mapping[str, Any],
    ) -> Call[RecordedAnswer]:
        """Record outcomes."""
        options = {"correct": correct, "reason": reason, "dry_run": dry_run, **reading}
        if equal_rows is not None:
            options["equal_rows"] = equal_rows
        if match_ids:
            options["match_ids"] = True
        return self._change("outcomes", key, body_of(outcomes, "outcomes", options), recorded)

    def step(self, what: str, key: str | None, values: Mapping[str, Any]) -> Call[dict[str, Any]]:
        """Close, amend, continue or abort."""
        body = {name: value for name, value in values.items() if value is not None}
        return self._change(what, key, {"json": body}, plain)

    def erase(self, units: Rows, reason: str) -> Call[dict[str, Any]]:
        """Erase units; a repeated call changes nothing, so it needs no key."""
        body = {"units": list(units), "reason": reason}
        return Call(method="POST", path=f"{self._base}/erase", understood=plain, json=body)

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
    """Validate a spec."""
    body = {"spec": spec, "units": units, "outcomes": outcomes}
    return Call(method="POST", path="/v1/campaigns/validate", json=body, understood=plain)


def rehearse(
    spec: Mapping[str, Any] | str, units: list[Any] | None, truths: Sequence[Mapping[str, Any]],
    campaigns: int, seed: int,
) -> Call[dict[str, Any]]:  # fmt: skip
    """Rehearse a spec for a few seconds."""
    body = {
        "spec": spec, "units": units, "truths": list(truths), "campaigns": campaigns, "seed": seed,
    }  # fmt: skip
    return Call(method="POST", path="/v1/campaigns/rehearse", json=body, understood=plain)


def create(
    spec: Mapping[str, Any] | str, key: str | None, rehearsal: Mapping[str, Any] | None
) -> Call[dict[str, Any]]:
    """Create a campaign."""
    body = {"spec": spec, "rehearsal": rehearsal}
    return Call(
        method="POST", path="/v1/campaigns", json=body, understood=plain, headers=changing(key)
    )
