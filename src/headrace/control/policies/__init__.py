"""Decisions as pure functions of observations."""
