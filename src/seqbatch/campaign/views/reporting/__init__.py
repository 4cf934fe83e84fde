"""The report: what a page about a campaign says, drawn and written in several formats."""
