-- Calls that wait for a person, wherever that person decides: another program, or another replica. What
-- was asked is never changed; what becomes of it goes one way, see `approvals_go_one_way`. The twin of
-- `schema/v4.sql`.
CREATE TABLE approvals (
    id         TEXT   PRIMARY KEY CHECK (length(id) = 8),
    run        BIGINT NOT NULL,
    call       BIGINT NOT NULL,
    asked_at   BIGINT NOT NULL,
    -- When it ends by itself.
    until      BIGINT NOT NULL,
    server     TEXT   NOT NULL,
    -- The server's name and identity, as grants name it.
    identity   TEXT   NOT NULL,
    -- As models call it, and as its server does.
    tool       TEXT   NOT NULL,
    raw_tool   TEXT   NOT NULL,
    -- Fingerprint of the tool's definition.
    definition TEXT   NOT NULL,
    arguments  TEXT   NOT NULL,
    rule       TEXT   NOT NULL,
    principal  TEXT   NOT NULL,
    -- What else a person should know, a line each.
    remarks    TEXT   NOT NULL,
    state      TEXT   NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'approved', 'declined', 'used', 'expired')),
    decided_at BIGINT,
    decided_by TEXT,
    reason     TEXT,
    -- Arguments of calls to come that are approved with it, as a person types them, and for how many
    -- seconds.
    remember   TEXT,
    lasts      BIGINT,
    -- When whoever waited took note, or nobody waited any more.
    closed_at  BIGINT,
    -- The grant that came of it.
    granted    TEXT,
    UNIQUE (run, call),
    FOREIGN KEY (run, call) REFERENCES calls (run, call),
    CHECK ((decided_at IS NULL) = (decided_by IS NULL)),
    CHECK (state NOT IN ('approved', 'declined', 'used') OR decided_at IS NOT NULL),
    CHECK (state NOT IN ('used', 'expired') OR closed_at IS NOT NULL)
);

CREATE INDEX approvals_open ON approvals (asked_at) WHERE closed_at IS NULL;

CREATE TRIGGER approvals_go_one_way BEFORE UPDATE OF state ON approvals
    FOR EACH ROW WHEN (NOT (
        NEW.state = OLD.state
        OR (OLD.state = 'waiting' AND NEW.state IN ('approved', 'declined', 'expired'))
        OR (OLD.state = 'approved' AND NEW.state IN ('used', 'expired'))))
    EXECUTE FUNCTION refused('an approval is decided once and used once');

CREATE TRIGGER approvals_stay_as_asked
    BEFORE UPDATE OF id, run, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments,
        rule, principal, remarks ON approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refused('what was asked is never changed');

CREATE TRIGGER approvals_remain BEFORE DELETE OR TRUNCATE ON approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refused('what was asked is never forgotten');
