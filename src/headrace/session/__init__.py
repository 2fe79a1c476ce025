"""The composition root: text in, running queries out."""

from headrace.session.outcome import Listing, Message, Outcome, Started
from headrace.session.session import Session

__all__ = ["Listing", "Message", "Outcome", "Session", "Started"]
