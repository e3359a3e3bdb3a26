-- Who has what may be in one place at a time, by name. A row is never removed: the token, which grows
-- whenever somebody else takes the lease, tells the present holder from all before it. The twin of
-- `postgres/schema/p3.sql`; times are microseconds since 1970-01-01 UTC.
CREATE TABLE leases (
    name         TEXT    PRIMARY KEY,
    token        INTEGER NOT NULL CHECK (token > 0),
    -- As people know it. NULL: nobody has it.
    holder       TEXT,
    taken_at     INTEGER NOT NULL,
    expires_at   INTEGER,
    -- The last holder let go because nobody used it: it is there for whoever wants it.
    rests        INTEGER NOT NULL DEFAULT 0 CHECK (rests IN (0, 1)),
    -- Who is next, and until when that counts.
    wanted_by    TEXT,
    wanted_until INTEGER,
    CHECK ((holder IS NULL) = (expires_at IS NULL)),
    CHECK ((wanted_by IS NULL) = (wanted_until IS NULL))
) STRICT;

CREATE TRIGGER leases_grow BEFORE UPDATE OF token ON leases
    WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'the token of a lease only grows');
END;

CREATE TRIGGER leases_remain BEFORE DELETE ON leases
BEGIN
    SELECT RAISE(ABORT, 'a lease is let go, and never removed');
END;
