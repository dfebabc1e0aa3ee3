//! Fields other than plain values: names of other tables, values by name, tables in a list, enums
//! of other crates.

use doorbell_config::{
    At, ExternalValues, Link, Map, Names, Overrides, Problem, Problems, Program, Section, Source, Table,
};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Foreign {
    Fast,
    Slow,
}

/// A table, or off.
mod either {
    use super::Part;
    use doorbell_config::{Entry, Json, Key, Table as _, form};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<Part>> {
        if entry.is_word("off")? { Some(None) } else { entry.read_table().map(Some) }
    }

    #[expect(clippy::ref_option, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(part: &Option<Part>) -> Option<Json> {
        Some(part.as_ref().map_or_else(|| "off".into(), |part| part.to_json(true)))
    }

    pub(super) fn form(_: &Key) -> Json {
        form::either(&[Part::schema(), form::words(&["off"])])
    }
}

const SPEEDS: [(&str, Foreign); 2] = [("fast", Foreign::Fast), ("slow", Foreign::Slow)];

/// Everything.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check, useless = Self::useless)]
struct Sample {
    /// A type of another crate.
    #[key(default = "slow", words = SPEEDS)]
    speed: Foreign,
    /// Another table.
    #[key(default = "main", shown)]
    link: At<Link>,
    /// Several.
    links: Vec<At<Link>>,
    /// Numbers by name.
    #[key(range = 1..=9)]
    weight: Map<u32>,
    /// Tables.
    #[key(filled)]
    part: Vec<Part>,
    /// A table below.
    below: Part,
    /// A table, or off.
    #[key(default = "off", with = either)]
    either: Option<Part>,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Table)]
struct Part {
    /// A number.
    #[key(default = 1)]
    count: u16,
    /// Another.
    #[key(default = 2)]
    slow_only: u8,
}

impl Sample {
    fn useless(&self) -> &'static [&'static str] {
        if self.speed == Foreign::Fast { &["below.slow_only"] } else { &[] }
    }

    fn check(&mut self, at: &Section<'_>) {
        for key in self.useless() {
            if let Some(place) = at.right_place(key) {
                at.problem(Problem::error("useless-key", place, format!("`{key}` means nothing")));
            }
        }
        self.part.retain(|part| part.count != 0);
    }
}

fn load(text: &str) -> (Sample, Vec<String>) {
    load_with(text, &[])
}

fn load_with(text: &str, variables: &[(&str, &str)]) -> (Sample, Vec<String>) {
    let source = Source { name: "t.toml".into(), text: text.into() };
    let program = Program { schema: Sample::schema, variables: "T__", ..Program::NONE };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let overrides = Overrides::of(program.variables, variables);
    let outside =
        ExternalValues { env: &|_| None, read_secret: &|_| Err("none".into()), overrides: &overrides };
    let outcome = doorbell_config::load(program, &source, outside);
    let shown = outcome.problems.iter().map(|problem| {
        format!(
            "{} {:?} {}",
            problem.code,
            text.get(problem.span.clone()).unwrap_or(&problem.message),
            problem.help.as_deref().unwrap_or("-")
        )
    });
    (outcome.value.expect("it is TOML"), shown.collect())
}

#[test]
fn values_are_read_and_shown_as_they_were() {
    let text = "speed = \"fast\"\nlinks = [\"a\", \"b\"]\nweight = { x = 3, y = 9 }\npart = [{ count = 0 }, { count = 7 }]\n";
    let (sample, problems) = load(text);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(
        sample.to_json(false),
        json!({ "speed": "fast", "link": "main", "links": ["a", "b"], "weight": { "x": 3, "y": 9 }, "part": [{ "count": 7 }] })
    );
    assert_eq!(sample.to_json(true)["below"], json!({ "count": 1 }), "meaningless keys are not shown");
    let (again, problems) = load("link = \"main\"\nspeed = \"fast\"\nlinks = [\"a\", \"b\"]\n");
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!((again.links, again.link), (sample.links, sample.link), "wherever they are written");
}

