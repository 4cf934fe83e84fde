"""The calls of one campaign, by the names that its methods have."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from seqbatch.client.calls import (
    Assigned,
    Call,
    Recorded,
    Rows,
    assigned,
    body_of,
    changing,
    plain,
    recorded,
)

T = TypeVar("T")


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

    def assign(self, units: Rows, *, partial: bool, draw: bool, key: str | None) -> Call[Assigned]:
        """Give units their actions."""
        body = body_of(units, "units", {"partial": partial, "draw": draw})
        if "file" in body:
            body["params"]["format"] = "arrow"
        return self._change("assignments", key, body, assigned)

    def record(
        self, outcomes: Rows, *, correct: bool, reason: str, dry_run: bool, key: str | None
    ) -> Call[Recorded]:
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
