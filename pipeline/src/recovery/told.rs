//! How refusals read: what it is, what was found, what happened, and what to choose from.
//!
//! Doesn't know: why a start is refused. Keeps: refusals of one kind are told together, with one list of choices and one command for all their sinks.
use super::Refusal;

/// One line under `choose:`.
struct Choice<'a> {
    /// In words; or an option of `floodmark run`, where it has a name to go with it.
    does: &'static str,
    name: Option<&'a str>,
    /// What comes of it, where that isn't plain.
    so: &'static str,
}

fn say(does: &'static str, so: &'static str) -> Choice<'static> {
    Choice { does, name: None, so }
}

fn run<'a>(option: &'static str, name: &'a str, so: &'static str) -> Choice<'a> {
    Choice { does: option, name: Some(name), so }
}

/// All refusals of a start as a person reads them. `file` is the pipeline file, for commands that can be copied.
pub fn told(refusals: &[Refusal], file: &str) -> String {
    let mut kinds: Vec<(String, Vec<&Refusal>)> = vec![];
    for refusal in refusals {
        let title = refusal.title();
        match kinds.iter_mut().find(|(known, _)| *known == title) {
            Some((_, of_kind)) => of_kind.push(refusal),
            None => kinds.push((title, vec![refusal])),
        }
    }
    let texts: Vec<_> = kinds.iter().map(|(title, of_kind)| of_one_kind(title, of_kind, file)).collect();
    texts.join("\n\nand: ")
}

fn of_one_kind(title: &str, refusals: &[&Refusal], file: &str) -> String {
    let mut text = title.to_owned();
    let facts = refusals.iter().map(|refusal| refusal.facts());
    let happened = refusals.first().and_then(|refusal| refusal.happened()).map(|what| format!("what happened: {what}"));
    facts.chain(happened).for_each(|line| text += &format!("\n  {line}"));
    for (place, line) in choices(refusals, file).iter().enumerate() {
        text += if place == 0 { "\n  choose: " } else { "\n          " };
        text += line;
    }
    text
}

