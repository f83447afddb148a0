//! Files as a log: offsets, ends, going on after a restart, files that were changed.
use std::fs;
use std::io::Write;
use std::path::Path;

use floodmark_pipeline::ids::PartitionIndex;

use super::FileLog;
use super::prefix::StoredPrefix;
use crate::config::model::{End, FileConfig, Start};
use crate::source::{Log, Position, Reader, SourceError};

/// A folder of files, and what was read of it.
struct Folder {
    dir: tempfile::TempDir,
    log: FileLog,
}

/// Records by partition and offset.
type Read = Vec<(u32, i64, String)>;

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = FileLog::new("events", &FileConfig { path: dir.path().display().to_string() });
        Self { dir, log }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self::new();
        files.iter().for_each(|(name, text)| folder.append(name, text));
        folder
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Appends to a file: a further member or frame of its own where it is compressed.
    fn append(&self, name: &str, text: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(&compressed(Path::new(name), text.as_bytes())).unwrap();
    }

    /// A reader of all files from `from` on (their beginning where there is none) to `end`.
    async fn reader(&self, from: &[Position], end: End) -> Result<Box<dyn Reader>, SourceError> {
        let infos = self.log.partitions().await?;
        let ends = self.log.resolve_end(&end, &infos).await?;
        let mut reader = self.log.reader()?;
        for (at, (info, end)) in infos.iter().zip(ends).enumerate() {
            let from = from.get(at).cloned().unwrap_or_default();
            reader.assign(PartitionIndex(at as u32), &info.name, &from, end)?;
        }
        Ok(reader)
    }
}

fn compressed(path: &Path, bytes: &[u8]) -> Vec<u8> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Some("zst") => zstd::encode_all(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

fn poll(reader: &mut dyn Reader, max: usize) -> Result<Read, SourceError> {
    let mut read = vec![];
    let count = reader.poll(max, &mut |batch| {
        for record in batch.records {
            let text = String::from_utf8(record.payload.unwrap().to_vec()).unwrap();
            read.push((batch.partition.0, record.offset, text));
        }
    })?;
    assert_eq!(count, read.len());
    assert!(count <= max);
    Ok(read)
}

/// All there is now.
fn drain(reader: &mut dyn Reader, max: usize) -> Read {
    let mut all = vec![];
    loop {
        let read = poll(reader, max).unwrap();
        if read.is_empty() {
            return all;
        }
        all.extend(read);
    }
}

fn texts(read: &Read) -> Vec<&str> {
    read.iter().map(|(_, _, text)| text.as_str()).collect()
}

fn position(reader: &dyn Reader, partition: u32) -> Position {
    reader.progress(PartitionIndex(partition)).unwrap().position
}

fn ended(reader: &dyn Reader, partition: u32) -> bool {
    reader.progress(PartitionIndex(partition)).unwrap().ended
}

#[tokio::test]
async fn the_end_of_a_last_line_may_come_when_the_file_grows() {
    for (grown, expected) in
        [("\n", vec![]), ("\nline 3\n", vec!["line 3"]), ("\r\nline 3", vec!["line 3"]), ("\n\n", vec![""])]
    {
        let folder = Folder::with(&[("a.json", "line 1\nline 2")]);
        let mut reader = folder.reader(&[], End::Latest).await.unwrap();
        assert_eq!(texts(&drain(&mut *reader, 10)), ["line 1", "line 2"]);
        folder.append("a.json", grown);
        let from = position(&*reader, 0);
        let mut reader = folder.reader(&[from], End::Latest).await.unwrap();
        assert_eq!(texts(&drain(&mut *reader, 1)), expected, "{grown:?}");
        assert!(ended(&*reader, 0));
        assert_eq!(position(&*reader, 0).offset, 2 + expected.len() as i64);
    }
}

fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.map(|i| format!("line {i}\n")).collect()
}

