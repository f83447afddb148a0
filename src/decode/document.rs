//! One JSON document against the paths of a schema: the raw text of each field that is wanted, all else skipped.
//!
//! The text isn't turned into values here, and nothing is allocated but for strings with escapes.
//! Doesn't know: types, columns, nulls' meaning.
//! Keeps: the whole document is valid JSON, or it is refused. A key that stands twice counts as it stands last, as in most JSON libraries
//! (Flink's among them). What is skipped is validated, but a number in it may be of any size.
//! Tested: decode/json/tests.rs (also against serde_json as a second opinion on what is JSON).
use std::fmt;

use hashbrown::HashMap;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use sonic_rs::LazyValue;

/// Containers in each other that a document may have. sonic-rs skips them by recursion, without a limit of its own.
const MAX_DEPTH: usize = 512;

/// The raw text of a field in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot<'a> {
    #[default]
    Missing,
    Text(&'a str),
    /// A string with escapes, as it stands in the document.
    Escaped(Box<str>),
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
        if too_deep(document.as_bytes()) {
            return Err(Refusal::BadJson(format!("more than {MAX_DEPTH} objects and arrays in each other")));
        }
        // sonic-rs takes any four bytes behind `\u` in what it skips.
        if memchr::memchr(b'\\', document.as_bytes()).is_some() {
            serde_json::from_str::<IgnoredAny>(document).map_err(|e| Refusal::BadJson(e.to_string()))?;
        }
        if !document.trim_ascii_start().starts_with('{') {
            return Err(match serde_json::from_str::<IgnoredAny>(document) {
                Ok(_) => Refusal::NoObject,
                Err(error) => Refusal::BadJson(error.to_string()),
            });
        }
        walk(&mut self.root, document, found, self.keep_unknown).map_err(|e| Refusal::BadJson(first_line(&e)))
    }
}

/// sonic-rs shows the text around an error on further lines; the text is in the error row anyway.
fn first_line(error: &sonic_rs::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().trim_end().to_owned()
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

    /// Takes the value of one of the children.
    fn take<'a>(
        &mut self,
        index: usize,
        value: Slot<'a>,
        found: &mut Found<'a>,
        keep_unknown: bool,
    ) -> sonic_rs::Result<()> {
        let child = &mut self.children[index];
        if let Some(node) = &mut child.node {
            let object = matches!(value, Slot::Text(text) if text.starts_with('{'));
            let instead = match &value {
                Slot::Text("null") => Slot::Text("null"),
                Slot::Text(text) if !object => Slot::NoObject(text),
                Slot::Escaped(_) => Slot::NoObject("a string"),
                _ => Slot::Missing,
            };
            for field in &node.below {
                found.slots[*field] = instead.clone();
            }
            if let (true, Slot::Text(text)) = (object, &value) {
                walk(node, text, found, keep_unknown)?;
            }
        }
        if let Some((last, others)) = child.fields.split_last() {
            for field in others {
                found.slots[*field] = value.clone();
            }
            found.slots[*last] = value;
        }
        Ok(())
    }
}

/// Finds the fields of one object, which is the whole of `text`.
fn walk<'a>(node: &mut Node, text: &'a str, found: &mut Found<'a>, keep_unknown: bool) -> sonic_rs::Result<()> {
    let mut deserializer = sonic_rs::Deserializer::from_str(text);
    deserializer.deserialize_map(Object { node, found, keep_unknown })?;
    deserializer.end()
}

struct Object<'n, 'f, 'a> {
    node: &'n mut Node,
    found: &'f mut Found<'a>,
    keep_unknown: bool,
}

impl<'a> Visitor<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut place = 0;
        let mut unknown = None;
        loop {
            let key = Key { node: self.node, place, unknown: self.keep_unknown.then_some(&mut unknown) };
            let Some(child) = map.next_key_seed(key)? else { return Ok(()) };
            place += 1;
            let Some(child) = child else {
                map.next_value::<IgnoredAny>()?;
                self.found.unknown_fields += 1;
                if self.found.first_unknown.is_none() {
                    self.found.first_unknown = unknown.take();
                }
                continue;
            };
            let value = map.next_value_seed(RawValue)?;
            self.node.take(child, value, self.found, self.keep_unknown).map_err(serde::de::Error::custom)?;
        }
    }
}

/// A key of an object: the child it names, if any.
struct Key<'n, 'u> {
    node: &'n mut Node,
    place: usize,
    unknown: Option<&'u mut Option<String>>,
}

impl<'a> DeserializeSeed<'a> for Key<'_, '_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let child = self.node.child(self.place, key);
        if let (None, Some(unknown)) = (child, self.unknown) {
            *unknown = Some(key.to_owned());
        }
        Ok(child)
    }
}

/// A value as it stands in the document.
struct RawValue;

impl<'a> DeserializeSeed<'a> for RawValue {
    type Value = Slot<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Ok(match LazyValue::deserialize(deserializer)?.as_raw_cow() {
            std::borrow::Cow::Borrowed(text) => Slot::Text(text),
            std::borrow::Cow::Owned(text) => Slot::Escaped(text.into()),
        })
    }
}

/// A document that is too short can't be both valid and too deep, so most are never looked at.
fn too_deep(document: &[u8]) -> bool {
    if document.len() <= 2 * MAX_DEPTH || document.iter().filter(|b| matches!(b, b'{' | b'[')).count() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}
