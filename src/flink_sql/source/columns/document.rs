//! The shape of a JSON document, as far as the schema asks for it: fields, and rows in rows.
//!
//! Doesn't know: what the fields become. Keeps: a field is one thing, a value of one type or an object. Tested: here.
use crate::flink_sql::job::Job;
use crate::flink_sql::sql::name;

#[derive(Debug, Default)]
pub struct Document(Vec<(String, Part)>);

#[derive(Debug)]
enum Part {
    Value(String),
    Object(Document),
}

impl Document {
    pub fn add(&mut self, job: &Job<'_>, node: &str, path: &[String], ty: String) {
        if let Err(other) = self.put(path, ty) {
            let why = format!(
                "`{}` would be read as {other} and as something else: Flink reads a field once",
                path.join(".")
            );
            job.refuse(node, "path", &why, "ask for it by one column");
        }
    }

    /// An error says what stands there already.
    fn put(&mut self, path: &[String], ty: String) -> Result<(), String> {
        let Some((first, rest)) = path.split_first() else { return Ok(()) };
        let place = self.0.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
            let part = if rest.is_empty() { Part::Value(ty.clone()) } else { Part::Object(Document::default()) };
            self.0.push((first.clone(), part));
            self.0.len() - 1
        });
        match &mut self.0[place].1 {
            Part::Value(found) if rest.is_empty() && *found == ty => Ok(()),
            Part::Object(below) if !rest.is_empty() => below.put(rest, ty),
            Part::Value(found) => Err(found.clone()),
            Part::Object(_) => Err("an object".into()),
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    /// As columns of a table.
    pub fn definitions(&self) -> Vec<String> {
        self.0.iter().map(|(field, part)| format!("{} {}", name(field), part.ty())).collect()
    }
}

impl Part {
    fn ty(&self) -> String {
        match self {
            Part::Value(ty) => ty.clone(),
            Part::Object(below) => format!("ROW<{}>", below.definitions().join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(document: &mut Document, path: &str, ty: &str) -> Result<(), String> {
        document.put(&path.split('.').map(str::to_owned).collect::<Vec<_>>(), ty.to_owned())
    }

    #[test]
    fn paths_become_rows_in_rows() {
        let mut document = Document::default();
        for (path, ty) in [("user.id", "STRING"), ("at", "STRING"), ("user.home.city", "STRING"), ("at", "STRING")] {
            put(&mut document, path, ty).unwrap();
        }
        assert_eq!(document.definitions(), ["`user` ROW<`id` STRING, `home` ROW<`city` STRING>>", "`at` STRING"]);
    }

    #[test]
    fn a_field_is_not_two_things() {
        let mut document = Document::default();
        put(&mut document, "a.b", "INT").unwrap();
        assert_eq!(put(&mut document, "a", "STRING"), Err("an object".into()));
        assert_eq!(put(&mut document, "a.b.c", "STRING"), Err("INT".into()));
        assert_eq!(put(&mut document, "a.b", "STRING"), Err("INT".into()));
    }
}
