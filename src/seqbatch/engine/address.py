"""Engine addresses: `local`, `dask`, `ray` and clusters."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from seqbatch.core import arguments
from seqbatch.engine.base import PATIENCE, Engine
from seqbatch.engine.local import Here, Processes
from seqbatch.errors import EngineError, InvalidArgumentError

#: The allowed forms of an engine address.
ENGINES = ("local", "dask", "ray", "dask://HOST:PORT", "ray://HOST:PORT")


@contextmanager
def open_engine(engine: str | Engine = "local", *, jobs: int = 1) -> Iterator[Engine]:
    """Open an engine and close it at the end of the block; an open engine passed in stays open.

    Parameters
    ----------
    engine
        ``"local"``: processes of this machine, or only this process if ``jobs`` is 1.
        ``"dask"``, ``"ray"``: a cluster of such processes, started on loopback.
        ``"dask://HOST:PORT"``, ``"ray://HOST:PORT"``: a running cluster, by the address of its
        scheduler or its Ray Client server. Or an open engine.
    jobs
        How many processes to start; a running cluster has its own.

    Examples
    --------
    >>> from seqbatch.engine import as_completed
    >>> with open_engine("local") as engine:
    ...     dict(as_completed(engine, abs, [-1, 2, -3]))
    {0: 1, 1: 2, 2: 3}
    """
    arguments.integer("jobs", jobs)
    if isinstance(engine, Engine):
        _refuse_jobs(jobs, "an open engine")
        yield engine
        return
    opened = _opened(engine, jobs)
    try:
        yield opened
    finally:
        opened.close()


def _opened(engine: str, jobs: int) -> Engine:
    kind, has_address, address = engine.partition("://")
    if kind == "local" and not has_address:
        return Here() if jobs == 1 else Processes(jobs)
    if kind not in ("dask", "ray") or (has_address and not address):
        raise InvalidArgumentError("engine", f"one of {', '.join(ENGINES)}", repr(engine))
    if has_address:
        _refuse_jobs(jobs, "a running cluster")
        _require_listener(engine, address)
    try:
        return _cluster(kind, address or None, jobs)
    except ImportError as error:
        raise EngineError(
            f"engine {kind} cannot be imported ({error}). Install it with: "
            f"pip install 'seqbatch[{kind}]'",
            code="not-installed",
            field="engine",
        ) from None
    except EngineError:
        raise
    except (OSError, RuntimeError) as error:
        raise EngineError(f"engine {engine} cannot be used: {error}") from None


def _cluster(kind: str, address: str | None, jobs: int) -> Engine:
    if kind == "dask":
        from seqbatch.engine.dask import Dask

        return Dask(address, jobs=jobs)
    from seqbatch.engine.ray import Ray

    return Ray(address, jobs=jobs)


def _refuse_jobs(jobs: int, thing: str) -> None:
    if jobs != 1:
        raise InvalidArgumentError("jobs", f"left out with {thing}, which has its own", jobs)


def _require_listener(engine: str, address: str) -> None:
    """Refuse an address where nothing listens: the libraries would retry for a long time."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        raise InvalidArgumentError("engine", f"one of {', '.join(ENGINES)}", repr(engine))
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE):
            pass
    except OSError as error:
        raise EngineError(
            f"engine {engine} cannot be reached: {error}.", code="not-reached", field="engine"
        ) from None
