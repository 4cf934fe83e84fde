"""The command `doctor`: what is installed, compiled and reachable, and what is wrong."""

import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import typer

from seqbatch.cli.campaign import Where
from seqbatch.cli.console import FOUND, Json, dump, say, show
from seqbatch.cli.messages import STORE
from seqbatch.display import counted, enumerated
from seqbatch.document import Table
from seqbatch.errors import SeqbatchError

#: Extras for those who use seqbatch; the others are for those who develop it.
EXTRAS = ("campaign", "service", "lab", "postgres", "signing", "trees", "lake", "dask", "ray",
          "spark", "gpu", "client", "telemetry")  # fmt: skip
#: A requirement of an extra, as the package's metadata has it.
REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+).*;.*\bextra == ['\"]([a-z]+)['\"]")
#: Less free space than this is worth a warning.
LEAST_FREE = 2**30
OK, ABSENT, WRONG = "ok", "not installed", "wrong"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: its state, what was found, and what to do."""

    about: str
    state: str
    found: str
    advice: str = ""


def doctor(store: Where = STORE, as_json: Json = False) -> None:
    """Check the installation and the store. Exit code 1: something is wrong.

    Example: seqbatch doctor --store campaigns.db
    """
    checks = [*_software(), *_extras(), _kernels(), *_store(store), _browser(), _disk(store)]
    if as_json:
        dump([asdict(one) for one in checks])
    else:
        rows = [(one.about, one.state, one.found) for one in checks]
        columns = ("what", "state", "found")
        show(Table("This installation of seqbatch", columns, rows, words=columns))
        for one in checks:
            if one.advice:
                say(f"{one.about}: {one.advice}")
    if any(one.state == WRONG for one in checks):
        raise typer.Exit(FOUND)


def _software() -> Iterator[Check]:
    yield Check("seqbatch", OK, version("seqbatch"))
    yield Check("Python", OK, f"{platform.python_version()} on {platform.system()}")
    for name in ("numpy", "scipy", "numba"):
        yield Check(name, OK, version(name))


def _extras() -> Iterator[Check]:
    """Say of every extra whether all of its packages are installed."""
    needed: dict[str, list[str]] = {extra: [] for extra in EXTRAS}
    for requirement in requires("seqbatch") or ():
        found = REQUIREMENT.match(requirement)
        if found and found[2] in needed:
            needed[found[2]].append(found[1])
    for extra, names in needed.items():
        missing = [name for name in names if not _installed(name)]
        if missing:
            yield Check(f"extra {extra}", ABSENT, f"without {enumerated(missing)}")
        else:
            yield Check(f"extra {extra}", OK, counted(len(names), "package"))


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _kernels() -> Check:
    """Say whether compiled code can be kept."""
    from seqbatch.core import kernels

    folder = kernels.compiling.FOLDER
    if folder is None:
        advice = "Set NUMBA_CACHE_DIR to a writable folder, or every process compiles again."
        return Check("compiled code", WRONG, "no folder for it is writable", advice)
    count = len(list(folder.rglob("*.nbc")))
    return Check("compiled code", OK, counted(count, "kernel"))


def _store(store: str) -> list[Check]:
    """Look at the store and its migrations; opening it runs those that are missing."""
    try:
        from seqbatch.storage import open_store
        from seqbatch.storage.stores import KNOWN, made_by
    except ModuleNotFoundError as error:
        return [Check("store", ABSENT, f"{error.name} is needed", "Install the extra campaign.")]
    try:
        base = open_store(store, create=False)
        try:
            campaigns, parts = base.names(), base.schema_differences()
            with base.transaction(write=False) as connection:
                by = made_by(connection)
        finally:
            base.close()
    except SeqbatchError as error:
        if error.code == "no-such-store":
            return [Check("store", OK, "none yet")]
        return [Check("store", WRONG, "cannot be used", str(error))]
    migrations = Check("migrations", OK, f"schema {KNOWN[-1]}, the newest; by version {by}")
    if parts:
        said = "; ".join(f"{place} {problem}" for place, problem in parts)
        return [Check("store", WRONG, f"schema {KNOWN[-1]} was changed", said), migrations]
    return [Check("store", OK, counted(len(campaigns), "campaign")), migrations]


def _browser() -> Check:
    """Say whether the dashboard can be opened on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "firefox", "safari", "msedge")
    found = next((name for name in names if shutil.which(name)), None)
    if found is None and platform.system() == "Linux":
        return Check("browser", ABSENT, "the dashboard opens in a browser of another machine")
    return Check("browser", OK, found or "the system's own")


def _disk(store: str) -> Check:
    """Say how much space is free where the store is, or here if it is on a server."""
    here = Path(store).absolute().parent
    free = shutil.disk_usage(here if here.is_dir() else Path.cwd()).free
    found = f"{free / 2**30:,.1f} GiB free"
    if free < LEAST_FREE:
        return Check("disk", WRONG, found, "Make room: a change needs space for its rows.")
    return Check("disk", OK, found)
