"""Policies: decisions as pure functions of observations."""
