-- What a person found out about calls whose end is unknown. Their line in `calls` stays as it is.
CREATE TABLE settled (
    run      INTEGER NOT NULL,
    call     INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    -- Whether it took effect.
    happened INTEGER NOT NULL CHECK (happened IN (0, 1)),
    note     TEXT,
    PRIMARY KEY (run, call),
    FOREIGN KEY (run, call) REFERENCES calls (run, call)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER settled_is_unknown BEFORE INSERT ON settled
WHEN (SELECT outcome FROM calls WHERE run = NEW.run AND call = NEW.call) IS NOT 'unknown'
BEGIN
    SELECT RAISE(ABORT, 'only a call whose end is unknown can be settled');
END;

CREATE INDEX calls_unknown ON calls (run, call) WHERE outcome = 'unknown';
