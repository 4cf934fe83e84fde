"""What is kept of a campaign, and what it says: events, decisions, outcomes, states."""
