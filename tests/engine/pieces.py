"""Functions that processes of engines can import."""

import atexit
import os
import signal
import time
from pathlib import Path


def square(piece):
    return piece * piece


def pid(_piece):
    return os.getpid()


def pid_of_two(folder):
    """Return this process once another has been asked for its own too, however late it starts."""
    (Path(folder) / str(os.getpid())).touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    return os.getpid()


def meet(folder):
    """Wait, for a while, until another process ends too; then say so."""
    here = Path(folder) / f"{os.getpid()} ends"
    here.touch()
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if len(list(Path(folder).glob("* ends"))) > 1:
            here.with_name(f"{os.getpid()} met").touch()
            return
        time.sleep(0.01)


def ends_in_company(folder):
    """Have this process wait at its end until another ends too."""
    atexit.register(meet, folder)
    return pid_of_two(folder)


def stops_in_company(folder):
    """Work until told to stop, and wait then as :func:`ends_in_company` does."""

    def stop(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        meet(folder)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    (Path(folder) / f"{os.getpid()} at work").touch()
    time.sleep(60)


def slow_at_first(piece):
    time.sleep(0.2 if piece == 0 else 0.0)
    return piece


def ignores_interrupts(_piece):
    return signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def failing(piece):
    if piece == 3:
        raise ZeroDivisionError("three cannot be done")
    return piece


class StubbornError(Exception):
    """An error that cannot be made again from what it says."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def stubborn(_piece):
    raise StubbornError("this", "that")


def unpicklable(_piece):
    return lambda: None


def dying_once(piece):
    """Kill the process that does piece 2, the first time; a piece is a number and a folder."""
    number, folder = piece
    mark = Path(folder) / "died"
    if number == 2 and not mark.exists():
        mark.write_text(str(os.getpid()), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def dying(piece):
    if piece == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return piece


def half_gram(batch):
    """Return a sum whose last bits depend on the order of addition."""
    return float(sum(batch.column("x").to_pylist())) / 3
