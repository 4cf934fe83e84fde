"""The operations on a campaign, one file each; each runs in one transaction with one event."""
