"""The engine of a Ray cluster."""

import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from seqbatch.engine.base import TRIES, Engine, attempted
from seqbatch.errors import EngineError

#: Pieces in progress per core of the cluster: with two, no core waits for its next piece.
AHEAD = 2
LOOPBACK = "127.0.0.1"
#: Size in bytes of the object store of a Ray that is started here.
STORE = 1 << 28
#: Longest path of Ray's folder: the paths of sockets in it are limited to about 100 characters.
LONGEST = 40


class Ray(Engine):
    """Runs pieces on Ray, which moves the pieces of a dead worker to another worker.

    Parameters
    ----------
    address
        HOST:PORT of a cluster's Ray Client server; None to start a Ray that listens only on this
        machine's loopback.
    jobs
        How many processes to start in that case.
    """

    name = "ray"

    def __init__(self, address: str | None, *, jobs: int) -> None:
        self._stack = ExitStack()
        try:
            ray = self._started(jobs) if address is None else self._reached(address)
        except BaseException:
            self._stack.close()
            raise
        self._ray = ray
        self.dead = (ray.exceptions.WorkerCrashedError,)
        self._task = ray.remote(num_cpus=1, max_retries=TRIES)(attempted)
        self.room = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def _started(self, jobs: int) -> Any:
        """Start Ray on loopback; refuse if it listens elsewhere."""
        folder = tempfile.mkdtemp(prefix="seqbatch-ray-")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with _environment(
            # Without it Ray listens on every interface of the machine.
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
            RAY_USAGE_STATS_ENABLED="0",
            # Workers can import the same modules as this process.
            PYTHONPATH=os.pathsep.join(filter(None, sys.path)),
        ):
            import ray

            _refuse_running(ray)
            self._stack.callback(ray.shutdown)
            ray.init(
                num_cpus=jobs, include_dashboard=False, log_to_driver=False,
                logging_level=logging.CRITICAL, object_store_memory=STORE,
                _temp_dir=folder if len(folder) <= LONGEST else None,
            )  # fmt: skip
        if ray.util.get_node_ip_address() != LOOPBACK:
            raise EngineError(
                "Ray would accept connections from other machines, because it was imported before "
                "seqbatch. Set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before importing ray."
            )
        return ray

    def _reached(self, address: str) -> Any:
        import ray

        _refuse_running(ray)
        self._stack.callback(ray.shutdown)
        try:
            with warnings.catch_warnings():
                # The error repeats what the warnings say.
                warnings.simplefilter("ignore", UserWarning)
                ray.init(f"ray://{address}", logging_level=logging.CRITICAL)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise EngineError(
                f"no Ray cluster answers at {address}: {error}. If the cluster requires a token, "
                "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to that token."
            ) from None
        return ray

    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Return the future of a piece: Ray has no executor, but its tasks have futures."""
        future: Future[Any] = self._task.remote(function, piece).future()
        return future

    def forget(self, futures: "Collection[Future[Any]]") -> None:
        """Cancel tasks: cancelling a future does not cancel its task."""
        for future in futures:
            self._ray.cancel(future.object_ref)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        self._stack.close()


def _refuse_running(ray: Any) -> None:
    if ray.is_initialized():
        raise EngineError("Ray is already running in this process: stop it first (ray.shutdown()).")


@contextmanager
def _environment(**changes: str) -> Iterator[None]:
    """Set environment variables temporarily, for processes started within the block."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
