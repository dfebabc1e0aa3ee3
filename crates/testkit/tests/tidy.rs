//! Runs the rules of `doorbell_testkit::tidy` on the workspace, and each rule on a bad sample, so
//! that it cannot silently stop working.

use std::fmt::Write as _;
use std::sync::LazyLock;

use doorbell_testkit::tidy::{self, Complaint, Quoted, ROOMS, Ratchet, Retired, Source};

/// Files over the limit, with their length. This list may only shrink.
const LONG_FILES: Ratchet<'static> = &[];
/// Functions over the limit, with their length. This list may only shrink.
const LONG_FUNCTIONS: Ratchet<'static> = &[];
/// Files with assertions that a measured time is below a bound, and the number of assertions in
/// each. This list may only shrink.
const TIME_BOUNDS: Ratchet<'static> = &[];
/// Sizes of dependency cycles of files, by package, the largest first. They may only shrink.
const CIRCLES: &[(&str, &[usize])] = &[];
/// Words that names no longer use.
const RETIRED: &[Retired] = &[
    retired("asker", "a poller, a requester", &[]),
    retired("attend", "run, serve", &[]),
    retired("badness", "severity", &[]),
    retired("believes", "trusts, awaits", &[]),
    retired("census", "prober statistics", &[]),
    retired("circumstances", "conditions", &[]),
    retired("converse", "serve, exchange", &[]),
    retired("damage", "a decode error", &[]),
    retired("desk", "a result sink, a configuration, a cache, a queue", &[]),
    retired("died", "aborted, ended", &[]),
    retired("door", "routes, a service", &[]),
    retired("doors", "services", &[]),
    retired("driven", "an event of a connection", &[]),
    retired("duty", "work", &[]),
    retired("gently", "with a FIN", &[]),
    retired("happening", "an event kind", &[]),
    retired("heard", "received", &[]),
    retired("hears", "receives", &[]),
    retired("heir", "a successor", &[]),
    retired("inquiry", "a token job", &[]),
    retired("journal", "the event log", &[]),
    retired("keeper", "the health registry", &[]),
    retired("knows", "has, is_known", &[]),
    retired("ledger", "statistics of the process", &[]),
    retired("likeness", "secret names", &[]),
    retired("litter", "rollback files", &[]),
    retired("meter", "flood limits", &[]),
    retired("metered", "a counting stream", &[]),
    retired("mine", "own, current", &[]),
    retired("orphans", "the reaper", &[]),
    retired("rang", "expired", &[]),
    retired("said", "output, message, reply", &[]),
    retired("saw", "observed", &[]),
    retired("say", "print, write", &[]),
    retired("says", "decides, shows", &[]),
    retired("seat", "probe counters", &[]),
    retired("seldom", "a throttle", &[]),
    retired("soon", "a deadline", &[]),
    retired("strange", "unexpected", &[]),
    retired("stranger", "another program, an unknown name", &[]),
    retired("swallowed", "hidden, redirected", &[]),
    retired("talk", "serve, exchange", &[]),
    retired("talks", "serves, exchanges", &[]),
    retired("tallies", "counters", &[]),
    retired("tally", "counters", &["crates/health/src/endpoint/"]),
    retired("tell", "report, notify, log", &[]),
    retired("teller", "a notifier", &[]),
    retired("tells", "reports, shows", &[]),
    retired("told", "reported, notified", &[]),
    retired("totals", "statistics of a server", &[]),
    retired("usual", "default, typical", &[]),
    retired("wish", "an operation, the next step", &[]),
];

/// Packages whose comments and strings are not yet in plain English, each with its number of marked
/// lines per 1,000 lines. This list may only shrink.
const DIALECT: Ratchet<'static> = &[];
/// Allowed texts that contain a word of the list `MARKS`.
const QUOTED: &[Quoted] = &[
    quoted("crates/testkit/src/tidy/dialect.rs", "\"", "the list of marks itself"),
    quoted("crates/testkit/tests/tidy.rs", "asks", "bad samples of the rule"),
];

