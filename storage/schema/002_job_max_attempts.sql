-- Schema 2. How many failed attempts of one cause end the job: the largest limit among the sweeps that want it.
ALTER TABLE job ADD COLUMN max_attempts INTEGER NOT NULL DEFAULT 3;
