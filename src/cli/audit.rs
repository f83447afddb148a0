//! `floodmark audit FILE`: is the state in each checkpoint the state that its log gives?
//!
//! Reads the log again for each checkpoint, from its beginning. Changes nothing, and may run beside the job. Exit code 1: one differs.
//! Doesn't know: how the replay goes (job/audit.rs). Tested: tests/audit.rs.
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::checkpoint::dir::DirError;
use crate::config;
use crate::config::model::Pipeline;
use crate::job::audit::{Finding, audit};
use crate::job::{Failure, StartError, World};
use crate::status::units::grouped;

#[derive(Args, Debug)]
pub struct AuditArgs {
    /// Pipeline file
    file: PathBuf,
    /// Audit only so many, the newest first
    #[arg(long, value_name = "N")]
    newest: Option<usize>,
}

pub fn run(args: &AuditArgs) -> ExitCode {
    let pipeline = match config::load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error),
    };
    match runtime.block_on(all(&pipeline, args.newest.unwrap_or(usize::MAX))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => super::fail(&failure),
    }
}

/// True if none differs.
async fn all(pipeline: &Pipeline, most: usize) -> Result<bool, Failure> {
    let world = || Ok::<_, StartError>(World { sinks: vec![], ..World::of(pipeline)? });
    let dir = world()?.dir;
    let mut is_right = true;
    for listed in dir.manifests().await.map_err(StartError::Dir)?.into_iter().take(most) {
        let manifest = match dir.read_manifest(&listed.name).await {
            Ok(manifest) => manifest,
            Err(DirError::Unreadable { path, error }) => {
                super::print(&format!("{path}: unreadable: {error}\n"));
                continue;
            }
            // A running job has removed it since.
            Err(_) => continue,
        };
        let finding = audit(pipeline, world()?, &manifest).await?;
        is_right &= !matches!(finding, Finding::Differs(_));
        super::print(&format!("{}: {}\n", listed.name, shown(&finding)));
    }
    Ok(is_right)
}

fn shown(finding: &Finding) -> String {
    match finding {
        Finding::Right { records, entries } => {
            format!(
                "right: its log gives this state again ({} records, {} entries)",
                grouped(*records),
                grouped(*entries)
            )
        }
        Finding::Differs(what) => format!("DIFFERS\n  {}", what.join("\n  ")),
        Finding::Unknown(why) => format!("can't be said: {why}"),
    }
}
