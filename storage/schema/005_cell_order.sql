-- Schema 5. The results of a sweep are read in the order of its cells: a first page must not sort a million of them.
CREATE INDEX cell_by_index ON cell (sweep_id, cell_index);
