"""How kernels are compiled, cached on disk and preloaded."""

import warnings
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Any, TypeVar

import numba
from numba import njit
from numba.misc import appdirs

# Modules without types.
config: Any = numba.config
user_folders: Any = appdirs.AppDirs
Kernel = TypeVar("Kernel", bound=Callable[..., Any])
HERE = Path(__file__).parent


def _folder() -> Path | None:
    """Return the folder of compiled code; warn and return None if no folder may be written.

    Its name has the version and a hash of all kernel files. Numba compares only the file of a
    kernel, and would keep old code of another kernel that is called in it.
    """
    own = (HERE / "__pycache__", Path(user_folders("numba", appauthor=False).user_cache_dir))
    for root in (Path(config.CACHE_DIR),) if config.CACHE_DIR else own:
        folder = root / f"seqbatch-{version('seqbatch')}-{_hash(HERE)}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    warnings.warn(
        "Compiled code cannot be cached, because neither the package's folder nor the home "
        "folder is writable: every process compiles again, which takes up to a minute. Set the "
        "environment variable NUMBA_CACHE_DIR to a writable folder.",
        stacklevel=2,
    )
    return None


def _hash(folder: Path) -> str:
    """Return one hash of all kernel files."""
    digest = blake2b(digest_size=8)
    for path in sorted(folder.glob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.name} {len(text)} ".encode() + text)
    return digest.hexdigest()


FOLDER = _folder()

# No fast math: products and sums are neither fused nor reordered. Every machine then gives the same
# bits, whatever its vector registers, and decisions made on one can be replayed on another.
OPTIONS: dict[str, Any] = {
    # Compiling takes seconds; the result is cached on disk for later processes.
    "cache": FOLDER is not None,
    # Division by zero gives infinity, as in NumPy; loops then need no branch for raising.
    "error_model": "numpy",
    # No kernel touches Python objects, so threads may run in parallel.
    "nogil": True,
}


def kernel(**options: Any) -> Callable[[Kernel], Kernel]:
    """Return a decorator that compiles a kernel with OPTIONS and these options."""

    def compiled(function: Kernel) -> Kernel:
        usual = config.CACHE_DIR
        try:
            # Numba reads it when a function is decorated; functions of others keep their folder.
            config.CACHE_DIR = str(FOLDER or usual)
            made: Kernel = njit(**OPTIONS, **options)(function)
        finally:
            config.CACHE_DIR = usual
        return made

    return compiled


@kernel()
def _nothing() -> None:
    """Do nothing."""


@cache
def load_early() -> None:
    """Start loading what the first call of any kernel needs, in a background thread.

    It takes half a second, during which the caller can read files.
    """
    Thread(target=_nothing, name="kernels").start()
