-- What waits for a person is a call, or a prompt or resource that a client wants fetched: those are no lines
-- of the ledger, so `call` is NULL for them. They are allowed once, and nothing is remembered. The twin of
-- `postgres/schema/p4.sql`.
--
-- A column cannot lose its NOT NULL, so the table is made anew, with every row, and with its rules after that:
-- dropping the old one takes its index and its triggers with it.
ALTER TABLE approvals RENAME TO approvals_before;

CREATE TABLE approvals (
    id         TEXT    PRIMARY KEY CHECK (length(id) = 8),
    run        INTEGER NOT NULL REFERENCES runs (key),
    kind       TEXT    NOT NULL CHECK (kind IN ('call', 'prompt', 'resource')),
    call       INTEGER,
    asked_at   INTEGER NOT NULL,
    -- When it ends by itself.
    until      INTEGER NOT NULL,
    server     TEXT    NOT NULL,
    -- The server's name and identity, as grants name it.
    identity   TEXT    NOT NULL,
    -- As models call it, and as its server does; twice the name of a prompt or the address of a resource.
    tool       TEXT    NOT NULL,
    raw_tool   TEXT    NOT NULL,
    -- Fingerprint of the tool's definition; empty where it is no call.
    definition TEXT    NOT NULL,
    arguments  TEXT    NOT NULL,
    rule       TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    -- What else a person should know, a line each.
    remarks    TEXT    NOT NULL,
    state      TEXT    NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'approved', 'declined', 'used', 'expired')),
    decided_at INTEGER,
    decided_by TEXT,
    reason     TEXT,
    -- Arguments of calls to come that are approved with it, as a person types them, and for how many
    -- seconds.
    remember   TEXT,
    lasts      INTEGER,
    -- When whoever waited took note, or nobody waited any more.
    closed_at  INTEGER,
    -- The grant that came of it.
    granted    TEXT,
    UNIQUE (run, call),
    FOREIGN KEY (run, call) REFERENCES calls (run, call),
    CHECK ((kind = 'call') = (call IS NOT NULL)),
    CHECK (kind = 'call' OR (remember IS NULL AND granted IS NULL)),
    CHECK ((decided_at IS NULL) = (decided_by IS NULL)),
    CHECK (state NOT IN ('approved', 'declined', 'used') OR decided_at IS NOT NULL),
    CHECK (state NOT IN ('used', 'expired') OR closed_at IS NOT NULL)
) STRICT, WITHOUT ROWID;

INSERT INTO approvals (id, run, kind, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments, rule,
    principal, remarks, state, decided_at, decided_by, reason, remember, lasts, closed_at, granted)
SELECT id, run, 'call', call, asked_at, until, server, identity, tool, raw_tool, definition, arguments, rule,
    principal, remarks, state, decided_at, decided_by, reason, remember, lasts, closed_at, granted
FROM approvals_before;

DROP TABLE approvals_before;

CREATE INDEX approvals_open ON approvals (asked_at) WHERE closed_at IS NULL;

CREATE TRIGGER approvals_go_one_way BEFORE UPDATE OF state ON approvals
WHEN NOT (
    NEW.state = OLD.state
    OR (OLD.state = 'waiting' AND NEW.state IN ('approved', 'declined', 'expired'))
    OR (OLD.state = 'approved' AND NEW.state IN ('used', 'expired'))
)
BEGIN
    SELECT RAISE(ABORT, 'an approval is decided once and used once');
END;

CREATE TRIGGER approvals_stay_as_asked
BEFORE UPDATE OF id, run, kind, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments, rule,
    principal, remarks ON approvals
BEGIN
    SELECT RAISE(ABORT, 'what was asked is never changed');
END;

CREATE TRIGGER approvals_remain BEFORE DELETE ON approvals
BEGIN
    SELECT RAISE(ABORT, 'what was asked is never forgotten');
END;
