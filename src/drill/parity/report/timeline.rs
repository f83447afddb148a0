//! One drawing a path: records written, rows visible, lag, and the newest checkpoint, over the time since the feed began.
//!
//! Doesn't know: pages. Keeps: both paths are drawn on one scale. Tested: report/mod.rs, here.
use std::fmt::Write;

use crate::drill::parity::record::Record;
use crate::drill::parity::watch::Sample;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 200.0;
/// Of the strip with checkpoints below.
const STRIP: f64 = 50.0;
/// Left of both, for numbers.
const LEFT: f64 = 80.0;

/// The largest values of both.
struct Scale {
    ms: f64,
    rows: f64,
    checkpoint: f64,
}

pub fn all(record: &Record) -> String {
    let samples = || record.timeline.values().flatten();
    let most = |of: &dyn Fn(&Sample) -> u64| samples().map(of).max().unwrap_or(0).max(1) as f64;
    let scale = Scale {
        ms: most(&|sample| sample.at_ms),
        rows: most(&|sample| sample.written.max(sample.rows.unwrap_or(0))),
        checkpoint: most(&|sample| sample.checkpoint.unwrap_or(0)),
    };
    let one = |(path, samples): (&&str, &Vec<Sample>)| {
        let hits = record.faults.iter().filter(|struck| struck.path == *path);
        let hits: Vec<(u64, &str)> = hits.map(|struck| (struck.at_ms, struck.fault.name())).collect();
        format!("<h3>{path}</h3>\n{}", drawing(samples, &hits, &scale))
    };
    record.timeline.iter().map(one).collect()
}

fn drawing(samples: &[Sample], hits: &[(u64, &str)], scale: &Scale) -> String {
    let (width, height) = (LEFT + WIDTH + 20.0, HEIGHT + STRIP + 50.0);
    let mut out = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n");
    frame(&mut out, scale);
    let rows = |value: u64| HEIGHT - value as f64 / scale.rows * HEIGHT + 10.0;
    let checkpoint = |value: u64| HEIGHT + 20.0 + STRIP - value as f64 / scale.checkpoint * STRIP;
    line(&mut out, "written", samples, scale, &|sample| Some(rows(sample.written)));
    line(&mut out, "lag", samples, scale, &|sample| sample.lag.map(rows));
    line(&mut out, "rows", samples, scale, &|sample| sample.rows.map(rows));
    line(&mut out, "checkpoint", samples, scale, &|sample| sample.checkpoint.map(checkpoint));
    for (at_ms, fault) in hits {
        let (at, bottom) = (x(*at_ms, scale), HEIGHT + STRIP + 20.0);
        let _ = writeln!(out, "<line class=\"hit\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"10\" y2=\"{bottom}\"/>");
        let _ = writeln!(out, "<text class=\"hit\" x=\"{:.1}\" y=\"22\">{fault}</text>", at + 4.0);
    }
    out + "</svg>\n"
}

fn x(ms: u64, scale: &Scale) -> f64 {
    LEFT + ms as f64 / scale.ms * WIDTH
}

fn frame(out: &mut String, scale: &Scale) {
    let (right, end) = (LEFT + WIDTH, scale.ms / 1_000.0);
    let (base, strip) = (HEIGHT + 10.0, HEIGHT + STRIP + 20.0);
    for y in [base, strip] {
        let _ = writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\"/>");
    }
    let beside = LEFT - 6.0;
    for (y, said) in [(20.0, scale.rows), (base, 0.0), (HEIGHT + 30.0, scale.checkpoint)] {
        let _ = writeln!(out, "<text class=\"number\" x=\"{beside}\" y=\"{y}\">{said:.0}</text>");
    }
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let (at, said, y) = (LEFT + part * WIDTH, part * end, strip + 18.0);
        let _ = writeln!(out, "<text class=\"second\" x=\"{at}\" y=\"{y}\">{said:.0} s</text>");
    }
}

/// Broken where nothing could be seen.
fn line(out: &mut String, class: &str, samples: &[Sample], scale: &Scale, y: &dyn Fn(&Sample) -> Option<f64>) {
    let mut path = String::new();
    let mut is_drawn = false;
    for sample in samples {
        let Some(y) = y(sample) else {
            is_drawn = false;
            continue;
        };
        let _ = write!(path, "{}{:.1} {y:.1}", if is_drawn { "L" } else { "M" }, x(sample.at_ms, scale));
        is_drawn = true;
    }
    let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_nothing_was_seen() {
        let sample = |at_ms, lag| Sample { at_ms, written: 10, rows: Some(at_ms / 10), checkpoint: None, lag };
        let samples = [sample(0, Some(10)), sample(50, None), sample(100, Some(0))];
        let drawn = drawing(&samples, &[(50, "kill")], &Scale { ms: 100.0, rows: 10.0, checkpoint: 1.0 });
        assert!(drawn.contains("class=\"lag\" d=\"M80.0 10.0M980.0 210.0\""), "{drawn}");
        assert!(drawn.contains("class=\"rows\" d=\"M80.0 210.0L530.0 110.0L980.0 10.0\""), "{drawn}");
        assert!(drawn.contains("x1=\"530.0\"") && drawn.contains(">kill<"), "{drawn}");
    }
}
