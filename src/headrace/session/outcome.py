"""The outcomes of statements, as a session gives them."""

from headrace.model.outcome import Listing, Message, Outcome, Started, format_warnings

__all__ = ["Listing", "Message", "Outcome", "Started", "format_warnings"]
