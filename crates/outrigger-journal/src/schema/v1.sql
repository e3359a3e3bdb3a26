-- Times are microseconds since 1970-01-01 UTC. `key` numbers runs for the other tables.
CREATE TABLE runs (
    key        INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    -- The lock file that its process holds for as long as it lives.
    host       TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    -- When another process found that its host was gone before the run had ended.
    stopped_at INTEGER,
    command    TEXT    NOT NULL,
    question   TEXT,
    model      TEXT,
    workspace  TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    status     TEXT    CHECK (status IN ('done', 'failed', 'limited', 'refused', 'unknown', 'interrupted')),
    input      INTEGER NOT NULL DEFAULT 0,
    cached     INTEGER NOT NULL DEFAULT 0,
    output     INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX runs_open ON runs (host) WHERE ended_at IS NULL AND stopped_at IS NULL;

CREATE TABLE events (
    -- The order over all runs.
    line INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs (key),
    seq  INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    v    INTEGER NOT NULL,
    -- The event as JSON.
    body TEXT    NOT NULL,
    UNIQUE (run, seq)
) STRICT;

CREATE TRIGGER events_without_gaps BEFORE INSERT ON events
WHEN NEW.seq <> 1 + (SELECT coalesce(max(seq), 0) FROM events WHERE run = NEW.run)
BEGIN
    SELECT RAISE(ABORT, 'the events of a run have no gaps');
END;

CREATE TRIGGER events_stay BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER events_remain BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted');
END;

-- One line per call: proposed, decided, intent, and one end.
CREATE TABLE calls (
    run         INTEGER NOT NULL REFERENCES runs (key),
    call        INTEGER NOT NULL,
    turn        INTEGER,
    tool        TEXT    NOT NULL,
    server      TEXT,
    raw_tool    TEXT,
    -- As proposed, then as they will be sent.
    arguments   TEXT    NOT NULL,
    proposed_at INTEGER NOT NULL,
    decided_at  INTEGER,
    allowed     INTEGER CHECK (allowed IN (0, 1)),
    rule        TEXT,
    intent_at   INTEGER,
    ended_at    INTEGER,
    outcome     TEXT    CHECK (outcome IN ('completed', 'rejected', 'not_sent', 'unknown', 'violated')),
    is_error    INTEGER NOT NULL DEFAULT 0 CHECK (is_error IN (0, 1)),
    summary     TEXT    NOT NULL DEFAULT '',
    tokens      INTEGER NOT NULL DEFAULT 0,
    took_ms     INTEGER NOT NULL DEFAULT 0,
    -- When a late answer made an unknown end known.
    late_at     INTEGER,
    PRIMARY KEY (run, call),
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER calls_end_once BEFORE UPDATE OF outcome ON calls
WHEN OLD.outcome IS NOT NULL
    AND NOT (OLD.outcome = 'unknown' AND OLD.late_at IS NULL AND NEW.late_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'a call ends once; only a late answer can upgrade an unknown end');
END;

CREATE TRIGGER calls_late_is_upgrade BEFORE UPDATE OF late_at ON calls
WHEN NEW.late_at IS NOT NULL AND OLD.outcome IS NOT 'unknown'
BEGIN
    SELECT RAISE(ABORT, 'only a call whose end is unknown can have a late answer');
END;

CREATE TRIGGER calls_intent_is_open BEFORE UPDATE OF intent_at ON calls
WHEN OLD.outcome IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a call that has ended is not sent');
END;
