"""The line at which statements are typed. Only `headrace sql` at a terminal imports this: its library takes long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from headrace.cli.prompt.completion import Names, StatementCompleter


def statement_prompt(
    names: Callable[[], Names], is_complete: Callable[[str], bool], history: Path
) -> PromptSession[str]:
    """Return a prompt at which Enter ends what is complete, and begins a line of what is not."""
    keys = KeyBindings()
    prompt: PromptSession[str]

    @Condition
    def is_incomplete() -> bool:
        return not is_complete(prompt.default_buffer.text)

    @keys.add("enter", filter=is_incomplete)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter", filter=~is_incomplete)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    prompt = PromptSession(
        history=FileHistory(str(history)),
        completer=StatementCompleter(names),
        complete_while_typing=False,
        multiline=True,
        key_bindings=keys,
        prompt_continuation="       -> ",
    )
    return prompt
