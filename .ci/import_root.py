#!/usr/bin/env python3
"""Rewrites a working tree in which our packages are imported as ``protocol``, to ``tidemark.protocol`` and so on.

::

    .ci/import_root.py [FOLDER]     the clone of FOLDER; by default this one

For work that was begun before the packages got one root: run it on that work, and commit what it did. It moves the demo
to ``tidemark/demo``, renames what Python code imports, the modules that strings, comments and pages name, and those of
pyproject.toml, and sorts the imports. Paths of files remain: ``protocol/errors.py`` is still there. What has its new
name already is left alone, so running it again changes nothing. It needs git, and ruff, which ``make setup`` installs.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path

MOVED_FOLDERS = {"tidemark_demo": "tidemark/demo", "tests/tidemark_demo": "tests/demo"}

ROOTS = {
    **{
        name: f"tidemark.{name}" for name in ("protocol", "backfill", "captures", "connectors", "runtime", "spark_sink")
    },
    "tidemark_demo": "tidemark.demo",
}

WIDTH = 120

_ROOT = f"(?P<root>{'|'.join(ROOTS)})"
_BEFORE = r"(?:(?<![\w./$-])|(?<=\\n))"
"""Of no longer name, and of no path; or the end of a line, as a string has it."""
_DOTTED = re.compile(rf"{_BEFORE}{_ROOT}(?P<rest>(?:\.\w+)+)")
"""A name with dots, in prose or in a string. It is a module's only if there is such a file."""
_RUN = re.compile(rf"(?P<option>(?<![\w-])-m(?:\s+|[\"']?,\s*[\"']?)){_ROOT}(?![\w./-])")
"""``python -m runtime``, also as a list of strings."""
_IMPORT = re.compile(rf"^(?P<indent>\W*)(?P<word>from|import) {_ROOT}(?= import |\s*$| as )", re.MULTILINE)
"""An import in an example, or in a string that is code."""
_FILE = re.compile(rf"{_BEFORE}(?P<old>{'|'.join(re.escape(old) for old in MOVED_FOLDERS)})(?=/)")
_TEST_MODULE = re.compile(r"\btests\.tidemark_demo\b")
_FIELD = re.compile(r"(\{[^{}]*\})")
"""A replacement field of an f-string, which is code."""

Edit = tuple[int, int, int, str]
"""A line, counted from 1, the columns from and to which it is replaced, and by what."""


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    for old, new in MOVED_FOLDERS.items():
        _move(root, old, new)
    changed = [path for path in _files(root) if _rewrite(root, path)]
    python = [str(path) for path in changed if path.suffix == ".py"]
    if python:
        installed = root / ".venv" / "bin" / "ruff"
        ruff = installed if installed.exists() else "ruff"
        for arguments in (["check", "--quiet", "--select=I", "--fix"], ["format", "--quiet"]):
            subprocess.run([ruff, *arguments, *python], cwd=root, check=True)
    sys.stdout.write(f"{len(changed)} files changed\n")
    return 0


def _move(root: Path, old: str, new: str) -> None:
    """Moves the files of a folder that git knows. Files of a later work join those that were moved before."""
    for name in _tracked(root, old):
        target = root / new / Path(name).relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", name, str(target)], cwd=root, check=True)
    if not any(path.is_file() and path.suffix != ".pyc" for path in (root / old).rglob("*")):
        shutil.rmtree(root / old, ignore_errors=True)


