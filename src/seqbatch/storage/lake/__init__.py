"""The lake store: rows in Parquet files; events, states and hashes in an SQL ledger."""
