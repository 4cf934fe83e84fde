"""The engine of a Dask cluster."""

import logging
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

import dask
import distributed

from seqbatch.engine.base import PATIENCE, Engine, attempted
from seqbatch.errors import EngineError

#: Pieces in progress per thread of the cluster: with two, no thread waits for its next piece.
AHEAD = 2


class Uninterrupted(distributed.WorkerPlugin):
    """Makes workers ignore interrupts, which a terminal sends to all of its processes."""

    name = "uninterrupted"

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Ignore interrupts: the process that started the cluster ends it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Dask(Engine):
    """Runs pieces on a Dask cluster, which moves the pieces of a dead worker to another one.

    Parameters
    ----------
    address
        HOST:PORT of the scheduler; None to start a cluster on this machine's loopback.
    jobs
        How many processes to start in that case.
    """

    name = "dask"
    dead = (distributed.KilledWorker,)

    def __init__(self, address: str | None, *, jobs: int) -> None:
        self._stack = ExitStack()
        try:
            # Each task contains its piece, so it can run again when a worker dies. Dask warns about
            # tasks of more than 10 MB.
            quiet = {"distributed.admin.large-graph-warning-threshold": "10GB"}
            self._stack.enter_context(dask.config.set(quiet))
            where = self._started(jobs) if address is None else f"tcp://{address}"
            client = distributed.Client(where, timeout=PATIENCE, set_as_default=False)
            self._client = self._stack.enter_context(client)
            if address is None:
                client.register_plugin(Uninterrupted())
            self.room = AHEAD * self._threads(address)
            # Submit with pure=False: hashing the data of a piece would cost more than running it.
            self._executor: Executor = client.get_executor(pure=False)
        except BaseException:
            self._stack.close()
            raise

    def _started(self, jobs: int) -> Any:
        folder = self._stack.enter_context(TemporaryDirectory(prefix="seqbatch-dask-"))
        return self._stack.enter_context(
            distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, host="127.0.0.1",
                # Use any free port, because the default one may be taken.
                dashboard_address="127.0.0.1:0", local_directory=folder,
                silence_logs=logging.CRITICAL,
            )
        )  # fmt: skip

    def _threads(self, address: str | None) -> int:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise EngineError(f"the Dask cluster at {address} has no workers.") from None
        return sum(self._client.nthreads().values())

    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Return the future of a piece."""
        return self._executor.submit(attempted, function, piece)

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        self._stack.close()
