"""YAML text as content and places. The only module of the package that needs a YAML reader.

The library ruamel.yaml knows places, too, but it would save 40 lines here and change files that people have: it reads
YAML 1.2, where ``yes`` is a text, and ends at the first key that is listed twice, where all of them are told at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tidemark.protocol.errors import UsageError

Loc = tuple[int | str, ...]
"""A place in a document: keys of mappings and indices of lists, from the root."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document whose root is a mapping.

    Attributes:
        content: The content.
        root: The same content as nodes with their lines.
        repeated: Keys that are twice in a mapping, with their lines: YAML readers silently use the last one.
    """

    content: dict[Any, Any]
    root: yaml.Node
    repeated: list[tuple[int, str]]

    @classmethod
    def read(cls, path: Path) -> Document:
        """Reads a file.

        Raises:
            UsageError: ``TM-CFG-001`` no such file, not YAML, or a path that is not UTF-8.
        """
        try:
            str(path.absolute()).encode()  # It goes into JSON: the status, and the record of the log.
        except UnicodeEncodeError:
            raise UsageError("TM-CFG-001", f"the path {str(path.absolute())!a} is not UTF-8") from None
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise UsageError("TM-CFG-001", f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError("TM-CFG-001", f"{path} is not UTF-8 text") from None
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            content = yaml.safe_load(text)
            repeated = _repeated_keys(root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
            raise UsageError("TM-CFG-001", f"{path} is not YAML:{place} {error.problem}") from None
        except yaml.YAMLError:
            problem = "it holds characters that YAML does not allow"
            raise UsageError("TM-CFG-001", f"{path} is not YAML: {problem}") from None
        except RecursionError:
            raise UsageError("TM-CFG-001", f"{path} is nested too deep") from None
        except ValueError:  # of a date or number; YAML's reader does not say which
            raise UsageError(
                "TM-CFG-001", f"{path} is not YAML: a value looks like a date or a number, but is invalid"
            ) from None
        if root is None or not isinstance(content, dict):
            raise UsageError("TM-CFG-001", f"{path} holds no entries such as capture, connector and log")
        return cls(content, root, repeated)

    def line_of(self, loc: Loc) -> int:
        """The line, from 1, of the deepest part of ``loc`` that the file has."""
        node, line = self.root, self.root.start_mark.line
        for part in loc:
            if isinstance(node, yaml.MappingNode):
                found = next((pair for pair in node.value if pair[0].value == str(part)), None)
                if found is None:
                    break
                line, node = found[0].start_mark.line, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line
            else:
                break
        return line + 1


def _repeated_keys(node: yaml.Node | None) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    found.append((key.start_mark.line + 1, f"{key.value}: listed twice"))
                seen.add(key.value)
            found += _repeated_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            found += _repeated_keys(item)
    return found
