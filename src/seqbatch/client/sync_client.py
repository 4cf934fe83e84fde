"""The synchronous client of the HTTP service."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx

from seqbatch.client import calls as calls
from seqbatch.client.calls import (
    AGAIN,
    AssignedAnswer,
    Call,
    CampaignCalls,
    HowToRead,
    NoAnswerError,
    RecordedAnswer,
    Rows,
    pause,
    result,
    service_url,
    written,
)

T = TypeVar("T")


class Client:
    """A synchronous client of the HTTP service.

    A call is repeated if it gets no answer or if the service is busy. It carries the same
    idempotency key each time, so its change is made only once.

    Parameters
    ----------
    url
        The URL of the service, for example ``"http://127.0.0.1:8000"``.
    token
        A token from ``seqbatch token create``.
    retries
        How often a call is repeated at most.
    timeout
        How many seconds to wait for an answer.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", "sqb_...")
    >>> client.campaign("spring")
    <RemoteCampaign spring at http://127.0.0.1:8000>
    """

    def __init__(self, url: str, token: str, *, retries: int = 4, timeout: float = 120.0) -> None:
        self.url = service_url(url)
        self._retries = retries
        headers = {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def campaign(self, name: str) -> RemoteCampaign:
        """Return a campaign of the service; its first call fails if it does not exist."""
        return RemoteCampaign(self, name)

    def campaigns(self) -> list[dict[str, Any]]:
        """Return a summary of each campaign that the token gives access to."""
        return self.ask(calls.listed())

    def plan(self, **values: Any) -> dict[str, Any]:
        """Plan an experiment; see :func:`seqbatch.planning.plan`."""
        return self.ask(calls.plan(values))

    def validate(
        self,
        spec: Mapping[str, Any] | str,
        units: list[Any] | None = None,
        outcomes: list[Any] | None = None,
    ) -> dict[str, Any]:
        """Try a spec: return what create, assign and record would answer. A text spec is TOML."""
        return self.ask(calls.validate(spec, units, outcomes))

    def rehearse(
        self,
        spec: Mapping[str, Any] | str,
        units: list[Any] | None = None,
        *,
        truths: Sequence[Mapping[str, Any]] = (),
        campaigns: int = 1_000,
        seed: int = 0,
        report: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Rehearse a spec; see :func:`seqbatch.campaign.rehearse`. A text spec is TOML.

        The service answers every few seconds: `report` is then called with how many parts are done,
        and with their number.
        """
        call = calls.rehearse(spec, units, truths, campaigns, seed)
        while "hash" not in (found := self.ask(call)):
            if report is not None:
                report(found["done"], found["total"])
        return found

    def create(
        self,
        spec: Mapping[str, Any] | str,
        *,
        key: str | None = None,
        rehearsal: Mapping[str, Any] | None = None,
    ) -> RemoteCampaign:
        """Create a campaign from a spec; a text is read as TOML.

        The first event keeps the hash of its rehearsal, if there was one.
        """
        created = self.ask(calls.create(spec, key, rehearsal))
        return self.campaign(created["name"])

    def ask(self, call: Call[T]) -> T:
        """Send a call, and repeat it if the service is busy or does not answer."""
        for attempt in range(self._retries + 1):
            response = None
            try:
                response = self._http.request(call.method, call.path, **call.options())
                if response.status_code not in AGAIN or attempt == self._retries:
                    return result(self.url, call, response)
            except httpx.TransportError as error:
                if attempt == self._retries:
                    raise NoAnswerError(self.url, call, error) from error
            except httpx.HTTPError as error:
                raise NoAnswerError(self.url, call, error) from error
            time.sleep(pause(attempt, response))
        raise AssertionError


