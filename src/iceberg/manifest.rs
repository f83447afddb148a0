//! Manifests of a commit: one for the files it adds, and those of its base, merged when they have become many.
//!
//! Doesn't know: marks. Keeps: entries carried over keep snapshot id and both sequence numbers; deleted entries of merged manifests are
//! dropped, as in Iceberg's merge append.
//! Tested: tests.rs beside it (`many_small_manifests_are_merged_and_no_row_is_lost`).
use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, FormatVersion, ManifestContentType, ManifestFile, ManifestList, ManifestListWriter, ManifestWriterBuilder,
    PartitionSpecRef, TableMetadata,
};
use iceberg::{Error, ErrorKind, Result};

/// New files of one partition spec.
#[derive(Clone, Debug)]
pub struct Added {
    pub spec: PartitionSpecRef,
    pub files: Vec<DataFile>,
}

/// Writes the manifests and manifest list of one snapshot, all under names that begin alike.
pub struct Manifests<'a> {
    pub io: &'a FileIO,
    pub base: &'a TableMetadata,
    pub snapshot_id: i64,
    pub prefix: &'a str,
    /// What was written so far, to be deleted if the commit comes to nothing.
    pub written: Vec<String>,
}

impl Manifests<'_> {
    /// Gives the location of the manifest list.
    pub async fn write(&mut self, added: &[Added]) -> Result<String> {
        let mut manifests = Vec::new();
        for Added { spec, files } in added.iter().filter(|added| !added.files.is_empty()) {
            let mut writer = self.manifest(spec)?;
            for file in files {
                writer.add_file(file.clone(), -1)?;
            }
            manifests.push(writer.write_manifest_file().await?);
        }
        manifests.extend(self.carried_over(added.len()).await?);
        let location = format!("{}/metadata/snap-{}-{}.avro", self.base.location(), self.snapshot_id, self.prefix);
        self.written.push(location.clone());
        let output = self.io.new_output(&location)?.writer().await?;
        let parent = self.base.current_snapshot_id();
        let mut list = ManifestListWriter::v2(output, self.snapshot_id, parent, self.base.next_sequence_number());
        list.add_manifests(manifests.into_iter())?;
        list.close().await?;
        Ok(location)
    }

    fn manifest(&mut self, spec: &PartitionSpecRef) -> Result<iceberg::spec::ManifestWriter> {
        let location = format!("{}/metadata/{}-m{}.avro", self.base.location(), self.prefix, self.written.len());
        self.written.push(location.clone());
        let output = self.io.new_output(location)?;
        let schema = self.base.current_schema().clone();
        Ok(ManifestWriterBuilder::new(output, Some(self.snapshot_id), schema, spec.as_ref().clone()).build_v2_data())
    }

    async fn carried_over(&mut self, new: usize) -> Result<Vec<ManifestFile>> {
        let Some(head) = self.base.current_snapshot() else {
            return Ok(vec![]);
        };
        let bytes = self.io.new_input(head.manifest_list())?.read().await?;
        let list = ManifestList::parse_with_version(&bytes, FormatVersion::V2)?;
        let found: Vec<_> = list.consume_entries().into_iter().collect();
        if new + found.len() < self.number("commit.manifest.min-count-to-merge", 100) || !self.merges() {
            return Ok(found);
        }
        let target = self.number("commit.manifest.target-size-bytes", 8 << 20);
        let (mut small, mut kept): (Vec<_>, Vec<_>) = found.into_iter().partition(|manifest| is_small(manifest, target));
        small.sort_by_key(|manifest| manifest.partition_spec_id);
        for group in small.chunk_by(|a, b| a.partition_spec_id == b.partition_spec_id) {
            kept.extend(self.merged(group, target).await?);
        }
        Ok(kept)
    }

    fn number(&self, property: &str, default: usize) -> usize {
        self.base.properties().get(property).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    fn merges(&self) -> bool {
        self.base.properties().get("commit.manifest-merge.enabled").is_none_or(|value| value != "false")
    }

    /// Manifests of one spec, put together up to the target size each.
    async fn merged(&mut self, group: &[ManifestFile], target: usize) -> Result<Vec<ManifestFile>> {
        let mut merged = Vec::new();
        let mut bin: Vec<&ManifestFile> = Vec::new();
        let mut size = 0;
        for manifest in group {
            let length = usize::try_from(manifest.manifest_length).unwrap_or(target);
            if !bin.is_empty() && size + length > target {
                merged.push(self.merge(&bin).await?);
                bin.clear();
                size = 0;
            }
            bin.push(manifest);
            size += length;
        }
        if !bin.is_empty() {
            merged.push(self.merge(&bin).await?);
        }
        Ok(merged)
    }

    async fn merge(&mut self, bin: &[&ManifestFile]) -> Result<ManifestFile> {
        if let [one] = bin {
            return Ok((*one).clone());
        }
        let id = bin[0].partition_spec_id;
        let unknown = || Error::new(ErrorKind::DataInvalid, format!("a manifest has partition spec {id}, the table doesn't"));
        let spec = self.base.partition_spec_by_id(id).ok_or_else(unknown)?.clone();
        let mut writer = self.manifest(&spec)?;
        for manifest in bin {
            for entry in manifest.load_manifest(self.io).await?.entries().iter().filter(|entry| entry.is_alive()) {
                let (Some(snapshot), Some(sequence)) = (entry.snapshot_id, entry.sequence_number) else {
                    let why = format!("{}: an entry without snapshot or sequence number", manifest.manifest_path);
                    return Err(Error::new(ErrorKind::DataInvalid, why));
                };
                writer.add_existing_file(entry.data_file.clone(), snapshot, sequence, entry.file_sequence_number)?;
            }
        }
        writer.write_manifest_file().await
    }
}

fn is_small(manifest: &ManifestFile, target: usize) -> bool {
    manifest.content == ManifestContentType::Data
        && manifest.key_metadata.is_none()
        && usize::try_from(manifest.manifest_length).is_ok_and(|length| length < target)
}
