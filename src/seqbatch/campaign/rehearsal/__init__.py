"""Rehearse a campaign: run its spec many times on simulated outcomes, before it begins."""
