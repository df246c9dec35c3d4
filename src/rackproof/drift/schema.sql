-- Version 1 of history.db. A later version is a step in history.py that starts from this one.
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  started TEXT NOT NULL,          -- ISO 8601, UTC, by the clock of the control host
  verdict TEXT NOT NULL,
  exit_code INTEGER NOT NULL,
  tool TEXT NOT NULL
);
CREATE TABLE nodes (
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  node TEXT NOT NULL,
  verdict TEXT NOT NULL,
  problem TEXT,                   -- why there is no evidence, or not all of it
  evidence_sha256 TEXT,
  bundle TEXT,                    -- path below the folder of the history
  reference_sha256 TEXT,
  baseline TEXT,
  PRIMARY KEY (run, node)
);
CREATE INDEX nodes_by_name ON nodes (node, run);
CREATE TABLE findings (
  run INTEGER NOT NULL,
  node TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  class TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,           -- JSON: the finding as the report has it
  PRIMARY KEY (run, node, fingerprint),
  FOREIGN KEY (run, node) REFERENCES nodes (run, node) ON DELETE CASCADE
);
CREATE TABLE accepted (           -- every reference there has been; the newest of a node holds
  id INTEGER PRIMARY KEY,
  node TEXT NOT NULL,
  at TEXT NOT NULL,
  evidence_sha256 TEXT NOT NULL,
  started TEXT NOT NULL,          -- when the evidence was taken, by the node's clock
  bundle TEXT NOT NULL,
  verdict TEXT NOT NULL,
  reason TEXT                     -- why it was accepted with another verdict than accept
);
CREATE INDEX accepted_by_name ON accepted (node, id);
