"""A wave's rule as SQL, to decide and to compute sums inside a data warehouse."""
