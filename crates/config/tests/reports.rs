//! Reports on whole files: no form of a report shows a secret, and its length is limited.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use doorbell_config::{
    ExternalValues, Json, Map, Named, Outcome, Overrides, Program, Secret, Severity, Source, Table, Words,
};
use std::fmt::Write;
use std::net::SocketAddr;

/// A file.
#[derive(Clone, Debug, PartialEq, Table)]
struct File {
    /// Tables by name.
    check: Named<Check>,
    /// A table.
    admin: Option<Admin>,
}

/// A table with secrets.
#[derive(Clone, Debug, PartialEq, Table)]
struct Check {
    #[key(table_name)]
    name: String,
    /// An address.
    address: Option<SocketAddr>,
    /// A word.
    #[key(default = "on")]
    mode: Mode,
    /// A secret.
    password: Option<Secret>,
    /// Secrets by name.
    headers: Map<Secret>,
}

/// Another table with a secret.
#[derive(Clone, Debug, PartialEq, Table)]
struct Admin {
    /// A secret.
    token: Option<Secret>,
}

#[derive(Clone, Copy, Debug, PartialEq, Words)]
enum Mode {
    On,
    Off,
}

fn load(text: &str, variables: &[(&str, &str)]) -> (Source, Outcome<File>) {
    let program = Program { schema: File::schema, variables: "T__", ..Program::NONE };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let external = ExternalValues {
        env: &|name| (name == "URL").then(|| "s://u:hunter2@h".into()),
        read_secret: &|_| Err("none".into()),
        overrides: &Overrides::of(program.variables, variables),
    };
    let source = Source { name: "f".into(), text: text.into() };
    let outcome = doorbell_config::load(program, &source, external);
    (source, outcome)
}

/// The report as text, and in all forms.
fn report(text: &str, variables: &[(&str, &str)]) -> (String, String) {
    let (source, outcome) = load(text, variables);
    let shown = source.render(&outcome.problems, false);
    let json = source.to_json(&outcome.problems);
    let all = format!("{shown}{json}{}", source.to_sarif(&outcome.problems, ["t", "1"]));
    (shown, all)
}

#[test]
fn no_report_shows_a_secret() {
    for (text, expected) in [
        // The message quotes the value.
        ("[check.a]\naddress = \"s://u:hunter2@h\"\n", "\"s://***@h\" is not an IP address"),
        ("[check.a]\naddress = \"${URL}\"\n", "\"s://***@h\" is not an IP address"),
        ("[check.a]\nmode = '''\npassword = \"hunter2\"\n'''\n", "`mode` cannot be \"***\""),
        ("[check.a]\nmode = \"\"\"on\npassword = \"hunter2\"\n", "`mode` cannot be \"***\""),
        ("[check.a]\nheaders = { a = 12345678 }\n", "expected a string"),
        ("[check.a]\npassword = 1 # hunter2\n", "password = * # *******"),
        // A value in place of a table.
        ("[check.a]\nheaders = [\"Authorization: hunter2\"]\n", "headers = [\"**"),
        ("[check.a]\nheaders = \"Authorization: hunter2\"\n", "headers = \"**"),
        ("check = \"hunter2\"\n", "check = \"*******\""),
        ("[[admin]]\ntoken = \"hunter2\"\n", "[[admin]]"),
        // Lines that are not TOML.
        ("[check.a]\nmode = \"\"\"on\"\n[check.b]\npassword = \"hunter2\"\n", "\"*******\""),
        ("[check.a]\r\nmode = \"\"\"on\"\r\npassword = \"hunter2\"\r\n", "\"*******\""),
        ("[check.a.headers]\ncookie \"hunter2\"\n", "****** \"*******\""),
        ("[admin]\ntoken =\n  hunter2\n", "token ="),
        ("[check.a]\n#headers = { a = \"\"\"\nhunter2\"\"\" }\n", "*******\"\"\"**"),
        ("check:\n  a:\n    headers:\n      bob: hunter2\n", "check:"),
        ("{\"check\": {\"a\": {\n\"headers\": {\n\"bob\": \"hunter2\"}}}}\n", "{\""),
        // A problem on a line before the broken line.
        ("[check.a]\nmode = 1 # hunter2\nx\n", "mode = 1 # *******"),
    ] {
        let (shown, all) = report(text, &[]);
        assert!(shown.contains(expected), "{text}\n{shown}");
        assert!(!all.contains("hunter2") && !all.contains("12345678"), "{text}\n{all}");
    }
}

#[test]
fn no_report_shows_a_secret_in_a_variable() {
    for (name, value) in [
        ("T__CHECK__A__ADDRESS", "s://u:hunter2@h"),
        ("T__CHECK__A__ADDRESS", "a\ns://u:hunter2@h\n"),
        ("T__CHECK__A__HEADERS", "Authorization: hunter2"),
        ("T__CHECK__A__HEADERS", "a\nhunter2\r\n"),
        ("T__CHECK__A__HEADERS__COOKIE", "${hunter2"),
        ("T__CHECK__A__PASSWROD", "hunter2"),
        ("T__ADMIN__PIN", "hunter2"),
        ("T__ADMIN__PIN", "a\nhunter2\n"),
        ("T__ADMIN__TOKEN__X", "hunter2"),
        ("T____", "hunter2"),
    ] {
        let (shown, all) = report("[check.a]\n[admin]\ntoken = \"${URL}\"\n", &[(name, value)]);
        assert!(shown.contains(name) && !all.contains("hunter2"), "{all}");
    }
}

#[test]
fn a_variable_of_several_lines_is_shown_on_one() {
    let variables = [("T__CHECK__A__MODE", "on\r\n"), ("T__CHECK__B__MODE", "of")];
    let (shown, _) = report("", &variables);
    for expected in [
        "`mode` cannot be \"on\\r\\n\"",
        "T__CHECK__A__MODE=on  \n",
        "`mode` cannot be \"of\"",
        "environment:2:19",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

/// Text and JSON of the report, and the number of errors, for that many errors after 60 warnings.
fn many(errors: usize) -> (String, Json, Json) {
    let mut text = String::new();
    for number in 0..60 {
        writeln!(text, "[check.w{number}]\npassword = \"clear\"").unwrap();
    }
    text.push_str("[admin]\n");
    for number in 0..errors {
        writeln!(text, "x{number} = 1").unwrap();
    }
    let (source, outcome) = load(&text, &[]);
    let found = outcome.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    assert_eq!((found, outcome.problems.len()), (errors, errors + 60));
    let shown = source.render(&outcome.problems, false);
    (shown, source.to_json(&outcome.problems), source.to_sarif(&outcome.problems, ["t", "1"]))
}

#[test]
fn a_report_shows_few_of_many_problems() {
    let (shown, json, sarif) = many(2_000);
    assert_eq!(shown.matches("error[unknown-key]").count(), 50);
    assert!(shown.contains("--> f:122:1\n") && shown.ends_with("\nand 2010 more\n"), "{shown}");
    assert_eq!(json["problems"].as_array().unwrap().len(), 50);
    assert_eq!((&json["more"], &json["valid"]), (&2010.into(), &false.into()));
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), 50);
    let note = &sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(note["message"]["text"], "and 2010 more");
}

#[test]
fn errors_are_shown_before_warnings() {
    let (shown, json, _) = many(1);
    assert_eq!((shown.matches("warning[").count(), shown.matches("error[").count()), (49, 1));
    assert!(shown.ends_with("\nand 11 more\n"), "{shown}");
    assert_eq!(json["problems"][49]["code"], "unknown-key", "in the order of the file");
}
