//! A store in memory whose every change is a step at which a run may be killed.
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use tokio::sync::Notify;

/// Counts the steps of one run, and kills it at one of them. A clone is the same switch.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    kill_at: Option<usize>,
    steps: Arc<Mutex<Vec<String>>>,
    killed: Arc<Notify>,
}

impl Switch {
    /// Kills right after this step.
    pub fn kill_at(step: usize) -> Self {
        Self { kill_at: Some(step), ..Self::default() }
    }

    /// A step has been done. Whoever is killed doesn't come back from here.
    pub async fn step(&self, what: impl Into<String>) {
        let place = {
            let mut steps = self.steps.lock().unwrap();
            steps.push(what.into());
            steps.len() - 1
        };
        if Some(place) == self.kill_at {
            self.killed.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Comes when the run is killed.
    pub async fn killed(&self) {
        self.killed.notified().await;
    }

    pub fn steps(&self) -> Vec<String> {
        self.steps.lock().unwrap().clone()
    }
}

/// One start's view of a store that outlives it.
#[derive(Debug)]
pub struct SteppedStore {
    pub name: String,
    pub inner: Arc<InMemory>,
    pub switch: Switch,
}

impl fmt::Display for SteppedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[async_trait]
impl ObjectStore for SteppedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let done = self.inner.put_opts(location, payload, options).await;
        self.switch.step(format!("{}: put {location}", self.name)).await;
        done
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (switch, name) = (self.switch.clone(), self.name.clone());
        let deleted = self.inner.delete_stream(locations);
        let stepped = deleted.then(move |done| {
            let (switch, name) = (switch.clone(), name.clone());
            async move {
                switch.step(format!("{name}: delete")).await;
                done
            }
            .boxed()
        });
        stepped.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let done = self.inner.copy_opts(from, to, options).await;
        self.switch.step(format!("{}: copy to {to}", self.name)).await;
        done
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let done = self.inner.rename_opts(from, to, options).await;
        self.switch.step(format!("{}: rename to {to}", self.name)).await;
        done
    }
}
