"""One file for each thing that can be done to a campaign; each is one transaction, one event."""
