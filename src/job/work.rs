//! Folders of working databases, one for each start: where they lie, and that those of dead starts go.
//!
//! Doesn't know: what is in them. Keeps: nothing of a newer start is touched. A frozen process whose folder went finds that it is fenced.
//! Tested: tests/keyed_state.rs.
use std::io;
use std::path::{Path, PathBuf};

use floodmark_pipeline::ids::Incarnation;
use floodmark_state::Files;
use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::dir::incarnation_name;
use crate::config::model::{Location, Pipeline};

/// Beside the folders of a local checkpoint directory; for one elsewhere, among this machine's temporary files.
pub fn base(pipeline: &Pipeline) -> PathBuf {
    let settings = &pipeline.settings;
    match &settings.checkpoint_dir {
        Location::File(dir) => dir.join("work"),
        dir @ Location::S3 { .. } => {
            let place = format!("{dir} {}", settings.s3.endpoint.as_deref().unwrap_or_default());
            let name = format!("floodmark-{}-{:016x}", pipeline.plan.pipeline, xxh3_64(place.as_bytes()));
            std::env::temp_dir().join(name)
        }
    }
}

pub fn folder(pipeline: &Pipeline, incarnation: Incarnation) -> PathBuf {
    base(pipeline).join(incarnation_name(incarnation))
}

/// Removes the folder of a start that has come to a good end, and the one around it if that was the last. What can't be removed is left to the next start.
pub fn leave(files: &dyn Files, pipeline: &Pipeline, incarnation: Incarnation) {
    let folder = folder(pipeline, incarnation);
    if let Err(error) = files.remove_folder(&folder) {
        tracing::debug!("{} not removed: {error}; the next start does it", folder.display());
    }
    // Others may lie beside it.
    let _ = files.remove_empty_folder(&base(pipeline));
}

/// Removes what starts before this one have left.
pub fn remove_older(files: &dyn Files, base: &Path, ours: Incarnation) -> io::Result<()> {
    let ours = incarnation_name(ours);
    let found = files.list(base)?;
    let mut older = found.into_iter().filter(|(name, _)| *name < ours);
    older.try_for_each(|(name, _)| files.remove_folder(&base.join(name)))
}
