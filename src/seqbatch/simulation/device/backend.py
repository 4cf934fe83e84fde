"""The array backend: NumPy, or PyTorch on a processor or a GPU.

The simulator is written once, against the array API standard. A backend adds what the standard
omits: moving arrays, random number generators and the amount of free memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Array
from seqbatch.errors import InvalidArgumentError

DEVICES = ("cuda", "cpu", "numpy")


class DeviceMemory(NamedTuple):
    """The memory of a device in bytes: free, and in total."""

    free: int
    all: int


@dataclass(frozen=True)
class Backend:
    """The NumPy backend, which has no further dependencies and runs in all tests."""

    name: str = "numpy"
    xp: Any = np
    device: Any = "cpu"

    def array(self, values: AnyArray) -> Array:
        """Move an array to the device."""
        return self.xp.asarray(values, device=self.device)

    def host(self, values: Array) -> AnyArray:
        """Move an array to the host."""
        return np.asarray(values)

    def sending(self, values: Sequence[Array]) -> Callable[[], list[AnyArray]]:
        """Start moving arrays to the host; return a function that waits for them only."""
        moved = [self.host(each) for each in values]
        return lambda: moved

    def queue(self) -> AbstractContextManager[Any]:
        """Run the following work of this thread in its own queue, independent of other threads."""
        return nullcontext()

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised float64 array."""
        return self.xp.empty(shape, dtype=self.xp.float64, device=self.device)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Return an array of float64 zeros."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def integers(self, start: int, stop: int) -> Array:
        """Return the int64 numbers from start to stop - 1."""
        return self.xp.arange(start, stop, dtype=self.xp.int64, device=self.device)

    def generator(self, key: int) -> Any:
        """Return the random number generator of a 64-bit key."""
        return np.random.Generator(np.random.Philox(key=key % 2**64))

    def fill_normal(self, generator: Any, out: Array) -> None:
        """Fill an array with standard normals."""
        generator.standard_normal(out=out)

    def fill_uniform(self, generator: Any, out: Array) -> None:
        """Fill an array with uniform numbers in [0, 1)."""
        generator.random(out=out)

    def memory(self) -> DeviceMemory | None:
        """Return the device's memory; None on the host, which shares it with other programs."""
        return None

    @property
    def exhausted(self) -> type[Exception]:
        """The exception raised when memory runs out."""
        return MemoryError

    def release(self) -> None:
        """Release cached memory."""


@dataclass(frozen=True)
class TorchBackend(Backend):
    """The PyTorch backend, on a processor or a GPU."""

    def array(self, values: AnyArray) -> Array:
        """Move an array to the device, without waiting for earlier work of the GPU."""
        here = self.xp.asarray(values)
        if self.device.type != "cuda":
            return here
        # A copy from pageable memory would wait for all earlier work.
        return here.pin_memory().to(self.device, non_blocking=True)

    def host(self, values: Array) -> AnyArray:
        """Move an array to the host."""
        moved: AnyArray = values.cpu().numpy()
        return moved

    def sending(self, values: Sequence[Array]) -> Callable[[], list[AnyArray]]:
        """Start moving arrays to the host; return a function that waits for them only."""
        import torch

        if self.device.type != "cuda":
            return super().sending(values)
        moved = [each.to("cpu", non_blocking=True) for each in values]
        there = torch.cuda.Event()
        there.record()

        def arrived() -> list[AnyArray]:
            there.synchronize()
            return [each.numpy() for each in moved]

        return arrived

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Run the following work of this thread in its own queue, independent of other threads."""
        import torch

        if self.device.type != "cuda":
            yield
            return
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()

    def generator(self, key: int) -> Any:
        """Return the generator of a 64-bit key: counter-based on a GPU, seeded elsewhere."""
        import torch

        return torch.Generator(device=self.device).manual_seed(key)

    def fill_normal(self, generator: Any, out: Array) -> None:
        """Fill an array with standard normals."""
        out.normal_(generator=generator)

    def fill_uniform(self, generator: Any, out: Array) -> None:
        """Fill an array with uniform numbers in [0, 1)."""
        out.uniform_(generator=generator)

    def memory(self) -> DeviceMemory | None:
        """Return the GPU's memory; memory that PyTorch holds but does not use counts as free."""
        import torch

        if self.device.type != "cuda":
            return super().memory()
        free, everything = torch.cuda.mem_get_info(self.device)
        held = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return DeviceMemory(int(free + held), int(everything))

    @property
    def exhausted(self) -> type[Exception]:
        """The exception raised when memory runs out."""
        import torch

        error: type[Exception] = torch.OutOfMemoryError
        return error

    def release(self) -> None:
        """Release cached memory."""
        import torch

        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def backend(device: str) -> Backend:
    """Return the backend of a device, or raise an error that names what is missing.

    Parameters
    ----------
    device
        ``"cuda"``: an NVIDIA GPU, through PyTorch. ``"cpu"``: PyTorch on the processor.
        ``"numpy"``: the same code on NumPy.
    """
    arguments.choice("device", device, DEVICES)
    if device == "numpy":
        return Backend()
    try:
        import array_api_compat.torch as xp
        import torch
    except ModuleNotFoundError as missing:
        raise InvalidArgumentError(
            "device",
            "'numpy' if PyTorch or array-api-compat is not installed",
            f"{device!r}, but the module {missing.name!r} is missing",
            "Install them with: pip install 'seqbatch[gpu]'",
        ) from None
    if device == "cuda" and not torch.cuda.is_available():
        build = torch.version.cuda
        found = f"built for CUDA {build}" if build else "built without CUDA"
        raise InvalidArgumentError(
            "device",
            "'cpu' or 'numpy' if PyTorch finds no NVIDIA GPU",
            f"'cuda', but PyTorch {torch.__version__} ({found}) sees no GPU",
            "A GPU needs NVIDIA's driver and a PyTorch built with CUDA; nvidia-smi shows whether "
            "the driver is installed.",
        )
    return TorchBackend(device, xp, torch.device(device))
