"""Shedders: what is dropped on an arc to keep promises, at random or by value."""
