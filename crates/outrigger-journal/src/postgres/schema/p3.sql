-- Who has what may be in one place at a time, by name. A row is never removed: the token, which grows
-- whenever somebody else takes the lease, tells the present holder from all before it. The twin of
-- `schema/v5.sql`; times are the server's.
CREATE TABLE leases (
    name         TEXT        PRIMARY KEY,
    token        BIGINT      NOT NULL CHECK (token > 0),
    -- As people know it. NULL: nobody has it.
    holder       TEXT,
    taken_at     TIMESTAMPTZ NOT NULL,
    expires_at   TIMESTAMPTZ,
    -- The last holder let go because nobody used it: it is there for whoever wants it.
    rests        BOOLEAN     NOT NULL DEFAULT false,
    -- Who is next, and until when that counts.
    wanted_by    TEXT,
    wanted_until TIMESTAMPTZ,
    CHECK ((holder IS NULL) = (expires_at IS NULL)),
    CHECK ((wanted_by IS NULL) = (wanted_until IS NULL))
);

CREATE TRIGGER leases_grow BEFORE UPDATE OF token ON leases
    FOR EACH ROW WHEN (NEW.token < OLD.token)
    EXECUTE FUNCTION refused('the token of a lease only grows');

CREATE TRIGGER leases_remain BEFORE DELETE OR TRUNCATE ON leases
    FOR EACH STATEMENT EXECUTE FUNCTION refused('a lease is let go, and never removed');
