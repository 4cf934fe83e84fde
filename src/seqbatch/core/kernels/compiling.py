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
from uuid import uuid4

import numba
from numba import njit
from numba.core import caching
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
    # Division by zero gives infinity, as in NumPy; loops then need no branch for raising.
    "error_model": "numpy",
    # No kernel touches Python objects, so threads may run in parallel.
    "nogil": True,
}


class CodeFiles(caching.IndexDataCacheFile):
    """The files with a kernel's compiled code, one for each list of types that it was called with.

    Numba numbers them. Two processes that compile at the same time could give the same number to
    different types, and later ones would load the wrong code. So each file has a unique name.
    """

    def _data_name(self, number: int) -> str:
        numbered: str = super()._data_name(number)
        return f"{numbered.removesuffix('.nbc')}-{uuid4().hex}.nbc"


class CodeCache(caching.FunctionCache):
    """A kernel's compiled code on disk: compiling takes seconds, and later processes load it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CodeFiles(self._cache_path, self._impl.filename_base, stamp)


def kernel(**options: Any) -> Callable[[Kernel], Kernel]:
    """Return a decorator that compiles a kernel with OPTIONS and these options."""

    def compiled(function: Kernel) -> Kernel:
        made: Any = njit(**OPTIONS, **options)(function)
        if FOLDER is not None:
            usual = config.CACHE_DIR
            try:
                # A cache reads it when it is made; functions of others keep their folder.
                config.CACHE_DIR = str(FOLDER)
                made._cache = CodeCache(function)
            finally:
                config.CACHE_DIR = usual
        kept: Kernel = made
        return kept

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
