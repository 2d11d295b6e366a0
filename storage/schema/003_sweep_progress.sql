-- Schema 3. Counts of a sweep's jobs are kept, not computed: status must not scan a million jobs.
CREATE TABLE sweep_progress (
  sweep_id INTEGER NOT NULL REFERENCES sweep,
  stage TEXT NOT NULL,
  state TEXT NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (sweep_id, stage, state)
) STRICT, WITHOUT ROWID;
INSERT INTO sweep_progress
SELECT sweep_id, job.stage, job.state, count(*)
FROM (SELECT DISTINCT sweep_id, job_id FROM cell_job) JOIN job USING (job_id)
GROUP BY sweep_id, job.stage, job.state;

ALTER TABLE sweep ADD COLUMN cancelled_us INTEGER NOT NULL DEFAULT 0;    -- 0 = it may run
ALTER TABLE job ADD COLUMN retried_attempt INTEGER NOT NULL DEFAULT 0;   -- failures up to this attempt are forgiven
CREATE INDEX job_broken ON job (state) WHERE state IN ('failed', 'upstream_failed');
