-- Schema 1. Times are microseconds since 1970-01-01 UTC; durations are microseconds of a monotonic clock.
-- A non-finite number is NULL with its kind ('nan', 'inf', '-inf') beside it.

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE coordinator (
  epoch INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  started_us INTEGER NOT NULL
) STRICT;

CREATE TABLE sweep (
  sweep_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  revision INTEGER NOT NULL,
  submitted_us INTEGER NOT NULL
) STRICT;

CREATE TABLE sweep_revision (
  sweep_id INTEGER NOT NULL REFERENCES sweep,
  revision INTEGER NOT NULL,
  spec_yaml TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  axes TEXT NOT NULL,               -- JSON list of axis paths, first varies slowest
  cells_total INTEGER NOT NULL,
  cells_expanded INTEGER NOT NULL,  -- cells below this index have their rows
  submitted_us INTEGER NOT NULL,
  PRIMARY KEY (sweep_id, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell (
  sweep_id INTEGER NOT NULL REFERENCES sweep,
  cell_key TEXT NOT NULL,
  cell_index INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  axes TEXT NOT NULL,               -- JSON object: axis path -> value as written
  PRIMARY KEY (sweep_id, cell_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE job (
  job_id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
  stage TEXT NOT NULL,
  state TEXT NOT NULL,
  last_attempt INTEGER NOT NULL DEFAULT 0,
  numerics_version INTEGER NOT NULL,
  inputs BLOB NOT NULL,             -- serialized stage message
  created_us INTEGER NOT NULL
) STRICT;

CREATE TABLE job_dependency (
  job_id INTEGER NOT NULL REFERENCES job,
  depends_on_job_id INTEGER NOT NULL REFERENCES job,
  PRIMARY KEY (job_id, depends_on_job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell_job (
  sweep_id INTEGER NOT NULL,
  cell_key TEXT NOT NULL,
  job_id INTEGER NOT NULL REFERENCES job,
  PRIMARY KEY (sweep_id, cell_key, job_id),
  FOREIGN KEY (sweep_id, cell_key) REFERENCES cell
) STRICT, WITHOUT ROWID;
CREATE INDEX cell_job_by_job ON cell_job (job_id);

CREATE TABLE worker (
  worker_id INTEGER PRIMARY KEY,
  slot_uuid TEXT NOT NULL,
  slot_name TEXT NOT NULL,
  pid INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  build TEXT NOT NULL,
  torch_version TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  threads INTEGER NOT NULL,
  host TEXT NOT NULL,
  registered_us INTEGER NOT NULL
) STRICT;

CREATE TABLE attempt (
  job_id INTEGER NOT NULL REFERENCES job,
  number INTEGER NOT NULL,
  worker_id INTEGER NOT NULL REFERENCES worker,
  outcome TEXT NOT NULL,            -- running, done, failed, released
  cause TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '',
  log_tail TEXT NOT NULL DEFAULT '',
  steps_run INTEGER NOT NULL DEFAULT 0,
  checkpointed INTEGER NOT NULL DEFAULT 0,  -- it published a partial checkpoint
  duration_us INTEGER NOT NULL DEFAULT 0,
  started_us INTEGER NOT NULL,
  ended_us INTEGER,
  PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_open ON attempt (job_id) WHERE outcome = 'running';

CREATE TABLE result (
  job_id INTEGER PRIMARY KEY REFERENCES job,
  attempt_number INTEGER NOT NULL,
  duration_us INTEGER NOT NULL,
  non_finite INTEGER NOT NULL,
  extrapolated INTEGER NOT NULL,
  input_sha256 TEXT NOT NULL,       -- of the artifact it was computed from; '' = none
  build TEXT NOT NULL,
  torch_version TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  threads INTEGER NOT NULL,
  host TEXT NOT NULL,
  committed_us INTEGER NOT NULL
) STRICT;

CREATE TABLE measurement (
  job_id INTEGER NOT NULL REFERENCES result,
  predictor TEXT NOT NULL,
  name TEXT NOT NULL,
  task INTEGER NOT NULL,            -- identity of the task; -1 = not applicable
  position INTEGER NOT NULL,        -- its place in the order; -1 = not applicable
  layer INTEGER NOT NULL,
  head INTEGER NOT NULL,
  value REAL,
  kind TEXT NOT NULL DEFAULT '',    -- '' = finite, else nan, inf, -inf
  standard_error REAL,
  n INTEGER NOT NULL,
  PRIMARY KEY (job_id, predictor, name, task, position, layer, head)
) STRICT, WITHOUT ROWID;

CREATE TABLE curve (
  job_id INTEGER NOT NULL REFERENCES result,
  name TEXT NOT NULL,
  step INTEGER NOT NULL,
  value REAL,
  kind TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job_id, name, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact (
  job_id INTEGER PRIMARY KEY REFERENCES result,
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE event (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  at_us INTEGER NOT NULL,
  kind TEXT NOT NULL,
  job_id INTEGER NOT NULL DEFAULT 0,
  attempt_number INTEGER NOT NULL DEFAULT 0,
  worker_id INTEGER NOT NULL DEFAULT 0,
  text TEXT NOT NULL DEFAULT ''
) STRICT;
