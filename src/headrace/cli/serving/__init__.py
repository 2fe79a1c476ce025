"""Commands around a server: start it, look at it, stop it, make tokens for it."""
