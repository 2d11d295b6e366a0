-- Schema 4. Events are read by sequence number, those of one sweep too.
ALTER TABLE event ADD COLUMN sweep_id INTEGER NOT NULL DEFAULT 0;    -- 0 = not of one sweep
