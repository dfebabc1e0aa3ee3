//! Results as tables, with all reasons.

use super::answer::{Answer, Found, Tests};
use crate::report::{Page, Table};

/// Tables of all results and reasons, by kernel.
pub(crate) fn page(answers: &[Answer]) -> Page {
    let mut page = Page::default();
    for answer in answers {
        let Answer { conditions, kernel, failure, .. } = answer;
        page.words(format!(
            "Linux {} ({}), requested as {kernel}",
            conditions.kernel, conditions.kernel_package
        ));
        if let Some(failure) = failure {
            page.words(format!("FAILED: {failure}"));
        }
        for found in &answer.found {
            page.table(block(found));
            for tests in &found.tests {
                page.words(tests.detail.clone());
            }
        }
    }
    page
}

fn block(found: &Found) -> Table {
    let mut table = Table::new(["io_uring".to_owned(), found.setting.name().to_owned()]);
    if !found.is_there {
        table.row(["setting", "not supported by this kernel"]);
        return table;
    }
    for (name, driver) in &found.ways {
        table.row([name, driver]);
    }
    for (name, ok, why) in &found.capabilities {
        let ok = if *ok { "yes" } else { "no" };
        table.row([name.clone(), format!("{ok}: {why}")]);
    }
    table.row(["smoke".to_owned(), smoke(found)]);
    for tests in &found.tests {
        table.row([tests.name.clone(), counts(tests)]);
        for reason in &tests.skip_reasons {
            table.row([String::new(), format!("skipped: {reason}")]);
        }
        for name in &tests.failed {
            table.row([String::new(), format!("FAILED: {name}")]);
        }
    }
    table
}

fn smoke(found: &Found) -> String {
    match found.smoke_failures.join("; ") {
        failures if failures.is_empty() => "ok".to_owned(),
        failures => format!("FAILED: {failures}"),
    }
}

fn counts(tests: &Tests) -> String {
    format!("{} passed, {} failed, {} skipped", tests.passed, tests.failed.len(), tests.skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Kernel;
    use crate::matrix::answer::Setting;
    use crate::report::{Conditions, Form, json, show};

    #[test]
    fn every_form_tells_what_failed() {
        let mut plain = Found::new(Setting::Plain);
        plain.ways = vec![("default settings".into(), "io_uring: works".into())];
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
        let text = show(Form::Table, &answers, || page(&answers));
        for words in [
            "FAILED: m::b",
            "at x.rs",
            "io_uring: works",
            "no: late",
            "not supported by this kernel",
            "FAILED: no such",
            "5 passed, 1 failed, 2 skipped",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(json(&answers).contains("\"m::b\""));
    }
}
