"""Functions of the PostgreSQL store for conversations; part of its first migration."""

from __future__ import annotations

CONVERSATION_FUNCTIONS = """
-- Returns a conversation and locks its row; extends its lifetime when half of it is over.
CREATE FUNCTION use_conversation(p_id text, p_client text, p_now bigint, p_expires_at bigint)
RETURNS SETOF conversation LANGUAGE plpgsql AS $$
DECLARE
    v_found conversation;
BEGIN
    SELECT * INTO v_found FROM conversation WHERE id = p_id AND owner IN ('', p_client)
        AND (expires_at IS NULL OR expires_at > p_now) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF v_found.expires_at - p_now <= (p_expires_at - p_now) / 2 THEN
        UPDATE conversation SET expires_at = p_expires_at WHERE seq = v_found.seq;
    END IF;
    RETURN NEXT v_found;
END $$;

CREATE FUNCTION add_items(p_conversation bigint, p_ids text[], p_bodies bytea[])
RETURNS void LANGUAGE sql AS $$
    INSERT INTO conversation_item (conversation, id, body)
        SELECT p_conversation, given.id, given.body
        FROM unnest(p_ids, p_bodies) WITH ORDINALITY AS given (id, body, place)
        ORDER BY given.place
        ON CONFLICT (conversation, id) DO NOTHING
$$;

CREATE FUNCTION create_conversation(
    p_id text, p_owner text, p_created_at bigint, p_expires_at bigint, p_metadata bytea,
    p_ids text[], p_bodies bytea[], p_resume boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_seq bigint;
BEGIN
    IF p_resume AND EXISTS (SELECT FROM conversation WHERE id = p_id) THEN
        RETURN true;
    END IF;
    INSERT INTO conversation (id, owner, created_at, expires_at, metadata)
        VALUES (p_id, p_owner, p_created_at, p_expires_at, p_metadata) RETURNING seq INTO v_seq;
    PERFORM add_items(v_seq, p_ids, p_bodies);
    RETURN true;
END $$;

CREATE FUNCTION update_conversation(
    p_id text, p_client text, p_now bigint, p_expires_at bigint, p_metadata bytea, p_resume boolean,
    OUT owner text, OUT created_at bigint, OUT metadata bytea
) LANGUAGE plpgsql AS $$
DECLARE
    v_found conversation;
BEGIN
    SELECT * INTO v_found FROM use_conversation(p_id, p_client, p_now, p_expires_at);
    UPDATE conversation SET metadata = p_metadata WHERE seq = v_found.seq;
    owner := v_found.owner;
    created_at := v_found.created_at;
    metadata := p_metadata;
END $$;

-- `duplicate` is an id that the conversation has already: then nothing is written.
CREATE FUNCTION append_items(
    p_id text, p_client text, p_now bigint, p_expires_at bigint, p_ids text[], p_bodies bytea[],
    p_resume boolean,
    OUT owner text, OUT created_at bigint, OUT metadata bytea, OUT duplicate text
) LANGUAGE plpgsql AS $$
DECLARE
    v_found conversation;
BEGIN
    SELECT * INTO v_found FROM use_conversation(p_id, p_client, p_now, p_expires_at);
    IF v_found.seq IS NULL THEN
        RETURN;
    END IF;
    owner := v_found.owner;
    created_at := v_found.created_at;
    metadata := v_found.metadata;
    SELECT item.id INTO duplicate FROM conversation_item AS item
        JOIN unnest(p_ids, p_bodies) AS given (id, body) ON given.id = item.id
        WHERE item.conversation = v_found.seq AND NOT (p_resume AND item.body = given.body)
        LIMIT 1;
    IF duplicate IS NULL THEN
        PERFORM add_items(v_found.seq, p_ids, p_bodies);
    END IF;
END $$;

CREATE FUNCTION add_turn(
    p_id text, p_client text, p_now bigint, p_expires_at bigint, p_response_id text,
    p_ids text[], p_bodies bytea[], p_resume boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_found conversation;
BEGIN
    SELECT * INTO v_found FROM use_conversation(p_id, p_client, p_now, p_expires_at);
    IF v_found.seq IS NULL THEN
        RETURN false;
    END IF;
    PERFORM add_items(v_found.seq, p_ids, p_bodies);
    UPDATE conversation SET locked_by = NULL, lock_holder = NULL
        WHERE seq = v_found.seq AND locked_by = p_response_id;
    RETURN true;
END $$;

-- NULL: no such conversation. False: reserved for another response.
CREATE FUNCTION lock_conversation(
    p_id text, p_client text, p_now bigint, p_expires_at bigint, p_response_id text, p_holder text,
    p_lease_now double precision, p_resume boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_found conversation;
BEGIN
    SELECT * INTO v_found FROM use_conversation(p_id, p_client, p_now, p_expires_at);
    IF v_found.seq IS NULL THEN
        RETURN NULL;
    END IF;
    IF v_found.locked_by <> p_response_id AND (
        EXISTS (SELECT FROM lease WHERE lease.holder = v_found.lock_holder
            AND lease.expires_at > lease_time(p_lease_now))
        OR EXISTS (SELECT FROM turn JOIN run ON run.turn = turn.seq
            WHERE turn.id = v_found.locked_by AND run.status = 'queued')
    ) THEN
        RETURN false;
    END IF;
    UPDATE conversation SET locked_by = p_response_id, lock_holder = p_holder
        WHERE seq = v_found.seq;
    RETURN true;
END $$;
"""
