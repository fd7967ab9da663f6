"""Each rule by which columns are told apart and filled, switched off."""

from __future__ import annotations

from operator import attrgetter

from tests.runtime.changelog.generations.mutants import Mutant
from tidemark.protocol.changelog import summaries
from tidemark.protocol.changelog.columns import column_identity, evolution
from tidemark.protocol.changelog.models import TableSchema
from tidemark.runtime.changelog.generations import CollectionGenerations, with_stated_fills
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.sessions.bound_table import BoundTable

_PUTS = [("put", 1)] * 7
_IN_A_GENERATION = [*_PUTS, ("add_late", "c", "bigint"), ("add_wrong", "b", True), ("begin",), ("rename", "b", "c")]

_OF_IDENTITIES = (
    Mutant(
        "names tell columns apart that have identities",
        column_identity._identity,
        "if column.id is not None:",
        "if False:",
    ),
    Mutant(
        "a column without an identity is none of those that have one",
        column_identity._identity,
        "next((other.id for other in named if other.id is not None), _by_name(column))",
        "_by_name(column)",
    ),
    Mutant(
        "a column without an identity is the last one that had its name",
        column_identity.identities,
        "[*schemas[place + 1 :], *reversed(schemas[:place])]",
        "[*reversed(schemas[place + 1 :]), *reversed(schemas[:place])]",
    ),
    Mutant(
        "a column without an identity is never one of an earlier schema",
        column_identity.identities,
        ", *reversed(schemas[:place])",
        "",
    ),
    Mutant(
        "schemas whose columns differ in their identities alone are one",
        attrgetter("fget")(TableSchema.fingerprint),
        "if column[name] is None:",
        'if column[name] is None or name == "id":',
    ),
)

_OF_DEPARTURES = (
    Mutant(
        "a column is compared with the one that has its name now",
        evolution.departure,
        "same = now.get(known[column.name])",
        "same = next((one for one in after.columns if one.name == column.name), None)",
    ),
    Mutant(
        "another column may be the key under the same name",
        evolution.departure,
        "if column.name in schema.key and (same is None or same.name != column.name):",
        "if False:",
    ),
    Mutant(
        "a column may change its type whatever its values are",
        evolution.departure,
        "if same is None or same.type == column.type:",
        "if True:",
    ),
)

_OF_FILLS = (
    Mutant(
        "the constant that was told last counts",
        CollectionGenerations.filled,
        "self._fills.setdefault(identity, column.fill)",
        "self._fills[identity] = column.fill",
    ),
    Mutant(
        "a new session forgets the constants",
        CollectionGenerations.__init__,
        "for schema in self._schemas:\n        self.filled(schema)",
        "pass",
        (False, [*_PUTS, ("rename", "b", "c"), ("add_wrong", "b", True), ("begin",)]),
    ),
    Mutant(
        "a constant that no column can hold is told again by each schema",
        CollectionGenerations.begin,
        "self.filled(schema)",
        "pass",
        (False, _IN_A_GENERATION),
    ),
    Mutant(
        "a constant that its column cannot hold is none",
        CollectionGenerations.has_new_columns,
        "any(column.id is not None and column.id not in self._fills for column in schema.columns)",
        "False",
        (False, [*_PUTS, ("add_late", "c", "bigint"), ("add_wrong", "b", True)]),
    ),
    Mutant(
        "a constant that its column cannot hold has the table read again whenever it is told",
        CollectionGenerations.has_new_columns,
        " and column.id not in self._fills",
        "",
        (False, _IN_A_GENERATION),
    ),
    Mutant(
        "constants are not stated",
        with_stated_fills,
        "fills.get(column.name)",
        "None",
    ),
)

_OF_ANNOUNCEMENTS = (
    Mutant(
        "a change of which no event comes is not stated",
        LogWriter._announced_of,
        "if newest.get(name) != schema",
        "if False",
    ),
    Mutant(
        "a change that an event follows at once is taken for a later one",
        BoundTable.handle,
        "batch.announced.pop(self.table.binding.collection.name, None)",
        "pass",
    ),
    Mutant(
        "a change is stated although no row can be read after it",
        BoundTable.announce,
        "and self._generations.follows(self._schema_alone())",
        "",
    ),
    Mutant(
        "a change of which no event has come is of no generation",
        summaries._generations,
        "if known := list(found.get(collection, ())):",
        "if known := []:",
    ),
)

COLUMN_MUTANTS = (*_OF_IDENTITIES, *_OF_DEPARTURES, *_OF_FILLS, *_OF_ANNOUNCEMENTS)
