//! Effects and repeatability, computed from outcomes with known figures.

use super::*;
use crate::plan::{Mode, Sample};
use crate::report::{Form, Page, json, show};
use crate::variant::Settings;

const LOAD: Load = Load::new(Mode::Close, 64);

fn outcome(server: &str, instructions: i64) -> Outcome {
    let row = Row { server: server.into(), load: LOAD };
    let sample = Sample {
        requests: 1,
        server: instructions,
        machine: 5 * instructions,
        elapsed: 5 * instructions,
        ..Sample::default()
    };
    Outcome { row, samples: vec![sample], failure: None }
}

/// Deferred task work on io_uring, with each of its two comparisons in its own boot.
fn boots() -> Vec<Vec<Pair>> {
    let defaults = Settings::of(&[("tuning.defer_taskrun", "true"), ("tuning.single_issuer", "true")]);
    plan::boots(&plan::pairs(Driver::IoUring, &["deferred task work".to_owned()], &defaults))
}

fn run(rows: Vec<Outcome>) -> Run {
    let conditions = Conditions { kernel: "6.12.117+deb12".into(), ..Conditions::default() };
    Run { conditions, rows, ..Run::default() }
}

fn measured(boots: &[Vec<Pair>], with: i64, without: i64) -> Vec<Run> {
    let of = |pair: &Pair| [outcome(&pair.with.name, with), outcome(&pair.without.name, without)];
    boots.iter().map(|pairs| run(pairs.iter().flat_map(of).collect())).collect()
}

fn text(form: Form, page: Page) -> String {
    show(form, &(), || page)
}

#[test]
fn an_effect_compares_with_and_without() {
    let boots = boots();
    let conditions = run(Vec::new()).conditions;
    let answers = [Answer::new(conditions, &boots, &measured(&boots, 9_000, 10_000), &[LOAD])];
    assert_eq!(answers[0].effects.len(), 2);
    assert!(answers[0].is_clean());
    let markdown = text(Form::Markdown, page(&answers));
    assert!(
        markdown.starts_with(
            "## Deferred task work\n\nOn: `defer_taskrun=true`. Off: `defer_taskrun=false`. Default: on.\n\n| driver | load | set | 6.12 |\n"
        ),
        "{markdown}"
    );
    assert!(
        markdown.contains("| io_uring | `close/64` | alone | 9,000 / 10,000 (-10.0 %, -10.0 %) |\n"),
        "{markdown}"
    );
    let json: serde_json::Value = serde_json::from_str(&json(&answers)).unwrap();
    assert_eq!(json[0]["effects"][0]["set"], "full");
    assert_eq!(json[0]["effects"][0]["server_percent"], -10.0);
}

#[test]
fn a_failure_is_said_and_gives_no_figure() {
    let boots = boots();
    let mut measured = measured(&boots, 9_000, 10_000);
    measured[0].rows[1].failure = Some("the server | is gone".into());
    measured[1].rows[0].samples[0].failed = 2;
    let answer = Answer::new(Conditions::default(), &boots, &measured, &[LOAD]);
    assert!(answer.effects.iter().all(|effect| effect.failure.is_some()), "{:?}", answer.effects);
    let table = text(Form::Table, page(&[answer]));
    assert!(table.contains("failed: io_uring-full defer_taskrun=false: the server | is gone"), "{table}");
    assert!(table.contains("2 requests failed"), "{table}");
}

#[test]
fn servers_in_several_boots_show_the_repeatability() {
    let boots =
        [vec![outcome("a", 10_000), outcome("b", 1)], vec![outcome("a", 10_200), outcome("c", 500)]].map(run);
    let found = repeatability(LOAD, &boots);
    assert!(
        (found.server_percent - 2.0).abs() < 1e-9 && (found.machine_percent - 2.0).abs() < 1e-9,
        "{found:?}"
    );
    let mut failed = boots;
    failed[1].rows[0].failure = Some("gone".into());
    assert!(repeatability(LOAD, &failed).server_percent < 1e-9);
}
