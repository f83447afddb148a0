//! Every source, with every state, into every sink: 24 ways to run the click pipeline over one log, through three kills, and one result.
//!
//! Records come a few at a time while the job runs, and from logs that have no end, so that each kill falls among them and every checkpoint can be audited.
//! At the end each output is what the other modes have made of the log, what its ledger counts, and what the oracle says; and a table's snapshots name each
//! the epoch before it.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use floodmark::workload::dials::Dials as LogDials;
use floodmark_stack::postgres::Postgres;
use floodmark_stack::rest_catalog::{Pointers, RestCatalog, Warehouse};

use crate::harness::Job;
use crate::harness::audit::audited;
use crate::harness::broker::broker;
use crate::harness::dice::Dice;
use crate::harness::pipelines::{Dials, Outputs, TABLES, kafka, sqlite};
use crate::harness::status::{Listening, read};
use crate::harness::tables::{Catalog, chain_is_whole, duckdb};
use crate::harness::trickle::Trickle;

const RECORDS: u64 = 6_000;
const KILLS: usize = 3;
/// Batches that are read and in a checkpoint before each kill, and the records of one.
const BATCHES: usize = 6;
const BATCH: u64 = 100;
/// A kill comes so soon after a further batch.
const MOMENT: Duration = Duration::from_millis(80);
/// Outputs whose rows say nothing of where a record stood in its log.
const PLAIN: [&str; 3] = ["events", "per_type", "sessions"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    File,
    Kafka,
    Generator,
}

const SOURCES: [Source; 3] = [Source::File, Source::Kafka, Source::Generator];
const STATES: [&str; 2] = ["memory", "rocksdb"];

/// Where the outputs of one job go.
struct Sinks {
    outputs: Outputs,
    catalog: String,
    namespace: String,
    at: Catalog,
}

#[derive(Clone)]
struct Mode {
    source: Source,
    state: &'static str,
    sinks: &'static str,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {}, {}", self.source, self.state, self.sinks)
    }
}

fn log() -> LogDials {
    LogDials { events: RECORDS, partitions: 2, event_rate: 50.0, users: 50, seed: 5, ..LogDials::default() }
}

fn source(source: Source, topic: &str) -> String {
    let dials = log();
    match source {
        Source::File => "type = \"file\"\npath = \"data/events\"\nend = \"never\"\ndiscovery_interval = \"1s\"".into(),
        Source::Kafka => kafka(&broker().address(), topic),
        Source::Generator => format!(
            "type = \"generator\"\nworkload = \"clickstream\"\nend = \"never\"\nrate = \"2500\"\nevents = \"{}\"\npartitions = \"{}\"\nevent_rate = \"{}\"\nusers = \"{}\"\nseed = \"{}\"",
            dials.events, dials.partitions, dials.event_rate, dials.users, dials.seed
        ),
    }
}

impl Mode {
    /// The two modes that differ in state only have a topic of one name, one after the other: it stands in their rows.
    fn topic(&self) -> String {
        format!("modes-{}", self.sinks)
    }

    fn job(&self, sinks: Sinks, listening: &Listening) -> Job {
        let pipeline = format!("workers = 2\nbatch_rows = 50\nstate = \"{}\"\n{}", self.state, listening.line());
        let dials = Dials {
            pipeline,
            checkpoint: r#"{ interval = "30ms", dir = "file:data/checkpoints", retain = 3 }"#.into(),
            source: source(self.source, &self.topic()),
            catalog: sinks.catalog,
            namespace: sinks.namespace,
            outputs: sinks.outputs,
            ..Dials::default()
        };
        Job::with_catalog(&dials.clicks(), sinks.at)
    }

    fn log(&self, job: &Job) -> Trickle {
        match self.source {
            Source::File => Trickle::into_files(&log(), &job.path("data/events")),
            Source::Kafka => Trickle::into_topic(&log(), broker(), &self.topic()),
            Source::Generator => Trickle::made_by_the_job(&log()),
        }
    }

    fn runs_through_kills(&self, sinks: Sinks, seed: u64) {
        let (listening, outputs) = (Listening::somewhere(), sinks.outputs);
        let (job, mut dice) = (self.job(sinks, &listening), Dice::new(seed));
        let mut log = self.log(&job);
        for kill in 1..=KILLS {
            let mut run = job.start();
            // Of one that went on by itself: from where.
            let restored = read(&listening.wait_for(&job, &mut run, |status| kill == 1 || read(status) > 0));
            log.has_come_to(restored);
            for _ in 0..BATCHES {
                let come = log.more(BATCH);
                listening.wait_for(&job, &mut run, |status| read(status) >= come);
            }
            log.more(BATCH);
            assert_eq!(run.ended_within(dice.moment(MOMENT)), None, "{self}: {}", run.said());
            run.kill();
            audited(&job);
        }
        // All windows fire at the stop, as they do where a log ends.
        let mut run = job.start_with(&["--drain"]);
        while log.more(BATCH) < RECORDS {}
        listening.wait_for(&job, &mut run, |status| read(status) == RECORDS);
        run.stop();
        self.has_the_right_rows(&job, outputs, &log);
        if self.source == Source::Kafka {
            broker().delete_topic(&self.topic()).unwrap();
        }
    }

