//! Stores of every format that was ever written can be read. `cargo run -p floodmark-state --example write_fixture` made them.
mod common;

use std::path::Path;

use common::{CLEAN, PER_TYPE, admit, id, settings};
use floodmark_pipeline::state::{Bucket, SeenIds};
use floodmark_state::{BackendKind, KeyedState, OldFile, OldStore, StateDigest};

fn fixture(name: &str) -> OldStore {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        OldFile { name: path.file_name().unwrap().to_string_lossy().into_owned(), path }
    });
    OldStore { files: files.collect() }
}

#[test]
fn a_store_of_format_1_is_read() {
    for (backend, name) in [(BackendKind::Memory, "v1-memory"), (BackendKind::Rocksdb, "v1-rocksdb")] {
        let folder = tempfile::tempdir().unwrap();
        let mut state = KeyedState::restore(settings(backend, folder.path(), 8 << 20), &[fixture(name)]).unwrap();
        let expected = StateDigest { entries: 2_102, sum: DIGEST };
        assert_eq!(state.digest(), expected, "{name}");

        let mut values = vec![];
        state.scan(PER_TYPE, 0..128, |key, value| values.push((key.to_vec(), value.to_vec()))).unwrap();
        assert_eq!(values, [(b"click".to_vec(), vec![1; 5_000]), (b"view".to_vec(), b"\x01two".to_vec())]);

        let known: Vec<_> = (0..2_100).map(id).collect();
        assert_eq!(admit(&mut state, &known, Bucket(9)), 2_100, "{name}");
        state.dedup(CLEAN).unwrap().expire(Bucket(0)).unwrap();
        assert_eq!(admit(&mut state, &known, Bucket(9)), 1_050, "{name}: the older half is gone");
    }
}

const DIGEST: u128 = 323_239_745_457_919_142_877_864_082_187_142_258_745;
