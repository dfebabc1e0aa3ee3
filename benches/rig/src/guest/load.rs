//! One run of the load generator and what it reports.
//!
//! Does not know about: the server under load.

use serde::Deserialize;

use super::server::scheduled;
use crate::image::LOAD;
use crate::plan::{PATH, PORT, Row};
use crate::tool;

/// What the rig reads of the report.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Done {
    /// Requests with the right answer.
    pub(super) requests: u64,
    /// Requests without.
    pub(super) failed: u64,
}

/// Loads the server with `requests` requests in the way of `row`.
pub(super) fn run(row: &Row, requests: u64) -> Result<Done, String> {
    let mut argv: Vec<String> = [LOAD, "--quiet", "--output", "json", "--connections"].map(Into::into).into();
    argv.extend([row.in_flight.to_string(), "--requests".into(), requests.to_string()]);
    argv.extend(row.mode.load_args().iter().map(|&word| word.to_owned()));
    argv.push(format!("http://127.0.0.1:{PORT}{PATH}"));
    let done = scheduled(&argv, row.mode.is_batch()).output();
    let done = done.map_err(|error| format!("{LOAD} does not start: {error}"))?;
    // Exit code 1 comes with a report when requests failed, and without one when nothing could be asked.
    let report = String::from_utf8_lossy(&done.stdout);
    parse(&report).map_err(|error| {
        let said = tool::tail(&String::from_utf8_lossy(&done.stderr));
        format!("the load generator gave no report ({error}, {}): {said}", done.status)
    })
}

fn parse(report: &str) -> Result<Done, serde_json::Error> {
    serde_json::from_str(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_among_the_rest_of_a_report() {
        let report = r#"{"mode": "new", "elapsed_s": 0.5, "requests": 1999, "failed": 1, "failures": [{"kind": "reset", "count": 1}]}"#;
        assert_eq!(parse(report).unwrap(), Done { requests: 1999, failed: 1 });
        assert!(parse(r#"{"requests": 1}"#).is_err());
        assert!(parse("").is_err());
    }
}
