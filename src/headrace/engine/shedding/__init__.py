"""Shedders drop tuples on an arc to keep promises, at random or by value."""
