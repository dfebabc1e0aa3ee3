//! What each key means and is by default, for the schema: of tables that do not derive theirs yet.
//!
//! Does not know about: forms of values. The meanings are those of `keys.txt`; a default is what the resolver makes of files that leave the key
//! out, so there is no second list of them.

use super::dump::to_json;
use super::{Outside, Source, parse_with};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

const MEANINGS: &str = include_str!("keys.txt");

/// Two files, so that what follows from another key is seen to follow. The first check of the second has the defaults of all.
const SAMPLES: [&str; 3] = [
    include_str!("samples.toml"),
    "version = 1\n[check.pace]\ntype = \"http\"\nurl = \"http://a.example/\"\n",
    "version = 1\n[check_defaults]\ninterval = \"100ms\"\nflap = {}\n[check.pace]\ntype = \"http\"\nurl = \"http://a.example/\"\n",
];

/// Stands for a name that the user chooses.
const NAME: &str = "NAME";

/// Writes `description` and `default` into the schema of the whole file.
pub(super) fn annotate(schema: &mut Value) {
    let meanings = meanings();
    let notes = Notes { defaults: defaults(&meanings), meanings };
    notes.tell(schema, "");
}

struct Notes {
    meanings: BTreeMap<String, &'static str>,
    /// None where the samples do not agree.
    defaults: BTreeMap<String, Option<Value>>,
}

impl Notes {
    /// The form of the value at this place, and of all below it.
    fn tell(&self, form: &mut Value, at: &str) {
        let Some(table) = form.as_object_mut() else { return };
        self.tell_one(table, at);
        self.tell_below(table, at);
    }

    fn tell_one(&self, table: &mut Map<String, Value>, at: &str) {
        let shared = || self.meanings.get(&format!("check_defaults.{}", at.strip_prefix("check.NAME.")?));
        if let Some(meaning) = self.meanings.get(at).or_else(shared) {
            table.insert("description".into(), (*meaning).into());
        }
        // What a check shares with all is by default what is said for all.
        let is_own = self.meanings.contains_key(at);
        if let Some(Some(default)) = self.defaults.get(at).filter(|_| is_own) {
            table.insert("default".into(), default.clone());
        }
    }

    fn tell_below(&self, table: &mut Map<String, Value>, at: &str) {
        for (key, form) in table.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            self.tell(form, &below(at, key));
        }
        if let Some(form) = table.get_mut("additionalProperties") {
            let at = below(at, NAME);
            if self.meanings.contains_key(&at) {
                self.tell(form, &at);
            }
        }
        if let Some(form) = table.get_mut("items").and_then(Value::as_object_mut) {
            self.tell_below(form, at);
        }
        let forms = table.get_mut("anyOf").and_then(Value::as_array_mut).into_iter().flatten();
        for form in forms.filter_map(Value::as_object_mut) {
            self.tell_below(form, at);
        }
    }
}

fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

/// By place, as in `listener.NAME.tcp.backlog`.
fn meanings() -> BTreeMap<String, &'static str> {
    let mut meanings = BTreeMap::new();
    let mut table = "";
    for line in MEANINGS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, meaning)) = line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
            table = name;
            meanings.insert(table.to_owned(), meaning);
        } else if let Some((key, meaning)) = line.split_once(": ") {
            meanings.insert(below(table, key), meaning);
        }
    }
    meanings
}

/// What is not written in any of the samples, and is the same in all of them.
fn defaults(meanings: &BTreeMap<String, &'static str>) -> BTreeMap<String, Option<Value>> {
    let mut found = BTreeMap::new();
    for text in SAMPLES {
        let Some(resolved) = resolved(text) else { continue };
        let written: Value = toml::from_str(text).unwrap_or_default();
        unwritten(&resolved, &written, meanings, &mut |place, value| {
            let known = found.entry(place.at.clone()).or_insert_with(|| Some(value.clone()));
            if known.as_ref() != Some(value) {
                *known = None;
            }
        });
    }
    found
}

/// With everything that the file leaves out; nothing for one that is wrong.
fn resolved(text: &str) -> Option<Value> {
    let source = Source { name: String::new(), text: text.to_owned() };
    let read_secret = |_: &Path| Err("there is none".to_owned());
    let outside = Outside { env: &|_| None, read_secret: &read_secret, files_at: None };
    let config = parse_with(&source, outside).config?;
    Some(to_json(&config, true))
}

/// Where a value is: for whoever looks for its meaning, and in the file.
#[derive(Clone, Default)]
struct Place {
    at: String,
    keys: Vec<String>,
}

impl Place {
    fn below(&self, key: &str, is_named: bool) -> Self {
        let keys = self.keys.iter().cloned().chain([key.to_owned()]).collect();
        Self { at: below(&self.at, if is_named { NAME } else { key }), keys }
    }
}

