"""A wave's rule as SQL: to decide and to sum up where the rows are."""
