"""What a person declares before the first unit is assigned."""
