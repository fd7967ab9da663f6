"""The capture protocol's control messages, compatible with the JSON codec of Estuary Flow's ``capture.proto``.

A session is newline-delimited JSON. Each line is an object with exactly one key, the kind of the message:

========  ==================================================================================================
requests  ``spec`` ``discover`` ``validate`` ``apply`` ``open`` ``acknowledge`` ``control``
responses ``spec`` ``discovered`` ``validated`` ``applied`` ``opened`` ``captured`` ``sourcedSchema`` ``checkpoint``
          ``backfillBegin`` ``backfillComplete`` ``verified`` ``verifyBegin`` ``verifyChunk`` ``verifyEnd``
========  ==================================================================================================

``tidemark.protocol.fields`` reads leniently: every spelling of a field (``documentSchema``, ``document_schema``, and
the proto's own ``document_schema_json``), unknown fields, ``$internal`` beside the message, and omitted zero values of
proto3 are accepted. Writing is strict: camelCase, no field outside the protocol. ``control`` is not Flow's, nor what
it asks for from ``verified`` on: a connector that takes it announces so on stderr (``tidemark.protocol.logs.CONTROL``).
``captured`` and ``verified`` are not here: they never become objects (see ``tidemark.protocol.codec``).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, get_args

from msgspec import Meta, Struct, field

from tidemark.protocol.actions import Action

PROTOCOL_VERSION = 3032023
"""The value of ``spec.protocol``; a runtime rejects any other."""

MAX_UINT32 = 0xFFFFFFFF
"""Every number of the protocol is a uint32."""

COMPLETE = "x-complete"
"""In a ``sourcedSchema``, true: it describes the whole table, and replaces all earlier schemas."""

KEY_COLUMNS = "x-key"
"""Names of the columns that identify rows. In a discovered schema only where they cannot be a collection's key, in a
complete ``sourcedSchema`` always, in their order; none where no columns identify rows."""

COLUMN_ID = "x-column"
"""In the schema of a column in a complete ``sourcedSchema``: a text that is the column's own in its table, whatever its
name. No later column has it until the table is read from the start. Without it the name tells columns apart."""

COLUMN_FILL = "x-fill"
"""In the schema of a column, in the first complete ``sourcedSchema`` that has the column: the value that all rows from
before it have in it, as documents have it. Without it that is null."""

Json = Any
"""Any JSON value, as Python objects."""

JsonObject = dict[str, Any]


Count = Annotated[int, Meta(ge=0, le=MAX_UINT32)]


class Message(Struct, frozen=True, rename="camel"):
    """Base of every message: camelCase on the wire. ``tidemark.protocol.fields`` reads every spelling.

    Attributes:
        other_names: More names of fields on the wire, by the field's own.
    """

    kind: ClassVar[str] = ""
    other_names: ClassVar[dict[str, str]] = {}


# Parts that several messages share.


class Inference(Message, frozen=True):
    """The part of a collection's schema for one location."""

    types: list[str] = []


class Projection(Message, frozen=True):
    """A location of a collection's documents under a name. Connectors want one of each part of the key."""

    ptr: str = ""
    field: str = ""
    is_primary_key: bool = False
    inference: Inference = Inference()


class JournalTemplate(Message, frozen=True):
    """The journals of a collection, or of a recovery log. Only Flow's runtime has any; connectors want a name."""

    name: str = ""


class ShardTemplate(Message, frozen=True):
    """The shards of a capture. Only Flow's runtime has any; connectors want an id."""

    id: str = ""


class Collection(Message, frozen=True):
    """The collection a binding is captured into. ``key`` holds JSON pointers."""

    name: str = ""
    key: list[str] = []
    write_schema: JsonObject = {}
    read_schema: JsonObject = {}
    projections: list[Projection] = []
    partition_template: JournalTemplate | None = None


class Binding(Message, frozen=True):
    """One resource (a table) bound to a collection.

    ``state_key`` is the binding's stable identity in the state; its index shifts when other bindings come or go.
    """

    resource_config: JsonObject = {}
    resource_path: list[str] = []
    collection: Collection = Collection()
    backfill: Count = 0
    state_key: str = ""


