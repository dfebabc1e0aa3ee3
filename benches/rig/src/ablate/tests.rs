//! Effects and repeatability from outcomes whose figures are known.
//!
//! Does not know about: guests.

use super::report::{self, Form};
use super::*;
use crate::plan::{Mode, Sample};
use crate::variant::Settings;

const LOAD: Load = Load { mode: Mode::Close, in_flight: 64 };

fn outcome(server: &str, instructions: i64) -> Outcome {
    let row = Row { server: server.into(), mode: LOAD.mode, in_flight: LOAD.in_flight };
    let sample = Sample {
        requests: 1,
        server: instructions,
        machine: 5 * instructions,
        elapsed: 5 * instructions,
        ..Sample::default()
    };
    Outcome { row, samples: vec![sample], failure: None }
}

/// Deferred task work on io_uring: both comparisons, each in a boot of its own.
fn boots() -> Vec<Vec<Pair>> {
    let defaults = Settings::of(&[("tuning.defer_taskrun", "true"), ("tuning.single_issuer", "true")]);
    plan::boots(&plan::pairs(Engine::IoUring, &["deferred task work".to_owned()], &defaults))
}

fn measured(boots: &[Vec<Pair>], with: i64, without: i64) -> Vec<Vec<Outcome>> {
    boots
        .iter()
        .map(|pairs| {
            pairs
                .iter()
                .flat_map(|pair| [outcome(&pair.with.name, with), outcome(&pair.without.name, without)])
                .collect()
        })
        .collect()
}

#[test]
fn an_effect_is_with_beside_without() {
    let boots = boots();
    let answer = answer(
        Conditions { kernel: "6.12".into(), ..Conditions::default() },
        &boots,
        &measured(&boots, 9_000, 10_000),
        &[LOAD],
    );
    assert_eq!(answer.effects.len(), 2);
    let answers = [answer];
    let table = report::show(&answers, Form::Table);
    assert!(table.contains("deferred task work   *  io_uring  in the full set     9,000 / 45,000    10,000 / 50,000   -10.0 %   -10.0 %"), "{table}");
    let markdown = report::show(&answers, Form::Markdown);
    assert!(
        markdown.contains("## Deferred task work\n\nOn: `defer_taskrun=true`. Off: `defer_taskrun=false`."),
        "{markdown}"
    );
    assert!(
        markdown.contains("| `close/64` | alone | 9,000 / 45,000 | 10,000 / 50,000 | -10.0 % | -10.0 % |"),
        "{markdown}"
    );
    let json: serde_json::Value = serde_json::from_str(&report::show(&answers, Form::Json)).unwrap();
    assert_eq!(json[0]["effects"][0]["set"], "full");
    assert_eq!(json[0]["effects"][0]["server_percent"], -10.0);
    let file = std::env::temp_dir().join(format!("doorbell-rig-ablate-{}.json", std::process::id()));
    fs::write(&file, report::show(&answers, Form::Json)).unwrap();
    let again = again(&file, Form::Markdown);
    fs::remove_file(&file).unwrap();
    assert_eq!(again.unwrap(), (markdown, true));
}

#[test]
fn a_failure_is_said_and_gives_no_figure() {
    let boots = boots();
    let mut measured = measured(&boots, 9_000, 10_000);
    measured[0][1].failure = Some("the server | is gone".into());
    measured[1][0].samples[0].failed = 2;
    let answer = answer(Conditions::default(), &boots, &measured, &[LOAD]);
    assert!(answer.effects.iter().all(|effect| effect.failure.is_some()), "{:?}", answer.effects);
    let table = report::show(&[answer], Form::Table);
    assert!(table.contains("failed: io_uring-full defer_taskrun=false: the server   is gone"), "{table}");
    assert!(table.contains("2 requests failed"), "{table}");
}

#[test]
fn what_is_in_several_boots_shows_how_well_they_repeat() {
    let boots = [vec![outcome("a", 10_000), outcome("b", 1)], vec![outcome("a", 10_200), outcome("c", 500)]];
    let found = repeatability(LOAD, &boots);
    assert!(
        (found.server_percent - 2.0).abs() < 1e-9 && (found.machine_percent - 2.0).abs() < 1e-9,
        "{found:?}"
    );
    let mut failed = boots;
    failed[1][0].failure = Some("gone".into());
    assert!(repeatability(LOAD, &failed).server_percent < 1e-9);
}
