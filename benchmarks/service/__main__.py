"""The service compared with a bare route, on one PostgreSQL; writes docs/reliability.md.

``python -m benchmarks.service`` takes about three minutes; ``--seconds 2`` makes each part shorter,
and ``--no-page`` leaves the page as it is. One wrong answer ends the run.
"""

import argparse
import os
import platform
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

import psycopg

from benchmarks.service import bare, page
from benchmarks.service.load import Load, loaded
from benchmarks.service.servers import Served, database, serve, serve_bare, sockets
from benchmarks.service.work import bare_calls, calls, examine, prepared

WORKERS, CLIENTS, ROUNDS = 2, 32, 3
#: Units of a large call, how many such calls there are, and how many clients make them.
MANY, MANY_CALLS, MANY_CLIENTS = 10_000, 40, 4
#: Every how many seconds a worker is killed.
KILLED = 3.0
#: Sockets of a worker that has no calls yet: where it listens, and those that wake its loop.
STARTING = 3
TEXT = """\
The last run of `python -m benchmarks.service`, on {machine}, Python {python}, PostgreSQL {postgres} with `fsync` on;
database, {workers} workers and {clients} clients share {cores} cores. The bare route writes one row in a transaction with
the same framework. Route and service take turns, {rounds} times {seconds:g} seconds each.

{table}

Every answer had the stored action and the event that assigned the unit, no unit was assigned twice, and `verify` found
nothing: {units:,} units in {events:,} events before the kills, {all_units:,} in {all_events:,} after them. *Killed*: a worker
that answers calls is killed (`kill -9`) every {killed:g} seconds, {kills} times in all; clients repeat the calls that got no
answer with the same key, {again} times.
"""  # noqa: E501


@dataclass
class Measured:
    """All loads of a run, by what was asked."""

    bare: list[Load] = field(default_factory=list)
    single: list[Load] = field(default_factory=list)
    others: list[Load] = field(default_factory=list)


def take_turns(bare_route: Served, service: Served, token: str, seconds: float) -> Measured:
    """Ask the bare route and the service for one unit at a time, in turns; the first warms up."""
    found = Measured()
    for turn in range(ROUNDS + 1):
        long = seconds if turn else min(seconds, 4.0)
        plain = loaded(bare_route.port, token, bare_calls(f"b{turn}"), CLIENTS, seconds=long)
        served = loaded(service.port, token, calls(f"s{turn}", 1), CLIENTS, seconds=long)
        (found.bare if turn else []).append(plain)
        (found.single if turn else found.others).append(served)
        print(f"turn {turn}: bare {plain.rate:,.0f}/s, service {served.rate:,.0f}/s", flush=True)
    return found


def many(service: Served, token: str, prefix: str, *, retry: bool = False) -> Load:
    """Make large calls, which are put together before, for a minute at most."""
    made = list(islice(calls(prefix, MANY), MANY_CALLS))
    return loaded(service.port, token, iter(made), MANY_CLIENTS, seconds=60, retry=retry)


@contextmanager
def killing(service: Served) -> Iterator[list[int]]:
    """Kill a worker every few seconds; yield those that were killed."""
    over, killed, draw = threading.Event(), list[int](), random.Random(16)

    def kill() -> None:
        while not over.wait(KILLED):
            # One that is still starting, and has no call, would die before it has done anything.
            if ready := [worker for worker in service.workers() if sockets(worker) > STARTING]:
                killed.append(draw.choice(ready))
                os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def table(found: Measured, large: Load, killed: Load, killed_large: Load) -> str:
    """Return what was measured."""
    rows = ["| | calls a second | half of them within | 99% within |", "|---|---:|---:|---:|"]

    def add(what: str, loads: list[Load], *, units: int = 0) -> tuple[float, float]:
        rate = median(load.rate for load in loads)
        half, most = (median(load.percentile(share) for load in loads) for share in (50, 99))
        shown = f"{rate:.1f} ({rate * units:,.0f} units)" if units else f"{rate:,.0f}"
        rows.append(f"| {what} | {shown} | {half:,.0f} ms | {most:,.0f} ms |")
        return rate, most

    rate, most = add("bare route, one row", found.bare)
    own_rate, own_most = add("service, one unit", found.single)
    rows.append(f"| *service over bare* | {own_rate / rate:.2f} | | {own_most / most:.2f} |")
    add(f"service, {MANY:,} units", [large], units=MANY)
    add("service, one unit, killed", [killed])
    add(f"service, {MANY:,} units, killed", [killed_large], units=MANY)
    return "\n".join(rows)


def measure(seconds: float) -> str:
    """Run everything; return the section."""
    with database() as url:
        token = prepared(url)
        with psycopg.connect(url) as connection:
            connection.execute(bare.TABLE)
            postgres = connection.info.server_version
        bare_route, service = serve_bare(url, WORKERS), serve(url, WORKERS)
        try:
            found = take_turns(bare_route, service, token, seconds)
            large = many(service, token, "m")
            every = [*found.single, *found.others, large]
            units, events = examine(url, every)
            print(f"{large.rate * MANY:,.0f} units/s in large calls; sound", flush=True)
            with killing(service) as kills:
                killed = loaded(
                    service.port, token, calls("k", 1), CLIENTS, seconds=2 * seconds, retry=True
                )
                killed_large = many(service, token, "km", retry=True)
            all_units, all_events = examine(url, [*every, killed, killed_large])
        finally:
            ended = [server.end() for server in (bare_route, service)]
        if ended[1]:
            raise AssertionError(f"the service ended with status {ended[1]}")
        return TEXT.format(
            machine=f"{platform.system()} {platform.machine()}", python=platform.python_version(),
            postgres=f"{postgres // 10_000}.{postgres % 10_000}", cores=os.cpu_count(),
            workers=WORKERS, rounds=ROUNDS, seconds=seconds, clients=CLIENTS,
            table=table(found, large, killed, killed_large), units=units, events=events,
            all_units=all_units, all_events=all_events, killed=KILLED, kills=len(kills),
            again=f"{killed.again + killed_large.again:,}",
        )  # fmt: skip


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each part")
    parser.add_argument("--no-page", action="store_true", help="leave the page as it is")
    asked = parser.parse_args()
    text = measure(asked.seconds)
    print(f"\n{text}")
    if not asked.no_page:
        page.write(text)


if __name__ == "__main__":
    main()
