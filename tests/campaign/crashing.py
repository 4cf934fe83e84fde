"""A nursery of short-lived processes that can be killed at any point.

Importing everything takes a second, dying takes none: one process imports, and forks a child for
every attempt. The child opens the store, makes one call, and says so once the call has returned:
what was said was acknowledged, and must be there for ever.

Run as a module it reads one order a line from standard input and answers with one line each.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Points of a call at which a child can be told to die, and what is replaced to do so.
FAULTS = (
    "claim",
    "add_units",
    "add_outcomes",
    "add_state",
    "add_event",
    "commit",
    "publish",
    "replace",
)
#: Those of a lake.
LAKE_FAULTS = ("write file", "publish files", "add_event", "commit", "replace")


class Nursery:
    """The parent's end: one helper process, and orders to it."""

    def __init__(self, environment=None):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )

    def run(self, *orders):
        """Run children at once, one for each order; return what became of each."""
        self._process.stdin.write(json.dumps(orders) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the helper process died"
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def order(url, *calls, name="spring", die_after=None, die_at=None, fail=None, **arguments):
    """Say what a child is to do, and when it dies: after seconds, or at a point (before, after).

    A call is a name, to which the arguments belong, or a pair of a name and its arguments.
    """
    made = [(call, arguments) if isinstance(call, str) else call for call in calls]
    return {
        "url": str(url), "name": name, "die_after": die_after, "die_at": die_at, "fail": fail,
        "calls": [
            (call, {key: str(v) if isinstance(v, Path) else v for key, v in given.items()})
            for call, given in made
        ],
    }  # fmt: skip


def _die(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(point, view):
    """Make the process die right before or right after one step of a call."""
    from sqlalchemy.engine import default

    from seqbatch.campaign.files.writing import Writer
    from seqbatch.storage.lake.files import Files

    step, when = point
    owner, attribute = {
        "commit": (default.DefaultDialect, "do_commit"),
        "publish": (Writer, "publish"),
        "replace": (Path, "replace"),
        "write file": (Files, "write"),
        "publish files": (Files, "publish"),
    }.get(step, (view, step))
    original = getattr(owner, attribute)

    def armed(*args, **kwargs):
        if when == "before":
            _die()
        original(*args, **kwargs)
        _die()

    setattr(owner, attribute, armed)


def _child(given, pipe):
    from seqbatch.campaign import Campaign
    from seqbatch.errors import SeqbatchError
    from seqbatch.storage import open_store

    answer = {}
    try:
        store = open_store(given["url"], create=False)
        campaign = Campaign.open(given["name"], store=store, who="child")
        if given["fail"]:
            _fail_writes(*given["fail"])
        if given["die_at"]:
            with store.read(given["name"]) as reader:
                _arm(given["die_at"], type(reader))
        os.write(pipe, b"ready\n")
        try:
            started = time.monotonic()
            for call, arguments in given["calls"]:
                result = getattr(campaign, call)(**arguments)
            answer = {"done": True, "event": getattr(result, "event", None)}
            answer["seconds"] = time.monotonic() - started
        finally:
            writes = _fail_writes(-1, 0, "")
        answer["writes"] = writes
        store.close()
    except SeqbatchError as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    os.write(pipe, json.dumps(answer).encode() + b"\n")


def _fail_writes(number, code, needle):
    """Make writes fail from the nth on (see faults.c); return how many there were so far."""
    if "LD_PRELOAD" not in os.environ:
        return None
    import ctypes

    library = ctypes.CDLL(None)
    return library.fault_arm(number, code, needle.encode())


def _attend(children):
    """Read what children say until all ended, killing each at its time."""
    said = dict.fromkeys(children, b"")
    deadlines = {}
    pipes = {pipe: pid for pid, (pipe, _) in children.items()}
    while pipes:
        wait = min((at - time.monotonic() for at in deadlines.values()), default=30)
        ready, _, _ = select.select(list(pipes), [], [], max(wait, 0))
        for pipe in ready:
            pid = pipes[pipe]
            chunk = os.read(pipe, 65536)
            if not chunk:
                del pipes[pipe]
                deadlines.pop(pid, None)
                continue
            said[pid] += chunk
            delay = children[pid][1]
            if b"ready\n" in said[pid] and delay is not None:
                deadlines.setdefault(pid, time.monotonic() + delay)
        for pid, at in list(deadlines.items()):
            if time.monotonic() >= at:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                deadlines[pid] = time.monotonic() + 30
    results = []
    for pid, (pipe, _) in children.items():
        os.close(pipe)
        _, status = os.waitpid(pid, 0)
        lines = said[pid].decode().splitlines()
        spoken = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
        results.append({"killed": os.WIFSIGNALED(status), **spoken})
    return results


def _warm():
    """Load what every call needs, without starting any thread that a fork would lose."""
    import tempfile

    import pyarrow as pa

    # What a call imports late, each child would import again: most of the time of a close.
    import scipy.stats  # noqa: F401

    with contextlib.suppress(ImportError):
        import psycopg  # noqa: F401
        import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401

    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store
    from tests.campaign.instances import SPEC

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table({
            "id": ["a", "b", "c", "d"], "age": [1.0, 2.0, 3.0, 5.0], "spend": [1.0, 2.0, 1.0, 0.0],
            "zip": ["urban"] * 4, "city": ["x"] * 4,
        })  # fmt: skip
        for url in (f"{folder}/warm.db", f"lake:{folder}/warm"):
            store = open_store(url)
            campaign = Campaign.create({**SPEC, "grid": {"sizes": [4, 4]}}, store=store)
            for _ in range(2):
                campaign.assign(table)
                campaign.record(pa.table({"id": table["id"], "visit": [0.1, 0.2, 0.3, 0.4]}))
                campaign.close(wave=1)
            store.close()


def main():
    _warm()
    for line in sys.stdin:
        children = {}
        for given in json.loads(line):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                try:
                    _child(given, writing)
                finally:
                    os._exit(0)
            os.close(writing)
            children[pid] = (reading, given["die_after"])
        print(json.dumps(_attend(children)), flush=True)


if __name__ == "__main__":
    main()
