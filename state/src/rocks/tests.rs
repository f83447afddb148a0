//! What the RocksDB back end adds to the conformance suite: families, runs, names, damaged databases.
use super::*;

fn family(bucket: i64) -> Family {
    Family::Ids { node: "clean".into(), bucket: Bucket(bucket) }
}

fn values() -> Family {
    Family::Values { node: "per_type".into() }
}

fn open(folder: &Path) -> RocksBackend {
    RocksBackend::open(folder.join("db"), folder.join("runs"), 1 << 20).unwrap()
}

/// Ids that lie among those of other runs, as hashes do.
fn run(number: u64, ids: u64) -> Vec<IdEntry> {
    let spread = |n: u64| KeyHash(u128::from(n * 1_000 + number) << 64);
    (0..ids).map(|n| IdEntry { id: spread(n), partition: 1, offset: n as i64 }).collect()
}

fn bytes_on_disk(folder: &Path) -> u64 {
    files::list(&LocalDisk, &folder.join("db"))
        .unwrap()
        .iter()
        .filter(|(name, _)| name.ends_with(".sst"))
        .map(|(_, n)| n)
        .sum()
}

/// What RocksDB says it runs with: the newest OPTIONS file, by family.
fn effective_options(folder: &Path) -> Vec<(String, String)> {
    let files = files::list(&LocalDisk, &folder.join("db")).unwrap();
    let newest = files.into_iter().map(|(name, _)| name).filter(|name| name.starts_with("OPTIONS-")).max().unwrap();
    let text = std::fs::read_to_string(folder.join("db").join(newest)).unwrap();
    text.split("\n[CFOptions \"")
        .skip(1)
        .map(|section| {
            let (name, options) = section.split_once("\"]").unwrap();
            (name.to_owned(), options.to_owned())
        })
        .collect()
}

#[test]
fn every_family_runs_with_the_options_of_its_kind_made_or_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let mut backend = open(folder.path());
    backend.write_ids(&family(1), &run(0, 10)).unwrap();
    backend.write_values(&values(), &[(vec![0, 1], Some(vec![2]))]).unwrap();
    drop(backend);
    let mut backend = open(folder.path());
    backend.write_ids(&family(2), &run(0, 10)).unwrap();
    let options = effective_options(folder.path());
    assert_eq!(options.len(), 4, "default, two buckets, values");
    for (name, text) in options {
        let compression = if name.starts_with("ids/") { "kNoCompression" } else { "kLZ4Compression" };
        for expected in [
            "compaction_style=kCompactionStyleUniversal",
            "write_buffer_size=65536",
            "level0_file_num_compaction_trigger=12",
            "filter_policy=bloomfilter",
            "cache_index_and_filter_blocks=true",
            &format!("\n  compression={compression}"),
        ] {
            assert!(text.contains(expected), "{name}: {expected} not in {text}");
        }
    }
}

#[test]
fn hundreds_of_runs_of_one_family_become_few() {
    let folder = tempfile::tempdir().unwrap();
    let mut backend = open(folder.path());
    for number in 0..300 {
        backend.write_ids(&family(1), &run(number, 100)).unwrap();
        let handle = backend.handle(&family(1)).unwrap();
        let runs = backend.number("rocksdb.num-files-at-level0", handle).unwrap();
        assert!(runs <= MOST_RUNS + 1, "{runs} runs after {number}");
    }
    let all = backend.ids(&family(1), KeyHash(0)..=KeyHash(u128::MAX)).unwrap();
    assert_eq!(all.count(), 30_000);
}

#[test]
fn a_dropped_family_is_gone_from_disk_and_stays_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut backend = open(folder.path());
    backend.write_ids(&family(1), &run(0, 50_000)).unwrap();
    backend.write_ids(&family(2), &run(0, 100)).unwrap();
    let before = bytes_on_disk(folder.path());
    backend.drop_family(&family(1)).unwrap();
    assert!(bytes_on_disk(folder.path()) < before / 10, "{} of {before}", bytes_on_disk(folder.path()));
    drop(backend);
    assert_eq!(open(folder.path()).families(), [family(2)]);
}

#[test]
fn a_node_may_be_called_anything() {
    for node in ["a/b", "values/x", "", "größe"] {
        let ids = Family::Ids { node: node.into(), bucket: Bucket(-7) };
        let values = Family::Values { node: node.into() };
        assert_eq!(parse(&name(&ids)), Some(ids));
        assert_eq!(parse(&name(&values)), Some(values));
    }
}

#[test]
fn a_database_without_one_of_its_files_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mut backend = open(folder.path());
    backend.write_ids(&family(1), &run(0, 100)).unwrap();
    drop(backend);
    let table = files::list(&LocalDisk, &folder.path().join("db"))
        .unwrap()
        .into_iter()
        .find(|(name, _)| name.ends_with(".sst"));
    std::fs::remove_file(folder.path().join("db").join(table.unwrap().0)).unwrap();
    let refused = RocksBackend::open(folder.path().join("db"), folder.path().join("runs"), 1 << 20).err().unwrap();
    assert!(matches!(refused, StateError::Rocks { doing: "opening", .. }), "{refused}");
}
