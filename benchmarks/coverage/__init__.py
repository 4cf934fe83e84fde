"""The coverage study: worlds, simulated campaigns, and how often their intervals hold."""
