//! Keys in subtables, flattened tables, and keys that are inherited from another table.

use doorbell_config::{ExternalValues, Named, Outcome, Overrides, Program, Section, Source, Table};
use serde_json::json;
use std::time::Duration;

/// Everything.
#[derive(Clone, Debug, PartialEq, Table)]
struct File {
    /// Defaults of the tables in `one`.
    defaults: Defaults,
    /// Ones.
    one: Named<One>,
}

/// Defaults of the tables in `one`.
#[derive(Clone, Debug, PartialEq, Table)]
struct Defaults {
    #[key(flatten)]
    pace: Pace,
}

/// When it runs.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check)]
struct Pace {
    /// Between two runs.
    #[key(default = "5s", range = "1s..=1h")]
    interval: Duration,
    /// Longest run.
    #[key(default_with = Self::usual_timeout)]
    timeout: Duration,
    #[key(skip)]
    is_own: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(inherits = "defaults")]
struct One {
    #[key(table_name)]
    name: String,
    #[key(flatten)]
    pace: Pace,
    /// What comes back.
    #[key(table = "expect", default = "PONG")]
    reply: String,
    /// How much.
    #[key(name = "max", table = "expect", range = 1..=9, default_with = Self::usual_most)]
    most: u32,
    #[key(skip = 7)]
    seven: u32,
}

impl Pace {
    fn usual_timeout(&self) -> Duration {
        self.interval / 2
    }

    fn check(&mut self, at: &Section<'_>) {
        self.is_own = at.is_own("interval");
    }
}

impl One {
    fn usual_most(&self) -> u32 {
        u32::try_from(self.reply.len()).unwrap_or(9)
    }
}

fn load(text: &str) -> Outcome<File> {
    let source = Source { name: "test.toml".into(), text: text.into() };
    let outside = ExternalValues {
        env: &|_| None,
        read_secret: &|_| Err("none".into()),
        overrides: &Overrides::default(),
    };
    doorbell_config::load(Program::NONE, &source, outside)
}

fn codes(outcome: &Outcome<File>) -> Vec<(&str, usize)> {
    outcome.problems.iter().map(|problem| (problem.code, problem.span.start)).collect()
}

#[test]
fn another_table_stands_in_for_keys_that_are_left_out() {
    let outcome = load("[defaults]\ninterval = \"2s\"\n[one.a]\n[one.b]\ninterval = \"4s\"\n");
    assert_eq!(codes(&outcome), []);
    let file = outcome.value.expect("it is TOML");
    let paces: Vec<_> =
        file.one.iter().map(|one| (one.pace.interval, one.pace.timeout, one.pace.is_own)).collect();
    let secs = Duration::from_secs;
    assert_eq!(paces, [(secs(2), secs(1), false), (secs(4), secs(2), true)]);
    assert!(file.one.iter().all(|one| one.seven == 7));
}

#[test]
fn what_is_wrong_with_an_inherited_value_is_reported_where_it_is_written() {
    let outcome = load("[defaults]\ninterval = \"2d\"\n[one.a]\n[one.b]\n");
    assert_eq!(codes(&outcome), [("out-of-range", 22)]);
}

#[test]
fn keys_of_a_table_below_are_fields_like_others() {
    let text =
        "[one.a.expect]\nreply = \"hi\"\nrepyl = 1\n[one.b]\nexpect = { max = 10 }\n[one.c]\nexpect = 1\n";
    let outcome = load(text);
    let codes: Vec<_> = outcome.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["unknown-key", "out-of-range", "wrong-type"]);
    assert_eq!(outcome.problems[0].help.as_deref(), Some("did you mean `reply`?"));
    assert_eq!(outcome.problems[0].label, "not a key of [one.NAME.expect]");
    let file = outcome.value.expect("it is TOML");
    let read: Vec<_> = file.one.iter().map(|one| (one.reply.as_str(), one.most)).collect();
    assert_eq!(read, [("hi", 2), ("PONG", 4), ("PONG", 4)]);
}

#[test]
fn dumps_and_schemas_have_them_where_they_are_written() {
    let file = load("[one.a]\ntimeout = \"1s\"\nexpect = { reply = \"hi\" }\n[one.b]\n").value;
    let file = file.expect("it is TOML");
    assert_eq!(
        file.to_json(false),
        json!({ "one": { "a": { "timeout": "1s", "expect": { "reply": "hi" } }, "b": {} } })
    );
    let one = &File::schema()["properties"]["one"]["additionalProperties"];
    assert_eq!(one["properties"]["interval"]["default"], "5s");
    assert_eq!(one["properties"]["expect"]["properties"]["max"]["maximum"], 9);
    assert_eq!(one["properties"]["expect"]["additionalProperties"], false);
    assert_eq!(one["properties"].get("name"), None);
}

#[test]
fn tables_with_names_need_one() {
    let outcome = load("[one]\ntimeout = \"1s\"\n[one.\"a b\"]\n");
    assert_eq!(codes(&outcome), [("missing-name", 6), ("bad-name", 26)]);
    for (len, expected) in [(128, &[][..]), (129, &[("bad-name", 5)])] {
        let outcome = load(&format!("[one.{}]\n", "x".repeat(len)));
        assert_eq!(codes(&outcome), expected, "{len}");
    }
}
