"""The form of a clause: its words, without what names, strings and parentheses hold. Patterns are matched to its end.

A word is in upper case, a name in quotes is ``~``, a string ``'``, parentheses are ``()``. One space separates them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.captures.mysql.statements.tokens import Token

ENGINES = ("INNODB", "MYISAM", "ARIA")
"""Those that keep all rows as they are. Others may have none, or round values."""

NAME = r"(?:~|[\w$\u0080-\U0010ffff]+)"
_TABLE = rf"{NAME}(?: \. {NAME})?"
_TEXT = rf"(?:\w+ )?'(?: ')*(?: COLLATE {NAME})?"
_NUMBER = r"(?:[-+] )?(?:\w+ \. \w+|\w+ \.|\. \w+|\w+)(?: [-+] \d+)?"
VALUE = rf"(?:{_TEXT}|{_NUMBER}|\(\)|\w+ \(\)|NEXT VALUE FOR {_TABLE})"
"""A literal, an expression in parentheses, or a function."""
REFERENCES = (
    rf"REFERENCES {_TABLE}(?: \(\))?(?: MATCH \w+)?"
    r"(?: ON (?:DELETE|UPDATE) (?:RESTRICT|CASCADE|SET NULL|NO ACTION|SET DEFAULT))*"
)
CHECK = rf"(?:CONSTRAINT (?:{NAME} )?)?CHECK \(\)(?: (?:NOT )?ENFORCED)?"

_TYPE = (
    r"(?:TINY|SMALL|MEDIUM|MIDDLE|BIG)?INT\d?|INTEGER|BOOL(?:EAN)?|BIT|DEC(?:IMAL)?|NUMERIC|FIXED|NUMBER|FLOAT[48]?|"
    r"DOUBLE|REAL|DATE(?:TIME)?|TIME(?:STAMP)?|YEAR|N?CHAR(?:ACTER)?|NVARCHAR|NATIONAL|VARCHAR2?|VARCHARACTER|"
    r"(?:VAR)?BINARY|RAW|(?:TINY|MEDIUM|LONG)?(?:BLOB|TEXT)|LONG|CLOB|JSON|ENUM|SET|SERIAL|UUID|INET[46]|VECTOR|GEOMETRY|"
    r"(?:MULTI)?(?:POINT|LINESTRING|POLYGON)|GEOM(?:ETRY)?COLLECTION"
)
_ATTRIBUTE = "|".join(
    (
        "(?:NOT )?NULL",
        rf"DEFAULT {VALUE}",
        r"ON UPDATE \w+(?: \(\))?",
        "AUTO_INCREMENT",
        "SERIAL DEFAULT VALUE",
        "UNIQUE(?: KEY)?",
        "(?:PRIMARY )?KEY",
        "COMMENT '(?: ')*",
        f"COLLATE (?:= )?(?:{NAME}|')",
        f"(?:CHARSET|CHAR(?:ACTER)? SET) (?:= )?(?:{NAME}|')",
        "UNSIGNED|SIGNED|ZEROFILL|BINARY|ASCII|UNICODE|BYTE|COMPRESSED",
        r"(?:COLUMN_FORMAT|STORAGE|SRID|REF_SYSTEM_ID) (?:= )?\w+",
        "(?:SECONDARY_)?ENGINE_ATTRIBUTE (?:= )?'",
        r"(?:GENERATED ALWAYS )?AS \(\)",
        "VIRTUAL|STORED|PERSISTENT|VISIBLE|INVISIBLE",
        CHECK,
        REFERENCES,
    )
)
COLUMN = (
    rf"(?:{_TYPE})(?: (?:{_TYPE}|PRECISION|VARYING))*(?: \(\))?(?: (?:{_ATTRIBUTE}))*"
    rf"(?P<place> FIRST| AFTER {NAME})?"
)
"""The definition of a column, after its name."""


def form(tokens: Iterable[Token]) -> str:
    """The form of a clause."""
    found: list[str] = []
    before = last = ""
    depth, partitions = 0, False
    for token in tokens:
        word = token.upper
        of_engine = last == "ENGINE" or (last == "=" and before == "ENGINE")
        if of_engine and word != "=":
            word = token.text.upper()  # Some write it in quotes.
        depth -= word == ")"
        if depth == 0 and word == "(":
            found.append("()")
        elif depth == 0 and word != ")":
            found.append(word or ("~" if token.is_name else "'"))
        elif depth < 0:
            found.append(")")
        elif word == "PARTITION":
            partitions = True
        elif partitions and of_engine and word not in (*ENGINES, "="):
            found.append("ENGINE")
        depth += word == "("
        before, last = last, word
    return " ".join(found)
