//! One table of the pipeline file, read by the table of keys.
//!
//! Each getter checks type, limits and words as [`keys`](super::keys) gives them, adds what is wrong to the problems, and answers `None`, so that reading goes
//! on and all errors are found in one run. Doesn't know: what the values lead to. Tested: config/tests.
use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Problems, did_you_mean};
use super::error_id::ErrorId;
use super::keys::{Default, Group, Key, Kind, later};
use super::value::{duration_ms, show_duration, show_size, size_bytes};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    pub value: T,
    pub span: Range<usize>,
}

/// What all readers share.
pub struct Context<'a> {
    pub text: &'a str,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub problems: Problems,
}

impl Context<'_> {
    /// A value as it is written: what messages quote, so that they never show what `${VAR}` stands for.
    pub fn written(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// Replaces each `${VAR}`; `$${` stands for `${` itself.
    fn expand(&self, text: &str, span: &Range<usize>) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                out.push_str(&rest[..start]);
                out.push('{');
                rest = &rest[start + 2..];
                continue;
            }
            let Some(length) = rest[start..].find('}') else { break };
            out.push_str(&rest[..start]);
            let name = &rest[start + 2..start + length];
            match (self.env)(name) {
                Some(value) => out.push_str(&value),
                None => {
                    self.problems.add(
                        Diagnostic::new(ErrorId::UNSET_VARIABLE, format!("the environment variable {name} is not set"))
                            .at(span.clone(), "used here")
                            .note(format!("set it (`export {name}=…`), or write `$${{` where `${{` itself is meant")),
                    );
                    return None;
                }
            }
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        Some(out)
    }
}

pub struct Table<'a> {
    pub cx: &'a Context<'a>,
    /// As messages call it: `[source.events]`.
    pub name: String,
    /// Its header, or the key it stands behind.
    pub span: Range<usize>,
    table: &'a DeTable<'a>,
    groups: Vec<&'static Group>,
}

/// Entries of a table in the order of the file: the parser sorts them by name.
pub fn in_file_order<'a>(table: &'a DeTable<'a>) -> Vec<(At<&'a str>, At<&'a DeValue<'a>>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(k, v)| (At { value: k.get_ref().as_ref(), span: k.span() }, At { value: v.get_ref(), span: v.span() }))
        .collect();
    entries.sort_by_key(|(k, _)| k.span.start);
    entries
}

impl<'a> Table<'a> {
    pub fn new(
        cx: &'a Context<'a>,
        name: impl Into<String>,
        span: Range<usize>,
        table: &'a DeTable<'a>,
        group: &'static Group,
    ) -> Self {
        Self { cx, name: name.into(), span, table, groups: vec![group] }
    }

    pub fn allow(&mut self, group: &'static Group) {
        self.groups.push(group);
    }