/// Equal choices once, and an option with all its names as one command.
fn choices(refusals: &[&Refusal], file: &str) -> Vec<String> {
    let mut all: Vec<(Choice<'_>, Vec<&str>)> = vec![];
    for choice in refusals.iter().flat_map(|refusal| refusal.choices()) {
        let name = choice.name;
        match all.iter_mut().find(|(known, _)| known.does == choice.does) {
            Some((_, names)) => names.extend(name.filter(|name| !names.contains(name))),
            None => all.push((choice, name.into_iter().collect())),
        }
    }
    let line = |(choice, names): (Choice<'_>, Vec<&str>)| {
        let options: String = names.iter().map(|name| format!(" {} {name}", choice.does)).collect();
        let does = if options.is_empty() { choice.does.to_owned() } else { format!("floodmark run {file}{options}") };
        if choice.so.is_empty() { does } else { format!("{does}   {}", choice.so) }
    };
    all.into_iter().map(line).collect()
}

/// A way on for every refusal that is of one table only.
const BESIDE: &str = "a new pipeline id and table";

/// And for one of all tables: in the same ones every row would come twice.
const ANEW: &str = "a new pipeline id and tables";

impl Refusal {
    fn title(&self) -> String {
        let title = match self {
            Self::OtherPipeline { .. } => "the checkpoint belongs to another pipeline",
            Self::StateLost { .. } => "the state is gone, but the table isn't",
            Self::SinkAhead { .. } => "the table is ahead of the state",
            Self::SinkBehind { .. } => "the table is behind the state",
            Self::AnotherPipeline { .. } => "the table holds rows of another pipeline",
            Self::SinkReturned { .. } => "the table holds rows from before its sink was left out of the file",
            Self::RolledBack { .. } => "the table was rolled back under us",
            Self::RetiredUnreachable { .. } => "a sink has left the pipeline file with rows that wait for it",
            Self::NodeChanged { node, line, .. } => {
                return format!("node {node} is not what its state was made by (line {line})");
            }
            Self::Table { .. } => "the table is not what the pipeline file says",
            Self::RowsLost { .. } => "rows that wait for a sink can't be read",
            Self::Log(_) => "the log is not the one that was read",
            Self::State(_) => "the state is not whole",
        };
        title.to_owned()
    }

    /// What was found: lines.
    fn facts(&self) -> String {
        match self {
            Self::OtherPipeline { manifest, theirs, ours } => {
                format!("{manifest} was written by pipeline `{theirs}`, this file is `{ours}`")
            }
            Self::StateLost { sink, epoch } => {
                format!("sink {sink} holds checkpoint {epoch}; the checkpoint directory has no manifest")
            }
            Self::SinkAhead { sink, at, newest } => {
                format!("sink {sink} holds checkpoint {at}; the state to go on from is checkpoint {newest}")
            }
            Self::SinkBehind { sink, expected, found, offsets } => {
                let found = found.map_or_else(|| "none".to_owned(), |e| format!("checkpoint {e}"));
                format!(
                    "sink {sink} should hold checkpoint {expected}, and holds {found}\n  rows of {offsets} were committed to it once and aren't in it now"
                )
            }
            Self::AnotherPipeline { sink, theirs, ours, at } => {
                format!(
                    "sink {sink}: pipeline `{theirs}` has committed checkpoint {at} to it, and this file is `{ours}`"
                )
            }
            Self::SinkReturned { sink, at, newest } => format!(
                "sink {sink} holds checkpoint {at}; the state to go on from is checkpoint {newest}, and knows no such sink\n  rows of the checkpoints between them are not kept for it"
            ),
            Self::RetiredUnreachable { sink, why, pending } => {
                format!("sink {sink}: {pending} epochs wait, and it can't be reached: {why}")
            }
            Self::NodeChanged { key, was, is, .. } => format!("{key} was {was}, and is {is}"),
            Self::RolledBack { sink, what }
            | Self::RowsLost { sink, what, .. }
            | Self::Table { sink, difference: what } => format!("sink {sink}: {what}"),
            Self::Log(what) | Self::State(what) => what.clone(),
        }
    }

    fn happened(&self) -> Option<&'static str> {
        match self {
            Self::StateLost { .. } => Some("the checkpoint directory was lost, or `dir` names another one"),
            Self::SinkAhead { .. } => Some(
                "the state was restored from an older checkpoint, or another process has written to this table under the same pipeline id",
            ),
            Self::SinkBehind { .. } => {
                Some("the table was dropped, made again or rolled back, or its catalog was restored from a copy")
            }
            Self::AnotherPipeline { .. } => Some("`id` was changed, or two pipelines are to write into one table"),
            _ => None,
        }
    }

    fn choices(&self) -> Vec<Choice<'_>> {
        const LEAVE_OUT: &str = "go on, and leave these rows out for ever";
        let from_copy = say("bring the file back from a copy of the checkpoint directory", "");
        match self {
            Self::OtherPipeline { .. } => {
                vec![say("give this pipeline a checkpoint directory of its own, or correct `id`", "")]
            }
            Self::StateLost { sink, .. } => vec![
                say("correct `dir`, or bring the directory back from a copy", ""),
                say(BESIDE, "start over beside it"),
                run("--accept-gap", sink, "begin again from `start`: rows that are in the table may come twice"),
            ],
            Self::SinkAhead { .. } => vec![
                run("--from", "MANIFEST", "a checkpoint that the table follows: `floodmark checkpoints` lists them"),
                say(BESIDE, "start over beside it"),
            ],
            Self::SinkBehind { sink, .. } => {
                vec![say("bring the catalog or table back", ""), run("--accept-gap", sink, LEAVE_OUT)]
            }
            Self::AnotherPipeline { sink, .. } => vec![
                say("correct `id`", ""),
                say("another table", "begin an empty one"),
                run("--accept-gap", sink, "write into it too: what both pipelines have read comes twice"),
            ],
            Self::SinkReturned { sink, .. } => vec![
                run("--accept-gap", sink, "go on with this table, and leave these rows out for ever"),
                say("another table", "begin an empty one from here on"),
            ],
            Self::RolledBack { .. } => vec![
                say("set `main` back to the snapshot that the mark names", ""),
                say(BESIDE, "start over beside it"),
            ],
            Self::RetiredUnreachable { sink, .. } => vec![
                say("bring it back, or put its section back until they are committed", ""),
                run("--forget", sink, "give these rows up"),
            ],
            Self::NodeChanged { node, resettable, .. } => {
                let reset = run("--reset", node, "begin it anew, without what it remembers");
                let reset = resettable.then_some(reset);
                let all = [Some(say("change it back", "")), reset, Some(say(ANEW, "start over beside them"))];
                all.into_iter().flatten().collect()
            }
            Self::Table { .. } => vec![say("change the table or the pipeline file", ""), say("another table", "")],
            Self::RowsLost { sink, in_file, .. } => {
                vec![from_copy, run(if *in_file { "--accept-gap" } else { "--forget" }, sink, LEAVE_OUT)]
            }
            Self::Log(_) => vec![say("bring the log back", ""), say(ANEW, "start over beside them")],
            Self::State(_) => vec![
                from_copy,
                run(
                    "--from",
                    "MANIFEST",
                    "an older checkpoint that the tables follow: `floodmark checkpoints` lists them",
                ),
                say(ANEW, "start over beside them"),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CheckpointId, Epoch, Incarnation};

    fn epoch() -> Epoch {
        Epoch { incarnation: Incarnation { number: 3, token: 30 }, checkpoint: CheckpointId(7) }
    }

    /// One of each kind.
    fn refusals() -> Vec<Refusal> {
        let text = |text: &str| text.to_owned();
        let (sink, newest, at) = (|| text("lake"), CheckpointId(5), epoch());
        vec![
            Refusal::OtherPipeline { manifest: text("manifests/3-7"), theirs: text("p"), ours: text("q") },
            Refusal::StateLost { sink: sink(), epoch: at },
            Refusal::SinkAhead { sink: sink(), at, newest },
            Refusal::SinkBehind { sink: sink(), expected: at, found: None, offsets: text("events:t-0 up to 120") },
            Refusal::AnotherPipeline { sink: sink(), theirs: text("p"), ours: text("q"), at },
            Refusal::SinkReturned { sink: sink(), at, newest },
            Refusal::RolledBack { sink: sink(), what: text("snapshot 12 is gone") },
            Refusal::RetiredUnreachable { sink: sink(), why: text("connection refused"), pending: 2 },
            Refusal::NodeChanged {
                node: text("clean"),
                line: 12,
                key: text("horizon"),
                was: text("24h"),
                is: text("1h"),
                resettable: true,
            },
            Refusal::Table { sink: sink(), difference: text("column `a` is not in the table") },
            Refusal::Log(text("events:t-0: offset 12 is no longer in the log")),
            Refusal::State(text("state/x: missing")),
            Refusal::RowsLost { sink: sink(), what: text("segments/6-0: missing"), in_file: true },
        ]
    }

    /// [`refusals`] as they are told.
    const TOLD: &str = "the checkpoint belongs to another pipeline
  manifests/3-7 was written by pipeline `p`, this file is `q`
  choose: give this pipeline a checkpoint directory of its own, or correct `id`

and: the state is gone, but the table isn't
  sink lake holds checkpoint 7 of incarnation 3; the checkpoint directory has no manifest
  what happened: the checkpoint directory was lost, or `dir` names another one
  choose: correct `dir`, or bring the directory back from a copy
          a new pipeline id and table   start over beside it
          floodmark run p.toml --accept-gap lake   begin again from `start`: rows that are in the table may come twice

and: the table is ahead of the state
  sink lake holds checkpoint 7 of incarnation 3; the state to go on from is checkpoint 5
  what happened: the state was restored from an older checkpoint, or another process has written to this table under the same pipeline id
  choose: floodmark run p.toml --from MANIFEST   a checkpoint that the table follows: `floodmark checkpoints` lists them
          a new pipeline id and table   start over beside it

and: the table is behind the state
  sink lake should hold checkpoint 7 of incarnation 3, and holds none
  rows of events:t-0 up to 120 were committed to it once and aren't in it now
  what happened: the table was dropped, made again or rolled back, or its catalog was restored from a copy
  choose: bring the catalog or table back
          floodmark run p.toml --accept-gap lake   go on, and leave these rows out for ever

and: the table holds rows of another pipeline
  sink lake: pipeline `p` has committed checkpoint 7 of incarnation 3 to it, and this file is `q`
  what happened: `id` was changed, or two pipelines are to write into one table
  choose: correct `id`
          another table   begin an empty one
          floodmark run p.toml --accept-gap lake   write into it too: what both pipelines have read comes twice

and: the table holds rows from before its sink was left out of the file
  sink lake holds checkpoint 7 of incarnation 3; the state to go on from is checkpoint 5, and knows no such sink
  rows of the checkpoints between them are not kept for it
  choose: floodmark run p.toml --accept-gap lake   go on with this table, and leave these rows out for ever
          another table   begin an empty one from here on

and: the table was rolled back under us
  sink lake: snapshot 12 is gone
  choose: set `main` back to the snapshot that the mark names
          a new pipeline id and table   start over beside it

and: a sink has left the pipeline file with rows that wait for it
  sink lake: 2 epochs wait, and it can't be reached: connection refused
  choose: bring it back, or put its section back until they are committed
          floodmark run p.toml --forget lake   give these rows up

and: node clean is not what its state was made by (line 12)
  horizon was 24h, and is 1h
  choose: change it back
          floodmark run p.toml --reset clean   begin it anew, without what it remembers
          a new pipeline id and tables   start over beside them

and: the table is not what the pipeline file says
  sink lake: column `a` is not in the table
  choose: change the table or the pipeline file
          another table

and: the log is not the one that was read
  events:t-0: offset 12 is no longer in the log
  choose: bring the log back
          a new pipeline id and tables   start over beside them

and: the state is not whole
  state/x: missing
  choose: bring the file back from a copy of the checkpoint directory
          floodmark run p.toml --from MANIFEST   an older checkpoint that the tables follow: `floodmark checkpoints` lists them
          a new pipeline id and tables   start over beside them

and: rows that wait for a sink can't be read
  sink lake: segments/6-0: missing
  choose: bring the file back from a copy of the checkpoint directory
          floodmark run p.toml --accept-gap lake   go on, and leave these rows out for ever";

    #[test]
    fn every_refusal_says_what_was_found_what_happened_and_the_choices() {
        assert_eq!(told(&refusals(), "p.toml"), TOLD);
    }

    #[test]
    fn tables_that_are_ahead_together_are_told_with_one_command_that_can_be_given() {
        let ahead = |sink: &str| Refusal::SinkAhead { sink: sink.into(), at: epoch(), newest: CheckpointId(5) };
        let told = told(&[ahead("lake"), ahead("late")], "p.toml");
        assert_eq!(told.matches(" --from MANIFEST ").count(), 1, "{told}");
        assert!(told.contains("\n  sink lake holds ") && told.contains("\n  sink late holds "), "{told}");
    }

    #[test]
    fn sinks_that_were_lost_together_are_told_together_with_one_command() {
        let epoch = epoch();
        let lost = |sink: &str| Refusal::StateLost { sink: sink.into(), epoch };
        let told = told(&[lost("lake"), Refusal::Log("t-0 is gone".into()), lost("late")], "p.toml");
        assert_eq!(
            told,
            format!(
                "the state is gone, but the table isn't
  sink lake holds checkpoint {epoch}; the checkpoint directory has no manifest
  sink late holds checkpoint {epoch}; the checkpoint directory has no manifest
  what happened: the checkpoint directory was lost, or `dir` names another one
  choose: correct `dir`, or bring the directory back from a copy
          a new pipeline id and table   start over beside it
          floodmark run p.toml --accept-gap lake --accept-gap late   begin again from `start`: rows that are in the table may come twice

and: the log is not the one that was read
  t-0 is gone
  choose: bring the log back
          a new pipeline id and tables   start over beside them"
            )
        );
    }
}
