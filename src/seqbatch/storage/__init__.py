"""What must survive a crash: SQL tables, their migrations, and the stores on them."""

from seqbatch.storage.opening import defaults_of, open_store

__all__ = ["defaults_of", "open_store"]