    fn has_the_right_rows(&self, job: &Job, outputs: Outputs, log: &Trickle) {
        let rows = |output: &str| count(&content(job, outputs, output, Columns::WithoutMeta));
        let total = &log.ledger.total;
        let counted = TABLES.map(|output| (output, rows(output)));
        let ledgers = [
            ("events", total.events),
            ("duplicates", total.resent),
            ("late", 2 * total.late),
            ("errors", total.poison),
        ];
        for (output, of_ledger) in ledgers {
            assert!(counted.contains(&(output, of_ledger)), "{self}: {of_ledger} {output} in the ledger, {counted:?}");
        }
        for output in TABLES {
            let found = content(job, outputs, output, Columns::WithoutMeta);
            assert_eq!(found, expected(outputs, output), "{self}: {output}");
            self.is_what_its_like_has(output, content(job, outputs, output, Columns::All), outputs);
            if outputs == Outputs::Tables {
                chain_is_whole(job, "clicks", &format!("{output}_table"), output);
            }
        }
        if self.source == Source::File {
            is_what_the_oracle_says(job, outputs);
        }
    }

    /// With the columns that say where a record stood, of all modes whose logs have one name.
    fn is_what_its_like_has(&self, output: &'static str, found: String, outputs: Outputs) {
        type Like = (Source, String, bool, &'static str);
        static SEEN: Mutex<BTreeMap<Like, (String, String)>> = Mutex::new(BTreeMap::new());
        let topic = if self.source == Source::Kafka { self.topic() } else { String::new() };
        let like = (self.source, topic, outputs == Outputs::Files, output);
        let mut seen = SEEN.lock().unwrap();
        let (first, mode) = seen.entry(like).or_insert_with(|| (found.clone(), self.to_string()));
        assert_eq!(found, *first, "{self}: {output}, and that of {mode}");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    All,
    WithoutMeta,
}

/// `v1:ROWS:HASH`: the digest of a table, or the same made from the lines of files.
fn content(job: &Job, outputs: Outputs, output: &str, columns: Columns) -> String {
    if outputs != Outputs::Files {
        let options: &[&str] = if columns == Columns::All { &[] } else { &["--without-meta"] };
        return job.digest_with(output, options).unwrap_or_else(|| panic!("there is no table {output}"));
    }
    let mut lines = job.rows_in(&format!("data/out/{output}"));
    if columns == Columns::WithoutMeta {
        lines = lines.iter().map(|line| without_meta(line)).collect();
        lines.sort();
    }
    format!("v1:{}:{:032x}", lines.len(), xxhash_rust::xxh3::xxh3_128(lines.join("\n").as_bytes()))
}

fn without_meta(line: &str) -> String {
    let mut row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    row.retain(|column, _| !column.starts_with('_'));
    serde_json::to_string(&row).unwrap()
}

fn count(content: &str) -> u64 {
    crate::harness::tables::rows_of(content)
}

/// What an output of a run that nothing happened to holds: the same log in files that end, one worker.
fn expected(outputs: Outputs, output: &str) -> String {
    static EXPECTED: OnceLock<BTreeMap<(bool, &str), String>> = OnceLock::new();
    let all = EXPECTED.get_or_init(|| {
        let job = Job::new(&Dials { outputs: Outputs::TablesAndFiles, ..Dials::pipeline("workers = 1") }.clicks());
        Trickle::into_files(&log(), &job.path("data/events")).more(RECORDS);
        job.finish();
        PLAIN.iter().for_each(|output| files_hold_what_the_table_holds(&job, output));
        let both = [Outputs::Tables, Outputs::Files].into_iter().flat_map(|outputs| TABLES.map(|name| (outputs, name)));
        let content = |(outputs, name)| content(&job, outputs, name, Columns::WithoutMeta);
        both.map(|(outputs, name)| ((outputs == Outputs::Files, name), content((outputs, name)))).collect()
    });
    all[&(outputs == Outputs::Files, output)].clone()
}

/// DuckDB reads both.
fn files_hold_what_the_table_holds(job: &Job, output: &str) {
    let (columns, types) = match output {
        "events" => (
            "event_id, user_id, event_type, product_id, price_cents, epoch_ms(event_time_ms), source",
            "event_id: 'varchar', user_id: 'varchar', event_type: 'varchar', product_id: 'varchar', price_cents: 'bigint', event_time_ms: 'timestamptz', source: 'varchar'",
        ),
        "per_type" => (
            "epoch_ms(window_start), epoch_ms(window_end), event_type, events, revenue_cents",
            "window_start: 'timestamptz', window_end: 'timestamptz', event_type: 'varchar', events: 'bigint', revenue_cents: 'bigint'",
        ),
        _ => (
            "epoch_ms(window_start), epoch_ms(window_end), user_id, events, revenue_cents",
            "window_start: 'timestamptz', window_end: 'timestamptz', user_id: 'varchar', events: 'bigint', revenue_cents: 'bigint'",
        ),
    };
    let files = job.path(&format!("data/out/{output}/*.ndjson"));
    let lines = format!("read_json('{}', format = 'newline_delimited', columns = {{{types}}})", files.display());
    let query = format!(
        "select (select count(*) from (select {columns} from t except all select {columns} from {lines})), \
        (select count(*) from (select {columns} from {lines} except all select {columns} from t)), (select count(*) from t) > 0"
    );
    assert_eq!(duckdb(&job.metadata(output), &query), "0,0,True", "{output}");
}

/// The names that the oracle has for what goes into an output.
fn oracles_names(output: &str) -> &'static [&'static str] {
    match output {
        "events" => &["clean"],
        "duplicates" => &["clean.duplicates"],
        "per_type" => &["per_type"],
        "sessions" => &["sessions"],
        "late" => &["per_type.late", "sessions.late", "clean.late"],
        _ => &["events.errors"],
    }
}

/// Row by row in files, their number in tables. Of a record that can't be decoded the oracle says where it stands, and no more.
fn is_what_the_oracle_says(job: &Job, outputs: Outputs) {
    let oracle = |output: Option<&str>| {
        let (code, said) = job.ask(&[&["oracle", "pipeline.toml"], output.as_slice()].concat());
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let counts = oracle(None);
    for output in TABLES {
        if outputs == Outputs::Files {
            let said: Vec<String> = oracles_names(output).iter().map(|name| oracle(Some(name))).collect();
            let mut right: Vec<_> = said.iter().flat_map(|said| said.lines()).collect();
            right.sort_unstable();
            let mut made = job.rows_in(&format!("data/out/{output}"));
            if output == "errors" {
                made.iter_mut().for_each(|line| *line = place_of(line));
                made.sort();
            }
            assert!(made == right, "{output}: {} rows, and {} are right", made.len(), right.len());
        } else {
            let right: u64 = oracles_names(output).iter().map(|name| rows_in(&counts, name)).sum();
            assert_eq!(job.rows(output), right, "{output}");
        }
    }
}

/// The first three columns of an error.
fn place_of(line: &str) -> String {
    format!("{}}}", line.split(",\"_timestamp\"").next().unwrap())
}

/// `NAME      1,234 rows`
fn rows_in(counts: &str, name: &str) -> u64 {
    let line = counts.lines().find(|line| line.split_whitespace().next() == Some(name));
    let number =
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_else(|| panic!("no {name} in {counts}"));
    number.replace(',', "").parse().unwrap()
}

/// All sources and states, with sinks that this makes for each job.
fn every_source_and_state(sinks: &'static str, make: impl Fn(&str) -> Sinks) {
    let modes = SOURCES.into_iter().flat_map(|source| STATES.map(|state| Mode { source, state, sinks }));
    for (seed, mode) in (1..).zip(modes) {
        let name = format!("{:?}_{}", mode.source, mode.state).to_lowercase();
        let began = std::time::Instant::now();
        mode.runs_through_kills(make(&name), seed);
        eprintln!("{mode}: {:.1} s", began.elapsed().as_secs_f64());
    }
}

#[test]
fn every_source_and_state_gives_one_result_in_tables_of_sqlite() {
    every_source_and_state("sqlite", |_| Sinks {
        outputs: Outputs::Tables,
        catalog: sqlite(),
        namespace: "shop".into(),
        at: Catalog::Sqlite,
    });
}

#[test]
fn every_source_and_state_gives_one_result_in_tables_of_postgres() {
    let postgres = Postgres::start().unwrap();
    every_source_and_state("postgres", |name| {
        postgres.create_database(name).unwrap();
        let url = postgres.url(name);
        Sinks {
            outputs: Outputs::Tables,
            catalog: format!(r#"{{ type = "sql", uri = "{url}", warehouse = "file:data/warehouse" }}"#),
            namespace: "shop".into(),
            at: Catalog::Postgres(url),
        }
    });
}

#[test]
fn every_source_and_state_gives_one_result_in_tables_of_a_rest_catalog() {
    let rest = RestCatalog::start(Pointers::Sqlite, Warehouse::Local).unwrap();
    every_source_and_state("rest", |name| Sinks {
        outputs: Outputs::Tables,
        catalog: format!(r#"{{ type = "rest", uri = "{}" }}"#, rest.url()),
        namespace: name.into(),
        at: Catalog::RestIn(rest.url(), name.into()),
    });
}

#[test]
fn every_source_and_state_gives_one_result_in_files() {
    every_source_and_state("files", |_| Sinks {
        outputs: Outputs::Files,
        catalog: sqlite(),
        namespace: "shop".into(),
        at: Catalog::Sqlite,
    });
}
