"""Tables of the SQLite store, and the condition under which a client finds a turn."""

from __future__ import annotations

from antiphon.store.sqlite.call_states import MIGRATION as CALL_STATE_MIGRATION
from antiphon.store.sqlite.file import DatabaseSchema
from antiphon.store.usage.sqlite import MIGRATION as USAGE_MIGRATION

SCHEMA = DatabaseSchema(
    application_id=0x416E7469,
    migrations=(
        (
            """
            CREATE TABLE turn (
                seq INTEGER PRIMARY KEY,
                id TEXT NOT NULL UNIQUE,
                previous_response_id TEXT,
                expires_at INTEGER,
                body BLOB NOT NULL  -- the turn as JSON, perhaps compressed by zlib
            )
            """,
            "CREATE INDEX turn_expiry ON turn (expires_at) WHERE expires_at IS NOT NULL",
            # Maintained by triggers: checking a limit needs no scan, and a rollback undoes it.
            "CREATE TABLE total (turns INTEGER NOT NULL, bytes INTEGER NOT NULL)",
            "INSERT INTO total VALUES (0, 0)",
            """
            CREATE TRIGGER turn_saved AFTER INSERT ON turn BEGIN
                UPDATE total SET turns = turns + 1, bytes = bytes + length(new.body);
            END
            """,
            """
            CREATE TRIGGER turn_replaced AFTER UPDATE OF body ON turn BEGIN
                UPDATE total SET bytes = bytes + length(new.body) - length(old.body);
            END
            """,
            """
            CREATE TRIGGER turn_deleted AFTER DELETE ON turn BEGIN
                UPDATE total SET turns = turns - 1, bytes = bytes - length(old.body);
            END
            """,
        ),
        (
            # Location of an item in its turn. The key sorts by preference.
            """
            CREATE TABLE item (
                id TEXT NOT NULL,
                is_input INTEGER NOT NULL,
                turn INTEGER NOT NULL,
                position INTEGER NOT NULL,
                PRIMARY KEY (id, is_input, turn DESC)
            ) WITHOUT ROWID
            """,
            "CREATE INDEX item_turn ON item (turn)",
            """
            CREATE TRIGGER items_replaced AFTER UPDATE OF body ON turn BEGIN
                DELETE FROM item WHERE turn = old.seq;
            END
            """,
            """
            CREATE TRIGGER items_deleted AFTER DELETE ON turn BEGIN
                DELETE FROM item WHERE turn = old.seq;
            END
            """,
        ),
        # Who sent the turn: of turns without an owner, input items are found by this client only.
        ("ALTER TABLE turn ADD COLUMN client TEXT NOT NULL DEFAULT ''",),
        (
            # NULL: stored before turns had an owner, found by every client.
            "ALTER TABLE turn ADD COLUMN owner TEXT",
            "CREATE INDEX turn_without_owner ON turn (expires_at) WHERE owner IS NULL",
        ),
        (
            # The run of a turn that has not ended, or whose event log is kept.
            """
            CREATE TABLE run (
                turn INTEGER PRIMARY KEY,
                status TEXT NOT NULL,
                holder TEXT,  -- NULL: queued, or ended
                token INTEGER NOT NULL,
                last_seq INTEGER NOT NULL,
                is_background INTEGER NOT NULL,
                is_streamed INTEGER NOT NULL,
                is_cancel_requested INTEGER NOT NULL DEFAULT 0,
                request BLOB NOT NULL,
                log_expires_at INTEGER  -- NULL: not ended
            )
            """,
            "CREATE INDEX run_queued ON run (turn) WHERE status = 'queued'",
            "CREATE INDEX run_holder ON run (holder) WHERE holder IS NOT NULL",
            "CREATE INDEX run_expiry ON run (log_expires_at) WHERE log_expires_at IS NOT NULL",
            """
            CREATE TABLE event_batch (
                turn INTEGER NOT NULL,
                first_seq INTEGER NOT NULL,
                last_seq INTEGER NOT NULL,
                frames BLOB NOT NULL
            )
            """,
            "CREATE UNIQUE INDEX event_batch_order ON event_batch (turn, last_seq)",
            "CREATE TABLE lease (holder TEXT PRIMARY KEY, expires_at REAL NOT NULL)",
            # What the holder of a run that was deleted has not been told yet.
            """
            CREATE TABLE deleted_run (
                holder TEXT NOT NULL,
                response_id TEXT NOT NULL,
                PRIMARY KEY (holder, response_id)
            )
            """,
            """
            CREATE TRIGGER run_deleted AFTER DELETE ON turn BEGIN
                INSERT OR IGNORE INTO deleted_run
                    SELECT holder, old.id FROM run WHERE turn = old.seq AND holder IS NOT NULL;
                DELETE FROM run WHERE turn = old.seq;
            END
            """,
            """
            CREATE TRIGGER events_deleted AFTER DELETE ON run BEGIN
                DELETE FROM event_batch WHERE turn = old.turn;
            END
            """,
            """
            CREATE TABLE conversation (
                seq INTEGER PRIMARY KEY,
                id TEXT NOT NULL UNIQUE,
                owner TEXT NOT NULL,  -- empty: found by every client
                created_at INTEGER NOT NULL,
                expires_at INTEGER,
                metadata BLOB NOT NULL,
                locked_by TEXT,  -- the response that is going to append to it
                lock_holder TEXT
            )
            """,
            "CREATE INDEX conversation_expiry ON conversation (expires_at)"
            " WHERE expires_at IS NOT NULL",
            "CREATE INDEX conversation_lock ON conversation (locked_by)"
            " WHERE locked_by IS NOT NULL",
            # Items are in the order of `seq`.
            """
            CREATE TABLE conversation_item (
                seq INTEGER PRIMARY KEY,
                conversation INTEGER NOT NULL,
                id TEXT NOT NULL,
                body BLOB NOT NULL
            )
            """,
            "CREATE UNIQUE INDEX conversation_item_id ON conversation_item (conversation, id)",
            "CREATE INDEX conversation_item_order ON conversation_item (conversation, seq)",
            """
            CREATE TRIGGER conversation_deleted AFTER DELETE ON conversation BEGIN
                DELETE FROM conversation_item WHERE conversation = old.seq;
            END
            """,
        ),
        USAGE_MIGRATION,
        (
            # Bytes of the body as JSON; NULL: not known, see `SIZE`.
            "ALTER TABLE turn ADD COLUMN size INTEGER",
            "ALTER TABLE conversation_item ADD COLUMN size INTEGER",
        ),
        (
            # The owner of the turn, so that queued runs are claimed by client in turn.
            "ALTER TABLE run ADD COLUMN owner TEXT",
            "UPDATE run SET owner = (SELECT turn.owner FROM turn WHERE turn.seq = run.turn)"
            " WHERE is_background = 1",
            """
            CREATE TRIGGER run_begun AFTER INSERT ON run WHEN new.is_background = 1 BEGIN
                UPDATE run SET owner = (SELECT owner FROM turn WHERE seq = new.turn)
                    WHERE turn = new.turn;
            END
            """,
            "CREATE INDEX run_waiting ON run (owner, turn) WHERE status = 'queued'",
        ),
        CALL_STATE_MIGRATION,
        # Items are referred to by their ids alone.
        ("CREATE INDEX conversation_item_reference ON conversation_item (id)",),
        # Which clients got places for queued runs, in the order of `number`; '' has no name.
        ("CREATE TABLE served_client (owner TEXT PRIMARY KEY, number INTEGER NOT NULL)",),
        # From here on, the body of a turn has its output once: earlier versions would show
        # responses without output. Bodies of earlier versions stay as they are.
        (),
    ),
)

SIZE = "coalesce(size, json_length(body))"
"""Bytes of a body as JSON, of rows of earlier versions, too; a reading connection has the
function."""

ALIVE = "(turn.expires_at IS NULL OR turn.expires_at > :now)"
FOUND = f"{ALIVE} AND (turn.owner = :client OR turn.owner IS NULL)"
"""Condition of a turn that a client may see; needs the parameters `now` and `client`."""


def searchable_id(id: str) -> str:
    """Replace lone surrogates, which SQLite cannot bind; no stored id has any."""
    return id.encode("utf-8", "replace").decode()
