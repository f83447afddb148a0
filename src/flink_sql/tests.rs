//! Every key of the pipeline file has an answer, and the answer is true: the job changes, says what differs, or is refused.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::answers::{Answer, answer, page};
use super::{Options, script};
use crate::config::keys::GROUPS;
use crate::config::tests::pages::{EFFECTS, WITHOUT_EFFECT};
use crate::config::tests::{assert_file, edited};

/// base.toml after edits, with a catalog that Flink can use, and with rows for every sink: Flink has none that couldn't be decoded.
fn file(edits: &str) -> String {
    let text = edited(edits).replace("sqlite:data/catalog.db", "postgres://flink:${SECRET}@db/lake");
    if !text.contains("from = \"events.errors\"") {
        return text;
    }
    let text = text.replace("from = \"events.errors\"", "from = \"clean\"");
    text.replace("[source.events]\n", "[source.events]\ndiscard = [\"errors\"]\n")
}

fn env(name: &str) -> Option<String> {
    (name == "SECRET").then(|| "hunter2".to_owned())
}

fn printed(text: &str, options: &Options) -> Result<String, String> {
    script(text, Path::new("shop.toml"), &env, options, PathBuf::from("/folder")).map_err(|e| e.to_string())
}

/// The job, with everything given up that has to be; and what that was.
fn yielding(text: &str) -> Result<(String, BTreeSet<String>), String> {
    let mut options = Options::default();
    let refused = match printed(text, &options) {
        Ok(job) => return Ok((job, options.accept_loss)),
        Err(refused) => refused,
    };
    let wanted = refused.split("`--accept-loss ").skip(1).filter_map(|rest| rest.split('`').next());
    options.accept_loss = wanted.map(str::to_owned).collect();
    printed(text, &options).map(|job| (job, options.accept_loss)).map_err(|again| format!("{refused}\n{again}"))
}

fn job(edits: &str) -> String {
    printed(&file(edits), &Options::default()).unwrap_or_else(|refused| panic!("{refused}"))
}

fn refusal(edits: &str) -> String {
    printed(&file(edits), &Options::default()).expect_err("it was printed")
}