class CaptureSpec(Message, frozen=True):
    """A whole capture: its configuration and its bindings, in the order that binding indices count."""

    name: str = ""
    connector_type: str = ""
    config: JsonObject = {}
    bindings: list[Binding] = []
    interval_seconds: Count = 0
    shard_template: ShardTemplate | None = None
    recovery_log_template: JournalTemplate | None = None


class KeyRange(Message, frozen=True):
    """The part of the key space a session captures; today always all of it."""

    key_begin: Count = 0
    key_end: Count = MAX_UINT32
    r_clock_begin: Count = 0
    r_clock_end: Count = MAX_UINT32

    @property
    def whole(self) -> bool:
        return self == KeyRange()


class DiscoveredBinding(Message, frozen=True):
    """One table found: what to name its collection, how to bind it, what its documents look like."""

    recommended_name: str
    resource_config: JsonObject
    document_schema: JsonObject
    key: list[str] = []
    disable: bool = False
    resource_path: list[str] = []
    is_fallback_key: bool = False


class ValidatedBinding(Message, frozen=True):
    """The path by which the connector identifies a binding's resource from here on."""

    resource_path: list[str]


class ConnectorState(Message, frozen=True):
    """A change of the connector's state: an RFC 7396 merge patch, or the whole of it when ``merge_patch`` is false."""

    updated: Json = None
    merge_patch: bool = False


# Requests.


class Spec(Message, frozen=True):
    """Asks what the connector is. Answered from static knowledge."""

    kind: ClassVar[str] = "spec"
    connector_type: str = ""
    config: JsonObject = {}


class Discover(Message, frozen=True):
    """Asks which tables there are."""

    kind: ClassVar[str] = "discover"
    connector_type: str = ""
    config: JsonObject = {}


class Validate(Message, frozen=True):
    """Asks whether these bindings can be captured; the answer has all reasons why not."""

    kind: ClassVar[str] = "validate"
    name: str = ""
    connector_type: str = ""
    config: JsonObject = {}
    bindings: list[Binding] = []
    last_capture: CaptureSpec | None = None
    last_version: str = ""


class Apply(Message, frozen=True):
    """Asks the connector to create what it needs at the source. Idempotent."""

    kind: ClassVar[str] = "apply"
    capture: CaptureSpec
    version: str = ""
    last_capture: CaptureSpec | None = None
    last_version: str = ""


class Open(Message, frozen=True):
    """Starts capturing from ``state`` (``{}`` when new). The session lasts until a side closes it."""

    kind: ClassVar[str] = "open"
    capture: CaptureSpec
    version: str = ""
    range: KeyRange = KeyRange()
    state: JsonObject = {}


class Acknowledge(Message, frozen=True):
    """Says that the next ``checkpoints`` checkpoints, first in first out, are durable; one if absent."""

    kind: ClassVar[str] = "acknowledge"
    checkpoints: Annotated[int, Meta(ge=1, le=MAX_UINT32)] = 1


class Control(Message, frozen=True, omit_defaults=True):
    """A command to the backfills of a running capture, after ``open``. Each command is carried out once.

    The connector's state holds, as ``control``, the last sequence that was handled, carried out or refused; a command
    with that or a lower one was handled before.

    Attributes:
        sequence: Grows from one command to the next, over all sessions of a capture.
        tables: Resource paths joined with a dot; none means all tables.
        priority: With ``priority``: tables with a higher priority are read first.
        where: With ``backfill``: only the rows that meet this SQL condition.
        from_: With ``backfill``: only rows from this key on. The texts of all its key columns.
        until: With ``backfill``: only rows up to this key, inclusive. With fewer texts than the key has columns it
            stands for all keys that begin with them.
        truncate: With ``backfill`` of all rows: the table is emptied downstream first.
        deferrable: With ``backfill``: no person has asked for it. A connector that puts rereads off puts this off, too.
        keep: With ``resume``: drops rereads that are put off; the rows downstream stay as they are.
        share: With ``verify``: the most of the time that reading may take, from 0 to 1.
        keys: With ``repair`` of one table: the rows to read again; of each the values of its key columns, in their
            order, as documents have them.
    """

    kind: ClassVar[str] = "control"
    sequence: Annotated[int, Meta(ge=1)]
    action: Action
    tables: list[str] = []
    priority: int | None = None
    where: str = ""
    from_: list[str] = field(default_factory=list, name="from")
    until: list[str] = []
    truncate: bool = False
    deferrable: bool = False
    keep: bool = False
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    keys: list[list[Json]] = []


