"""Durable storage: SQL tables, their migrations, and the stores that use them."""

from seqbatch.storage.address import defaults_of, open_store
from seqbatch.storage.copying import Copied, copy_store

__all__ = ["Copied", "copy_store", "defaults_of", "open_store"]


def __dir__() -> list[str]:
    return __all__
