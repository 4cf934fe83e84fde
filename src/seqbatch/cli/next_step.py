"""The next step, as a command that can be pasted."""

import os
import re
import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from seqbatch.errors import SeqbatchError

if TYPE_CHECKING:
    from seqbatch.campaign import Campaign
    from seqbatch.campaign.record.situation import Situation

#: Files of a folder whose columns are looked at.
MOST_FILES = 50
#: The store where none is named.
STORE = "campaigns.db"


def next_command(campaign: "Campaign", store: str) -> str | None:
    """Return the command that comes next for a campaign; None where that cannot be said.

    What was done is done: a folder or a store that cannot be read now is for the next call to name.

    Parameters
    ----------
    campaign
        The campaign.
    store
        Its store, as it was typed.
    """
    try:
        return command(*_words(campaign), store=store)
    except (SeqbatchError, OSError):
        return None


def _words(campaign: "Campaign") -> list[str]:
    now, step = campaign.situation(), campaign.next_step()
    words = [step, now.name]
    if step == "assign":
        words.append(_units_file(now) or "units.csv")
        words += [] if now.left is None else ["--draw"]
        words += ["--out", _new_file("assignments", now.wave)]
    elif step == "record":
        words.append(_outcomes_file(campaign, now) or "outcomes.csv")
    elif step == "report":
        words += ["--out", _new_file(now.name, None, ".html")]
    return words


def command(*words: str, store: str) -> str:
    """Return a campaign command for a shell; the store is named where it is not the usual one.

    >>> command("create", "my spec.toml", store="campaigns.db")
    "seqbatch campaign create 'my spec.toml'"
    >>> command("close", "spring", store="postgresql://ann:secret@host/db")
    'seqbatch campaign close spring --store postgresql://ann:...@host/db'
    """
    named = [] if store in (STORE, os.environ.get("SEQBATCH_STORE")) else ["--store", store]
    text = shlex.join(["seqbatch", "campaign", *words, *named])
    # A password is not repeated on a screen.
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:...@", text)


def _units_file(now: "Situation") -> str | None:
    """Return a file of this folder that has a unit's columns and is not one of answers.

    Of several, the one that is numbered like the wave; or else the largest, a list of everybody.
    """
    wanted, other = (
        set(now.encoder(wave=now.wave).columns),
        {"probability", *now.spec.reward.columns},
    )
    files = _found(lambda names: wanted <= names and not names & other)
    numbered = [path for path in files if str(now.wave) in re.findall(r"\d+", path.stem)]
    largest = max(numbered or files, key=lambda path: path.stat().st_size, default=None)
    return None if largest is None else str(largest)


def _outcomes_file(campaign: "Campaign", now: "Situation") -> str | None:
    """Return a file of this folder that has outcomes, and came after the last event."""
    with campaign.store.read(now.name) as reader:
        last = reader.last_event()
    since = datetime.fromisoformat(last.at).timestamp() if last else 0.0
    wanted = {*now.spec.unit, *now.spec.reward.columns}
    files = _found(lambda names: wanted <= names and "probability" not in names, since=since)
    return str(files[0]) if files else None


def _found(fits: Callable[[set[str]], bool], *, since: float = 0.0) -> list[Path]:
    """Return the tables of this folder whose columns fit, the newest first."""
    from seqbatch.campaign.tables.reading import has_ending, source

    files = [path for path in Path().iterdir() if has_ending(path.name) and path.is_file()]
    newest = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
    found = []
    for path in newest[:MOST_FILES]:
        try:
            with source(str(path)) as opened:
                if path.stat().st_mtime >= since and fits(set(opened.columns())):
                    found.append(path)
        except (SeqbatchError, OSError):
            continue
    return found


def _new_file(stem: str, number: int | None, ending: str = ".csv") -> str:
    """Return the name of a file that is not there yet."""
    names = [stem] if number is None else [stem, f"{stem}-{number}"]
    names += [f"{names[-1]}-{more}" for more in "abcdefgh"]
    return next((f"{name}{ending}" for name in names if not Path(f"{name}{ending}").exists()), "")