# Responses.


class SpecResponse(Message, frozen=True, kw_only=True):
    """What the connector is: the JSON Schemas of its configuration and of a resource's."""

    kind: ClassVar[str] = "spec"
    protocol: int = PROTOCOL_VERSION
    config_schema: JsonObject
    resource_config_schema: JsonObject
    documentation_url: str
    resource_path_pointers: list[str] = []


class Discovered(Message, frozen=True):
    """The tables there are."""

    kind: ClassVar[str] = "discovered"
    bindings: list[DiscoveredBinding] = []


class Validated(Message, frozen=True):
    """The bindings can be captured; in the order of the request."""

    kind: ClassVar[str] = "validated"
    bindings: list[ValidatedBinding] = []


class Applied(Message, frozen=True):
    """What was created at the source, in words; empty if there was nothing to do. ``state`` is stored, like a patch."""

    kind: ClassVar[str] = "applied"
    action_description: str = ""
    state: ConnectorState | None = None


class Opened(Message, frozen=True):
    """``explicit_acknowledgements``: the connector reads stdin and moves its slot only on ``acknowledge``."""

    kind: ClassVar[str] = "opened"
    explicit_acknowledgements: bool = False


class SourcedSchema(Message, frozen=True, kw_only=True):
    """The closed schema of a binding's documents from here on. Pending until the next checkpoint.

    It is added to the earlier schemas of the documents, unless it is complete (``COMPLETE``).
    """

    kind: ClassVar[str] = "sourcedSchema"
    other_names: ClassVar[dict[str, str]] = {"document_schema": "schema"}
    binding: Count = 0
    document_schema: JsonObject


class Checkpoint(Message, frozen=True):
    """Commits everything since the previous checkpoint, together with a change of state."""

    kind: ClassVar[str] = "checkpoint"
    state: ConnectorState | None = None


class BackfillBegin(Message, frozen=True):
    """A binding is read again from here on: its earlier documents are void. Pending until the next checkpoint.

    Attributes:
        why: What has happened to the table, for people. Only for tidemark's runtime; absent if nothing has.
    """

    kind: ClassVar[str] = "backfillBegin"
    binding: Count = 0
    why: str | None = None


class BackfillComplete(Message, frozen=True):
    """All rows of a binding have come since its last ``backfillBegin``. Pending until the next checkpoint."""

    kind: ClassVar[str] = "backfillComplete"
    binding: Count = 0


class VerifyBegin(Message, frozen=True):
    """All rows of a binding are read once more, to be compared. ``run``: the sequence of the ``control`` that asks."""

    kind: ClassVar[str] = "verifyBegin"
    binding: Count = 0
    run: int = 0


class VerifyChunk(Message, frozen=True):
    """The ``rows`` that came of a binding since the last one are what all events so far give. ``number``: from 1."""

    kind: ClassVar[str] = "verifyChunk"
    binding: Count = 0
    run: int = 0
    number: int = 0
    rows: int = 0


class VerifyEnd(Message, frozen=True):
    """All rows of a binding have come; or ``why`` they have not. ``covered``: they may come another time."""

    kind: ClassVar[str] = "verifyEnd"
    binding: Count = 0
    run: int = 0
    chunks: int = 0
    rows: int = 0
    why: str | None = None
    covered: bool = True


Request = Spec | Discover | Validate | Apply | Open | Acknowledge | Control
Response = (
    SpecResponse
    | Discovered
    | Validated
    | Applied
    | Opened
    | SourcedSchema
    | Checkpoint
    | BackfillBegin
    | BackfillComplete
    | VerifyBegin
    | VerifyChunk
    | VerifyEnd
)

REQUESTS: dict[str, type[Message]] = {message.kind: message for message in get_args(Request)}
RESPONSES: dict[str, type[Message]] = {message.kind: message for message in get_args(Response)}
