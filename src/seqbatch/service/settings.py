"""What bounds a call."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The limits of a service.

    Parameters
    ----------
    json_bytes, file_bytes
        The longest body of JSON, and of a file of units or outcomes.
    rows
        The most units or outcomes in a body of JSON.
    body_seconds
        How long a body may take to arrive.
    seconds
        How long a plan, findings, a report or an export may take.
    at_once
        How many of those may run at a time; more are asked to come again.
    token_seconds
        How long what is known of a token is believed: a revoked one is refused after that.
    session_seconds
        How long somebody stays signed in to the dashboard.
    upload_seconds, uploads
        How long the dashboard keeps a file between its check and its confirmation, and how many of
        them for each session; no more than `file_bytes` for each session in all.
    upload_bytes
        How much it keeps so for all sessions.
    folder
        Where those files are kept, the same for all workers; a folder of its own where None.
    """

    json_bytes: int = 8 << 20
    file_bytes: int = 1 << 30
    rows: int = 10_000
    body_seconds: float = 300.0
    seconds: float = 120.0
    at_once: int = 4
    token_seconds: float = 5.0
    session_seconds: float = 12 * 3600.0
    upload_seconds: float = 3600.0
    uploads: int = 4
    upload_bytes: int = 4 << 30
    folder: Path | None = None
