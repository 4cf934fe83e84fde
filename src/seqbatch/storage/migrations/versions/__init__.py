"""Migration steps from one schema to the next, oldest first."""