/// Tells every value that the file does not say. What the one check `pace` has without saying so is also what all have.
fn unwritten(
    resolved: &Value,
    written: &Value,
    meanings: &BTreeMap<String, &'static str>,
    tell: &mut impl FnMut(&Place, &Value),
) {
    unwritten_below(resolved, Some(written), &Place::default(), meanings, tell);
    if let Some(pace) = resolved.pointer("/check/pace") {
        let place = Place::default().below("check_defaults", false);
        unwritten_below(pace, written.get("check_defaults"), &place, meanings, tell);
    }
}

fn unwritten_below(
    resolved: &Value,
    written: Option<&Value>,
    place: &Place,
    meanings: &BTreeMap<String, &'static str>,
    tell: &mut impl FnMut(&Place, &Value),
) {
    let is_named = meanings.contains_key(&below(&place.at, NAME));
    match resolved {
        Value::Null => {}
        Value::Object(table) => {
            for (key, value) in table {
                let written = written.and_then(|written| written.get(key));
                // Tables that are there by themselves have more than what is the default.
                if !is_named || written.is_some() {
                    unwritten_below(value, written, &place.below(key, is_named), meanings, tell);
                }
            }
        }
        value if written.is_none() && meanings.contains_key(&place.at) => tell(place, value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::schema;
    use super::*;

    /// Every place of the schema, with its form.
    fn places<'s>(form: &'s Value, at: &str, found: &mut BTreeMap<String, &'s Value>) {
        let lists = form["anyOf"].as_array().into_iter().flatten();
        for inner in lists.chain([&form["items"]]).filter(|inner| inner.is_object()) {
            places(inner, at, found);
        }
        for (key, form) in form["properties"].as_object().into_iter().flatten() {
            found.insert(below(at, key), form);
            places(form, &below(at, key), found);
        }
        let others = &form["additionalProperties"];
        if others["properties"].is_object() {
            found.insert(below(at, NAME), others);
            places(others, &below(at, NAME), found);
        }
    }

    #[test]
    fn every_key_says_what_it_means_and_nothing_else_is_said() {
        let schema = schema();
        let mut places_found = BTreeMap::from([(String::new(), &schema)]);
        places(&schema, "", &mut places_found);
        assert!(places_found.len() > 330, "{}", places_found.len());
        for (at, form) in &places_found {
            let meaning = form["description"].as_str().unwrap_or_else(|| panic!("`{at}` has no meaning"));
            assert!(meaning.ends_with('.') && !meaning.contains("  "), "{at}: {meaning}");
        }
        for at in meanings().keys() {
            assert!(places_found.contains_key(at), "`{at}` of keys.txt is no key");
        }
    }

    /// The other way round: a default that is written down changes nothing.
    #[test]
    fn defaults_may_be_written() {
        let meanings = meanings();
        let defaults = defaults(&meanings);
        let mut tried = 0;
        for text in SAMPLES {
            let before = resolved(text).unwrap_or_else(|| panic!("not valid: {text}"));
            let written: Value = toml::from_str(text).unwrap();
            let mut places = Vec::new();
            unwritten(&before, &written, &meanings, &mut |place, _| places.push(place.clone()));
            for place in places {
                let Some(Some(default)) = defaults.get(&place.at) else { continue };
                let mut changed = written.clone();
                let place_in_it = place.keys.iter().fold(&mut changed, |value, key| &mut value[key]);
                *place_in_it = default.clone();
                let text = toml::to_string(&changed).unwrap();
                assert!(
                    resolved(&text).as_ref() == Some(&before),
                    "{} = {default} changes something",
                    place.at
                );
                tried += 1;
            }
        }
        assert!(tried > 80, "{tried}");
    }

    /// Some that matter, by what the documents of others and the code say; and none of those that follow from other keys.
    #[test]
    fn defaults_are_those_of_a_file_without_them() {
        let schema = schema();
        let mut found = BTreeMap::new();
        places(&schema, "", &mut found);
        let has: Vec<&String> =
            found.iter().filter(|(_, form)| form.get("default").is_some()).map(|(at, _)| at).collect();
        assert!(has.len() > 140, "{has:?}");
        for (at, expected) in [
            ("runtime.engine", Some(Value::from("auto"))),
            ("lifecycle.drain_delay", Some("5s".into())),
            ("listener.NAME.tcp.backlog", Some(4096.into())),
            ("check_defaults.interval", Some("5s".into())),
            ("check_defaults.flap", Some("off".into())),
            ("check_defaults.flap.window", Some("5m".into())),
            ("health.NAME.status.down", Some(503.into())),
            ("route.NAME.redirect", None),
            ("check_defaults.timeout", None),
            ("check_defaults.down_interval", None),
            ("check.NAME.interval", None),
            ("check.NAME.up_above", None),
            ("limit.NAME.burst", None),
            ("health.NAME.on_drain.default", None),
            ("listener.NAME.bind", None),
            ("route.NAME.listener", None),
            ("route.NAME.methods", None),
            ("route.NAME.redirect.status", None),
            ("health.NAME.require", None),
        ] {
            assert_eq!(found.get(at).and_then(|form| form.get("default")), expected.as_ref(), "{at}");
        }
    }
}
