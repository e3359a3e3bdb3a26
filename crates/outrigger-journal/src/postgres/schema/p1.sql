-- The journal in PostgreSQL: the tables of the SQLite file (`schema/`), with the same rules. Times are
-- microseconds since 1970-01-01 UTC as the hosts tell them, but those of `hosts`, which are the server's.
CREATE TABLE hosts (
    -- Also the number of the advisory lock that the host's connection holds for as long as it is there.
    key       INTEGER     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      TEXT        NOT NULL UNIQUE,
    replica   TEXT        NOT NULL,
    since     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    -- When another host first found its lock free. Once that is long enough ago, its runs are ended and
    -- the row goes.
    missed_at TIMESTAMPTZ
);

CREATE TABLE runs (
    key        BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    host       TEXT    NOT NULL,
    started_at BIGINT  NOT NULL,
    ended_at   BIGINT,
    -- When another host ended its calls. Nothing is added to it from then on.
    stopped_at BIGINT,
    command    TEXT    NOT NULL,
    question   TEXT,
    model      TEXT,
    workspace  TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    status     TEXT    CHECK (status IN ('done', 'failed', 'limited', 'refused', 'unknown', 'interrupted')),
    input      BIGINT  NOT NULL DEFAULT 0,
    cached     BIGINT  NOT NULL DEFAULT 0,
    output     BIGINT  NOT NULL DEFAULT 0
);

CREATE INDEX runs_open ON runs (host) WHERE ended_at IS NULL AND stopped_at IS NULL;
CREATE INDEX runs_started ON runs (started_at DESC, key DESC);

CREATE TABLE events (
    -- The order over all runs of all hosts.
    line BIGINT PRIMARY KEY,
    run  BIGINT NOT NULL REFERENCES runs (key),
    seq  BIGINT NOT NULL,
    at   BIGINT NOT NULL,
    v    BIGINT NOT NULL,
    -- The event as JSON, to its last byte.
    body TEXT   NOT NULL,
    -- See `chain.rs`.
    hash BYTEA  NOT NULL CHECK (length(hash) = 32),
    UNIQUE (run, seq)
);

-- The end of the chain. Whoever writes holds this row, so that there is one order.
CREATE TABLE chain (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    line     BIGINT  NOT NULL,
    head     BYTEA   NOT NULL CHECK (length(head) = 32)
);

INSERT INTO chain VALUES (1, 0, decode(repeat('00', 32), 'hex'));

CREATE TABLE calls (
    run         BIGINT  NOT NULL REFERENCES runs (key),
    call        BIGINT  NOT NULL,
    turn        BIGINT,
    tool        TEXT    NOT NULL,
    server      TEXT,
    raw_tool    TEXT,
    arguments   TEXT    NOT NULL,
    proposed_at BIGINT  NOT NULL,
    decided_at  BIGINT,
    allowed     BOOLEAN,
    rule        TEXT,
    intent_at   BIGINT,
    ended_at    BIGINT,
    outcome     TEXT    CHECK (outcome IN ('completed', 'rejected', 'not_sent', 'unknown', 'violated')),
    is_error    BOOLEAN NOT NULL DEFAULT false,
    summary     TEXT    NOT NULL DEFAULT '',
    tokens      BIGINT  NOT NULL DEFAULT 0,
    took_ms     BIGINT  NOT NULL DEFAULT 0,
    late_at     BIGINT,
    PRIMARY KEY (run, call),
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);

CREATE INDEX calls_unknown ON calls (run, call) WHERE outcome = 'unknown';

CREATE TABLE settled (
    run      BIGINT  NOT NULL,
    call     BIGINT  NOT NULL,
    at       BIGINT  NOT NULL,
    happened BOOLEAN NOT NULL,
    note     TEXT,
    PRIMARY KEY (run, call),
    FOREIGN KEY (run, call) REFERENCES calls (run, call)
);

CREATE TABLE artifacts (
    key          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest       TEXT   NOT NULL UNIQUE CHECK (length(digest) = 64),
    handle       TEXT   NOT NULL UNIQUE,
    bytes        BIGINT NOT NULL,
    media_type   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL,
    collected_at BIGINT
);

CREATE TABLE artifact_origins (
    key        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    artifact   BIGINT NOT NULL REFERENCES artifacts (key),
    run        BIGINT NOT NULL REFERENCES runs (key),
    call       BIGINT NOT NULL,
    server     TEXT   NOT NULL,
    raw_tool   TEXT   NOT NULL,
    block      BIGINT,
    name       TEXT,
    media_type TEXT   NOT NULL,
    at         BIGINT NOT NULL
);

CREATE INDEX artifact_origins_of ON artifact_origins (artifact, key);

-- Small texts that are changed as a whole: what was said about calls to come, what was approved.
CREATE TABLE documents (
    name    TEXT   PRIMARY KEY,
    text    TEXT   NOT NULL,
    -- 0 before the first text.
    version BIGINT NOT NULL
);

CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0];
END $$;

CREATE FUNCTION events_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT stopped_at IS NOT NULL FROM runs WHERE key = NEW.run) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation',
            MESSAGE = 'this replica was away from the database for so long that another one has ended the calls of this run; start it anew';
    END IF;
    IF NEW.seq <> 1 + (SELECT coalesce(max(seq), 0) FROM events WHERE run = NEW.run) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation',
            MESSAGE = 'the events of a run have no gaps';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER events_in_order BEFORE INSERT ON events
    FOR EACH ROW EXECUTE FUNCTION events_in_order();

CREATE TRIGGER events_stay BEFORE UPDATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refused('events are never changed');

CREATE TRIGGER events_remain BEFORE DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refused('events are never deleted');

CREATE TRIGGER artifacts_remain BEFORE DELETE OR TRUNCATE ON artifacts
    FOR EACH STATEMENT EXECUTE FUNCTION refused('what was once an artifact is never forgotten');

CREATE TRIGGER calls_end_once BEFORE UPDATE OF outcome ON calls
    FOR EACH ROW WHEN (OLD.outcome IS NOT NULL
        AND NOT (OLD.outcome = 'unknown' AND OLD.late_at IS NULL AND NEW.late_at IS NOT NULL))
    EXECUTE FUNCTION refused('a call ends once; only a late answer can upgrade an unknown end');

CREATE TRIGGER calls_late_is_upgrade BEFORE UPDATE OF late_at ON calls
    FOR EACH ROW WHEN (NEW.late_at IS NOT NULL AND OLD.outcome IS DISTINCT FROM 'unknown')
    EXECUTE FUNCTION refused('only a call whose end is unknown can have a late answer');

CREATE TRIGGER calls_intent_is_open BEFORE UPDATE OF intent_at ON calls
    FOR EACH ROW WHEN (OLD.outcome IS NOT NULL)
    EXECUTE FUNCTION refused('a call that has ended is not sent');

CREATE FUNCTION settled_is_unknown() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT outcome FROM calls WHERE run = NEW.run AND call = NEW.call) IS DISTINCT FROM 'unknown' THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation',
            MESSAGE = 'only a call whose end is unknown can be settled';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER settled_is_unknown BEFORE INSERT ON settled
    FOR EACH ROW EXECUTE FUNCTION settled_is_unknown();
