//! One JSON document against the paths of a schema: the raw text of each field that is wanted, all else skipped.
//!
//! The text isn't turned into values here, and nothing is allocated.
//! Doesn't know: types, columns, nulls' meaning.
//! Keeps: the whole document is valid JSON, or it is refused. A key that stands twice counts as it stands last, as in most JSON libraries
//! (Flink's among them). What is skipped is validated, but a number in it may be of any size.
//! Tested: decode/json/tests.rs (also against serde_json as a second opinion on what is JSON).
use std::borrow::Cow;

use hashbrown::HashMap;

use super::scan::{NotJson, RawString, Scanner};

/// The raw text of a field in a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slot<'a> {
    #[default]
    Missing,
    Text(&'a str),
    /// There can't be such a field: what should be the object around it is this.
    NoObject(&'a str),
}

/// What a document holds of the fields that are wanted.
#[derive(Debug, Default)]
pub struct Found<'a> {
    pub slots: Vec<Slot<'a>>,
    pub unknown_fields: u64,
    pub first_unknown: Option<String>,
}

/// Why a document has no fields at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    BadJson(String),
    /// JSON, but not an object.
    NoObject,
}

/// The paths of a schema as a tree of object keys.
#[derive(Debug, Default)]
pub struct Paths {
    root: Node,
    fields: usize,
    keep_unknown: bool,
}

#[derive(Debug, Default)]
struct Node {
    children: Vec<Child>,
    by_name: HashMap<Box<str>, usize>,
    /// What the key at each place of the object was in the last document: a guess for the next one.
    guesses: Vec<usize>,
    /// Wanted fields at any depth below.
    below: Vec<usize>,
}

#[derive(Debug)]
struct Child {
    name: Box<str>,
    /// Fields whose path ends here.
    fields: Vec<usize>,
    node: Option<Node>,
}

impl Paths {
    /// `keep_unknown`: the name of the first field outside the schema is wanted too.
    pub fn new(keep_unknown: bool) -> Self {
        Self { keep_unknown, ..Self::default() }
    }

    /// Adds the path of field `field`.
    pub fn add(&mut self, path: &[String], field: usize) {
        self.fields = self.fields.max(field + 1);
        self.root.add(path, field);
    }

    /// Finds the fields of a document, which has been checked to be UTF-8.
    pub fn find<'a>(&mut self, document: &'a str, found: &mut Found<'a>) -> Result<(), Refusal> {
        found.slots.clear();
        found.slots.resize(self.fields, Slot::Missing);
        found.unknown_fields = 0;
        found.first_unknown = None;
        let mut scanner = Scanner::new(document);
        if scanner.peek().is_some_and(|(byte, _)| byte == b'{') {
            self.root.walk(&mut scanner, 1, found, self.keep_unknown)?;
            return Ok(scanner.end()?);
        }
        scanner.value(0)?;
        scanner.end()?;
        Err(Refusal::NoObject)
    }
}

impl From<NotJson> for Refusal {
    fn from(error: NotJson) -> Self {
        Self::BadJson(error.to_string())
    }
}

impl Node {
    fn add(&mut self, path: &[String], field: usize) {
        let [name, rest @ ..] = path else { return };
        self.below.push(field);
        let index = self.by_name.get(name.as_str()).copied().unwrap_or_else(|| {
            let index = self.children.len();
            self.children.push(Child { name: name.as_str().into(), fields: vec![], node: None });
            self.by_name.insert(name.as_str().into(), index);
            index
        });
        let child = &mut self.children[index];
        if rest.is_empty() {
            child.fields.push(field);
        } else {
            child.node.get_or_insert_default().add(rest, field);
        }
    }

    /// The child that the key at `place` names.
    fn child(&mut self, place: usize, key: &str) -> Option<usize> {
        let guess = self.guesses.get(place).copied();
        if let Some(index) = guess.filter(|index| self.children.get(*index).is_some_and(|c| *c.name == *key)) {
            return Some(index);
        }
        let index = self.by_name.get(key).copied()?;
        // Extra keys move the places of those behind them; places beyond a few times the schema aren't worth remembering.
        if place < 4 * self.children.len() {
            if self.guesses.len() <= place {
                self.guesses.resize(place + 1, usize::MAX);
            }
            self.guesses[place] = index;
        }
        Some(index)
    }

    /// Finds the fields of an object, which is container number `depth` of the document.
    fn walk<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        depth: usize,
        found: &mut Found<'a>,
        keep_unknown: bool,
    ) -> Result<(), NotJson> {
        let mut more = scanner.open_object(depth)?;
        let mut place = 0;
        while more {
            let key = unescaped(scanner.key()?);
            match self.child(place, &key) {
                Some(child) => self.children[child].take(scanner, depth, found, keep_unknown)?,
                None => {
                    scanner.value(depth)?;
                    found.unknown_fields += 1;
                    if keep_unknown && found.first_unknown.is_none() {
                        found.first_unknown = Some(key.into_owned());
                    }
                }
            }
            place += 1;
            more = scanner.more_members()?;
        }
        Ok(())
    }
    /// Takes what stands where its object is expected. What an earlier one of the same key had no longer counts.
    fn take<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        depth: usize,
        found: &mut Found<'a>,
        keep_unknown: bool,
    ) -> Result<&'a str, NotJson> {
        if let Some((b'{', start)) = scanner.peek() {
            self.below.iter().for_each(|field| found.slots[*field] = Slot::Missing);
            self.walk(scanner, depth + 1, found, keep_unknown)?;
            return Ok(scanner.since(start));
        }
        let value = scanner.value(depth)?;
        let instead = if value == "null" { Slot::Text(value) } else { Slot::NoObject(value) };
        self.below.iter().for_each(|field| found.slots[*field] = instead);
        Ok(value)
    }
}

impl Child {
    /// Takes its value, which is the next one.
    fn take<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        depth: usize,
        found: &mut Found<'a>,
        keep_unknown: bool,
    ) -> Result<(), NotJson> {
        let value = match &mut self.node {
            None => scanner.value(depth)?,
            Some(node) => node.take(scanner, depth, found, keep_unknown)?,
        };
        for field in &self.fields {
            found.slots[*field] = Slot::Text(value);
        }
        Ok(())
    }
}

/// The name that a key stands for. One that is no text (half of a surrogate pair) is the name of no field.
fn unescaped(key: RawString<'_>) -> Cow<'_, str> {
    if !key.escaped {
        return Cow::Borrowed(key.text);
    }
    let text = serde_json::from_str::<String>(&format!("\"{}\"", key.text));
    text.map_or(Cow::Borrowed(key.text), Cow::Owned)
}
