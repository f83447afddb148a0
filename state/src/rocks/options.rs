//! How RocksDB is opened: for sorted runs that are ingested, read through filters, and dropped by the family.
//!
//! Nothing is ever written through a memtable or a log, so memtables are as small as RocksDB allows. Measured by benches/dedup.rs.
//! Keeps: every family is opened with the options of its kind, whether it is made now or was found on disk.
use rocksdb::{
    BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, LogLevel, Options, UniversalCompactOptions,
};

use crate::backend::Family;

const BLOOM_BITS: f64 = 10.0;
/// Runs of one family at which RocksDB merges some. More of them cost lookups in buckets that aren't in memory; fewer cost every id another rewrite.
const RUNS_TO_MERGE: i32 = 12;

pub(super) struct FamilyOptions {
    pub ids: Options,
    pub values: Options,
}

impl FamilyOptions {
    pub fn new(cache: &Cache) -> Self {
        let mut ids = base(cache);
        // A hash doesn't compress.
        ids.set_compression_type(DBCompressionType::None);
        let mut values = base(cache);
        values.set_compression_type(DBCompressionType::Lz4);
        Self { ids, values }
    }

    pub fn of(&self, family: &Family) -> &Options {
        match family {
            Family::Ids { .. } => &self.ids,
            Family::Values { .. } => &self.values,
        }
    }
}

fn base(cache: &Cache) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_bloom_filter(BLOOM_BITS, false);
    // Filters count against the budget: they live in the cache and can be pushed out of it.
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_optimize_filters_for_memory(true);
    table.set_format_version(6);

    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(64 << 10);
    options.set_arena_block_size(4 << 10);
    options.set_max_write_buffer_number(2);
    // Each run spans all hashes. Universal compaction merges runs of like size, so an id is rewritten log(n) times and runs stay few.
    options.set_compaction_style(DBCompactionStyle::Universal);
    options.set_universal_compaction_options(&UniversalCompactOptions::default());
    options.set_level_zero_file_num_compaction_trigger(RUNS_TO_MERGE);
    options.set_target_file_size_base(64 << 20);
    options
}

pub(super) fn database() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_max_background_jobs(2);
    options.set_max_manifest_file_size(1 << 20);
    options.set_skip_stats_update_on_db_open(true);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_log_level(LogLevel::Error);
    options.set_keep_log_file_num(1);
    options.set_max_log_file_size(1 << 20);
    options
}