    pub fn entries(&self) -> Vec<(At<&'a str>, At<&'a DeValue<'a>>)> {
        in_file_order(self.table)
    }

    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.groups.iter().flat_map(|g| g.keys).find(|k| k.name == name)
    }

    /// Refuses every key that isn't allowed. `others` are groups that another `type` would allow.
    pub fn refuse_unknown(&self, others: &[&'static Group]) {
        let allowed: Vec<&str> = self.groups.iter().flat_map(|g| g.keys).map(|k| k.name).collect();
        for (key, _) in self.entries().iter().filter(|(k, _)| !allowed.contains(&k.value)) {
            let (word, span) = (key.value, key.span.clone());
            let elsewhere = others.iter().find(|g| g.keys.iter().any(|k| k.name == word));
            let diagnostic = if let Some(id) = later("key", word) {
                not_yet(id, format!("`{word}`"), span)
            } else if let Some(group) = elsewhere {
                let owner = group.title.rsplit_once("] ").map_or(group.title, |(_, kind)| kind);
                Diagnostic::new(ErrorId::KEY_OF_OTHER_TYPE, format!("`{word}` is not a key of {}", self.name))
                    .at(span, format!("belongs to {owner}"))
                    .note(format!("allowed here: {}", allowed.join(", ")))
            } else {
                Diagnostic::new(ErrorId::UNKNOWN_KEY, format!("unknown key `{word}` in {}", self.name))
                    .at(span, did_you_mean(word, allowed.iter().copied()))
                    .note(format!("allowed here: {}", allowed.join(", ")))
            };
            self.cx.problems.add(diagnostic);
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// Where a key and its value stand.
    pub fn span_of(&self, name: &str) -> Range<usize> {
        self.table.get_key_value(name).map_or(self.span.clone(), |(k, v)| k.span().start..v.span().end)
    }

    pub fn raw(&self, name: &str) -> Option<At<&'a DeValue<'a>>> {
        let found = self.table.get(name).map(|v| At { value: v.get_ref(), span: v.span() });
        if found.is_none() && self.key(name).is_some_and(|k| matches!(k.default, Default::Required)) {
            self.missing(name);
        }
        found
    }

    pub fn missing(&self, name: &str) {
        let example = self.key(name).map_or("", |k| k.example);
        self.cx.problems.add(
            Diagnostic::new(ErrorId::MISSING_KEY, format!("missing key `{name}` in {}", self.name))
                .at(self.span.clone(), "")
                .note(format!("for example: {name} = {example}")),
        );
    }

    /// A string, with the environment put in; the default where it isn't given.
    pub fn text(&self, name: &str) -> Option<At<String>> {
        let key = self.key(name)?;
        match self.raw(name) {
            Some(found) => self.as_text(&found, key),
            None => match key.default {
                Default::Value(text) => Some(At { value: text.to_owned(), span: self.span.clone() }),
                _ => None,
            },
        }
    }

    fn as_text(&self, found: &At<&DeValue<'_>>, key: &Key) -> Option<At<String>> {
        let Some(text) = found.value.as_str() else {
            self.wrong_type(found, key);
            return None;
        };
        Some(At { value: self.cx.expand(text, &found.span)?, span: found.span.clone() })
    }

    /// A string or a list of strings; empty where it isn't given.
    pub fn texts(&self, name: &str) -> Vec<At<String>> {
        let (Some(key), Some(found)) = (self.key(name), self.raw(name)) else { return vec![] };
        let Some(list) = found.value.as_array() else {
            return self.as_text(&found, key).into_iter().collect();
        };
        if list.is_empty() && matches!(key.default, Default::Required) {
            self.cx.problems.add(
                Diagnostic::new(ErrorId::NOT_ALLOWED, format!("`{name}` is empty"))
                    .at(found.span, "")
                    .note(format!("for example: {name} = {}", key.example)),
            );
        }
        list.iter().filter_map(|v| self.as_text(&At { value: v.get_ref(), span: v.span() }, key)).collect()
    }

    pub fn choice(&self, name: &str) -> Option<At<String>> {
        let Kind::Choice(words) = self.key(name)?.kind else { return None };
        let found = self.text(name)?;
        if words.contains(&found.value.as_str()) {
            return Some(found);
        }
        let place = match self.name.trim_start_matches('[').split_once('.') {
            Some((section, node)) if name == "type" && !node.contains('.') => format!("{section} type"),
            _ => name.to_owned(),
        };
        self.cx.problems.add(match later(&place, &found.value) {
            Some(id) => not_yet(id, format!("{name} = {}", self.cx.written(&found.span)), found.span.clone())
                .note(format!("in this version: {}", words.join(", "))),
            None => {
                Diagnostic::new(ErrorId::NOT_ALLOWED, format!("`{name}` can't be {}", self.cx.written(&found.span)))
                    .at(found.span.clone(), did_you_mean(&found.value, words.iter().copied()))
                    .note(format!("allowed: {}", words.join(", ")))
            }
        });
        None
    }

    pub fn duration(&self, name: &str) -> Option<At<Duration>> {
        let Kind::Duration(least) = self.key(name)?.kind else { return None };
        let found = self.text(name)?;
        let Some(ms) = duration_ms(&found.value) else {
            self.cx.problems.add(
                Diagnostic::new(ErrorId::DURATION, format!("`{name}` is not a duration"))
                    .at(found.span, "")
                    .note("a duration is a whole number and a unit: \"250ms\", \"5s\", \"10m\", \"24h\", \"7d\""),
            );
            return None;
        };
        if ms < least {
            self.out_of_range(name, &found.span, format!("at least {}", show_duration(Duration::from_millis(least))));
            return None;
        }
        Some(At { value: Duration::from_millis(ms), span: found.span })
    }

    pub fn size(&self, name: &str) -> Option<At<u64>> {
        let Kind::Size(least) = self.key(name)?.kind else { return None };
        let found = self.text(name)?;
        let Some(bytes) = size_bytes(&found.value) else {
            self.cx.problems.add(
                Diagnostic::new(ErrorId::SIZE, format!("`{name}` is not a size"))
                    .at(found.span, "")
                    .note("a size is a whole number and a unit: \"512B\", \"64KiB\", \"64MiB\", \"2GiB\""),
            );
            return None;
        };
        if bytes < least {
            self.out_of_range(name, &found.span, format!("at least {}", show_size(least)));
            return None;
        }
        Some(At { value: bytes, span: found.span })
    }

    pub fn integer(&self, name: &str) -> Option<At<i64>> {
        let key = self.key(name)?;
        let Kind::Integer(least, largest) = key.kind else { return None };
        let (number, span) = match self.raw(name) {
            Some(found) => match as_integer(found.value) {
                Some(number) => (number, found.span),
                None => {
                    self.wrong_type(&found, key);
                    return None;
                }
            },
            None => match key.default {
                Default::Value(text) => (text.parse().ok()?, self.span.clone()),
                _ => return None,
            },
        };
        if !(least..=largest).contains(&number) {
            self.out_of_range(name, &span, format!("{least} to {largest}"));
            return None;
        }
        Some(At { value: number, span })
    }

    /// The table behind a key; a value of another type is refused.
    pub fn table(&self, name: &str, title: impl Into<String>, group: &'static Group) -> Option<Table<'a>> {
        let (key, found) = (self.key(name)?, self.raw(name)?);
        let Some(table) = found.value.as_table() else {
            self.wrong_type(&found, key);
            return None;
        };
        let span = self.table.get_key_value(name).map_or(found.span, |(k, _)| k.span());
        Some(Table::new(self.cx, title, span, table, group))
    }

    /// A table of free keys with strings, numbers or booleans.
    pub fn pairs(&self, name: &str) -> Vec<(At<String>, At<String>)> {
        let (Some(key), Some(found)) = (self.key(name), self.raw(name)) else { return vec![] };
        let Some(table) = found.value.as_table() else {
            self.wrong_type(&found, key);
            return vec![];
        };
        let entries = in_file_order(table).into_iter();
        entries.filter_map(|(k, v)| Some((At { value: k.value.to_owned(), span: k.span }, self.scalar(&v)?))).collect()
    }

    /// A string, number or boolean as text.
    pub fn scalar(&self, found: &At<&DeValue<'_>>) -> Option<At<String>> {
        let text = match found.value {
            DeValue::String(text) => self.cx.expand(text, &found.span)?,
            DeValue::Boolean(b) => b.to_string(),
            DeValue::Integer(_) => as_integer(found.value)?.to_string(),
            DeValue::Float(f) => f.as_str().to_owned(),
            other => {
                self.cx.problems.add(
                    Diagnostic::new(ErrorId::WRONG_TYPE, format!("{} can't stand here", article(other.type_str())))
                        .at(found.span.clone(), "a string, number or boolean is expected"),
                );
                return None;
            }
        };
        Some(At { value: text, span: found.span.clone() })
    }

    pub fn wrong_type(&self, found: &At<&DeValue<'_>>, key: &Key) {
        let expected = match key.kind {
            Kind::Text | Kind::Choice(_) => "a string",
            Kind::Texts => "a string or a list of strings",
            Kind::Duration(_) => "a duration in quotes",
            Kind::Size(_) => "a size in quotes",
            Kind::Integer(..) => "an integer",
            Kind::Table { forms } => forms,
        };
        self.cx.problems.add(
            Diagnostic::new(ErrorId::WRONG_TYPE, format!("`{}` must be {expected}", key.name))
                .at(found.span.clone(), format!("this is {}", article(found.value.type_str())))
                .note(format!("for example: {} = {}", key.name, key.example)),
        );
    }

    pub fn out_of_range(&self, name: &str, span: &Range<usize>, range: String) {
        self.cx.problems.add(
            Diagnostic::new(ErrorId::OUT_OF_RANGE, format!("`{name}` is out of range"))
                .at(span.clone(), "")
                .note(format!("allowed: {range}")),
        );
    }

    pub fn no_effect(&self, name: &str, why: impl Into<String>) {
        self.cx.problems.add(
            Diagnostic::new(ErrorId::NO_EFFECT, format!("`{name}` has no effect in {}", self.name))
                .at(self.span_of(name), "remove it")
                .note(why),
        );
    }
}

/// Something that a later version will have.
pub fn not_yet(id: ErrorId, what: String, span: Range<usize>) -> Diagnostic {
    Diagnostic::new(id, format!("{what} comes with a later version")).at(span, "not in this one")
}

pub fn as_integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}
