"""One file for each kind of feature: how it is read, what is learned of it, what it becomes."""
