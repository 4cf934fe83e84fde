"""Durable storage: SQL tables, their migrations, and the stores that use them."""

from seqbatch.storage.address import defaults_of, open_store

__all__ = ["defaults_of", "open_store"]