const fn quoted(path: &'static str, text: &'static str, reason: &'static str) -> Quoted {
    Quoted { path, text, reason }
}

const fn retired(word: &'static str, instead: &'static str, allowed: &'static [&'static str]) -> Retired {
    Retired { word, instead, allowed }
}

/// All files, read once for all tests.
fn workspace() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let sources = tidy::load().expect("the workspace can be read");
        assert!(
            sources.iter().any(|source| source.path == "crates/testkit/tests/tidy.rs"),
            "the list of files lacks this file"
        );
        sources
    });
    &SOURCES
}

fn assert_none(complaints: &[Complaint]) {
    let mut text = String::new();
    for complaint in complaints {
        writeln!(text, "  {complaint}").expect("a write to a string cannot fail");
    }
    assert!(complaints.is_empty(), "{} complaints:\n{text}", complaints.len());
}

#[test]
fn every_file_opens_with_what_it_owns() {
    assert_none(&tidy::headers(workspace()));
}

#[test]
fn files_and_functions_stay_short() {
    let sources = workspace();
    assert_none(&tidy::file_lengths(sources, LONG_FILES));
    assert_none(&tidy::function_lengths(sources, LONG_FUNCTIONS));
}

#[test]
fn packages_point_downwards() {
    assert_none(&tidy::package_arrows(workspace()));
}

#[test]
fn published_packages_have_what_registries_show() {
    assert_none(&tidy::publishable(workspace()));
}

#[test]
fn rooms_see_what_the_list_allows() {
    assert_none(&tidy::rooms(workspace(), ROOMS));
}

#[test]
fn circles_of_files_only_shrink() {
    assert_none(&tidy::circle_sizes(workspace(), CIRCLES));
}

#[test]
fn unsafe_lives_in_the_ring_crate_only() {
    let sources = workspace();
    assert_none(&tidy::unsafe_outside(sources));
    assert_none(&tidy::forbids_unsafe(sources));
}

#[test]
fn claims_and_invariants_are_stated() {
    assert_none(&tidy::claims(workspace()));
}

#[test]
fn nothing_is_left_open_or_ignored() {
    let sources = workspace();
    assert_none(&tidy::left_open(sources));
    assert_none(&tidy::ignores(sources));
}

#[test]
fn prose_cites_no_lines_and_no_machine() {
    let sources = workspace();
    assert_none(&tidy::line_citations(sources));
    assert_none(&tidy::machine_paths(sources));
}

#[test]
fn no_test_asserts_that_a_machine_is_fast() {
    assert_none(&tidy::time_bounds(workspace(), TIME_BOUNDS));
}

#[test]
fn names_use_no_retired_word() {
    assert_none(&tidy::retired_words(workspace(), RETIRED));
}

#[test]
fn comments_and_strings_are_plain_english() {
    assert!(QUOTED.iter().all(|quoted| !quoted.reason.is_empty()), "each quotation has a reason");
    assert_none(&tidy::dialect(workspace(), DIALECT, QUOTED));
}

#[test]
fn every_source_is_reached() {
    assert_none(&tidy::unreferenced(workspace()));
}

/// Each rule on samples: some that it must report, and similar ones that it must not.
mod samples {
    use super::*;

    fn lines(complaints: &[Complaint]) -> Vec<(&str, usize)> {
        complaints.iter().map(|complaint| (complaint.path.as_str(), complaint.line)).collect()
    }

    fn one(path: &str, text: &str) -> Vec<Source> {
        vec![Source::new(path, text)]
    }

