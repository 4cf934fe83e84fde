"""What is shown of a campaign; nothing here changes it."""
