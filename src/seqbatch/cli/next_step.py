"""The next step, as a command that can be pasted."""

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from seqbatch.errors import SeqbatchError

if TYPE_CHECKING:
    from seqbatch.campaign import Campaign
    from seqbatch.campaign.record.situation import Situation

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
        # Only a file that this campaign was told of: among others, nobody can guess who is meant.
        words.append(now.listed if _fits(now.listed, now) else "YOUR-UNITS.csv")
        words += [] if now.left is None else ["--draw"]
        words += ["--out", _new_file("assignments", now.wave)]
    elif step == "sql":
        words += ["--units", "YOUR_TABLE"]
    elif step == "record":
        words.append(f"YOUR-OUTCOMES-{now.wave}.csv")
    elif step == "report":
        words += ["--out", _new_file(now.name, None, ".html")]
    return words


def command(*words: str, store: str, group: str = "campaign") -> str:
    """Return a command of a group for a shell; the store is named where it is not the usual one.

    >>> command("create", "my spec.toml", store="campaigns.db")
    "seqbatch campaign create 'my spec.toml'"
    >>> command("close", "spring", store="postgresql://ann:secret@host/db")
    'seqbatch campaign close spring --store postgresql://ann:...@host/db'
    """
    named = [] if store in (STORE, os.environ.get("SEQBATCH_STORE")) else ["--store", store]
    text = shlex.join(["seqbatch", group, *words, *named])
    # A password is not repeated on a screen.
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:...@", text)


def _fits(file: str, now: "Situation") -> bool:
    """Say whether a file is there and has the columns of a unit."""
    from seqbatch.campaign.tables.reading import source

    if not file or not Path(file).is_file():
        return False
    try:
        with source(file) as opened:
            return set(now.encoder(wave=now.wave).columns) <= set(opened.columns())
    except (SeqbatchError, OSError):
        return False


def _new_file(stem: str, number: int | None, ending: str = ".csv") -> str:
    """Return the name of a file that is not there yet."""
    names = [stem] if number is None else [stem, f"{stem}-{number}"]
    names += [f"{names[-1]}-{more}" for more in "abcdefgh"]
    return next((f"{name}{ending}" for name in names if not Path(f"{name}{ending}").exists()), "")
