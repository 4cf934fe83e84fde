"""Read-only views of a campaign: status, findings, report, protocol, export, verification."""
