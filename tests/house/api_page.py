"""Writes docs/api.md from the signatures and docstrings of what ``import tidemark`` gives.

::

    python -m tests.house.api_page          write it
    python -m tests.house.api_page --check  write nothing; exit 1 if it is out of date
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

import tidemark
from tests.house.files import ROOT
from tests.house.written_page import write_or_check
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.messages import REQUESTS, RESPONSES, Message

PAGE = ROOT / "docs" / "api.md"

_HEAD = """\
# Python

<!-- Generated from docstrings by `python -m tests.house.api_page`. -->

"""

_WIDTH = 100
"""A longer signature has a line for each parameter."""

_SECTION = re.compile(r"(Args|Attributes|Returns|Raises):")
_ENTRY = re.compile(r"[*]{0,2}(\w+): ")


def page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_lines()).replace("\n\n\n", "\n\n").rstrip() + "\n"


def _lines() -> Iterator[str]:
    public = {name: getattr(tidemark, name) for name in tidemark.__all__}
    messages = {name: kind for name, kind in public.items() if inspect.isclass(kind) and issubclass(kind, Message)}
    errors = {name: kind for name, kind in public.items() if inspect.isclass(kind) and issubclass(kind, TidemarkError)}
    yield from _prose(inspect.getdoc(tidemark) or "")
    yield "\n## Spark\n"
    for name in ("register", "read_table", "read_tables", "read_changes", "materialize"):
        yield from _function(f"### {name}", name, public[name])
    yield "\n## The change log\n"
    yield from _class("### ChangeLog", public["ChangeLog"])
    yield "\n## Errors\n"
    yield from _class("### TidemarkError", errors.pop("TidemarkError"))
    yield "\n| error | |\n|---|---|"
    for name, kind in errors.items():
        yield f"| `{name}` | {' '.join(_prose(inspect.getdoc(kind) or ''))} |"
    yield "\n## The protocol's messages\n"
    yield (
        "They are msgspec structs with the fields below. [protocol.md](protocol.md) says how they are written,\n"
        "and when each is sent."
    )
    spoken = [*REQUESTS.values(), *RESPONSES.values()]
    for title, kinds in (
        ("Requests", REQUESTS.values()),
        ("Responses", RESPONSES.values()),
        ("Their parts", [kind for kind in messages.values() if kind not in spoken]),
    ):
        yield f"\n### {title}\n"
        for message in kinds:
            yield from _message(message)
    yield from _choices(public["Action"])


def _function(heading: str, name: str, function: Callable[..., object]) -> Iterator[str]:
    yield f"\n{heading}\n\n```python\n{_signature(name, function)}\n```\n"
    yield from _prose(inspect.getdoc(function) or "")


def _class(heading: str, kind: type) -> Iterator[str]:
    yield from _function(heading, kind.__name__, kind)
    for name, member in vars(kind).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield f"\n#### {kind.__name__}.{name}\n"
            yield from _prose(inspect.getdoc(member) or "")
        elif inspect.isfunction(member):
            yield from _function(f"#### {kind.__name__}.{name}", name, member)


def _message(kind: type[Message]) -> Iterator[str]:
    yield f"\n#### {kind.__name__}\n"
    yield from _prose(inspect.getdoc(kind) or "")
    types = get_type_hints(kind)  # Without what limits a number.
    fields = msgspec.structs.fields(kind)
    if fields:
        yield "\n| field | type | default |\n|---|---|---|"
    for field in fields:
        made = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        default = "required" if field.required else f"`{made!r}`"
        shown = _type(types[field.name]).replace("|", "\\|")
        yield f"| `{field.name}` | `{shown}` | {default} |"


def _choices(kind: type[enum.Enum]) -> Iterator[str]:
    yield f"\n#### {kind.__name__}\n"
    yield from _prose(inspect.getdoc(kind) or "")
    yield "\n" + ", ".join(f"`{choice.name}` (`{choice.value!r}`)" for choice in kind)


def _signature(name: str, function: Callable[..., object]) -> str:
    """As in the source, on one line or with a line for each parameter."""
    signature = inspect.signature(function)
    shown: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        if parameter.name == "self":
            continue
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{parameter.name}: {_annotation(parameter.annotation)}{default}")
    returned = signature.return_annotation
    end = f") -> {_annotation(returned)}" if returned not in (signature.empty, None, "None") else ")"
    line = f"{name}({', '.join(shown)}{end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in shown), end])


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else _type(annotation)


def _type(annotation: Any) -> str:
    """A type as it is written, without modules and without limits. Alike in every Python."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_type, inner))
    if annotation is NoneType:
        return "None"
    return f"{annotation.__name__}[{', '.join(map(_type, inner))}]" if inner else str(annotation.__name__)


def _prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: its sections are lists, and what follows ``::`` is code."""
    section = ""
    code: list[str] | None = None
    for line in text.replace("``", "`").splitlines():
        if code is not None:
            if line.startswith("    ") or not line:
                code.append(line.removeprefix("    "))
                continue
            yield _code(code)
            code = None
        if match := _SECTION.fullmatch(line):
            section = match[1]
            yield f"**{section}**\n"
        elif line == "::":
            code = []
        elif section and line.startswith("    "):
            yield _item(line.removeprefix("    "))
        else:
            section = "" if line else section
            yield line
    if code:
        yield _code(code)


def _code(lines: list[str]) -> str:
    return "\n".join(["```python", *lines]).replace("```python\n\n", "```python\n").rstrip() + "\n```\n"


def _item(line: str) -> str:
    """A line of a section: the begin of an entry, or what follows it."""
    if line.startswith("    "):
        return f"  {line.strip()}"
    entry = _ENTRY.match(line)
    return f"- `{entry[1]}`: {line[entry.end() :]}" if entry else f"- {line}"


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Writes or checks the page. Returns the exit status."""
    return write_or_check(path, page(), "tests.house.api_page", arguments)


if __name__ == "__main__":
    sys.exit(main())
