"""The dashboard: web pages of the service, with the same rules as the API."""
