"""Edits of code in its tree: neither its form nor what stands around it has to be repeated."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from typing import NamedTuple


class Code(NamedTuple):
    """An expression, or statements that follow each other, and what stands in their place; nothing removes them."""

    before: str
    after: str = ""

    def apply(self, part: ast.AST) -> int:
        """Edits a part of a tree. Returns how often the code to change was there."""
        before, after = _statements(self.before), _statements(self.after)
        if (old := _expression(before)) and (new := _expression(after)):
            return _replace_expressions(part, ast.dump(old), new)
        return sum(_replace_statements(body, before, after) for body in list(_bodies(part)))


class Text(NamedTuple):
    """A part of a text in the code, such as SQL, and what stands in its place."""

    before: str
    after: str

    def apply(self, part: ast.AST) -> int:
        """Edits a part of a tree. Returns how often the text to change was there."""
        count = 0
        for node in ast.walk(part):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                count += node.value.count(self.before)
                node.value = node.value.replace(self.before, self.after)
        return count


def edited(text: str, name: str, edit: Code | Text) -> str:
    """The text of a module with an edit in one of its functions, or in a constant.

    Args:
        name: The function's, with that of its class before a dot; or the constant's.

    Raises:
        ValueError: The code to change is not there exactly once.
    """
    tree = ast.parse(text)
    part: ast.AST = tree
    for each in name.split("."):
        part = _named(part, each)
    if (count := edit.apply(part)) != 1:
        raise ValueError(f"{name} has the code to change {count} times, not once")
    return ast.unparse(ast.fix_missing_locations(tree))


def _named(part: ast.AST, name: str) -> ast.AST:
    for node in ast.iter_child_nodes(part):
        match node:
            case ast.ClassDef() | ast.FunctionDef() if node.name == name:
                return node
            case ast.Assign(targets=[ast.Name(id=str(found))]) if found == name:
                return node
    raise ValueError(f"there is no {name}")


def _statements(code: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(code)).body


def _expression(statements: list[ast.stmt]) -> ast.expr | None:
    match statements:
        case [ast.Expr(value=expression)]:
            return expression
    return None


def _replace_expressions(part: ast.AST, old: str, new: ast.expr) -> int:
    count = 0
    for node in list(ast.walk(part)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and ast.dump(value) == old:
                setattr(node, field, new)
                count += 1
            elif isinstance(value, list):
                for place, each in enumerate(value):
                    if isinstance(each, ast.expr) and ast.dump(each) == old:
                        value[place] = new
                        count += 1
    return count


def _bodies(part: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a part."""
    for node in ast.walk(part):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _replace_statements(body: list[ast.stmt], before: list[ast.stmt], after: list[ast.stmt]) -> int:
    wanted, found = [*map(ast.dump, before)], [*map(ast.dump, body)]
    starts = [at for at in range(len(body)) if found[at : at + len(wanted)] == wanted]
    for at in reversed(starts):
        body[at : at + len(wanted)] = after
    if not body:
        body.append(ast.Pass())
    return len(starts)
