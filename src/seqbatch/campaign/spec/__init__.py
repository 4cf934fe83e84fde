"""Specs: what you declare before the first unit is assigned."""
