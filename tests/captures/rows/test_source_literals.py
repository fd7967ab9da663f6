"""No text gets out of the string that it is written in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.rows.source_literals import literal, quoted

BYTE_TEXTS = st.text(st.characters(max_codepoint=255)) | st.sampled_from(
    ['"', "'", "\\", "{x}", "}}", '""" + x + """', "\\N{DIGIT ONE}", "\n", "\0", "#", "é"]
)


@given(BYTE_TEXTS, st.sampled_from(["'", '"', "'''", '"""']))
def test_any_text_comes_back(text: str, quote: str) -> None:
    x = "inside"
    assert eval(f"f{quote}{literal(text)}{{x}}{quote}", {"x": x}) == text + x
    assert eval(quoted(text), {}) == text
