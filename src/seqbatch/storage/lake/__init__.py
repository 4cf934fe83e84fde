"""The lake store: rows in Parquet files; events, states and hashes in an SQL ledger."""

#: The beginning of a lake's address.
PREFIX = "lake:"
