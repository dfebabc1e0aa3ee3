//! Results of a derived table for a file: values, exact problems, schema and dump.

use doorbell_config::{
    Entry, ExternalValues, Json, Key, Overrides, Problem, Program, Rate, Secret, Section, Source, Table,
    Words,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = check)]
struct Sample {
    /// A switch.
    #[key(default = true)]
    flag: bool,
    /// A count.
    #[key(default = 4, range = 1..=COUNT_MAX)]
    count: u32,
    /// A limit.
    #[key(default = 2, range = 1..=9, nonzero)]
    limit: u8,
    /// A port.
    #[key(default = 80)]
    port: u16,
    /// A size.
    #[key(default = "16KiB", range = "256B..=1MiB", size)]
    bytes: u32,
    /// A time.
    #[key(default = "5s", range = "100ms..=1h", other_names = ["timeout"])]
    wait: Duration,
    /// A time, or none.
    #[key(default = "1h", none = "off", range = "1s..=1d")]
    age: Option<Duration>,
    /// A number, or the best one.
    #[key(default = "auto", none = "auto", range = 1..=64)]
    threads: Option<u32>,
    /// A word.
    #[key(default = "io_uring")]
    driver: Driver,
    /// Several words.
    #[key(default = ["epoll", "io_uring"], filled)]
    drivers: Vec<Driver>,
    /// Texts.
    names: Vec<String>,
    /// A place.
    path: Option<PathBuf>,
    /// A secret.
    token: Option<Secret>,
    /// How often.
    #[key(default = "10/s")]
    rate: Rate,
    /// Maximum burst. Default: the number of requests of `rate`.
    #[key(default_with = burst)]
    burst: u32,
    /// A part.
    inner: Inner,
    /// Another part.
    other: Option<Inner>,
    /// A letter.
    #[key(default = "a", with = letter)]
    letter: char,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Table)]
struct Inner {
    /// A text.
    #[key(required = "\"x\"")]
    text: String,
    /// A switch.
    #[key(name = "loop", default = false)]
    is_loop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Words)]
enum Driver {
    Epoll,
    #[word("io_uring")]
    IoUring,
    SingleShot,
}

const COUNT_MAX: u32 = 8;

fn burst(sample: &Sample) -> u32 {
    sample.rate.requests
}

fn check(sample: &Sample, at: &Section<'_>) {
    if let (Some(place), false) = (at.right_place("count"), sample.flag) {
        at.problem(Problem::warning("no-effect", place, "nothing to count").help("set `flag`"));
    }
}

/// A type of another crate.
mod letter {
    use super::{Entry, Json, Key, json};

