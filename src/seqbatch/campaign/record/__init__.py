"""The stored record of a campaign: events, decisions, outcomes and policy states."""
