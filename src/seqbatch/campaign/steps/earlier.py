"""Find the history that a spec names: an earlier campaign of the store, or a file of its sums."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seqbatch.campaign.decide.earlier_sums import earlier_sums
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.earlier_campaign import Document, damage, differences
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.spec.spec import Spec
from seqbatch.errors import CampaignStateError, InvalidSpecError

#: The maximum length of a file of sums, in bytes.
LONGEST = 200_000_000


@dataclass(frozen=True)
class Sources:
    """Where a spec may take its history from.

    Parameters
    ----------
    store
        Returns the store with earlier campaigns; None if there is none.
    files
        Whether files may be read: a service reads none for its callers.
    sees
        Whether the caller may see a campaign.
    """

    store: Callable[[], Store] | None = None
    files: bool = True
    sees: Callable[[str], bool] = lambda _name: True


def earlier_campaign(spec: Spec, sources: Sources, *, folder: Path) -> Document | None:
    """Return the history that a spec names, or None; refuse one that does not fit the spec.

    Parameters
    ----------
    spec
        The spec.
    sources
        Where to look.
    folder
        The folder from which a relative file name is meant.
    """
    if spec.history is None:
        return None
    if spec.history.file is not None:
        found, place = _from_file(spec.history.file, sources, folder), "file"
    else:
        assert spec.history.campaign is not None
        found, place = _from_store(spec.history.campaign, sources), "campaign"
    if problem := damage(found):
        name = spec.history.file or spec.history.campaign
        raise _refusal(place, f"{name} {problem}. Export the sums of the campaign again.")
    if different := differences(found, spec):
        said = "; ".join(different[:10]) + ("; and more" if len(different) > 10 else "")
        raise _refusal(
            place,
            f"campaign {found['campaign']} was not encoded like this one, so its sums do not fit: "
            f"{said}. Declare the same, or leave history out.",
        )
    return found


def require_same_columns(now: Situation) -> None:
    """Refuse a history whose model has other columns, for whatever reason."""
    if now.history is None:
        return
    columns = list(now.encoder().names)
    if (before := now.history["columns"]) != columns:
        other = sorted(set(before) ^ set(columns)) or before
        raise _refusal(
            "campaign" if now.spec.history and now.spec.history.campaign else "file",
            f"the model of campaign {now.history['campaign']} had other columns: "
            f"{', '.join(other[:10])}. Declare the same features, or leave history out.",
        )


def _refusal(setting: str, said: str) -> InvalidSpecError:
    return InvalidSpecError.at(("history", setting), f"history.{setting}: {said}")


def _from_file(name: str, sources: Sources, folder: Path) -> Document:
    if not sources.files:
        raise _refusal(
            "file", "a service reads no files; name a campaign of its store: history.campaign."
        )
    found, problem = read_sums(folder / name)
    if found is None:
        raise _refusal("file", f"{name} {problem}.")
    return found


def read_sums(path: Path) -> tuple[Document | None, str]:
    """Return the document in a file of sums, or None and why there is none."""
    try:
        if path.stat().st_size > LONGEST:
            return None, f"is too long: at most {LONGEST:,} bytes are read"
        return json.loads(path.read_text(encoding="utf-8")), ""
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return None, "is not JSON; export the sums of the earlier campaign to a .json file"


def _from_store(name: str, sources: Sources) -> Document:
    if sources.store is None:
        raise _refusal(
            "campaign", f"campaign {name} must be in a store, and no store is open here."
        )
    store = sources.store()
    if not sources.sees(name) or name not in store.names():
        raise _refusal(
            "campaign",
            f"the store has no campaign {name!r}. Name a closed campaign of the same store, or "
            "export its sums there and name the file: history.file.",
        )
    try:
        with store.read(name) as reader:
            return earlier_sums(reader, current(reader))
    except CampaignStateError as error:
        raise _refusal("campaign", str(error)) from None