    pub(crate) fn read(entry: &Entry<'_>) -> Option<char> {
        let text = entry.string()?;
        let refuse = || entry.refuse("bad-value", format!("{text:?} is not a letter"), "write one");
        text.parse().ok().map_or_else(refuse, Some)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by the `Table` derive")]
    pub(crate) fn dump(letter: &char) -> Option<Json> {
        Some(letter.to_string().into())
    }

    pub(crate) fn form(_: &Key) -> Json {
        json!({ "type": "string", "maxLength": 1 })
    }
}

fn load(text: &str, overrides: &[(&str, &str)]) -> (Option<Sample>, Vec<String>) {
    let program = Program { schema: Sample::schema, variables: "T__", ..Program::NONE };
    let variables = overrides.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let overrides = Overrides::of(program.variables, variables);
    let outside = ExternalValues {
        env: &|name| (name == "NAME").then(|| "from-env".into()),
        read_secret: &|path| match path == Path::new("/token") {
            true => Ok("from-file".into()),
            false => Err("it is not there".into()),
        },
        overrides: &overrides,
    };
    let source = Source { name: "f".into(), text: text.into() };
    let outcome = doorbell_config::load::<Sample>(program, &source, outside);
    let lines = outcome.problems.iter().map(|problem| {
        let (line, column) = source.position(problem.span.start);
        let help = problem.help.as_deref().unwrap_or_default();
        format!("{line}:{column} {}: {}; {help}", problem.code, problem.message)
    });
    let lines = lines.collect();
    (outcome.value, lines)
}

#[test]
fn an_empty_file_has_the_defaults() {
    let (sample, problems) = load("", &[]);
    let sample = sample.unwrap();
    assert_eq!(problems, [""; 0]);
    assert_eq!(sample, Sample::default());
    let Sample { flag, count, limit, bytes, wait, age, threads, .. } = sample;
    assert_eq!((flag, count, limit, bytes), (true, 4, 2, 16 << 10));
    assert_eq!((wait, age, threads), (Duration::from_secs(5), Some(Duration::from_secs(3600)), None));
    assert_eq!((sample.driver, sample.drivers), (Driver::IoUring, vec![Driver::Epoll, Driver::IoUring]));
    assert_eq!((sample.burst, sample.letter, sample.other), (10, 'a', None));
}

#[test]
fn what_is_written_is_read_and_shown() {
    let text = r#"
flag = false
limit = 9
bytes = "1KiB"
wait = "1m30s"
age = "off"
threads = 3
driver = "single-shot"
drivers = "epoll"
names = ["${NAME}", "$${NAME}"]
path = "/p"
token = "${file:/token}"
rate = "600/m"
inner = { text = "t", loop = true }
letter = "é"
"#;
    let (sample, problems) = load(text, &[]);
    let sample = sample.unwrap();
    assert_eq!(problems, [""; 0]);
    assert_eq!(sample.token.as_ref().map(Secret::reveal), Some("from-file"));
    assert_eq!((sample.burst, sample.inner.is_loop), (600, true), "{sample:?}");
    let shown = json!({
        "flag": false, "limit": 9, "bytes": "1KiB", "wait": "1m30s", "age": "off", "threads": 3,
        "driver": "single-shot", "drivers": ["epoll"], "names": ["from-env", "$${NAME}"], "path": "/p",
        "token": "***", "rate": "600/m", "inner": { "text": "t", "loop": true }, "letter": "é",
    });
    assert_eq!(Table::to_json(&sample, false), shown);
    let all = Table::to_json(&sample, true);
    assert_eq!((&all["count"], &all["burst"], &all["inner"]["loop"]), (&json!(4), &json!(600), &json!(true)));
    assert!(!format!("{sample:?}{all}").contains("from-file"));
}

/// Each wrong line is reported with its place, code, message and help.
#[test]
fn every_problem_is_reported_with_its_place_and_help() {
    for (text, expected) in [
        ("flag = 1", "1:8 wrong-type: expected true or false, found a whole number; "),
        ("count = 9", "1:9 out-of-range: `count` is out of range; from 1 to 8"),
        ("count = -1", "1:9 out-of-range: `count` is out of range; from 1 to 8"),
        (
            "limit = 0",
            "1:9 zero-limit: `limit` must not be zero: zero would block everything; use a value above zero",
        ),
        ("limit = 300", "1:9 out-of-range: `limit` is out of range; from 1 to 9"),
        ("port = 65536", "1:8 out-of-range: `port` is out of range; from 0 to 65535"),
        ("bytes = \"1B\"", "1:9 out-of-range: `bytes` is out of range; from 256B to 1MiB"),
        (
            "bytes = \"1k\"",
            "1:9 bad-size: \"1k\" is not a size; write a number and a unit, as in \"512B\", \"16KiB\" or \"1MiB\"",
        ),
        ("wait = \"2h\"", "1:8 out-of-range: `wait` is out of range; from 100ms to 1h"),
        (
            "wait = 5",
            "1:8 wrong-type: expected a duration in quotes; write a number and a unit, as in \"250ms\", \"5s\", \"1m30s\" or \"2h\"",
        ),
        ("age = \"2d\"", "1:7 out-of-range: `age` is out of range; from 1s to 1d"),
        ("threads = 65", "1:11 out-of-range: `threads` is out of range; from 1 to 64"),
        ("threads = \"all\"", "1:11 wrong-type: expected \"auto\" or a whole number, found a string; "),
        (
            "driver = \"io-uring\"",
            "1:10 bad-value: `driver` cannot be \"io-uring\"; did you mean `io_uring`?",
        ),
        ("driver = \"EPOLL\"", "1:10 bad-value: `driver` cannot be \"EPOLL\"; did you mean `epoll`?"),
        (
            "driver = \"kqueue\"",
            "1:10 bad-value: `driver` cannot be \"kqueue\"; one of \"epoll\", \"io_uring\", \"single-shot\"",
        ),
        ("drivers = []", "1:11 empty-list: `drivers` is an empty list; remove it, or add an element"),
        (
            "names = 5",
            "1:9 wrong-type: expected a string or a list of strings, found a whole number; write it in quotes: \"5\"",
        ),
        (
            "names = [5]",
            "1:10 wrong-type: expected a string, found a whole number; write it in quotes: \"5\"",
        ),
        (
            "names = \"${NO}\"",
            "1:9 unset-variable: environment variable NO is not set; set it, or give a default: `${NO:-default}`",
        ),
        (
            "path = \"\"",
            "1:8 bad-value: \"\" is not the name of a file; write a path such as \"/etc/doorbell/tls/tls.crt\"",
        ),
        (
            "rate = \"fast\"",
            "1:8 bad-rate: \"fast\" is not a rate; write a number and a time, as in \"20/s\", \"600/m\" or \"1000/h\"",
        ),
        ("inner = {}", "1:9 missing-key: [inner] has no `text`; add `text = \"x\"`"),
        (
            "inner = 1",
            "1:9 wrong-type: expected a table, found a whole number; write the keys in braces, as in inner = { .. }",
        ),
        (
            "other.txet = \"a\"\nother.text = \"b\"",
            "1:7 unknown-key: unknown key \"txet\"; did you mean `text`?",
        ),
        ("timeout = \"5s\"", "1:1 unknown-key: unknown key \"timeout\"; it is called `wait`"),
        ("letter = \"ab\"", "1:10 bad-value: \"ab\" is not a letter; write one"),
        ("flag = false\ncount = 1", "2:9 no-effect: nothing to count; set `flag`"),
    ] {
        let (sample, problems) = load(text, &[]);
        assert_eq!(problems, [expected], "{text}");
        assert!(sample.is_some());
    }
}

#[test]
fn all_problems_come_at_once() {
    let (sample, problems) = load("count = 0\nwait = 5\nxyz = 1\ninner = {}\n", &[]);
    let codes: Vec<&str> = problems.iter().map(|one| one.split([' ', ':']).nth(2).unwrap()).collect();
    assert_eq!(codes, ["out-of-range", "wrong-type", "unknown-key", "missing-key"]);
    assert_eq!(sample.unwrap(), Sample::default());
}

/// A key on a line with a syntax error is not reported as missing.
#[test]
fn a_key_on_a_broken_line_is_not_missing() {
    let (_, problems) = load("[inner]\ntext \"x\"", &[]);
    assert!(problems.len() == 1 && problems[0].contains("syntax"), "{problems:?}");
}

#[test]
fn words_and_numbers_can_be_references() {
    for (text, age, threads) in [
        ("age = \"${NO:-off}\"\nthreads = \"${NO:-auto}\"", None, None),
        ("age = \"${NO:-5}s\"\nthreads = \"${NO:-3}\"", Some(5), Some(3)),
    ] {
        let (sample, problems) = load(text, &[]);
        let Sample { age: found, threads: count, .. } = sample.unwrap();
        assert_eq!((problems, found, count), (Vec::new(), age.map(Duration::from_secs), threads), "{text}");
    }
    for (text, expected) in [
        (
            "age = \"${NO:-never}\"",
            "1:7 bad-duration: \"never\" is not a duration; write a number and a unit, as in \"250ms\", \"5s\", \"1m30s\" or \"2h\"",
        ),
        (
            "threads = \"${NO}\"",
            "1:11 unset-variable: environment variable NO is not set; set it, or give a default: `${NO:-default}`",
        ),
        ("threads = \"${NO:-65}\"", "1:11 out-of-range: `threads` is out of range; from 1 to 64"),
        ("threads = \"3\"", "1:11 wrong-type: expected \"auto\" or a whole number, found a string; "),
    ] {
        assert_eq!(load(text, &[]).1, [expected], "{text}");
    }
}

#[test]
fn variables_stand_in_for_keys() {
    let (sample, problems) =
        load("count = 2\n", &[("T__COUNT", "3"), ("T__INNER__TEXT", "v"), ("T__WAIT", "1s")]);
    let sample = sample.unwrap();
    assert_eq!(problems, [""; 0]);
    assert_eq!((sample.count, &*sample.inner.text, sample.wait), (3, "v", Duration::from_secs(1)));
    let (sample, _) = load("", &[("T__NAMES", "a\r\nb\n")]);
    assert_eq!(sample.unwrap().names, ["a\r\nb\n"], "with its line ends");
    let (_, problems) = load("", &[("T__COUNT", "many")]);
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn the_schema_says_what_the_fields_declare() {
    let schema = Sample::schema();
    let key = |name: &str| schema["properties"][name].clone();
    assert_eq!(
        (&schema["description"], &schema["additionalProperties"]),
        (&json!("Everything."), &json!(false))
    );
    assert_eq!(
        key("count"),
        json!({ "type": "integer", "minimum": 1, "maximum": 8, "default": 4, "description": "A count." })
    );
    assert_eq!(key("wait")["default"], "5s");
    assert_eq!(key("driver")["anyOf"][0], json!({ "enum": ["epoll", "io_uring", "single-shot"] }));
    assert_eq!(key("drivers")["default"], json!(["epoll", "io_uring"]));
    assert_eq!(key("threads")["anyOf"][0]["anyOf"][0], json!({ "enum": ["auto"] }));
    assert_eq!(key("inner")["properties"]["loop"]["default"], false);
    assert_eq!(key("burst").get("default"), None);
    assert_eq!(key("letter")["maxLength"], 1);
}

/// A file with all defaults written out gives the same values as an empty file.
#[test]
fn defaults_read_back_the_same() {
    let all = Sample::default().to_json(true);
    let text = toml::to_string(&all).unwrap();
    let (sample, problems) = load(&text, &[]);
    assert_eq!((sample.unwrap(), problems), (Sample::default(), Vec::new()), "{text}");
}
