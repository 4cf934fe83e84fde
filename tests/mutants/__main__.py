"""Apply each mutant to a copy of the tree, run its tests, and say which went unnoticed.

Run it by `make mutants`, with options as `make mutants MUTANTS="--only weights-of-one"`. It can be
interrupted: what was noticed is kept in out/mutants.json, and tried again only where the mutant,
its file or its tests have changed.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import blake2b
from pathlib import Path

from tests.mutants import PARTS, ROOT, declared

KEPT = ROOT / "out" / "mutants.json"
PAGE = ROOT / "docs" / "mutants.md"
#: A mutant that makes the tests run for longer than this many seconds has been noticed.
PATIENCE = 600
#: What `make test` leaves out notices nothing.
OPTIONS = (
    "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk", "-m", "not thorough",
)  # fmt: skip
#: What a copy does without. Compiled files come along: their sources keep their times.
LEFT_OUT = shutil.ignore_patterns(".*", "out", "dist", "build")
HEAD = """\
# Do the tests notice wrong numbers?

Made by `make mutants`: a few words of the program are replaced by others, one place at a time, so
that it still runs and a number is wrong. Then the tests that are named with the change, in
`tests/mutants/`, must fail. The changes were chosen by hand: the table says that the tests notice
these changes, not that every number is right.

| part | mutants | noticed |
|---|---|---|"""
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"


class Copy:
    """A copy of the tree, in which one mutant at a time is tried."""

    def __init__(self, folder):
        self.root = Path(folder) / "tree"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)

    def tried(self, mutant):
        """Run a mutant's tests against it; return what came of it, who noticed, and the time."""
        path, started = self.root / mutant.path, time.monotonic()
        sound = shutil.copy2(path, self.root.parent / "sound.py")
        path.write_text(mutant.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
        try:
            verdict, noticed = self.tested(mutant.selection)
        finally:
            shutil.copy2(sound, path)
        return {"verdict": verdict, "by": noticed, "seconds": round(time.monotonic() - started, 1)}

    def tested(self, selection):
        """Run tests in the copy; return the verdict on its program and the first that failed."""
        words = [sys.executable, "-m", "pytest", *OPTIONS, *selection]
        paths = os.pathsep.join([str(self.root / "src"), str(self.root)])
        environment = {**os.environ, "PYTHONPATH": paths}
        try:
            run = subprocess.run(
                words, cwd=self.root, env=environment, capture_output=True, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return KILLED, f"no end within {PATIENCE} seconds"
        if run.returncode == 0:
            return SURVIVED, ""
        failed = re.search(r"^FAILED (\S+)", run.stdout, re.MULTILINE)
        if failed:
            return KILLED, failed[1]
        return BROKEN, (run.stdout + run.stderr).strip()[-400:]


def fingerprint(mutant):
    """Return a hash of everything that a finding about a mutant directly rests on."""
    made = blake2b(repr(mutant).encode(), digest_size=16)
    made.update((ROOT / mutant.path).read_bytes())
    for word in mutant.selection:
        path = ROOT / word.partition("::")[0]
        if path.is_file():
            made.update(path.read_bytes())
    return made.hexdigest()


def known(mutant, found):
    """Say whether a mutant was noticed before, and nothing has changed since."""
    earlier = found.get(mutant.name, {"verdict": SURVIVED})
    return earlier["verdict"] == KILLED and earlier["fingerprint"] == fingerprint(mutant)


def load():
    """Return what earlier runs found, by mutant."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads(KEPT.read_text(encoding="utf-8"))
    return {}


def keep(found):
    """Write down what was found so far."""
    KEPT.parent.mkdir(exist_ok=True)
    beside = KEPT.with_suffix(".new")
    beside.write_text(json.dumps(found, indent=1), encoding="utf-8")
    beside.replace(KEPT)


def run(mutants, found, jobs):
    """Try mutants, some at a time, and keep what is found as it is found."""
    # Of the files as they are copied now, whatever becomes of them meanwhile.
    prints = {mutant.name: fingerprint(mutant) for mutant in mutants}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(Path(folder) / str(number)))
        sound = copies.get()
        # A test that fails anyway notices nothing.
        verdict, which = sound.tested(sorted({word for m in mutants for word in m.selection}))
        copies.put(sound)
        if verdict != SURVIVED:
            sys.exit(f"The tests fail without any mutant; mend them first: {which}")

        def tried(mutant):
            copy = copies.get()
            try:
                return copy.tried(mutant)
            finally:
                copies.put(copy)

        waiting = {pool.submit(tried, mutant): mutant for mutant in mutants}
        try:
            for done in as_completed(waiting):
                mutant = waiting[done]
                found[mutant.name] = {**done.result(), "fingerprint": prints[mutant.name]}
                keep(found)
                print(line(mutant, found[mutant.name]), flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def line(mutant, finding):
    """Return a finding as a line of the table."""
    seconds, verdict = finding["seconds"], finding["verdict"]
    return f"{mutant.name:<36} {verdict:<9} {seconds:>6.1f} s  {finding['by']}"


def page(mutants, found):
    """Return what is to be known of all mutants, as a page."""
    killed = {m.name for m in mutants if found[m.name]["verdict"] == KILLED}
    lines = [HEAD]
    for part in PARTS:
        own = [m.name for m in mutants if m.part == part]
        lines.append(f"| {part} | {len(own)} | {len(killed.intersection(own))} |")
    lines += ["", f"{len(killed)} of {len(mutants)} are noticed."]
    lines += [f"Not noticed: `{m.name}`. {m.why}" for m in mutants if m.name not in killed]
    return "\n".join(lines) + "\n"


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="this mutant alone")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="try again what was noticed before")
    asked = parser.parse_args()
    every = declared()
    mutants = [m for m in every if not asked.only or m.name in asked.only]
    if asked.only and (unknown := set(asked.only) - {m.name for m in every}):
        sys.exit(f"No such mutant: {', '.join(sorted(unknown))}")
    stale = [f"{m.name}: {m.stale}" for m in mutants if m.stale]
    if stale:
        sys.exit("\n".join(["Mutants out of date:", *stale]))
    found = load()
    left = [m for m in mutants if asked.fresh or not known(m, found)]
    for mutant in mutants:
        if mutant not in left:
            print(line(mutant, found[mutant.name]))
    if left:
        run(left, found, asked.jobs)
    if not asked.only:
        PAGE.write_text(page(mutants, found), encoding="utf-8")
    bad = [m.name for m in mutants if found[m.name]["verdict"] != KILLED]
    print(f"\n{len(mutants)} mutants, {len(bad)} unnoticed or broken. {', '.join(bad)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; run the same command again to resume")
