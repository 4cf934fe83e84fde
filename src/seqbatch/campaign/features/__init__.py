"""Encode the features of units as numbers of the model: one file for each kind."""
