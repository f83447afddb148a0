//! Iceberg catalogs of the sinks.
//!
//! The JDBC catalog calls itself in its tables what Flink calls it, so the Flink catalog has the name of the pipeline file.
//! Doesn't know: tables. Keeps: no password that the environment holds is printed. Tested: here, flink_sql/tests.rs.
use floodmark_pipeline::ids::NodeId;

use super::job::Job;
use super::place;
use super::source::option;
use super::sql::{name, with};
use crate::config::model::{CatalogConfig, IcebergConfig, Location, RestAuth, Secret, SinkConnector};

/// How a table is called in the job.
pub struct TableName {
    pub catalog: String,
    pub database: String,
    pub table: String,
}

impl TableName {
    pub fn database(&self) -> String {
        format!("{}.{}", name(&self.catalog), name(&self.database))
    }
}

/// One catalog of the job.
#[derive(Clone, Debug, PartialEq)]
struct Catalog {
    name: String,
    options: Vec<(String, String)>,
    sink: String,
}

pub fn statements(job: &Job<'_>) -> Vec<String> {
    let mut out = vec![];
    for catalog in all(job) {
        out.push(format!("CREATE CATALOG {} {}", name(&catalog.name), with(&catalog.options)));
    }
    out
}

fn all(job: &Job<'_>) -> Vec<Catalog> {
    let mut all: Vec<Catalog> = vec![];
    for (id, iceberg) in tables(job) {
        let Some(catalog) = catalog_of(job, id, iceberg, true) else { continue };
        match all.iter().find(|other| other.name == catalog.name) {
            None => all.push(catalog),
            Some(other) if other.options == catalog.options => {}
            Some(other) => job.refuse(
                &catalog.sink,
                "catalog",
                &format!("its catalog would have the name `{}`, as that of `{}` has, which is another", catalog.name, other.sink),
                "a Flink catalog is known by its name, and its tables lie in one namespace: print a job of its own for this sink",
            ),
        }
    }
    all
}

fn tables<'a>(job: &Job<'a>) -> impl Iterator<Item = (NodeId, &'a IcebergConfig)> {
    job.pipeline.sinks.iter().filter_map(|(id, sink)| match &sink.connector {
        SinkConnector::Iceberg(iceberg) => Some((*id, iceberg.as_ref())),
        _ => None,
    })
}

pub fn table_name(job: &Job<'_>, id: NodeId, iceberg: &IcebergConfig) -> Option<TableName> {
    let catalog = catalog_of(job, id, iceberg, false)?;
    let database = iceberg.namespace.last().cloned().unwrap_or_default();
    Some(TableName { catalog: catalog.name, database, table: iceberg.table.clone() })
}

/// `says`: whether problems are to be told; they are told once.
fn catalog_of(job: &Job<'_>, id: NodeId, iceberg: &IcebergConfig, says: bool) -> Option<Catalog> {
    let sink = job.node(id).name.clone();
    let mut options = vec![option("type", "iceberg")];
    let (name, warehouse) = match (&job.options.catalog_uri, &iceberg.catalog) {
        (None, CatalogConfig::Sql { uri, .. }) if uri.0.starts_with("sqlite:") => {
            if says {
                job.refuse(
                    &sink,
                    "uri",
                    "Flink with several sinks on a SQLite catalog ends in SQLITE_BUSY, again and again",
                    "name another: --catalog-uri postgres://USER@HOST/DATABASE or http://HOST:PORT, and --warehouse where it is another",
                );
            }
            return None;
        }
        (None, CatalogConfig::Sql { uri, name, warehouse }) => {
            options.extend(jdbc(job, uri));
            (name.clone(), Some(place::location(job, warehouse)))
        }
        (None, CatalogConfig::Rest { uri, warehouse, auth, prefix }) => {
            options.extend(rest(uri));
            options.extend(prefix.iter().map(|prefix| option("prefix", prefix)));
            options.extend(credentials(job, auth));
            ("lake".to_owned(), warehouse.clone())
        }
        (Some(uri), configured) => {
            let of_rest = uri.starts_with("http");
            options.extend(if of_rest { rest(uri) } else { jdbc(job, &Secret(uri.clone())) });
            match configured {
                CatalogConfig::Sql { name, warehouse, .. } if !of_rest => {
                    (name.clone(), Some(place::location(job, warehouse)))
                }
                _ => ("lake".to_owned(), None),
            }
        }
    };
    let warehouse = job.options.warehouse.clone().or(warehouse);
    options.extend(warehouse.iter().map(|warehouse| option("warehouse", warehouse)));
    if let [base @ .., _] = iceberg.namespace.as_slice()
        && !base.is_empty()
    {
        options.push(option("base-namespace", &base.join(".")));
    }
    options.extend(store(job, warehouse.as_deref()));
    Some(Catalog { name, options, sink })
}