#[test]
fn problems_are_at_the_element() {
    let text = "speed = \"fats\"\nlinks = [1, \"b\"]\nweight = { x = 10 }\npart = {}\nbelow = 1\n";
    assert_eq!(
        load(text).1,
        [
            "bad-value \"\\\"fats\\\"\" did you mean `fast`?",
            "wrong-type \"1\" write it in quotes: \"1\"",
            "out-of-range \"10\" from 1 to 9",
            "wrong-type \"{}\" -",
            "wrong-type \"1\" write the keys in braces, as in below = { .. }",
        ]
    );
    let text = "part = []\nbelow = { slow_only = 2 }\nspeed = \"fast\"\n";
    assert_eq!(load(text).1, ["empty-list \"[]\" remove it, or add an element", "useless-key \"2\" -"]);
}

#[test]
fn a_link_finds_its_position_or_a_proposal() {
    let (mut sample, _) = load("links = [\"second\", \"secnd\", \"else\"]\n");
    let (known, problems) = (["first".to_owned(), "second".to_owned()], Problems::default());
    let names = Names::new(["part", "unknown-part"], known.iter(), &problems);
    sample.links.retain_mut(|link| names.find(link));
    assert_eq!(sample.links.iter().map(|link| link.position).collect::<Vec<_>>(), [1]);
    drop(names);
    let helps: Vec<_> = problems.into_sorted().into_iter().filter_map(|problem| problem.help).collect();
    assert_eq!(
        helps,
        ["did you mean `second`?", "add a table [part.else], or use one of \"first\", \"second\""]
    );
}

#[test]
fn a_variable_sets_one_key() {
    let text = "weight = { my-db = 1, my_db = 2, MY_DB = 3, x-y = 4 }\n";
    let expected = "bad-variable \"T__WEIGHT__MY_DB stands for more than one of \\\"MY_DB\\\", \\\"my-db\\\", \\\"my_db\\\"\" \
        rename all but one of them, or set the value in the file";
    let (sample, problems) = load_with(text, &[("T__WEIGHT__MY_DB", "9"), ("T__WEIGHT__X_Y", "5")]);
    assert_eq!(problems, [expected]);
    assert_eq!(sample.to_json(false)["weight"], json!({ "my-db": 1, "my_db": 2, "MY_DB": 3, "x-y": 5 }));
    for [first, second] in [["T__SPEED", "T__speed"], ["T__WEIGHT__A-B", "T__WEIGHT__A_B"]] {
        let (_, problems) = load_with("speed = \"slow\"\n", &[(first, "fast"), (second, "slow")]);
        let expected = format!(
            "bad-variable {:?} remove one of the two variables",
            format!("{first} and {second} set the same key")
        );
        assert!(problems.contains(&expected), "{problems:?}");
    }
}

#[test]
fn a_variable_can_set_a_key_that_takes_one_value_or_a_table() {
    for (text, name, value, expected) in [
        ("either = { count = 3 }\n", "T__EITHER", "off", None),
        ("either = { count = 3 }\n", "T__EITHER__COUNT", "4", Some(4)),
        ("", "T__EITHER__COUNT", "4", Some(4)),
    ] {
        let (sample, problems) = load_with(text, &[(name, value)]);
        assert_eq!((problems, sample.either.map(|part| part.count)), (Vec::new(), expected), "{name}");
    }
    for name in ["T__BELOW", "T__PART", "T__WEIGHT"] {
        let (_, problems) = load_with("", &[(name, "off")]);
        assert!(problems[0].contains("stands for more than one value"), "{problems:?}");
    }
}

#[test]
fn the_schema_has_the_form_of_each() {
    let schema = Sample::schema();
    assert_eq!(schema["properties"]["part"]["type"], "array");
    assert_eq!(schema["properties"]["weight"]["additionalProperties"]["maximum"], 9);
    assert_eq!(schema["properties"]["speed"]["anyOf"][0]["enum"], json!(["fast", "slow"]));
    assert_eq!(schema["properties"]["speed"]["default"], "slow");
}
