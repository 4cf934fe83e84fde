"""What must survive a crash: SQL tables, their migrations, and the two stores on them."""

from seqbatch.storage.stores import open_store

__all__ = ["open_store"]
