//! Options of the `dns` prober of blackbox_exporter.

use super::blackbox::{Module, SOURCE, resolve, typed};
use super::keys::{KEEP, Keys};
use doorbell_checks::options::{DnsCode, DnsRecord};
use doorbell_config::{Words as _, literal, quoted};
use serde_json::json;

const OVER_UDP: &str = "a dns check asks over UDP, and over TCP only if the answer is truncated";

/// Keys of which only one value has an equivalent: the value, and why other values have none.
const ONLY: [(&str, &str, &str); 4] = [
    ("dns_over_tls", "false", OVER_UDP),
    ("query_class", "IN", "a dns check asks for records of the class IN"),
    ("recursion_desired", "true", "a dns check asks for recursion"),
    ("transport_protocol", "udp", OVER_UDP),
];

/// Keys with expressions for the records of each section of an answer.
const RECORDS: [&str; 3] = ["validate_additional_rrs", "validate_answer_rrs", "validate_authority_rrs"];

/// Converts the options; `None` if a `dns` check cannot ask the question, or evaluate the answer.
pub(super) fn module(mut keys: Keys<'_>) -> Option<Module> {
    let is_expressible = keys.have_only(&ONLY) & !keys.has_any(&RECORDS);
    // The exporter ignores these options without DNS over TLS.
    drop(keys.table("tls_config"));
    let Some(name) = keys.text("query_name") else {
        keys.report_table("the module has no `query_name`", "add it");
        return None;
    };
    let mut module = typed("dns");
    module.insert("name".to_owned(), literal(name.value));
    let records: Vec<&str> = DnsRecord::WORDS.iter().map(|(word, _)| *word).collect();
    let instead = format!("add `record` to the module, one of {}", quoted(&records));
    match keys.text("query_type") {
        Some(record) if records.contains(&record.value) => {
            module.insert("record".to_owned(), record.value.into());
        }
        Some(record) => keys.report(&record, "a dns check does not ask for this type", &instead),
        None => keys.report_table("without `query_type` the exporter asks for ANY", &instead),
    }
    let codes = keys.texts("valid_rcodes");
    let is_known = |code: &str| DnsCode::WORDS.iter().any(|(word, _)| *word == code);
    // The exporter accepts an answer without records.
    let none = json!({ "min_answers": 0 });
    match *codes {
        [] => drop(module.insert("expect".to_owned(), none)),
        [code] if code.value == "NOERROR" => drop(module.insert("expect".to_owned(), none)),
        [code] if is_known(code.value) => {
            module.insert("expect".to_owned(), json!({ "code": code.value }));
        }
        [code, ..] => {
            let why = "a dns check expects one code: NOERROR, NXDOMAIN or REFUSED";
            keys.report(&code, why, KEEP);
        }
    }
    resolve(&mut keys, &mut module);
    let why = "a dns check compares records, not expressions";
    let instead = "write a module with `expect.contains`";
    keys.finish(&[
        (RECORDS[0], why, instead),
        (RECORDS[1], why, instead),
        (RECORDS[2], why, instead),
        SOURCE,
    ]);
    let is_whole = ["record", "expect"].iter().all(|key| module.contains_key(*key));
    (is_expressible && is_whole).then_some(module)
}