    #[test]
    fn code_and_comments_are_separated() {
        let text = "let a = \"// no\"; // yes\nlet b = 'x'; let c: &'static str = r#\"un\"safe\"#; /* a /* b */ c */ let d = b'\\'';\n";
        let masked = tidy::mask(text);
        assert_eq!(masked.code.lines().count(), text.lines().count());
        assert!(
            !masked.code.contains("no") && !masked.code.contains("safe") && !masked.code.contains("a /*"),
            "{}",
            masked.code
        );
        assert!(masked.code.contains("'static str") && masked.code.contains("let d"));
        assert!(
            masked.comments.contains("// yes")
                && masked.comments.contains("b */ c")
                && !masked.comments.contains("no")
        );
        assert!(masked.literals.contains("\"// no\"") && masked.literals.contains("r#\"un\"safe\"#"));
        assert!(!masked.literals.contains("yes") && !masked.literals.contains("let"));
    }

    #[test]
    fn headers() {
        assert_eq!(lines(&tidy::headers(&one("a.rs", "use x;\n"))), [("a.rs", 1)]);
        assert_eq!(lines(&tidy::headers(&one("a.rs", "\n//! late\n"))), [("a.rs", 1)]);
        assert!(tidy::headers(&one("a.rs", "//! Owns a.\n")).is_empty());
        assert!(tidy::headers(&one("a.md", "text\n")).is_empty());
    }

    #[test]
    fn retired_words() {
        let rule = [retired("door", "routes", &["crates/a/"])];
        let found = |path: &str, text: &str| tidy::retired_words(&one(path, text), &rule);
        let text = "//! A door.\nlet doorbell = \"door\";\nlet door_code = Indoors;\nstruct OpenDoor;\nconst DOOR: u8;\n";
        let stale = ("crates/a/", 0);
        assert_eq!(
            lines(&found("crates/b/src/b.rs", text)),
            [("crates/b/src/b.rs", 3), ("crates/b/src/b.rs", 4), ("crates/b/src/b.rs", 5), stale]
        );
        assert_eq!(lines(&found("crates/b/tests/b.rs", text)), [stale], "tests are exempt");
        assert!(found("crates/a/src/a.rs", text).is_empty());
    }

    #[test]
    fn dialect() {
        let plain = "/// Sends the bytes.\n".repeat(199);
        let sample = |marked: &str| one("crates/x/src/a.rs", &format!("{plain}{marked}\n"));
        let found = |marked: &str| tidy::dialect(&sample(marked), &[], &[]).len();
        assert_eq!(found("// Whoever asks.\n/// Nobody asks.\n"), 3, "the figure and two lines");
        assert_eq!(found("fn f() { g(\"whoever asks\", \"is told\") }\n// he asks twice"), 3, "in strings");
        assert_eq!(found("// The whole theme asks, besides.\nlet who = nobody(him); // The end"), 0);
        assert_eq!(found("// Whoever asks."), 0, "5 in 1,000 are within the limit");
        let two = sample("// Whoever asks.\n// He asks.");
        let ratchet = |figure: usize| tidy::dialect(&two, &[("crates/x", figure)], &[]).len();
        assert_eq!(ratchet(10), 0);
        assert_eq!(ratchet(9), 3, "growing");
        assert_eq!(tidy::dialect(&sample(""), &[("crates/x", 10)], &[]).len(), 1, "stale entry");
        assert_eq!(tidy::dialect(&[], &[("crates/gone", 10)], &[]).len(), 1, "stale entry of a package");
        let quotations = [quoted("crates/x/", "he asks", "a sample")];
        assert!(tidy::dialect(&two, &[], &quotations).is_empty());
        assert_eq!(tidy::dialect(&sample(""), &[], &quotations).len(), 1, "stale quotation");
    }

    #[test]
    fn file_length_and_its_ratchet() {
        let long = |lines: usize| one("crates/x/src/a.rs", &"//! x\n".repeat(lines));
        assert!(tidy::file_lengths(&long(600), &[]).is_empty());
        assert_eq!(tidy::file_lengths(&long(601), &[]).len(), 1);
        assert!(tidy::file_lengths(&long(700), &[("crates/x/src/a.rs", 700)]).is_empty());
        assert_eq!(tidy::file_lengths(&long(701), &[("crates/x/src/a.rs", 700)]).len(), 1, "growing");
        assert_eq!(
            tidy::file_lengths(&long(650), &[("crates/x/src/a.rs", 700)]).len(),
            1,
            "the list may only shrink"
        );
        assert_eq!(tidy::file_lengths(&long(10), &[("crates/x/src/a.rs", 700)]).len(), 1, "stale entry");
        assert_eq!(tidy::file_lengths(&[], &[("gone.rs", 700)]).len(), 1, "stale entry of a deleted file");
        assert!(tidy::file_lengths(&one("crates/x/tests/a.rs", &"//! x\n".repeat(900)), &[]).is_empty());
    }

