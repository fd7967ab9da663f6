"""Decoders on real messages of pgoutput: what the log has of old rows, by replica identity, TOAST and key changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.captures.postgres.both_ways import BothWays, Document
from tidemark.testing.servers.postgres import Database


@pytest.fixture
def both(any_database: Database) -> Iterator[BothWays]:
    ways = BothWays(any_database)
    with ways.session:
        yield ways


def big(both: BothWays, salt: int) -> str:
    row = both.session.execute(
        "SELECT substr(string_agg(md5((n + %s)::text), ''), 1, 9000) FROM generate_series(1, 300) n", [salt]
    ).fetchone()
    assert row is not None
    return str(row[0])


def meta(document: Document) -> Document:
    """``_meta`` without its source."""
    return {name: value for name, value in document["_meta"].items() if name != "source"}


def columns(document: Document) -> Document:
    return {name: value for name, value in document.items() if name != "_meta"}


def test_default_identity(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, a text, b int)")
    both.execute("INSERT INTO public.t VALUES (1, 'x', NULL)")
    both.execute("UPDATE public.t SET a = NULL, b = 2")
    both.execute("UPDATE public.t SET id = 5")
    both.execute("DELETE FROM public.t")
    inserted, updated, moved, deleted = both.log()
    assert [(meta(d), columns(d)) for d in inserted.documents] == [({"op": "c"}, {"id": 1, "a": "x", "b": None})]
    assert [(meta(d), columns(d)) for d in updated.documents] == [({"op": "u"}, {"id": 1, "a": None, "b": 2})]
    assert [(meta(d), columns(d)) for d in moved.documents] == [
        ({"op": "d"}, {"id": 1}),
        ({"op": "c"}, {"id": 5, "a": None, "b": 2}),
    ]
    assert [(meta(d), columns(d)) for d in deleted.documents] == [({"op": "d"}, {"id": 5})]
    assert [event.touched for event in (inserted, updated, moved, deleted)] == [
        ((b"1", False),),
        ((b"1", False),),
        ((b"1", False), (b"5", False)),
        ((b"5", False),),
    ]


@pytest.mark.parametrize("null", [False, True], ids=["whole", "with a null"])
def test_full_identity(both: BothWays, null: bool) -> None:
    b = None if null else True
    both.execute(
        "CREATE TABLE public.t (a text, id int PRIMARY KEY, b bool); ALTER TABLE public.t REPLICA IDENTITY FULL"
    )
    both.execute("INSERT INTO public.t VALUES ('x', 1, %s)", b)
    both.execute("UPDATE public.t SET a = 'y'")
    both.execute("UPDATE public.t SET id = 5")
    both.execute("DELETE FROM public.t")
    _, updated, moved, deleted = both.log()
    assert [(meta(d), columns(d)) for d in updated.documents] == [
        ({"op": "u", "before": {"a": "x", "id": 1, "b": b}}, {"a": "y", "id": 1, "b": b})
    ]
    assert [(meta(d), columns(d)) for d in moved.documents] == [
        ({"op": "d"}, {"a": "y", "id": 1, "b": b}),
        ({"op": "c"}, {"a": "y", "id": 5, "b": b}),
    ]
    assert [(meta(d), columns(d)) for d in deleted.documents] == [({"op": "d"}, {"a": "y", "id": 5, "b": b})]
    assert [event.touched for event in (updated, moved, deleted)] == [
        ((b"1", False),),
        ((b"1", False), (b"5", False)),
        ((b"5", False),),
    ]


def test_identity_by_an_index_that_holds_more_than_the_key(both: BothWays) -> None:
    """A change of the identity is no change of the key: the old identity is what stood before."""
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, mail text NOT NULL, note text, UNIQUE (mail, id))")
    both.execute("ALTER TABLE public.t REPLICA IDENTITY USING INDEX t_mail_id_key")
    both.execute("INSERT INTO public.t VALUES (1, 'a@b', 'n')")
    both.execute("UPDATE public.t SET mail = 'c@d'")
    both.execute("UPDATE public.t SET id = 2")
    both.execute("DELETE FROM public.t")
    _, updated, moved, deleted = both.log()
    assert [(meta(d), columns(d)) for d in updated.documents] == [
        ({"op": "u", "before": {"id": 1, "mail": "a@b"}}, {"id": 1, "mail": "c@d", "note": "n"})
    ]
    assert [(meta(d), columns(d)) for d in moved.documents] == [
        ({"op": "d"}, {"id": 1, "mail": "c@d"}),
        ({"op": "c"}, {"id": 2, "mail": "c@d", "note": "n"}),
    ]
    assert [columns(d) for d in deleted.documents] == [{"id": 2, "mail": "c@d"}]


def test_unchanged_toast_with_the_default_identity(both: BothWays) -> None:
    first, second = big(both, 0), big(both, 1)
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, bio text, n int, photo text)")
    both.execute("INSERT INTO public.t VALUES (1, %s, 0, %s)", first, second)
    both.execute("UPDATE public.t SET n = 1")
    both.execute("UPDATE public.t SET photo = 'small'")
    both.execute("UPDATE public.t SET id = 2")
    both.execute("UPDATE public.t SET bio = %s", second)
    inserted, untouched, one, moved, changed = both.log()
    assert columns(inserted.documents[0]) == {"id": 1, "bio": first, "n": 0, "photo": second}
    assert meta(untouched.documents[0]) == {"op": "u", "unchanged": ["bio", "photo"]}
    assert columns(untouched.documents[0]) == {"id": 1, "n": 1}
    assert meta(one.documents[0]) == {"op": "u", "unchanged": ["bio"]}
    assert columns(one.documents[0]) == {"id": 1, "n": 1, "photo": "small"}
    assert [(meta(d), columns(d)) for d in moved.documents] == [
        ({"op": "d"}, {"id": 1}),
        ({"op": "c", "unchanged": ["bio"]}, {"id": 2, "n": 1, "photo": "small"}),
    ]
    assert meta(changed.documents[0]) == {"op": "u"}
    assert columns(changed.documents[0]) == {"id": 2, "bio": second, "n": 1, "photo": "small"}
    assert [event.touched for event in (untouched, one, moved, changed)] == [
        ((b"1", True),),
        ((b"1", True),),
        ((b"1", False), (b"2", True)),
        ((b"2", False),),
    ]


def test_unchanged_toast_with_the_full_identity(both: BothWays) -> None:
    bio = big(both, 0)
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, bio text, n int)")
    both.execute("ALTER TABLE public.t REPLICA IDENTITY FULL")
    both.execute("INSERT INTO public.t VALUES (1, %s, NULL)", bio)
    both.execute("UPDATE public.t SET n = 1")
    both.execute("UPDATE public.t SET id = 2")
    _, updated, moved = both.log()
    old = {"id": 1, "bio": bio, "n": None}
    assert [(meta(d), columns(d)) for d in updated.documents] == [({"op": "u", "before": old}, {**old, "n": 1})]
    assert [(meta(d), columns(d)) for d in moved.documents] == [
        ({"op": "d"}, {**old, "n": 1}),
        ({"op": "c"}, {**old, "id": 2, "n": 1}),
    ]
    assert [event.touched for event in (updated, moved)] == [((b"1", False),), ((b"1", False), (b"2", False))]


def test_unchanged_toast_in_the_key(both: BothWays) -> None:
    """The server sends the old key although it is the same: it fills what the new row leaves out."""
    key = big(both, 0)[:2600]
    both.execute("CREATE TABLE public.t (id text PRIMARY KEY, n int)")
    both.execute("ALTER TABLE public.t ALTER id SET STORAGE EXTERNAL")
    both.execute("INSERT INTO public.t VALUES (%s, 0)", key)
    both.execute("UPDATE public.t SET n = 1")
    inserted, updated = both.log()
    assert [(meta(d), columns(d)) for d in updated.documents] == [
        ({"op": "u", "before": {"id": key}}, {"id": key, "n": 1})
    ]
    assert updated.touched == inserted.touched == ((key.encode(), False),)


def test_keys_of_several_columns_in_their_own_order(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (a int, b text, c text, PRIMARY KEY (c, a))")
    both.execute("INSERT INTO public.t VALUES (1, NULL, E'x\\t\\\\y\\n'), (2, 'b', 'é')")
    assert both.table("t").key == ("c", "a")
    assert [d["c"] for d in both.both("t")] == ["x\t\\y\n", "é"]
    both.execute("UPDATE public.t SET a = 3 WHERE a = 1")
    (moved,) = both.log()
    assert moved.touched == ((b"x\t\\y\n\x001", False), (b"x\t\\y\n\x003", False))


def test_excluded_columns_are_read_over(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (a text, id int PRIMARY KEY, secret text, b int, big text)")
    both.execute("ALTER TABLE public.t REPLICA IDENTITY FULL")
    both.exclude = frozenset({"a", "secret", "big"})
    both.execute("INSERT INTO public.t VALUES ('x', 1, 's', 2, %s), ('x', 2, NULL, NULL, NULL)", big(both, 0))
    assert [columns(d) for d in both.both("t")] == [{"id": 1, "b": 2}, {"id": 2, "b": None}]
    both.execute("UPDATE public.t SET secret = 't'")
    both.execute("DELETE FROM public.t")
    for event in both.log():
        (document,) = event.documents
        assert set(document) == {"_meta", "id", "b"}
        assert set(document["_meta"].get("before", {})) <= {"id", "b"}
    both.execute("ALTER TABLE public.t REPLICA IDENTITY DEFAULT")
    both.execute("INSERT INTO public.t VALUES ('x', 1, 's', 2, %s)", big(both, 0))
    both.execute("UPDATE public.t SET b = 3")
    _, updated = both.log()
    assert (meta(updated.documents[0]), updated.touched) == ({"op": "u"}, ((b"1", False),))


def test_dropped_columns_and_awkward_names(both: BothWays) -> None:
    both.execute('CREATE TABLE public.t (gone int, "Id" int PRIMARY KEY, "a ""b"" é\\%" text, too text)')
    both.execute("ALTER TABLE public.t DROP gone, DROP too, ADD later date DEFAULT '2024-01-01'")
    both.execute("INSERT INTO public.t VALUES (1, 'x')")
    assert [columns(d) for d in both.both("t")] == [{"Id": 1, 'a "b" é\\%': "x", "later": "2024-01-01"}]


def test_generated_columns_are_not_in_the_log(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, a text)")
    both.execute("INSERT INTO public.t VALUES (1, DEFAULT, 'x')")
    assert [c.generated for c in both.table("t").columns] == ["", "s", ""]
    both.exclude = frozenset({"twice"})
    assert [columns(d) for d in both.both("t")] == [{"id": 1, "a": "x"}]


def test_partitions_come_as_their_root(both: BothWays) -> None:
    both.execute("""
        CREATE TABLE public.t (id int, part int, a text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
        CREATE TABLE public.t1 (part int, a text, id int NOT NULL);
        ALTER TABLE public.t1 ALTER part SET NOT NULL;
        ALTER TABLE public.t ATTACH PARTITION public.t1 FOR VALUES IN (1);
        CREATE TABLE public.t2 PARTITION OF public.t FOR VALUES IN (2);
        INSERT INTO public.t VALUES (1, 1, 'x'), (2, 2, NULL);
    """)
    assert [columns(d) for d in both.both("t")] == [
        {"id": 1, "part": 1, "a": "x"},
        {"id": 2, "part": 2, "a": None},
    ]
    both.execute("UPDATE public.t SET part = 2 WHERE id = 1")
    assert [(d["_meta"]["op"], d["id"], d["part"]) for e in both.log() for d in e.documents] == [
        ("d", 1, 1),
        ("c", 1, 2),
    ]


def test_rows_of_megabytes(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, a text, b bytea, c text[][])")
    both.execute(
        "INSERT INTO public.t VALUES (1, repeat(E'tn\\t\"\\\\é', 500000), decode(repeat('74006e', 300000), 'hex'),"
        " array_fill('x y'::text, ARRAY[1000, 10]))"
    )
    (document,) = both.both("t")
    assert document["a"] == 'tn\t"\\é' * 500_000
    assert len(document["b"]) == 1_200_000
    assert document["c"] == [["x y"] * 10] * 1000