class RemoteCampaign:
    """A campaign of the service, with the methods of :class:`~seqbatch.campaign.Campaign`.

    Methods that change the campaign take an idempotency `key`: a second call with the same key
    changes nothing and gets the same answer. Without a key, each call generates its own.

    Parameters
    ----------
    client
        The client.
    name
        The campaign's name.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client
        self._calls = CampaignCalls(name)

    def __repr__(self) -> str:
        return f"<RemoteCampaign {self.name} at {self._client.url}>"

    def situation(self) -> dict[str, Any]:
        """Return a summary of the campaign's current state."""
        return self._client.ask(self._calls.show())

    def status(self, *, at_event: int | None = None) -> dict[str, Any]:
        """Return the campaign's status, now or right after an event."""
        found: dict[str, Any] = self._client.ask(self._calls.view("status", at_event=at_event))
        return found

    def findings(
        self,
        *,
        level: float = 0.95,
        at_event: int | None = None,
        tree: bool = False,
        boosted_trees: bool = False,
        conditional_power: bool = False,
    ) -> dict[str, Any]:
        """Return the findings so far, with a rule in a few words if `tree` is true.

        With `boosted_trees`, they say whether a rule by trees would have done better; with
        `conditional_power`, what the looks to come may show.
        """
        found: dict[str, Any] = self._client.ask(
            self._calls.view(
                "findings",
                level=level,
                at_event=at_event,
                tree=tree,
                boosted_trees=boosted_trees,
                conditional_power=conditional_power,
            )
        )
        return found

    def next_rule(
        self,
        *,
        kind: str = "linear",
        file_format: str = "json",
        dialect: str = "duckdb",
        units: str = "units",
        at_event: int | None = None,
    ) -> str:
        """Return the rule to run next as text: json, sql or python."""
        call = self._calls.document(
            "rule", format=file_format, kind=kind, dialect=dialect, units=units, at_event=at_event
        )
        return (self._client.ask(call)).decode()

    def events(self) -> list[dict[str, Any]]:
        """Return all events in order."""
        every: list[dict[str, Any]] = []
        while True:
            page = self._client.ask(self._calls.view("events", after=len(every), most=1_000))
            every += page["events"]
            if len(every) >= page["total"]:
                return every

    def report(
        self,
        out: str | Path,
        *,
        at_event: int | None = None,
        file_format: str = "html",
        appendix: bool = False,
    ) -> Path:
        """Write the report to a file: html, md or json."""
        call = self._calls.document(
            "report", format=file_format, at_event=at_event, appendix=appendix
        )
        return written(out, self._client.ask(call))

    def protocol(self, out: str | Path, *, file_format: str = "html") -> Path:
        """Write the protocol to a file: html, md or json."""
        call = self._calls.document("protocol", format=file_format)
        return written(out, self._client.ask(call))

    def package(self, out: str | Path) -> Path:
        """Write everything about the campaign to a .zip file that can be verified elsewhere."""
        call = self._calls.document("package")
        return written(out, self._client.ask(call))

    def export(
        self,
        out: str | Path,
        *,
        what: str = "units",
        at_event: int | None = None,
        file_format: str = "csv",
    ) -> Path:
        """Export stored data to a file: units, outcomes, held, events or sums."""
        call = self._calls.document("export", what=what, format=file_format, at_event=at_event)
        return written(out, self._client.ask(call))

    def assign(
        self,
        units: Rows,
        *,
        partial: bool = False,
        draw: bool = False,
        with_columns: Sequence[str] = (),
        key: str | None = None,
        **reading: Unpack[HowToRead],
    ) -> AssignedAnswer:
        """Assign actions to units: a list of dicts, a file, or a table with Arrow's interface.

        `with_columns` are copied to the answer. A file may have a `sheet`, `skip_rows` above its
        header, and repeated units (`dedupe`), as for :class:`~seqbatch.campaign.Campaign`.
        """
        call = self._calls.assign(
            units, partial=partial, draw=draw, with_columns=with_columns, key=key, reading=reading
        )
        return self._client.ask(call)

    def record(
        self,
        outcomes: Rows,
        *,
        correct: bool = False,
        reason: str = "",
        equal_rows: str | None = None,
        match_ids: bool = False,
        dry_run: bool = False,
        key: str | None = None,
        **reading: Unpack[HowToRead],
    ) -> RecordedAnswer:
        """Record outcomes: a list of dicts, a file, or a table with Arrow's interface."""
        call = self._calls.record(
            outcomes, correct=correct, reason=reason, equal_rows=equal_rows,
            match_ids=match_ids, dry_run=dry_run, key=key, reading=reading,
        )  # fmt: skip
        return self._client.ask(call)

    def close(
        self,
        *,
        wave: int | None = None,
        force: bool = False,
        skip: bool = False,
        reason: str = "",
        key: str | None = None,
    ) -> dict[str, Any]:
        """Close the open wave: re-estimate and open the next."""
        values = {"wave": wave, "force": force, "skip": skip, "reason": reason}
        return self._client.ask(self._calls.step("close", key, values))

    def amend(self, *, reason: str, key: str | None = None, **values: Any) -> dict[str, Any]:
        """Change the campaign between two waves; see :meth:`seqbatch.campaign.Campaign.amend`."""
        body = {"reason": reason, **values}
        return self._client.ask(self._calls.step("amend", key, body))

    def go_on(self, *, reason: str, key: str | None = None) -> dict[str, Any]:
        """Continue despite the declared stopping rule."""
        return self._client.ask(self._calls.step("continue", key, {"reason": reason}))

    def stop(self, *, reason: str, key: str | None = None) -> dict[str, Any]:
        """Confirm the stop that the declared rule says; this is final."""
        return self._client.ask(self._calls.step("stop", key, {"reason": reason}))

    def sign(self, *, meaning: str, reason: str = "", key: str | None = None) -> dict[str, Any]:
        """Sign everything recorded so far, with the name of the token."""
        values = {"meaning": meaning, "reason": reason}
        return self._client.ask(self._calls.step("sign", key, values))

    def screen(
        self,
        *,
        assessed: int,
        excluded: dict[str, int] | None = None,
        reason: str = "",
        key: str | None = None,
    ) -> dict[str, Any]:
        """Record how many units were assessed, and excluded by which rule."""
        values = {"assessed": assessed, "excluded": excluded or {}, "reason": reason}
        return self._client.ask(self._calls.step("screen", key, values))

    def erase(self, units: Rows, *, reason: str) -> dict[str, Any]:
        """Erase units, a list of dicts with their ids, from every record; repeating is harmless."""
        return self._client.ask(self._calls.erase(units, reason))

    def abort(self, *, reason: str, key: str | None = None) -> dict[str, Any]:
        """End the campaign early."""
        return self._client.ask(self._calls.step("abort", key, {"reason": reason}))
