"""PostgreSQL, the service and the bare route, each in separate processes, on loopback."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.service import bare

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


@contextmanager
def database() -> Iterator[str]:
    """Run a separate PostgreSQL that waits for its disk; yield its address."""
    folder = Path(tempfile.mkdtemp(prefix="seqbatch-pg-"))
    # The server runs as another user where this runs as root: it must reach its folder.
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgserver

        server = pgserver.postgres_server.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def held() -> socket.socket:
    """Take a free port, for a server that is started later: no other program is given it.

    Two sockets may have the same address where both allow it and one of them listens.
    """
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", 0))
    return made


class Served:
    """A server with several workers, at a port of its own."""

    def __init__(self, *words: str, ready: str, **environment: str) -> None:
        self._held = held()
        self.port = int(self._held.getsockname()[1])
        command = [sys.executable, *words, "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, env={**os.environ, **_ONE_THREAD, **environment}, start_new_session=True
        )
        self._wait(f"http://127.0.0.1:{self.port}{ready}")

    def _wait(self, address: str) -> None:
        for _ in range(1200):
            try:
                with urllib.request.urlopen(address):
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise RuntimeError(f"nothing answers at {address}")

    def workers(self) -> list[int]:
        """Return the processes that answer calls, and not those that look after them."""
        main = self.process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return [int(child) for child in children if _answers(int(child))]

    def end(self) -> int:
        """Ask it to stop; return the status that it ends with."""
        self.process.send_signal(signal.SIGTERM)
        self._held.close()
        return self.process.wait(timeout=60)


def _answers(process: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return b"resource_tracker" not in words and b"spawn_main" in words


def sockets(process: int) -> int:
    """Return how many sockets a process has open; 0 where it is gone."""
    try:
        files = list(Path(f"/proc/{process}/fd").iterdir())
        return sum(str(file.readlink()).startswith("socket:") for file in files)
    except OSError:
        return 0


def serve(store: str, workers: int) -> Served:
    """Run the service."""
    code = "from seqbatch.cli import main; main()"
    return Served("-c", code, "serve", "--store", store, "--workers", str(workers), ready="/ready")


def serve_bare(store: str, workers: int) -> Served:
    """Run the bare route."""
    return Served(
        "-m", "uvicorn", "benchmarks.service.bare:app", "--workers", str(workers),
        "--log-level", "warning", ready="/docs", **{bare.DATABASE: store},
    )  # fmt: skip
