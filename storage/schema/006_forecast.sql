-- Schema 6. What a sweep's jobs were expected to take when it was submitted, per kind of device that had measured some.
CREATE TABLE forecast (
  sweep_id INTEGER NOT NULL REFERENCES sweep,
  stage TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  jobs INTEGER NOT NULL,            -- those that were not done
  seconds REAL NOT NULL,            -- of one device, all jobs together
  low_seconds REAL NOT NULL,        -- 90 % interval
  high_seconds REAL NOT NULL,
  PRIMARY KEY (sweep_id, stage, device_kind)
) STRICT, WITHOUT ROWID;
