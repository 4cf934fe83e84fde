"""How many trials and units a device holds at a time."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from seqbatch.environments import BLOCK, Environment, FeaturePool, Instance
from seqbatch.environments.linear import LinearEnvironment, LinearInstance
from seqbatch.environments.pool import PoolInstance
from seqbatch.errors import DeviceMemoryWarning
from seqbatch.simulation.device.backend import Backend
from seqbatch.simulation.device.pools import DevicePool, PoolSource, device_pool
from seqbatch.simulation.device.units import LAWS, HostSource, LinearSource, Source, block_size

#: Copies of a block's contexts that are alive at the same time, and numbers beside them for each
#: action of a unit.
COPIES, BESIDE = 4, 24
#: The share of a GPU's memory that is planned for, and at most that of what is free, since three
#: processes may share it.
SHARE, OF_FREE = 0.3, 0.9
#: What blocks may take on the host: more would only leave the processor's caches.
ON_HOST = 2**28
#: Units of a block of a pool: as many as keep a large device busy, and the fewest worth a call.
MOST, FEWEST = 2**16, 2**12
#: Units of a block that a kernel draws and sums up without making them, so few that the sums of
#: whole numbers up to 127 squared fit 32 bits.
KERNEL = 2**22

#: Makes the source of some trials.
Maker = Callable[[Sequence[Any]], Source]
T = TypeVar("T")


def sources(
    instances: Sequence[Instance],
    environment: Environment,
    backend: Backend,
    *,
    greedy: bool = False,
) -> Iterator[tuple[Maker, Sequence[Instance]]]:
    """Return as many instances at a time as fit into the device's memory, and their source's maker.

    Where all runs are greedy, a pool's kernel does without making units: memory does not matter.
    """
    pool = _pool(instances, backend)
    if greedy and pool and pool.kernel:
        yield lambda part: PoolSource(part, pool, backend, KERNEL, shared=False), instances
        return
    slots = 1 if environment.layout == "block" else environment.actions
    unit = 8 * (COPIES * slots * environment.dim + BESIDE * environment.actions)
    make, size = _maker(instances, environment, pool, unit, backend)
    fitting = max(usable(backend) // (size * unit), 1)
    if fitting < len(instances):
        _say(f"{len(instances)} trials at once", backend, f"{fitting} trials run at a time")
    for start in range(0, len(instances), fitting):
        yield make, instances[start : start + fitting]


def in_halves(
    work: Callable[[Sequence[Instance]], list[T]], part: Sequence[Instance], backend: Backend
) -> list[T]:
    """Return what the work makes of each instance, half of them at a time where memory runs out.

    What is planned may not be there any more: other programs take from the same memory.
    """
    try:
        return work(part)
    except backend.exhausted:
        if len(part) == 1:
            raise
    # Not before here: while the error is handled, it keeps what ran out alive.
    backend.release()
    half = (len(part) + 1) // 2
    warnings.warn(
        f"{backend.name} ran out of memory with {len(part)} trials at once: they are run again, "
        f"{half} at a time.",
        DeviceMemoryWarning,
        stacklevel=2,
    )
    return [one for some in (part[:half], part[half:]) for one in in_halves(work, some, backend)]


def usable(backend: Backend) -> int:
    """Return how many bytes blocks may take."""
    memory = backend.memory()
    return ON_HOST if memory is None else int(min(memory.all * SHARE, memory.free * OF_FREE))


def _maker(
    instances: Sequence[Instance],
    environment: Environment,
    pool: DevicePool | None,
    unit: int,
    backend: Backend,
) -> tuple[Maker, int]:
    """Return what makes sources, and how many units their blocks have."""
    if pool:
        size = pool_block(usable(backend) // (unit * len(instances)))
        return lambda part: PoolSource(part, pool, backend, size), size
    if law := _law(instances):
        return lambda part: LinearSource(part, backend), block_size(law.slots * law.dim)
    return lambda part: HostSource(part, environment, backend), BLOCK


def _pool(instances: Sequence[Instance], backend: Backend) -> DevicePool | None:
    """Return the pool that all instances draw from, on the device, if it fits."""
    if not _alike(instances, PoolInstance, FeaturePool):
        return None
    drawn = cast(Sequence[PoolInstance], instances)
    pool = drawn[0].environment
    # One's own environment may give each trial a parameter of its own over the same rows.
    if not all(np.array_equal(one.theta, np.atleast_2d(pool.theta)) for one in drawn):
        return None
    needed = DevicePool.nbytes(pool)
    if backend.memory() is None or needed <= usable(backend):
        return device_pool(pool, backend)
    _say(f"a pool of {needed / 2**30:.2f} GiB", backend, "rows are drawn on the host")
    return None


def _law(instances: Sequence[Instance]) -> LinearEnvironment | None:
    """Return the law of all instances, if the device can draw from it."""
    known = _alike(instances, LinearInstance, *LAWS)
    return cast(LinearInstance, instances[0]).environment if known else None


def _alike(instances: Sequence[Instance], kind: type, *environments: type) -> bool:
    """Say whether all are of this kind and of one environment, which is of these kinds.

    One's own environment may make an instance of another for each seed, and one's own subclass may
    draw other units: they are made on the host.
    """
    first = instances[0]
    return type(getattr(first, "environment", None)) in environments and all(
        type(one) is kind and cast(Any, one).environment == cast(Any, first).environment
        for one in instances
    )


def pool_block(units: int) -> int:
    """Return the size of a pool's blocks where so many units fit: a power of two."""
    return min(max(1 << max(units.bit_length() - 1, 0), FEWEST), MOST)


def _say(what: str, backend: Backend, instead: str) -> None:
    memory = backend.memory()
    if memory is not None:
        free = f"{memory.free / 2**30:.2f} GiB free"
        warnings.warn(
            f"{backend.name} has {free}, too little for {what}: {instead}.",
            DeviceMemoryWarning,
            stacklevel=2,
        )
