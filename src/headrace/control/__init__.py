"""Keeping promises while queries run: observations, decisions and their reasons."""
