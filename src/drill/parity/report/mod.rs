//! A run as one page that needs nothing else: what was run, what was done to it, timelines, digests, verdict.
//!
//! Doesn't know: how anything was found. Keeps: every figure is the record's; text is escaped. Tested: here.
mod timeline;

use std::fmt::Write;

use serde_json::Value;

use super::compare::{Compared, Difference};
use super::record::Record;

const PAGE: &str = include_str!("page.html");

pub fn page(record: &Record) -> String {
    let filled = [
        ("{run}", text(&record.run)),
        ("{verdict}", record.verdict().to_owned()),
        ("{verdict-class}", record.verdict().to_lowercase().replace(' ', "-")),
        ("{failures}", list(&record.failures())),
        ("{prediction}", prediction(record)),
        ("{inputs}", inputs(record)),
        ("{faults}", faults(record)),
        ("{timelines}", timeline::all(record)),
        ("{tables}", record.tables.iter().map(table).collect()),
        ("{checks}", checks(record)),
        ("{in-force}", in_force(record)),
        ("{versions}", list(&record.versions)),
    ];
    // One pass: what is filled in may contain braces.
    let mut page = String::new();
    let mut rest = PAGE;
    while let Some(at) = rest.find('{') {
        page.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = filled.iter().find(|(name, _)| rest.starts_with(name));
        let (taken, shown) = found.map_or((1, "{"), |(name, value)| (name.len(), value.as_str()));
        page.push_str(shown);
        rest = &rest[taken..];
    }
    page + rest
}

fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", text(item))).collect();
    if items.is_empty() { items } else { format!("<ul>{items}</ul>") }
}

fn row(cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>\n")
}

fn prediction(record: &Record) -> String {
    match &record.settings.prediction {
        Some(prediction) => format!("<p>Predicted before the run: <q>{}</q></p>", text(prediction)),
        None => String::new(),
    }
}

fn inputs(record: &Record) -> String {
    let settings = &record.settings;
    let at: Vec<String> = settings.at.iter().map(ToString::to_string).collect();
    let shown = record.all_rows_after_ms.iter().map(|(path, ms)| format!("{path} {:.1} s", seconds(*ms)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let rows = [
        ("class", format!("{:?}", settings.class)),
        ("fault", format!("{} at {} of the feed", settings.fault.name(), at.join(", "))),
        ("log", format!("{} records, {} partitions, seed {}", settings.events, settings.partitions, settings.seed)),
        ("dials", serde_json::to_string(&record.dials).unwrap_or_default()),
        ("feed", format!("{} records a second, in parts", record.feed_records_per_second)),
        ("began", record.began.clone()),
        ("took", format!("{:.1} s in all; from the feed's begin to all rows visible: {shown}", record.took_s)),
    ];
    rows.iter().map(|(name, value)| row(&[text(name), text(value)])).collect()
}

fn faults(record: &Record) -> String {
    let one = |struck: &super::fault::Struck| {
        let back = struck.new_rows_after_ms.map_or_else(|| "never".to_owned(), |ms| format!("{:.1} s", seconds(ms)));
        row(&[
            text(struck.path),
            text(struck.fault.name()),
            struck.share.to_string(),
            format!("{:.1} s", seconds(struck.at_ms)),
            struck.rows.to_string(),
            text(&struck.seen),
            back,
        ])
    };
    record.faults.iter().map(one).collect()
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn table(compared: &Compared) -> String {
    let state = match (compared.is_equal(), compared.is_right()) {
        (true, _) => "equal",
        (false, true) => "floodmark's is the oracle's; Flink's may differ in this class, and does",
        (false, false) => "DIFFERENT",
    };
    let mut out = format!(
        "<h3>{} — {state}</h3>\n<table><tr><th>side</th><th>reader</th><th>rows</th><th>digest</th></tr>\n",
        text(&compared.table)
    );
    for read in &compared.digests {
        out += &row(&[
            text(read.side),
            text(read.reader),
            read.rows().to_string(),
            format!("<code>{}</code>", text(&read.digest)),
        ]);
    }
    out += "</table>\n";
    out + &compared.differences.iter().map(difference).collect::<String>()
}

fn difference(found: &Difference) -> String {
    let mut out = String::new();
    for side in 0..2 {
        let (name, other) = (found.sides[side], found.sides[1 - side]);
        let _ = write!(out, "<p>{} rows of {name} that {other} lacks; the first:</p><pre>", found.only_in[side]);
        for shown in &found.shown[side] {
            out += &text(&format!("{} × {}\n", shown["copies"], shown["row"]));
        }
        out += "</pre>";
    }
    out
}

fn checks(record: &Record) -> String {
    let line = |check: &super::record::Check| {
        row(&[if check.holds { "holds" } else { "BROKEN" }.to_owned(), text(&check.what)])
    };
    let told = record.told.iter().map(|told| row(&["told".to_owned(), text(told)]));
    record.checks.iter().map(line).chain(told).collect()
}

fn in_force(record: &Record) -> String {
    let one = |(path, settings): (&&str, &Value)| {
        let settings = serde_json::to_string_pretty(settings).unwrap_or_default();
        format!("<details><summary>{path}</summary><pre>{}</pre></details>", text(&settings))
    };
    record.in_force.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::parity::record::tests::record;

    #[test]
    fn the_page_says_what_the_record_says_and_asks_nobody() {
        let page = page(&record());
        for said in ["PASS", "run-1", "shop.events — equal", "v1:9:0a", "it was &lt;gone&gt;", "0.2 s", "<svg"] {
            assert!(page.contains(said), "no {said} in\n{page}");
        }
        for asked in ["http://", "https://", "src=", "<link", "@import"] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(asked), "{asked} in\n{page}");
        }
        assert!(!page.contains("{run}") && !page.contains("{tables}"), "{page}");
    }

    #[test]
    fn rows_that_differ_stand_on_the_page() {
        let mut record = record();
        record.tables[0].digests[0].digest = "v1:8:0b".into();
        record.tables[0].differences.push(Difference {
            sides: ["flink", "floodmark"],
            only_in: [0, 1],
            shown: [vec![], vec![serde_json::json!({ "copies": 1, "row": { "id": "<x>" } })]],
        });
        let page = page(&record);
        assert!(page.contains("FAIL") && page.contains("1 rows of floodmark that flink lacks"), "{page}");
        assert!(page.contains("{&quot;id&quot;:&quot;&lt;x&gt;&quot;}"), "{page}");
    }
}
