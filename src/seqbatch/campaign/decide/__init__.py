"""Decisions as pure functions: draws, actions, learning, a row's verdict, a wave's balance."""
