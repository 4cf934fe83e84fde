"""Steps from one schema to the next, the oldest first."""
