//! `floodmark diff`: the rows in which two tables differ.
//!
//! Exits with 1 when they differ, as diff(1) does. Doesn't know: how rows are compared (`crate::digest::compare`). Tested: here, tests/readers.rs.
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use super::rows_argument::RowsArgs;
use crate::digest::CompareError;
use crate::digest::compare::{Difference, Limits, ShownRow, Side, compare};

/// Hashes held at once: about 200 MB.
const HASHES: u64 = 4_000_000;

#[derive(Args, Clone, Debug)]
pub struct DiffArgs {
    /// Folder or metadata.json of an Iceberg table, its name with --catalog or --pipeline, or arrow:FILE
    a: String,
    /// The same, to compare with
    b: String,
    /// Most rows to print of each side
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    rows: RowsArgs,
}

pub fn run(args: DiffArgs) -> Result<ExitCode, CompareError> {
    let difference = super::block_on(difference(&args))?;
    let text = if args.rows.json { as_json(&difference).to_string() } else { as_lines(&difference) };
    super::write_out(&format!("{text}\n")).map_err(CompareError::Terminal)?;
    Ok(if difference.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn difference(args: &DiffArgs) -> Result<Difference, CompareError> {
    let (a, b) = (args.rows.source(&args.a).await?, args.rows.source(&args.b).await?);
    compare([&a, &b], args.rows.options(), Limits { shown: args.limit, hashes: HASHES }).await
}

fn as_lines(difference: &Difference) -> String {
    let mut lines = vec![format!("a {}", difference.digests[0]), format!("b {}", difference.digests[1])];
    for (side, name, sign) in [(&difference.only_in[0], 'a', '-'), (&difference.only_in[1], 'b', '+')] {
        lines.push(format!("only in {name}: {} rows", side.rows));
        for (row, copies) in &side.shown {
            let times = if *copies > 1 { format!(" ({copies} times)") } else { String::new() };
            lines.push(format!("{sign} {}{times}", object(row)));
        }
        let shown: u64 = side.shown.iter().map(|(_, copies)| copies).sum();
        if shown < side.rows {
            lines.push(format!("  … and {} more", side.rows - shown));
        }
    }
    lines.join("\n")
}

fn as_json(difference: &Difference) -> Value {
    let side = |side: &Side| {
        let shown = side.shown.iter().map(|(row, copies)| json!({ "copies": copies, "row": object(row) }));
        json!({ "rows": side.rows, "shown": shown.collect::<Vec<_>>() })
    };
    json!({
        "a": difference.digests[0].to_string(),
        "b": difference.digests[1].to_string(),
        "only_in_a": side(&difference.only_in[0]),
        "only_in_b": side(&difference.only_in[1]),
    })
}

fn object(row: &ShownRow) -> Value {
    let cells = row.iter().map(|(name, value)| (name.clone(), value.clone().map_or(Value::Null, Value::String)));
    Value::Object(cells.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_pipeline::digest::Digest;

    fn difference() -> Difference {
        let row = |id: &str, name: Option<&str>| {
            vec![("id".to_owned(), Some(id.to_owned())), ("name".to_owned(), name.map(str::to_owned))]
        };
        Difference {
            digests: [Digest { rows: 5, sum: 1 }, Digest { rows: 1, sum: 2 }],
            only_in: [
                Side { rows: 4, shown: vec![(row("1", Some("a")), 2), (row("2", None), 1)] },
                Side { rows: 0, shown: vec![] },
            ],
        }
    }

    #[test]
    fn rows_are_printed_with_their_side_and_copies() {
        let expected = r#"a v1:5:00000000000000000000000000000001
b v1:1:00000000000000000000000000000002
only in a: 4 rows
- {"id":"1","name":"a"} (2 times)
- {"id":"2","name":null}
  … and 1 more
only in b: 0 rows"#;
        assert_eq!(as_lines(&difference()), expected);
    }

    #[test]
    fn json_has_the_same_rows() {
        let json = as_json(&difference());
        assert_eq!(json["only_in_a"]["rows"], 4);
        assert_eq!(json["only_in_a"]["shown"][0], json!({ "copies": 2, "row": { "id": "1", "name": "a" } }));
        assert_eq!(json["only_in_b"]["shown"], json!([]));
    }
}