def _tracked(root: Path, *below: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", "--", *below], cwd=root, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name]


def _files(root: Path) -> list[Path]:
    """Every text of the tree, but this program and its test, and the record of what was."""
    left = {".ci/import_root.py", "tests/house/test_import_root.py", "CHANGELOG.md", "LICENSE"}
    paths = [root / name for name in _tracked(root) if name not in left]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _rewrite(root: Path, path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    prose = functools.partial(_prose, root)
    if path.suffix == ".py":
        new = _python(text, prose)
    elif path.name == "pyproject.toml":
        new = _project(prose(text))
    else:
        new = prose(text)
    if path.suffix in {".py", ".md"}:
        new = _filled(text, new, python=path.suffix == ".py")
    if new != text:
        path.write_text(new, encoding="utf-8")
    return new != text


def _prose(root: Path, text: str) -> str:
    """A text that is no Python code, or a string of Python code, with the new names."""

    def module(match: re.Match[str]) -> str:
        known = match["rest"].split(".")[1] in _members(root, match["root"])
        return ROOTS[match["root"]] + match["rest"] if known else match[0]

    text = _DOTTED.sub(module, text)
    text = _RUN.sub(lambda match: match["option"] + ROOTS[match["root"]], text)
    text = _IMPORT.sub(lambda match: f"{match['indent']}{match['word']} {ROOTS[match['root']]}", text)
    text = _FILE.sub(lambda match: MOVED_FOLDERS[match["old"]], text)
    return _TEST_MODULE.sub("tests.demo", text)


@functools.cache
def _members(root: Path, package: str) -> frozenset[str]:
    """The modules of a package, and the names that it has itself."""
    folder = root / MOVED_FOLDERS.get(package, package)
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return frozenset(modules | names)


def _python(text: str, prose: Callable[[str], str]) -> str:
    """Code with the new names where it imports, and in its strings and comments."""
    edits = [*_import_edits(text), *_string_edits(text, prose)]
    lines = text.splitlines(keepends=True)
    for line, begin, end, new in sorted(edits, reverse=True):
        lines[line - 1] = lines[line - 1][:begin] + new + lines[line - 1][end:]
    return "".join(lines)


def _import_edits(text: str) -> list[Edit]:
    lines = text.splitlines()
    edits: list[Edit] = []
    bound: set[str] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            column = lines[node.lineno - 1].index(node.module, node.col_offset)
            edits += _name_edits(node.lineno, column, node.module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                edits += _name_edits(alias.lineno, alias.col_offset, alias.name)
                if alias.asname is None:
                    bound.add(alias.name.partition(".")[0])
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in bound & ROOTS.keys():
            column = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
            edits += _name_edits(node.lineno, column, node.id)
    return edits


def _name_edits(line: int, column: int, name: str) -> list[Edit]:
    first = name.partition(".")[0]
    if first in ROOTS:
        return [(line, column, column + len(first), ROOTS[first])]
    if _TEST_MODULE.match(name):
        return [(line, column, column + len("tests.tidemark_demo"), "tests.demo")]
    return []


def _string_edits(text: str, prose: Callable[[str], str]) -> list[Edit]:
    edits: list[Edit] = []
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    # From Python 3.12 on an f-string is several tokens.
    texts = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1))
    for token in tokens:
        if token.type not in texts:
            continue
        formatted = token.type == tokenize.STRING and "f" in token.string.partition(token.string[-1])[0].lower()
        parts = _FIELD.split(token.string) if formatted else [token.string]
        new = "".join(part if number % 2 else prose(part) for number, part in enumerate(parts))
        for offset, (before, after) in enumerate(zip(token.string.split("\n"), new.split("\n"), strict=True)):
            if before != after:
                begin = token.start[1] if offset == 0 else 0
                edits.append((token.start[0] + offset, begin, begin + len(before), after))
    edits += _runs_over_strings(tokens)
    return edits


def _runs_over_strings(tokens: list[tokenize.TokenInfo]) -> list[Edit]:
    """``"-m", "runtime"``: the option and the module are strings of their own."""
    strings = [token for token in tokens if token.type not in (tokenize.NL, tokenize.COMMENT)]
    edits: list[Edit] = []
    for option, comma, module in zip(strings, strings[1:], strings[2:], strict=False):
        name = module.string[1:-1]
        if option.string in ('"-m"', "'-m'") and comma.string == "," and name in ROOTS:
            edits.append((module.start[0], module.start[1] + 1, module.end[1] - 1, ROOTS[name]))
    return edits


def _project(text: str) -> str:
    """pyproject.toml: the contracts name modules, and what is checked and packed is one package now."""
    quoted = re.compile(rf'"{_ROOT}(?P<more>[*]?)"')
    begin = text.index("[tool.importlinter]")
    contracts = quoted.sub(lambda match: f'"{ROOTS[match["root"]]}"', text[begin:])
    contracts = re.sub(r"(?m)^(root_packages = ).*$", r'\1["tidemark"]', contracts)
    head = re.sub(
        r'(?m)^(packages|include) = \[("protocol[*]?",.*)\]$',
        lambda match: f"{match[1]} = [{_packages(match[2], quoted)}]",
        text[:begin],
    )
    return head + contracts


def _packages(listed: str, quoted: re.Pattern[str]) -> str:
    others = [name for name in listed.split(", ") if not quoted.fullmatch(name)]
    if "*" not in listed:
        return ", ".join(['"tidemark"', *others])
    return ", ".join(['"tidemark"', '"tidemark.*"', *others])


def _filled(old: str, new: str, *, python: bool) -> str:
    """Prose whose lines have become too long, with the words that are over on the next line of their paragraph."""
    known = set(old.splitlines())
    lines = new.splitlines()
    number = 0
    while number < len(lines):
        if len(lines[number]) > WIDTH and lines[number] not in known:
            indent = _docstring_indent(lines, number) if python else _page_indent(lines, number)
            if indent is not None:
                _carry(lines, number, indent)
        number += 1
    return "\n".join(lines) + ("\n" if new.endswith("\n") else "")


def _page_indent(lines: list[str], number: int) -> int | None:
    """0 where a line of a page may be broken: it is of no table and no code."""
    code = sum(line.startswith("```") for line in lines[:number]) % 2
    return None if code or lines[number].lstrip().startswith(("|", "<", "```", "#")) else 0


def _docstring_indent(lines: list[str], number: int) -> int | None:
    """How far the docstring or comment is indented that a line is part of. None where it must not be broken."""
    line = lines[number]
    if line.lstrip().startswith("# "):
        return len(line) - len(line.lstrip())
    for node in ast.walk(ast.parse("\n".join(lines))):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        begin, end = node.lineno, node.end_lineno or node.lineno
        # A docstring of one line is a sentence, which is better worded by hand.
        if isinstance(node.value.value, str) and begin <= number + 1 <= end and begin != end:
            return node.col_offset
    return None


def _carry(lines: list[str], number: int, base: int) -> None:
    """Carries the words that are too many to the next line, which may then be too long itself."""
    line = lines[number]
    indent = line[: len(line) - len(line.lstrip())]
    mark = "# " if line.lstrip().startswith("# ") else ""
    cut = line.rindex(" ", 0, WIDTH + 1)
    kept, rest = line[:cut].rstrip(), line[cut:].strip()
    following = lines[number + 1] if number + 1 < len(lines) else ""
    next_indent = following[: len(following) - len(following.lstrip())]
    body = following.strip().removeprefix(mark)
    ends = not body or body.startswith(('"""', "- ", "* ", "::", "|", "```"))
    ends = ends or len(next_indent) < len(indent) or bool(mark and not following.lstrip().startswith(mark))
    bullet = re.match(r"\s*(?:- |\d+\. )", line)
    argument = len(indent) > base and re.match(r"\s*[*]{0,2}\w+: ", line)
    if rest == '"""':
        lines[number : number + 1] = [kept, indent + rest]
    elif ends or ((bullet or argument) and next_indent == indent):
        hang = "    " if argument else "  " if bullet else ""
        lines[number : number + 1] = [kept, f"{indent}{hang}{mark}{rest}"]
    else:
        lines[number : number + 2] = [kept, f"{next_indent}{mark}{rest} {body}"]


if __name__ == "__main__":
    sys.exit(main())
