"""The dashboard: pages of the same service for people, without any rules of their own."""
