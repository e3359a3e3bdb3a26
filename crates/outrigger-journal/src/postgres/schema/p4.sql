-- What waits for a person is a call, or a prompt or resource that a client wants fetched: those are no lines
-- of the ledger, so `call` is NULL for them, `tool` and `raw_tool` are twice the name or the address, and
-- `definition` is empty. They are allowed once, and nothing is remembered. The twin of `schema/v6.sql`, but for the
-- default of `kind`: replicas of the version before go on, and all that they let wait are calls.
--
-- In the order that writers take them in, so that nobody waits for one who waits.
LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE;

ALTER TABLE approvals
    ADD COLUMN kind TEXT NOT NULL DEFAULT 'call' CHECK (kind IN ('call', 'prompt', 'resource')),
    ALTER COLUMN call DROP NOT NULL,
    ADD FOREIGN KEY (run) REFERENCES runs (key),
    ADD CHECK ((kind = 'call') = (call IS NOT NULL)),
    ADD CHECK (kind = 'call' OR (remember IS NULL AND granted IS NULL));

DROP TRIGGER approvals_stay_as_asked ON approvals;

CREATE TRIGGER approvals_stay_as_asked
    BEFORE UPDATE OF id, run, kind, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments,
        rule, principal, remarks ON approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refused('what was asked is never changed');
