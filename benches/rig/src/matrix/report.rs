//! Answers as text, as a Markdown table, or as JSON.
//!
//! Does not know about: how they were found.

use std::fmt::Write;

use super::answer::{Answer, Found, Tests};

/// Forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For machines.
    Json,
    /// One table of all.
    Markdown,
    /// For people, with every reason.
    Table,
}

pub(super) fn show(answers: &[Answer], form: Form) -> String {
    match form {
        Form::Json => format!("{:#}\n", serde_json::json!(answers)),
        Form::Markdown => markdown(answers),
        Form::Table => answers.iter().map(block).collect(),
    }
}

fn block(answer: &Answer) -> String {
    let mut text = String::new();
    line(
        &mut text,
        format_args!(
            "Linux {} ({}), asked for as {}",
            answer.conditions.kernel, answer.conditions.kernel_package, answer.kernel
        ),
    );
    if let Some(failure) = &answer.failure {
        line(&mut text, format_args!("  FAILED: {failure}\n"));
        return text;
    }
    for found in &answer.found {
        line(&mut text, format_args!("  io_uring {}", found.setting.name()));
        if !found.is_there {
            line(&mut text, format_args!("    this kernel has no such switch"));
            continue;
        }
        line(&mut text, format_args!("    driver              {}: {}", found.driver, found.why));
        for (name, said) in &found.ways {
            line(&mut text, format_args!("    {name:18}  {said}"));
        }
        for (name, ok, why) in &found.capabilities {
            let ok = if *ok { "yes" } else { "no" };
            line(&mut text, format_args!("    {name:18}  {ok}: {why}"));
        }
        let smoke = if found.smoke_failures.is_empty() {
            "ok".to_owned()
        } else {
            format!("FAILED: {}", found.smoke_failures.join("; "))
        };
        line(&mut text, format_args!("    smoke               {smoke}"));
        for tests in &found.tests {
            line(&mut text, format_args!("    {:18}  {}", tests.name, counts(tests)));
            for reason in &tests.skip_reasons {
                line(&mut text, format_args!("      skipped: {reason}"));
            }
            for name in &tests.failed {
                line(&mut text, format_args!("      FAILED: {name}"));
            }
            for said in tests.detail.lines() {
                line(&mut text, format_args!("        {said}"));
            }
        }
    }
    text.push('\n');
    text
}

fn markdown(answers: &[Answer]) -> String {
    let mut text = String::from(
        "| kernel | io_uring | driver | why | multishot accept | direct descriptors | conformance | smoke |\n|---|---|---|---|---|---|---|---|\n",
    );
    for answer in answers {
        if let Some(failure) = &answer.failure {
            line(
                &mut text,
                format_args!("| {} | | | FAILED: {} | | | | |", answer.kernel, one_line(failure)),
            );
        }
        for found in answer.found.iter().filter(|found| found.is_there) {
            let conformance = found.tests.iter().find(|tests| tests.name == "conformance");
            let smoke = if found.smoke_failures.is_empty() { "ok" } else { "FAILED" };
            line(
                &mut text,
                format_args!(
                    "| {} | {} | {} | {} | {} | {} | {} | {smoke} |",
                    answer.conditions.kernel,
                    found.setting.name(),
                    found.driver,
                    one_line(&found.why),
                    capability(found, "multishot accept"),
                    capability(found, "direct descriptors"),
                    conformance.map_or_else(|| "-".to_owned(), counts),
                ),
            );
        }
    }
    text
}

fn capability(found: &Found, name: &str) -> &'static str {
    match found.capabilities.iter().find(|(known, ..)| known == name) {
        Some((_, true, _)) => "yes",
        Some((_, false, _)) => "no",
        None => "-",
    }
}

fn counts(tests: &Tests) -> String {
    format!("{} passed, {} failed, {} skipped", tests.passed, tests.failed.len(), tests.skipped)
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '|'], " ")
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Kernel;
    use crate::matrix::answer::Setting;
    use crate::report::Conditions;

    #[test]
    fn every_form_tells_what_failed() {
        let mut plain = Found::new(Setting::Plain);
        plain.driver = "io_uring".into();
        plain.capabilities = vec![("direct descriptors".into(), false, "late".into())];
        let failed = vec!["m::b".to_owned()];
        plain.tests = vec![Tests {
            name: "conformance".into(),
            passed: 5,
            failed,
            skipped: 2,
            detail: "at x.rs".into(),
            ..Tests::default()
        }];
        let disabled = Found { is_there: false, ..Found::new(Setting::Disabled) };
        let conditions = Conditions { kernel: "6.1.0-1".into(), ..Conditions::default() };
        let answers = [
            Answer::of(Kernel::V6_1, conditions, vec![plain, disabled]),
            Answer::failed(Kernel::V5_10, "no such\nsuite".into()),
        ];
        assert!(!answers[0].is_good() && !answers[1].is_good());
        let text = show(&answers, Form::Table);
        for words in [
            "FAILED: m::b",
            "at x.rs",
            "no: late",
            "no such switch",
            "FAILED: no such",
            "5 passed, 1 failed, 2 skipped",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let table = show(&answers, Form::Markdown);
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(
            table.contains(
                "| 6.1.0-1 | as it is | io_uring |  | - | no | 5 passed, 1 failed, 2 skipped | ok |"
            ),
            "{table}"
        );
        assert!(show(&answers, Form::Json).contains("\"m::b\""));
    }
}
