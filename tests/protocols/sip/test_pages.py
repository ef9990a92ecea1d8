"""docs/sip.md is made from the program: its diagrams, messages, timers and limits are what runs."""

from protocols.sip.pages import PAGE, written


def test_the_page_is_what_the_program_does():
    text = PAGE.read_text(encoding="utf-8")
    assert written(text) == text, "run: python tests/protocols/sip/pages.py"
