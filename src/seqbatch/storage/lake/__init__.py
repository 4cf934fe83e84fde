"""A lake: rows in Parquet files, and a ledger of events, states and hashes in SQL beside them."""
