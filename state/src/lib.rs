//! Keyed state: in memory and over RocksDB, behind one trait with one conformance suite.