    #[test]
    fn function_length() {
        let body = |lines: usize| {
            format!("impl A {{\n  fn b(c: [u8; 3]) -> u8\n  {{\n{}  }}\n}}\n", "    c();\n".repeat(lines))
        };
        assert!(tidy::function_lengths(&one("crates/x/src/a.rs", &body(70)), &[]).is_empty());
        let complaints = tidy::function_lengths(&one("crates/x/src/a.rs", &body(71)), &[]);
        assert_eq!(lines(&complaints), [("crates/x/src/a.rs", 2)]);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", body(90));
        assert!(tidy::function_lengths(&one("crates/x/src/a.rs", &tested), &[]).is_empty());
        assert!(tidy::functions("trait T { fn a(); fn b(&self) -> [u8; 4]; }").is_empty());
    }

    #[test]
    fn packages() {
        let lints = "[lints]\nworkspace = true\n";
        let check = |folder: &str, text: &str| {
            tidy::package_arrows(&one(&format!("{folder}/Cargo.toml"), &format!("{lints}{text}"))).len()
        };
        assert_eq!(check("crates/http", "[dependencies]\ndoorbell-ring.workspace = true\n"), 1);
        assert_eq!(check("crates/ring", "[dependencies.doorbell-http]\nworkspace = true\n"), 1);
        assert_eq!(check("crates/ring", "[dev-dependencies]\ndoorbell-http = { path = \"x\" }\n"), 1);
        assert_eq!(check("crates/doorbell", "[dependencies]\ndoorbell-testkit.workspace = true\n"), 1);
        assert_eq!(check("crates/doorbell", "[dev-dependencies]\ndoorbell-testkit.workspace = true\n"), 0);
        assert_eq!(check("crates/doorbell", "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"\n"), 1);
        assert_eq!(
            check("bins/doorbell", "[dependencies]\ndoorbell.workspace = true\ntoml.workspace = true\n"),
            0
        );
        assert_eq!(check("bins/doorbell", "[dependencies]\ndoorbell-http.workspace = true\n"), 1);
        assert_eq!(check("crates/health", "[dependencies]\ndoorbell-http.workspace = true\n"), 1);
        assert_eq!(check("crates/health", "[dependencies]\ntokio = \"1\"\n"), 1);
        assert_eq!(check("crates/doorbell", "[dependencies]\ndoorbell-health.workspace = true\n"), 1);
        assert_eq!(check("bins/doorbell", "[dependencies]\ndoorbell-health.workspace = true\n"), 0);
        assert_eq!(check("crates/unheard", ""), 1);
        assert_eq!(
            tidy::package_arrows(&one("crates/http/Cargo.toml", "[dependencies]\n")).len(),
            1,
            "lints not inherited"
        );
    }

    #[test]
    fn published_packages() {
        let good = "[package]\nname = \"a\"\ndescription = \"A\"\nrust-version.workspace = true\n\
             license.workspace = true\nrepository.workspace = true\nreadme = \"README.md\"\n\
             keywords = [\"a\", \"b\"]\ncategories = [\"config\"]\n\n\
             [package.metadata.docs.rs]\nall-features = true\n";
        let check = |text: &str| tidy::publishable(&one("crates/a/Cargo.toml", text)).len();
        assert_eq!(check(good), 0);
        assert_eq!(check(&good.replace("repository.", "homepage.")), 1);
        assert_eq!(check(&good.replace("\"b\"", "\"b\", \"c\", \"d\", \"e\", \"f\"")), 1);
        assert_eq!(check(&good.replace("all-features = true", "")), 1);
        assert_eq!(check("[package]\nname = \"a\"\n"), 8, "seven fields and docs.rs");
        assert_eq!(check("[package]\nname = \"a\"\npublish = false\n"), 0);
        assert_eq!(check(&format!("{good}\n[lib]\npublish = false\n").replace("license.", "x.")), 1);

        let root = Source::new("Cargo.toml", "[workspace.dependencies]\na = { path = \"crates/a\" }\n");
        let versions =
            |member: &str| tidy::publishable(&[root.clone(), Source::new("crates/a/Cargo.toml", member)]);
        assert_eq!(lines(&versions(good)), [("Cargo.toml", 2)]);
        assert!(versions("[package]\nname = \"a\"\npublish = false\n").is_empty());
    }

    /// Two top-level modules, and a crate root that re-exports an item of the first one under another
    /// name.
    fn rooms(inner: &str, text: &str) -> Vec<Source> {
        let file = |inner: &str, text: &str| Source::new(&format!("crates/a/src/{inner}"), text);
        let mut sources = vec![
            Source::new("crates/a/Cargo.toml", "[package]\nname = \"a-a\"\n"),
            file("lib.rs", "//! x\nmod one;\nmod two;\npub use one::{Table, Slot as Place};\n"),
            file("one/mod.rs", "//! x\nmod inner;\npub use inner::*;\npub struct Table;\n"),
            file("one/inner.rs", "//! x\npub enum Slot { Free }\ncounters! { pub struct Counters {} }\n"),
            file("two.rs", "//! x\n"),
        ];
        let path = format!("crates/a/src/{inner}");
        sources.retain(|source| source.path != path);
        sources.push(Source::new(&path, text));
        sources
    }

    #[test]
    fn arrows_between_rooms() {
        let none = "[crates/a]\none:\n";
        let check = |text: &str| tidy::rooms(&rooms("two.rs", text), none);
        assert_eq!(lines(&check("//! x\nuse crate::one::Table;\n")), [("crates/a/src/two.rs", 2)]);
        assert_eq!(check("fn f() { super::one::Table; }").len(), 1, "in code");
        assert_eq!(check("use crate::{one::Slot, one::Table};").len(), 1, "one complaint per dependency");
        assert_eq!(check("fn f() { let x = crate::Place::Free; }").len(), 1, "through two re-exports");
        assert_eq!(check("fn f() { assert!(x == crate::Place::Free); }").len(), 1, "in a macro call");
        assert_eq!(check("use crate::one;\nfn f(_: one::Counters) {}").len(), 1, "defined by a macro call");
        assert_eq!(check("mod deep { use a_a::Table; }").len(), 1, "by the name of the package");
        assert!(check("use crate::one;").is_empty(), "a module is not an item");
        let hidden = "mod deep { pub use crate::one::Table; }\nfn deep() {}\nfn f(_: deep::Table) {}";
        assert_eq!(check(hidden).len(), 1, "a function has the name of the module");
        assert!(check("fn f() -> Table { \"crate::one::Table\" } // crate::one::Table").is_empty());
        assert!(check("#[cfg(test)]\nmod tests { use crate::one::Table; }").is_empty());
        assert!(check("#[cfg(all(test, feature = \"x\"))]\nuse crate::one::Table;").is_empty());
    }

    #[test]
    fn the_list_of_arrows_is_exact() {
        let sources = rooms("two.rs", "use crate::one::Table;");
        assert!(tidy::rooms(&sources, "# x\n[crates/a]\ntwo: one\n").is_empty());
        assert_eq!(tidy::rooms(&sources, "[crates/b]\ntwo: one\n").len(), 2, "another package");
        assert_eq!(tidy::rooms(&sources, "[crates/a]\ntwo: one three\n").len(), 1, "not needed");
    }

    #[test]
    fn circles() {
        let mut sources = rooms("two.rs", "//! x\n");
        let ring = |at: usize, next: usize| {
            let text = format!("use super::f{next}::F as G;\npub struct F(G);\n");
            Source::new(&format!("crates/a/src/two/f{at}.rs"), &text)
        };
        let mods = |count: usize| (0..count).map(|at| format!("mod f{at};")).collect::<String>();
        let mut check = |count: usize, ratchet: &[(&str, &[usize])]| {
            sources.retain(|source| !source.path.contains("/two"));
            sources.push(Source::new("crates/a/src/two.rs", &mods(count)));
            sources.extend((0..count).map(|at| ring(at, (at + 1) % count)));
            tidy::circle_sizes(&sources, ratchet)
        };
        let few = tidy::CIRCLE_FILES_MAX;
        assert!(check(few, &[]).is_empty());
        assert_eq!(check(few + 1, &[]).len(), 1);
        assert!(check(few + 1, &[("crates/a", &[few + 1])]).is_empty());
        assert_eq!(check(few + 1, &[("crates/a", &[few + 2])]).len(), 1, "stale entry of a smaller cycle");
        assert_eq!(check(few, &[("crates/a", &[few + 1])]).len(), 1, "stale entry of a small cycle");
    }

    #[test]
    fn unsafe_code() {
        assert_eq!(
            lines(&tidy::unsafe_outside(&one("crates/http/src/a.rs", "//! x\nunsafe { f() }\n"))),
            [("crates/http/src/a.rs", 2)]
        );
        assert!(
            tidy::unsafe_outside(&one("crates/http/src/a.rs", "// unsafe\nlet unsafe_code = \"unsafe\";\n"))
                .is_empty()
        );
        assert!(tidy::unsafe_outside(&one("crates/ring/src/a.rs", "unsafe { f() }\n")).is_empty());
        assert_eq!(
            tidy::forbids_unsafe(&one("crates/http/src/lib.rs", "//! #![forbid(unsafe_code)]\n")).len(),
            1
        );
        assert!(tidy::forbids_unsafe(&one("crates/http/src/lib.rs", "#![forbid(unsafe_code)]\n")).is_empty());
    }

    #[test]
    fn claims() {
        let page = Source::new("crates/ring/src/lib.rs", "//! - **R-1** The kernel only sees pool memory.\n");
        let manual = Source::new(
            "crates/doorbell/src/worker/mod.rs",
            "//! Cites no number.\n//! - **I-3** A slot is freed late.\n",
        );
        let check = |path: &str, text: &str| {
            tidy::claims(&[page.clone(), manual.clone(), Source::new(path, text)]).len()
        };
        assert_eq!(check("crates/ring/src/a.rs", "// SAFETY: trust me.\nf()"), 1);
        assert_eq!(
            check("crates/ring/src/a.rs", "// SAFETY: the pool outlives the ring,\n// by R-1.\nf()"),
            0
        );
        assert_eq!(check("crates/ring/src/a.rs", "// SAFETY: by R-2.\nf()"), 1);
        assert_eq!(check("crates/doorbell/src/a.rs", "assert!(ok, \"I-3\");"), 0);
        assert_eq!(check("crates/doorbell/src/a.rs", "assert!(ok, \"I-4\");"), 1);
        assert_eq!(check("crates/doorbell/src/a.rs", "// ABI-4 is not ours"), 0);
    }

    #[test]
    fn left_open() {
        let placeholder = concat!("fn a() { to", "do!() }");
        assert_eq!(tidy::left_open(&one("a.rs", placeholder)).len(), 1);
        assert_eq!(tidy::left_open(&one("a.rs", concat!("// FIX", "ME later"))).len(), 1);
        assert!(tidy::left_open(&one("a.rs", "let a = \"FIXME\"; // todo lists are fine\n")).is_empty());
        assert_eq!(tidy::ignores(&one("a.rs", concat!("#[ign", "ore]\nfn a() {}"))).len(), 1);
        assert!(tidy::ignores(&one("a.rs", "#[ignore = \"needs a second machine\"]\nfn a() {}")).is_empty());
    }

    #[test]
    fn prose() {
        assert_eq!(tidy::line_citations(&one("a.md", "see `src/turn.rs:17`")).len(), 1);
        assert_eq!(tidy::line_citations(&one("a.md", "see turn.rs#L17")).len(), 1);
        assert!(
            tidy::line_citations(&one("a.md", "see `Worker::turn` in turn.rs: it waits at 127.0.0.1:80"))
                .is_empty()
        );
        assert_eq!(tidy::machine_paths(&one(".ci/run", concat!("cd /wo", "rk/main"))).len(), 1);
        assert!(tidy::machine_paths(&one(".ci/run", "cd \"$(dirname \"$0\")/..\"")).is_empty());
    }

    #[test]
    fn times() {
        let check = |text: &str| tidy::time_bounds(&one("crates/x/tests/a.rs", text), &[]).len();
        assert_eq!(check("assert!(from.elapsed() < Duration::from_secs(3), \"slow\");\n"), 1);
        assert_eq!(check("assert!(\n    took >= SOON && took <= 2 * SOON,\n    \"{took:?}\"\n);\n"), 1);
        assert_eq!(check("assert!(took >= Duration::from_secs(1));\nlet is_late = took < SOON;\n"), 0);
        assert_eq!(
            check("while !done() {\n    assert!(start.elapsed() < LIMIT, \"never\");\n}\n"),
            0,
            "a wait"
        );
        assert_eq!(check("assert!(errors < 3, \"{took:?}\");\n"), 0);
        let inline = one("crates/x/src/a.rs", "#[cfg(test)]\nmod tests {\n    assert!(took < SOON);\n}\n");
        assert_eq!(tidy::time_bounds(&inline, &[]).len(), 1);
        let two = one("crates/x/tests/a.rs", &"assert!(took < SOON);\n".repeat(2));
        assert!(tidy::time_bounds(&two, &[("crates/x/tests/a.rs", 2)]).is_empty());
        assert_eq!(
            tidy::time_bounds(&two, &[("crates/x/tests/a.rs", 3)]).len(),
            1,
            "the list may only shrink"
        );
        assert_eq!(tidy::time_bounds(&two, &[("crates/x/tests/a.rs", 1)]).len(), 2);
        assert_eq!(tidy::time_bounds(&[], &[("gone.rs", 1)]).len(), 1, "stale entry");
    }

    #[test]
    fn reachability() {
        let tree = |extra: &str| {
            vec![
                Source::new("crates/x/src/lib.rs", "//! x\npub mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n"),
                Source::new("crates/x/src/a.rs", "//! x\n"),
                Source::new("crates/x/src/b/mod.rs", "//! x\nmod c;\n"),
                Source::new("crates/x/src/b/c.rs", "//! x\n"),
                Source::new("crates/x/src/tests.rs", "//! x\n"),
                Source::new("crates/x/tests/t.rs", "//! x\nmod common;\n"),
                Source::new("crates/x/tests/common/mod.rs", "//! x\n"),
                Source::new("crates/x/tests/e2e/main.rs", "//! x\nmod one;\n"),
                Source::new(
                    "crates/x/tests/e2e/one.rs",
                    "//! x\n#[path = \"../../fuzz/shared.rs\"]\nmod shared;\n",
                ),
                Source::new("crates/x/fuzz/shared.rs", "//! x\n"),
                Source::new(extra, "//! x\n"),
            ]
        };
        assert_eq!(lines(&tidy::unreferenced(&tree("crates/x/src/b/d.rs"))), [("crates/x/src/b/d.rs", 0)]);
        assert_eq!(tidy::unreferenced(&tree("crates/x/src/c.rs")).len(), 1);
        assert_eq!(tidy::unreferenced(&tree("crates/x/tests/helpers/mod.rs")).len(), 1);
        assert!(tidy::unreferenced(&tree("crates/x/examples/echo.rs")).is_empty());
    }
}
