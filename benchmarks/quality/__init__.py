"""The quality study: policies, methods by hand and libraries, at equal information, in waves."""