#[test]
fn every_key_has_an_answer_that_is_true() {
    let cases: Vec<(&str, &str)> = EFFECTS.split("\n### ").skip(1).filter_map(|c| c.split_once('\n')).collect();
    let mut wrong = vec![];
    for (group, key) in GROUPS.iter().flat_map(|group| group.keys.iter().map(move |key| (group, key))) {
        let name = format!("{} {}", group.title, key.name);
        let Some(answer) = answer(group, key) else {
            wrong.push(format!("{name}: no answer in flink_sql/answers.rs"));
            continue;
        };
        if WITHOUT_EFFECT.contains(&name.as_str()) {
            continue;
        }
        let edits = cases.iter().find(|(case, _)| *case == name).unwrap().1;
        let (with, without) = edits.split_once("---\n").unwrap_or((edits, ""));
        let alone = printed(&file(with), &Options::default());
        let names_it = |refused: &String| refused.contains(&format!("`{}`", key.name));
        let is_true = match answer {
            Answer::Refused(_) => alone.as_ref().is_err_and(names_it),
            Answer::Loss(_) => {
                let given_up = yielding(&file(with));
                alone.as_ref().is_err_and(names_it)
                    && given_up.is_ok_and(|(job, keys)| keys.contains(key.name) && job.contains("given up"))
            }
            _ => match (yielding(&file(with)), yielding(&file(without))) {
                (Ok((with, _)), Ok((without, _))) => with != without,
                other => {
                    wrong.push(format!("{name}: {other:?}"));
                    true
                }
            },
        };
        if !is_true {
            wrong.push(format!("{name}: the job doesn't do as {answer:?} says"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_answer_is_to_a_key_that_there_is_not() {
    let rows = page().lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, GROUPS.iter().map(|group| group.keys.len()).sum::<usize>());
    assert!(!page().contains("|  |"), "a key without an answer");
}

#[test]
fn the_page_of_answers_is_up_to_date() {
    assert_file("docs/FLINK_SQL.md", &page());
}

#[test]
fn a_password_of_the_environment_is_not_printed() {
    let job =
        job("= topic = \"events\"\n+ properties = { \"sasl.username\" = \"me\", \"sasl.password\" = \"${SECRET}\" }");
    assert!(!job.contains("hunter2"), "{job}");
    assert!(job.contains("'jdbc.password' = '${SECRET}'") && job.contains("password=\"${SECRET}\""), "{job}");
    assert!(job.contains("-- Put the values of ${SECRET} in before you submit it."), "{job}");
}

#[test]
fn a_variable_whose_value_was_needed_stands_as_itself_in_a_secret() {
    let edits = "= workers = 2\n+ state = \"${SECRET}\"\n= topic = \"events\"\n+ properties = { \"client.id\" = \"x${SECRET}y\" }";
    let read =
        script(&file(edits), Path::new("shop.toml"), &|_| Some("memory".into()), &Options::default(), "/".into());
    let job = read.unwrap_or_else(|e| panic!("{e}"));
    assert!(job.contains("'properties.client.id' = 'x${SECRET}y'"), "{job}");
    assert!(job.contains("SET 'state.backend.type' = 'hashmap'"), "{job}");
}

#[test]
fn a_refusal_names_the_line_and_what_to_do() {
    let refused = refusal("= size = \"10s\"\n+ offset = \"3s\"");
    for part in ["error[F201]: `offset` of `per_type` can't be printed as a Flink job", "shop.toml:31:1", "FLINK-36664"]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn sqlite_is_refused_unless_another_catalog_is_named() {
    let text = edited("");
    let refused = printed(&text, &Options::default()).expect_err("it was printed");
    assert!(refused.contains("SQLITE_BUSY") && refused.contains("--catalog-uri"), "{refused}");
    let options = Options {
        catalog_uri: Some("postgres://flink@db:5433/lake".into()),
        warehouse: Some("s3://bucket/wh".into()),
        ..Options::default()
    };
    let job = printed(&text, &options).unwrap_or_else(|refused| panic!("{refused}"));
    for part in [
        "CREATE CATALOG `floodmark`",
        "'jdbc:postgresql://db:5433/lake'",
        "'jdbc.user' = 'flink'",
        "'s3://bucket/wh'",
        "S3FileIO",
    ] {
        assert!(job.contains(part), "{part}: {job}");
    }
    let rest = Options { catalog_uri: Some("http://rest:8181".into()), ..Options::default() };
    let job = printed(&text, &rest).unwrap_or_else(|refused| panic!("{refused}"));
    assert!(job.contains("'catalog-type' = 'rest'") && !job.contains("JdbcCatalog"), "{job}");
}

#[test]
fn bad_records_are_skipped_only_where_that_was_accepted() {
    let strict = job("");
    assert!(!strict.contains("ignore-parse-errors") && !strict.contains("TRY_CAST"), "{strict}");
    assert!(strict.contains("WHEN `event_id` IS NULL THEN CAST('no event_id: '"), "{strict}");
    let options = Options { accept_loss: BTreeSet::from(["on_error".to_owned()]), ..Options::default() };
    let lenient = printed(&file(""), &options).unwrap_or_else(|refused| panic!("{refused}"));
    for part in ["'json.ignore-parse-errors' = 'true'", "NOT (`event_id` IS NULL)", "TRY_CAST", "skipped silently"] {
        assert!(lenient.contains(part), "{part}: {lenient}");
    }
}

#[test]
fn what_is_accepted_needlessly_is_refused() {
    let options = Options { accept_loss: BTreeSet::from(["sort".to_owned()]), ..Options::default() };
    let refused = printed(&file(""), &options).expect_err("it was printed");
    assert!(refused.contains("--accept-loss sort: nothing is lost by it in this file"), "{refused}");
    let options =
        Options { kafka: [("nobody".to_owned(), ("a:1".to_owned(), "t".to_owned()))].into(), ..Options::default() };
    let refused = printed(&file(""), &options).expect_err("it was printed");
    assert!(refused.contains("--kafka names `nobody`, which is no source of this file"), "{refused}");
}

const BY_USER: &str = "[window.by_user]\nfrom = \"clean\"\ntype = \"session\"\ngap = \"30s\"\nkey = \"user_id\"\naggregates = { n = \"count()\" }\ndiscard = [\"late\"]\n[sink.users]\nfrom = \"by_user\"\ntype = \"stdout\"\n";

#[test]
fn one_predicate_judges_for_all_windows_where_lateness_is_of_the_event() {
    let judges = |edits: &str| {
        let text = file(edits) + BY_USER;
        let job = printed(&text, &Options::default()).unwrap_or_else(|refused| panic!("{refused}"));
        let judges =
            job.lines().filter_map(|line| line.strip_prefix("CREATE TEMPORARY VIEW `")?.strip_suffix(".judged` AS"));
        judges.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(judges("= topic = \"events\"\n+ lateness = \"event\""), ["clean"]);
    assert_eq!(judges(""), ["per_type", "clean"], "a window by its end, sessions by the record's time");
}

#[test]
fn sources_that_differ_in_lateness_are_refused() {
    let more = "[source.more]\ntype = \"kafka\"\nbrokers = \"localhost:9092\"\ntopic = \"more\"\non_error = \"fail\"\nlateness = \"event\"\n\
                event_time = { field = \"event_time_ms\" }\nwatermark = { bound = \"5s\" }\n\
                schema = { event_id = \"string\", user_id = \"string?\", event_type = \"string\", price = \"float64\", price_cents = \"int64?\", event_time_ms = \"timestamp_ms\" }\n";
    let text = file("- from = \"events\"\n+ from = [\"events\", \"more\"]") + more;
    let refused = printed(&text, &Options::default()).expect_err("it was printed");
    assert!(refused.contains("`lateness` of `more`"), "{refused}");
}

#[test]
fn no_comment_ends_a_statement() {
    for edits in
        ["", "= workers = 2\n+ memory = \"1GiB\"\n+ outbox = \"1GiB\"\n+ checkpoint = { dir = \"file:x\", retain = 2 }"]
    {
        let job = job(edits);
        let broken: Vec<_> = job.lines().filter(|line| line.starts_with("--") && line.ends_with(';')).collect();
        assert!(broken.is_empty(), "{broken:?}");
        let inside = |line: &&str| line.contains("--") && !line.starts_with("--");
        assert_eq!(job.lines().find(inside), None);
    }
}