#[tokio::test]
async fn lines_are_records_and_their_numbers_offsets() {
    let folder = Folder::with(&[("a.json", "one\n\ntwo\r\n\r\nlast")]);
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    let read = drain(&mut *reader, 100);
    assert_eq!(texts(&read), ["one", "", "two", "", "last"]);
    assert_eq!(read.iter().map(|r| r.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(ended(&*reader, 0));
}

#[tokio::test]
async fn a_compressed_file_in_which_nothing_stands_yet_is_an_empty_one() {
    for name in ["a.gz", "a.zst"] {
        let folder = Folder::new();
        fs::write(folder.path(name), "").unwrap();
        let mut reader = folder.reader(&[], End::Latest).await.unwrap();
        assert_eq!((drain(&mut *reader, 10), ended(&*reader, 0)), (vec![], true), "{name}");
        let mut reader = folder.reader(&[], End::Never).await.unwrap();
        assert!(drain(&mut *reader, 10).is_empty(), "{name}");
        folder.append(name, "one\ntwo\n");
        assert_eq!(texts(&drain(&mut *reader, 10)), ["one", "two"], "{name}");
    }
}

#[tokio::test]
async fn a_final_newline_is_no_record() {
    let folder = Folder::with(&[("a", "one\ntwo\n"), ("b", ""), ("c", "\n")]);
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    let read = drain(&mut *reader, 1);
    assert_eq!(texts(&read), ["one", "", "two"]);
    assert!((0..3).all(|partition| ended(&*reader, partition)));
}

#[tokio::test]
async fn compressed_files_are_read_as_plain_ones() {
    for name in ["a.json", "a.json.gz", "a.json.zst"] {
        let folder = Folder::with(&[(name, &numbered(0..50_000))]);
        folder.append(name, &numbered(50_000..50_001));
        let mut reader = folder.reader(&[], End::Latest).await.unwrap();
        let read = drain(&mut *reader, 1_000);
        assert_eq!(read.len(), 50_001, "{name}");
        assert!(
            read.iter().enumerate().all(|(i, r)| (r.1, r.2.as_str()) == (i as i64, &format!("line {i}"))),
            "{name}"
        );
        assert!(ended(&*reader, 0), "{name}");
    }
}

#[tokio::test]
async fn reading_goes_on_where_it_stopped_also_in_a_file_that_grew() {
    for name in ["a.json", "a.json.gz", "a.json.zst"] {
        let folder = Folder::with(&[(name, &numbered(0..100))]);
        let mut first = folder.reader(&[], End::Latest).await.unwrap();
        assert_eq!(poll(&mut *first, 40).unwrap().len(), 40);
        folder.append(name, &numbered(100..120));
        let mut second = folder.reader(&[position(&*first, 0)], End::Latest).await.unwrap();
        let read = drain(&mut *second, 7);
        assert_eq!(texts(&read), numbered(40..120).lines().collect::<Vec<_>>(), "{name}");
        assert_eq!(read[0].1, 40);
        let third = folder.reader(&[position(&*second, 0)], End::Latest).await.unwrap();
        let prefix = |reader: &dyn Reader| StoredPrefix::decode(&position(reader, 0).resume).unwrap();
        assert_eq!(position(&*third, 0).offset, position(&*second, 0).offset);
        assert_eq!((prefix(&*third).bytes, prefix(&*third).digest), (prefix(&*second).bytes, prefix(&*second).digest));
    }
}

#[tokio::test]
async fn a_file_changed_in_place_is_refused() {
    for name in ["a.json", "a.json.gz", "a.json.zst"] {
        for changed in [numbered(1..101), numbered(0..30)] {
            let folder = Folder::with(&[(name, &numbered(0..100))]);
            let mut reader = folder.reader(&[], End::Latest).await.unwrap();
            poll(&mut *reader, 40).unwrap();
            fs::remove_file(folder.path(name)).unwrap();
            folder.append(name, &changed);
            let again = folder.reader(&[position(&*reader, 0)], End::Latest).await;
            assert!(matches!(again.err(), Some(SourceError::FileChanged { .. })), "{name}");
        }
    }
}

#[tokio::test]
async fn a_file_cut_while_it_is_read_is_refused() {
    let folder = Folder::with(&[("a", &numbered(0..100_000))]);
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    poll(&mut *reader, 10).unwrap();
    fs::OpenOptions::new().write(true).open(folder.path("a")).unwrap().set_len(700_000).unwrap();
    let error = loop {
        match poll(&mut *reader, 10_000) {
            Ok(read) => assert!(!read.is_empty()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::FileChanged { .. }));
}

#[tokio::test]
async fn what_grows_behind_the_fixed_end_is_not_read() {
    let folder = Folder::with(&[("a", "one\ntw")]);
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    folder.append("a", "o\nthree\n");
    assert_eq!(texts(&drain(&mut *reader, 10)), ["one", "tw"]);
    assert!(ended(&*reader, 0));
}

#[tokio::test]
async fn without_an_end_a_line_waits_for_its_newline() {
    let folder = Folder::with(&[("a", "one\ntw")]);
    let mut reader = folder.reader(&[], End::Never).await.unwrap();
    assert_eq!(texts(&drain(&mut *reader, 10)), ["one"]);
    folder.append("a", "o\nthree\n");
    assert_eq!(texts(&drain(&mut *reader, 10)), ["two", "three"]);
    assert!(!ended(&*reader, 0));
}

#[tokio::test]
async fn a_file_that_grew_and_is_another_below_is_refused() {
    for name in ["a", "a.gz", "a.zst"] {
        let folder = Folder::with(&[(name, "one\ntwo\n")]);
        let mut reader = folder.reader(&[], End::Never).await.unwrap();
        assert_eq!(drain(&mut *reader, 10).len(), 2);
        fs::remove_file(folder.path(name)).unwrap();
        folder.append(name, "one\nTWO\nthree\nfour\nfive\nsix\nseven\n");
        let refused = poll(&mut *reader, 10).err();
        assert!(matches!(refused, Some(SourceError::FileChanged { .. })), "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn a_file_of_which_all_was_read_may_go() {
    for name in ["a", "a.gz"] {
        let folder = Folder::with(&[(name, "one\ntwo\n")]);
        let mut reader = folder.reader(&[], End::Never).await.unwrap();
        drain(&mut *reader, 10);
        let info = folder.log.partitions().await.unwrap().remove(0);
        let all = position(&*reader, 0);
        fs::remove_file(folder.path(name)).unwrap();
        assert_eq!(drain(&mut *reader, 10), []);
        assert!(ended(&*reader, 0), "{name}");
        let mut next = folder.log.reader().unwrap();
        next.assign(PartitionIndex(0), &info.name, &all, None).unwrap();
        assert!(ended(&*next, 0), "{name}: at the next start");
        assert_eq!(position(&*next, 0), all);
    }
}

#[tokio::test]
async fn a_file_that_goes_with_half_a_line_or_unread_ones_is_an_error() {
    let folder = Folder::with(&[("a", "one\ntw")]);
    let mut reader = folder.reader(&[], End::Never).await.unwrap();
    drain(&mut *reader, 10);
    let info = folder.log.partitions().await.unwrap().remove(0);
    let half = position(&*reader, 0);
    fs::remove_file(folder.path("a")).unwrap();
    assert!(matches!(poll(&mut *reader, 10), Err(SourceError::File { .. })));
    let mut next = folder.log.reader().unwrap();
    assert!(matches!(next.assign(PartitionIndex(0), &info.name, &half, None), Err(SourceError::File { .. })));
}

#[tokio::test]
async fn files_take_turns_and_a_paused_one_is_passed_over() {
    let folder = Folder::with(&[("a", &numbered(0..4)), ("b", &numbered(0..4)), ("c", &numbered(0..4))]);
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    reader.pause(PartitionIndex(1), true).unwrap();
    let turns: Vec<u32> = (0..4).map(|_| poll(&mut *reader, 2).unwrap()[0].0).collect();
    assert_eq!(turns, [0, 2, 0, 2]);
    assert_eq!(poll(&mut *reader, 2).unwrap(), []);
    reader.pause(PartitionIndex(1), false).unwrap();
    assert_eq!(drain(&mut *reader, 2).len(), 4);
}

#[tokio::test]
async fn more_files_than_may_be_open_are_all_read() {
    let folder = Folder::new();
    (0..150).for_each(|i| folder.append(&format!("{i:03}.gz"), &numbered(0..10)));
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    (0..100).for_each(|i| drop(reader.pause(PartitionIndex(i), true)));
    assert_eq!(drain(&mut *reader, 3).len(), 500);
    (0..100).for_each(|i| drop(reader.pause(PartitionIndex(i), false)));
    assert_eq!(drain(&mut *reader, 3).len(), 1_000);
    assert!((0..150).all(|partition| ended(&*reader, partition)));
}

#[tokio::test]
async fn a_file_begins_at_its_first_line_only() {
    let folder = Folder::with(&[("a", "one\n")]);
    let infos = folder.log.partitions().await.unwrap();
    let start = folder.log.resolve_start(&Start::Latest, &infos).await;
    assert_eq!(start.unwrap_err().to_string(), "files are read from their first line: use `start = \"earliest\"`");
    assert!(matches!(folder.log.resolve_end(&End::TimestampMs(0), &infos).await, Err(SourceError::Setting(_))));
}

#[tokio::test]
async fn a_line_longer_than_the_buffer_is_whole() {
    let long = "x".repeat(3_000_000);
    let folder = Folder::with(&[("a.zst", &format!("{long}\nshort\n"))]);
    let mut reader = folder.reader(&[], End::Latest).await.unwrap();
    assert_eq!(texts(&drain(&mut *reader, 10)), [long.as_str(), "short"]);
}

#[tokio::test]
async fn a_file_is_drained_when_all_that_it_has_is_read_until_it_grows() {
    let folder = Folder::with(&[("a.ndjson", "1\n2\n3\n"), ("b.ndjson.gz", "4\n")]);
    let mut reader = folder.reader(&[], End::Never).await.unwrap();
    let drained = |reader: &dyn Reader| [0, 1].map(|p| reader.drained(PartitionIndex(p)));
    assert_eq!(drained(&*reader), [false, false], "nothing is known yet");
    poll(&mut *reader, 2).unwrap();
    assert_eq!(drained(&*reader), [false, false]);
    drain(&mut *reader, 2);
    assert_eq!(drained(&*reader), [true, true]);
    folder.append("a.ndjson", "5\n6\n");
    assert_eq!(texts(&poll(&mut *reader, 1).unwrap()), ["5"]);
    assert_eq!(drained(&*reader), [false, true]);
}
