"""The clauses of ALTER TABLE by their forms, and those that keep all rows and values, but for those of columns.

A form is the words of a clause, without what names, strings and parentheses hold. Patterns are matched to its end. A
word is in upper case, a name in quotes is ``~``, a string ``'``, parentheses are ``()``. One space separates them.

What a clause does to the key is looked at apart from it. Of a clause that adds or alters columns the definitions before
and after it are compared: see ``tidemark.captures.mysql.tables.conversions``. After any other clause the table is read
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Keeping:
    """Clauses that keep all values.

    Attributes:
        clauses: In Markdown.
        patterns: Of their whole forms.
    """

    name: str
    clauses: str
    why: str
    patterns: tuple[str, ...]

    def has(self, form: str) -> bool:
        """Whether a clause of this form is one of them."""
        return any(re.fullmatch(pattern, form) for pattern in self.patterns)


_INDEX_OPTION = (
    rf"(?: (?:USING \w+|COMMENT '|WITH PARSER {NAME}|VISIBLE|INVISIBLE|(?:NOT )?IGNORED"
    r"|(?:KEY_BLOCK_SIZE|CLUSTERING|(?:SECONDARY_)?ENGINE_ATTRIBUTE|M|DISTANCE) (?:= )?(?:\w+|')))*"
)
_PARTS = rf"(?:ALL|{NAME}(?: , {NAME})*)"
_UNLOGGED = "(?: (?:NO_WRITE_TO_BINLOG|LOCAL))?"
_BY_HASH = r"(?:LINEAR )?(?:HASH|KEY(?: ALGORITHM = \d+)?) \(\)"

_OPTION = (
    rf"(?:(?:AUTO_INCREMENT|AUTOEXTEND_SIZE|AVG_ROW_LENGTH|CHECKSUM|COMMENT|COMPRESSION|DELAY_KEY_WRITE|ENCRYPTED|"
    rf"ENCRYPTION|ENCRYPTION_KEY_ID|(?:SECONDARY_)?ENGINE_ATTRIBUTE|SECONDARY_ENGINE|IETF_QUOTES|KEY_BLOCK_SIZE|"
    rf"MAX_ROWS|MIN_ROWS|PACK_KEYS|PAGE_CHECKSUM|PAGE_COMPRESSED|PAGE_COMPRESSION_LEVEL|ROW_FORMAT|STATS_AUTO_RECALC|"
    rf"STATS_PERSISTENT|STATS_SAMPLE_PAGES|TABLE_CHECKSUM|TABLESPACE|TRANSACTIONAL|(?:DATA|INDEX) DIRECTORY|"
    rf"(?:DEFAULT )?(?:CHARSET|CHAR(?:ACTER)? SET|COLLATE)) (?:= )?(?:{NAME}|'(?: ')*)"
    rf"|ENGINE (?:= )?(?:{'|'.join(ENGINES)}))"
)

INDEXES = Keeping(
    "indexes",
    "`ADD`, `DROP`, `RENAME` or `ALTER` of an `INDEX` or `KEY`, also `UNIQUE`, `PRIMARY`, `FULLTEXT`, `SPATIAL`, "
    "`VECTOR`; `ENABLE KEYS`, `DISABLE KEYS`",
    "an index has no values of its own; if it is the key, see above",
    (
        rf"ADD (?:CONSTRAINT (?:{NAME} )?)?(?:UNIQUE(?: INDEX| KEY)?|PRIMARY KEY|INDEX|KEY|(?:FULLTEXT|SPATIAL)"
        rf"(?: INDEX| KEY)?|VECTOR (?:INDEX|KEY))(?: IF NOT EXISTS)?(?: {NAME})?(?: USING \w+)? \(\){_INDEX_OPTION}",
        rf"DROP (?:PRIMARY KEY|(?:INDEX|KEY)(?: IF EXISTS)? {NAME})",
        rf"RENAME (?:INDEX|KEY)(?: IF EXISTS)? {NAME} TO {NAME}",
        rf"ALTER (?:INDEX|KEY)(?: IF EXISTS)? {NAME} (?:VISIBLE|INVISIBLE|(?:NOT )?IGNORED)",
        "(?:ENABLE|DISABLE) KEYS",
    ),
)
CONSTRAINTS = Keeping(
    "constraints",
    "`ADD`, `DROP` or `ALTER` of a `FOREIGN KEY`, `CHECK` or `CONSTRAINT`",
    "it refuses rows, and changes none; one that rows do not fulfil makes the statement fail",
    (
        rf"ADD (?:CONSTRAINT (?:{NAME} )?)?FOREIGN KEY(?: IF NOT EXISTS)?(?: {NAME})? \(\) {REFERENCES}",
        rf"ADD {CHECK}",
        rf"ADD CONSTRAINT IF NOT EXISTS {NAME} CHECK \(\)",
        rf"DROP (?:FOREIGN KEY|CHECK|CONSTRAINT)(?: IF EXISTS)? {NAME}",
        rf"ALTER (?:CHECK|CONSTRAINT) {NAME} (?:NOT )?ENFORCED",
    ),
)
DEFAULTS = Keeping(
    "defaults",
    "`ALTER COLUMN … SET DEFAULT`, `DROP DEFAULT`, `SET VISIBLE`, `SET INVISIBLE`",
    "a default counts for rows to come; documents have invisible columns, too",
    (
        rf"ALTER (?:COLUMN )?(?:IF EXISTS )?{NAME} "
        rf"(?:SET DEFAULT {VALUE}|DROP DEFAULT|SET (?:VISIBLE|INVISIBLE))",
    ),
)
OPTIONS = Keeping(
    "options",
    "the table's options: `AUTO_INCREMENT`, `COMMENT`, `ROW_FORMAT`, `KEY_BLOCK_SIZE`, `STATS_…`, `COMPRESSION`, "
    "`ENCRYPTION`, `TABLESPACE`, `DEFAULT CHARACTER SET` and others; `ENGINE` of InnoDB, MyISAM or Aria",
    "how rows are stored does not change them; a character set counts for columns to come",
    (f"{_OPTION}(?: {_OPTION})*",),
)
REBUILDS = Keeping(
    "rebuilds",
    "`FORCE`, `ALGORITHM`, `LOCK`, `ORDER BY`, `WITH VALIDATION`, `WITHOUT VALIDATION`, `SECONDARY_LOAD`, "
    "`SECONDARY_UNLOAD`",
    "how the statement is carried out; a rebuild copies the rows as they are",
    (
        r"FORCE|(?:ALGORITHM|LOCK) (?:= )?\w+|(?:WITH|WITHOUT) VALIDATION|SECONDARY_(?:UN)?LOAD",
        rf"ORDER BY {NAME}(?: ASC| DESC)?(?: , {NAME}(?: ASC| DESC)?)*",
    ),
)
PARTITIONS = Keeping(
    "partitions",
    "`PARTITION BY`, `REMOVE PARTITIONING`; `ADD`, `REORGANIZE`, `COALESCE`, `REBUILD`, `OPTIMIZE`, `ANALYZE` or "
    "`CHECK` of `PARTITION`",
    "an added partition is empty; rows move from one partition to another, and a row that none has a place for makes "
    "the statement fail",
    (
        rf"PARTITION BY (?:{_BY_HASH}|(?:RANGE|LIST)(?: COLUMNS)? \(\))(?: PARTITIONS \d+)?"
        rf"(?: SUBPARTITION BY {_BY_HASH}(?: SUBPARTITIONS \d+)?)?(?: \(\))?",
        "REMOVE PARTITIONING",
        rf"ADD PARTITION(?: IF NOT EXISTS)?{_UNLOGGED} (?:\(\)|PARTITIONS \d+)",
        rf"REORGANIZE PARTITION{_UNLOGGED}(?: {_PARTS} INTO \(\))?",
        rf"COALESCE PARTITION{_UNLOGGED} \d+",
        rf"(?:REBUILD|OPTIMIZE|ANALYZE|CHECK) PARTITION{_UNLOGGED} {_PARTS}(?: FOR UPGRADE| QUICK| EXTENDED| MEDIUM)*",
    ),
)

KEEPING = (INDEXES, CONSTRAINTS, DEFAULTS, OPTIONS, REBUILDS, PARTITIONS)


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


def keeping(form: str) -> Keeping | None:
    """The entry of a clause of this form; None if it is in none."""
    return next((entry for entry in KEEPING if entry.has(form)), None)