fn rest(uri: &str) -> Vec<(String, String)> {
    vec![option("catalog-type", "rest"), option("uri", uri)]
}

fn credentials(job: &Job<'_>, auth: &RestAuth) -> Vec<(String, String)> {
    match auth {
        RestAuth::None => vec![],
        RestAuth::Bearer(token) => vec![option("token", &job.shown(token))],
        RestAuth::OAuth2 { token_uri, credential, scope } => {
            let mut options = vec![option("credential", &job.shown(credential))];
            options.extend(token_uri.iter().map(|uri| option("oauth2-server-uri", uri)));
            options.extend(scope.iter().map(|scope| option("scope", scope)));
            options
        }
    }
}

/// `postgres://USER:PASSWORD@HOST/DATABASE` in the words of JDBC.
fn jdbc(job: &Job<'_>, uri: &Secret) -> Vec<(String, String)> {
    let shown = job.shown(uri);
    let rest = shown.split_once("://").map_or(shown.as_str(), |(_, rest)| rest);
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (user, place) = match rest[..authority_end].rfind('@') {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    };
    let mut options = vec![
        option("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog"),
        option("uri", &format!("jdbc:postgresql://{place}")),
        option("jdbc.schema-version", "V1"),
    ];
    if let Some(user) = user {
        let (user, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
        options.push(option("jdbc.user", &decoded(user)));
        options.extend(password.map(|password| option("jdbc.password", &decoded(password))));
    }
    options
}

/// `%40` → `@`
fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let code = (*first == b'%').then(|| std::str::from_utf8(more.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the warehouse lies in S3, how it is reached.
fn store(job: &Job<'_>, warehouse: Option<&str>) -> Vec<(String, String)> {
    let s3 = &job.pipeline.settings.s3;
    let is_set = *s3 != Default::default();
    if !is_set && !warehouse.is_some_and(|place| place.starts_with("s3://")) {
        return vec![];
    }
    let mut options = vec![option("io-impl", "org.apache.iceberg.aws.s3.S3FileIO")];
    if let Some(endpoint) = &s3.endpoint {
        options.extend([option("s3.endpoint", endpoint), option("s3.path-style-access", "true")]);
    }
    options.extend(s3.region.iter().map(|region| option("client.region", region)));
    options.extend(s3.access_key.iter().map(|key| option("s3.access-key-id", &job.shown(key))));
    options.extend(s3.secret_key.iter().map(|key| option("s3.secret-access-key", &job.shown(key))));
    if matches!(job.pipeline.settings.checkpoint_dir, Location::S3 { .. }) {
        job.note(
            "pipeline",
            "s3",
            "these settings are the catalogs' alone: Flink's own file system has its own, in the cluster",
        );
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_an_address_are_read() {
        assert_eq!(decoded("p%40ss%"), "p@ss%");
        assert_eq!(decoded("${PASSWORD}"), "${PASSWORD}");
    }
}
