"""What must survive a crash: SQL tables, their migrations, and the stores on them."""

from seqbatch.storage.address import defaults_of, open_store

__all__ = ["defaults_of", "open_store"]
