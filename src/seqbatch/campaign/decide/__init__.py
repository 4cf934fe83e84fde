"""Decision logic without side effects: draws, actions, learning, row verdicts, stopping."""
