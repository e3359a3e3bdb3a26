-- Each line of `events` carries the SHA-256 over the hash of the line before it and its own content:
-- see `chain.rs`. What was written before is given its hashes with this migration.
ALTER TABLE events ADD COLUMN hash BLOB CHECK (length(hash) = 32);

-- The end of the chain, so that missing last lines are noticed.
CREATE TABLE chain (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    -- The last line.
    line INTEGER NOT NULL,
    -- Its hash; 32 zero bytes before the first line.
    head BLOB    NOT NULL CHECK (length(head) = 32)
) STRICT;

INSERT INTO chain VALUES (1, 0, zeroblob(32));

CREATE TRIGGER events_are_chained BEFORE INSERT ON events
WHEN NEW.hash IS NULL
BEGIN
    SELECT RAISE(ABORT, 'an event is part of the chain');
END;

-- Lines without a hash are there during the migration alone.
DROP TRIGGER events_stay;

CREATE TRIGGER events_stay BEFORE UPDATE ON events
WHEN OLD.hash IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

-- Artifacts: what is too large or too binary for an event, in files named by their SHA-256.
CREATE TABLE artifacts (
    key          INTEGER PRIMARY KEY,
    -- In lower-case hex.
    digest       TEXT    NOT NULL UNIQUE CHECK (length(digest) = 64),
    -- The beginning of the digest that names it: 16 digits, more where another had those already.
    handle       TEXT    NOT NULL UNIQUE,
    bytes        INTEGER NOT NULL,
    media_type   TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    used_at      INTEGER NOT NULL,
    -- When its content was removed. The row stays, so that nothing is referenced and silently gone.
    collected_at INTEGER
) STRICT;

-- Where each came from; the same content can come from several calls.
CREATE TABLE artifact_origins (
    artifact   INTEGER NOT NULL REFERENCES artifacts (key),
    run        INTEGER NOT NULL REFERENCES runs (key),
    call       INTEGER NOT NULL,
    server     TEXT    NOT NULL,
    raw_tool   TEXT    NOT NULL,
    -- Position of the block in the result, from 0; NULL for the whole answer.
    block      INTEGER,
    name       TEXT,
    media_type TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;

CREATE INDEX artifact_origins_of ON artifact_origins (artifact);

CREATE TRIGGER artifacts_remain BEFORE DELETE ON artifacts
BEGIN
    SELECT RAISE(ABORT, 'what was once an artifact is never forgotten');
END;
